"""Arrow batches as one compact JSON object a row, built column by column without a Python object per row."""

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import Pieces, gathered, joined, map_lists, scalar_pieces, uuid_pieces
from headrace.formats.parquet_schema import INT96_NAME as INT96
from headrace.formats.parquet_schema import MAP_NAME as MAP
from headrace.formats.parquet_schema import checked_entries, int96_pieces
from headrace.formats.variants import NAME as VARIANT
from headrace.formats.variants import variant_texts
from headrace.model.columns import Column
from headrace.options.choices import JsonFormat


def json_rows(batch: Any, style: JsonFormat) -> Any:
    """A string array with the JSON of each row of a RecordBatch; field order is the schema's."""
    return json_values(batch.to_struct_array(), style)


def json_values(array: Any, style: JsonFormat) -> Any:
    """A string array with the JSON of each value; a null is `null`. NotImplementedError for unknown types."""
    return joined(_pieces(array, style), len(array))


def as_column(text: Any) -> Column:
    """A string or binary array as a column of rows over its own buffer; nulls are nulls."""
    _, offsets, content = text.buffers()
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1].astype(np.int64)
    lengths = np.diff(ends)
    if text.null_count:
        lengths[np.asarray(text.is_null().to_numpy(zero_copy_only=False), bool)] = -1
    return Column(
        buffer=b"" if content is None else memoryview(content), starts=ends[:-1].copy(), lengths=lengths
    )


def _pieces(array: Any, style: JsonFormat) -> Pieces:
    """Literals and string arrays without nulls, which side by side are the JSON of each row."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    nulls = array.null_count
    if nulls == len(array) and nulls:
        return ["null"]
    pieces = _filled_pieces(array, style)
    if not nulls:
        return pieces
    return [pc.if_else(array.is_valid(), joined(pieces, len(array)), "null")]


def _filled_pieces(array: Any, style: JsonFormat) -> Pieces:
    """The same where nulls do not matter: what stands for them is replaced by the caller."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        write = _EXTENSIONS.get(kind.extension_name, _filled_pieces)
        return write(array.storage, style)
    if pa.types.is_dictionary(kind):
        return _filled_pieces(array.dictionary_decode(), style)
    pieces = _nested_pieces(array, style) or scalar_pieces(array, style)
    if pieces is None:
        raise NotImplementedError(f"there is no JSON for the Arrow type {kind}")
    return pieces


def _nested_pieces(array: Any, style: JsonFormat) -> Pieces | None:
    kind = array.type
    if pa.types.is_null(kind):
        return ["null"]
    if pa.types.is_struct(kind):
        return _struct(array, style)
    if pa.types.is_map(kind):
        return _map(array, style)
    if any(is_list(kind) for is_list in _LISTS):
        return _list(array, style)
    return None


_LISTS: Final = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def _struct(array: Any, style: JsonFormat) -> Pieces:
    pieces: Pieces = ["{"]
    for index in range(array.type.num_fields):
        name = json.dumps(array.type.field(index).name, ensure_ascii=False)
        pieces.append(f"{',' if index else ''}{name}:")
        pieces += _pieces(array.field(index), style)
    return [*pieces, "}"]


def _list(array: Any, style: JsonFormat) -> Pieces:
    elements = array.flatten()
    texts = joined(_pieces(elements, style), len(elements))
    return ["[", gathered(texts, pc.list_value_length(array)), "]"]


def _map(array: Any, style: JsonFormat) -> Pieces:
    return _entries(map_lists(array), style)


def _entries(lists: Any, style: JsonFormat) -> Pieces:
    """An object when keys are strings, as they are and in their order; else a list of pairs."""
    lengths, entries = pc.list_value_length(lists), checked_entries(lists)
    keys, values = (_pieces(entries.field(index), style) for index in (0, 1))
    if _is_text(entries.type.field(0).type):
        texts = joined([*keys, ":", *values], len(entries))
        return ["{", gathered(texts, lengths), "}"]
    texts = joined(["[", *keys, ",", *values, "]"], len(entries))
    return ["[", gathered(texts, lengths), "]"]


def _is_text(key: Any) -> bool:
    if pa.types.is_dictionary(key):
        key = key.value_type
    return bool(pa.types.is_string(key) or pa.types.is_large_string(key) or pa.types.is_string_view(key))


def _variants(storage: Any, style: JsonFormat) -> Pieces:
    return [variant_texts(storage, style, json_values)]


_EXTENSIONS: Final[dict[str, Callable[[Any, JsonFormat], Pieces]]] = {
    "arrow.uuid": uuid_pieces,
    INT96: int96_pieces,
    MAP: _entries,
    VARIANT: _variants,
}
