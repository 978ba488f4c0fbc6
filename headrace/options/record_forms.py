"""The forms of options about what a record is made of: Kafka Connect's converters, sources."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from headrace.model.objects import PostAction, PostActionKind
from headrace.options import choices
from headrace.options.choices import SubjectNameStrategy, ValueFormat
from headrace.options.sink_settings import ConverterKind
from headrace.options.value_types import Form, FormError, check_tag

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


S = TypeVar("S")


def _path(text: str) -> tuple[str, ...]:
    names = tuple(text.split("."))
    if not all(names) or text != text.strip():
        raise FormError("each name between the dots of a path has a character at least")
    return names


def _field(text: str) -> choices.FieldSource:
    return choices.FieldSource(_path(text))


def _fields(text: str) -> choices.FieldHeaders:
    return choices.FieldHeaders(_path(text))


def _template(text: str) -> choices.TemplateSource:
    if not text:
        raise FormError("the text after template: is missing")
    return choices.TemplateSource(text)


# Commas and colons within a variable's braces are its own.
_TEXT_AND_NAME: Final = re.compile(r"\s*((?:\{\{[^{}]*\}\}|[^,{}])+):([^,:{}]+)(?:,|\Z)")


def _named_texts(text: str) -> choices.NamedTexts:
    found, at = [], 0
    while at < len(text):
        label = _TEXT_AND_NAME.match(text, at)
        if label is None or not label[2].strip():
            raise FormError("each text has a colon and a name after it")
        found.append((label[2].strip(), label[1]))
        at = label.end()
    if not found or text.endswith(","):
        raise FormError("each text has a colon and a name after it")
    if len({name for name, _ in found}) < len(found):
        raise FormError("a name is there twice")
    return tuple(found)


def _template_headers(text: str) -> choices.TemplateHeaders:
    return choices.TemplateHeaders(_named_texts(text))


def _source(words: Mapping[str, S], tags: Mapping[str, Callable[[str], S]], expected: str) -> Form[S]:
    def parse(text: str) -> S:
        word, colon, rest = text.partition(":")
        if not colon and word.strip().lower() in words:
            return words[word.strip().lower()]
        if colon and word.strip().lower() in tags:
            return tags[word.strip().lower()](rest)
        raise FormError

    return Form(kind="STRING", expected=expected, parse=parse, values=tuple(words))


KEY_SOURCE: Final[Form[choices.KeySource]] = _source(
    {"object_key": choices.ObjectKeySource(), "none": choices.NoSource()},
    {"field": _field, "template": _template},
    "object_key, none, field:PATH (dots for nesting) or template:TEXT",
)
VALUE_SOURCE: Final[Form[choices.ValueSource]] = _source(
    {"row": choices.RowSource()}, {"field": _field}, "row or field:PATH (dots for nesting)"
)
HEADER_SOURCE: Final[Form[choices.HeaderSource]] = _source(
    {"none": choices.NoSource(), "source": choices.ObjectHeaders()},
    {"fields": _fields, "template": _template_headers},
    "none, source, fields:PATH (dots for nesting) or template:TEXT:NAME (more after commas)",
)
TIMESTAMP_SOURCE: Final[Form[choices.TimestampSource]] = _source(
    {
        "produce": choices.ProduceTime(),
        "object": choices.ObjectTime(),
        "template": choices.TemplateTime(),
    },
    {"field": _field},
    "produce, object, template or field:PATH (dots for nesting)",
)


NAMED_TEXTS: Final = Form(
    kind="LIST",
    expected="a comma-separated list of TEXT:NAME, such as {{timestamp:unit=yyyy}}:year",
    parse=_named_texts,
)


_TAG: Final = re.compile(r"([\w .:/+@-]{1,128})=([\w .:/=+@-]{0,256})")


_OTHER_BUCKET: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/(?:[^/].*)?")


def _post_action(text: str) -> PostAction | None:
    kind, _, target = text.strip().partition(":")
    if kind.lower() == "none" and not target:
        return None
    try:
        action = PostAction(PostActionKind(kind.lower()), target)
    except ValueError:
        raise FormError from None
    match action.kind:
        case PostActionKind.DELETE if target:
            raise FormError("delete takes nothing after it")
        case PostActionKind.MOVE if "://" in target:
            if not _OTHER_BUCKET.fullmatch(target):
                raise FormError("another bucket is named as in move:s3://bucket/prefix/")
        case PostActionKind.MOVE if not target or target.startswith("/"):
            raise FormError("move needs a prefix that does not begin with /")
        case PostActionKind.TAG:
            if not _TAG.fullmatch(target):
                raise FormError("tag needs KEY=VALUE of letters, digits, blanks and _ . : / = + - @")
            check_tag(target)
    return action


POST_ACTION_FORM: Final = Form(
    kind="STRING",
    expected="none, delete, move:PREFIX, move:s3://BUCKET/PREFIX or tag:KEY=VALUE",
    parse=_post_action,
)
