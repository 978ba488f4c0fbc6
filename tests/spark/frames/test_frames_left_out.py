"""Rows that tasks leave out: what is noted of them, and times that no column holds."""

import json
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from headrace.model.columns import RecordTarget, RowBatch, column_of
from headrace.model.errors import FrameRefused
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import Split
from spark.frames.batch_splits import FramePartition
from spark.frames.inference import RECORDS, arrow_schema_of
from spark.frames.record_rows import record_batch
from spark.frames.source import HeadraceSource
from tests.headrace.s3.scripted_s3 import Say, ScriptedS3, said
from tests.support.http_bucket import HttpBucket, http_bucket

_NUMBERS: Final = StructType([StructField("n", LongType())])
_MANY: Final = 300_000
_LAST_MS: Final = 9_223_372_036_854_775


@pytest.fixture
def bucket() -> Iterator[HttpBucket]:
    """A bucket that is empty."""
    with http_bucket() as made:
        yield made


def test_a_time_that_no_timestamp_of_spark_holds(bucket: HttpBucket, tmp_path: Path) -> None:
    """Nanoseconds in place of milliseconds became other times, without a word."""
    given = (0, _LAST_MS, _LAST_MS + 1, 1_764_246_000_000_000_000, 2**63 - 1)
    bucket.objects["in/a.jsonl"] = b"\n".join(b'{"ts":%d}' % ms for ms in given)
    options = {
        "path": "s3://bucket/in/",
        "input.format": "jsonl",
        "record.timestamp": "field:ts",
        "state.path": str(tmp_path),
        **bucket.options,
    }

    def times(schema: StructType = RECORDS, **more: str) -> list[Any]:
        reader = HeadraceSource({**options, **more}).reader(schema)
        return [
            at
            for part in reader.partitions()
            for rows in reader.read(part)
            for at in rows.column(0).cast("int64" if "timestamp" in schema.names else "binary").to_pylist()
        ]

    only_times = StructType([RECORDS["timestamp"]])
    with pytest.raises(FrameRefused, match=r"\(not_a_timestamp\): the timestamp is more than 292,277 years"):
        times(only_times)
    assert times(only_times, **{"errors.tolerance": "all"}) == [0, _LAST_MS * 1000]
    assert len(times(StructType([RECORDS["value"]]))) == len(given)


@pytest.mark.parametrize(
    ("min_age_ms", "store_year", "keys"),
    [
        ("0", 2026, ["in/old", "in/young"]),
        ("1000", 2027, ["in/old"]),
        ("1000", 2999, ["in/old"]),
        ("1000", 3000, ["in/old", "in/young"]),
    ],
)
def test_an_object_from_after_now_by_the_clock_of_this_machine(
    min_age_ms: str, store_year: int, keys: list[str]
) -> None:
    """It may lag the store's, by which ages are; an object that needs none is read, however young it is."""
    entries = "".join(
        f"<Contents><Key>{key}</Key><ETag>&quot;e&quot;</ETag><Size>1</Size>"
        f"<LastModified>{year}-01-01T00:00:00.000Z</LastModified></Contents>"
        for key, year in (("in/old", 2026), ("in/young", 2999))
    )
    page = f"<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
    date = formatdate(datetime(store_year, 1, 1, tzinfo=UTC).timestamp(), usegmt=True)
    with ScriptedS3(lambda _: Say(said(page.encode(), f"Date: {date}"))) as server:
        options = {
            "path": "s3://bucket/in/",
            "object.min.age.ms": min_age_ms,
            "aws.s3.endpoint": server.url,
            "aws.access.key.id": "x",
            "aws.secret.access.key": "y",
        }
        parts = HeadraceSource(options).reader(RECORDS).partitions()

    assert [split.object.id.key for part in parts for split in part.splits] == keys


def test_bad_rows_before_the_last_row_that_a_query_takes(bucket: HttpBucket, tmp_path: Path) -> None:
    """Of `limit`, `show` and `first` no task comes to its end: what they leave out was noted nowhere."""
    lines = [b"no JSON", *(b'{"n":%d}' % n for n in range(_MANY)), b"no JSON", b'{"n":0}']
    bucket.objects["in/a.jsonl"] = b"\n".join(lines)
    reader = HeadraceSource(
        {
            "path": "s3://bucket/in/",
            "rows": "columns",
            "errors.tolerance": "all",
            "state.path": str(tmp_path),
            **bucket.options,
        }
    ).reader(_NUMBERS)
    (part,) = reader.partitions()

    def noted() -> list[int]:
        files = (tmp_path / "bad").rglob("*.jsonl")
        return [
            json.loads(line)["position"]["byte"] for file in files for line in file.read_text().splitlines()
        ]

    assert isinstance(part, FramePartition)
    rows = reader.read(part)
    assert isinstance(rows, Generator)
    assert next(rows).num_rows < _MANY
    assert noted() == [0]
    rows.close()
    assert sum(batch.num_rows for batch in reader.read(part)) == _MANY + 1
    assert len(noted()) == 2


@pytest.mark.parametrize("column", ["timestamp", "_metadata"])
def test_a_time_of_an_object_that_no_timestamp_of_spark_holds(column: str) -> None:
    """Of a key's name, say; it was an error of a library."""
    found = S3Object(id=ObjectId("bucket", "in/a", "e"), size=1, last_modified_ms=0)
    route = Route(topic="t", timestamp_ms=_LAST_MS + 1)
    rows = RowBatch(values=column_of([b"v"]), after=BytePosition(1), positions=BytePosition)
    schema = arrow_schema_of(StructType([RECORDS[column]]))
    target = RecordTarget(topic="t", timestamp_ms=route.timestamp_ms)

    with pytest.raises(FrameRefused, match="s3://bucket/in/a cannot be read: the timestamp is more than"):
        record_batch(rows, Split(object=found, route=route), target, schema)
