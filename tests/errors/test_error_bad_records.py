"""A bad record of each kind, in each format, for each tolerance (docs/errors.md)."""

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.formats.records.registry import varint
from headrace.model.ledger_entry import State
from headrace.model.positions import BlockPosition, BytePosition, Position, RowPosition
from tests.errors.harness import RECORD_MAX, SECRET, Stand, json_lines, stand
from tests.headrace.formats.avro_files import container, datum
from tests.support import aws
from tests.support.discovery import log_lines, metric
from tests.support.kafka import Record
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

BEFORE: Final = [{"id": "a"}, {"id": "b"}]
BEHIND: Final = [{"id": "c"}, {"id": "d"}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """An object with one bad record, where that stands, and its bytes if they can be cut out."""

    body: bytes
    position: Position
    raw: bytes | None


def jsonl(bad: bytes) -> Bad:
    """The bad line between two good ones and two others."""
    before = json_lines(*BEFORE)
    body = before + bad + b"\n" + json_lines(*BEHIND)
    return Bad(body=body, position=BytePosition(len(before)), raw=bad if len(bad) < RECORD_MAX else None)


LINES: Final[Mapping[str, Bad]] = {
    "not_json": jsonl(b'{"id":"%s", broken' % SECRET),
    "not_utf8": jsonl(b'{"id":"%s\xff\xfe"}' % SECRET),
    "too_large": jsonl(b'{"id":"x","fill":"%s"}' % (SECRET * 1000)),
    "too_deep": jsonl(b'{"id":"x","deep":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "missing_field": jsonl(b'{"other":"%s"}' % SECRET),
}

_TEXT: Final[Mapping[str, Any]] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["known"]}},
    ],
}


def avro(schema: Mapping[str, Any], bad: bytes) -> Bad:
    """Two blocks, with the bad datum in the first one between two good ones and another."""
    rows = [datum(schema, {**row, "kind": "known"}) for row in [*BEFORE, *BEHIND]]
    blocks = [(4, rows[0] + rows[1] + bad + rows[2]), (1, rows[3])]
    first_block = len(container(schema, []))
    return Bad(body=container(schema, blocks), position=BlockPosition(first_block, 2), raw=bad)


def text(content: bytes, *, kind: int = 0) -> bytes:
    """A datum of the text schema; a `kind` above 0 is none of its symbols."""
    return varint(1) + varint(len(content)) + content + varint(kind)


AVRO: Final[Mapping[str, Bad]] = {
    # Its end can be found; where it cannot (a union's branch that is not there) the block is damaged.
    "not_avro": avro(_TEXT, text(SECRET, kind=7)),
    "not_utf8": avro(_TEXT, text(SECRET + b"\xff\xfe")),
    "too_large": avro(_TEXT, text(SECRET * 1000)),
}


def parquet(column: str, values: list[bytes | None]) -> bytes:
    """A file of one column of text, whatever the bytes are."""
    binary = pa.array(values, pa.binary())
    table = pa.table({column: pa.Array.from_buffers(pa.string(), len(values), binary.buffers())})
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def rows(bad: bytes) -> Bad:
    """The bad row between two good ones and two others."""
    return Bad(body=parquet("id", [b"a", b"b", bad, b"c", b"d"]), position=RowPosition(0, 2), raw=None)


PARQUET: Final[Mapping[str, Bad]] = {
    "not_utf8": rows(SECRET + b"\xff\xfe"),
    "too_large": rows(SECRET * 1000),
}


@dataclass(frozen=True, slots=True)
class Uploaded:
    """One of these objects on a stand, come to its end."""

    on: Stand
    bad: Bad
    reason: str
    key: str
    topic: str
    end: Mapping[str, Any]


def upload_all(on: Stand, kinds: Mapping[str, Bad]) -> Callable[[str], Uploaded]:
    """Put one object of each kind, each for a topic of its own, and wait for their ends."""
    topics = {reason: on.topic() for reason in kinds}
    for reason, topic in topics.items():
        on.put(f"{topic}/{reason}", kinds[reason].body)

    def found(reason: str) -> Uploaded:
        key = f"{topics[reason]}/{reason}"
        return Uploaded(on, kinds[reason], reason, key, topics[reason], on.await_end(key))

    return found


def ids(uploaded: Uploaded) -> list[str]:
    """The ids of what is in its topic."""
    return [json.loads(value)["id"] for value in uploaded.on.values(uploaded.topic)]


