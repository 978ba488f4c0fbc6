"""Rows of Confluent's side objects: keys and headers, one row for each row of the value object."""

from typing import Any, Final

import msgspec
import pyarrow as pa

from headrace.formats.arrow_members import as_column, headers_column, member, structs_of
from headrace.formats.json_members import NULL, as_bytes, decoded_rows, with_nulls
from headrace.formats.record_columns import Faults, RecordColumns
from headrace.formats.row_readers import ToJson
from headrace.model.columns import Column, null_column
from headrace.options.restoring import RestoreOptions
from headrace.vendors.header_lists import header_rows


class _Headers(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    headers: msgspec.Raw


_ROW: Final = msgspec.json.Decoder(_Headers)
_EMPTY: Final = _Headers(headers=NULL)


class JsonKeys:
    """Keys, one JSON text a line: strings quoted, bytes as base64 without a mark, structs as objects."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.key

    def __call__(self, rows: Column, /) -> RecordColumns:
        """Keys of records without values."""
        faults = Faults()
        keys = as_bytes(with_nulls(rows), self._form, "key", faults) if len(rows) else rows
        return faults.records(null_column(len(rows)), keys=keys)


class ArrowKeys:
    """Keys of Avro, which are of the key's own schema, and of Parquet, a struct of one member `key`."""

    def __init__(self, options: RestoreOptions, to_json: ToJson, *, is_parquet: bool) -> None:
        self._form = options.key
        self._to_json = to_json
        self._is_parquet = is_parquet

    def __call__(self, rows: Any, /) -> RecordColumns:
        """Keys of records without values."""
        faults = Faults()
        array = structs_of(rows)
        if self._is_parquet and (inner := member(array, "key")) is not None:
            array = inner
        keys = as_column(array, self._form, self._to_json, "key", faults)
        return faults.records(null_column(len(array)), keys=keys)


class JsonHeaders:
    """Headers, a line each: `{"headers": [{"key": .., "value": ..}]}`; values are text, of bytes base64."""

    def __init__(self, options: RestoreOptions) -> None:
        self._form = options.header

    def __call__(self, rows: Column, /) -> RecordColumns:
        """Headers of records without values."""
        faults = Faults()
        found = decoded_rows(rows, _ROW, _EMPTY, "Confluent's header objects", faults)
        headers = header_rows([row.headers for row in found], self._form, faults)
        return faults.records(null_column(len(rows)), headers=headers)


class ArrowHeaders:
    """Headers of Avro, an array of key and value, and of Parquet, a struct of one member `headers`."""

    def __init__(self, options: RestoreOptions, to_json: ToJson) -> None:
        self._form = options.header
        self._to_json = to_json

    def __call__(self, rows: Any, /) -> RecordColumns:
        """Headers of records without values."""
        faults = Faults()
        array = structs_of(rows)
        if pa.types.is_struct(array.type) and (inner := member(array, "headers")) is not None:
            array = inner
        headers = headers_column(array, self._form, self._to_json, len(array), faults)
        return faults.records(null_column(len(array)), headers=headers)
