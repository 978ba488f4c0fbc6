"""Connect schemas of JSON Schema, and as JSON Schema and Protobuf, as Confluent's converters have them."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from headrace.formats.avro_schema import FIELDS_MAX, TOO_MANY_FIELDS
from headrace.formats.connect.payloads import PayloadSchema, UnfitValue
from headrace.formats.connect.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectField,
    ConnectSchema,
    Default,
    InvalidSchema,
    Type,
    decimal_default,
    decimal_scale,
)
from headrace.formats.connect.schema_references import SchemaReferences

ONE_OF: Final = "io.confluent.connect.json.OneOf"
"""The name of a struct with a field for each type that a value may be of, one of which is there."""
_ENUM: Final = "io.confluent.connect.json.Enum"
_KINDS: Final = {
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float32": Type.FLOAT32,
    "float64": Type.FLOAT64,
    "bytes": Type.BYTES,
}
_SCALARS: Final = {
    "boolean": Type.BOOLEAN,
    "integer": Type.INT64,
    "number": Type.FLOAT64,
    "string": Type.STRING,
}
_NO_INDEX: Final = 2**31


def schema_of_json_schema(text: str, files: Mapping[str, str]) -> ConnectSchema:
    """The schema; `files` are the texts of those that it refers to, by the names of the references.

    Raises InvalidSchema where Connect has none: a schema that refers to itself, or leaves types open.
    """
    documents = {"": _json(text, "it")} | {name: _json(body, name) for name, body in files.items()}
    return _Reader(documents).read(documents[""], "", (), optional=False)


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"{what} is no JSON") from error


class _Reader:
    """Reads the parts of a schema; `document` is the name of that which a part is in."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self._references = SchemaReferences(documents)
        self._fields = 0

    def read(self, shape: Any, document: str, path: tuple[int, ...], *, optional: bool) -> ConnectSchema:
        """The schema of one part; `path` are the identities of what references led to."""
        if not isinstance(shape, dict):
            raise InvalidSchema(_OPEN)
        if "$ref" in shape:
            return self._referred(shape, document, path, optional=optional)
        nullable, alternatives = self._alternatives(shape, document)
        optional = optional or nullable
        if len(alternatives) == 1:
            inner, place = alternatives[0]
            if inner is not shape:
                return self.read({**_own(shape), **inner}, place, path, optional=optional)
            found = self._plain(shape, document, path, optional=optional)
            return replace(found, default=_default(found, shape.get("default")))
        self._count_field()
        fields = tuple(
            ConnectField(f"{ONE_OF}.field.{number}", self.read(inner, place, path, optional=True))
            for number, (inner, place) in enumerate(alternatives)
        )
        if not fields:
            raise InvalidSchema("it has a value that can only be null")
        return ConnectSchema(type=Type.STRUCT, name=ONE_OF, optional=optional, fields=fields)

    def _count_field(self) -> None:
        """InvalidSchema beyond the bound: a definition counts again wherever it is referred to."""
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise InvalidSchema(TOO_MANY_FIELDS)

    def _referred(self, shape: Any, document: str, path: tuple[int, ...], *, optional: bool) -> ConnectSchema:
        found, place, path = self._followed(shape, document, path)
        return self.read(found, place, path, optional=optional)

    def _followed(self, shape: Any, document: str, path: tuple[int, ...]) -> tuple[Any, str, tuple[int, ...]]:
        """What a reference means, the document that it is in, and the path with it."""
        reference = str(shape["$ref"])
        found, place = self._references.found(reference, document)
        if id(found) in path:
            raise InvalidSchema(f"it refers to itself ({reference}), for which there are no columns")
        return found, place, (*path, id(found))

    def _alternatives(self, shape: Any, document: str) -> tuple[bool, list[tuple[Any, str]]]:
        """Whether null is one of the types, and the others."""
        for word in ("oneOf", "anyOf"):
            if word in shape:
                found = [each for each in shape[word] if not _is_null(each)]
                return len(found) < len(shape[word]), [(each, document) for each in found]
        kinds = shape.get("type")
        if isinstance(kinds, list):
            rest = [each for each in kinds if each != "null"]
            if len(rest) == 1:
                # Next to a list of types an enum says nothing to Kafka Connect, whatever is in it.
                own = {word: each for word, each in shape.items() if word != "enum"}
                return len(rest) < len(kinds), [({**own, "type": rest[0]}, document)]
            return len(rest) < len(kinds), [({"type": each}, document) for each in rest]
        if kinds is None and None in shape.get("enum", ()):
            rest = [each for each in shape["enum"] if each is not None]
            return True, [({**shape, "enum": rest}, document)] if rest else []
        return _is_null(shape), [] if _is_null(shape) else [(shape, document)]

    def _plain(self, shape: Any, document: str, path: tuple[int, ...], *, optional: bool) -> ConnectSchema:
        self._count_field()
        given: dict[str, Any] = {
            "optional": optional,
            "name": shape.get("title"),
            "version": shape.get("connect.version"),
            "doc": shape.get("description"),
            "parameters": tuple((each, str(text)) for each, text in _parameters(shape).items()),
        }
        kind, own = shape.get("type"), shape.get("connect.type")
        if kind is None and "enum" in shape:
            kind = "string"
        if kind is None and ("properties" in shape or "allOf" in shape):
            kind = "object"
        if kind == "object":
            return self._object(shape, document, path, given, own)
        if kind == "array":
            return self._array(shape, document, path, given, own)
        if kind not in _SCALARS:
            raise InvalidSchema(_OPEN if kind is None else f"it has a type {kind}")
        if "enum" in shape and kind == "string":
            texts = [each for each in shape["enum"] if isinstance(each, str)]
            if "type" not in shape and len(texts) < len(shape["enum"]):
                raise InvalidSchema("it has an enum of other values than texts")
            symbols = tuple((f"{_ENUM}.{each}", each) for each in texts)
            given["parameters"] = (*given["parameters"], (_ENUM, ""), *symbols)
        return ConnectSchema(type=_KINDS.get(str(own), _SCALARS[kind]), **given)

    def _array(
        self, shape: Any, document: str, path: tuple[int, ...], given: dict[str, Any], own: Any
    ) -> ConnectSchema:
        items = shape.get("items")
        if not isinstance(items, dict):
            raise InvalidSchema("it has an array that does not say of which type its items are")
        if own != "map":
            return ConnectSchema(
                type=Type.ARRAY, items=self.read(items, document, path, optional=False), **given
            )
        parts = items.get("properties", {})
        key = self.read(parts.get("key"), document, path, optional=False)
        value = self.read(parts.get("value"), document, path, optional=False)
        return ConnectSchema(type=Type.MAP, key=key, value=value, **given)

    def _object(
        self, shape: Any, document: str, path: tuple[int, ...], given: dict[str, Any], own: Any
    ) -> ConnectSchema:
        properties, required = self._members(shape, document, path)
        others = shape.get("additionalProperties")
        if own == "map" or (not properties and isinstance(others, dict)):
            value = self.read(others, document, path, optional=False)
            return ConnectSchema(type=Type.MAP, key=ConnectSchema(type=Type.STRING), value=value, **given)
        if not properties:
            raise InvalidSchema("it has an object that does not say which members it has")
        ordered = sorted(properties.items(), key=lambda each: _index(each[1][0]))
        fields = tuple(
            ConnectField(name, self.read(inner, place, path, optional=name not in required))
            for name, (inner, place) in ordered
        )
        return ConnectSchema(type=Type.STRUCT, fields=fields, **given)

    def _members(
        self, shape: Any, document: str, path: tuple[int, ...]
    ) -> tuple[dict[str, tuple[Any, str]], set[str]]:
        """The properties of an object, with those of all that it has to be as well."""
        found = {name: (inner, document) for name, inner in shape.get("properties", {}).items()}
        required = set(shape.get("required", ()))
        for each in shape.get("allOf", ()):
            inner, place, led = each, document, path
            while isinstance(inner, dict) and "$ref" in inner:
                inner, place, led = self._followed(inner, place, led)
            if not isinstance(inner, dict):
                raise InvalidSchema(_OPEN)
            self._count_field()
            below, needed = self._members(inner, place, led)
            found |= below
            required |= needed
        return found, required


