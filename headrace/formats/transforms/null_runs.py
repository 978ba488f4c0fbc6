"""Nulls that come alone, with the type that transforms gave the keys and values before them."""

import pyarrow as pa

from headrace.formats.converted_records import ColumnSchema, ConvertedRecords
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.formats.transforms.struct_objects import chosen_column, with_column
from headrace.options.choices import JsonFormat
from headrace.options.transforms.chain import KeyOrValue


class NullRuns:
    """Gives runs of nulls alone the schema of what came before them in their topic.

    Transforms make nothing of a null, so that one that is fetched by itself has the schema which its record
    had before them. That is not the one of its neighbours, and would close their object.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, KeyOrValue], tuple[ColumnSchema, JsonFormat]] = {}

    def typed(self, run: ConvertedRecords) -> ConvertedRecords:
        """The same records; others than nulls are as they were, and have their schema remembered."""
        for which in KeyOrValue:
            run = self._typed(run, which)
        return run

    def _typed(self, run: ConvertedRecords, which: KeyOrValue) -> ConvertedRecords:
        column, place = chosen_column(run, which), (run.records.topic, which)
        if not isinstance(column, TypedColumn) or not column.has_array:
            return run
        if not column.nulls().all():
            self._last[place] = column.schema, column.style
            return run
        schema, style = self._last.get(place, (column.schema, column.style))
        if schema == column.schema:
            return run
        return with_column(
            run, which, TypedColumn(schema, array=pa.nulls(len(run), schema.arrow), style=style)
        )
