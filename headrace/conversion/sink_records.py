"""A sink's records from Kafka's bytes through its transforms to what its output can hold."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headrace.conversion.layout_rows_check import LayoutRowsCheck
from headrace.conversion.record_converter import (
    FAILING_NULL,
    NULL_KEY,
    RecordConverter,
    null_problem,
    schema_problems,
)
from headrace.conversion.writable_runs import WritableRuns
from headrace.formats.converted_records import Conversion, ConvertedRecords, Form, RecordFault
from headrace.formats.converters.choice import makes_columns
from headrace.formats.converters.json_converter import JsonConverter
from headrace.formats.converters.plain_converters import check_headers_beside
from headrace.formats.converters.segments import RowFaults, Segment, runs
from headrace.formats.transforms.record_chain import RecordChain
from headrace.model.clock import wall_ms
from headrace.model.columns import KafkaRecords, Numbers
from headrace.options.sink_settings import NullValues, OutputField, SinkSettings


class SinkRecords(Protocol):
    """Makes records that can be grouped and written of those that were fetched."""

    def convert(self, records: KafkaRecords) -> Conversion:
        """See `RecordConverter.convert`."""


def sink_records(sink: SinkSettings, clock: Callable[[], int] = wall_ms) -> SinkRecords:
    """What a sink reads records with; without transforms they cost nothing."""
    if not sink.transforms:
        return RecordConverter(sink.converters, sink.output)
    return TransformedRecords(sink, clock)


class TransformedRecords:
    """Converters, then the chain, then what the output asks of nulls and of JSON that becomes columns."""

    def __init__(self, sink: SinkSettings, clock: Callable[[], int] = wall_ms) -> None:
        parts = frozenset(OutputField(part) for part in sink.transforms.parts)
        self._converter = RecordConverter(sink.converters, sink.output, transformed=parts)
        self._chain = RecordChain(sink.transforms, clock)
        self._output = sink.output
        self._rows = LayoutRowsCheck(sink.output)
        self._writable = WritableRuns(sink.output, is_transformed=True)
        self._shape = None
        if makes_columns(sink.output) and OutputField.VALUE in sink.output.fields:
            self._shape = JsonConverter("value", sink.output.json_format, schemas=False, wants_columns=True)

    def convert(self, records: KafkaRecords) -> Conversion:
        """See `RecordConverter.convert`; a record that a transform drops is in no run, and is no fault."""
        conversion = self._converter.convert(records)
        found: list[ConvertedRecords] = []
        faults = list(conversion.faults)
        ignored = conversion.ignored
        for run in conversion.runs:
            made = self._chain.apply(run)
            faults += made.faults
            for made_run in made.runs:
                kept = self._held(made_run, faults)
                ignored += len(made_run) - len(kept) if self._output.null_values is NullValues.IGNORE else 0
                if len(kept):
                    written = (self._written(each, faults) for each in self._shaped(kept, faults))
                    found += [each for each in written if len(each)]
        found = list(self._writable.of(found, faults))
        faults.sort(key=lambda fault: fault.offset)
        return Conversion(runs=tuple(found), faults=tuple(faults), ignored=ignored)

    def _held(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records whose nulls the output has a place for."""
        nulls = run.value.nulls()
        gone = np.zeros(len(run), np.bool_)
        if self._output.null_values is not NullValues.WRITE:
            gone |= nulls
        if self._output.null_values is NullValues.FAIL:
            faults += _faults(run, nulls, *FAILING_NULL)
        for part, column in ((OutputField.KEY, run.key), (OutputField.VALUE, run.value)):
            problem = null_problem(self._output, part, column)
            if problem is not None:
                unheld = column.nulls() & ~gone
                faults += _faults(run, unheld, *problem)
                gone |= unheld
        unfit = RowFaults()
        self._rows.check(run.records, unfit)
        if self._output.sidecars.headers is not None:
            check_headers_beside(run.records, unfit)
        if self._output.sidecars.keys is not None:
            for row in np.flatnonzero(run.key.nulls()).tolist():
                unfit.add(row, *NULL_KEY)
        for row, problem in unfit.found.items():
            if not gone[row]:
                faults += _faults(run, np.array([row]), *problem)
                gone[row] = True
        return run if not gone.any() else run.take(np.flatnonzero(~gone))

    def _written(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records whose values the layout's rows can have the schema of; others are faults."""
        problems = schema_problems(self._output, run.value, run.records.topic)
        for row, problem in problems:
            faults += _faults(run, np.array([row]), *problem)
        if not problems:
            return run
        return run.take(np.setdiff1d(np.arange(len(run)), [row for row, _ in problems]))

    def _shaped(self, run: ConvertedRecords, faults: list[RecordFault]) -> tuple[ConvertedRecords, ...]:
        """The run with its values as columns, where they are JSON and the output has such."""
        if self._shape is None or run.value.form is not Form.JSON:
            return (run,)
        found = RowFaults()
        values = self._shape.convert(run.value.texts(), run.records.topic, found)
        faults += [
            RecordFault(offset=int(run.records.offsets[row]), reason=reason, message=message)
            for row, (reason, message) in found.found.items()
        ]
        good = np.ones(len(run), np.bool_)
        good[list(found.found)] = False
        keys = [Segment(np.arange(len(run), dtype=np.int64), run.key)]
        return runs(run.records, keys, values, np.flatnonzero(good))


def _faults(
    run: ConvertedRecords, rows: npt.NDArray[np.bool_] | Numbers, reason: str, message: str
) -> list[RecordFault]:
    return [
        RecordFault(offset=offset, reason=reason, message=message)
        for offset in run.records.offsets[rows].tolist()
    ]
