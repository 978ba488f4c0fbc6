"""Queries of Spark over a bucket: what they read, and what ends them."""

import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headrace.spark
from spark.frames.discovery_log import read_committed
from spark.frames.log_entries import entry_name
from spark.frames.log_store import DirectoryStore
from tests.headrace.formats.archives import tarred, zipped
from tests.support.until import until_sync

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_SECONDS = 240


class Frames:
    """One bucket, one log and one checkpoint, with a sink that keeps each batch under its number."""

    def __init__(self, spark: SparkSession, s3: "S3Client", bucket: str, endpoint: str, folder: Path) -> None:
        self.s3, self.bucket, self.folder = s3, bucket, folder
        self.spark = spark
        self._options = {
            "aws.s3.endpoint": endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "state.path": str(folder / "log"),
            "poll.interval.ms": "500",
        }

    def put(self, name: str, *rows: Mapping[str, Any] | bytes) -> None:
        """An object of JSON Lines."""
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        self.s3.put_object(Bucket=self.bucket, Key=f"in/{name}", Body=b"\n".join(lines))

    def read(self, **options: str) -> DataFrame:
        """What is there now."""
        given = {**self._options, **{name.replace("_", "."): value for name, value in options.items()}}
        frame: DataFrame = self.spark.read.format("headrace").options(**given).load(f"s3://{self.bucket}/in/")
        return frame

    def stream(self, schema: str | None = None, **options: str) -> DataFrame:
        """What is there and comes; underscores of options are dots."""
        given = {
            **self._options,
            "rows": "columns",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        reader = self.spark.readStream.format("headrace").options(**given)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load(f"s3://{self.bucket}/in/")

    def run(self, frame: DataFrame, *, checkpoint: str = "checkpoint", once: bool = False) -> StreamingQuery:
        """The query over what is there; it has ended. `once`: by the trigger that asks one time."""

        def keep(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").parquet(str(self.folder / "sink" / str(number)))

        query: StreamingQuery = (
            frame.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.folder / checkpoint))
            .trigger(**({"once": True} if once else {"availableNow": True}))
            .start()
        )
        query.awaitTermination(_SECONDS)
        return query

    def problem(self, frame: Callable[[], DataFrame], *, checkpoint: str = "checkpoint") -> str:
        """The sentence with which a query over the frame ends."""
        with pytest.raises(PySparkException) as raised:
            self.run(frame(), checkpoint=checkpoint)
        return str(raised.value)

    def rows(self, column: str = "n") -> list[Any]:
        """What the sink has, sorted, without nulls."""
        found = self.spark.read.parquet(*(str(path) for path in sorted((self.folder / "sink").iterdir())))
        return sorted(row[0] for row in found.select(column).collect() if row[0] is not None)

    def batches(self) -> list[int]:
        """The numbers of the sink's batches."""
        return sorted(int(path.name) for path in (self.folder / "sink").iterdir())

    def keep_checkpoint(self) -> Callable[[], None]:
        """Has the checkpoint be as it is now, when it is called."""
        copy = self.folder / "backup"
        shutil.copytree(self.folder / "checkpoint", copy)

        def restore() -> None:
            shutil.rmtree(self.folder / "checkpoint")
            shutil.copytree(copy, self.folder / "checkpoint")

        return restore


@pytest.fixture
def frames(
    spark_session: SparkSession, s3: "S3Client", bucket: str, s3_endpoint: str, tmp_path: Path
) -> Iterator[Frames]:
    """A bucket that queries of the format read."""
    headrace.spark.register(spark_session)
    yield Frames(spark_session, s3, bucket, s3_endpoint, tmp_path)
    for query in spark_session.streams.active:
        query.stop()


def numbered(begin: int, end: int) -> list[Mapping[str, Any]]:
    """Rows with these numbers."""
    return [{"n": n, "name": f"row {n}"} for n in range(begin, end)]


def test_records_of_what_is_there(frames: Frames) -> None:
    """Key, value and what the key's name says, with the place of each row."""
    frames.put("orders-3-17.jsonl", {"n": 1}, {"n": 2})
    found = frames.read(
        input_format="jsonl", file_name_template="in/{{topic}}-{{partition}}-{{start_offset}}"
    ).collect()

    assert [(row.key, row.value, row.topic, row.partition) for row in found] == [
        (b"in/orders-3-17.jsonl", b'{"n": 1}', "orders", 3),
        (b"in/orders-3-17.jsonl", b'{"n": 2}', "orders", 3),
    ]
    metadata = found[1]["_metadata"]
    assert (metadata.key, metadata.start_offset, metadata.position) == (
        "in/orders-3-17.jsonl",
        17,
        '{"byte":9}',
    )


