"""Values in a registry's framing as JSON Schema or Protobuf, made of the JSON of rows.

The schema is the newest of the subject, or made of that of the object, which is registered then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import InvalidSchema
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.schema_documents import json_schema_of, protobuf_of
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.protobuf_messages import WRONG, Types, encoder, types_of, types_of_member
from headrace.formats.records.protobuf_schemas import ProtobufSchema
from headrace.formats.records.registry import (
    RegisteredSchema,
    frame,
    glue_head,
    glue_of,
    head,
    latest,
    subject_of,
    unsigned_varint,
)
from headrace.model.columns import Column, column_of
from headrace.model.errors import InvalidObject
from headrace.options.choices import Envelope, EnvelopeField, ValueFormat
from headrace.options.record_sources import FieldSource
from headrace.options.schema_settings import AvroOptions, GlueWriting, RegistrySettings
from headrace.options.settings import FormatSettings

Faults = dict[int, tuple[str, str]]
_KINDS: Final = {ValueFormat.JSON_SCHEMA: "JSON", ValueFormat.PROTOBUF: "PROTOBUF"}
_NAME: Final = "Row"
_FIRST_MESSAGE: Final = b"\x00"
_CONFLUENTS: Final = 'import "confluent/'
# The JSON of rows has UUIDs as texts.
_AS_JSON: Final = AvroOptions(text_uuids=True)


@dataclass(frozen=True, slots=True)
class ValueFraming:
    """Puts `prefix` before what `encode` makes of each value's JSON; None: before the JSON itself."""

    prefix: bytes
    encode: Callable[[bytes], bytes] | None = None

    def framed(self, values: Column) -> tuple[Column, Faults]:
        """The values in the framing, and reason and message of those that are none of the schema."""
        encode, prefix = self.encode, self.prefix
        faults: Faults = {}
        found: list[bytes | None] = []
        for index, text in enumerate(values.each(0, len(values))):
            if text is None:
                found.append(None)
            elif encode is None:
                found.append(prefix + text)
            else:
                try:
                    found.append(prefix + encode(text))
                except WRONG:
                    found.append(None)
                    faults[index] = ("not_protobuf", "the row is no message of the schema in the registry")
        return column_of(found), faults


def has_newest_schema(settings: FormatSettings) -> bool:
    """True when the framing is by the newest schema in the registry, whichever schema the rows bring."""
    found = settings.glue or settings.registry
    return found is not None and found.use_latest


def has_own_schema(settings: FormatSettings) -> bool:
    """True when values are written by a schema that is made of that of their rows."""
    return settings.value_format in _KINDS and not has_newest_schema(settings)


def value_framing(options: DecodeOptions, avro: str | None) -> ValueFraming | None:
    """The framing that `value.format` asks for; None for others. `avro` is the schema that rows bring.

    Blocks on the registry once for each schema and process, and raises as `registry_prefix` does.
    """
    settings = options.format
    kind = _KINDS.get(settings.value_format)
    if kind is not None and settings.glue is not None:
        return _glue_framing(options, settings.glue, kind, avro)
    if kind is None or settings.registry is None:
        return None
    registered = _registered(settings.registry, options.topic, kind, avro)
    prefix = head(registered.number)
    if kind == "JSON":
        return ValueFraming(prefix)
    schema = _compiled(registered.text, dict(registered.files), registered.number)
    is_own = not settings.registry.use_latest
    rows = _row_types(options, avro)
    return ValueFraming(prefix + _FIRST_MESSAGE, encoder(schema.message((0,)), rows, is_own=is_own))


def _glue_framing(options: DecodeOptions, glue: GlueWriting, kind: str, avro: str | None) -> ValueFraming:
    name, registry = glue.schema or options.topic, glue_of(options)
    if glue.use_latest:
        version, found, text = registry.latest(name)
        if found != kind:
            raise _other_kind(f"schema {name} of AWS Glue", found, kind)
    else:
        text = _text(kind, avro)
        if _CONFLUENTS in text:
            raise InvalidObject(
                "The rows have decimals, for which AWS Glue's schemas of Protobuf have no type: use its "
                "Avro or JSON converter.",
                reason="schema_refused",
            )
        version = registry.version(name, kind, text)
    prefix = glue_head(version)
    if kind == "JSON":
        return ValueFraming(prefix)
    schema = _compiled(text, {}, version)
    message = schema.message((0,))
    is_own = not glue.use_latest
    rows = _row_types(options, avro)
    return ValueFraming(
        prefix + unsigned_varint(schema.number(message)), encoder(message, rows, is_own=is_own)
    )


def _row_types(options: DecodeOptions, avro: str | None) -> Types:
    """The types of what becomes a message, where rows bring a schema: of rows, or of a field of theirs."""
    found = () if avro is None else types_of((parse_schema(avro, is_bounded=False),))
    for name in _path(options.format):
        found = types_of_member(found, name)
    return found


def _path(settings: FormatSettings) -> tuple[str, ...]:
    """Where in a row its value is."""
    if settings.envelope is not Envelope.NONE:
        return (EnvelopeField.VALUE.value,)
    return settings.value_source.path if isinstance(settings.value_source, FieldSource) else ()


def _registered(registry: RegistrySettings, topic: str, kind: str, avro: str | None) -> RegisteredSchema:
    if registry.use_latest:
        subject = f"{topic}-value"
        found = latest(registry, subject)
        if found.kind != kind:
            raise _other_kind(f"subject {subject}", found.kind, kind)
        return found
    text, name = _text(kind, avro), _name(avro)
    prefix = frame(registry, subject_of(registry, topic, name), text, kind)
    return RegisteredSchema(int.from_bytes(prefix[1:], "big"), kind, text, ())


def _other_kind(what: str, found: str, wanted: str) -> InvalidObject:
    return InvalidObject(
        f"The newest schema of the {what} is of the type {found}, not {wanted}: correct value.format, or the "
        "subject.",
        reason="schema_refused",
    )


def _text(kind: str, avro: str | None) -> str:
    """The schema of rows in another kind of schema's words."""
    assert avro is not None, "settings are checked: rows of JSON are written by the newest schema"
    try:
        connect = schema_of_avro(avro, options=_AS_JSON)
        if connect is None:
            raise InvalidSchema("all of them are null")  # noqa: TRY301  # with what else has no schema
        return json_schema_of(connect) if kind == "JSON" else protobuf_of(connect, _NAME)
    except InvalidSchema as error:
        raise InvalidObject(
            f"The rows cannot be written as {kind}: {error}. Set schema.registry.use.latest.version=true and "
            "register a schema that they fit, or value.format=avro or json.",
            reason="schema_refused",
        ) from error


def _name(avro: str | None) -> str:
    """What the rows' schema is called, which names its subject."""
    connect = None if avro is None else schema_of_avro(avro, options=_AS_JSON)
    return _NAME if connect is None else connect.name or _NAME


def _compiled(text: str, files: dict[str, str], number: int | UUID) -> ProtobufSchema:
    try:
        schema = ProtobufSchema(text, files)
        schema.message((0,))
    except InvalidSchema as error:
        raise InvalidObject(
            f"The schema with the id {number} cannot be used: {error}.", reason="schema_refused"
        ) from error
    return schema
