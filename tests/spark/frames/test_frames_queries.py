"""Queries over a bucket in one process: what Spark asks of our source, and what ends a query.

Spark is a model of it here, with what it is given pickled on its way as Spark does it; queries of the real
one are in `test_frames_stream.py`.
"""

import json
import pickle
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pytest
import structlog
from pyarrow import parquet
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from headrace.model.errors import FrameRefused
from spark.frames.batch_splits import FramePartition
from spark.frames.log_entries import entry_name
from spark.frames.source import HeadraceSource, HeadraceStreamReader

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.parts

_Sent = TypeVar("_Sent")

NUMBERS: Final = StructType([StructField("n", LongType())])
"""The schema of queries that do not look for one."""


@dataclass
class Checkpoint:
    """What a query of Spark keeps: the end of each batch that it began, and how many are done."""

    offsets: list[dict[str, Any]] = field(default_factory=list)
    commits: int = 0


class Queries:
    """One bucket and one log, with checkpoints and a sink that keeps each batch under its number."""

    def __init__(self, s3: "S3Client", bucket: str, endpoint: str, folder: Path) -> None:
        self._s3, self._bucket = s3, bucket
        self.folder = folder
        self.options = {
            "path": f"s3://{bucket}/in/",
            "rows": "columns",
            "aws.s3.endpoint": endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "state.path": str(folder / "log"),
        }
        self.checkpoint = Checkpoint()
        self.sink: dict[int, list[Mapping[str, Any]]] = {}
        self._open: list[HeadraceStreamReader] = []

    def put(self, name: str, *rows: Mapping[str, Any] | bytes) -> None:
        """An object of JSON Lines."""
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        self._s3.put_object(Bucket=self._bucket, Key=f"in/{name}", Body=b"\n".join(lines))

    def remove(self, name: str) -> None:
        """It is gone."""
        self._s3.delete_object(Bucket=self._bucket, Key=f"in/{name}")

    def reader(self, schema: StructType | None = NUMBERS, **options: str) -> HeadraceStreamReader:
        """What a query reads with; without a schema it is inferred, underscores of options are dots."""
        given = {**self.options, **{name.replace("_", "."): value for name, value in options.items()}}
        source = HeadraceSource(given)
        columns = source.schema() if schema is None else schema
        made: HeadraceStreamReader = _shipped(source).streamReader(columns)
        self._open.append(made)
        return made

    def run(self, schema: StructType | None = NUMBERS, **options: str) -> None:
        """The query over what is there; it has ended."""
        reader = self.reader(schema, **options)
        reader.prepareForTriggerAvailableNow()
        kept = self.checkpoint
        try:
            start = kept.offsets[-1] if kept.offsets else reader.initialOffset()
            if kept.commits < len(kept.offsets):
                self._batch(reader)
            while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
                kept.offsets.append(end)
                self._batch(reader)
                start = end
        finally:
            reader.stop()

    def run_once(self, **options: str) -> None:
        """The query with `Trigger.Once`: it asks one time, for all that is available."""
        reader = self.reader(NUMBERS, **options)
        kept = self.checkpoint
        try:
            assert not isinstance(reader.getDefaultReadLimit(), ReadAllAvailable), "no other trigger asks so"
            start = kept.offsets[-1] if kept.offsets else reader.initialOffset()
            end = reader.latestOffset(start, ReadAllAvailable())
            if end != start:
                kept.offsets.append(end)
                self._batch(reader)
        finally:
            reader.stop()

    def problem(self, schema: StructType | None = NUMBERS, **options: str) -> str:
        """The sentence with which a query ends; no cause comes with it, for PySpark would show its stack."""
        with pytest.raises(FrameRefused) as raised:
            self.run(schema, **options)
        assert raised.value.__cause__ is None
        return str(raised.value)

    def rows(self, column: str = "n") -> list[Any]:
        """What the sink has, sorted, without nulls."""
        found = [row.get(column) for batch in self.sink.values() for row in batch]
        return sorted(value for value in found if value is not None)

    def close(self) -> None:
        """End the listeners of all readers."""
        for reader in self._open:
            reader.stop()

    def _batch(self, reader: HeadraceStreamReader) -> None:
        """Run the last batch of the checkpoint into the sink; tasks get the reader and their partition."""
        kept, number = self.checkpoint, len(self.checkpoint.offsets) - 1
        start = kept.offsets[number - 1] if number else reader.initialOffset()
        task = _shipped(reader)
        rows: list[Mapping[str, Any]] = []
        for part in reader.partitions(start, kept.offsets[number]):
            for batch in task.read(_shipped(part)):
                assert isinstance(batch, pa.RecordBatch)
                rows += batch.to_pylist()
        self.sink[number] = rows
        kept.commits = number + 1
        reader.commit(kept.offsets[number])


