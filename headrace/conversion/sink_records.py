"""A sink's records: fetched bytes converted, transformed, and held against what the output takes."""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from headrace.conversion.encoders import LayoutRowsCheck, rows_of_layout
from headrace.conversion.side_rows import side_output
from headrace.conversion.writable_runs import (
    BY_VALUE,
    FAILING_NULL,
    FAULTS_OF_NULLS,
    IGNORED,
    NULL_KEY,
    REPORTED_NULL,
    WritableRuns,
    null_problem,
    rows_of_values,
)
from headrace.formats.converted_records import (
    ColumnSchema,
    Conversion,
    ConvertedColumn,
    ConvertedRecords,
    Form,
    InferredValues,
    RecordFault,
)
from headrace.formats.converters.choice import (
    column_converter,
    copies_data,
    fills_defaults,
    makes_columns,
    member_form,
)
from headrace.formats.converters.framed_converter import framed, inflated_at_once
from headrace.formats.converters.inferred_column import schema_of_kind, unheld_values
from headrace.formats.converters.json_converter import JsonConverter, TopicMembers
from headrace.formats.converters.plain_converters import (
    HeaderConverter,
    check_headers_beside,
    null_rows,
    without_empty,
    without_nulls,
)
from headrace.formats.converters.typed_columns import RowFaults, Segment, runs
from headrace.formats.encoding.connect_values import unwritable
from headrace.formats.encoding.row_schema import ColumnForm, has_typed_envelope, joins_versions
from headrace.formats.transforms.record_chain import NullRuns, RecordChain, put_together
from headrace.model.clock import wall_ms
from headrace.model.columns import Column, KafkaRecords, Numbers, Stage
from headrace.names.archive_names import LayoutName
from headrace.options.schema_settings import GlueSettings
from headrace.options.sink_settings import (
    ConverterKind,
    Converters,
    ConverterSettings,
    NullValues,
    OutputField,
    OutputFormat,
    OutputSettings,
    SideRole,
    SinkSettings,
)

_STAGES: Final = {OutputField.KEY: Stage.KEY_CONVERTER, OutputField.VALUE: Stage.VALUE_CONVERTER}


def _glue_versions(settings: GlueSettings) -> Callable[[str], tuple[str, str] | None]:
    # With a client of AWS's, which only a sink that reads by Glue needs.
    from headrace.aws.glue import glue_versions

    return glue_versions(settings)


def _key_output(converters: Converters, output: OutputSettings) -> OutputSettings:
    """The output that keys are read for: their side objects, where there are any."""
    # Bytes are never refused there: each format of keys has a form of them.
    is_plain = converters.key.kind is ConverterKind.BYTES
    is_here = is_plain or output.sidecars.keys is None
    return output if is_here else side_output(output, SideRole.KEYS)


def member_forms(sink: SinkSettings) -> dict[OutputField, str]:
    """How members of keys and of values look in names, where options of the output have a say in it."""
    found = {field: member_form(*how, is_transformed=is_opened) for field, how, is_opened in _read(sink)}
    return {field: form for field, form in found.items() if form is not None}


def copied_fields(sink: SinkSettings) -> frozenset[OutputField]:
    """The keys and values whose Avro data are copied, with columns or without."""
    return frozenset(
        field for field, how, is_opened in _read(sink) if copies_data(*how, is_transformed=is_opened)
    )


def filled_fields(sink: SinkSettings) -> frozenset[OutputField]:
    """The keys and values that have the defaults of schemas next to them in the place of nulls."""
    return frozenset(
        field for field, how, is_opened in _read(sink) if fills_defaults(*how, is_transformed=is_opened)
    )


def _read(
    sink: SinkSettings,
) -> Iterator[tuple[OutputField, tuple[ConverterSettings, OutputField, OutputSettings], bool]]:
    """Keys and values: what they are read by and for, and whether transforms look into them."""
    opened, converters = frozenset(map(OutputField, sink.transforms.looks_into)), sink.converters
    key, value = OutputField.KEY, OutputField.VALUE
    yield key, (converters.key, key, _key_output(converters, sink.output)), key in opened
    yield value, (converters.value, value, sink.output), value in opened


