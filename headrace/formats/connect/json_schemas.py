"""Schemas in the JSON of Connect's JsonConverter, as they stand beside their values: read and written."""

import base64
import json
from decimal import Context, Decimal, Inexact
from typing import Any, Final

from headrace.formats.connect.schema import (
    DECIMAL,
    SCALE,
    ConnectField,
    ConnectSchema,
    Default,
    InvalidSchema,
    Type,
    decimal_of,
)

_DEPTH: Final = 100
_DIGITS: Final = Context(prec=1000, traps=[Inexact])


def schema_of_json(text: bytes | str) -> ConnectSchema | None:
    """The schema that a JSON text is; None for `null`, which stands beside values without one.

    Raises InvalidSchema where it is none.
    """
    try:
        # A default may be a decimal of more digits than a double has.
        shape = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema("the schema beside the payload is no JSON") from error
    return None if shape is None else _schema(shape, 0)


def _schema(shape: Any, depth: int) -> ConnectSchema:
    if depth > _DEPTH:
        raise InvalidSchema("the schema beside the payload is nested too deep")
    kind = shape.get("type") if isinstance(shape, dict) else None
    if kind not in _TYPES:
        raise InvalidSchema("the schema beside the payload has no type of Kafka Connect's")
    default = shape.get("default")
    fields: tuple[ConnectField, ...] = ()
    if kind == Type.STRUCT:
        fields = tuple(_field(each, depth + 1) for each in _member(shape, "fields", list))
    is_map = kind == Type.MAP
    return ConnectSchema(
        type=Type(kind),
        optional=_member(shape, "optional", bool, required=False) or False,
        name=_member(shape, "name", str, required=False),
        version=_member(shape, "version", int, required=False),
        doc=_member(shape, "doc", str, required=False),
        parameters=_parameters(_member(shape, "parameters", dict, required=False) or {}),
        default=None if default is None else Default(_default_text(shape, default)),
        fields=fields,
        key=_schema(_member(shape, "keys", dict), depth + 1) if is_map else None,
        value=_schema(_member(shape, "values", dict), depth + 1) if is_map else None,
        items=_schema(_member(shape, "items", dict), depth + 1) if kind == Type.ARRAY else None,
    )


def _field(shape: Any, depth: int) -> ConnectField:
    if not isinstance(shape, dict):
        raise InvalidSchema("a field of the schema beside the payload is no object")
    return ConnectField(_member(shape, "field", str), _schema(shape, depth))


def _member(shape: dict[str, Any], name: str, kind: type, *, required: bool = True) -> Any:
    found = shape.get(name)
    if found is None and not required:
        return None
    # A boolean is an int for Python, and no version.
    if type(found) is not kind:
        raise InvalidSchema(f"the schema beside the payload has no {name} as Kafka Connect writes it")
    return found


def _parameters(found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    if not all(isinstance(value, str) for value in found.values()):
        raise InvalidSchema("a parameter of the schema beside the payload is no text")
    return tuple(found.items())


def _default_text(shape: dict[str, Any], default: Any) -> str:
    """The JSON of a default; of a decimal, which may stand there as a number, that of its unscaled value."""
    if shape.get("name") != DECIMAL or isinstance(default, str):
        return _text(default)
    try:
        scale = int((shape.get("parameters") or {}).get(SCALE, "0"))
        number = decimal_of(default).scaleb(scale, _DIGITS)
        whole = int(number.to_integral_exact(context=_DIGITS))
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise InvalidSchema("the default of a decimal is none of its scale") from error
    size = (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
    return _text(base64.b64encode(whole.to_bytes(size, "big", signed=True)).decode())


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)


_TYPES: Final = frozenset(Type)


def json_of_schema(schema: ConnectSchema) -> dict[str, Any]:
    """The JSON of a schema as JsonConverter writes it, member by member in its order."""
    shape: dict[str, Any] = {"type": str(schema.type)}
    match schema.type:
        case Type.ARRAY:
            shape["items"] = json_of_schema(schema.item)
        case Type.MAP:
            key, value = schema.map_parts
            shape |= {"keys": json_of_schema(key), "values": json_of_schema(value)}
        case Type.STRUCT:
            shape["fields"] = [json_of_schema(each.schema) | {"field": each.name} for each in schema.fields]
        case _:
            pass
    shape["optional"] = schema.optional
    for name, found in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if found is not None:
            shape[name] = found
    if schema.parameters:
        shape["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        shape["default"] = json.loads(schema.default.text)
    return shape