@pytest.mark.long
@pytest.mark.parametrize("input_format", ["jsonl", "csv", "parquet"])
def test_members_of_archives(frames: Frames, input_format: str) -> None:
    """As records with the name of each row's member, and as columns that are found in them."""
    table = pa.table({"n": [1, 2], "name": ["a", "b"]})
    out = io.BytesIO()
    pq.write_table(table, out)
    content = {
        "jsonl": b'{"n":1,"name":"a"}\n{"n":2,"name":"b"}\n',
        "csv": b"n,name\n1,a\n2,b\n",
        "parquet": out.getvalue(),
    }[input_format]
    for name, archive in (("a.zip", zipped), ("b.tar", tarred)):
        stored = archive([("x/one", content), ("x/two", content)])
        frames.s3.put_object(Bucket=frames.bucket, Key=f"in/{name}", Body=stored)
    given = {"input_format": input_format, "input_archive": "auto"}

    records = frames.read(**given).collect()
    members = [json.loads(row["_metadata"].position)["member"] for row in records]
    assert members == ["x/one", "x/one", "x/two", "x/two"] * 2

    columns = frames.read(rows="columns", **given)
    assert columns.columns[:2] == ["n", "name"]
    assert [(int(row.n), row.name) for row in columns.collect()] == [(1, "a"), (2, "b")] * 4


def test_filters_leave_objects_out(frames: Frames) -> None:
    """With Spark's setting for it they are not read, the bad one neither; without it they are.

    What a condition leaves out is in `test_frames_filters.py`.
    """
    frames.put("orders-1", {"n": 1}, {"n": 2})
    frames.put("orders-2", {"n": 3})
    # It keeps the schema for the reads after it.
    frames.read(rows="columns", input_format="jsonl", file_name_template="in/{{topic}}-{{partition}}")
    frames.put("bad-1", b"no row")
    setting = "spark.sql.python.filterPushdown.enabled"

    def found(condition: str) -> list[int]:
        given = {"rows": "columns", "input_format": "jsonl", "metadata_column": "true"}
        frame = frames.read(**given, file_name_template="in/{{topic}}-{{partition}}")
        return sorted(row.n for row in frame.where(condition).select("n").collect())

    wanted = "topic = 'orders' and _metadata.key like 'in/%' and n <> 1"
    frames.spark.conf.set(setting, "true")
    try:
        assert found(wanted) == [2, 3]
    finally:
        frames.spark.conf.unset(setting)
    with pytest.raises(PySparkException, match="has a bad row"):
        found(wanted)


def test_batches_hold_to_their_limit_and_restarts_read_nothing_twice(frames: Frames) -> None:
    """Three objects in two batches, one more after a restart: each row once."""
    for number in range(3):
        frames.put(f"{number}.jsonl", *numbered(number * 10, number * 10 + 10))
    frames.run(frames.stream(maxFilesPerTrigger="2"))
    first = frames.batches()
    frames.put("a-late-key.jsonl", *numbered(30, 40))
    query = frames.run(frames.stream("n long", maxFilesPerTrigger="2"))

    assert first == [0, 1]
    assert frames.batches() == [0, 1, 2]
    assert frames.rows() == list(range(40))
    progress = query.recentProgress[-1]
    assert progress is not None
    source = (
        json.loads(progress["sources"][0]["latestOffset"])
        if isinstance(progress["sources"][0]["latestOffset"], str)
        else progress["sources"][0]["latestOffset"]
    )
    assert (source["batch"], source["known"]) == (3, 4)


@pytest.mark.long
def test_a_batch_that_fails_is_not_committed(frames: Frames) -> None:
    """A bad row is a sentence, and the log has the batch as one that may come again."""
    frames.put("0.jsonl", *numbered(0, 10))
    frames.run(frames.stream())
    frames.put("bad.jsonl", b"{")

    assert 'in/bad.jsonl has a bad row at {"byte":0} (not_json)' in frames.problem(frames.stream)
    committed = read_committed(DirectoryStore(frames.folder / "log"))
    assert committed is not None
    assert committed.batch == 1


