"""A large object worked on in splits: its cuts, and what it came to when all of them are over."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from headrace.model.ledger_entry import LedgerEntry, SplitKey, State, is_owed
from headrace.model.objects import ObjectId
from headrace.model.slot_protocol import UNRECORDED_OPTIONS
from ingest.source.catalogue.pending import PendingObject


def split_keys(object_id: ObjectId, cuts: tuple[int, ...]) -> list[SplitKey]:
    """The splits between neighbouring cuts, the first cut being the beginning and the last the end."""
    return [SplitKey(object_id, begin, end) for begin, end in pairwise(cuts)]


def concluded(
    entry: LedgerEntry, ends: Iterable[LedgerEntry], now_ms: int, post_action: str | None = None
) -> LedgerEntry:
    """The object's own entry once every split has one of these ends: the least happy end is the object's."""
    ends = list(ends)
    worst = max(ends, key=lambda end: (State.DONE, State.QUARANTINED, State.SKIPPED).index(end.state))
    is_done = worst.state is State.DONE
    bad = sum(end.bad for end in ends)
    return replace(
        entry,
        state=worst.state,
        reason=worst.reason,
        error=worst.error,
        records=sum(end.records for end in ends),
        bad=bad,
        cuts=None if is_done else entry.cuts,
        options=None if is_done else entry.options,
        updated_ms=now_ms,
        action=post_action if is_owed(worst.state, bad) and not entry.is_kept else None,
    )


def options_of(split: PendingObject) -> str | None:
    """The hash of the settings under which this split has to be read; None where any will do.

    Rows are neither lost nor repeated when all splits of an object are read under the settings of its cuts.
    Older entries have cuts without a hash: there the splits that were begun show it, and while none was, all
    will be read alike. UNRECORDED_OPTIONS where the ledger shows several hashes, or none.
    """
    assert split.parent is not None
    assert split.parent.entry is not None
    hashes: set[str | None] = {split.parent.entry.options}
    if hashes == {None}:
        begun = (each.entry for each in split.parent.splits if each.entry is not None)
        hashes = {entry.options for entry in begun if entry.position is not None or entry.state is State.DONE}
    if split.entry is not None and split.entry.position is not None:
        hashes.add(split.entry.options)
    if not hashes:
        return None
    return next(iter(hashes)) if len(hashes) == 1 and None not in hashes else UNRECORDED_OPTIONS


def splits_of(
    pending: PendingObject, cuts: tuple[int, ...], known: dict[SplitKey, LedgerEntry]
) -> tuple[PendingObject, ...]:
    """The splits of an object as pending objects, with what the ledger knows of each."""
    return tuple(
        PendingObject(
            pending.object,
            route=pending.route,
            since_ms=pending.since_ms,
            entry=known.get(key),
            is_fresh=pending.is_fresh,
            parent=pending,
            begin=key.begin,
            end=key.end,
        )
        for key in split_keys(pending.object.id, cuts)
    )