def _members_of(output: OutputSettings) -> TopicMembers | None:
    """Where values become columns: other formats have none to count."""
    return TopicMembers() if makes_columns(output) and OutputField.VALUE in output.fields else None


class RecordConverter:
    """Converts the records of one sink; make one for each task.

    What cannot be converted, and what the output's format cannot hold, are faults of the conversion.
    `transformed`: the parts that transforms look into after it, as objects; then nulls are of no concern.
    """

    def __init__(
        self,
        converters: Converters,
        output: OutputSettings,
        *,
        transformed: frozenset[OutputField] | None = None,
    ) -> None:
        self._nulls = output.null_values if transformed is None else NullValues.WRITE
        self._output = output
        self._sidecars = output.sidecars
        self._holds_all = transformed is not None
        opened = transformed or frozenset()
        self._key = column_converter(
            converters.key,
            OutputField.KEY,
            _key_output(converters, output),
            is_transformed=OutputField.KEY in opened,
            glue=_glue_versions,
        )
        self._value = column_converter(
            converters.value,
            OutputField.VALUE,
            output,
            is_transformed=OutputField.VALUE in opened,
            glue=_glue_versions,
        )
        is_written = OutputField.HEADERS in output.fields or output.sidecars.headers is not None
        is_simple = converters.header.kind is ConverterKind.SIMPLE
        # Connect reads headers by it where nothing else is said, and it refuses none.
        self._headers = HeaderConverter(converters.header) if is_written or not is_simple else None
        self._converters = converters
        self._rows = LayoutRowsCheck(output)
        self._writable = None if self._holds_all else WritableRuns(output)
        self._members = None if self._holds_all else _members_of(output)

    def bounded(self, records: KafkaRecords) -> Iterator[KafkaRecords]:
        """The records in their order, as many at once as can be converted together.

        What a piece may have depends on those before it, which are converted first.
        """
        bounded = inflated_at_once(records, self._converters)
        return bounded if self._members is None else self._members.cut(bounded)

    def convert(self, records: KafkaRecords) -> Conversion:
        """The records in runs of one schema, and the faults of those that are in none.

        Blocks on the schema registry where a schema is not known yet. Raises SourceUnavailable while the
        registry does not answer, AccessDenied while it refuses the user.
        """
        faults = RowFaults()
        ignored = self._judged_nulls(null_rows(records.values), faults)
        key_data, value_data = framed(records, self._converters)
        keys = self._of_field(OutputField.KEY, key_data, records.topic, faults)
        values = self._of_field(OutputField.VALUE, value_data, records.topic, faults)
        if self._output.layout in BY_VALUE and not self._holds_all:
            # There a null is whatever the converter makes one of.
            ignored = np.union1d(ignored, self._null_values(values, faults))
            values = [each for each in values if self._is_writable(each, records.topic, faults)]
        if self._headers is not None:
            faults.stage = Stage.HEADER_CONVERTER
            self._headers.check(records, faults)
            faults.stage = Stage.VALUE_CONVERTER
        if not self._holds_all:
            self._rows.check(records, faults)
            if self._sidecars.headers is not None:
                check_headers_beside(records, faults)
        good = np.ones(len(records), np.bool_)
        good[list(faults.found)] = False
        good[ignored] = False
        noted = faults.noted(records, but=set(ignored.tolist()))
        if self._nulls is NullValues.REPORT:
            noted += _faults(records, ignored, *REPORTED_NULL)
            noted.sort(key=_offset)
        made = runs(records, keys, values, np.flatnonzero(good))
        if self._writable is not None:
            made = self._writable.of(made, noted)
            noted.sort(key=_offset)
        if self._members is not None:
            written = [run.value for run in made]
            self._members.note(records.topic, written, read=len(records), kept=sum(map(len, made)))
        return Conversion(runs=made, faults=tuple(noted), ignored=len(ignored))

    def _of_field(self, field: OutputField, data: Column, topic: str, faults: RowFaults) -> list[Segment]:
        faults.stage = _STAGES[field]
        if field is OutputField.KEY:
            segments = self._key.convert(data, topic, faults)
            if self._sidecars.keys is not None and not self._holds_all:
                segments = without_nulls(segments, *NULL_KEY, faults)
        else:
            segments = self._value.convert(data, topic, faults)
        if self._holds_all:
            return segments
        if field in self._output.fields:
            segments = rows_of_layout(self._output, field, segments, faults)
        return [each for segment in segments for each in self._held(field, segment, faults)]

    def _null_values(self, segments: list[Segment], faults: RowFaults) -> Numbers:
        """The rows without a value that are ignored; the same rows as faults, where they fail."""
        nulls = [each.rows[each.column.nulls()] for each in segments]
        return self._judged_nulls(np.concatenate(nulls) if nulls else np.zeros(0, np.int64), faults)

    def _judged_nulls(self, rows: Numbers, faults: RowFaults) -> Numbers:
        """Those of these rows, which have no value, that are ignored; they are faults where they fail."""
        if self._nulls is NullValues.FAIL:
            for row in rows.tolist():
                faults.add(row, *FAILING_NULL)
        return rows if self._nulls in IGNORED else np.zeros(0, np.int64)

    def _is_writable(self, segment: Segment, topic: str, faults: RowFaults) -> bool:
        """Whether the layout's rows can have this schema; else its rows are faults."""
        unwritable = schema_problems(self._output, segment.column, topic)
        for place, problem in unwritable:
            faults.add(int(segment.rows[place]), *problem)
        return len(unwritable) < len(segment.rows)

    def _held(self, field: OutputField, segment: Segment, faults: RowFaults) -> list[Segment]:
        """What of a segment its rows can hold where they are this part alone."""
        problem = null_problem(self._output, field, segment.column)
        if problem is None:
            return [segment]
        if self._output.layout is LayoutName.LENSES and self._output.format is OutputFormat.BYTES:
            segment = without_empty(segment, faults)
        return without_nulls([segment], *problem, faults)


