"""Under which subjects of a registry a source with a router writes: those of the routed topics."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import Schema

from headrace.formats.records.registry_connection import registry_client
from headrace.kafka.data_topics import OutputTopic
from headrace.kafka.producer.topic_limits import TopicLimits
from headrace.model.columns import RowBatch
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import Split
from headrace.options.choices import SubjectNameStrategy
from headrace.options.schema_settings import RegistrySettings
from spark.source.decoding import Decoding
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.encoding.registry import registry
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.formats.transforms.transformed import KAFKA, chain
from tests.headrace.options.loading import load_with

_ORDER: Final = {"type": "record", "name": "Order", "fields": [{"name": "a", "type": "int"}]}
_DATA: Final = file_of(_ORDER, [{"a": 1}])
_ROUTER: Final = {"type": KAFKA + "RegexRouter", "regex": "raw-(.*)", "replacement": "$1"}
_PREDICATES: Final = {
    "null": {"type": KAFKA + "predicates.RecordIsTombstone"},
    "raw": {"type": KAFKA + "predicates.TopicNameMatches", "pattern": "raw-.*"},
}


class _Topics:
    def get(self, name: str, /) -> OutputTopic:
        return OutputTopic(name=name, partitions=1, max_record_bytes=2000)

    ask = get


def _decoded(
    found: RegistrySettings, transforms: Mapping[str, str], name: str = "avro.AvroConverter"
) -> list[RowBatch]:
    settings = load_with(
        {
            "topic": "raw-orders",
            "input.format": "avro",
            "value.converter": f"io.confluent.connect.{name}",
            "key.converter": "io.confluent.connect.avro.AvroConverter",
            "schema.registry.url": "http://registry:8081",
            **transforms,
        }
    )
    decoding = Decoding(replace(settings.format, registry=found), TopicLimits(_Topics()), settings.transforms)
    held = S3Object(id=ObjectId("bucket", "a.avro", "e"), size=len(_DATA), last_modified_ms=0)
    source: Any = MemorySource(_DATA)
    return list(decoding.decode(source, Split(object=held, route=Route(topic="raw-orders"))))


@pytest.mark.parametrize(
    ("transforms", "topic"),
    [
        ({}, "raw-orders"),
        (chain(_ROUTER), "orders"),
        (chain(_ROUTER, {**_ROUTER, "regex": "orders", "replacement": "o"}), "o"),
        (chain({**_ROUTER, "predicate": "raw"}, predicates=_PREDICATES), "orders"),
        # Known only with a record.
        (chain({**_ROUTER, "predicate": "null"}, predicates=_PREDICATES), "raw-orders"),
        (chain({"type": KAFKA + "TimestampRouter"}), "raw-orders"),
        # No topic, and no record goes there.
        (chain({**_ROUTER, "replacement": "a/$1"}), "raw-orders"),
    ],
)
def test_schemas_are_registered_for_the_topic_after_the_chain(
    transforms: Mapping[str, str], topic: str
) -> None:
    """As Connect's converters do, which come after transforms."""
    found = registry()
    _decoded(found, transforms)
    assert registry_client(found).get_subjects() == [f"{topic}-key", f"{topic}-value"]


def test_the_record_is_named_next_to_that_topic() -> None:
    """With the strategy of both."""
    found = replace(registry(), subject_name_strategy=SubjectNameStrategy.TOPIC_RECORD)
    _decoded(found, chain(_ROUTER))
    assert registry_client(found).get_subjects() == ["orders-key", "orders-Order"]


def test_schemas_are_looked_up_for_that_topic() -> None:
    """Where Connect left them, also with the newest one."""
    looked_up = replace(registry(), auto_register=False)
    for subject, schema in (("orders-value", json.dumps(_ORDER)), ("orders-key", '"string"')):
        registry_client(looked_up).register_schema(subject, Schema(schema, "AVRO"))
    assert [len(each) for each in _decoded(looked_up, chain(_ROUTER))] == [1]

    newest = replace(registry(), use_latest=True)
    registry_client(newest).register_schema("orders-value", Schema('{"type":"object"}', "JSON"))
    (rows,) = _decoded(newest, chain(_ROUTER), name="json.JsonSchemaConverter")
    assert (rows.topic, rows.values.get(0)) == ("orders", b"\0\0\0\0\1" + b'{"a":1}')
