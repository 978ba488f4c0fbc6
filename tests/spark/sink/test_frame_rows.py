"""What a task of a batch of Spark's tells of the rows that it was given."""

import pyarrow as pa

from spark.sink.frame_writer import write_rows
from spark.sink.sink_work import sink_task_settings
from tests.support.sink_archives import sink_settings

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_records_that_are_left_out_are_counted() -> None:
    """With errors.tolerance=all they are in no object, and fail nothing."""
    settings = sink_settings(
        {
            "aws.s3.bucket.name": "bucket",
            "topics": "t",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "errors.tolerance": "all",
        }
    )
    assert settings.sink is not None
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["t", "t"]),
            "partition": pa.array([0, 0], pa.int32()),
            "offset": pa.array([0, 1], pa.int64()),
            "timestamp_ms": pa.array([0, 0], pa.int64()),
            "timestamp_type": pa.array([1, 1], pa.int64()),
            "key": pa.nulls(2, pa.binary()),
            "value": pa.array([b"{", b"]"], pa.binary()),
            "headers": pa.nulls(2, _HEADERS),
        }
    )

    (told,) = write_rows(sink_task_settings(settings, settings.sink), [batch])

    assert told.to_pylist() == [{"error": None, "records": 0, "objects": 0, "bad": 2}]
