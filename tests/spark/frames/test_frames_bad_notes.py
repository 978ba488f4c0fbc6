"""Bad rows are noted by each read of a frame, and a read that takes less takes nothing away."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.types import LongType, StructField, StructType

from headrace.model.objects import ObjectId, Route, S3Object
from spark.frames.batch_splits import FramePartition, splits_of
from spark.frames.frame_options import reading_settings
from spark.frames.inference import METADATA_FIELD
from spark.frames.log_entries import identity
from spark.frames.log_store import BadNotes, DirectoryStore, note_bad_rows
from spark.frames.reading import ReadTask
from spark.frames.source import HeadraceSource
from tests.support.http_bucket import HttpBucket, http_bucket

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
        # By another schema, say.
        ([(1, True), (2, False)], {_WHOLE: [0], _PART: [1]}),
        ([(3, True), (1, True)], {_WHOLE: [0]}),
    ],
)
def test_no_look_takes_away_what_is_noted(
    tmp_path: Path, reads: list[tuple[int, bool]], noted: dict[str, list[int]]
) -> None:
    """Each read meets so many of the bad rows of a split, and reads it to its end or not."""
    rows = [{"n": n} for n in range(3)]
    for count, is_whole in reads:
        note_bad_rows(DirectoryStore(tmp_path), _NAME, rows[:count], is_whole=is_whole)

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
                    **bucket.options,
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


_BAD = b'no JSON\n{"n":1}\n'
_LARGE = b'{"n":1}\n' * 600_000
"""More than what goes into one partition."""


@pytest.mark.parametrize(
    ("first", "later", "filters", "noted"),
    [
        ({"b": _BAD}, {"c": _BAD}, [], "abc"),
        ({"b": _BAD}, {"aa": _LARGE}, [], "ab"),
        ({"aa": _LARGE, "b": _BAD}, {"aa": None}, [], "ab"),
        ({"b": _BAD}, {}, [EqualTo(("_metadata", "key"), "in/a.jsonl")], "ab"),
        ({"b": _BAD}, {}, [EqualTo(("_metadata", "key"), "in/b.jsonl")], "ab"),
        # What was noted of it is true of its content, and stays.
        ({"b": _BAD}, {"b": None, "c": _BAD}, [], "abc"),
    ],
    ids=["one more", "others between", "one partition again", "a alone", "b alone", "one is gone"],
)
def test_a_row_is_noted_once(
    tmp_path: Path,
    first: dict[str, bytes],
    later: dict[str, bytes | None],
    filters: list[EqualTo],
    noted: str,
) -> None:
    """Whatever objects a read has, and whichever of them one task has."""
    with http_bucket() as bucket:
        for put, by in (({"a": _BAD, **first}, []), (later, filters)):
            for name, content in put.items():
                if content is None:
                    del bucket.objects[f"in/{name}.jsonl"]
                else:
                    bucket.objects[f"in/{name}.jsonl"] = content
            _read(bucket, tmp_path, *by)

    assert sorted(_keys(tmp_path)) == [f"in/{name}.jsonl" for name in noted]


def test_what_an_earlier_version_has_noted(tmp_path: Path) -> None:
    """It had one file for a task, by the task's first object, whichever had the bad rows."""
    with http_bucket() as bucket:
        bucket.objects = {"in/a.jsonl": b'{"n":1}\n', "in/b.jsonl": _BAD}
        file = tmp_path / f"bad/000000000000/{identity(_id(bucket.objects['in/a.jsonl'])).hex()}-0.jsonl"
        file.parent.mkdir(parents=True)
        file.write_bytes(b'{"key":"in/b.jsonl"}\n')
        _read(bucket, tmp_path)

    assert _keys(tmp_path) == ["in/b.jsonl"]


class _Counted(DirectoryStore):
    """Counts the calls that a store in a bucket is billed for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls: list[str] = []

    def replace(self, name: str, content: bytes) -> None:
        """As of the protocol."""
        self.calls.append("replace")
        super().replace(name, content)

    def read(self, name: str) -> bytes | None:
        """As of the protocol."""
        self.calls.append("read")
        return super().read(name)

    def names(self, folder: str) -> list[str]:
        """As of the protocol."""
        self.calls.append("names")
        return super().names(folder)

    def remove(self, names: Iterable[str]) -> None:
        """As of the protocol."""
        self.calls.append("remove")
        super().remove(names)


@pytest.mark.parametrize(
    ("bad", "calls"),
    [(set(), []), ({3}, ["replace", "remove", "remove"]), ({3, 5}, ["replace", "remove"] * 2 + ["remove"])],
)
def test_objects_without_bad_rows_cost_no_call_each(tmp_path: Path, bad: set[int], calls: list[str]) -> None:
    """A frame may have 100,000 of them."""
    store = _Counted(tmp_path)
    notes = BadNotes(lambda: store, batch=None)
    for number in range(1000):
        found = S3Object(id=ObjectId("b", f"{number}", "e"), size=1, last_modified_ms=0)
        (split,) = splits_of(found, Route(topic="t"))
        notes.begin(split)
        if number in bad:
            notes.add({"n": number})
        notes.end(is_whole=True)
    notes.close()

    assert store.calls == calls
    assert sorted(_noted(tmp_path).values()) == [[number] for number in sorted(bad)]


def _keys(root: Path) -> list[str]:
    files = sorted((root / "bad").rglob("*.jsonl"))
    return [json.loads(line)["key"] for file in files for line in file.read_text().splitlines()]


def _read(bucket: HttpBucket, state: Path, *filters: EqualTo) -> None:
    """All rows of a frame that these filters do not leave out."""
    options = {
        "path": "s3://bucket/in/",
        "rows": "columns",
        "metadata.column": "true",
        "errors.tolerance": "all",
        "state.path": str(state),
        **bucket.options,
        "tasks.max": "2",
    }
    reader = HeadraceSource(options).reader(StructType([StructField("n", LongType()), METADATA_FIELD]))
    reader.pushFilters(list(filters))
    for part in reader.partitions():
        for _ in reader.read(part):
            pass
