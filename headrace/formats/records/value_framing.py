"""Values in a registry's framing as JSON Schema or Protobuf, made of the JSON of rows.

The schema is the newest of the subject, or made of that of the object, which is registered then.
"""

import base64
import binascii
import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec

from headrace.formats.connect import InvalidSchema
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.schema_documents import json_schema_of, protobuf_of
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.protobuf_schemas import ProtobufSchema, field_parameters, is_map, wrapped
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
from headrace.options.choices import ValueFormat
from headrace.options.schema_settings import AvroOptions, GlueWriting, RegistrySettings
from headrace.options.settings import FormatSettings

Faults = dict[int, tuple[str, str]]
_KINDS: Final = {ValueFormat.JSON_SCHEMA: "JSON", ValueFormat.PROTOBUF: "PROTOBUF"}
_NAME: Final = "Row"
_FIRST_MESSAGE: Final = b"\x00"
_CONFLUENTS: Final = 'import "confluent/'
# The JSON of rows has UUIDs as texts.
_AS_JSON: Final = AvroOptions(text_uuids=True)
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


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
                except _WRONG:
                    found.append(None)
                    faults[index] = ("not_protobuf", "the row is no message of the schema in the registry")
        return column_of(found), faults


def has_newest_schema(settings: FormatSettings) -> bool:
    """True when the framing is by the newest schema in the registry, whichever schema the rows bring."""
    found = settings.glue or settings.registry
    return found is not None and found.use_latest


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
    return ValueFraming(
        prefix + _FIRST_MESSAGE, _encoder(schema.message((0,)), is_own=not settings.registry.use_latest)
    )


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
    return ValueFraming(
        prefix + unsigned_varint(schema.number(message)), _encoder(message, is_own=not glue.use_latest)
    )


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


def _encoder(message: Any, *, is_own: bool) -> Callable[[bytes], bytes]:
    """What makes a message of a row's JSON; with `is_own` its schema was made of that of the rows."""
    from google.protobuf import message_factory
    from google.protobuf.message import DecodeError, EncodeError

    made: Any = message_factory.GetMessageClass(message)
    change = _changes(message, {}, is_own=is_own)
    is_deep = _may_be_deep(message)
    decode = msgspec.json.Decoder().decode

    def encode(text: bytes) -> bytes:
        row = decode(text)
        try:
            found = bytes(made(**(row if change is None else change(row))).SerializeToString())
            if is_deep:
                made.FromString(found)  # readers follow about 100 levels, which writers do not count
        except (EncodeError, DecodeError) as error:
            raise ValueError(str(error)) from error
        return found

    return encode


def _may_be_deep(message: Any) -> bool:
    """True where the message, or one that it holds, may hold itself."""

    def returns(one: Any, above: tuple[str, ...]) -> bool:
        if one.full_name in known:
            return False
        if one.full_name in above:
            return True
        held = [field.message_type for field in one.fields if field.message_type is not None]
        found = any(returns(each, (*above, one.full_name)) for each in held)
        known.add(one.full_name)
        return found

    known: set[str] = set()
    return returns(message, ())


_WRONG: Final = (
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    binascii.Error,
    msgspec.DecodeError,
)
Change = Callable[[Any], Any]


def _changes(message: Any, known: dict[str, Change], *, is_own: bool) -> Change | None:
    """What makes values for the library of a row's JSON: bytes of base64, and moments; None if nothing.

    Of a `oneof` a row has one member at most.

    In a schema of the rows' own a number that is always there is null in JSON where it is not finite, and for
    the library a null would be 0.
    """
    name = message.full_name
    members = _members if wrapped(message) is None else _wrapper
    if name in known:
        # Of a message that holds itself what is to be done is not known yet.
        def changed_later(row: Any) -> Any:
            return known[name](row)

        return changed_later
    known[name] = members
    changes: dict[str, Change] = {}
    for field in message.fields:
        change = _field_change(field, known, is_own=is_own)
        if change is not None:
            changes[field.name] = change
    filled = [each.name for each in message.fields if is_own and _is_always_there(each)]
    choices = _choices(message)
    if not changes and not filled and not choices and members is _members:
        return None

    def changed(row: Any) -> Any:
        found = dict(members(row))
        _check_choices(found, choices)
        if any(found.get(name) is None for name in filled):
            raise ValueError("a number is not finite")
        for name, change in changes.items():
            value = found.get(name)
            if value is not None:
                found[name] = change(value)
        return found

    known[message.full_name] = changed
    return changed


