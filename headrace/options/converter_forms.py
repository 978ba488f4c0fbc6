"""Kafka Connect's converter classes, and the `value.format` that each one stands for."""

from typing import Final

from headrace.options.choices import SubjectNameStrategy, ValueFormat
from headrace.options.sink_settings import ConverterKind
from headrace.options.value_types import Form, FormError

_BYTE_ARRAY: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"

_JSON_SCHEMA: Final = "io.confluent.connect.json.JsonSchemaConverter"
_PROTOBUF: Final = "io.confluent.connect.protobuf.ProtobufConverter"


def _converter(formats: dict[str, ValueFormat]) -> Form[ValueFormat]:
    def parse(text: str) -> ValueFormat:
        found = formats.get(text.strip())
        if found is None:
            raise FormError("other converters have no counterpart here")
        return found

    return Form(kind="CLASS", expected=f"one of {', '.join(formats)}", parse=parse, values=tuple(formats))


_PRIMITIVES: Final = {
    f"org.apache.kafka.connect.converters.{name}Converter": kind
    for name, kind in (
        ("Short", ConverterKind.SHORT),
        ("Integer", ConverterKind.INTEGER),
        ("Long", ConverterKind.LONG),
        ("Float", ConverterKind.FLOAT),
        ("Double", ConverterKind.DOUBLE),
        ("Boolean", ConverterKind.BOOLEAN),
    )
}
_OF_SINKS: Final = dict.fromkeys(_PRIMITIVES, ValueFormat.AUTO)
_AWS: Final = "com.amazonaws.services.schemaregistry.kafkaconnect."
_GLUE: Final = {
    f"{_AWS}AWSKafkaAvroConverter": ConverterKind.AVRO,
    f"{_AWS}jsonschema.JsonSchemaConverter": ConverterKind.JSON_SCHEMA,
    f"{_AWS}protobuf.ProtobufSchemaConverter": ConverterKind.PROTOBUF,
}
_OF_GLUE: Final = dict(
    zip(_GLUE, (ValueFormat.AVRO, ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF), strict=True)
)
SINKS_ONLY: Final = frozenset(_PRIMITIVES)
"""Classes that a sink reads with, and a source does not write with."""

VALUE_CONVERTER: Final = _converter(
    {
        _BYTE_ARRAY: ValueFormat.RAW,
        _STRING: ValueFormat.AUTO,
        _JSON: ValueFormat.JSON,
        _AVRO: ValueFormat.AVRO,
        _JSON_SCHEMA: ValueFormat.JSON_SCHEMA,
        _PROTOBUF: ValueFormat.PROTOBUF,
        **_OF_GLUE,
        **_OF_SINKS,
    }
)
# A key is a text or a field as it is: the bytes of ByteArrayConverter and StringConverter are the same.
KEY_CONVERTER: Final = _converter(
    {
        _BYTE_ARRAY: ValueFormat.AUTO,
        _STRING: ValueFormat.AUTO,
        _JSON: ValueFormat.JSON,
        _AVRO: ValueFormat.AVRO,
        _JSON_SCHEMA: ValueFormat.JSON_SCHEMA,
        _PROTOBUF: ValueFormat.PROTOBUF,
        **_OF_GLUE,
        **_OF_SINKS,
    }
)
_SIMPLE_HEADER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
HEADER_CONVERTER: Final = _converter(
    {
        _BYTE_ARRAY: ValueFormat.RAW,
        _STRING: ValueFormat.AUTO,
        _SIMPLE_HEADER: ValueFormat.AUTO,
        _JSON: ValueFormat.JSON,
        **_OF_SINKS,
    }
)

KINDS: Final = {
    _BYTE_ARRAY: ConverterKind.BYTES,
    _STRING: ConverterKind.STRING,
    _JSON: ConverterKind.JSON,
    _AVRO: ConverterKind.AVRO,
    _JSON_SCHEMA: ConverterKind.JSON_SCHEMA,
    _PROTOBUF: ConverterKind.PROTOBUF,
    _SIMPLE_HEADER: ConverterKind.SIMPLE,
    **_PRIMITIVES,
    **_GLUE,
}
"""What a sink reads with each class."""


def is_of_glue(text: str | None) -> bool:
    """Whether a class reads by AWS Glue's schema registry."""
    return (text or "").strip() in _GLUE


_SUBJECTS: Final = "io.confluent.kafka.serializers.subject."
_STRATEGIES: Final = {
    "topic": SubjectNameStrategy.TOPIC,
    "record": SubjectNameStrategy.RECORD,
    "topic_record": SubjectNameStrategy.TOPIC_RECORD,
    _SUBJECTS + "TopicNameStrategy": SubjectNameStrategy.TOPIC,
    _SUBJECTS + "RecordNameStrategy": SubjectNameStrategy.RECORD,
    _SUBJECTS + "TopicRecordNameStrategy": SubjectNameStrategy.TOPIC_RECORD,
}


def _strategy(text: str) -> SubjectNameStrategy:
    found = _STRATEGIES.get(text.strip())
    if found is None:
        raise FormError
    return found


SUBJECT_NAME_STRATEGY: Final = Form(
    kind="CLASS",
    expected="topic, record, topic_record, or Confluent's class of that name",
    parse=_strategy,
    values=tuple(_STRATEGIES),
)
