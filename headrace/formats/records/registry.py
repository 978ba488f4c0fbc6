"""The schema registry's framing of values and keys: a zero byte, the schema's id, and what it describes.

That is a datum of Avro, or JSON Schema's and Protobuf's values made of the JSON of rows: by the newest schema
of the subject, or by one made of that of the object, which is registered then. Avro's variable-length
integers are here, too:
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import InvalidSchema
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.schema_documents import json_schema_of, protobuf_of
from headrace.formats.records.decode_options import DecodeOptions, GlueVersions
from headrace.formats.records.protobuf_messages import WRONG, Types, encoder, types_of, types_of_member
from headrace.formats.records.protobuf_schemas import ProtobufSchema
from headrace.formats.records.registry_connection import (
    is_refusal,
    not_a_registry,
    registry_client,
    registry_errors,
    words,
)
from headrace.model.columns import Column, column_of
from headrace.model.errors import InvalidObject
from headrace.model.text_formatting import printable
from headrace.options.choices import Envelope, EnvelopeField, FieldSource, SubjectNameStrategy, ValueFormat
from headrace.options.schema_settings import AvroOptions, GlueWriting, RegistrySettings
from headrace.options.settings import FormatSettings


def varint(number: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte, the least first."""
    return unsigned_varint(number << 1 if number >= 0 else ~(number << 1))


def unsigned_varint(number: int) -> bytes:
    """A number that is not negative as Protobuf writes it: seven bits a byte, the least first."""
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004  # seven bits
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


KeyFraming = Callable[[bytes | None], bytes | None]


def registry_prefix(options: DecodeOptions, schema: bytes | str) -> bytes:
    """What is before each value of this Avro schema; empty unless the settings ask for the framing.

    Registers the schema under its subject, or looks it up where registering is off; blocks on the registry
    once for each schema and process. Raises SourceUnavailable while the registry does not answer,
    AccessDenied while it refuses the user, InvalidObject (`schema_refused`) when it refuses the schema or
    does not have it.
    """
    settings = options.format
    if settings.value_format is not ValueFormat.AVRO:
        return b""
    text = schema if isinstance(schema, str) else schema.decode()
    if settings.glue is not None:
        return glue_head(glue_of(options).version(settings.glue.schema or options.topic, "AVRO", text))
    if settings.registry is None:
        return b""
    return frame(settings.registry, subject(settings.registry, options.topic, text), text)


def key_framing(settings: FormatSettings, topic: str, *, is_bytes: bool = False) -> KeyFraming | None:
    """What puts keys into the framing, as an Avro string (or bytes) under `<topic>-key`.

    None unless `key.converter` asks for it. A null key stays null. Blocks and raises as `registry_prefix`.
    """
    if settings.key_format is not ValueFormat.AVRO or settings.registry is None:
        return None
    prefix = frame(settings.registry, f"{topic}-key", '"bytes"' if is_bytes else '"string"')

    def framed(key: bytes | None) -> bytes | None:
        return None if key is None else prefix + varint(len(key)) + key

    return framed


def subject(registry: RegistrySettings, topic: str, schema: str) -> str:
    """The subject of a value's Avro schema, by the strategy of the settings."""
    return subject_of(registry, topic, _record_name(schema))


def subject_of(registry: RegistrySettings, topic: str, name: str) -> str:
    """The subject of a value's schema of this name."""
    match registry.subject_name_strategy:
        case SubjectNameStrategy.RECORD:
            return name
        case SubjectNameStrategy.TOPIC_RECORD:
            return f"{topic}-{name}"
        case _:
            return f"{topic}-value"


def _record_name(schema: str) -> str:
    """The full name of a named type, or the name of the kind for others."""
    shape: Any = json.loads(schema)
    if not isinstance(shape, dict):
        return str(shape)
    name = str(shape.get("name", shape.get("type")))
    namespace = shape.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name