def is_quarantined_in_front_of_it(uploaded: Uploaded) -> None:
    """Nothing after the bad record is produced, at once, and the rest of the service does not mind."""
    end, on = uploaded.end, uploaded.on
    assert (end["outcome"], end["reason"], end["records"], end["attempts"]) == (
        "quarantined",
        uploaded.reason,
        2,
        0,
    )
    assert end["level"] == "error"
    assert ids(uploaded) == ["a", "b"]
    entry = on.entry(uploaded.key)
    assert entry is not None
    assert (entry.state, entry.reason, entry.position) == (
        State.QUARANTINED,
        uploaded.reason,
        uploaded.bad.position,
    )
    assert on.failures(uploaded.key) == []
    assert on.readiness()[0]


def is_a_dead_letter(uploaded: Uploaded) -> None:
    """The rest of the object is produced; the record is in the dead letter topic with all that is known."""
    end, on = uploaded.end, uploaded.on
    assert (end["outcome"], end["records"], end["bad"]) == ("done", 4, 1)
    assert ids(uploaded) == ["a", "b", "c", "d"]
    (letter,) = on.dead(uploaded.key)
    headers = dict(letter.headers)
    if uploaded.bad.raw is None or len(uploaded.bad.raw) > RECORD_MAX:
        assert not letter.value
        assert int(headers.pop("headrace.size") or b"") > 0
    else:
        assert letter.value == uploaded.bad.raw
    assert headers == expected_headers(uploaded, letter)


def expected_headers(uploaded: Uploaded, letter: Record) -> dict[str, bytes | None]:
    """Every header that the contract names; of the message only that it is there, without any content."""
    headers = dict(letter.headers)
    message = headers["__connect.errors.exception.message"]
    assert message
    assert SECRET not in message
    position = json.loads(headers["headrace.position"] or b"")
    match uploaded.bad.position:
        case BytePosition(byte):
            assert position == {"byte": byte}
        case BlockPosition(block, record):
            assert position == {"block": block, "record": record}
        case RowPosition(group, row):
            assert position == {"group": group, "row": row}
    found = aws.s3().head_object(Bucket=uploaded.on.route.bucket, Key=uploaded.key)
    return {
        "__connect.errors.topic": uploaded.topic.encode(),
        "__connect.errors.partition": b"",
        "__connect.errors.connector.name": uploaded.on.name.encode(),
        "__connect.errors.task.id": headers["__connect.errors.task.id"],
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": headers["__connect.errors.class.name"],
        "__connect.errors.exception.class.name": uploaded.reason.encode(),
        "__connect.errors.exception.message": message,
        "headrace.bucket": uploaded.on.route.bucket.encode(),
        "headrace.key": uploaded.key.encode(),
        "headrace.etag": found["ETag"].strip('"').encode(),
        "headrace.version_id": b"",
        "headrace.position": headers["headrace.position"],
    }


@pytest.fixture(scope="module")
def strict_lines(stands: dict[str, Stand]) -> Callable[[str], Uploaded]:
    """Bad lines of each kind with `errors.tolerance=none`."""
    return upload_all(stands["none"], LINES)


@pytest.fixture(scope="module")
def tolerant_lines(stands: dict[str, Stand]) -> Callable[[str], Uploaded]:
    """Bad lines of each kind with `errors.tolerance=all`."""
    return upload_all(stands["all"], LINES)


@pytest.mark.parametrize("reason", LINES)
def test_a_bad_line_quarantines(strict_lines: Callable[[str], Uploaded], reason: str) -> None:
    """JSON Lines, tolerance none."""
    is_quarantined_in_front_of_it(strict_lines(reason))


@pytest.mark.parametrize("reason", LINES)
def test_a_bad_line_becomes_a_dead_letter(tolerant_lines: Callable[[str], Uploaded], reason: str) -> None:
    """JSON Lines, tolerance all."""
    is_a_dead_letter(tolerant_lines(reason))


def test_the_gauge_and_the_counter_tell_of_it(strict: Stand) -> None:
    """What an alert is made of; other objects go on and the service stays ready."""
    topic = strict.topic()

    def sample(name: str, **labels: str) -> float:
        return metric(strict.service, name, connector=strict.name, **labels)

    quarantined = strict.service.status()["objects"]["quarantined"]
    counted = sample("headrace_bad_records_total", reason="not_json")
    strict.put(f"{topic}/bad", LINES["not_json"].body)
    strict.await_end(f"{topic}/bad")
    strict.goes_on(topic)
    until_sync(
        lambda: (
            sample("headrace_objects", state="quarantined") == quarantined + 1
            and sample("headrace_bad_records_total", reason="not_json") == counted + 1
        ),
        what="both metrics",
    )
    assert strict.readiness() == (True, "ready\n")