def _default(schema: ConnectSchema, value: Any) -> Default | None:
    """A default in Connect's form; None for what is no value of the schema: JSON Schema demands no more."""
    if value is None:
        return None
    try:
        if schema.name == DECIMAL and isinstance(value, (int, float)):
            # Of a double the digits that the document has.
            number = Decimal(repr(value)) if isinstance(value, float) else value
            found = decimal_default(number, decimal_scale(schema))
        else:
            found = Default(json.dumps(value, separators=(",", ":")))
        PayloadSchema(schema).array([found.text.encode()])
    except (InvalidSchema, UnfitValue):
        return None
    return found


_OPEN: Final = "it leaves open what a value may be"


def _parameters(shape: Any) -> Mapping[str, Any]:
    found = shape.get("connect.parameters")
    return found if isinstance(found, dict) else {}


def _is_null(shape: Any) -> bool:
    return isinstance(shape, dict) and shape.get("type") == "null"


def _index(shape: Any) -> int:
    found = shape.get("connect.index") if isinstance(shape, dict) else None
    return found if isinstance(found, int) else _NO_INDEX


def _own(shape: Any) -> dict[str, Any]:
    """What is said of a value next to the types that it may be of."""
    names = ("title", "description", "default", "connect.version", "connect.parameters")
    return {name: shape[name] for name in names if name in shape}


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
    shape = _json_shape(schema)
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **shape}, separators=(",", ":"))


def _json_shape(schema: ConnectSchema) -> dict[str, Any]:
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
                each.name: {"connect.index": number, **_json_shape(each.schema)}
                for number, each in enumerate(schema.fields)
            }
            return {"type": "object", "properties": properties}
        case Type.ARRAY:
            return {"type": "array", "items": _json_shape(schema.item)}
        case Type.MAP:
            if not schema.has_text_keys:
                raise InvalidSchema("a map has other keys than texts")
            return {
                "type": "object",
                "connect.type": "map",
                "additionalProperties": _json_shape(schema.map_parts[1]),
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
    found = schema.items or schema.value or schema
    # A map's values are of the scale 0 where nothing is said of the map.
    if found.name != DECIMAL or (schema.type is Type.MAP and not decimal_scale(found)):
        return ""
    imports.add("confluent/meta.proto")
    return f' [(confluent.field_meta).params = {{key: "scale", value: "{decimal_scale(found)}"}}]'


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise InvalidSchema(f"{text!r} is no name of Protobuf's")
    return text
