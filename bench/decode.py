"""Speed of decoding on one core, beside the plainest loop that a library offers: `python -m bench.decode`.

Rows of about 200 bytes, from memory, no Kafka. Seconds are CPU seconds of this process, so that a busy
machine disturbs little; every figure is the best of several runs.
"""

import csv
import gzip
import io
import json
import os
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.formats import DECODERS, DecodeOptions
from headrace.options.choices import (
    Compression,
    CsvType,
    Envelope,
    FieldSource,
    InputFormat,
    JsonFormat,
    KeySource,
    NoSource,
    ProduceTime,
    RowSource,
    ValueFormat,
)
from headrace.options.row_settings import CsvSettings, TextSettings
from headrace.options.settings import FormatSettings

ROWS = 200_000
TYPED = CsvSettings(types=(("id", CsvType.LONG), ("amount", CsvType.DECIMAL), ("rate", CsvType.DOUBLE)))
STARTS = TextSettings(start="^{")
RUNS = 3

AVRO_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "rate", "type": "double"},
        {"name": "note", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "paid", "type": "boolean"},
        {"name": "parent", "type": ["null", "long"]},
    ],
}


@dataclass
class Memory:
    """An object in memory."""

    content: bytes
    name: str = "memory"
    fetched_bytes: int = 0

    @property
    def size(self) -> int:
        """Length of the content."""
        return len(self.content)

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The content in chunks of a mebibyte."""
        stop = self.size if end is None else min(end, self.size)
        for at in range(begin, stop, 1 << 20):
            yield self.content[at : min(at + (1 << 20), stop)]

    def read_at(self, offset: int, length: int) -> bytes:
        """A range of the content."""
        return self.content[offset : offset + length]


def options(input_format: InputFormat, **changes: Any) -> DecodeOptions:
    """The defaults of the settings, for one format."""
    key: KeySource = changes.pop("key_source", NoSource())
    values: dict[str, Any] = {
        "input_format": input_format,
        "compression": Compression.AUTO,
        "chunk_bytes": 4096,
        "record_max_bytes": 1 << 20,
        "decode_unit_max_bytes": 64 << 20,
        "key_source": key,
        "key_format": ValueFormat.AUTO,
        "value_source": RowSource(),
        "value_format": ValueFormat.AUTO,
        "json_format": JsonFormat.ISO,
        "headers": NoSource(),
        "timestamp": ProduceTime(),
        "envelope": Envelope.NONE,
        "envelope_base64": (),
        "registry": None,
    }
    return DecodeOptions(format=FormatSettings(**values | changes), topic="bench")


def table() -> Any:
    """The rows, as an Arrow table."""
    numbers = np.arange(ROWS)
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "id": numbers,
            "customer": [f"customer-{number % 1000:04d}" for number in range(ROWS)],
            "amount": np.round(rng.random(ROWS) * 1000, 2),
            "rate": rng.random(ROWS),
            "note": [f"the note of order {number} is of a middling length" for number in range(ROWS)],
            "at": pa.array(rng.integers(0, 1 << 50, ROWS)).cast(pa.timestamp("us", "UTC")),
            "paid": rng.random(ROWS) > 0.5,
            "parent": pa.array([None if number % 3 else number for number in range(ROWS)], pa.int64()),
        }
    )


def ours(source: Memory, how: DecodeOptions) -> int:
    """Rows that the decoder of the product gives."""
    return sum(len(batch) for batch in DECODERS[how.format.input_format](source, None, options=how))


def best(count: Callable[[], int]) -> float:
    """Rows a CPU second, the best of RUNS."""
    rates = []
    for _ in range(RUNS):
        begin = time.process_time()
        rows = count()
        rates.append(rows / (time.process_time() - begin))
    return max(rates)


def _avro(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    bare = [{**row, "at": int(row["at"].timestamp() * 1_000_000)} for row in rows]
    fastavro.writer(out, fastavro.parse_schema(AVRO_SCHEMA), bare, codec="snappy", sync_interval=64_000)
    return out.getvalue()


def _csv(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def _bgzip(data: bytes) -> bytes:
    out = []
    for at in range(0, len(data), 65_280):
        part = data[at : at + 65_280]
        packer = zlib.compressobj(6, wbits=-15)
        body = packer.compress(part) + packer.flush()
        out += [b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff\x06\x00BC\x02\x00"]
        out += [struct.pack("<H", len(body) + 25), body, struct.pack("<II", zlib.crc32(part), len(part))]
    return b"".join(out)


def _parquet(arrow: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(arrow, out)
    return out.getvalue()


def main() -> None:
    """Print each format beside its plainest loop."""
    arrow = table()
    rows = arrow.to_pylist()
    lines = b"".join(json.dumps(row, default=str, separators=(",", ":")).encode() + b"\n" for row in rows)
    jsonl, packed = Memory(lines), Memory(gzip.compress(lines, 6))
    avro, parquet = Memory(_avro(rows)), Memory(_parquet(arrow))
    array, table_text = (
        Memory(b"[\n" + lines.rstrip(b"\n").replace(b"\n", b",\n") + b"\n]"),
        Memory(_csv(rows)),
    )
    bgzip = Memory(_bgzip(lines))
    print(f"{len(lines) / ROWS:.0f} bytes a line, {ROWS:,} rows, best of {RUNS}, rows a CPU second")

    def loads() -> int:
        return sum(1 for line in lines.splitlines() if json.loads(line) is not None)

    def read_avro() -> int:
        return sum(len(json.dumps(row, default=str)) > 0 for row in fastavro.reader(io.BytesIO(avro.content)))

    def read_parquet() -> int:
        found = pq.read_table(io.BytesIO(parquet.content)).to_pylist()
        return sum(len(json.dumps(row, default=str)) > 0 for row in found)

    def read_csv() -> int:
        reader = csv.DictReader(io.StringIO(table_text.content.decode(), newline=""))
        return sum(len(json.dumps(row)) > 0 for row in reader)

    def read_array() -> int:
        return sum(len(json.dumps(row)) > 0 for row in json.loads(array.content))

    def read_lines() -> int:
        return sum(1 for line in io.BytesIO(lines) if line)

    def read_starts() -> int:
        start = re.compile(b"^{")
        return sum(1 for line in io.BytesIO(lines) if start.search(line))

    plain = {"json": best(read_array), "csv": best(read_csv)}
    plain |= {"text": best(read_lines), "start": best(read_starts)}
    plain |= {"jsonl": best(loads), "avro": best(read_avro), "parquet": best(read_parquet)}
    typed = options(InputFormat.CSV, csv=TYPED)
    keyed = options(InputFormat.JSONL, key_source=FieldSource(("id",)))
    cases = [
        ("jsonl, checked", "jsonl", "json.loads", jsonl, options(InputFormat.JSONL)),
        ("jsonl, gzip, checked", "jsonl", "json.loads, without gzip", packed, options(InputFormat.JSONL)),
        ("jsonl, bgzip, checked", "jsonl", "json.loads, without gzip", bgzip, options(InputFormat.JSONL)),
        ("jsonl, key from a field", "jsonl", "json.loads", jsonl, keyed),
        ("json array, checked", "json", "json.loads, dumps", array, options(InputFormat.JSON)),
        ("csv to JSON", "csv", "csv.DictReader, dumps", table_text, options(InputFormat.CSV)),
        ("csv to JSON, typed", "csv", "csv.DictReader, dumps", table_text, typed),
        ("text, lines", "text", "for line in file", jsonl, options(InputFormat.TEXT)),
        ("text, start pattern", "start", "re.search a line", jsonl, options(InputFormat.TEXT, text=STARTS)),
        ("avro to JSON", "avro", "fastavro.reader, dumps", avro, options(InputFormat.AVRO)),
        ("parquet to JSON", "parquet", "to_pylist, dumps", parquet, options(InputFormat.PARQUET)),
    ]
    print(f"{'':26}{'Headrace':>12}{'plain loop':>12}{'ratio':>8}")
    for label, kind, loop, source, how in cases:
        rate = best(lambda source=source, how=how: ours(source, how))  # type: ignore[misc]  # mypy takes the defaults for arguments
        print(f"{label:26}{rate:12,.0f}{plain[kind]:12,.0f}{rate / plain[kind]:8.1f}  ({loop})")


if __name__ == "__main__":
    # One thread each, so that CPU seconds are seconds of one core.
    pa.set_cpu_count(1)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # noqa: TID251  # a script's own set-up
    main()
