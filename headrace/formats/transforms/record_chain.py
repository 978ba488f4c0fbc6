"""The chain of transforms over runs of records: which step applies to which of them, and what remains."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.formats.converted_records import (
    ColumnSchema,
    ConvertedColumn,
    ConvertedRecords,
    Form,
    InferredValues,
    RecordFault,
)
from headrace.formats.converters.typed_columns import PlainColumn, TypedColumn
from headrace.formats.transforms.change_event_steps import by_logical_table_router, extract_new_record_state
from headrace.formats.transforms.field_steps import (
    extract_field,
    flatten,
    hoist_field,
    insert_field,
    replace_field,
    set_schema_metadata,
    value_to_key,
)
from headrace.formats.transforms.header_topic_steps import (
    drop_headers,
    header_from,
    headers_of,
    insert_header,
    regex_router,
    timestamp_router,
)
from headrace.formats.transforms.step_values import RefusedRows
from headrace.formats.transforms.struct_objects import chosen_column, with_column
from headrace.formats.transforms.time_steps import field_time, time_headers, wall_clock
from headrace.formats.transforms.timestamp_steps import convert_time
from headrace.formats.transforms.value_steps import cast, mask_field
from headrace.model.clock import wall_ms
from headrace.model.columns import TRANSFORM_REFUSED, Column, KafkaRecords, Stage, null_column
from headrace.options.choices import JsonFormat
from headrace.options.topic_expressions import matches
from headrace.options.transforms import chain as smt

# -- Records that transforms made different, put together again: in few runs, each in the order of offsets ---


def put_together(runs: Sequence[ConvertedRecords], *, tells_versions: bool = True) -> list[ConvertedRecords]:
    """The records of one run in runs of one topic, one key schema and one value schema.

    Those of different topics come after each other: they go into different objects. Without `tells_versions`
    schemas that differ in their version alone are one.
    """
    filled = [run for run in runs if len(run)]
    if len(filled) < 2:  # noqa: PLR2004  # nothing to put together
        return filled
    kinds: dict[Hashable, list[ConvertedRecords]] = defaultdict(list)
    for run in filled:
        kind = (_kind(each, tells_versions=tells_versions) for each in (run.key, run.value))
        kinds[run.records.topic, *kind].append(run)
    topics: dict[str, list[ConvertedRecords]] = defaultdict(list)
    for same in kinds.values():
        topics[same[0].records.topic].append(_joined(same))
    runs = [run for of_topic in topics.values() for run in in_order(of_topic)]
    return sorted(runs, key=lambda run: run.records.first_offset)


def in_order(runs: Sequence[ConvertedRecords]) -> list[ConvertedRecords]:
    """Pieces of one topic cut where the order of offsets goes from one to another."""
    if len(runs) == 1:
        return list(runs)
    owner = np.concatenate([np.full(len(run), number) for number, run in enumerate(runs)])
    place = np.concatenate([np.arange(len(run)) for run in runs])
    order = np.argsort(np.concatenate([run.records.offsets for run in runs]), kind="stable")
    owner, place = owner[order], place[order]
    borders = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    return [
        runs[int(owner[first])].slice(int(place[first]), int(place[behind - 1]) + 1)
        for first, behind in pairwise(borders)
    ]


def _kind(column: ConvertedColumn, *, tells_versions: bool) -> Hashable:
    if isinstance(column, PlainColumn):
        return column.form
    if isinstance(column, TypedColumn) and (column.schema.arrow is not None or not column.has_array):
        schema = column.schema
        # Connect's schema tells apart what Arrow and Avro may not: an inner name, or what may be null.
        version = schema.version if tells_versions else None
        kind = str(schema.arrow), schema.avro, version, schema.connect, column.shows_texts
        # Without an array all values are texts, or all are data that one function shows.
        return kind if column.has_array else (*kind, column.shown, column.data() is None, column.style)
    # Nothing to put together by: it stays by itself.
    return id(column)


def _joined(runs: list[ConvertedRecords]) -> ConvertedRecords:
    """Pieces of one kind as one, in the order of offsets."""
    if len(runs) == 1:
        return runs[0]
    whole = ConvertedRecords(
        records=_records([run.records for run in runs]),
        key=_columns([run.key for run in runs]),
        value=_columns([run.value for run in runs]),
    )
    order = np.argsort(whole.records.offsets, kind="stable")
    return whole.take(order)


def _records(runs: list[KafkaRecords]) -> KafkaRecords:
    has_headers = any(run.headers is not None for run in runs)
    headers = [each for run in runs for each in (run.headers or [()] * len(run))] if has_headers else None
    return replace(
        runs[0],
        offsets=np.concatenate([run.offsets for run in runs]),
        timestamps_ms=np.concatenate([run.timestamps_ms for run in runs]),
        timestamp_types=np.concatenate([run.timestamp_types for run in runs]),
        keys=_bytes([run.keys for run in runs]),
        values=_bytes([run.values for run in runs]),
        headers=headers,
    )


def _columns(runs: list[ConvertedColumn]) -> ConvertedColumn:
    first = runs[0]
    if isinstance(first, TypedColumn):
        array: Any = pa.concat_arrays([run.arrow() for run in runs]) if first.has_array else None
        return TypedColumn(
            first.schema,
            array=array,
            texts=_whole([run.given_texts for run in runs if isinstance(run, TypedColumn)]),
            shown=first.shown,
            data=_whole([run.data() for run in runs]),
            shows_texts=first.shows_texts,
            style=first.style,
        )
    form: Form = first.form
    return PlainColumn(_bytes([run.texts() for run in runs]), form)


def _whole(runs: list[Column | None]) -> Column | None:
    """Columns one after the other; None unless each run has one."""
    known = [each for each in runs if each is not None]
    return _bytes(known) if len(known) == len(runs) else None


def _bytes(runs: list[Column]) -> Column:
    """Columns one after the other; over their buffer where they share it."""
    first = runs[0]
    if all(run.buffer is first.buffer for run in runs):
        starts = np.concatenate([run.starts for run in runs])
        lengths = np.concatenate([run.lengths for run in runs])
        return Column(buffer=first.buffer, starts=starts, lengths=lengths)
    return column_of_arrow(pa.concat_arrays([arrow_binary(run) for run in runs]))


# -- The chain of transforms over runs of records: which step applies to which of them, and what remains -----

Apply = Callable[[Any, ConvertedRecords, RefusedRows], list[ConvertedRecords]]

_STEPS: Final[dict[type[smt.Transform], Apply]] = {
    smt.RegexRouter: regex_router,
    smt.TimestampRouter: timestamp_router,
    smt.InsertField: insert_field,
    smt.ReplaceField: replace_field,
    smt.ExtractField: extract_field,
    smt.HoistField: hoist_field,
    smt.ValueToKey: value_to_key,
    smt.InsertHeader: insert_header,
    smt.DropHeaders: drop_headers,
    smt.HeaderFrom: header_from,
    smt.MaskField: mask_field,
    smt.Cast: cast,
    smt.FieldTime: field_time,
    smt.TimeHeaders: time_headers,
    smt.Flatten: flatten,
    smt.SetSchemaMetadata: set_schema_metadata,
    smt.ExtractNewRecordState: extract_new_record_state,
    smt.ByLogicalTableRouter: by_logical_table_router,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """What came of a run: runs of one schema and one topic each, and the records that were refused."""

    runs: tuple[ConvertedRecords, ...]
    faults: tuple[RecordFault, ...] = ()


class RecordChain:
    """Applies a chain. Records keep their offsets, which distinguish them; some are dropped."""

    def __init__(self, chain: smt.TransformChain, clock: Callable[[], int] = wall_ms) -> None:
        self._chain = chain
        self._clock = clock

    def apply(self, run: ConvertedRecords, *, puts_together: bool = True) -> Transformed:
        """What the steps make of a run of records of one topic; each run in the order of offsets."""
        runs = [run]
        faults: list[RecordFault] = []
        now_ms = self._clock()
        for step in self._chain.steps:
            refused = RefusedRows()
            runs = [
                found
                for run in runs
                if len(run)
                for made in _applied(step, run, refused, now_ms)
                if len(found := refused.without(made))
            ]
            faults += [
                RecordFault(
                    offset=offset,
                    reason=TRANSFORM_REFUSED,
                    message=f"transform {step.alias}: {message}",
                    stage=Stage.TRANSFORMATION,
                )
                for offset, message in refused.found.items()
            ]
        faults.sort(key=lambda fault: fault.offset)
        return Transformed(runs=tuple(put_together(runs) if puts_together else runs), faults=tuple(faults))


def _applied(
    step: smt.TransformStep, run: ConvertedRecords, refused: RefusedRows, now_ms: int
) -> Sequence[ConvertedRecords]:
    """The records that the step does not apply to, and what it makes of the others."""
    if step.condition is None:
        return _made(step.transform, run, refused, now_ms)
    chosen = _chosen(step.condition, run)
    if chosen.all():
        return _made(step.transform, run, refused, now_ms)
    if not chosen.any():
        return [run]
    rest = run.take(np.flatnonzero(~chosen))
    return [rest, *_made(step.transform, run.take(np.flatnonzero(chosen)), refused, now_ms)]


def _made(
    transform: smt.Transform, run: ConvertedRecords, refused: RefusedRows, now_ms: int
) -> Sequence[ConvertedRecords]:
    match transform:
        case smt.Filter():
            return []
        case smt.WallClock():
            return wall_clock(transform, run, refused, now_ms)
        case smt.ConvertTime():
            return convert_time(transform, run, refused, now_ms)
        case _:
            return _STEPS[type(transform)](transform, run, refused)


def _chosen(condition: smt.Condition, run: ConvertedRecords) -> npt.NDArray[np.bool_]:
    match condition.predicate:
        case smt.TopicNameMatches(pattern=pattern):
            is_match = matches(pattern, run.records.topic, is_ascii=True)
            found = np.full(len(run), is_match)
        case smt.HasHeaderKey(name=name):
            found = np.array([any(key == name for key, _ in each) for each in headers_of(run)], np.bool_)
        case _:
            found = run.value.nulls()
    return ~found if condition.negate else found


class NullRuns:
    """Gives nulls the schema or form of what came before them in their partition.

    Transforms make nothing of a null, so that one that is fetched by itself has the schema which its record
    had before them. That is not the one of its neighbours, and would close their object. Nor has a null that
    `ExtractField` takes out of JSON, where its neighbours are texts: that one is found with `joins`, which is
    not for envelopes in which a null without a schema has no column, and rows of another schema anyway.
    """

    def __init__(self, chain: smt.TransformChain, *, joins: bool) -> None:
        self._last: dict[tuple[str, int, smt.KeyOrValue], tuple[ColumnSchema, JsonFormat]] = {}
        self._forms: dict[tuple[str, int, smt.KeyOrValue], _Nulls | None] = {}
        self._extracted = frozenset(
            step.transform.which
            for step in chain.steps
            if joins and isinstance(step.transform, smt.ExtractField)
        )

    def typed(self, run: ConvertedRecords) -> ConvertedRecords:
        """The same records; others than nulls are as they were, and have their schema remembered."""
        for which in smt.KeyOrValue:
            run = self._typed(run, which)
        return run

    def _typed(self, run: ConvertedRecords, which: smt.KeyOrValue) -> ConvertedRecords:
        column, place = chosen_column(run, which), (run.records.topic, run.records.partition, which)
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

    @property
    def joins(self) -> bool:
        """Whether there may be nulls without a schema next to values of another form."""
        return bool(self._extracted)

    def joined(self, runs: list[ConvertedRecords]) -> list[ConvertedRecords]:
        """The records, in no order of runs, with nulls without a schema in the form of what came before them.

        After the output has judged them: a null is taken or refused for what it is itself.
        """
        for which in self._extracted:
            topics: dict[str, list[ConvertedRecords]] = defaultdict(list)
            for run in filter(len, runs):
                topics[run.records.topic].append(run)
            runs = [each for same in topics.values() for each in self._led(same, which)]
        return runs

    def _led(self, runs: list[ConvertedRecords], which: smt.KeyOrValue) -> list[ConvertedRecords]:
        """The records of one topic; all at once, as a run for each change of form would be very many."""
        place = (runs[0].records.topic, runs[0].records.partition, which)
        columns = [chosen_column(run, which) for run in runs]
        nulls = [column.nulls() for column in columns]
        makers = [self._forms.get(place), *map(_nulls_like, columns)]
        owners = [np.where(null, 0, number) for number, null in enumerate(nulls, 1)]
        order = np.argsort(np.concatenate([run.records.offsets for run in runs]), kind="stable")
        sorted_owners = np.concatenate(owners)[order]
        latest = np.maximum.accumulate(np.where(sorted_owners > 0, np.arange(len(order)), -1))
        before = np.zeros(len(order), np.int64)
        before[order] = np.where(latest >= 0, sorted_owners[latest], 0)
        self._forms[place] = makers[int(before[order[-1]])]
        found: list[ConvertedRecords] = []
        ends = np.cumsum([len(run) for run in runs])[:-1]
        for run, column, null, leaders in zip(runs, columns, nulls, np.split(before, ends), strict=True):
            rest = np.ones(len(run), np.bool_)
            for leader in np.unique(leaders[null]).tolist() if _is_loose(column) else []:
                maker, rows = makers[leader], np.flatnonzero(null & (leaders == leader))
                if maker is not None and maker(0).form is not column.form:
                    found.append(with_column(run.take(rows), which, maker(len(rows))))
                    rest[rows] = False
            found += [run] if rest.all() else [run.take(np.flatnonzero(rest))] if rest.any() else []
        return found


_Nulls = Callable[[int], ConvertedColumn]


def _nulls_like(column: ConvertedColumn) -> _Nulls | None:
    """What makes so many nulls of the column's form; None where those of JSON stay what they are."""
    if column.form is Form.TEXT:
        return lambda count: PlainColumn(null_column(count), Form.TEXT)
    if not isinstance(column, TypedColumn) or not column.has_array or column.data() is not None:
        return None
    schema, style = column.schema, column.style
    if schema.connect is None or not schema.connect.optional or column.given_texts is not None:
        return None
    return lambda count: TypedColumn(schema, array=pa.nulls(count, schema.arrow), style=style)


def _is_loose(column: ConvertedColumn) -> bool:
    """Whether values have no schema: they are JSON, texts of it, or columns that were found in it."""
    return isinstance(column, PlainColumn | InferredValues)
