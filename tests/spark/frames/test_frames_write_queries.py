"""Frames of records written by Spark itself: streams whose batches are repeated, and frames at once."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import headrace.spark

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_SHAPE: Final = "topic string, partition int, offset bigint, key binary, value binary"
_SECONDS: Final = 240


class Writing:
    """A stream of files of records, one checkpoint, and what the bucket has of it."""

    def __init__(self, spark: SparkSession, s3: "S3Client", bucket: str, endpoint: str, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self._s3, self._bucket = s3, bucket
        self._options = {
            "aws.s3.endpoint": endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "output.format": "jsonl",
            "file.compression.type": "none",
            "path": f"s3://{bucket}/out/",
        }

    def produce(self, begin: int, end: int) -> None:
        """A file with these offsets of two partitions, the last first."""
        rows = [
            ("orders", n % 2, n, b"k%d" % (n % 3), b'{"n":%d}' % n) for n in range(end - 1, begin - 1, -1)
        ]
        frame = self.spark.createDataFrame(rows, _SHAPE).coalesce(1)
        frame.write.mode("append").parquet(str(self.folder / "rows"))

    def run(self, *, where: str = "true", **options: str) -> str | None:
        """The query over all that is there, and passes its filter, has ended; the sentence of its failure."""
        stream = self.spark.readStream.schema(_SHAPE).parquet(str(self.folder / "rows")).where(where)
        writer = stream.writeStream.format("headrace").trigger(availableNow=True)
        given = {**self._options, "state.path": str(self.folder / "state"), **_dotted(options)}
        try:
            query = writer.options(**given).option("checkpointLocation", str(self.checkpoint)).start()
            query.awaitTermination(_SECONDS)
        except PySparkException as error:
            return str(error)
        return None

    def write(self, frame: DataFrame, *, mode: str = "append", **options: str) -> None:
        """Write a frame once."""
        given = {**self._options, **_dotted(options)}
        frame.write.format("headrace").options(**given).mode(mode).save()

    @property
    def checkpoint(self) -> Path:
        """Of the query."""
        return self.folder / "checkpoint"

    def objects(self) -> dict[str, tuple[str, list[int]]]:
        """By key, each object's id and the numbers of its rows."""
        found = {}
        for entry in self._s3.list_objects_v2(Bucket=self._bucket, Prefix="out/").get("Contents", ()):
            answer = self._s3.get_object(Bucket=self._bucket, Key=entry["Key"])
            lines = answer["Body"].read().splitlines()
            numbers = [int(json.loads(line)["offset"]) for line in lines]
            found[entry["Key"]] = answer["Metadata"]["headrace-object"], numbers
        return found

    def contents(self) -> list[bytes]:
        """What is in the objects."""
        listed = self._s3.list_objects_v2(Bucket=self._bucket, Prefix="out/").get("Contents", ())
        return [self._s3.get_object(Bucket=self._bucket, Key=one["Key"])["Body"].read() for one in listed]

    def rows(self) -> list[int]:
        """The offsets of all objects, sorted."""
        return sorted(n for _, numbers in self.objects().values() for n in numbers)

    def unfinished(self) -> int:
        """Uploads that are not complete."""
        return len(self._s3.list_multipart_uploads(Bucket=self._bucket).get("Uploads", ()))


def _dotted(options: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in options.items()}


@pytest.fixture
def writing(
    spark_session: SparkSession, s3: "S3Client", bucket: str, s3_endpoint: str, tmp_path: Path
) -> Iterator[Writing]:
    """A bucket that queries write to."""
    headrace.spark.register(spark_session)
    yield Writing(spark_session, s3, bucket, s3_endpoint, tmp_path)
    for query in spark_session.streams.active:
        query.stop()


