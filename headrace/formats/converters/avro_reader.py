"""Avro data of one schema, one a record, to Arrow and JSON: many at once, singly where one is wrong.

What is read is laid out in Arrow's own types first, and gets the names and types of its schema then.
"""

import decimal
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import DEFAULT, arrow_binary, list_offsets, struct_fields
from headrace.formats.avro_columns import ColumnReader
from headrace.formats.avro_container import ContainerError
from headrace.formats.avro_data import DatumReader, arrow_type, has_columns, side_by_side
from headrace.formats.avro_rows import ValueFault, column_texts, decimal128, value_texts
from headrace.formats.avro_schema import FIELDS_MAX, TOO_MANY_FIELDS, Node, field_count
from headrace.formats.avro_skip import DatumError
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.encoding.encoder import joined, text_of
from headrace.formats.encoding.row_schema import ALIASES
from headrace.model.columns import Column, Numbers, picked
from headrace.options.choices import JsonFormat

_DECIMAL128_DIGITS: Final = 38
_DECIMAL256_DIGITS: Final = 76
_DECIMAL256_BITS: Final = 256

_LOGICAL: Final = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}
_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}


def typed_type(node: Node) -> Any:
    """The Arrow type of the data of a schema, which `has_columns`.

    A union of several types is a struct with a field for each branch, as Kafka Connect has it.
    """
    inner = node.nullable or node
    match inner.kind:
        case "record":
            return pa.struct([_field(name, child, inner) for name, child in inner.fields])
        case "array":
            return pa.list_(_item("item", inner.content))
        case "map":
            return pa.map_(pa.string(), _item("value", inner.content))
        case "union":
            names = zip(branch_names(inner), inner.filled, strict=True)
            return pa.struct([pa.field(name, typed_type(branch)) for name, branch in names])
        case _:
            return _scalar_type(inner)


def branch_names(node: Node) -> list[str]:
    """What Kafka Connect calls the branches of a union: by their types, or by their names without a space."""
    return [(each.name or each.kind).rpartition(".")[2] for each in node.filled]


def _field(name: str, node: Node, record: Node) -> Any:
    metadata = {}
    if name in record.aliases:
        metadata[ALIASES] = json.dumps(record.aliases[name])
    if name in record.defaults:
        # A registry need not check that it is a value of its schema.
        with suppress(AttributeError, LookupError, TypeError, ValueError):
            metadata[DEFAULT] = json.dumps(_default(record.defaults[name], node))
    return pa.field(name, typed_type(node), _is_optional(node), metadata or None)


def _default(value: Any, node: Node) -> Any:  # noqa: PLR0911  # a line for each kind
    """A default as `DEFAULT` has it: members that are missing have theirs, a union's value is the branch's.

    LookupError or another where it is no value of the schema.
    """
    if value is None:
        return None
    inner = node.nullable or node
    match inner.kind:
        case "record":
            members = {**inner.defaults, **value}
            return {name: _default(members[name], child) for name, child in inner.fields}
        case "array":
            return [_default(each, inner.content) for each in value]
        case "map":
            return {name: _default(each, inner.content) for name, each in value.items()}
        case "union":
            return {branch_names(inner)[0]: _default(value, inner.filled[0])}
        case "fixed" if inner.logical == "uuid":
            return _uuid(value.encode("latin-1"))
        case _:
            return value


def _item(name: str, node: Node) -> Any:
    return pa.field(name, typed_type(node), _is_optional(node))


def _is_optional(node: Node) -> bool:
    return len(node.filled) < len(node.branches)


def _scalar_type(node: Node) -> Any:
    if node.logical == "decimal":
        if node.precision <= _DECIMAL128_DIGITS:
            return pa.decimal128(node.precision, node.scale)
        wide = node.precision <= _DECIMAL256_DIGITS
        return pa.decimal256(node.precision, node.scale) if wide else pa.binary()
    if node.logical == "uuid":
        return pa.string()
    if node.logical in _LOGICAL:
        return _LOGICAL[node.logical]
    return pa.binary(node.size) if node.kind == "fixed" else _PLAIN[node.kind]


def typed(array: Any, node: Node) -> Any:
    """An array laid out as `arrow_type(node)` as one of `typed_type(node)`.

    Raises ValueFault or ArrowInvalid where a value is not of its type.
    """
    inner = node.nullable or node
    kind = typed_type(node)
    match inner.kind:
        case "record":
            members = struct_fields(array)[: len(inner.fields)]
            below = [typed(each, child) for each, (_, child) in zip(members, inner.fields, strict=True)]
            return pa.StructArray.from_arrays(below, fields=list(kind), mask=array.is_null())
        case "array":
            items = typed(array.flatten(), inner.content)
            return pa.ListArray.from_arrays(list_offsets(array), items, type=kind, mask=array.is_null())
        case "map":
            entries = array.flatten()
            keys, values = pc.struct_field(entries, [0]), typed(pc.struct_field(entries, [1]), inner.content)
            return pa.MapArray.from_arrays(
                list_offsets(array), keys.cast(pa.string()), values, type=kind, mask=array.is_null()
            )
        case "union":
            members = struct_fields(array)[: len(inner.filled)]
            below = [typed(each, branch) for each, branch in zip(members, inner.filled, strict=True)]
            return pa.StructArray.from_arrays(below, fields=list(kind), mask=array.is_null())
        case "enum":
            return _symbols(array, inner)
        case _:
            return _scalar(array, inner, kind)


