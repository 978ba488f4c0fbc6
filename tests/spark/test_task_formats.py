"""Each format through a real task, from a real bucket to a real broker."""

import gzip
import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.model.ledger_entry import SplitKey, State
from headrace.model.positions import BytePosition, MemberPosition, position_from_dict
from headrace.model.slot_protocol import BatchOutcome
from headrace.options.choices import InputFormat
from spark.slots import BatchCommitted, BatchFinished
from tests.headrace.formats import endless
from tests.headrace.formats.archives import tarred, zipped
from tests.spark.scripted_driver import ScriptedDriver
from tests.support import flights
from tests.support.kafka import TopicFactory, committed

pytestmark = pytest.mark.parts

Drivers = Callable[..., ScriptedDriver]
_ROWS = 1500


@pytest.mark.parametrize("input_format", list(InputFormat))
def test_flights_arrive_field_by_field(driver: Drivers, input_format: InputFormat) -> None:
    """JSON of each row in the object's order, or chunks that are the object when put together."""
    rows = flights.table().slice(0, _ROWS)
    content = flights.WRITERS[input_format](rows)
    one = driver(input_format=input_format, **flights.options(input_format))
    found = one.put("flights", content)
    one.ready()

    assert one.run(one.split(found)).outcome is BatchOutcome.CLEAN

    values = [record.value for record in one.records()]
    entry = one.entries()[found.id]
    assert (entry.state, entry.records, entry.bad) == (State.DONE, len(values), 0)
    if input_format is InputFormat.BYTES:
        assert b"".join(value or b"" for value in values) == content
        return
    assert len(values) == _ROWS
    for value, row in zip(values, rows.to_pylist(), strict=True):
        flights.assert_same(value, flights.expected(row, input_format))


