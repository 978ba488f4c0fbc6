"""`replay`, `mark` and Connect's offsets: which ledger records they ask for. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from headrace.model.ledger_entry import LedgerEntry, SplitKey, State, unsent
from headrace.model.objects import ObjectId, S3Object
from headrace.model.positions import Position
from ingest.source.catalogue.effects import MARKED, LedgerWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects a command is for: all conditions that are given must hold.

    `since_ms` and `until_ms` bound LastModified, both inclusive. No `states` means any; an object without an
    entry has none.
    """

    key: str | None = None
    prefix: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    states: frozenset[State] = frozenset()

    def matches(self, object_id: ObjectId, last_modified_ms: int, state: State | None) -> bool:
        """True when the object is meant."""
        return (
            (self.key is None or object_id.key == self.key)
            and object_id.key.startswith(self.prefix)
            and (self.since_ms is None or last_modified_ms >= self.since_ms)
            and (self.until_ms is None or last_modified_ms <= self.until_ms)
            and (not self.states or state in self.states)
        )


def _again(entry: LedgerEntry, now_ms: int) -> LedgerEntry:
    return replace(entry, state=State.NEW, reason=None, error=None, attempts=0, updated_ms=now_ms)


def _unsplit(s3_object: S3Object, entry: LedgerEntry, splits: Iterable[SplitKey]) -> list[LedgerWrite]:
    """The entry of the whole object, without those of its splits."""
    return [
        LedgerWrite(key=s3_object.id, entry=entry),
        *(LedgerWrite(key=key, entry=None) for key in splits),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Ingest again: `quarantined` and `failed` from their position, or everything `is_from_start`."""

    selection: Selection
    is_from_start: bool = False

    def covers(self, object_id: ObjectId, entry: LedgerEntry) -> bool:
        """True when this entry is to be replayed. `done` needs `is_from_start`, or nothing would happen."""
        return self.selection.matches(object_id, entry.last_modified_ms, entry.state) and (
            self.is_from_start or entry.state in {State.QUARANTINED, State.FAILED, State.SKIPPED}
        )

    def writes(
        self,
        s3_object: S3Object,
        entry: LedgerEntry | None,
        splits: Mapping[SplitKey, LedgerEntry],
        now_ms: int,
    ) -> list[LedgerWrite]:
        """State `new` for the object, never a tombstone; splits continue from theirs or are cut again."""
        if entry is None or not self.covers(s3_object.id, entry):
            return []
        fresh = replace(_again(entry, now_ms), action=None)
        if not self.is_from_start:
            begun = [(key, known) for key, known in splits.items() if known.state is not State.DONE]
            return [
                LedgerWrite(key=s3_object.id, entry=fresh),
                *(LedgerWrite(key=key, entry=_again(known, now_ms)) for key, known in begun),
            ]
        whole = replace(
            fresh,
            records=0,
            bad=0,
            position=None,
            options=None,
            cuts=None,
            sides=(),
            # Of which a reading without them has to know.
            tombstones=() if entry.state is State.DONE and entry.reason != MARKED else unsent(entry),
            is_kept=False,
        )
        return _unsplit(s3_object, whole, splits)


REPLAY: Final = Replay(selection=Selection())
"""Of one object that has ended, and not as done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Count objects as done without reading them, for taking over from another tool."""

    selection: Selection

    def writes(
        self,
        s3_object: S3Object,
        entry: LedgerEntry | None,
        splits: Mapping[SplitKey, LedgerEntry],
        now_ms: int,
    ) -> list[LedgerWrite]:
        """State `done` with the reason `marked`, unless it is done already."""
        state = None if entry is None else entry.state
        if state is State.DONE or not self.selection.matches(s3_object.id, s3_object.last_modified_ms, state):
            return []
        done = replace(
            entry or LedgerEntry(state=State.DONE),
            state=State.DONE,
            reason=MARKED,
            error=None,
            attempts=0,
            action=None,
            cuts=None,
            options=None if entry is None or entry.position is None else entry.options,
            size=s3_object.size,
            version_id=s3_object.version_id,
            last_modified_ms=s3_object.last_modified_ms,
            updated_ms=now_ms,
        )
        return _unsplit(s3_object, done, splits)


class ObjectCommand(Protocol):
    """`Replay`, `Mark`, and `Alter`: what a person wants of objects."""

    def writes(
        self,
        s3_object: S3Object,
        entry: LedgerEntry | None,
        splits: Mapping[SplitKey, LedgerEntry],
        now_ms: int,
    ) -> list[LedgerWrite]:
        """The records that are to be committed together for one object; none where nothing is to change."""


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
        s3_object: S3Object,
        entry: LedgerEntry | None,
        splits: Mapping[SplitKey, LedgerEntry],
        now_ms: int,
    ) -> list[LedgerWrite]:
        """The object's new entry and its splits' tombstones; nothing where it is so already.

        Like a replay it never writes a tombstone for an object: what listings leave out would not come back.
        """
        offset = self.offsets[s3_object.id]
        if offset is None:
            return _FROM_START.writes(s3_object, entry, splits, now_ms)
        if entry is not None and entry.cuts is None and Offset.of(entry) == offset:
            return []
        known = entry or LedgerEntry(
            state=offset.state,
            size=s3_object.size,
            version_id=s3_object.version_id,
            last_modified_ms=s3_object.last_modified_ms,
        )
        changed = replace(
            known,
            state=offset.state,
            reason=offset.reason,
            records=offset.records,
            bad=offset.bad,
            position=offset.position,
            options=offset.options,
            # Wherever earlier records went: who sets a position has decided that it continues.
            topic=None,
            partition=None,
            error=None,
            attempts=0,
            cuts=None,
            action=None,
            is_kept=False,
            updated_ms=now_ms,
        )
        return _unsplit(s3_object, changed, splits)