def _shipped(value: _Sent) -> _Sent:
    """As it arrives in another process of Spark."""
    copy: _Sent = pickle.loads(pickle.dumps(value))  # noqa: S301  # what was pickled here
    return copy


@pytest.fixture
def queries(s3: "S3Client", bucket: str, s3_endpoint: str, tmp_path: Path) -> Iterator[Queries]:
    """A bucket that queries read."""
    made = Queries(s3, bucket, s3_endpoint, tmp_path)
    yield made
    made.close()


def numbered(begin: int, end: int) -> list[Mapping[str, Any]]:
    """Rows with these numbers."""
    return [{"n": n, "name": f"row {n}"} for n in range(begin, end)]


def test_batches_hold_to_their_limit_and_restarts_read_nothing_twice(queries: Queries) -> None:
    """Five objects in three batches, then one more after a restart: each row once."""
    for number in range(5):
        queries.put(f"{number}.jsonl", *numbered(number * 10, number * 10 + 10))
    queries.run(maxFilesPerTrigger="2")
    assert [len(batch) for batch in queries.sink.values()] == [20, 20, 10]

    queries.put("a-late-key.jsonl", *numbered(50, 60))
    queries.run(maxFilesPerTrigger="2")
    queries.run(maxFilesPerTrigger="2")
    assert sorted(queries.sink) == [0, 1, 2, 3]
    assert queries.rows() == list(range(60))


@pytest.mark.parametrize(
    "limits", [{}, {"maxFilesPerTrigger": "1"}, {"maxBytesPerTrigger": "1", "max.pending.objects": "1"}]
)
def test_a_query_that_is_triggered_once(queries: Queries, limits: dict[str, str]) -> None:
    """All that is there is one batch: the first listing is waited for, and limits do not hold."""
    for number in range(3):
        queries.put(f"{number}.jsonl", *numbered(number * 10, number * 10 + 10))
    queries.run_once(**limits)
    queries.run_once(**limits)
    queries.put("3.jsonl", *numbered(30, 40))
    queries.run_once(**limits)

    assert [len(batch) for batch in queries.sink.values()] == [30, 10]
    assert queries.rows() == list(range(40))


def test_a_checkpoint_that_is_older_than_the_log(queries: Queries) -> None:
    """A crash after the entry, or a restored backup: the log's own batches come again, each as it was."""
    queries.put("0.jsonl", *numbered(0, 10))
    queries.run()
    backup = Checkpoint(list(queries.checkpoint.offsets), queries.checkpoint.commits)
    for number in (1, 2):
        queries.put(f"{number}.jsonl", *numbered(number * 10, number * 10 + 10))
        queries.run()
    queries.checkpoint = backup
    queries.put("3.jsonl", *numbered(30, 40))
    queries.run()

    assert queries.rows() == list(range(40))
    assert [len(batch) for batch in queries.sink.values()] == [10, 10, 10, 10]


def test_a_log_that_is_older_than_the_checkpoint(queries: Queries) -> None:
    """It does not know what was read: the query is refused with what to do."""
    for number in (0, 1):
        queries.put(f"{number}.jsonl", *numbered(number * 10, number * 10 + 10))
        queries.run()
    (queries.folder / "log" / entry_name(2)).unlink()

    found = queries.problem()
    assert "ends at batch 1, and the checkpoint of the query is at batch 2: the log is older" in found
    assert queries.rows() == list(range(20))