def parquet(rows: int, **how: Any) -> bytes:
    """Numbers that do not compress, in row groups of a tenth of the rows."""
    noise = np.random.default_rng(1).integers(0, 2**62, (rows, 8))
    table = pa.table({"n": np.arange(rows), **{f"c{index}": noise[:, index] for index in range(8)}})
    out = io.BytesIO()
    pq.write_table(table, out, **{"row_group_size": max(1, rows // 10), "compression": "none"} | how)
    return out.getvalue()


def avro(rows: int) -> bytes:
    """Blocks of 16 kB."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    out = io.BytesIO()
    fastavro.writer(
        out, fastavro.parse_schema(schema), ({"n": n} for n in range(rows)), sync_interval=rows // 10
    )
    return out.getvalue()


@pytest.mark.parametrize("input_format", [InputFormat.AVRO, InputFormat.PARQUET])
def test_slices_give_each_row_once(driver: Drivers, input_format: InputFormat) -> None:
    """Cut by the task that was asked, and produced slice by slice in entries of their own."""
    one = driver(input_format=input_format)
    found = one.put("object", avro(5000) if input_format is InputFormat.AVRO else parquet(5000))
    one.ready()

    ((_, cuts),) = one.run(one.split(found, splits_wanted=4)).cuts
    works = [one.split(found, begin=begin, end=end) for begin, end in pairwise(cuts)]
    assert one.entries() == {}
    assert one.run(*works).outcome is BatchOutcome.CLEAN

    assert len(works) == 4
    assert [json.loads(record.value or b"")["n"] for record in one.records()] == list(range(5000))
    assert set(one.entries()) == {SplitKey(found.id, begin, end) for begin, end in pairwise(cuts)}


@pytest.mark.parametrize(
    "pack", [zipped, lambda members: gzip.compress(tarred(members))], ids=["zip", "tar.gz"]
)
def test_members_of_an_archive_arrive_from_any_position(
    driver: Drivers, pack: Callable[[list[tuple[str, bytes]]], bytes]
) -> None:
    """A large object, read by ranges or as a stream, and one that continues within its second member."""
    one = driver(input_format="jsonl", input_archive="auto", record_headers="source")
    noise = b"".join(b'"%s"\n' % os.urandom(500).hex().encode() for _ in range(3000))
    lines = noise.splitlines()
    content = pack([("a/first.jsonl", noise), ("a/second.jsonl", b"1\n2\n3\n")])
    assert len(content) > 1 << 20
    whole, begun = one.put("whole", content), one.put("begun", content)
    one.ready()

    assert one.run(one.split(whole)).outcome is BatchOutcome.CLEAN

    records = one.records()
    assert [record.value for record in records] == [*lines, b"1", b"2", b"3"]
    headers = [dict(record.headers) for record in records]
    assert headers[0]["headrace.member"] == b"a/first.jsonl"
    assert headers[-1]["headrace.member"] == b"a/second.jsonl"
    start = position_from_dict(json.loads(headers[-2]["headrace.position"] or b""))
    assert isinstance(start, MemberPosition)

    assert one.run(one.split(begun, start=start)).outcome is BatchOutcome.CLEAN

    assert [record.value for record in one.records()[len(records) :]] == [b"2", b"3"]
    entry = one.entries()[begun.id]
    assert (entry.state, entry.position) == (State.DONE, replace(start, within=BytePosition(6)))


def test_what_was_fetched_is_told_by_object(driver: Drivers) -> None:
    """A Parquet object is read by ranges, about once; what a row group more costs is its own bytes."""
    one = driver(input_format="parquet")
    large, small = one.put("large", parquet(100_000)), one.put("small", parquet(100))
    assert large.size > 6 << 20
    one.ready()

    finished = one.run(one.split(large, begin=8, end=10), one.split(small))

    told = [event.committed.fetched for event in one.seen if isinstance(event, BatchCommitted)]
    fetched = {
        identity: sum(each.get(identity, 0) for each in [*told, finished.fetched])
        for identity in (large.id, small.id)
    }
    assert large.size * 0.2 < fetched[large.id] < large.size * 0.25
    assert fetched[small.id] == small.size


@pytest.mark.parametrize("letters_wanted", [False, True], ids=["quarantined", "dead letter"])
def test_a_record_above_the_topics_own_limit_is_found_beforehand(
    driver: Drivers, topic: TopicFactory, *, letters_wanted: bool
) -> None:
    """`max.message.bytes` of the topic counts as `record.max.bytes` does: nothing is sent and refused."""
    letters = topic("letters")
    tolerant = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": letters}
    one = driver(topic_config={"max.message.bytes": "20000"}, **(tolerant if letters_wanted else {}))
    large = b'{"n":1,"x":"%s"}\n' % os.urandom(12_000).hex().encode()
    found = one.put("object", b'{"n":0}\n' + large + b'{"n":2}\n')
    one.ready()

    finished = one.run(one.split(found))

    assert finished.outcome is BatchOutcome.CLEAN
    entry = one.entries()[found.id]
    if letters_wanted:
        assert [json.loads(record.value or b"")["n"] for record in one.records()] == [0, 2]
        (letter,) = one.records(letters)
        assert dict(letter.headers)["headrace.size"] == b"%d" % (len(large) - 1)
        assert b"the topic's max.message.bytes (20000)" in (
            dict(letter.headers)["__connect.errors.exception.message"] or b""
        )
        assert (entry.state, entry.bad) == (State.DONE, 1)
    else:
        assert len(one.records()) == 1
        assert (entry.state, entry.reason) == (State.QUARANTINED, "too_large")


def test_a_dead_letter_is_cut_to_its_topics_own_limit(driver: Drivers, topic: TopicFactory) -> None:
    """A bad row that its topic would take and the dead letter topic would not leaves only its size."""
    letters = topic("letters", config={"max.message.bytes": "5000"})
    one = driver(errors_tolerance="all", errors_deadletterqueue_topic_name=letters)
    fits, large = b"{" + b"x" * 1000, b"{" + os.urandom(4000).hex().encode()
    found = one.put("object", fits + b"\n" + large + b"\n1\n")
    one.ready()

    assert one.run(one.split(found)).outcome is BatchOutcome.CLEAN

    first, second = one.records(letters)
    assert first.value == fits
    assert second.value == b""
    assert dict(second.headers)["headrace.size"] == b"%d" % len(large)
    assert (one.entries()[found.id].state, one.entries()[found.id].bad) == (State.DONE, 2)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("packer", [endless.gzipped, endless.zstandarded], ids=["gzip", "zstd"])
@pytest.mark.parametrize("has_lines", [True, False], ids=["short lines", "a line without end"])
def test_a_bomb_is_delivered_or_set_aside(driver: Drivers, packer: Any, *, has_lines: bool) -> None:
    """Half a GiB out of less than a MiB: lines are records, a line without end is a bad one; memory stays."""
    mebibytes, line = 512, b'{"id":1,"text":"%s"}\n' % (b"x" * 45)
    part = line * ((1 << 20) // len(line)) if has_lines else b"x" * (1 << 20)
    one = driver()
    found = one.put("bomb", b"".join(packer(part, mebibytes)))
    assert found.size < 2 << 20
    one.ready()
    worker = one.worker_pid(0)
    assert one.slot_pool.grant(0, one.batch(one.split(found), max_seconds=600))

    finished = one.expect(BatchFinished, seconds=800).finished

    assert (finished.outcome, finished.failures) == (BatchOutcome.CLEAN, ())
    entry = one.entries()[found.id]
    if has_lines:
        count = len(part) // len(line) * mebibytes
        assert (entry.state, entry.records) == (State.DONE, count)
        assert sum(1 for _ in committed(one.topic, seconds=300)) == count
    else:
        assert (entry.state, entry.reason, entry.records) == (State.QUARANTINED, "too_large", 0)
    status = Path(f"/proc/{worker}/status").read_text()
    peak_kib = int(status.partition("VmHWM:")[2].split()[0])
    assert peak_kib < 400 << 10
