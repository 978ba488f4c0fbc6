"""CPU of encoding on one core, beside the plainest loop that a library offers: `python -m bench.encode`.

Values of about 200 bytes, from memory, no Kafka and no S3: converted, encoded, and compressed where said.
Seconds are CPU seconds of this process; every figure is the best of several runs.
"""

import csv
import gzip
import io
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.decode import AVRO_SCHEMA, table
from headrace.conversion.encoders import new_encoder
from headrace.conversion.sink_records import RecordConverter
from headrace.formats.encoding import schema_of
from headrace.formats.records.registry import frame
from headrace.model.columns import TIMESTAMP_CREATED, KafkaRecords, column_of
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression, JsonFormat, SubjectNameStrategy
from headrace.options.row_settings import PLAIN_CSV
from headrace.options.schema_settings import RegistrySettings
from headrace.options.sink_settings import (
    ConverterKind,
    Converters,
    ConverterSettings,
    NullValues,
    OutputField,
    OutputFormat,
    OutputSettings,
    SchemaCompatibility,
)

ROWS = 100_000
FETCH = 10_000
RUNS = 3
REGISTRY = RegistrySettings(
    urls=("mock://bench",),
    properties=(),
    auto_register=True,
    subject_name_strategy=SubjectNameStrategy.TOPIC,
)
BYTES = ConverterSettings()
JSON = ConverterSettings(kind=ConverterKind.JSON)
AVRO = ConverterSettings(kind=ConverterKind.AVRO, registry=REGISTRY)

Fetched = list[KafkaRecords]


def output(wanted: OutputFormat, *, envelope: bool = False, **changes: Any) -> OutputSettings:
    """The defaults of the settings, not compressed, values alone or with all fields."""
    plain = OutputSettings(
        layout=LayoutName.HEADRACE,
        format=wanted,
        fields=tuple(OutputField) if envelope else (OutputField.VALUE,),
        envelope=envelope,
        compression=Compression.NONE,
        compression_level=None,
        separator=b"\n",
        csv=PLAIN_CSV,
        json_format=JsonFormat.ISO,
        schema_compatibility=SchemaCompatibility.NONE,
        null_values=NullValues.WRITE,
    )
    return replace(plain, **changes)


def fetched(values: list[bytes]) -> Fetched:
    """The values as they come from a consumer, some thousand at a time."""
    found = []
    for first in range(0, len(values), FETCH):
        part = values[first : first + FETCH]
        count = len(part)
        found.append(
            KafkaRecords(
                topic="orders",
                partition=0,
                offsets=np.arange(first, first + count, dtype=np.int64),
                timestamps_ms=np.arange(count, dtype=np.int64) + 1_704_067_200_000,
                timestamp_types=np.full(count, TIMESTAMP_CREATED, np.int64),
                keys=column_of([b"key-%d" % number for number in range(count)]),
                values=column_of(part),
            )
        )
    return found


def ours(batches: Fetched, how: OutputSettings, value: ConverterSettings) -> int:
    """Bytes of one object of all records."""
    converter = RecordConverter(Converters(key=BYTES, value=value, header=BYTES), how)
    encoder = None
    size = 0
    for batch in batches:
        for run in converter.convert(batch).runs:
            encoder = encoder or new_encoder(how, schema_of(how, run))
            encoder.add(run)
            size += len(encoder.drain())
    assert encoder is not None
    return size + len(encoder.finish())


def best(work: Callable[[], object]) -> float:
    """CPU microseconds a record, the least of RUNS."""
    found = []
    for _ in range(RUNS):
        begin = time.process_time()
        work()
        found.append((time.process_time() - begin) / ROWS * 1e6)
    return min(found)


def _avro_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "at": int(row["at"].timestamp() * 1_000_000)} for row in rows]


def _framed(rows: list[dict[str, Any]]) -> list[bytes]:
    schema = fastavro.parse_schema(AVRO_SCHEMA)
    head = frame(REGISTRY, "orders-value", json.dumps(AVRO_SCHEMA))
    values = []
    for row in _avro_rows(rows):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        values.append(head + out.getvalue())
    return values