def test_a_log_that_was_restored_and_written_to(queries: Queries) -> None:
    """It has as many batches as the checkpoint, and others: the query is refused with what to do."""
    queries.put("0.jsonl", *numbered(0, 10))
    queries.run()
    log, backup = queries.folder / "log", queries.folder / "backup"
    shutil.copytree(log, backup)
    queries.put("1.jsonl", *numbered(10, 20))
    queries.run()
    kept = queries.checkpoint
    shutil.rmtree(log)
    shutil.copytree(backup, log)
    queries.put("2.jsonl", *numbered(20, 30))
    queries.checkpoint = Checkpoint()
    queries.run()
    assert queries.checkpoint.offsets[-1]["batch"] == 2

    queries.checkpoint = kept
    queries.put("3.jsonl", *numbered(30, 40))
    found = queries.problem()
    assert f"Batch 2 of the discovery log at {log} is not the one that the checkpoint of" in found
    for offset in kept.offsets:
        del offset["mark"]
    queries.run()
    assert len(kept.offsets) == 3, "a checkpoint of an earlier version is taken as it is"


def test_a_checkpoint_of_another_log(queries: Queries) -> None:
    """Its batches are others, whatever their numbers."""
    queries.put("0.jsonl", *numbered(0, 10))
    queries.run()

    found = queries.problem(state_path=str(queries.folder / "other"))
    assert f"The checkpoint of the query is not of the discovery log at {queries.folder}/other" in found


def test_two_queries_on_one_log(queries: Queries) -> None:
    """Both know what is there; of the two that want to write the next batch one ends."""
    queries.put("0.jsonl", *numbered(0, 10))
    queries.run()
    (start,) = queries.checkpoint.offsets
    queries.put("1.jsonl", *numbered(10, 20))
    one, other = queries.reader(), queries.reader()
    for reader in (one, other):
        reader.prepareForTriggerAvailableNow()
        assert len(reader.partitions(reader.initialOffset(), start)) == 1

    assert one.latestOffset(start, one.getDefaultReadLimit())["batch"] == 2
    with pytest.raises(FrameRefused, match=r"two queries run on one state\.path"):
        other.latestOffset(start, other.getDefaultReadLimit())


def test_objects_that_are_gone(queries: Queries) -> None:
    """A batch that was begun fails with the object; `on.superseded=skip` leaves it out."""
    queries.put("0.jsonl", *numbered(0, 10))
    queries.put("1.jsonl", *numbered(10, 20))
    queries.run()
    queries.checkpoint.commits = 0
    queries.remove("0.jsonl")
    queries.put("1.jsonl", *numbered(70, 75))

    found = queries.problem()
    assert "/in/" in found
    assert (
        "Batch 1 holds it, and its batch was begun before. Restore the object, or set on.superseded=skip"
        in found
    )
    queries.run(on_superseded="skip")
    assert queries.rows() == list(range(70, 75))


@pytest.mark.parametrize("is_deleted", [False, True])
def test_objects_that_are_gone_from_a_frame(queries: Queries, is_deleted: bool) -> None:
    """What is read once has no later batch for their new content: they are not passed over unseen."""

    def rows(**options: str) -> list[int]:
        queries.put("0.jsonl", *numbered(0, 3))
        queries.put("1.jsonl", *numbered(3, 5))
        given = {**queries.options, **{name.replace("_", "."): value for name, value in options.items()}}
        reader = HeadraceSource(given).reader(NUMBERS)
        parts = reader.partitions()
        if is_deleted:
            queries.remove("0.jsonl")
        else:
            queries.put("0.jsonl", *numbered(70, 75))
        return [n for part in parts for n in numbers(_shipped(reader).read(_shipped(part)))]

    with pytest.raises(FrameRefused, match=r"in/0.jsonl .*The frame was planned with it. Load it again"):
        rows()
    assert rows(on_superseded="skip") == [3, 4]


def large(queries: Queries, name: str) -> list[int]:
    """The numbers of an object that has several splits of 1 MiB."""
    numbers_of = list(range(18))
    queries.put(name, *({"n": n, "text": "x" * 2**18} for n in numbers_of))
    return numbers_of


def planned(queries: Queries, **options: str) -> tuple[HeadraceStreamReader, list[FramePartition]]:
    """What reads the first batch, and its partitions."""
    reader = queries.reader(NUMBERS, split_bytes=str(2**20), tasks_max="8", **options)
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    return reader, reader.partitions(reader.initialOffset(), end)


def numbers(batches: Iterator[Any]) -> list[int]:
    """Those of rows."""
    return [n for batch in batches for n in batch.column("n").to_pylist()]


