"""The chain of transforms over runs of records: which step applies to which of them, and what remains."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form, RecordFault
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
from headrace.formats.transforms.time_steps import field_time, wall_clock
from headrace.formats.transforms.timestamp_steps import convert_time
from headrace.formats.transforms.value_steps import cast, mask_field
from headrace.model.clock import wall_ms
from headrace.model.columns import Column, KafkaRecords
from headrace.options.transforms.chain import (
    ByLogicalTableRouter,
    Cast,
    Condition,
    ConvertTime,
    DropHeaders,
    ExtractField,
    ExtractNewRecordState,
    FieldTime,
    Filter,
    Flatten,
    HasHeaderKey,
    HeaderFrom,
    HoistField,
    InsertField,
    InsertHeader,
    MaskField,
    RegexRouter,
    ReplaceField,
    SetSchemaMetadata,
    TimestampRouter,
    TopicNameMatches,
    Transform,
    TransformChain,
    TransformStep,
    ValueToKey,
    WallClock,
)

# -- Records that transforms made different, put together again: in few runs, each in the order of offsets ---


def put_together(pieces: Sequence[ConvertedRecords]) -> list[ConvertedRecords]:
    """The records of one run in runs of one topic, one key schema and one value schema.

    Those of different topics come after each other: they go into different objects.
    """
    filled = [piece for piece in pieces if len(piece)]
    if len(filled) < 2:  # noqa: PLR2004  # nothing to put together
        return filled
    kinds: dict[Hashable, list[ConvertedRecords]] = defaultdict(list)
    for piece in filled:
        kinds[piece.records.topic, _kind(piece.key), _kind(piece.value)].append(piece)
    topics: dict[str, list[ConvertedRecords]] = defaultdict(list)
    for same in kinds.values():
        topics[same[0].records.topic].append(_joined(same))
    runs = [run for of_topic in topics.values() for run in in_order(of_topic)]
    return sorted(runs, key=lambda run: run.records.first_offset)


def in_order(pieces: Sequence[ConvertedRecords]) -> list[ConvertedRecords]:
    """Pieces of one topic cut where the order of offsets goes from one to another."""
    if len(pieces) == 1:
        return list(pieces)
    owner = np.concatenate([np.full(len(piece), number) for number, piece in enumerate(pieces)])
    place = np.concatenate([np.arange(len(piece)) for piece in pieces])
    order = np.argsort(np.concatenate([piece.records.offsets for piece in pieces]), kind="stable")
    owner, place = owner[order], place[order]
    borders = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    return [
        pieces[int(owner[first])].slice(int(place[first]), int(place[behind - 1]) + 1)
        for first, behind in pairwise(borders)
    ]


def _kind(column: ConvertedColumn) -> Hashable:
    if isinstance(column, PlainColumn):
        return column.form
    if isinstance(column, TypedColumn) and column.has_array and column.schema.arrow is not None:
        return str(column.schema.arrow), column.schema.avro, column.schema.version, column.data() is None
    # Nothing to put together by: it stays by itself.
    return id(column)


def _joined(pieces: list[ConvertedRecords]) -> ConvertedRecords:
    """Pieces of one kind as one, in the order of offsets."""
    if len(pieces) == 1:
        return pieces[0]
    whole = ConvertedRecords(
        records=_records([piece.records for piece in pieces]),
        key=_columns([piece.key for piece in pieces]),
        value=_columns([piece.value for piece in pieces]),
    )
    order = np.argsort(whole.records.offsets, kind="stable")
    return whole.take(order)


def _records(parts: list[KafkaRecords]) -> KafkaRecords:
    has_headers = any(part.headers is not None for part in parts)
    headers = [each for part in parts for each in (part.headers or [()] * len(part))] if has_headers else None
    return replace(
        parts[0],
        offsets=np.concatenate([part.offsets for part in parts]),
        timestamps_ms=np.concatenate([part.timestamps_ms for part in parts]),
        timestamp_types=np.concatenate([part.timestamp_types for part in parts]),
        keys=_bytes([part.keys for part in parts]),
        values=_bytes([part.values for part in parts]),
        headers=headers,
    )


def _columns(parts: list[ConvertedColumn]) -> ConvertedColumn:
    first = parts[0]
    if isinstance(first, TypedColumn):
        array: Any = pa.concat_arrays([part.arrow() for part in parts])
        data = [part.data() for part in parts]
        known = [each for each in data if each is not None]
        return TypedColumn(
            first.schema,
            array=array,
            data=_bytes(known) if len(known) == len(data) else None,
            style=first.style,
        )
    form: Form = first.form
    return PlainColumn(_bytes([part.texts() for part in parts]), form)


def _bytes(parts: list[Column]) -> Column:
    """Columns one after the other; over their buffer where they share it."""
    first = parts[0]
    if all(part.buffer is first.buffer for part in parts):
        starts = np.concatenate([part.starts for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        return Column(buffer=first.buffer, starts=starts, lengths=lengths)
    return column_of_arrow(pa.concat_arrays([arrow_binary(part) for part in parts]))


# -- The chain of transforms over runs of records: which step applies to which of them, and what remains -----

REASON: Final = "transform_refused"

Apply = Callable[[Any, ConvertedRecords, RefusedRows], list[ConvertedRecords]]

_STEPS: Final[dict[type[Transform], Apply]] = {
    RegexRouter: regex_router,
    TimestampRouter: timestamp_router,
    InsertField: insert_field,
    ReplaceField: replace_field,
    ExtractField: extract_field,
    HoistField: hoist_field,
    ValueToKey: value_to_key,
    InsertHeader: insert_header,
    DropHeaders: drop_headers,
    HeaderFrom: header_from,
    MaskField: mask_field,
    Cast: cast,
    FieldTime: field_time,
    Flatten: flatten,
    SetSchemaMetadata: set_schema_metadata,
    ExtractNewRecordState: extract_new_record_state,
    ByLogicalTableRouter: by_logical_table_router,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """What came of a run: runs of one schema and one topic each, and the records that were refused."""

    runs: tuple[ConvertedRecords, ...]
    faults: tuple[RecordFault, ...] = ()


class RecordChain:
    """Applies a chain. Records keep their offsets, which distinguish them; some are dropped."""

    def __init__(self, chain: TransformChain, clock: Callable[[], int] = wall_ms) -> None:
        self._chain = chain
        self._clock = clock

    def apply(self, run: ConvertedRecords) -> Transformed:
        """What the steps make of a run of records of one topic."""
        pieces = [run]
        faults: list[RecordFault] = []
        now_ms = self._clock()
        for step in self._chain.steps:
            refused = RefusedRows()
            pieces = [
                found
                for piece in pieces
                if len(piece)
                for made in _applied(step, piece, refused, now_ms)
                if len(found := refused.without(made))
            ]
            faults += [
                RecordFault(offset=offset, reason=REASON, message=f"transform {step.alias}: {message}")
                for offset, message in refused.found.items()
            ]
        faults.sort(key=lambda fault: fault.offset)
        return Transformed(runs=tuple(put_together(pieces)), faults=tuple(faults))


def _applied(
    step: TransformStep, piece: ConvertedRecords, refused: RefusedRows, now_ms: int
) -> Sequence[ConvertedRecords]:
    """The records that the step does not apply to, and what it makes of the others."""
    if step.condition is None:
        return _made(step.transform, piece, refused, now_ms)
    chosen = _chosen(step.condition, piece)
    if chosen.all():
        return _made(step.transform, piece, refused, now_ms)
    if not chosen.any():
        return [piece]
    rest = piece.take(np.flatnonzero(~chosen))
    return [rest, *_made(step.transform, piece.take(np.flatnonzero(chosen)), refused, now_ms)]


def _made(
    transform: Transform, piece: ConvertedRecords, refused: RefusedRows, now_ms: int
) -> Sequence[ConvertedRecords]:
    match transform:
        case Filter():
            return []
        case WallClock():
            return wall_clock(transform, piece, refused, now_ms)
        case ConvertTime():
            return convert_time(transform, piece, refused, now_ms)
        case _:
            return _STEPS[type(transform)](transform, piece, refused)


def _chosen(condition: Condition, piece: ConvertedRecords) -> npt.NDArray[np.bool_]:
    match condition.predicate:
        case TopicNameMatches(pattern=pattern):
            is_match = re.compile(pattern, re.ASCII).fullmatch(piece.records.topic) is not None
            found = np.full(len(piece), is_match)
        case HasHeaderKey(name=name):
            found = np.array([any(key == name for key, _ in each) for each in headers_of(piece)], np.bool_)
        case _:
            found = piece.value.nulls()
    return ~found if condition.negate else found
