"""Default values of schemas: in the JSON of Connect, and in the JSON that Avro has for them."""

import base64
import json
from typing import Any, Final

from headrace.formats.connect.avro_names import UNION
from headrace.formats.connect.schema import ConnectSchema, Default, InvalidSchema, Type


def avro_default(schema: ConnectSchema, default: Default, *, optional_map_keys: bool = False) -> Any:
    """A default as JSON of Avro, in which bytes are text of their Latin-1 characters."""
    try:
        return _to_avro(schema, json.loads(default.text), optional_map_keys=optional_map_keys)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidSchema(f"a default is no value of its {schema.type}") from error


def _to_avro(schema: ConnectSchema, value: Any, *, optional_map_keys: bool) -> Any:
    def below(inner: ConnectSchema, each: Any) -> Any:
        return _to_avro(inner, each, optional_map_keys=optional_map_keys)

    if value is None:
        return None
    match schema.type:
        case Type.ARRAY:
            return [below(schema.item, each) for each in value]
        case Type.MAP:
            key, inner = schema.map_parts
            pairs = list(value.items()) if isinstance(value, dict) else value
            if key.type is Type.STRING and (not key.optional or optional_map_keys):
                return {name: below(inner, each) for name, each in pairs}
            return [[below(key, name), below(inner, each)] for name, each in pairs]
        case Type.STRUCT:
            found = {each.name: below(each.schema, value.get(each.name)) for each in schema.fields}
            return next(iter(found.values()), None) if schema.name == UNION else found
        case _:
            return _scalar_to_avro(schema.type, value)


def _scalar_to_avro(kind: Type, value: Any) -> Any:
    if kind is Type.BYTES:
        return base64.b64decode(value, validate=True).decode("latin-1")
    return float(value) if kind in _FLOATS else value


def connect_default(schema: ConnectSchema, value: Any) -> Default | None:
    """A default of Avro's JSON as one of Connect; None for null and for what is no value of the schema."""
    try:
        found = _to_connect(schema, value)
    except (TypeError, ValueError, KeyError, AttributeError):
        return None  # AvroData logs such a default and goes on without it
    if found is None:
        return None
    return Default(json.dumps(found, ensure_ascii=False, separators=(",", ":")))


def _to_connect(schema: ConnectSchema, value: Any) -> Any:
    if value is None:
        return None
    match schema.type:
        case Type.ARRAY:
            return [_to_connect(schema.item, each) for each in _checked(value, list)]
        case Type.MAP:
            key, inner = schema.map_parts
            if isinstance(value, dict):
                return {name: _to_connect(inner, each) for name, each in value.items()}
            return [[_to_connect(key, name), _to_connect(inner, each)] for name, each in value]
        case Type.STRUCT:
            # That of a union is a value of its first member.
            first = schema.fields[:1] if schema.name == UNION else ()
            members = [(each, value) for each in first] or [
                (each, value[each.name]) for each in schema.fields
            ]
            return {each.name: _to_connect(each.schema, inner) for each, inner in members}
        case _:
            return _scalar_to_connect(schema.type, value)


def _scalar_to_connect(kind: Type, value: Any) -> Any:
    if kind is Type.BYTES:
        return base64.b64encode(value.encode("latin-1")).decode()
    if kind in _FLOATS:
        return float(value)
    return _checked(value, _PYTHON.get(kind, int))


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})
_PYTHON: Final = {Type.STRING: str, Type.BOOLEAN: bool}
