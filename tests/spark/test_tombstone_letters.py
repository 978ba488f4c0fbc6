"""Dead letters of records whose value is a null: key and null as they were."""

import json
from typing import Any, Final

import pytest

from headrace.kafka.data_topics import OutputTopic
from headrace.kafka.producer.topic_limits import TopicLimits
from headrace.model.columns import BadRow, RowBatch
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import Split
from headrace.options import Settings
from spark.source.dead_letters import dead_letter, refused_row
from spark.source.decoding import Decoding
from spark.source.source_work import task_settings
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with

_ROWS: Final = b"".join(
    json.dumps(each).encode() + b"\n"
    for each in (
        {"key": "customer-17", "value": None, "offset": 1},
        {"key": "customer-18", "value": "text", "offset": 2},
        {"key": None, "value": None, "offset": 3},
    )
)
_SPLIT: Final = Split(
    object=S3Object(id=ObjectId("bucket", "orders-0-0", "e"), size=len(_ROWS), last_modified_ms=0),
    route=Route(topic="orders", partition=0, start_offset=0),
)
_STEP: Final = {
    "transforms": "k",
    "transforms.k.type": "org.apache.kafka.connect.transforms.ValueToKey",
    "transforms.k.fields": "id",
}


class _Topics:
    def get(self, name: str, /) -> OutputTopic:
        return OutputTopic(name=name, partitions=1, max_record_bytes=2000)

    ask = get


def _settings(**more: str) -> Settings:
    return load_with(
        {
            "topic": None,
            "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}",
            "input.layout": "aiven",
            "input.format": "jsonl",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "letters",
            **more,
        }
    )


def _decoded(settings: Settings) -> RowBatch:
    decoding = Decoding(settings.format, TopicLimits(_Topics()), settings.transforms)
    source: Any = MemorySource(_ROWS, name="s3://bucket/orders-0-0")
    (found,) = decoding.decode(source, _SPLIT)
    return found


def _letter(bad: BadRow, *, limit: int | None = None) -> tuple[bytes | None, bytes | None, bytes | None]:
    settings = task_settings(_settings(), slots=1)
    key, value, headers = dead_letter(_SPLIT, bad, settings=settings, slot=0, topic_max_bytes=limit)
    return key, value, dict(headers).get("headrace.size")


def test_a_tombstone_that_a_transform_refuses_has_its_key() -> None:
    """It was a record like the others, which its topic held."""
    letters = [_letter(bad) for bad in _decoded(_settings(**_STEP)).bad]
    assert letters == [(b"customer-17", None, None), (b"customer-18", b"text", None), (None, None, None)]


@pytest.mark.parametrize(("row", "expected"), [(0, (b"customer-17", None)), (1, (b"customer-18", b"text"))])
def test_a_tombstone_that_the_broker_refuses_has_its_key(
    row: int, expected: tuple[bytes | None, bytes | None]
) -> None:
    """Unless not even that fits."""
    bad = refused_row(_decoded(_settings()), row, None, "")
    assert _letter(bad)[:2] == expected
    assert _letter(bad, limit=0)[:2] == (None, b"")


def test_a_row_that_could_not_be_cut_out_is_empty() -> None:
    """With its size: no null stood there."""
    position = BytePosition(0)
    bad = BadRow(index=0, position=position, after=position, reason="too_large", message="", size=7)
    assert _letter(bad) == (None, b"", b"7")