def _choices(message: Any) -> list[list[str]]:
    """The names of each `oneof` that has several."""
    return [[each.name for each in one.fields] for one in message.oneofs if len(one.fields) > 1]


def _check_choices(row: dict[str, Any], choices: list[list[str]]) -> None:
    """ValueError for two members of one `oneof`, of which the library would keep one."""
    for names in choices:
        if sum(row.get(name) is not None for name in names) > 1:
            raise ValueError(f"several of {', '.join(names)}")


def _is_always_there(field: Any) -> bool:
    """True for a float or double that is neither optional nor repeated."""
    return field.type in {field.TYPE_DOUBLE, field.TYPE_FLOAT} and not (
        field.has_presence or field.is_repeated
    )


def _field_change(field: Any, known: dict[str, Change], *, is_own: bool) -> Change | None:
    if is_map(field):
        one = _one_change(field.message_type.fields_by_name["value"], known, is_own=is_own)
        # Of maps whose keys are no texts rows have lists of pairs.
        return None if one is None else lambda found: {key: one(value) for key, value in dict(found).items()}
    change = _one_change(field, known, is_own=is_own)
    if field.is_repeated and (change is not None or not is_own):
        return lambda found: [value if change is None else change(value) for value in _items(found)]
    return change


def _one_change(field: Any, known: dict[str, Change], *, is_own: bool) -> Change | None:
    if field.message_type is None:
        return _plain_change(field, is_own=is_own)
    match field.message_type.full_name:
        case "google.protobuf.Timestamp":
            return _timestamp
        case "google.type.Date":
            return _date
        case "google.type.TimeOfDay":
            return _time_of_day
        case "confluent.type.Decimal":
            scale = int(field_parameters(field).get("scale", "0"))
            return lambda text: {"value": _octets(text), "scale": scale}
        case _:
            return _changes(field.message_type, known, is_own=is_own)


def _plain_change(field: Any, *, is_own: bool) -> Change | None:
    """For the library 2 is true, true is 1.0, and a float above all of them infinite."""
    checked: dict[int, Change] = {
        field.TYPE_BOOL: _flag,
        field.TYPE_FLOAT: partial(_near, form="<f"),
        field.TYPE_DOUBLE: partial(_near, form="<d"),
    }
    if field.type == field.TYPE_BYTES:
        return _octets
    return None if is_own else checked.get(field.type)


def _members(value: Any) -> dict[str, Any]:
    """The members of an object; TypeError for a list, of which a dict might be made as well."""
    if not isinstance(value, dict):
        raise TypeError("the value is no object")
    return value


def _wrapper(value: Any) -> dict[str, Any]:
    """A wrapper of Google's, of the value in it, as a sink archives it, or of its members."""
    if value is None:
        raise TypeError("the value is null")
    return value if isinstance(value, dict) else {"value": value}


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("the value is no list")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("the value is no boolean")
    return value


def _near(value: Any, form: str) -> float:
    """The float or double next to a number; ValueError for an integer that none of them is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("the value is no number")
    # OverflowError where a float would be infinite.
    (found,) = struct.unpack(form, struct.pack(form, float(value)))
    if isinstance(value, int) and found != value:
        raise ValueError("the number would be another one")
    return float(found)


def _octets(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _whole(value: Any) -> int:
    """A whole number; TypeError for true, of which a time would be made as well."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("the value is no whole number")
    return value


def _timestamp(value: Any) -> dict[str, int]:
    ms = _whole(value)
    return {"seconds": ms // 1000, "nanos": ms % 1000 * 1_000_000}


def _time_of_day(value: Any) -> dict[str, int]:
    ms = _whole(value)
    return {
        "hours": ms // 3_600_000,
        "minutes": ms // 60_000 % 60,
        "seconds": ms // 1000 % 60,
        "nanos": ms % 1000 * 1_000_000,
    }


def _date(value: Any) -> dict[str, int]:
    day = dt.date.fromordinal(_EPOCH + _whole(value))
    return {"year": day.year, "month": day.month, "day": day.day}
