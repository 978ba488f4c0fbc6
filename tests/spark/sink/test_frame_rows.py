"""What a task of a batch of Spark's tells of the rows that it was given."""

import tracemalloc
import uuid
import zlib
from typing import Any

import pyarrow as pa
import pytest
import structlog

from headrace.formats.converters import registry_schemas
from spark.sink import frame_writer
from spark.sink.frame_writer import write_rows
from spark.sink.sink_work import sink_task_settings
from tests.headrace.formats.encoding.registry import http_registry
from tests.support.glue_server import served
from tests.support.sink_archives import sink_settings

_MIB = 1 << 20
_GLUE = "com.amazonaws.services.schemaregistry.kafkaconnect.jsonschema.JsonSchemaConverter"
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
    (told,) = write_rows(sink_task_settings(settings, settings.sink), [_batch(b"{", b"]")])

    assert told.to_pylist() == [{"error": None, "records": 0, "objects": 0, "bad": 2}]


@pytest.mark.parametrize("topic", ["__heartbeat.pg", "archive-offsets", "orders"])
def test_a_row_names_its_topic(topic: str) -> None:
    """Which topics a sink finds by an expression is no matter here: the frame has records of this one."""
    settings = sink_settings(
        {
            "name": "archive",
            "aws.s3.bucket.name": "bucket",
            "topics.regex": ".*",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "errors.tolerance": "all",
        }
    )
    assert settings.sink is not None
    (told,) = write_rows(sink_task_settings(settings, settings.sink), [_batch(b"{", topic=topic)])

    assert told.to_pylist() == [{"error": None, "records": 0, "objects": 0, "bad": 1}]


def test_ids_that_the_registry_does_not_have_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task continues beyond its patience as long as it comes further, and the log shows why it waits."""
    monkeypatch.setattr(frame_writer, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(frame_writer, "REGISTRY_PAUSE_SECONDS", 0.01)
    # Ten are asked for at once, and never more than some twenty, however slowly the registry answers.
    monkeypatch.setattr(registry_schemas, "_SPARED_SECONDS", 0.5)
    values = [b"\x01" + uuid.UUID(int=number).bytes + b"x" for number in range(40)]
    with http_registry({}) as (registry, asked), structlog.testing.capture_logs() as logged:
        settings = sink_settings(
            {
                "aws.s3.bucket.name": "bucket",
                "topics": "t",
                "value.converter": "io.confluent.connect.avro.AvroConverter",
                "value.converter.schema.registry.url": registry.urls[0],
                "errors.tolerance": "all",
            }
        )
        assert settings.sink is not None
        (told,) = write_rows(sink_task_settings(settings, settings.sink), [_batch(*values)])

    assert told.to_pylist() == [{"error": None, "records": 0, "objects": 0, "bad": len(values)}]
    assert len(asked) >= len(values)
    held = [line for line in logged if line["event"] == "records_held_back"]
    assert [(line["partition"], line["log_level"]) for line in held] == [("t-0", "warning")]
    assert "value.converter" in held[0]["error"]


def test_compressed_values_inflate_a_few_at_a_time() -> None:
    """An Arrow batch of some kilobytes becomes 60 MiB; none of them is JSON, so that nothing is written."""
    with served() as (glue, url):
        head = b"\x03\x05" + glue.add("JSON", {"type": "object"}).bytes
        settings = sink_settings(
            {
                "aws.s3.bucket.name": "bucket",
                "topics": "t",
                "value.converter": _GLUE,
                "value.converter.endpoint": url,
                "aws.access.key.id": "AKIA",
                "aws.secret.access.key": "shh",
                "errors.tolerance": "all",
            }
        )
        assert settings.sink is not None
        batch = _batch(*[head + zlib.compress(b"{" + b" " * (3 * _MIB))] * 20)
        assert batch.nbytes < _MIB
        tracemalloc.start()
        (told,) = write_rows(sink_task_settings(settings, settings.sink), [batch])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert told.to_pylist() == [{"error": None, "records": 0, "objects": 0, "bad": 20}]
    assert peak < 40 * _MIB


def _batch(*values: bytes, topic: str = "t") -> Any:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([topic] * count),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp_ms": pa.array([0] * count, pa.int64()),
            "timestamp_type": pa.array([1] * count, pa.int64()),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.nulls(count, _HEADERS),
        }
    )