@pytest.mark.long
def test_a_checkpoint_that_is_older_than_the_log(frames: Frames) -> None:
    """A crash after the entry, or a restored backup: the log's own batches come again, each as it was."""
    frames.put("0.jsonl", *numbered(0, 10))
    frames.run(frames.stream())
    restore = frames.keep_checkpoint()
    for number in (1, 2):
        frames.put(f"{number}.jsonl", *numbered(number * 10, number * 10 + 10))
        frames.run(frames.stream())
    restore()
    frames.put("3.jsonl", *numbered(30, 40))
    frames.run(frames.stream())

    assert frames.rows() == list(range(40))
    assert frames.batches() == [0, 1, 2, 3]


@pytest.mark.long
def test_a_query_that_is_triggered_once(frames: Frames) -> None:
    """All pages of the listing in one batch: Spark asks once, and limits do not hold then."""
    for number in range(1001):
        frames.put(f"{number}.jsonl", {"n": number})
    frames.run(frames.stream("n long", maxFilesPerTrigger="5"), once=True)
    frames.put("late.jsonl", {"n": 1001})
    frames.run(frames.stream("n long", maxFilesPerTrigger="5"), once=True)

    assert frames.batches() == [0, 1]
    assert frames.rows() == list(range(1002))


def test_a_log_that_is_older_than_the_checkpoint(frames: Frames) -> None:
    """It does not know what was read: the query is refused with what to do."""
    frames.put("0.jsonl", *numbered(0, 10))
    frames.run(frames.stream())
    frames.put("1.jsonl", *numbered(10, 20))
    frames.run(frames.stream())
    (frames.folder / "log" / entry_name(2)).unlink()

    found = frames.problem(frames.stream)
    assert "ends at batch 1, and the checkpoint of the query is at batch 2: the log is older" in found
    assert frames.rows() == list(range(20))


def test_a_checkpoint_of_another_log(frames: Frames) -> None:
    """Its batches are others, whatever their numbers."""
    frames.put("0.jsonl", *numbered(0, 10))
    frames.run(frames.stream())

    found = frames.problem(lambda: frames.stream(state_path=str(frames.folder / "other")))
    assert f"The checkpoint of the query is not of the discovery log at {frames.folder}/other" in found


def test_two_queries_on_one_log(frames: Frames) -> None:
    """Both read what is there; of the two that want to write the next batch one ends."""
    frames.put("0.jsonl", *numbered(0, 10))
    frames.run(frames.stream("n long"))
    frame = frames.stream("n long")
    queries: list[StreamingQuery] = []
    for number in (1, 2):
        queries.append(
            frame.writeStream.format("memory")
            .queryName(f"both{number}")
            .option("checkpointLocation", str(frames.folder / f"both{number}"))
            .start()
        )
        until_sync(lambda: bool(queries[-1].recentProgress), seconds=_SECONDS, what="it reads")
    frames.put("1.jsonl", *numbered(10, 20))
    until_sync(lambda: any(query.exception() for query in queries), seconds=_SECONDS, what="one of them ends")

    sentences = [str(query.exception()) for query in queries if query.exception()]
    assert "two queries run on one state.path" in sentences[0]


@pytest.mark.long
def test_a_log_within_what_is_read(frames: Frames) -> None:
    """Its own files are not among the objects, and S3 keeps it over a restart."""
    state_path = f"s3://{frames.bucket}/in/state"
    frames.put("0.jsonl", *numbered(0, 10))
    frames.run(frames.stream(state_path=state_path))
    frames.put("1.jsonl", *numbered(10, 20))
    frames.run(frames.stream(state_path=state_path))
    frames.run(frames.stream(state_path=state_path))

    assert frames.rows() == list(range(20))
    assert frames.batches() == [0, 1]


@pytest.mark.long
def test_a_refusal_is_one_sentence(frames: Frames) -> None:
    """Of what the driver finds, and of what a task does: no stack of a cause comes before it."""
    frames.put("0.jsonl", {"n": 1}, b"{")
    (frames.folder / "file").touch()
    found = [
        frames.problem(lambda: frames.stream("n long", state_path=str(frames.folder / "file"))),
        frames.problem(lambda: frames.stream("n long"), checkpoint="other"),
    ]

    assert "file' may not be read and written (Not a directory): name a directory" in found[0]
    assert "has a bad row at" in found[1]
    assert all("direct cause" not in text and "another exception" not in text for text in found)


