"""A large object worked on in slices: its cuts, and what it came to when all of them are over."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from ingest.catalogue.pending import Pending
from ingest.ledger import LedgerEntry, SliceKey, State
from ingest.objects import ObjectId


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
        updated_ms=now_ms,
    )


def pieces_of(
    unit: Pending, cuts: tuple[int, ...], known: dict[SliceKey, LedgerEntry]
) -> tuple[Pending, ...]:
    """The slices of an object as units of work, with what the ledger knows of each."""
    return tuple(
        Pending(
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
