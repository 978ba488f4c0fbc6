"""JSON without a schema as Arrow columns: all members nullable, integers long, other numbers double."""

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ingest.columns import Column, Numbers
from spark.converters.segments import RowFaults
from spark.formats.encoding.json_members import copied
from spark.formats.encoding.row_texts import joined, text_of
from spark.formats.encoding.schema_merge import TypesConflict, list_offsets, merged, projected

_WRAPPED: Final = "v"
_LONG: Final = range(-(2**63), 2**63)

# Row numbers, and their values as one array.
Part = tuple[Numbers, Any]


def inferred(column: Column, known: Any, faults: RowFaults) -> list[Part]:
    """The values of a column of JSON texts and nulls, in parts of one type each.

    `known` is a type that was found before, which the parts are widened to where they can be. A value whose
    type fits none of those before it begins a part. Numbers beyond a double are faults.
    """
    found = _at_once(column, known)
    if found is None and not pa.types.is_null(known):
        found = _at_once(column, pa.null())
    parts = [(np.arange(len(column)), found)] if found is not None else _singly(column, faults)
    return [(rows, _widened(array, known)) for rows, array in parts]


def _widened(array: Any, known: Any) -> Any:
    try:
        return projected(array, merged(array.type, known))
    except TypesConflict:
        return array


def _at_once(column: Column, known: Any) -> Any | None:
    """One array, or None where the values have no common type or Arrow's reader does not take them."""
    lines = text_of(joined([b'{"%s":' % _WRAPPED.encode(), copied(column), b"}\n"], len(column)))
    wanted = _without_nulls(known)
    try:
        found = _read(lines, wanted)
        kind = found.type
        if not _is_whole(kind, wanted):
            wanted = _without_nulls(_readable(kind))
            found = _read(lines, wanted)
    except pa.ArrowInvalid:
        return None
    if not _is_whole(found.type, wanted) or len(found) != len(column):
        return None
    return _as_found(found.combine_chunks(), kind)


def _is_whole(kind: Any, wanted: Any) -> bool:
    """True where the values of a type that was found are right.

    Unless it is told the type, Arrow's reader takes texts for moments, and loses nulls that begin a list.
    """
    return _without_nulls(_readable(kind)) == wanted or not (_has_lists(kind) or _readable(kind) != kind)


def _has_lists(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_lists(field.type) for field in kind)
    return bool(pa.types.is_list(kind))


def _read(lines: bytes, kind: Any) -> Any:
    schema = None if kind is None else pa.schema([(_WRAPPED, kind)])
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema),
    )
    return table.column(_WRAPPED)


def _readable(kind: Any) -> Any:
    """The type to read values with: texts that look like moments are texts, lists of nulls lists of texts."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        item = kind.value_type
        return pa.list_(pa.string() if pa.types.is_null(item) else _readable(item))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _readable(field.type)) for field in kind])
    return kind


def _as_found(array: Any, kind: Any) -> Any:
    """The array with lists of nulls where only such were found."""
    if pa.types.is_list(kind):
        items = array.flatten()
        below = (
            pa.nulls(len(items)) if pa.types.is_null(kind.value_type) else _as_found(items, kind.value_type)
        )
        return pa.ListArray.from_arrays(list_offsets(array), below, mask=array.is_null())
    if pa.types.is_struct(kind) and kind.num_fields:
        names = [field.name for field in kind]
        below = [_as_found(pc.struct_field(array, [name]), kind.field(name).type) for name in names]
        return pa.StructArray.from_arrays(below, names=names, mask=array.is_null())
    return array


def _without_nulls(kind: Any) -> Any | None:
    """The type without the parts of which nothing is known; None where that is all."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind):
        item = _without_nulls(kind.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_struct(kind):
        below = [(field.name, _without_nulls(field.type)) for field in kind]
        return pa.struct([(name, inner) for name, inner in below if inner is not None])
    return kind


def _singly(column: Column, faults: RowFaults) -> list[Part]:
    """The same value by value, where types differ or a name stands twice in an object."""
    parts: list[Part] = []
    rows: list[int] = []
    values: list[Any] = []
    kind: Any = pa.null()
    for row in range(len(column)):
        try:
            value = msgspec.json.decode(column.get(row) or b"null")
            wider = merged(kind, type_of(value))
        except msgspec.DecodeError:
            faults.add(row, "number_too_large", "a number of the JSON is larger than a double holds")
            continue
        except TypesConflict:
            parts += _alone(row, value, faults)
            continue
        kind = wider
        rows.append(row)
        values.append(value)
    main = [(np.array(rows, np.int64), pa.array(values, kind))] if rows else []
    return sorted(main + parts, key=lambda part: int(part[0][0]))


def _alone(row: int, value: Any, faults: RowFaults) -> list[Part]:
    """A value that fits none of the others, as a part of its own, unless it contradicts itself."""
    try:
        return [(np.array([row], np.int64), pa.array([value], type_of(value)))]
    except TypesConflict:
        faults.add(row, "schema_conflict", "a list of the JSON holds values of different types")
        return []


def type_of(value: Any) -> Any:
    """The Arrow type of a JSON value; TypesConflict for a list of different ones."""
    match value:
        case list():
            item: Any = pa.null()
            for each in value:
                item = merged(item, type_of(each), ("[]",))
            return pa.list_(item)
        case dict():
            return pa.struct([(name, type_of(each)) for name, each in value.items()])
        case int() if type(value) is int and value not in _LONG:
            return pa.float64()
        case _:
            return _SCALARS[type(value)]


_SCALARS: Final = {
    type(None): pa.null(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}
