"""Arrow arrays of converters as arrays of the one type that a Connect schema has."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import map_lists
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.payloads import PayloadSchema
from headrace.formats.connect.schema import ConnectSchema, Type


def as_connect(array: Any, schema: ConnectSchema) -> Any:
    """The values as `arrow_type(schema)`: moments that Connect knows not become whole numbers, for one.

    Raises ArrowInvalid for a value that the type cannot hold.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    wanted = arrow_type(schema)
    if array.type == wanted:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    match schema.type:
        case Type.STRUCT:
            below = [
                as_connect(pc.struct_field(array, [index]), each.schema)
                for index, each in enumerate(schema.fields)
            ]
            mask = array.is_null()
            return pa.StructArray.from_arrays(below, fields=list(wanted), mask=mask) if below else array
        case Type.ARRAY:
            items = as_connect(array.flatten(), schema.item)
            return pa.ListArray.from_arrays(list_offsets(array), items, type=wanted, mask=array.is_null())
        case Type.MAP:
            return _map(array, schema, wanted)
        case _:
            return _scalar(array, wanted)


def list_offsets(array: Any) -> Any:
    """Where each list of `array.flatten()` begins; null lists have no elements."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


def _map(array: Any, schema: ConnectSchema, wanted: Any) -> Any:
    key, value = schema.map_parts
    lists = map_lists(array) if pa.types.is_map(array.type) else array
    entries = lists.flatten()
    keys, values = (pc.struct_field(entries, [index]) for index in (0, 1))
    return pa.MapArray.from_arrays(
        list_offsets(lists),
        as_connect(keys, key),
        as_connect(values, value),
        type=wanted,
        mask=array.is_null(),
    )


def _scalar(array: Any, wanted: Any) -> Any:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_binary(wanted) and pa.types.is_string(array.type):
        # A UUID that the writer had in 16 bytes.
        octets = [
            None if text is None else bytes.fromhex(text.replace("-", "")) for text in array.to_pylist()
        ]
        return pa.array(octets, wanted)
    if pa.types.is_integer(wanted) and not pa.types.is_integer(array.type):
        width = pa.int32() if array.type.bit_width == wanted.bit_width == 32 else pa.int64()  # noqa: PLR2004  # bits
        return array.cast(width).cast(wanted)
    return array.cast(wanted)


def with_defaults(array: Any, schema: ConnectSchema) -> Any:
    """Values of `arrow_type(schema)` with defaults in the place of null fields, as a Struct's `get` does it.

    A null that is the whole value stays one.
    """
    return _filled(array, schema) if _has_defaults(schema) else array


def _has_defaults(schema: ConnectSchema) -> bool:
    below = [each.schema for each in schema.fields]
    below += [each for each in (schema.value, schema.items) if each is not None]
    is_default = any(each.schema.default is not None for each in schema.fields)
    return is_default or any(map(_has_defaults, below))


def _filled(array: Any, schema: ConnectSchema) -> Any:
    match schema.type:
        case Type.STRUCT if schema.fields:
            below = [
                _field(_filled(pc.struct_field(array, [index]), each.schema), each.schema)
                for index, each in enumerate(schema.fields)
            ]
            return pa.StructArray.from_arrays(below, fields=list(array.type), mask=array.is_null())
        case Type.ARRAY:
            items = _filled(array.flatten(), schema.item)
            return pa.ListArray.from_arrays(list_offsets(array), items, type=array.type, mask=array.is_null())
        case Type.MAP:
            lists = map_lists(array)
            entries = lists.flatten()
            keys, values = (pc.struct_field(entries, [index]) for index in (0, 1))
            values = _filled(values, schema.map_parts[1])
            offsets = list_offsets(lists)
            return pa.MapArray.from_arrays(offsets, keys, values, type=array.type, mask=array.is_null())
        case _:
            return array


def _field(array: Any, schema: ConnectSchema) -> Any:
    if schema.default is None or not array.null_count:
        return array
    default = PayloadSchema(schema).array([schema.default.text.encode()])
    both = pa.concat_arrays([array, default])
    rows = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.arange(len(array)), len(array))
    return both.take(pa.array(rows))
