"""Batches of a query of Spark's, written by sinks of the Python API with the session that is there."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace
from headrace.quix import FileSink, S3Destination
from spark.slots.jobs import cause_of
from tests.sink.archive_account import new_archive
from tests.support import aws, kafka

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_SHAPE: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "key binary, value binary, headers array<struct<key:string,value:binary>>"
)


@pytest.fixture
def session(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The shared one, with as many shuffle partitions as it has cores."""
    setting = "spark.sql.shuffle.partitions"
    spark_session.conf.set(setting, "2")
    yield spark_session
    spark_session.conf.unset(setting)


def _rows(offsets: range, value: Callable[[int], bytes]) -> list[tuple[Any, ...]]:
    """Records of two partitions."""
    return [
        ("orders", n % 2, n, None, 0, None if n % 3 == 0 else b"k%d" % n, value(n), None) for n in offsets
    ]


def _number(n: int) -> bytes:
    return b'{"n":%d}' % n


def test_batches_of_spark_are_archived(session: SparkSession, tmp_path: Path) -> None:
    """By a streaming query; a batch that is repeated writes the same objects, and what cannot be fails it."""
    archive = new_archive(tmp_path, partitions=1)
    config = {
        "name": aws.unique("frames"),
        "topics": "orders",
        "bootstrap.servers": kafka.address(),
        "aws.s3.bucket.name": archive.bucket,
        "aws.s3.endpoint": aws.address(),
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
        "aws.s3.prefix": "own/",
        "file.compression.type": "none",
    }
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "endpoint_url": aws.address()}
    own = headrace.Connector(config)
    quix = FileSink("quix", "json", S3Destination(archive.bucket, **keys))
    session.createDataFrame(_rows(range(9, -1, -1), _number), _SHAPE).write.parquet(str(tmp_path / "rows"))

    for name, write in (("own", own.foreach_batch), ("quix", quix.foreach_batch)):
        stream = session.readStream.schema(_SHAPE).parquet(str(tmp_path / "rows"))
        query = stream.writeStream.foreachBatch(write).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination()
    # A batch that Spark brings again is the same objects, however its columns are spelled.
    again = session.createDataFrame(_rows(range(10), _number), _SHAPE)
    own.foreach_batch(again.toDF(*(name.upper() for name in again.columns)), 0)

    found = archive.keys()
    rows = [row for key, row in archive.rows() if key.startswith("own/")]
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == [
        (number % 2, number, {"n": number}) for number in (*range(0, 10, 2), *range(1, 10, 2))
    ]
    assert {key for key in found if key.startswith("quix/")} == {
        f"quix/orders/{number}/{number:019}.jsonl" for number in (0, 1)
    }
    assert archive.content(f"quix/orders/1/{1:019}.jsonl").splitlines()[0] == (
        b'{"_timestamp":-1,"_key":"k1","_value":{"n":1}}'
    )
    _is_refused(session, config, again)
    assert archive.keys() == found, "what is refused writes nothing"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            '[CAST_OVERFLOW] The value 3L of the type "BIGINT" does not fit. SQLSTATE: 22003\n\tat org.X',
            '[CAST_OVERFLOW] The value 3L of the type "BIGINT" does not fit.',
        ),
        (
            "An error occurred while calling o1.\n: Job\nTraceback (most recent call last):\n  File\nE: why",
            "E: why",
        ),
        ("", "ValueError"),
    ],
    ids=["one line", "traceback", "nothing"],
)
def test_a_failure_of_spark_has_a_cause(text: str, cause: str) -> None:
    """Of one that is one line nothing was left, as the line has its state, too."""
    assert cause_of(ValueError(text)) == cause


def _is_refused(session: SparkSession, config: dict[str, str], frame: DataFrame) -> None:
    """A frame that is no batch of Kafka's source, another topic, a bad record; and a session of its own."""
    strict = headrace.Connector(
        {
            **config,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "aws.s3.prefix": "bad/",
        }
    )
    bad = session.createDataFrame(_rows(range(1, 2), lambda _: b"{"), _SHAPE)
    for refused, sentence in (
        (frame.drop("offset"), "The frame has no column offset"),
        (frame.replace("orders", "others"), "'others'"),
        (bad, r"orders-1 offset 1 is a bad record \("),
        (frame.union(frame), "Rows of orders-[01] come twice, with offset [01]: "),
    ):
        with pytest.raises(headrace.HeadraceError, match=sentence):
            strict.foreach_batch(refused, 1)
    with pytest.raises(headrace.HeadraceError, match="This process has a Spark session"):
        headrace.Connector(config).start()
