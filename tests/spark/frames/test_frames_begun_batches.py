"""A batch of a stream that is in the log, and comes again under other options."""

import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from headrace.model.errors import FrameRefused
from headrace.model.slot_protocol import Split
from spark.frames.inference import RECORDS
from spark.frames.source import HeadraceSource
from tests.headrace.formats.archives import zipped
from tests.support.http_bucket import HttpBucket, http_bucket
from tests.support.until import until_sync

_ROWS: Final = 50_000
_LINES: Final = b"".join(b'{"n":%d,"text":"%s"}\n' % (n, b"x" * 40) for n in range(_ROWS))
_ARRAY: Final = b"[\n" + b",\n".join(_LINES.splitlines()) + b"\n]\n"
_NUMBERS: Final = StructType([StructField("n", LongType())])


@pytest.fixture
def bucket() -> Iterator[HttpBucket]:
    """A bucket that is empty."""
    with http_bucket() as made:
        yield made


class Query:
    """One query with its log and its place, which each start continues."""

    def __init__(self, bucket: HttpBucket, folder: Path) -> None:
        self.options = {
            "path": "s3://bucket/in/",
            "state.path": str(folder),
            "split.bytes": str(1 << 20),
            "poll.interval.ms": "200",
            **bucket.options,
        }
        self._end: dict[str, Any] = {}

    def read(self, **more: str) -> list[tuple[int, list[Any]]]:
        """Splits and rows of each partition of the first batch; underscores of options are dots."""
        options = {name.replace("_", "."): value for name, value in more.items()}
        source = HeadraceSource({**self.options, **options})
        reader = source.streamReader(_NUMBERS if options.get("rows") == "columns" else RECORDS)
        start = reader.initialOffset()

        def is_there() -> bool:
            self._end = reader.latestOffset(start, reader.getDefaultReadLimit())
            return bool(self._end != start)

        try:
            until_sync(is_there, what="the object is found")
            column = 0 if options.get("rows") == "columns" else 1
            return [
                (
                    len(part.splits),
                    [row for batch in reader.read(part) for row in batch.column(column).to_pylist()],
                )
                for part in reader.partitions(start, self._end)
            ]
        finally:
            reader.stop()


_TEXT: Final = b"".join(b"2026 %d\n  %s\n" % (n, b"x" * 40) for n in range(_ROWS))


@pytest.mark.parametrize(
    ("key", "content", "begun", "now"),
    [
        pytest.param(
            "a.json",
            _ARRAY,
            {"input_format": "jsonl", "rows": "columns"},
            {"input_format": "json", "rows": "columns"},
            id="an array by elements",
        ),
        pytest.param("a.json", _ARRAY, {"input_format": "jsonl"}, {"input_format": "json"}, id="of records"),
        pytest.param(
            "a.zip",
            zipped([("a.jsonl", _LINES)], zipfile.ZIP_STORED),
            {},
            {"input_format": "jsonl", "input_archive": "zip"},
            id="members",
        ),
        pytest.param(
            "a.log",
            _TEXT,
            {"input_format": "text"},
            {"input_format": "text", "text_start_pattern": "^2026"},
            id="records of several lines",
        ),
    ],
)
def test_splits_of_a_format_that_is_another_now(
    bucket: HttpBucket,
    tmp_path: Path,
    key: str,
    content: bytes,
    begun: Mapping[str, str],
    now: Mapping[str, str],
) -> None:
    """As the sentence of a bad row advises. Each split was all rows, or cut one in two."""
    bucket.objects[f"in/{key}"] = content
    query = Query(bucket, tmp_path)
    # A bad row may end it before all of it is read; what it was to read is in the log.
    with suppress(FrameRefused):
        query.read(**begun)

    ((splits, rows),) = query.read(**now)

    assert splits == 1
    assert len(rows) == len(set(rows)) == _ROWS


@pytest.mark.parametrize(
    "now",
    [
        {"input_format": "jsonl"},
        {"input_format": "jsonl", "split_bytes": str(8 << 20)},
        {"input_format": "text"},
    ],
)
def test_splits_that_are_the_same_under_the_options_of_now(
    bucket: HttpBucket, tmp_path: Path, now: Mapping[str, str]
) -> None:
    """They stay as they were begun, by whichever options they would be cut so."""
    bucket.objects["in/a.jsonl"] = _LINES
    query = Query(bucket, tmp_path)
    begun = sum(splits for splits, _ in query.read(input_format="jsonl"))

    again = query.read(**now)

    assert begun == sum(splits for splits, _ in again) > 1
    assert sum(len(rows) for _, rows in again) == _ROWS


def test_large_objects_are_asked_about_at_once(bucket: HttpBucket, tmp_path: Path) -> None:
    """Where they are cut: of a thousand large objects, one after the other, a read began after minutes."""
    bucket.objects |= {"in/a.jsonl": _LINES, "in/b.jsonl": _LINES, "in/small.jsonl": b'{"n":1}\n'}
    query = Query(bucket, tmp_path)
    source = HeadraceSource({**query.options, "input.format": "jsonl"})
    bucket.together = threading.Barrier(2, timeout=20)

    once = [split for part in source.reader(RECORDS).partitions() for split in part.splits]
    reader = source.streamReader(RECORDS)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    found = [split for part in reader.partitions(start, end) for split in part.splits]
    reader.stop()
    again = source.streamReader(RECORDS)
    begun = [split for part in again.partitions(start, end) for split in part.splits]
    again.stop()

    assert not bucket.together.broken
    assert places(once) == places(found) == places(begun)
    assert [key for key, begin, _ in places(found) if not begin] == list(bucket.objects)
    assert {key for key, begin, _ in places(found) if begin} == {"in/a.jsonl", "in/b.jsonl"}


def places(splits: list[Split]) -> list[tuple[str, int | None, int | None]]:
    """Key, begin and end of each."""
    return [(split.object.id.key, split.begin, split.end) for split in splits]