def test_a_batch_that_spark_repeats_is_there_once(writing: Writing) -> None:
    """The objects of its first commit stay, and one that the checkpoint plans with other rows is refused."""
    writing.produce(0, 10)
    assert writing.run() is None
    first = writing.objects()
    assert writing.rows() == list(range(10))
    assert all(numbers == sorted(numbers) for _, numbers in first.values())

    # Put back later: Spark has not noted the first batch there.
    earlier = writing.folder / "earlier"
    shutil.copytree(writing.checkpoint, earlier)
    shutil.rmtree(earlier / "commits")
    writing.produce(10, 12)
    assert writing.run() is None
    shutil.rmtree(writing.checkpoint)
    shutil.copytree(earlier, writing.checkpoint)
    writing.produce(12, 20)
    refused = writing.run()

    assert {key: writing.objects()[key] for key in first} == first
    assert refused is not None
    assert re.search(
        r"Batch 1 was written before with other rows \(orders-0: offsets 10 to 18, and before 10 to 10; "
        r"orders-1: offsets 11 to 19, and before 11 to 11\): the checkpoint was put back",
        refused,
    )
    assert (writing.rows(), writing.unfinished()) == (list(range(12)), 0)


def test_a_batch_without_rows_has_a_file(writing: Writing) -> None:
    """By which a checkpoint that was put back is noticed, whatever a filter leaves out of its first batch."""
    writing.produce(0, 10)
    assert writing.run() is None
    writing.produce(10, 20)
    assert writing.run(where="offset < 10") is None
    files = sorted((writing.folder / "state" / "writes").rglob("*.json"))
    batches = [json.loads(file.read_bytes()) for file in files]
    ends = [["orders", 0, 8], ["orders", 1, 9]]
    assert [(len(one["rows"]), len(one["objects"]), one["ends"]) for one in batches] == [
        (2, 2, ends),
        (0, 0, ends),
    ]

    for name in ("offsets", "commits", "sources"):
        shutil.rmtree(writing.checkpoint / name)
    refused = writing.run(where="offset >= 20")
    assert refused is not None
    assert "Batch 0 was written before with other rows (orders-0: none, and before 0 to 8" in refused
    assert (writing.rows(), writing.unfinished()) == (list(range(10)), 0)


def test_a_frame_is_written_at_once(writing: Writing) -> None:
    """In the order of offsets, or not at all; names of keys have the last record of each."""
    writing.produce(0, 10)
    frame = writing.spark.read.parquet(str(writing.folder / "rows"))
    with pytest.raises(PySparkException, match="do not come in the order of offsets"):
        writing.write(frame)
    assert (writing.rows(), writing.unfinished()) == ([], 0)

    ordered = frame.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    writing.write(ordered)
    assert writing.rows() == list(range(10))
    keys: dict[str, Any] = {"file_name_template": "keys/{{topic}}/{{key}}{{extension}}"}
    one = ordered.where("partition = 1").withColumn("partition", ordered.partition * 0)
    writing.write(one, **keys)
    found = {key: numbers for key, (_, numbers) in writing.objects().items() if key.startswith("out/keys/")}
    assert found == {f"out/keys/orders/k{n % 3}.jsonl": [n] for n in (5, 7, 9)}


def test_csv_is_read_by_spark_as_the_page_says(writing: Writing, tmp_path: Path) -> None:
    """With its default for `escape` it cuts values at a quote after a backslash."""
    texts = ['{"a":"x\\"y","b":1}', 'a\\"b,c', "line1\nline2", " lead ", "back\\slash\\", "null", None, ""]
    rows = [("orders", 0, at, b"k", None if text is None else text.encode()) for at, text in enumerate(texts)]
    converter = "org.apache.kafka.connect.storage.StringConverter"
    writing.write(
        writing.spark.createDataFrame(rows, _SHAPE).coalesce(1),
        output_format="csv",
        value_converter=converter,
    )
    (content,) = writing.contents()
    (tmp_path / "rows.csv").write_bytes(content)

    options = {"header": "true", "multiLine": "true", "escape": '"'}
    found = writing.spark.read.options(**options).csv(str(tmp_path / "rows.csv")).orderBy("offset").collect()
    assert [row.value for row in found] == [text or None for text in texts]
