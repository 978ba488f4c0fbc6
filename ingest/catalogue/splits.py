"""A large object worked on in slices: its cuts, and what it came to when all of them are over."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from ingest.catalogue.pending import PendingObject
from ingest.ledger import LedgerEntry, SliceKey, State
from ingest.objects import ObjectId
from ingest.work import UNRECORDED_OPTIONS


def slice_keys(object_id: ObjectId, cuts: tuple[int, ...]) -> list[SliceKey]:
    """The slices between neighbouring cuts, the first cut being the beginning and the last the end."""
    return [SliceKey(object_id, begin, end) for begin, end in pairwise(cuts)]


def concluded(entry: LedgerEntry, ends: Iterable[LedgerEntry], now_ms: int) -> LedgerEntry:
    """The object's own entry once every slice has one of these ends: the least happy end is the object's."""
    ends = list(ends)
    worst = max(ends, key=lambda end: (State.DONE, State.QUARANTINED, State.SKIPPED).index(end.state))
    is_done = worst.state is State.DONE
    return replace(
        entry,
        state=worst.state,
        reason=worst.reason,
        error=worst.error,
        records=sum(end.records for end in ends),
        bad=sum(end.bad for end in ends),
        cuts=None if is_done else entry.cuts,
        options=None if is_done else entry.options,
        updated_ms=now_ms,
    )


def options_of(piece: PendingObject) -> str | None:
    """The hash of the settings under which this split has to be read; None where any will do.

    Rows are neither lost nor repeated when all splits of an object are read under the settings of its cuts.
    Older entries have cuts without a hash: there the splits that were begun show it, and while none was, all
    will be read alike. UNRECORDED_OPTIONS where the ledger shows several hashes, or none.
    """
    assert piece.parent is not None
    assert piece.parent.entry is not None
    hashes: set[str | None] = {piece.parent.entry.options}
    if hashes == {None}:
        begun = (each.entry for each in piece.parent.slices if each.entry is not None)
        hashes = {entry.options for entry in begun if entry.position is not None or entry.state is State.DONE}
    if piece.entry is not None and piece.entry.position is not None:
        hashes.add(piece.entry.options)
    if not hashes:
        return None
    return next(iter(hashes)) if len(hashes) == 1 and None not in hashes else UNRECORDED_OPTIONS


def pieces_of(
    unit: PendingObject, cuts: tuple[int, ...], known: dict[SliceKey, LedgerEntry]
) -> tuple[PendingObject, ...]:
    """The slices of an object as units of work, with what the ledger knows of each."""
    return tuple(
        PendingObject(
            unit.object,
            route=unit.route,
            since_ms=unit.since_ms,
            entry=known.get(key),
            is_fresh=unit.is_fresh,
            parent=unit,
            begin=key.begin,
            end=key.end,
        )
        for key in slice_keys(unit.object.id, cuts)
    )
