"""Objects that end a query, and what its sentences advise: done, the query gets past its batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import structlog
from pyspark.sql.types import LongType, StructField, StructType

from headrace.model.errors import FrameRefused
from spark.frames.source import HeadraceSource
from tests.support.http_bucket import HttpBucket, http_bucket

_NUMBERS: Final = StructType([StructField("n", LongType())])


@pytest.fixture
def bucket() -> Iterator[HttpBucket]:
    """A bucket that is empty."""
    with http_bucket() as made:
        yield made


class Query:
    """A stream over the bucket, with its checkpoint: the offsets that are written, and how many are done."""

    def __init__(self, bucket: HttpBucket, state: Path) -> None:
        self._options = {
            "path": "s3://bucket/in/",
            "rows": "columns",
            "state.path": str(state),
            **bucket.options,
        }
        self._offsets: list[dict[str, Any]] = []
        self._done = 0

    def run(self, **options: str) -> list[list[int]]:
        """A start of the query: the rows of each batch that it does, until there is nothing new."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        reader = HeadraceSource({**self._options, **given}).streamReader(_NUMBERS)
        batches: list[list[int]] = []
        try:
            self._offsets = self._offsets or [reader.initialOffset()]
            reader.prepareForTriggerAvailableNow()
            while True:
                if self._done == len(self._offsets) - 1:
                    end = reader.latestOffset(self._offsets[-1], reader.getDefaultReadLimit())
                    if end == self._offsets[-1]:
                        return batches
                    self._offsets.append(end)
                parts = reader.partitions(*self._offsets[-2:])
                assert parts, "Spark wants one"
                found = [row["n"] for part in parts for rows in reader.read(part) for row in rows.to_pylist()]
                self._done += 1
                batches.append(sorted(found))
        finally:
            reader.stop()

    def problem(self, **options: str) -> str:
        """The sentence with which a start ends."""
        with pytest.raises(FrameRefused) as refused:
            self.run(**options)
        return str(refused.value)


@pytest.fixture
def query(bucket: HttpBucket, tmp_path: Path) -> Query:
    """A query that has not been started."""
    return Query(bucket, tmp_path)


@pytest.mark.parametrize(
    ("options", "batches"),
    [({"object_exclude": "*.txt"}, [[1], [7]]), ({"object_include": "*.jsonl"}, [[1], [7]])],
)
def test_a_filter_leaves_out_an_object_of_a_batch_that_ended_the_query(
    bucket: HttpBucket, query: Query, options: dict[str, str], batches: list[list[int]]
) -> None:
    """It ended with the same sentence at each start, as the batch was read back from the log."""
    bucket.objects |= {"in/a.jsonl": b'{"n":1}', "in/README.txt": b"These are the orders of 2026."}
    assert "Leave such objects out by object.exclude" in query.problem()
    bucket.objects["in/b.jsonl"] = b'{"n":7}'

    with structlog.testing.capture_logs() as lines:
        assert query.run(**options) == batches
    left_out = [line for line in lines if line["event"] == "objects_left_out"]
    assert [(line["batch"], line["objects"], line["first"]) for line in left_out] == [
        (1, 1, "s3://bucket/in/README.txt")
    ]
    # It is in the log, as what was found.
    assert query.run() == []


def test_a_batch_of_which_a_filter_leaves_nothing(bucket: HttpBucket, query: Query) -> None:
    """It is a batch without rows."""
    bucket.objects["in/README.txt"] = b"These are the orders of 2026."
    query.problem()

    assert query.run(object_exclude="*.txt") == [[]]


@pytest.mark.parametrize("rows", ["a bad row", "not what it seems"])
def test_an_object_that_was_corrected(bucket: HttpBucket, query: Query, rows: str) -> None:
    """It was overwritten for the batch that was begun with it, and no start got past that."""
    content = {"a bad row": b'{"n":2}\nno JSON', "not what it seems": b"PAR1 no footer PAR1"}[rows]
    bucket.objects |= {"in/a.jsonl": b'{"n":1}', "in/b.jsonl": content}
    sentence = query.problem()
    assert "object.exclude leaves the object out" in sentence
    assert "one that is corrected is left out of its batch with on.superseded=skip" in sentence
    bucket.objects["in/b.jsonl"] = b'{"n":2}\n{"n":3}'

    sentence = query.problem()
    assert "set on.superseded=skip to leave out what is gone; a later batch has its new content." in sentence
    assert query.run(on_superseded="skip") == [[1], [2, 3]]
