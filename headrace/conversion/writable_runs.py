"""Runs of records as an object can have them: of one schema of the rows, and of values that fit it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from headrace.conversion.encoders import new_encoder
from headrace.conversion.row_fit import may_be_unfit, unfit_rows, unfit_value
from headrace.formats.avro_schema import SchemaError
from headrace.formats.connect import InvalidSchema
from headrace.formats.connect.names import is_avro_name
from headrace.formats.converted_records import (
    ConvertedColumn,
    ConvertedRecords,
    Form,
    InferredValues,
    RecordFault,
)
from headrace.formats.converters.inferred_column import schema_of_kind, unheld_values
from headrace.formats.encoding.envelope_headers import HeaderSchemas, header_schemas
from headrace.formats.encoding.row_schema import RowSchema, has_typed_envelope, schema_of
from headrace.model.columns import Numbers
from headrace.model.kafka_records import Headers
from headrace.model.sanitize import printable
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import OutputField, OutputFormat, OutputSettings

_SCHEMAS_KEPT: Final = 1000
_SCHEMA: Final = "schema_unfit"
_TYPED: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})


class WritableRuns:
    """Splits runs, and notes the records that no object can take."""

    def __init__(self, output: OutputSettings, *, is_transformed: bool = False) -> None:
        """With `is_transformed` values may be other than their schema promises."""
        self._output = output
        self._is_transformed = is_transformed
        self._has_envelope = has_typed_envelope(output)
        # Rows that are values, Confluent's and Lenses' without an envelope, were asked for before.
        self._asks = self._has_envelope or (output.layout is LayoutName.AIVEN and output.format in _TYPED)
        self._problems: dict[RowSchema, str | None] = {}

    def of(self, runs: Iterable[ConvertedRecords], faults: list[RecordFault]) -> tuple[ConvertedRecords, ...]:
        """The runs as they can be written; what cannot be is put into `faults`."""
        split = (part for run in runs for part in self._split(run)) if self._has_envelope else runs
        writable = (self._writable(run, faults) for run in split)
        fitting = (self._fitting(run, faults) for run in writable if len(run))
        return tuple(run for run in fitting if len(run))

    def _fitting(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records of the run whose values fit their schema."""
        unfit = np.concatenate([rows[self._unfit(run.take(rows))] for rows in _of_one_schema(run)])
        if not len(unfit):
            return run
        faults += _faults(run.records.offsets[np.sort(unfit)], *unfit_value(self._output))
        return run.take(np.setdiff1d(np.arange(len(run)), unfit))

    def _unfit(self, run: ConvertedRecords) -> Numbers:
        output, schema = self._output, schema_of(self._output, run)
        if not (self._is_transformed or may_be_unfit(output, schema)):
            return np.zeros(0, np.int64)
        return unfit_rows(output, schema, run)

    def _writable(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records of the run whose schema rows can have."""
        if not self._asks:
            return run
        schema, values = schema_of(self._output, run), run.value
        if schema.value is not None and isinstance(values, InferredValues):
            part = schema.value

            def problem_of(kind: Any) -> str | None:
                return self._problem(replace(schema, value=replace(part, schema=schema_of_kind(kind))))

            found = unheld_values(values, problem_of)
        else:
            problem = self._problem(schema)
            found = [] if problem is None else [(row, problem) for row in range(len(run))]
        form, topic = self._output.format, run.records.topic
        for row, problem in found:
            message = f"output.format={form} cannot hold records of topic {topic}: {problem}"
            faults += _faults(run.records.offsets[row : row + 1], _SCHEMA, message)
        return run.take(np.setdiff1d(np.arange(len(run)), [row for row, _ in found])) if found else run

    def _problem(self, schema: RowSchema) -> str | None:
        """Why there are no rows of this schema; None where there are."""
        if schema not in self._problems:
            if len(self._problems) >= _SCHEMAS_KEPT:
                self._problems.clear()
            self._problems[schema] = _problem(self._output, schema)
        return self._problems[schema]

    def _split(self, run: ConvertedRecords) -> Iterator[ConvertedRecords]:
        """The run in parts that have the same fields: which depend on nulls, and on names of headers."""
        fields, output = np.zeros(len(run), np.int64), self._output
        for field, column in ((OutputField.KEY, run.key), (OutputField.VALUE, run.value)):
            fields = 2 * fields + (_without_field(column) if field in output.fields else 0)
        if OutputField.HEADERS in output.fields and run.records.headers is not None:
            shapes = _shapes(run.records.headers, output)
            fields = fields * (len(run) + 1) + shapes
        ends = [*(np.flatnonzero(np.diff(fields)) + 1).tolist(), len(run)]
        first = 0
        for end in ends:
            yield run if end - first == len(run) else run.slice(first, end)
            first = end


def _faults(offsets: Numbers, reason: str, message: str) -> list[RecordFault]:
    return [RecordFault(offset=offset, reason=reason, message=message) for offset in offsets.tolist()]


def _of_one_schema(run: ConvertedRecords) -> Iterator[Numbers]:
    """The rows of the run, by the kinds of their values where no schema is known for all of them."""
    if not isinstance(run.value, InferredValues) or run.value.upper is not None:
        yield np.arange(len(run))
        return
    rows: dict[int, list[int]] = {}
    for row, kind in enumerate(run.value.kinds()):
        rows.setdefault(id(kind), []).append(row)
    for same in rows.values():
        yield np.array(same, np.int64)


def _problem(output: OutputSettings, schema: RowSchema) -> str | None:
    for name, _ in schema.headers:
        if not is_avro_name(name):
            return (
                f"headers are columns there, and the header's name {printable(name, limit=100)} is invalid "
                "in Avro, which allows letters, digits and underscores only; rename or drop the header, or "
                "set output.format=jsonl"
            )
    try:
        new_encoder(output, schema)
    except (InvalidSchema, SchemaError) as error:
        return str(error)
    return None


def _without_field(column: ConvertedColumn) -> Numbers:
    """1 for each null that has no schema."""
    return column.nulls().astype(np.int64) * (column.form is Form.TYPED)


def _shapes(headers: Sequence[Headers], output: OutputSettings) -> Numbers:
    """A number for each record, equal for equal schemas of headers."""
    known: dict[HeaderSchemas, int] = {}
    kind = output.rows.headers
    return np.array([known.setdefault(header_schemas(each, kind), len(known)) for each in headers], np.int64)
