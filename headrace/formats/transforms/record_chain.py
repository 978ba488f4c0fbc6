"""The chain of transforms over runs of records: which step applies to which of them, and what remains."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.formats.converted_records import ConvertedRecords, RecordFault
from headrace.formats.transforms.field_steps import (
    extract_field,
    hoist_field,
    insert_field,
    replace_field,
    value_to_key,
)
from headrace.formats.transforms.header_steps import drop_headers, header_from, headers_of, insert_header
from headrace.formats.transforms.pieces import put_together
from headrace.formats.transforms.refused_rows import RefusedRows
from headrace.formats.transforms.time_steps import field_time, wall_clock
from headrace.formats.transforms.topic_steps import regex_router, timestamp_router
from headrace.formats.transforms.value_steps import cast, mask_field
from headrace.model.clock import wall_ms
from headrace.options.transforms.chain import (
    Cast,
    Condition,
    DropHeaders,
    ExtractField,
    FieldTime,
    Filter,
    HasHeaderKey,
    HeaderFrom,
    HoistField,
    InsertField,
    InsertHeader,
    MaskField,
    RegexRouter,
    ReplaceField,
    TimestampRouter,
    TopicNameMatches,
    Transform,
    TransformChain,
    TransformStep,
    ValueToKey,
    WallClock,
)

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
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """What came of a run: runs of one schema and one topic each, and the records that were refused."""

    runs: tuple[ConvertedRecords, ...]
    faults: tuple[RecordFault, ...] = ()


class RecordChain:
    """Applies a chain. Records keep their offsets, which tell them apart; some are dropped."""

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
