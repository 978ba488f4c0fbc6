"""`ordering=none`: a large object over several slots, whatever is killed while they are at it."""

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.stage import Service
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State, decode_entry, decode_key
from headrace.model.objects import ObjectId
from headrace.options.choices import InputFormat
from tests.integration.test_restarts import kill_workers
from tests.support import aws, kafka
from tests.support.service import Route, new_route
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_ROWS = 40_000
_FIELDS = 16


def _numbers() -> Any:
    """Numbers that hardly compress, and the row's own first: some 6 MiB."""
    noise = np.random.default_rng(7).integers(0, 2**62, (_ROWS, _FIELDS))
    return pa.table({"n": np.arange(_ROWS), **{f"c{index}": noise[:, index] for index in range(_FIELDS)}})


def _jsonl() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in _numbers().to_pylist())


def _avro() -> bytes:
    table = _numbers()
    fields = [{"name": name, "type": "long"} for name in table.schema.names]
    out = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})
    fastavro.writer(out, schema, table.to_pylist(), sync_interval=20_000)
    return out.getvalue()


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(_numbers(), out, row_group_size=1_000, compression="none", use_dictionary=False)
    return out.getvalue()


def _csv() -> bytes:
    rows = _numbers().to_pylist()
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return "\n".join(lines).encode()


# What a configuration needs so that objects of the format can be cut.
OPTIONS: dict[InputFormat, dict[str, str]] = {InputFormat.CSV: {"csv__quote": "", "csv__types": "n:long"}}
WRITERS: dict[InputFormat, Callable[[], bytes]] = {
    InputFormat.JSONL: _jsonl,
    InputFormat.CSV: _csv,
    InputFormat.TEXT: _jsonl,
    InputFormat.AVRO: _avro,
    InputFormat.PARQUET: _parquet,
}


@pytest.fixture
def route(tmp_path: Path) -> Route:
    """An empty route."""
    return new_route(tmp_path)


@pytest.fixture
def services() -> Iterator[list[Service]]:
    """Services of a test, stopped afterwards if they still run."""
    made: list[Service] = []
    yield made
    for service in made:
        service.stop()


def _is_long(input_format: InputFormat, victim: str | None) -> bool:
    return (input_format, victim) != (InputFormat.PARQUET, None)


@pytest.mark.parametrize(
    ("input_format", "victim"),
    [
        pytest.param(
            input_format,
            victim,
            id=f"{input_format}, {victim or 'nobody'} killed",
            marks=[pytest.mark.long] if _is_long(input_format, victim) else [],
        )
        for input_format in WRITERS
        for victim in (None, "worker", "driver")
    ],
)
def test_slices_are_exactly_the_object(
    route: Route, services: list[Service], input_format: InputFormat, victim: str | None
) -> None:
    """Each row once over several slots, also with a kill -9 in the middle; one entry is left in the end."""
    content = WRITERS[input_format]()
    uploaded = aws.s3().put_object(Bucket=route.bucket, Key="large", Body=content)
    service = route.service(
        aws.unique("slices"),
        input__format=input_format,
        ordering="none",
        job__max__bytes=2 << 20,
        transaction__boundary__interval__ms=200,
        max__bytes__per__second=len(content) // 3,
        **OPTIONS.get(input_format, {}),
    )
    services.append(service)
    service.start(ready_seconds=300)
    until_sync(lambda: 0 < service.status()["records_total"] < _ROWS, seconds=60, what="the middle")
    ledger = f"{json.loads(service.file.read_text())['name']}-offsets"
    begun = {key for key in _entries(ledger) if isinstance(key, SplitKey)}
    if victim == "worker":
        kill_workers(service.pid)
    elif victim == "driver":
        service.kill()
        service.start(ready_seconds=300)
    until_sync(lambda: service.status()["objects"]["done"] == 1, seconds=120, what="the end of the object")
    assert service.stop() == 0

    numbers = [json.loads(record.value or b"")["n"] for record in kafka.committed(route.topic)]
    assert sorted(numbers) == list(range(_ROWS))
    entries = _entries(ledger)
    assert begun
    assert {key for key, entry in entries.items() if isinstance(key, SplitKey) and entry is not None} == set()
    whole = entries[ObjectId(route.bucket, "large", uploaded["ETag"].strip('"'))]
    assert whole is not None
    assert (whole.state, whole.records, whole.bad, whole.cuts) == (State.DONE, _ROWS, 0, None)


def _entries(ledger: str) -> dict[LedgerKey, LedgerEntry | None]:
    """What the ledger says of objects and slices: the last record of each key, None behind a tombstone."""
    found: dict[LedgerKey, LedgerEntry | None] = {}
    for record in kafka.committed(ledger):
        key = decode_key(record.key or b"")
        if isinstance(key, ObjectId | SplitKey):
            found[key] = None if record.value is None else decode_entry(record.value)
    return found


def test_a_changed_configuration_is_refused_for_every_split(route: Route, services: list[Service]) -> None:
    """Chunks of another size begin elsewhere: bytes over a cut would be lost, and the object still be done.

    Set back and replayed it goes on, and every byte is there once.
    """
    chunks = [b"%08d" % number * 128 for number in range(2_000)]
    aws.s3().put_object(Bucket=route.bucket, Key="large", Body=b"".join(chunks))
    name, size = aws.unique("changed"), len(chunks[0])

    def start(chunk_bytes: int, **more: object) -> Service:
        service = route.service(
            name,
            input__format="bytes",
            ordering="none",
            job__max__bytes=1 << 20,
            transformer__max__buffer__size=chunk_bytes,
            **more,
        )
        services.append(service)
        service.start(ready_seconds=300)
        return service

    def states() -> set[State]:
        entries = _entries(f"{name}-offsets")
        return {entry.state for key, entry in entries.items() if isinstance(key, SplitKey) and entry}

    first = start(size, max__bytes__per__second=600_000)
    until_sync(lambda: State.DONE in states(), seconds=60, what="the first split")
    first.kill()
    before = len(list(kafka.committed(route.topic)))
    assert before < len(chunks)

    other = start(3 * size)
    until_sync(lambda: other.status()["objects"]["quarantined"] == 1, seconds=60, what="the refusal")
    refused = [entry for entry in _entries(f"{name}-offsets").values() if entry and entry.cuts]
    assert [entry.reason for entry in refused] == ["configuration_changed"]
    assert other.stop() == 0
    assert len(list(kafka.committed(route.topic))) == before

    again = start(size)
    replay = [str(Path(sys.executable).with_name("headrace")), "replay", str(again.file), "--yes"]
    subprocess.run(replay, check=True, timeout=120, capture_output=True)
    until_sync(lambda: again.status()["objects"]["done"] == 1, seconds=60, what="the end of the object")
    assert again.stop() == 0
    assert sorted(record.value or b"" for record in kafka.committed(route.topic)) == chunks
