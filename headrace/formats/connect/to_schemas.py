"""Connect schemas as JSON Schema and as Protobuf, as Confluent's converters register them."""

import json
import re
from typing import Any, Final

from headrace.formats.connect.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    InvalidSchema,
    Type,
    decimal_scale,
)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNION: Final = "io.confluent.connect.avro.Union"
_JSON: Final = {
    Type.INT8: ("integer", "int8"),
    Type.INT16: ("integer", "int16"),
    Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"),
    Type.FLOAT32: ("number", "float32"),
    Type.FLOAT64: ("number", "float64"),
    Type.BOOLEAN: ("boolean", None),
    Type.STRING: ("string", None),
    # Bytes are base64 in JSON, and so are the unscaled values of decimals.
    Type.BYTES: ("string", "bytes"),
}
_PROTOBUF: Final = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_LOGICAL: Final = {
    DATE: ("google.type.Date", "google/type/date.proto"),
    TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
}


def json_schema_of(schema: ConnectSchema) -> str:
    """The text of a JSON Schema. InvalidSchema for unions, whose JSON is that of one branch."""
    shape = _json(schema)
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **shape}, separators=(",", ":"))


def _json(schema: ConnectSchema) -> dict[str, Any]:
    shape = _plain_json(schema)
    for word, found in (
        ("title", schema.name),
        ("connect.version", schema.version),
        ("description", schema.doc),
        ("connect.parameters", dict(schema.parameters) or None),
    ):
        if found is not None:
            shape[word] = found
    return {"oneOf": [{"type": "null"}, shape]} if schema.optional else shape


def _plain_json(schema: ConnectSchema) -> dict[str, Any]:
    _refuse_union(schema)
    match schema.type:
        case Type.STRUCT:
            properties = {
                each.name: {"connect.index": number, **_json(each.schema)}
                for number, each in enumerate(schema.fields)
            }
            return {"type": "object", "properties": properties}
        case Type.ARRAY:
            return {"type": "array", "items": _json(schema.item)}
        case Type.MAP:
            if not schema.has_text_keys:
                raise InvalidSchema("a map has other keys than texts")
            return {
                "type": "object",
                "connect.type": "map",
                "additionalProperties": _json(schema.map_parts[1]),
            }
        case _:
            kind, own = _JSON[schema.type]
            return {"type": kind} | ({} if own is None else {"connect.type": own})


def _refuse_union(schema: ConnectSchema) -> None:
    if schema.name == _UNION:
        raise InvalidSchema("a value may be of several types")


def protobuf_of(schema: ConnectSchema, name: str) -> str:
    """The text of a schema whose first message, of this name if it has none, is a struct. InvalidSchema."""
    if schema.type is not Type.STRUCT:
        raise InvalidSchema("a message has fields, and the value is not one of those")
    imports: set[str] = set()
    space, _, own = (schema.name or name).rpartition(".")
    body = "\n".join(_message(schema, _name(own), imports, "", ()))
    head = ['syntax = "proto3";', *([f"package {space};"] if space else [])]
    return "\n".join([*head, *(f'import "{each}";' for each in sorted(imports)), "", body, ""])


def _message(
    schema: ConnectSchema, name: str, imports: set[str], indent: str, around: tuple[str, ...]
) -> list[str]:
    _refuse_union(schema)
    lines, inner = [], f"{indent}  "
    for number, each in enumerate(schema.fields, 1):
        field, found = _name(each.name), each.schema
        # Within others that are called so, the name would mean the inner one.
        below = f"{field[:1].upper()}{field[1:]}"
        while below in (*around, name):
            below += "_"
        if found.type is Type.ARRAY:
            kind, label = _kind(found.item, below, imports), "repeated "
        elif found.type is Type.MAP:
            key, value = found.map_parts
            if not found.has_text_keys or key.optional:
                raise InvalidSchema("a map has other keys than texts")
            kind, label = f"map<string, {_kind(value, below, imports)}>", ""
        else:
            kind, label = _kind(found, below, imports), "optional " if found.optional else ""
        for nested in (found, *filter(None, (found.items, found.value))):
            if nested.type is Type.STRUCT:
                lines += _message(nested, below, imports, inner, (*around, name))
        lines.append(f"{inner}{label}{kind} {field} = {number}{_options(found, imports)};")
    return [f"{indent}message {name} {{", *lines, f"{indent}}}"]


def _kind(schema: ConnectSchema, below: str, imports: set[str]) -> str:
    if schema.type is Type.STRUCT:
        return below
    if schema.type in {Type.ARRAY, Type.MAP}:
        raise InvalidSchema("a list has lists, or maps, which Protobuf has none of")
    logical = _LOGICAL.get(schema.name or "")
    if logical is None:
        return _PROTOBUF[schema.type]
    imports.add(logical[1])
    return logical[0]


def _options(schema: ConnectSchema, imports: set[str]) -> str:
    found = schema.item if schema.type is Type.ARRAY else schema
    if found.name != DECIMAL:
        return ""
    imports.add("confluent/meta.proto")
    return f' [(confluent.field_meta).params = {{key: "scale", value: "{decimal_scale(found)}"}}]'


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise InvalidSchema(f"{text!r} is no name of Protobuf's")
    return text