@lru_cache(maxsize=1000)
def frame(registry: RegistrySettings, subject_name: str, schema: str, kind: str = "AVRO") -> bytes:
    """The five bytes before each datum; remembered for the life of the process."""
    # Its HTTP client and logins take a while to import, and few ask for them.
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    client = registry_client(registry)
    wanted = Schema(schema, kind)
    with registry_errors(f"let it use the subject {subject_name}", subject=subject_name):
        try:
            if registry.auto_register:
                number = client.register_schema(subject_name, wanted)
            else:
                number = client.lookup_schema(subject_name, wanted).schema_id
            if not isinstance(number, int):
                # The client would give the same from its cache for ever.
                client.clear_caches()
                raise not_a_registry("no id in the answer")
        except SchemaRegistryError as error:
            if not is_refusal(error):
                raise
            raise InvalidObject(
                f"The schema registry refuses the schema for the subject {subject_name} ({words(error)}). "
                "Register a compatible schema, or set schema.registry.subject.name.strategy.",
                reason="schema_refused",
            ) from error
    return head(number)


def head(number: int) -> bytes:
    """What is before a value whose schema has this id."""
    return b"\x00" + number.to_bytes(4, "big")


def glue_head(version: UUID) -> bytes:
    """The same in AWS Glue's framing, uncompressed: a three, a zero, and the id of the schema's version."""
    return b"\x03\x00" + version.bytes


def glue_of(options: DecodeOptions) -> GlueVersions:
    """Glue's registry, where the settings ask for its framing."""
    assert options.glue is not None, "who decodes gives the registry that the settings ask for"
    return options.glue


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """The newest schema of a subject: its id, its type, its text, and those that it refers to."""

    number: int
    kind: str
    text: str
    files: tuple[tuple[str, str], ...]


@lru_cache(maxsize=1000)
def latest(registry: RegistrySettings, subject_name: str) -> RegisteredSchema:
    """The newest schema of a subject, remembered for the life of the process; blocks.

    Raises as `frame` does; InvalidObject (`schema_refused`) where the subject has none.
    """
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    client = registry_client(registry)
    with registry_errors(f"let it read the subject {subject_name}", subject=subject_name):
        try:
            found = client.get_latest_version(subject_name)
            files = referred_files(client, found.schema)
        except CircularReference as error:
            raise InvalidObject(
                f"The schema of the subject {subject_name} refers to itself through the subject {error}.",
                reason="schema_refused",
            ) from None
        except MissingReference as error:
            raise InvalidObject(
                f"The schema of the subject {subject_name} refers to {error}, which the registry does not "
                "have.",
                reason="schema_refused",
            ) from error
        except SchemaRegistryError as error:
            if not is_refusal(error):
                raise
            raise InvalidObject(
                f"The schema registry has no schema for the subject {subject_name} ({words(error)}). "
                "Register one, or set schema.registry.use.latest.version=false for rows that bring a schema.",
                reason="schema_refused",
            ) from error
        return RegisteredSchema(
            int(found.schema_id),
            str(found.schema.schema_type),
            str(found.schema.schema_str),
            tuple(files.items()),
        )


class CircularReference(Exception):
    """The schema of this subject refers to itself through others."""


class MissingReference(Exception):
    """A schema refers to one that the registry does not have: of which subject, in words."""


def referred(client: Any, schema: Any, path: tuple[Any, ...]) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Name, schema and path of each schema that one refers to; CircularReference, MissingReference.

    One whose subject was deleted is there, as it is for Java's clients, until it is deleted for good.
    """
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    found = []
    for reference in getattr(schema, "references", None) or []:
        place = reference.subject, reference.version
        if place in path:
            raise CircularReference(reference.subject)
        try:
            version = client.get_version(reference.subject, reference.version, deleted=True)
        except SchemaRegistryError as error:
            if not is_refusal(error):
                raise
            raise MissingReference(
                f"version {reference.version} of the subject {printable(str(reference.subject), limit=250)}"
            ) from error
        found.append((reference.name, version.schema, (*path, place)))
    return found


def referred_files(client: Any, schema: Any) -> dict[str, str]:
    """The texts of all that a schema refers to, however far, by the names of the references."""
    files: dict[str, str] = {}

    def add(one: Any, path: tuple[Any, ...]) -> None:
        for name, inner, below in referred(client, one, path):
            if name not in files:
                files[name] = str(inner.schema_str)
                add(inner, below)

    add(schema, ())
    return files


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
