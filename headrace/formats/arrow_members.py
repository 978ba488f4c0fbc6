"""Arrow arrays of Avro records and Parquet rows: their members as columns of bytes, headers and numbers."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import column_of_arrow
from headrace.formats.encodings import from_base64
from headrace.formats.json_members import as_bytes, with_nulls
from headrace.formats.record_columns import Faults, ToJson
from headrace.model.columns import Column, Headers, Numbers
from headrace.options.restoring import Form

_STRINGS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARY: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)


def structs_of(rows: Any) -> Any:
    """A RecordBatch or an array of structs as one array of structs."""
    return rows.to_struct_array() if isinstance(rows, pa.RecordBatch) else rows


def member(structs: Any, name: str) -> Any:
    """The array of one member with the nulls of the structs, or None where there is no such member."""
    index = structs.type.get_field_index(name)
    return None if index < 0 else pc.struct_field(structs, [index])


def as_column(array: Any, form: Form, to_json: ToJson, what: str, faults: Faults) -> Column:
    """What each value becomes: bytes stay bytes; `auto` and `string` keep texts, of the rest JSON."""
    kind = array.type
    if any(is_binary(kind) for is_binary in _BINARY):
        # Avro and Parquet know bytes from text: base64 is what JSON and csv write them as.
        return json_column(array, to_json) if form is Form.JSON else column_of_arrow(array)
    if form is not Form.JSON and any(is_string(kind) for is_string in _STRINGS):
        texts = column_of_arrow(array)
        return from_base64(texts, what, faults) if form is Form.BASE64 else texts
    return as_bytes(json_column(array, to_json), form, what, faults)


def json_column(array: Any, to_json: ToJson) -> Column:
    """The JSON of each value; a null is a null."""
    return with_nulls(column_of_arrow(to_json(array)))


def int_column(array: Any, *, missing: int) -> Numbers:
    """The numbers of an array, timestamps as milliseconds since 1970; `missing` for a null."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
    return np.asarray(array.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False), np.int64)


def headers_column(array: Any, form: Form, to_json: ToJson, rows: int, faults: Faults) -> list[Headers]:
    """The headers of each row: of a map, a list of key and value, or a struct whose members are headers.

    A member of a struct that is null was no header of the row.
    """
    if array is None or pa.types.is_null(array.type):
        return [()] * rows
    if pa.types.is_struct(array.type):
        return _of_struct(array, form, to_json, faults)
    lists = array if not pa.types.is_map(array.type) else _entries(array)
    if pa.types.is_struct(lists.type) or not _is_list(lists.type):
        return _refused(array, faults)
    counts = pc.list_value_length(lists).fill_null(0).to_pylist()
    flat = lists.flatten()
    if not pa.types.is_struct(flat.type) or flat.type.num_fields != 2:  # noqa: PLR2004  # a name and a value
        return _refused(array, faults)
    names = pc.struct_field(flat, [0]).to_pylist()
    # A fault of one header is one of its row.
    own = Faults()
    column = as_column(pc.struct_field(flat, [1]), form, to_json, "header", own)
    result, at = [], 0
    for row, count in enumerate(counts):
        result.append(tuple((names[each], column.get(each)) for each in range(at, at + count)))
        own.move(range(at, at + count), row, faults)
        at += count
    return result


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _entries(array: Any) -> Any:
    kind = array.type
    return array.cast(pa.list_(pa.struct([pa.field("k", kind.key_type), pa.field("v", kind.item_type)])))


def _of_struct(array: Any, form: Form, to_json: ToJson, faults: Faults) -> list[Headers]:
    found: list[list[tuple[str, bytes | None]]] = [[] for _ in range(len(array))]
    for index in range(array.type.num_fields):
        name = array.type.field(index).name
        column = as_column(pc.struct_field(array, [index]), form, to_json, "header", faults)
        for row in range(len(array)):
            if (value := column.get(row)) is not None:
                found[row].append((name, value))
    return [tuple(headers) for headers in found]


def _refused(array: Any, faults: Faults) -> list[Headers]:
    for row in range(len(array)):
        faults.add(row, "not_an_envelope", f"the headers are of the type {array.type}, which holds none")
    return [()] * len(array)
