"""Keys and values opened as objects, the records that have none refused, and put back as columns."""

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.transforms.json_objects import JsonObjects, Members, members_of
from headrace.formats.transforms.refused_rows import Refused, RefusedRows
from headrace.formats.transforms.struct_objects import StructObjects
from headrace.options.transforms.chain import RecordPart

Objects = JsonObjects | StructObjects
NO_OBJECT: Final = "is JSON, but no object"


def column_of_part(records: ConvertedRecords, part: RecordPart) -> ConvertedColumn:
    """The keys or the values."""
    return records.key if part is RecordPart.KEY else records.value


def with_column(records: ConvertedRecords, part: RecordPart, column: ConvertedColumn) -> ConvertedRecords:
    """The records with other keys or values."""
    return replace(records, key=column) if part is RecordPart.KEY else replace(records, value=column)


def opened(
    records: ConvertedRecords,
    part: RecordPart,
    refused: RefusedRows,
    *,
    fills_defaults: bool,
    takes_nulls: bool,
) -> Objects | None:
    """The objects of all rows; None where no row has one. Rows that are neither are refused.

    With `takes_nulls` a null is no fault.
    """
    column = column_of_part(records, part)
    nulls = column.nulls()
    if not takes_nulls:
        _refuse(records, np.flatnonzero(nulls).tolist(), f"the {part} is null, and no object", refused)
    if nulls.all():
        return None
    if is_json(column):
        return _json_objects(records, column, part, refused)
    if isinstance(column, TypedColumn) and _is_typed(column) and pa.types.is_struct(column.schema.arrow):
        return StructObjects.of(column, fills_defaults=fills_defaults)
    what = {Form.TEXT: "text", Form.BYTES: "bytes"}.get(column.form, "of a type without fields")
    _refuse(records, np.flatnonzero(~nulls).tolist(), f"the {part} is {what}, and no object", refused)
    return None


def is_json(column: ConvertedColumn) -> bool:
    """Whether the values are JSON without a schema."""
    return column.form is Form.JSON and not _is_typed(column)


def _is_typed(column: ConvertedColumn) -> bool:
    return isinstance(column, TypedColumn) and column.schema.arrow is not None and column.has_array


def refuse_objects(records: ConvertedRecords, part: RecordPart, message: str, refused: RefusedRows) -> None:
    """Refuse those that have an object: a null next to them, which the step takes, is not of their schema."""
    _refuse(records, np.flatnonzero(~column_of_part(records, part).nulls()).tolist(), message, refused)


def _json_objects(
    records: ConvertedRecords, column: ConvertedColumn, part: RecordPart, refused: RefusedRows
) -> JsonObjects:
    texts = column.texts()
    rows: list[Members | None] = []
    for row, text in enumerate(texts.each(0, len(texts))):
        members = None
        if text is not None:
            try:
                members = members_of(text)
            except Refused:
                refused.add(int(records.records.offsets[row]), f"the {part} {NO_OBJECT}")
        rows.append(members)
    return JsonObjects(rows)


def _refuse(records: ConvertedRecords, rows: list[int], message: str, refused: RefusedRows) -> None:
    for row in rows:
        refused.add(int(records.records.offsets[row]), message)
