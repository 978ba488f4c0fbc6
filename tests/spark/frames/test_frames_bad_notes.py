"""Bad rows are noted by each read of a frame, and a read that takes less takes nothing away."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.types import LongType, StructField, StructType

from headrace.model.objects import ObjectId, Route, S3Object
from spark.frames.batch_splits import FramePartition, splits_of
from spark.frames.frame_options import reading_settings
from spark.frames.inference import METADATA_FIELD
from spark.frames.log_store import DirectoryStore, note_bad_rows
from spark.frames.reading import ReadTask
from spark.frames.source import HeadraceSource
from tests.support.http_bucket import http_bucket

_NAME = "000000000000/ab-0"
_WHOLE = f"bad/{_NAME}.jsonl"
_PART = f"bad/{_NAME}.part.jsonl"


def _noted(root: Path) -> dict[str, list[int]]:
    found = sorted(path for path in root.rglob("*.jsonl"))
    return {
        str(path.relative_to(root)): [json.loads(line)["n"] for line in path.read_text().splitlines()]
        for path in found
    }


@pytest.mark.parametrize(
    ("reads", "noted"),
    [
        ([(3, "ab"), (1, "")], {_WHOLE: [0, 1, 2]}),
        ([(3, "ab"), (2, ""), (3, "ab")], {_WHOLE: [0, 1, 2]}),
        ([(2, ""), (1, "")], {_PART: [0, 1]}),
        ([(1, ""), (2, "")], {_PART: [0, 1]}),
        ([(1, ""), (3, "ab")], {_WHOLE: [0, 1, 2]}),
        # A frame of more objects that begins with the same one.
        ([(1, "a"), (2, "")], {_WHOLE: [0], _PART: [0, 1]}),
        # A filter of the query leaves the second object out.
        ([(3, "ab"), (2, "a")], {_WHOLE: [0, 1, 2]}),
        ([(3, ""), (2, "a")], {_WHOLE: [0, 1], _PART: [2]}),
        # The first one is read by another format, say.
        ([(3, "ab"), (1, "a")], {_WHOLE: [0, 2]}),
    ],
)
def test_no_read_takes_away_what_is_noted(
    tmp_path: Path, reads: list[tuple[int, str]], noted: dict[str, list[int]]
) -> None:
    """Each read meets so many of the bad rows 0 and 1 of a and 2 of b, and has read these objects whole."""
    rows = [{"key": key, "n": n} for n, key in enumerate("aab")]
    for count, whole in reads:
        note_bad_rows(DirectoryStore(tmp_path), _NAME, rows[:count], read_whole=whole)

    assert _noted(tmp_path) == noted


def test_a_look_at_a_frame_that_was_read_whole(tmp_path: Path) -> None:
    """As `show` and `limit` do: the task is closed once it has given some rows."""
    lines = [b"no JSON", *(b'{"n":%d}' % n for n in range(100_000)), b"no JSON", b"neither"]
    content = b"\n".join(lines)
    with http_bucket() as bucket:
        bucket.objects["in/a.jsonl"] = content
        task = ReadTask(
            reading_settings(
                {
                    "path": "s3://bucket/in/",
                    "rows": "columns",
                    "errors.tolerance": "all",
                    "state.path": str(tmp_path),
                    "aws.s3.endpoint": bucket.url,
                    "aws.access.key.id": "x",
                    "aws.secret.access.key": "y",
                }
            ),
            pa.schema([("n", pa.int64())]),
            frozenset(),
            is_inferred=False,
        )
        found = S3Object(id=_id(content), size=len(content), last_modified_ms=0)
        partition = FramePartition(tuple(splits_of(found, Route(topic="t"))), batch=None, is_begun=False)

        assert sum(batch.num_rows for batch in task.read(partition)) == 100_000
        (file,) = (tmp_path / "bad").rglob("*.jsonl")
        noted = file.read_bytes()
        rows = task.read(partition)
        next(rows)
        rows.close()  # type: ignore[attr-defined]  # a generator

    assert noted.count(b"\n") == 3
    assert [each.read_bytes() for each in (tmp_path / "bad").rglob("*.jsonl")] == [noted]


def _id(content: bytes) -> ObjectId:
    return ObjectId("bucket", "in/a.jsonl", hashlib.md5(content, usedforsecurity=False).hexdigest())


def test_a_read_by_a_filter_of_a_frame_that_was_read_whole(tmp_path: Path) -> None:
    """The objects that the filter leaves out have their notes still."""
    with http_bucket() as bucket:
        bucket.objects = {f"in/{name}.jsonl": b'{"n":1}\nno JSON' for name in "ab"}
        options = {
            "path": "s3://bucket/in/",
            "rows": "columns",
            "metadata.column": "true",
            "errors.tolerance": "all",
            "state.path": str(tmp_path),
            "aws.s3.endpoint": bucket.url,
            "aws.access.key.id": "x",
            "aws.secret.access.key": "y",
        }
        schema = StructType([StructField("n", LongType()), METADATA_FIELD])
        for filters in ([], [EqualTo(("_metadata", "key"), "in/a.jsonl")]):
            reader = HeadraceSource(options).reader(schema)
            reader.pushFilters(list(filters))
            (part,) = reader.partitions()
            assert sum(rows.num_rows for rows in reader.read(part)) == 2 - len(filters)

    (file,) = (tmp_path / "bad").rglob("*.jsonl")
    keys = [json.loads(line)["key"] for line in file.read_text().splitlines()]
    assert keys == ["in/a.jsonl", "in/b.jsonl"]