def test_objects_that_are_gone(frames: Frames) -> None:
    """A batch that was begun fails with the object; `on.superseded=skip` leaves it out."""
    frames.put("0.jsonl", *numbered(0, 10))
    frames.put("1.jsonl", *numbered(10, 20))
    frames.run(frames.stream("n long"))
    (frames.folder / "checkpoint" / "commits" / "0").unlink()
    (frames.folder / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    frames.s3.delete_object(Bucket=frames.bucket, Key="in/0.jsonl")
    frames.put("1.jsonl", *numbered(70, 75))

    found = frames.problem(lambda: frames.stream("n long"))
    assert "/in/" in found
    assert (
        "Batch 1 holds it, and its batch was begun before. Restore the object, or set on.superseded=skip"
        in found
    )
    frames.run(frames.stream("n long", on_superseded="skip"))
    assert frames.rows() == list(range(70, 75))


@pytest.mark.long
def test_a_new_column(frames: Frames) -> None:
    """It ends the query; `add` takes it, after a restart, and `rescue` keeps it beside."""
    frames.put("0.jsonl", *numbered(0, 3))
    frames.run(frames.stream())
    frames.put("1.jsonl", {"n": 3, "extra": {"a": 1}})

    assert "has 'extra', which the inferred schema does not have. Set schema.evolution=add" in frames.problem(
        frames.stream
    )
    assert "state.path has it now: start the query again" in frames.problem(
        lambda: frames.stream(schema_evolution="add")
    )
    frame = frames.stream(schema_evolution="add")
    assert frame.columns == ["n", "name", "extra", "_rescued_data"]
    frames.run(frame)
    assert frames.rows() == [0, 1, 2, 3]
    frames.put("2.jsonl", {"n": "four", "other": 1})
    frames.run(frames.stream(schema_evolution="rescue"))
    assert frames.rows("_rescued_data") == ['{"n":"four","other":1}']


def test_bad_rows(frames: Frames) -> None:
    """They fail the batch with object and position, or are noted with both."""
    frames.put("0.jsonl", {"n": 1}, b"{", {"n": 2})

    found = frames.problem(lambda: frames.stream("n long"))
    assert 'in/0.jsonl has a bad row at {"byte":9} (not_json)' in found
    frames.run(frames.stream("n long", errors_tolerance="all"))
    assert frames.rows() == [1, 2]
    noted = [path.read_text() for path in (frames.folder / "log" / "bad").rglob("*.jsonl")]
    assert [(row["key"], row["position"], row["reason"]) for row in map(json.loads, noted)] == [
        ("in/0.jsonl", {"byte": 9}, "not_json")
    ]


def test_events_of_a_queue(frames: Frames, sqs: "SQSClient", queue: str) -> None:
    """An upload is in a batch without a listing, and its message is deleted once the batch is committed."""
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    frames.s3.put_bucket_notification_configuration(
        Bucket=frames.bucket,
        NotificationConfiguration={
            "QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]
        },
    )
    frame = frames.stream("n long", sqs_queue_url=queue, reconcile_interval_ms="0", sqs_wait_time_seconds="1")
    query = (
        frame.writeStream.format("memory")
        .queryName("events")
        .option("checkpointLocation", str(frames.folder / "checkpoint"))
        .start()
    )

    def rows() -> list[int]:
        assert query.exception() is None, query.exception()
        return sorted(row.n for row in frames.spark.table("events").collect())

    frames.put("0.jsonl", {"n": 1})
    until_sync(lambda: rows() == [1], seconds=_SECONDS, what="the first row comes")
    frames.put("1.jsonl", {"n": 2})
    until_sync(lambda: rows() == [1, 2], seconds=_SECONDS, what="the second row comes")

    def left() -> int:
        names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    frames.put("2.jsonl", {"n": 3})
    until_sync(lambda: rows() == [1, 2, 3], seconds=_SECONDS, what="the third row comes")
    until_sync(lambda: left() == 0, seconds=_SECONDS, what="messages of batches that are done are deleted")
