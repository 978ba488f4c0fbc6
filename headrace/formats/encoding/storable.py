"""Values as Parquet can hold them: of no known type as text, empty records as `{}`, members always nullable.

The members of a record that is null are null themselves, whatever its schema says.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.encoding.row_schema import as_lists, list_offsets, map_entries


def stored_type(kind: Any) -> Any:
    """The type that stands for `kind` in a file."""
    if pa.types.is_null(kind) or (pa.types.is_struct(kind) and not kind.num_fields):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, stored_type(each.type)) for each in kind])
    if pa.types.is_list(kind):
        item = kind.value_field
        return pa.list_(pa.field(item.name, stored_type(item.type)))
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_type, pa.field(item.name, stored_type(item.type)))
    return kind


def stored(array: Any) -> Any:
    """The values as `stored_type` of their type."""
    kind = array.type
    wanted = stored_type(kind)
    if wanted == kind:
        return array
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_struct(kind) and not kind.num_fields:
        empty = pa.array(["{}"]).take(pa.array(np.zeros(len(array), np.int64)))
        return pc.if_else(array.is_valid(), empty, pa.scalar(None, pa.string()))
    if pa.types.is_struct(kind):
        below = [stored(pc.struct_field(array, [index])) for index in range(kind.num_fields)]
        return pa.StructArray.from_arrays(below, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(kind):
        items = stored(array.flatten())
        return pa.ListArray.from_arrays(list_offsets(array), items, type=wanted, mask=array.is_null())
    keys, values = map_entries(array)
    offsets = list_offsets(as_lists(array))
    return pa.MapArray.from_arrays(offsets, keys, stored(values), type=wanted, mask=array.is_null())
