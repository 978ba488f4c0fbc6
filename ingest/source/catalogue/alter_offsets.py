"""Ledger entries set from outside, as Connect's offsets are: which records that asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.model.ledger_entry import LedgerEntry, SplitKey, State
from headrace.model.objects import ObjectId, S3Object
from headrace.model.positions import Position
from ingest.source.catalogue.effects import LedgerWrite
from ingest.source.catalogue.object_commands import Replay, Selection

_FROM_START = Replay(selection=Selection(), is_from_start=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """What of a ledger entry can be set: how far the object has come, and what became of it."""

    state: State
    reason: str | None = None
    records: int = 0
    bad: int = 0
    position: Position | None = None
    options: str | None = None

    @classmethod
    def of(cls, entry: LedgerEntry) -> "Offset":
        """The offset that an entry has."""
        return cls(
            state=entry.state,
            reason=entry.reason,
            records=entry.records,
            bad=entry.bad,
            position=entry.position,
            options=entry.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOffsets:
    """Set the offsets of objects; None has an object read again from its start, as if never seen."""

    offsets: Mapping[ObjectId, Offset | None]

    def writes(
        self,
        seen: S3Object,
        entry: LedgerEntry | None,
        slices: Mapping[SplitKey, LedgerEntry],
        now_ms: int,
    ) -> list[LedgerWrite]:
        """The object's new entry and its splits' tombstones; nothing where it is so already.

        Like a replay it never writes a tombstone for an object: what listings leave out would not come back.
        """
        offset = self.offsets[seen.id]
        if offset is None:
            return _FROM_START.writes(seen, entry, slices, now_ms)
        if entry is not None and entry.cuts is None and Offset.of(entry) == offset:
            return []
        known = entry or LedgerEntry(
            state=offset.state,
            size=seen.size,
            version_id=seen.version_id,
            last_modified_ms=seen.last_modified_ms,
        )
        changed = replace(
            known,
            state=offset.state,
            reason=offset.reason,
            records=offset.records,
            bad=offset.bad,
            position=offset.position,
            options=offset.options,
            error=None,
            attempts=0,
            cuts=None,
            action=None,
            is_kept=False,
            updated_ms=now_ms,
        )
        return [
            LedgerWrite(key=seen.id, entry=changed),
            *(LedgerWrite(key=key, entry=None) for key in slices),
        ]