def _symbols(array: Any, node: Node) -> Any:
    if len(array) == array.null_count:
        return pa.nulls(len(array), pa.string())
    bounds = pc.min_max(array)
    if not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < len(node.symbols):
        raise ValueFault("an enum has no such symbol")
    return pa.array(node.symbols, pa.string()).take(array)


def _scalar(array: Any, node: Node, kind: Any) -> Any:
    if pa.types.is_decimal(kind):
        return _decimals(array.cast(pa.binary()), node, kind)
    if node.logical == "uuid" and node.kind == "fixed":
        return pa.array([_uuid(value) for value in array.to_pylist()], pa.string())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return array.cast(pa.int32()).cast(kind)
    return array.cast(kind)


def _uuid(value: bytes | None) -> str | None:
    if value is None:
        return None
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _decimals(array: Any, node: Node, kind: Any) -> Any:
    if pa.types.is_decimal128(kind):
        found = decimal128(array, node.scale)
        if found is not None:
            return found.cast(kind)
    values = [
        None if value is None else int.from_bytes(value, "big", signed=True) for value in array.to_pylist()
    ]
    if any(value is not None and value.bit_length() > _DECIMAL256_BITS for value in values):
        raise ValueFault("a decimal has too many digits")  # which would take the square of their number
    with decimal.localcontext(prec=2 * _DECIMAL256_DIGITS):
        scaled = [None if value is None else decimal.Decimal(value).scaleb(-node.scale) for value in values]
    return pa.array(scaled, kind)


# -- What of a schema has no columns -----------------------------------------------------------------------


def without_columns(node: Node, *, has_branches: bool) -> str | None:
    """Which field of a schema has no columns, and why; None where all have. `has_branches`: unions have."""
    fault = next(_faults(node, "", {}, has_branches=has_branches), None)
    return TOO_MANY_FIELDS if fault is None and field_count(node) > FIELDS_MAX else fault


def _faults(node: Node, path: str, met: dict[int, bool], *, has_branches: bool) -> Iterator[str]:
    """`met` are nodes that were met before, True for those that this one is in: the others are sound."""
    if id(node) in met:
        if met[id(node)]:
            yield f"{_place(path)} refers to itself"
        return
    met[id(node)] = True
    if node.kind == "null":
        yield f"{_place(path)} is nothing but null"
    if node.kind == "record" and not node.fields:
        yield f"{_place(path)} is a record without fields"
    if node.kind == "union" and node.nullable is None:
        yield from _of_union(node, path, has_branches=has_branches)
    for name, child in node.fields:
        yield from _faults(child, f"{path}.{name}" if path else name, met, has_branches=has_branches)
    for child in node.filled if node.items is None else [node.items]:
        yield from _faults(child, path, met, has_branches=has_branches)
    met[id(node)] = False


def _of_union(node: Node, path: str, *, has_branches: bool) -> Iterator[str]:
    if not has_branches:
        yield f"{_place(path)} is a union of several types"
        return
    names = branch_names(node)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        yield f"{_place(path)} is a union of two types with the name {twice}"
    if not names:
        yield f"{_place(path)} is nothing but null"


def _place(path: str) -> str:
    return f"the field {path}" if path else "it"


# -- Avro data of one schema, one a record, to Arrow and JSON: many at once, singly where one is wrong -------

# Behind each datum, so that each has to end where its record does.
_MARK: Final = b"\xa7\x5c\x13\xe9"
# What one datum may take once it is decoded, by its bytes: a fetch has thousands of them, and each null of
# an optional field takes a byte and the field's name.
_DATUM_BYTES: Final = 64 * 1024 * 1024
_LEAST_BYTES: Final = 16 * 1024
_TIMES_BYTES: Final = 512
_SINGLY: Final = 64
_WRONG: Final = (ValueFault, pa.ArrowException, OverflowError)
_NONE: Final = "the bytes after the schema's id are no datum of that schema"
_TOO_LARGE: Final = "the datum after the schema's id claims far more values than its bytes hold"
_BEYOND: Final = (
    "the datum after the schema's id has a value that its type cannot hold: a decimal of more digits than "
    "its precision, an enum's index beyond its symbols, a text that is not UTF-8"
)