def _read_framed(values: list[bytes]) -> list[Any]:
    schema = fastavro.parse_schema(AVRO_SCHEMA)
    return [fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None) for value in values]


def main() -> None:
    """Print each format beside its plainest loop."""
    rows = table().slice(0, ROWS).to_pylist()
    values = [json.dumps(row, default=str, separators=(",", ":")).encode() for row in rows]
    framed = _framed(rows)
    keys = [f"key-{number % FETCH}" for number in range(ROWS)]

    def checked() -> bytes:
        return b"".join(value + b"\n" for value in values if json.loads(value) is not None)

    def enveloped() -> bytes:
        lines = []
        for offset, (key, value) in enumerate(zip(keys, values, strict=True)):
            row = {"topic": "orders", "partition": 0, "offset": offset, "timestamp": 1_704_067_200_000}
            lines.append(json.dumps({**row, "key": key, "value": json.loads(value)}, separators=(",", ":")))
        return "\n".join(lines).encode()

    def write_csv() -> str:
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writerows(json.loads(value) for value in values)
        return out.getvalue()

    def write_avro() -> bytes:
        out = io.BytesIO()
        fastavro.writer(out, fastavro.parse_schema(AVRO_SCHEMA), _read_framed(framed), codec="deflate")
        return out.getvalue()

    def write_parquet(read: Callable[[], list[Any]]) -> bytes:
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(read()), out, compression="zstd")
        return out.getvalue()

    text, packed = fetched(values), fetched(framed)
    gzipped = output(OutputFormat.JSONL, compression=Compression.GZIP)
    parquet = output(OutputFormat.PARQUET, compression=Compression.ZSTD)
    cases: list[tuple[str, str, Callable[[], object], Fetched, OutputSettings, ConverterSettings]] = [
        ("jsonl, values, checked", "json.loads", checked, text, output(OutputFormat.JSONL), BYTES),
        ("jsonl, values, gzip", "the same, gzip", lambda: gzip.compress(checked(), 6), text, gzipped, BYTES),
        (
            "jsonl, envelope",
            "json.loads, dumps",
            enveloped,
            text,
            output(OutputFormat.JSONL, envelope=True),
            BYTES,
        ),
        (
            "jsonl from avro",
            "fastavro, dumps",
            lambda: [json.dumps(row, default=str) for row in _read_framed(framed)],
            packed,
            output(OutputFormat.JSONL),
            AVRO,
        ),
        ("csv from JSON", "csv.DictWriter", write_csv, text, output(OutputFormat.CSV), JSON),
        (
            "avro from avro, deflate",
            "fastavro, fastavro",
            write_avro,
            packed,
            output(OutputFormat.AVRO, compression=Compression.GZIP),
            AVRO,
        ),
        (
            "parquet from avro, zstd",
            "fastavro, from_pylist",
            lambda: write_parquet(lambda: _read_framed(framed)),
            packed,
            parquet,
            AVRO,
        ),
        (
            "parquet from JSON, zstd",
            "json.loads, from_pylist",
            lambda: write_parquet(lambda: [json.loads(value) for value in values]),
            text,
            parquet,
            JSON,
        ),
        (
            "parquet of bytes, envelope",
            "none",
            lambda: None,
            text,
            output(OutputFormat.PARQUET, envelope=True, compression=Compression.ZSTD),
            BYTES,
        ),
    ]
    size = sum(map(len, values)) / ROWS
    print(f"{size:.0f} bytes a value, {ROWS:,} records, best of {RUNS}, us of CPU a record")
    print(f"{'':28}{'Headrace':>10}{'plain loop':>12}{'ratio':>8}")
    for label, loop, plain, batches, how, value in cases:
        mine = best(lambda batches=batches, how=how, value=value: ours(batches, how, value))  # type: ignore[misc]  # mypy takes the defaults for arguments
        theirs = best(plain)
        print(f"{label:28}{mine:10.2f}{theirs:12.2f}{theirs / mine:8.1f}  ({loop})")


if __name__ == "__main__":
    # One thread each, so that CPU seconds are seconds of one core.
    pa.set_cpu_count(1)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # noqa: TID251  # a script's own set-up
    main()