def test_a_split_object_that_is_overwritten_while_its_batch_is_read(queries: Queries) -> None:
    """A task that finds it so does not leave it out, for another one may have read rows of it."""
    large(queries, "0.jsonl")
    reader, parts = planned(queries)
    assert len(parts) > 1
    assert numbers(reader.read(parts[0]))
    queries.put("0.jsonl", {"n": 1})

    with pytest.raises(
        FrameRefused, match=r"Batch 1 holds it\. Restore the object, or set on\.superseded=skip"
    ):
        numbers(reader.read(parts[1]))


def test_a_split_object_that_goes_while_its_batch_is_read(queries: Queries) -> None:
    """With `on.superseded=skip` one task has it: some rows of it fail the task, which is then without any."""
    expected = large(queries, "0.jsonl")
    reader, (part,) = planned(queries, on_superseded="skip")
    assert len(part.splits) > 1
    batches = reader.read(part)
    assert set(numbers(iter([next(batches)]))) < set(expected)
    queries.remove("0.jsonl")

    with pytest.raises(FrameRefused, match="some of its rows were read by then: start the query again"):
        numbers(batches)
    assert numbers(reader.read(part)) == []


def test_a_split_object_that_is_there_again(queries: Queries) -> None:
    """What was left out at one split is left out at those that follow, though it can be read again."""
    large(queries, "0.jsonl")
    queries.put("1.jsonl", {"n": 70})
    reader, parts = planned(queries, on_superseded="skip")
    (first, *others), (between,) = sorted((part.splits for part in parts), key=len, reverse=True)
    queries.remove("0.jsonl")
    batches = reader.read(FramePartition((first, between, *others), batch=1, is_begun=False))
    assert numbers(iter([next(batches)])) == [70]
    large(queries, "0.jsonl")

    assert numbers(batches) == []


def test_bad_rows(queries: Queries) -> None:
    """They fail the batch with object and position, or are noted with both."""
    queries.put("0.jsonl", {"n": 1}, b"{", {"n": 2})

    assert 'in/0.jsonl has a bad row at {"byte":9} (not_json)' in queries.problem()
    queries.run(errors_tolerance="all")
    assert queries.rows() == [1, 2]
    noted = [path.read_text() for path in (queries.folder / "log" / "bad").rglob("*.jsonl")]
    assert [(row["key"], row["position"], row["reason"]) for row in map(json.loads, noted)] == [
        ("in/0.jsonl", {"byte": 9}, "not_json")
    ]


@pytest.mark.parametrize("is_parquet", [False, True])
def test_columns_of_the_key_alone(queries: Queries, is_parquet: bool) -> None:
    """There are as many rows as the objects have, with or without columns of theirs."""
    table, written = pa.table({"n": [1, 2]}), pa.BufferOutputStream()
    parquet.write_table(table, written)
    queries.put("orders-300", written.getvalue().to_pybytes() if is_parquet else b'{"n":1}\n{"n":2}')
    named = {"file_name_template": "{{topic}}-{{partition}}", "file_name_match": "search"}

    queries.run(StructType().add("topic", "string").add("partition", "integer"), **named)

    assert queries.sink[0] == [{"topic": "orders", "partition": 300}] * 2
    narrow = StructType().add("partition", "byte")
    queries.checkpoint, queries.options["state.path"] = Checkpoint(), str(queries.folder / "narrow")
    assert "has the partition 300, which the column partition of the schema does not hold" in queries.problem(
        narrow, **named
    )


def test_groups_of_a_pattern_are_texts_as_fields_of_csv_are(queries: Queries) -> None:
    """A schema gives them types; each row was a bad one."""
    queries.put("0.log", b"GET 200 -", b"PUT  1.50")
    pattern = r"^(?P<method>[A-Z]+) (?P<n>[0-9]*) (?P<price>[-0-9.]+)$"
    schema = StructType().add("method", "string").add("n", "integer").add("price", DecimalType(5, 2))
    schema.add("_rescued_data", "string")
    queries.run(schema, input_format="text", text_pattern=pattern)

    assert [list(row.values()) for row in queries.sink[0]] == [
        ["GET", 200, None, '{"price":"-"}'],
        ["PUT", None, Decimal("1.50"), None],
    ]