def test_bad_records_are_logged_now_and_then_and_never_shown(tolerant: Stand) -> None:
    """Two thousand of them in twenty objects, some lines: a worker says one in ten seconds."""
    topic = tolerant.topic()
    before, began = len(log_lines(tolerant.service, "bad_record")), time.monotonic()
    keys = [f"{topic}/many-{number}" for number in range(20)]
    bad = b'{"id":"%s", broken\n' % SECRET
    for number, key in enumerate(keys):
        tolerant.put(key, bad * 100 + json_lines({"id": number}))
    for key in keys:
        assert tolerant.await_end(key)["bad"] == 100
    said = log_lines(tolerant.service, "bad_record")[before:]
    # Two workers, and as many again where they were started anew.
    assert len(said) <= 4 + 2 * (time.monotonic() - began) / 10
    assert all(line["level"] == "warning" and "position" in line for line in said)
    assert SECRET not in tolerant.service.log.read_bytes()


@pytest.mark.long
def test_without_a_dead_letter_topic_they_are_logged_and_left_out(tmp_path: Path) -> None:
    """`errors.tolerance=all` alone: the line in the log is all that is left of the record."""
    with stand(tmp_path, "loose", errors__tolerance="all") as on:
        uploaded = upload_all(on, {"not_json": LINES["not_json"]})("not_json")
        assert (uploaded.end["outcome"], uploaded.end["records"], uploaded.end["bad"]) == ("done", 4, 1)
        assert ids(uploaded) == ["a", "b", "c", "d"]
        (line,) = log_lines(on.service, "bad_record")
        assert line["object"].endswith(uploaded.key)
        assert (line["reason"], line["becomes"], line["position"]) == (
            "not_json",
            "left out",
            {"byte": len(json_lines(*BEFORE))},
        )


@pytest.fixture(scope="module", params=["none", "all"])
def format_stand(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Stand]]:
    """A stand for a binary format, of either tolerance; one at a time."""
    open_now: dict[str, tuple[Any, Stand]] = {}

    def close() -> None:
        for maker, _ in open_now.values():
            maker.__exit__(None, None, None)
        open_now.clear()

    def make(input_format: str) -> Stand:
        if input_format not in open_now:
            close()
            folder = tmp_path_factory.mktemp(input_format)
            maker = stand(folder, input_format, tolerant=request.param == "all", input__format=input_format)
            open_now[input_format] = (maker, maker.__enter__())
        return open_now[input_format][1]

    yield make
    close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("input_format", "kinds"),
    [pytest.param("avro", AVRO, id="avro"), pytest.param("parquet", PARQUET, id="parquet")],
)
def test_a_bad_row_of_a_binary_format(
    format_stand: Callable[[str], Stand], input_format: str, kinds: Mapping[str, Bad]
) -> None:
    """Quarantined in front of it, or a dead letter, as a bad line is."""
    on = format_stand(input_format)
    found = upload_all(on, kinds)
    for reason in kinds:
        if on.is_tolerant:
            is_a_dead_letter(found(reason))
        else:
            is_quarantined_in_front_of_it(found(reason))


@pytest.mark.long
@pytest.mark.parametrize("input_format", ["avro", "parquet"])
def test_rows_without_the_key_s_field(format_stand: Callable[[str], Stand], input_format: str) -> None:
    """Every row of such an object is bad: none is in the topic, and each is accounted for."""
    on = format_stand(input_format)
    schema = {"type": "record", "name": "Row", "fields": [{"name": "other", "type": "string"}]}
    body = (
        container(schema, [(3, datum(schema, {"other": "x"}) * 3)])
        if input_format == "avro"
        else parquet("other", [b"x"] * 3)
    )
    topic = on.topic()
    on.put(f"{topic}/without", body)
    end = on.await_end(f"{topic}/without")
    if on.is_tolerant:
        assert (end["outcome"], end["records"], end["bad"]) == ("done", 0, 3)
        assert len(on.dead(f"{topic}/without")) == 3
    else:
        assert (end["outcome"], end["reason"], end["records"]) == ("quarantined", "missing_field", 0)
    assert on.values(topic) == []
