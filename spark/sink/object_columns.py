"""The columns of an open object, and which of the next records come into it."""

from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.conversion.row_fit import is_projection_unfit, unfit_value
from headrace.formats.converted_records import ConvertedRecords, InferredValues
from headrace.formats.converters.inferred_column import schema_of_kind
from headrace.formats.encoding import NewObject, Projected, Refused, RowSchema, Same, next_schema
from headrace.formats.encoding.kinds import settled
from headrace.formats.encoding.learning_encoder import LEARNED, LearningEncoder
from headrace.formats.encoding.row_schema import PartSchema
from headrace.options.sink_settings import OutputSettings

_NULL: Final = schema_of_kind(pa.null())


class Taken(NamedTuple):
    """How many of the records come into the object, and its kind then.

    `change` is what the record after them means; None where they are all.
    """

    rows: int
    kind: Any = None
    change: NewObject | Refused | None = None


class ObjectColumns:
    """The columns of one object. Its first records widen them, where they are found in values."""

    def __init__(
        self, output: OutputSettings, schema: RowSchema, encoder: LearningEncoder | None = None
    ) -> None:
        """`encoder` None: of an object that is not opened yet."""
        self._output = output
        self._schema = schema
        self._kind = _kind_of(schema)
        self._encoder = encoder
        self._is_settled = False

    def taken(self, records: ConvertedRecords, schema: RowSchema, *, ahead: int = 0) -> Taken:
        """Which of these records, whose schema this is, come into the object after `ahead` others."""
        values = records.value
        if _kind_of(schema) is None or not isinstance(values, InferredValues):
            return self._declared(records, schema)
        if self._kind is None:
            return self._nulls(records, schema)
        # Of what is not found in values everything has to be the same.
        if not isinstance(
            next_schema(self._output, self._schema, replace(schema, value=self._schema.value)), Same
        ):
            return Taken(0, change=NewObject())
        learning = max((LEARNED if self._encoder is None else self._encoder.left) - ahead, 0)
        if not learning and not self._is_settled:
            self._kind, self._is_settled = settled(self._kind), True
        fit = values.fit(self._kind, learning)
        return Taken(fit.rows, fit.kind, None if fit.rows == len(values) else NewObject())

    def widen(self, kind: Any) -> None:
        """Suppose columns of this kind; None: those that it had."""
        if kind is not None:
            self._kind = kind

    def grow(self, kind: Any) -> None:
        """The object has columns of this kind from now on; None: those that it had."""
        self.widen(kind)
        if kind is not None and self._encoder is not None and self._encoder.left:
            self._encoder.kind = kind

    def copy(self) -> "ObjectColumns":
        """The same, to try what records would do to it."""
        found = ObjectColumns(self._output, self._schema, self._encoder)
        found._kind, found._is_settled = self._kind, self._is_settled
        return found

    def _declared(self, records: ConvertedRecords, schema: RowSchema) -> Taken:
        change = next_schema(self._output, self._schema, schema)
        if isinstance(change, Projected) and is_projection_unfit(self._output, self._schema, records):
            if len(records) > 1:
                # One record after the other, so that only those that do not fit are refused.
                return self._declared(records.slice(0, 1), schema)
            change = Refused(*unfit_value(self._output))
        if isinstance(change, NewObject | Refused):
            return Taken(0, change=change)
        return Taken(len(records))

    def _nulls(self, records: ConvertedRecords, schema: RowSchema) -> Taken:
        """Nulls without a schema join an object of any."""
        filled = np.flatnonzero(~records.value.nulls())
        rows = int(filled[0]) if len(filled) else len(records)
        if not rows:
            return Taken(0, change=NewObject())
        assert schema.value is not None, "values without a schema are of the rows"
        null = replace(schema, value=PartSchema(schema.value.form, _NULL))
        taken = self._declared(records.slice(0, rows), null)
        if taken.change is None and rows < len(records):
            return Taken(rows, change=NewObject())
        return taken


def _kind_of(schema: RowSchema) -> Any | None:
    value = schema.value
    return None if value is None or value.schema is None else value.schema.kind