def schema_problems(
    output: OutputSettings, values: ConvertedColumn, topic: str
) -> list[tuple[int, tuple[str, str]]]:
    """The places of values whose schema the layout's rows cannot have, each with reason and sentence."""
    if output.layout not in BY_VALUE or output.envelope:
        return []
    if isinstance(values, InferredValues):
        form = values.form
        return unheld_values(values, lambda kind: _schema_problem(output, form, schema_of_kind(kind), topic))
    problem = _schema_problem(output, values.form, values.schema, topic)
    if problem is None:
        return []
    return [(place, problem) for place in rows_of_values(output, values).tolist()]


def _schema_problem(
    output: OutputSettings, form: Form, schema: ColumnSchema | None, topic: str
) -> tuple[str, str] | None:
    why = unwritable(output.format, output.rows.avro, ColumnForm(form, schema))
    if why is None:
        return None
    return "schema_unfit", f"output.format={output.format} cannot hold the values of topic {topic}: {why}"


class SinkRecords(Protocol):
    """Makes records that can be grouped and written of those that were fetched."""

    def bounded(self, records: KafkaRecords) -> Iterator[KafkaRecords]:
        """See `RecordConverter.bounded`."""

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
        opened = frozenset(OutputField(field) for field in sink.transforms.looks_into)
        self._converter = RecordConverter(sink.converters, sink.output, transformed=opened)
        self._chain = RecordChain(sink.transforms, clock)
        self._nulls = NullRuns(sink.transforms, joins=not has_typed_envelope(sink.output))
        self._output = sink.output
        self._tells_versions = not joins_versions(sink.output)
        self._rows = LayoutRowsCheck(sink.output)
        self._writable = WritableRuns(sink.output, is_transformed=True)
        self._shape = None
        self._members = _members_of(sink.output)
        if self._members is not None:
            self._shape = JsonConverter("value", sink.output.json_format, schemas=False, wants_columns=True)

    def bounded(self, records: KafkaRecords) -> Iterator[KafkaRecords]:
        """See `RecordConverter.bounded`."""
        bounded = self._converter.bounded(records)
        return bounded if self._members is None else self._members.cut(bounded)

    def convert(self, records: KafkaRecords) -> Conversion:
        """See `RecordConverter.convert`; a record that a transform drops is in no run, and is no fault."""
        conversion = self._converter.convert(records)
        found: list[ConvertedRecords] = []
        faults = list(conversion.faults)
        ignored = conversion.ignored
        for run in conversion.runs:
            made = self._chain.apply(run, puts_together=False)
            faults += made.faults
            transformed = list(made.runs)
            if self._nulls.joins:
                transformed = self._nulls.joined([self._held(each, faults) for each in transformed])
            typed = map(self._nulls.typed, put_together(transformed, tells_versions=self._tells_versions))
            kept = [held for each in typed if len(held := self._held(each, faults))]
            if self._output.null_values in IGNORED:
                ignored += sum(map(len, made.runs)) - sum(map(len, kept))
            for each in kept:
                shaped = (self._of_layout(one, faults) for one in self._shaped(each, faults))
                found += [one for one in (self._written(one, faults) for one in shaped) if len(one)]
        found = list(self._writable.of(found, faults))
        if self._members is not None:
            written = [run.value for run in found]
            self._members.note(records.topic, written, read=len(records), kept=sum(map(len, found)))
        faults.sort(key=_offset)
        return Conversion(runs=tuple(found), faults=tuple(faults), ignored=ignored)

    def _held(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records whose nulls the output has a place for."""
        nulls = run.value.nulls()
        gone = np.zeros(len(run), np.bool_)
        if self._output.null_values is not NullValues.WRITE:
            gone |= nulls
        if (fault := FAULTS_OF_NULLS.get(self._output.null_values)) is not None:
            faults += _faults(run.records, nulls, *fault)
        for field, column in ((OutputField.KEY, run.key), (OutputField.VALUE, run.value)):
            problem = null_problem(self._output, field, column)
            if problem is not None:
                unheld = column.nulls() & ~gone
                faults += _faults(run.records, unheld, *problem, stage=_STAGES[field])
                gone |= unheld
        unfit = RowFaults()
        self._rows.check(run.records, unfit)
        if self._output.sidecars.headers is not None:
            check_headers_beside(run.records, unfit)
        if self._output.sidecars.keys is not None:
            unfit.stage = Stage.KEY_CONVERTER
            for row in np.flatnonzero(run.key.nulls()).tolist():
                unfit.add(row, *NULL_KEY)
        if unfit.found:
            faults += unfit.noted(run.records, but=set(np.flatnonzero(gone).tolist()))
            gone[list(unfit.found)] = True
        return run if not gone.any() else run.take(np.flatnonzero(~gone))

    def _of_layout(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records whose values the layout's rows can hold, as transforms left them."""
        found = RowFaults()
        whole = Segment(np.arange(len(run), dtype=np.int64), run.value)
        rows_of_layout(self._output, OutputField.VALUE, [whole], found)
        if not found.found:
            return run
        faults += found.noted(run.records)
        return run.take(np.setdiff1d(np.arange(len(run)), list(found.found)))

    def _written(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records whose values the layout's rows can have the schema of; others are faults."""
        problems = schema_problems(self._output, run.value, run.records.topic)
        for row, problem in problems:
            faults += _faults(run.records, np.array([row]), *problem)
        if not problems:
            return run
        return run.take(np.setdiff1d(np.arange(len(run)), [row for row, _ in problems]))

    def _shaped(self, run: ConvertedRecords, faults: list[RecordFault]) -> tuple[ConvertedRecords, ...]:
        """The run with its values as columns, where they are JSON and the output has such."""
        if self._shape is None or run.value.form is not Form.JSON:
            return (run,)
        found = RowFaults()
        values = self._shape.convert(run.value.texts(), run.records.topic, found)
        faults += found.noted(run.records)
        good = np.ones(len(run), np.bool_)
        good[list(found.found)] = False
        keys = [Segment(np.arange(len(run), dtype=np.int64), run.key)]
        return runs(run.records, keys, values, np.flatnonzero(good))


def _offset(fault: RecordFault) -> int:
    return fault.offset


def _faults(
    records: KafkaRecords,
    rows: npt.NDArray[np.bool_] | Numbers,
    reason: str,
    message: str,
    stage: Stage = Stage.VALUE_CONVERTER,
) -> list[RecordFault]:
    return [
        RecordFault(offset=offset, reason=reason, message=message, stage=stage)
        for offset in records.offsets[rows].tolist()
    ]
