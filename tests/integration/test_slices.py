"""`ordering=none`: a large object over several slots, whatever is killed while they are at it."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.stage import Service
from ingest.ledger import LedgerEntry, LedgerKey, SliceKey, State, decode_entry, decode_key
from ingest.objects import ObjectId
from ingest.settings.choices import InputFormat
from tests.integration.test_restarts import kill_workers
from tests.support import aws, kafka
from tests.support.service import Road, new_road
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


WRITERS: dict[InputFormat, Callable[[], bytes]] = {
    InputFormat.JSONL: _jsonl,
    InputFormat.AVRO: _avro,
    InputFormat.PARQUET: _parquet,
}


@pytest.fixture
def road(tmp_path: Path) -> Road:
    """An empty road."""
    return new_road(tmp_path)


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
    road: Road, services: list[Service], input_format: InputFormat, victim: str | None
) -> None:
    """Each row once over several slots, also with a kill -9 in the middle; one entry is left in the end."""
    content = WRITERS[input_format]()
    uploaded = aws.s3().put_object(Bucket=road.bucket, Key="large", Body=content)
    service = road.service(
        aws.unique("slices"),
        input__format=input_format,
        ordering="none",
        job__max__bytes=2 << 20,
        transaction__boundary__interval__ms=200,
        max__bytes__per__second=len(content) // 3,
    )
    services.append(service)
    service.start(ready_seconds=180)
    until_sync(lambda: 0 < service.status()["records_total"] < _ROWS, seconds=60, what="the middle")
    ledger = f"{json.loads(service.file.read_text())['name']}-offsets"
    begun = {key for key in _entries(ledger) if isinstance(key, SliceKey)}
    if victim == "worker":
        kill_workers(service.pid)
    elif victim == "driver":
        service.kill()
        service.start(ready_seconds=180)
    until_sync(lambda: service.status()["objects"]["done"] == 1, seconds=120, what="the end of the object")
    assert service.stop() == 0

    numbers = [json.loads(record.value or b"")["n"] for record in kafka.committed(road.topic)]
    assert sorted(numbers) == list(range(_ROWS))
    entries = _entries(ledger)
    assert begun
    assert {key for key, entry in entries.items() if isinstance(key, SliceKey) and entry is not None} == set()
    whole = entries[ObjectId(road.bucket, "large", uploaded["ETag"].strip('"'))]
    assert whole is not None
    assert (whole.state, whole.records, whole.bad, whole.cuts) == (State.DONE, _ROWS, 0, None)


def _entries(ledger: str) -> dict[LedgerKey, LedgerEntry | None]:
    """What the ledger says of objects and slices: the last record of each key, None behind a tombstone."""
    found: dict[LedgerKey, LedgerEntry | None] = {}
    for record in kafka.committed(ledger):
        key = decode_key(record.key or b"")
        if isinstance(key, ObjectId | SliceKey):
            found[key] = None if record.value is None else decode_entry(record.value)
    return found