class AvroReader:
    """Reads the data of one schema; with `has_branches` unions of several types become columns too."""

    def __init__(
        self, node: Node, style: JsonFormat, *, wants_texts: bool, has_branches: bool = False
    ) -> None:
        self._node = node
        self._style = style
        self._wants_texts = wants_texts
        self.lack = without_columns(node, has_branches=has_branches)
        """Which field of the schema has no columns, and why."""
        self.has_columns = self.lack is None
        is_plain = self.has_columns and has_columns(node)
        self._branches = side_by_side(node) if self.has_columns and not is_plain else None
        self.type = typed_type(node) if self.has_columns else None
        marked = Node(kind="record", fields=[("datum", node), ("mark", Node(kind="fixed", size=len(_MARK)))])
        self._columns = ColumnReader(marked) if is_plain and ColumnReader.serves(marked) else None
        self._data = DatumReader(node, limit=_may_take, is_strict=True)

    def read(self, data: Column, rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        """The numbers of those `rows` whose data (one each, no nulls) are good, and what they hold.

        That is an array of strings, their JSON, or an array of `type`; None where that is neither.
        """
        found = self._read(data, rows, faults)
        good = np.concatenate([part for part, _ in found]) if found else np.zeros(0, np.int64)
        arrays = [array for _, array in found if array is not None]
        return good, pa.concat_arrays(arrays) if arrays else self._nothing()

    def _nothing(self) -> Any:
        kind = pa.string() if self._wants_texts else self.type
        return None if kind is None else pa.array([], kind)

    def _read(self, data: Column, rows: Numbers, faults: RowFaults) -> list[tuple[Numbers, Any]]:
        is_divisible = self._columns is not None or self._branches is not None or self._is_text_alone
        array = self._at_once(data) if self._columns is not None else self._one_by_one(data)
        if array is not None:
            return [(rows, array)]
        if not is_divisible or len(rows) <= _SINGLY:
            return self._singly(data, rows, faults)
        middle = len(rows) // 2
        first, last = np.arange(middle), np.arange(middle, len(rows))
        return self._read(picked(data, first), rows[first], faults) + self._read(
            picked(data, last), rows[last], faults
        )

    def _at_once(self, data: Column) -> Any | None:
        assert self._columns is not None
        content = text_of(joined([arrow_binary(data), _MARK], len(data)))
        found = self._columns.read([content], len(data))
        if found is None or not _all_marked(pc.struct_field(found, [1])):
            return None
        try:
            return self._shown(pc.struct_field(found, [0]))
        except _WRONG:
            return None

    def _one_by_one(self, data: Column) -> Any | None:
        """What data hold that only the slower reader understands; None where one of them is wrong."""
        if self._branches is None and not self._is_text_alone:
            return None
        try:
            values = [self._value(data.get(index) or b"") for index in range(len(data))]
            return self._shown_values(values)
        except (*_WRONG, ContainerError, DatumError):
            return None

    @property
    def _is_text_alone(self) -> bool:
        """Whether the texts of values are wanted that have no columns."""
        return self._wants_texts and not self.has_columns

    def _shown_values(self, values: list[Any]) -> Any:
        if self._is_text_alone:
            return value_texts(values, self._node, self._style)
        return self._shown(pa.array(values, arrow_type(self._node)))

    def _shown(self, raw: Any) -> Any:
        if self._wants_texts:
            return column_texts(raw, self._node, self._style)
        return typed(raw, self._node)

    def _singly(self, data: Column, rows: Numbers, faults: RowFaults) -> list[tuple[Numbers, Any]]:
        good, arrays = [], []
        for index, row in enumerate(rows.tolist()):
            try:
                array = self._alone(picked(data, slice(index, index + 1)))
                if array is not None:
                    arrays.append(array)
                good.append(row)
            except (ContainerError, DatumError) as error:
                is_large = isinstance(error, DatumError) and error.reason != "too_deep"
                faults.add(row, "not_avro", _TOO_LARGE if is_large else _NONE)
            except _WRONG:
                faults.add(row, "not_avro", _BEYOND)
        return [(np.array(good, np.int64), pa.concat_arrays(arrays) if arrays else None)]

    def _alone(self, data: Column) -> Any | None:
        """What the one of `data` holds; None where neither its text nor columns are wanted."""
        try:
            value = self._value(data.get(0) or b"")
        except DatumError:
            # Its columns are no larger than they would be among good ones, where nobody counts what it takes.
            array = self._at_once(data) if self._columns is not None else None
            if array is None:
                raise
            return array
        return self._shown_values([value]) if self.has_columns or self._wants_texts else None

    def _value(self, content: bytes) -> Any:
        (datum,) = self._data.read(content, 1)
        if datum.fault is not None:
            raise ValueFault(datum.fault)
        return datum.value if self._branches is None else self._branches(datum.value)


def _may_take(size: int) -> int:
    return min(_LEAST_BYTES + _TIMES_BYTES * size, _DATUM_BYTES)


def _all_marked(marks: Any) -> bool:
    return bool(pc.all(pc.equal(marks.cast(pa.binary()), pa.scalar(_MARK, pa.binary()))).as_py())
