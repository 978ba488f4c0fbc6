"""Bad rows are noted by each read of a frame, and a read that takes less takes nothing away."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.model.objects import ObjectId, Route, S3Object
from spark.frames.batch_splits import FramePartition, splits_of
from spark.frames.frame_options import reading_settings
from spark.frames.log_store import DirectoryStore, note_bad_rows
from spark.frames.reading import ReadTask
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
        ([(3, True), (1, False)], {_WHOLE: [0, 1, 2]}),
        ([(3, True), (2, False), (3, True)], {_WHOLE: [0, 1, 2]}),
        ([(2, False), (1, False)], {_PART: [0, 1]}),
        ([(1, False), (2, False)], {_PART: [0, 1]}),
        ([(1, False), (3, True)], {_WHOLE: [0, 1, 2]}),
        # A frame of more objects that begins with the same one.
        ([(1, True), (2, False)], {_WHOLE: [0], _PART: [0, 1]}),
    ],
)
def test_no_read_takes_away_what_is_noted(
    tmp_path: Path, reads: list[tuple[int, bool]], noted: dict[str, list[int]]
) -> None:
    """Each read meets so many bad rows, and is whole or is not."""
    for count, is_whole in reads:
        note_bad_rows(DirectoryStore(tmp_path), _NAME, [{"n": n} for n in range(count)], is_whole=is_whole)

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
