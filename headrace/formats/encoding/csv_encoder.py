"""Records as rows of CSV (RFC 4180, Excel's dialect): the envelope's columns, or those of one field alone.

A null is an empty field without quotes, an empty text one with quotes.
"""

import io
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary
from headrace.formats.arrow_rows import json_values
from headrace.formats.connect import InvalidSchema
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, InferredValues
from headrace.formats.encoding.json_members import header_lists
from headrace.formats.encoding.parquet_encoder import array_of_form, field_arrays
from headrace.formats.encoding.row_schema import ColumnForm, RowSchema
from headrace.formats.record_columns import is_plain_name
from headrace.model.columns import Column
from headrace.options.choices import JsonFormat
from headrace.options.sink_settings import OutputField, OutputSettings

_LINE_END: Final = "\r\n"
_STRINGS: Final = (pa.types.is_string, pa.types.is_large_string)
_ABSENT: Final = msgspec.Raw(b"null")
_NESTED: Final = (pa.types.is_struct, pa.types.is_list, pa.types.is_map)


NO_MEMBERS: Final = "a record without members is an empty line, which is no row"


class CsvRows:
    """Writes the rows of one object; `head` is the line of the columns' names, empty without `csv.header`.

    InvalidSchema, from the constructor, for records without members.
    """

    def __init__(self, output: OutputSettings, schema: RowSchema) -> None:
        self._output = output
        # Values alone, where they are no records, are one column.
        is_record = (
            schema.value is not None and schema.value.schema is not None and schema.value.schema.is_record
        )
        self._members = schema.value if is_record else None
        self._separator = output.csv.delimiter.decode()
        self._quote = output.csv.quote.decode()
        names = self._names()
        if not names:
            raise InvalidSchema(NO_MEMBERS)
        self.head = self._written([pa.array([name]) for name in names]) if output.csv.header else b""

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        arrays = self._arrays(records)
        if len(arrays) == 1:
            # A line without anything is no row for many readers.
            arrays = [pc.fill_null(arrays[0], "")]
        return self._written(arrays)

    def _written(self, arrays: list[Any]) -> bytes:
        import polars as pl

        out = io.BytesIO()
        # By their places: Polars gives a column without a name one that another may have.
        frame = pl.from_arrow(pa.table(arrays, names=[str(place) for place in range(len(arrays))]))
        assert isinstance(frame, pl.DataFrame)
        frame.write_csv(
            out,
            include_header=False,
            separator=self._separator,
            quote_char=self._quote,
            line_terminator=_LINE_END,
            quote_style="necessary",
        )
        return out.getvalue()

    def _names(self) -> list[str]:
        if self._members is not None and self._members.schema is not None:
            return [field.name for field in self._members.schema.arrow]
        if not self._output.envelope:
            return [str(self._output.fields[0])]
        return [name for field in self._fields() for name in _NAMES.get(field, (str(field),))]

    def _fields(self) -> list[OutputField]:
        return [field for field in OutputField if field in self._output.fields]

    def _arrays(self, records: ConvertedRecords) -> list[Any]:
        if self._members is not None:
            field = self._output.fields[0]
            column = records.key if field is OutputField.KEY else records.value
            return _members(column, self._members, self._output.json_format)
        return [array for field in self._fields() for array in self._texts(field, records)]

    def _texts(self, field: OutputField, records: ConvertedRecords) -> list[Any]:
        match field:
            case OutputField.KEY:
                return [_strings(records.key)]
            case OutputField.VALUE:
                return [_strings(records.value)]
            case OutputField.HEADERS:
                return [_headers(records)]
            case _:
                arrays = field_arrays(field, records, RowSchema())
                arrays = arrays if self._output.envelope else arrays[:1]
                return [array.cast(pa.string()) for array in arrays]


_NAMES: Final = {OutputField.TIMESTAMP: ("timestamp", "timestamp_type")}


def _strings(column: ConvertedColumn) -> Any:
    return arrow_binary(column.texts()).cast(pa.string())


def _headers(records: ConvertedRecords) -> Any:
    headers = records.records.headers
    if headers is None:
        return pa.nulls(len(records), pa.string())
    present = pa.array(np.fromiter(map(bool, headers), np.bool_, len(records)))
    return pc.if_else(present, header_lists(list(headers)).cast(pa.string()), pa.scalar(None, pa.string()))


def _members(column: ConvertedColumn, part: ColumnForm, style: JsonFormat) -> list[Any]:
    """The members of records as text, nested ones as JSON."""
    array = array_of_form(column, part)
    names = tuple(field.name for field in array.type if _has_own_text(field.type))
    if not isinstance(column, InferredValues) or not names:
        return [_text(each, style) for each in array.flatten()]
    own = _own_members(column.texts(), names)
    return [
        own[field.name] if field.name in own else _text(each, style)
        for field, each in zip(array.type, array.flatten(), strict=True)
    ]


def _has_own_text(kind: Any) -> bool:
    """Whether values of a type that was found in JSON are written as they are there: others are so anyway."""
    return bool(pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _own_members(texts: Column, names: tuple[str, ...]) -> dict[str, Any]:
    """These members of JSON without a schema, as the record's own text has them."""
    found = [text or b"{}" for text in texts.each(0, len(texts))]
    if all(map(is_plain_name, names)):
        columns: Iterable[list[msgspec.Raw]] = _columns(found, names)
    else:
        # A structure cannot have such a name: all members are taken.
        rows = [_MEMBERS.decode(text) for text in found]
        columns = ([row.get(name, _ABSENT) for row in rows] for name in names)
    return {
        name: pa.array(map(_own_text, column), pa.string())
        for name, column in zip(names, columns, strict=True)
    }


_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _columns(texts: list[bytes], names: tuple[str, ...]) -> Iterator[list[msgspec.Raw]]:
    """These members of all texts, one after the other."""
    rows = [_decoder(names).decode(text) for text in texts]
    yield from ([getattr(row, f"m{place}") for row in rows] for place in range(len(names)))


@lru_cache(maxsize=256)
def _decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """A decoder of structures with the text of these members."""
    places = {f"m{place}": name for place, name in enumerate(names)}
    fields = [(place, msgspec.Raw, _ABSENT) for place in places]
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields, rename=places, gc=False))


def _own_text(value: msgspec.Raw) -> str | None:
    text = bytes(value)
    if text == b"null":
        return None
    # The integer -0 is a zero in a column of integers, and so it is here.
    return "0" if text == b"-0" else text.decode()


def _text(array: Any, style: JsonFormat) -> Any:
    if any(is_string(array.type) for is_string in _STRINGS):
        return array
    texts = json_values(array, style)
    if not any(is_nested(array.type) for is_nested in _NESTED):
        texts = pc.utf8_trim(texts, '"')
    filled = array.is_valid()
    if pa.types.is_floating(array.type):
        # What is no number and what is infinite: JSON has no text for them.
        filled = pc.and_(filled, pc.is_finite(array))
    return pc.if_else(filled, texts, pa.scalar(None, pa.string()))
