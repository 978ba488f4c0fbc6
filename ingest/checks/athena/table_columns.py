"""The columns of a table: from Arrow's types, from an Avro schema, and from values of JSON."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.model.errors import InvalidConfiguration

_PLAIN_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_STRING: Final = "string"
_MAX_DECIMAL: Final = 38
_MILLIS: Final = "timestamp-millis"


class NotQueryable(InvalidConfiguration):
    """Athena cannot read what the sink writes: the sentence says why, and what to set."""


@dataclass(frozen=True, slots=True)
class Column:
    """`name` as the file has it; Athena shows it in lower case."""

    name: str
    type: str


# -- Parquet -------------------------------------------------------------------------------------------------

_ARROW: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): _STRING,
    pa.large_string(): _STRING,
    pa.null(): _STRING,
    pa.date32(): "date",
}


def columns_of_arrow(schema: Any) -> tuple[Column, ...]:
    """The columns of a Parquet file with this schema."""
    return tuple(Column(field.name, type_of_arrow(field.type, field.name)) for field in schema)


def type_of_arrow(kind: Any, name: str) -> str:
    """The type of values of an Arrow type; NotQueryable where a field inside has a name that types lack."""
    if pa.types.is_nested(kind):
        return _nested(kind, name)
    if pa.types.is_dictionary(kind):
        return type_of_arrow(kind.value_type, name)
    return _ARROW.get(kind) or _with_parameters(kind)


def _nested(kind: Any, name: str) -> str:
    if pa.types.is_struct(kind):
        return _struct((field.name, type_of_arrow(field.type, field.name)) for field in kind)
    if pa.types.is_map(kind):
        return f"map<{type_of_arrow(kind.key_type, name)},{type_of_arrow(kind.item_type, name)}>"
    return f"array<{type_of_arrow(kind.value_type, name)}>"


def _with_parameters(kind: Any) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({min(kind.precision, _MAX_DECIMAL)},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    # Athena has no time of the day: the number that stands in the file.
    if pa.types.is_time(kind):
        return "int" if kind.bit_width == pa.int32().bit_width else "bigint"
    return "binary"


# -- Avro ----------------------------------------------------------------------------------------------------

_AVRO: Final = {
    "null": _STRING,
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": _STRING,
    "bytes": "binary",
    "fixed": "binary",
    "enum": _STRING,
}


def columns_of_avro(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of an Avro file whose schema is this record; NotQueryable for what AvroSerDe lacks."""
    if schema.get("type") != "record":
        raise NotQueryable(
            "The rows of Avro are no records, which a table cannot have: set output.format=parquet."
        )
    named: dict[str, Any] = {}
    _note_names(schema, named)
    return tuple(
        Column(field["name"], _avro_type(field["type"], field["name"], named, ()))
        for field in schema["fields"]
    )


def _avro_type(kind: Any, name: str, named: Mapping[str, Any], inside: Sequence[str]) -> str:
    if isinstance(kind, list):
        return _avro_type(_branch(kind, name), name, named, inside)
    if isinstance(kind, Mapping):
        return _avro_shape(kind, name, named, inside)
    if kind in _AVRO:
        return _AVRO[kind]
    if kind in inside or kind not in named:
        raise NotQueryable(
            f"The type of the field {name!r} refers to itself, which no table can: set output.format=jsonl."
        )
    return _avro_type(named[kind], name, named, (*inside, kind))


def _avro_shape(kind: Mapping[str, Any], name: str, named: Mapping[str, Any], inside: Sequence[str]) -> str:
    match kind["type"]:
        case "record":
            within = (*inside, kind["name"])
            return _struct(
                (field["name"], _avro_type(field["type"], field["name"], named, within))
                for field in kind["fields"]
            )
        case "array":
            return f"array<{_avro_type(kind['items'], name, named, inside)}>"
        case "map":
            return f"map<string,{_avro_type(kind['values'], name, named, inside)}>"
    return _logical(kind) or _avro_type(kind["type"], name, named, inside)


def _branch(union: Sequence[Any], name: str) -> Any:
    branches = [each for each in union if each != "null"]
    if len(branches) > 1:
        raise NotQueryable(
            f"The field {name!r} is a union of several types, which Athena's reader of Avro lacks: set "
            "output.format=jsonl or parquet."
        )
    return branches[0] if branches else "null"


def _logical(kind: Mapping[str, Any]) -> str | None:
    match kind.get("logicalType"):
        case "decimal":
            return f"decimal({min(kind['precision'], _MAX_DECIMAL)},{kind.get('scale', 0)})"
        case "date":
            return "date"
        case logical if logical == _MILLIS:
            return "timestamp"
    return None


def _note_names(kind: Any, named: dict[str, Any]) -> None:
    if isinstance(kind, list):
        for each in kind:
            _note_names(each, named)
    elif isinstance(kind, Mapping):
        if "name" in kind:
            space = kind.get("namespace")
            named[kind["name"]] = kind
            named[f"{space}.{kind['name']}" if space else kind["name"]] = kind
        for field in kind.get("fields", ()):
            _note_names(field["type"], named)
        for inner in ("items", "values", "type"):
            if not isinstance(kind.get(inner), str | None):
                _note_names(kind[inner], named)


# -- JSON ----------------------------------------------------------------------------------------------------


def columns_of_json(rows: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The columns of lines of JSON such as these: what differs from row to row is a string."""
    merged: Any = None
    for row in rows:
        merged = _wider(merged, _shape(row))
    return tuple(Column(name, _json_type(shape)) for name, shape in (merged or {}).items())


def _shape(value: Any) -> Any:
    """A type's name, a dict for an object, a list of one for a list; None for what nothing is known of."""
    if isinstance(value, Mapping):
        return {name: _shape(member) for name, member in value.items()}
    if isinstance(value, list):
        found: Any = None
        for member in value:
            found = _wider(found, _shape(member))
        return [found]
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "double"
    return "double" if isinstance(value, float) else _STRING


def _wider(one: Any, other: Any) -> Any:
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: _wider(one.get(name), other.get(name)) for name in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_wider(one[0], other[0])]
    if {str(one), str(other)} == {"bigint", "double"}:
        return "double"
    return _STRING


def _json_type(shape: Any) -> str:
    if isinstance(shape, dict):
        # The reader gives as text what is declared as one, so no name is lost.
        lowered = {name.lower() for name in shape}
        if not shape or len(lowered) < len(shape) or not all(map(_PLAIN_NAME.fullmatch, shape)):
            return _STRING
        return _struct((name, _json_type(member)) for name, member in shape.items())
    if isinstance(shape, list):
        return f"array<{_json_type(shape[0])}>"
    return _STRING if shape is None else str(shape)


def _struct(fields: Iterable[tuple[str, str]]) -> str:
    parts = []
    for name, kind in fields:
        if _PLAIN_NAME.fullmatch(name) is None:
            raise NotQueryable(
                f"The field {name!r} is inside another one, where Athena takes letters, digits and _ "
                "only: rename it (ReplaceField), or set output.format=jsonl."
            )
        parts.append(f"{name}:{kind}")
    return f"struct<{','.join(parts)}>"