def test_nanoseconds_of_int96(queries: Queries) -> None:
    """They are rescued as those of other times are, where a batch has some; a text has all digits."""
    far = -(10**18)
    times = pa.array([1_700_000_000_123_456_789, 1_700_000_000_123_456_000, far, None], pa.timestamp("ns"))
    written = pa.BufferOutputStream()
    parquet.write_table(pa.table({"at": times}), written, use_deprecated_int96_timestamps=True)
    queries.put("0.parquet", written.getvalue().to_pybytes())
    queries.run(None)

    rows = [(row["at"], row["_rescued_data"]) for row in queries.sink[0]]
    assert rows[0] == (None, '{"at":"2023-11-14T22:13:20.123456789Z"}')
    assert [rescued for _, rescued in rows[1:]] == [None] * 3
    assert [str(at) for at, _ in rows[1:]] == [
        "2023-11-14 22:13:20.123456+00:00",
        "1938-04-24 22:13:20+00:00",
        "None",
    ]
    queries.checkpoint, queries.options["state.path"] = Checkpoint(), str(queries.folder / "texts")
    queries.run(StructType().add("at", "string"))
    assert queries.sink[0][0]["at"] == "2023-11-14T22:13:20.123456789Z"


def test_a_partition_that_is_not_certain(queries: Queries) -> None:
    """The option that the sentence names is one of queries, too."""
    queries.put("orders/10000/200000000000_0_2.json", b'{"n":1}\n')
    archive = {"rows": "records", "input_layout": "lenses"}
    columns = StructType().add("partition", "integer").add("value", "binary")

    assert "Set restore.partition to partitioner" in queries.problem(columns, **archive)
    queries.run(columns, restore_partition="partitioner", **archive)
    assert queries.sink[0] == [{"partition": None, "value": b'{"n":1}'}]


def test_keys_that_no_template_matches_are_counted(queries: Queries) -> None:
    """A template with a mistake reads nothing, and a frame without rows does not say why."""
    for name in ("orders-1.jsonl", "orders/2.jsonl", "orders/3.jsonl"):
        queries.put(name, {"n": 1})
    options = {**queries.options, "file.name.template": "{{topic}}-{{partition}}"}
    with structlog.testing.capture_logs() as lines:
        parts = HeadraceSource(options).reader(NUMBERS).partitions()

    assert [split.object.id.key for part in parts for split in part.splits] == ["in/orders-1.jsonl"]
    (line,) = (line for line in lines if line["event"] == "keys_left_out")
    assert (line["keys"], line["first"]) == (2, "in/orders/2.jsonl")


def test_objects_in_which_no_schema_is_found(queries: Queries) -> None:
    """The sentence says what was looked into, and what is wrong with it."""

    def found(input_format: str, **objects: bytes) -> str:
        for name, content in objects.items():
            queries.put(name, content)
        sentence = queries.problem(None, input_format=input_format)
        assert sentence.endswith(". Give one with .schema(..), or correct the prefix and the filters.")
        return sentence

    assert "/in/: there is no object yet" in found("csv")
    assert "1 object was looked into, without any row (a header alone has no types)" in found(
        "csv", a=b"n,name\n"
    )
    sentence = found("jsonl", a=b"{", b=b"no JSON\n}")
    assert "2 objects were looked into, with no rows but 3 bad ones, the first in s3://" in sentence
    assert '/in/a at {"byte":0} (not_json)' in sentence
    assert "with 3 rows that have no columns of their own" in found("jsonl", a=b"1\n2", b=b"{}")


def test_a_new_column(queries: Queries) -> None:
    """It ends the query; `add` takes it, after a restart, and `rescue` keeps it beside."""
    queries.put("0.jsonl", *numbered(0, 3))
    queries.run(None)
    queries.put("1.jsonl", {"n": 3, "extra": {"a": 1}})

    assert (
        "has 'extra', which the inferred schema does not have. Set schema.evolution=add"
        in queries.problem(None)
    )
    assert "state.path has it now: start the query again" in queries.problem(None, schema_evolution="add")
    columns = HeadraceSource({**queries.options, "schema.evolution": "add"}).schema()
    assert columns.fieldNames() == ["n", "name", "extra", "_rescued_data"]
    queries.run(None, schema_evolution="add")
    assert queries.rows() == [0, 1, 2, 3]
    queries.put("2.jsonl", {"n": "four", "other": 1})
    queries.run(None, schema_evolution="rescue")
    assert queries.rows("_rescued_data") == ['{"n":"four","other":1}']
