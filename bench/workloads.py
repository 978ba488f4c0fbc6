"""What the benchmark has everybody read: objects of one kind, and the rows in them."""

import gzip
import io
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from bench.archive_rows import CSV_FIELDS, aiven_csv, aiven_jsonl
from bench.delays import put_in_parts
from bench.lines import lines
from bench.stage import Stage

_UPLOADERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Objects of `rows` records each; `body` makes one from the number of its first row and their count.

    `parts` above 0: it is lines, and put in so many parts. `options` are Headrace's besides.
    """

    name: str
    title: str
    objects: int
    rows: int
    body: Callable[[int, int], bytes]
    input_format: str = "jsonl"
    counts_objects: bool = False
    """True when objects a second are what matters, and bare GETs the ceiling."""
    parts: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    plain_format: str = ""
    """Where rows are those of an archive: how they are read without a layout, as values and no more."""
    most_rounds: int = 1_000
    """Fewer than the others where a round takes minutes."""
    steady_objects: int = 0
    """So many that Headrace reads for about twenty seconds, where a start counts for little; 0: `objects`."""
    script_objects: int = 0
    """So many of the steady ones are the plain script's, which would take minutes for all; 0: all."""
    has_cluster: bool = False
    """True when Headrace is measured on two Spark workers too, where it is steady."""
    is_steady: bool = False

    @property
    def records(self) -> int:
        """Records in all objects together."""
        return self.objects * self.rows

    @property
    def amount(self) -> int:
        """What a rate of this workload counts."""
        return self.objects if self.counts_objects else self.records

    @property
    def unit(self) -> str:
        """The unit of its rates."""
        return "objects/s" if self.counts_objects else "records/s"

    @property
    def bucket(self) -> str:
        """The bucket that holds its objects."""
        return f"headrace-bench-{self.name}"

    def without_layout(self) -> "Workload":
        """The same rows as they stand in the objects of an archive, which is not known to be one."""
        return replace(self, input_format=self.plain_format, options={})

    def steady(self) -> "Workload":
        """The same with objects for about twenty seconds."""
        return replace(self, objects=self.steady_objects or self.objects, is_steady=True)

    def of_script(self) -> "Workload":
        """What the plain script reads of it."""
        of_it = self.script_objects if self.is_steady else 0
        return replace(self, objects=min(of_it or self.objects, self.objects))

    def scaled(self, scale: float) -> "Workload":
        """The same with fewer objects (a smaller one), for a quick look at the benchmark itself."""
        if self.parts:
            parts = max(2, round(self.parts * scale))
            return replace(self, parts=parts, rows=self.rows // self.parts * parts)
        return replace(self, objects=max(2, round(self.objects * scale)))

    def upload(self, on_stage: Stage) -> None:
        """Put the objects into their bucket."""
        on_stage.make_bucket(self.bucket)

        def put(number: int) -> None:
            if self.parts:
                rows = self.rows // self.parts
                parts = [(number * self.rows + part * rows, rows) for part in range(self.parts)]
                put_in_parts(on_stage, self.bucket, f"in/{number:06}", parts)
                return
            body = self.body(number * self.rows, self.rows)
            on_stage.s3.put_object(Bucket=self.bucket, Key=f"in/{number:06}", Body=body)

        with ThreadPoolExecutor(_UPLOADERS) as pool:
            list(pool.map(put, range(self.objects)))


def _gzip(first: int, count: int) -> bytes:
    return gzip.compress(lines(first, count), 6)


def _zstd(first: int, count: int) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(lines(first, count))


def _rows(first: int, count: int) -> list[dict[str, Any]]:
    """Orders of middling width, each different; about 200 bytes as JSON."""
    return [
        {
            "id": number,
            "customer": f"customer-{number % 1000:04d}",
            "amount": (number * 7919 % 100_000) / 100,
            "note": f"the note of order {number} is of a middling length, and then some more of it",
            "paid": number % 2 == 0,
            "parent": None if number % 3 else number,
        }
        for number in range(first, first + count)
    ]


_AVRO_SCHEMA: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "note", "type": "string"},
            {"name": "paid", "type": "boolean"},
            {"name": "parent", "type": ["null", "long"]},
        ],
    }
)


def _avro(first: int, count: int) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, _AVRO_SCHEMA, _rows(first, count), codec="snappy", sync_interval=64_000)
    return out.getvalue()


def _parquet(first: int, count: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(_rows(first, count)), out)
    return out.getvalue()


def _parquet_nested(first: int, count: int) -> bytes:
    rows = [
        {"id": row["id"], "customer": {"name": row["customer"], "paid": row["paid"]}, "items": _items(row)}
        for row in _rows(first, count)
    ]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def _items(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"sku": f"sku-{row['id'] % 97}", "price": row["amount"], "count": n} for n in (1, 2, 3)]


def _chunks(first: int, count: int) -> bytes:
    """Chunks of 4096 bytes, each different."""
    return b"".join(json.dumps(number).encode().ljust(4096, b".") for number in range(first, first + count))


WORKLOADS: Final = (
    Workload(
        name="jsonl",
        title="JSON Lines",
        objects=40,
        rows=50_000,
        body=lines,
        steady_objects=400,
        has_cluster=True,
    ),
    Workload(name="gzip", title="JSON Lines, gzip", objects=20, rows=50_000, body=_gzip, steady_objects=400),
    Workload(
        name="small", title="5,000 small objects", objects=5_000, rows=10, body=lines, counts_objects=True
    ),
)
_OF_AIVEN: Final = {
    "input__layout": "aiven",
    # As in an archive, all records of an object are of one partition.
    "file__name__template": "in/{{partition:padding=false}}",
    "restore__partition": "modulo",
}
RESTORES: Final = (
    Workload(
        name="restore-jsonl",
        title="restore of Aiven's JSON Lines",
        objects=60,
        rows=50_000,
        body=aiven_jsonl,
        steady_objects=140,
        options=_OF_AIVEN,
        plain_format="jsonl",
    ),
    Workload(
        name="restore-csv",
        title="restore of Aiven's csv",
        objects=60,
        rows=50_000,
        body=aiven_csv,
        steady_objects=180,
        input_format="csv",
        options=_OF_AIVEN | {"format__output__fields": CSV_FIELDS},
        plain_format="text",
    ),
)
MORE_WORKLOADS: Final = (
    *RESTORES,
    Workload(name="zstd", title="JSON Lines, zstd", objects=20, rows=50_000, body=_zstd, steady_objects=400),
    Workload(
        name="avro",
        title="Avro to JSON",
        objects=20,
        rows=50_000,
        body=_avro,
        input_format="avro",
        steady_objects=300,
        script_objects=40,
    ),
    Workload(
        name="parquet",
        title="Parquet to JSON",
        objects=20,
        rows=50_000,
        body=_parquet,
        input_format="parquet",
        steady_objects=300,
        script_objects=40,
    ),
    Workload(
        name="nested",
        title="Parquet, nested, to JSON",
        objects=10,
        rows=50_000,
        body=_parquet_nested,
        input_format="parquet",
        steady_objects=200,
        script_objects=20,
    ),
    Workload(
        name="bytes",
        title="bytes, chunks of 4 KiB",
        objects=40,
        rows=2_500,
        body=_chunks,
        input_format="bytes",
        steady_objects=300,
    ),
    Workload(
        name="large",
        title="one object of 2 GiB, in slices",
        objects=1,
        rows=215 * 50_000,
        parts=215,
        body=lines,
        options={"ordering": "none"},
        most_rounds=2,
    ),
)
