"""Which versions of an Arrow type fit each other, and arrays made to fit another version of theirs."""

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import map_lists

DEFAULT: Final = b"default"
"""In the metadata of a field: the JSON of what stands for it where data have none."""

# What Avro's readers may take for something wider, by the narrower type.
_PROMOTIONS: Final = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
    pa.string(): (pa.binary(),),
    pa.binary(): (pa.string(),),
}


def fits(source: Any, target: Any) -> bool:
    """True when every value of one type can be had as one of the other, by Avro's rules of resolution."""
    if source == target or pa.types.is_null(source):
        return True
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return all(_field_fits(source, field) for field in target)
    if pa.types.is_list(source) and pa.types.is_list(target):
        return fits(source.value_type, target.value_type)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return fits(source.item_type, target.item_type)
    return target in _PROMOTIONS.get(source, ())


def _field_fits(source: Any, wanted: Any) -> bool:
    index = source.get_field_index(wanted.name)
    if index < 0:
        return bool(wanted.nullable or DEFAULT in (wanted.metadata or {}))
    found = source.field(index)
    return (wanted.nullable or not found.nullable) and fits(found.type, wanted.type)


def projected(array: Any, target: Any) -> Any:
    """The values as `target`, which `fits`: members by name, absent ones as their default or null."""
    source = array.type
    if source == target:
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_struct(target):
        return _projected_struct(array, target)
    if pa.types.is_list(target):
        return pa.ListArray.from_arrays(
            list_offsets(array),
            projected(array.flatten(), target.value_type),
            type=target,
            mask=array.is_null(),
        )
    if pa.types.is_map(target):
        keys, values = map_entries(array)
        values = projected(values, target.item_type)
        offsets = list_offsets(as_lists(array))
        return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=array.is_null())
    return array.cast(target)


def list_offsets(lists: Any) -> Any:
    """Where the items of each list begin, once they stand side by side; nulls have none."""
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False), out=offsets[1:])
    return pa.array(offsets)


def as_lists(array: Any) -> Any:
    """Maps as lists of key and value; lists as they are."""
    return map_lists(array) if pa.types.is_map(array.type) else array


def map_entries(maps: Any) -> tuple[Any, Any]:
    """All keys and all values of maps, one after the other."""
    entries = as_lists(maps).flatten()
    return pc.struct_field(entries, [0]), pc.struct_field(entries, [1])


def _projected_struct(array: Any, target: Any) -> Any:
    arrays = []
    for field in target:
        index = array.type.get_field_index(field.name)
        if index >= 0:
            arrays.append(projected(pc.struct_field(array, [index]), field.type))
        else:
            arrays.append(_absent(len(array), field))
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=array.is_null())


def _absent(count: int, field: Any) -> Any:
    default = (field.metadata or {}).get(DEFAULT)
    value = None if default is None else json.loads(default)
    if isinstance(value, str) and pa.types.is_binary(field.type):
        value = value.encode("latin-1")  # as Avro writes bytes in JSON
    return pa.array([value], field.type).take(pa.array(np.zeros(count, np.int64)))
