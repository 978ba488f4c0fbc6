"""The ledger's records: keys, values and states as docs/ledger.md shows them, to bytes and back."""

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from headrace.model.errors import InvalidLedger
from headrace.model.fast_pickle import fast_pickle
from headrace.model.objects import ObjectId, PlacedTombstones, RowPlace, SideObject
from headrace.model.positions import JoinedPosition, Position, position_as_dict, position_from_dict
from headrace.model.text_formatting import printable

VERSION: Final = 1


class State(StrEnum):
    """What the ledger says of an object. `pending` and `active` live in memory and are never written."""

    PARTIAL = "partial"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    NEW = "new"


# An SQS message may be deleted when all its objects are in one of these.
SETTLED: Final = frozenset({State.DONE, State.SKIPPED, State.QUARANTINED})

# `skipped` for one of these reasons is not final: a listing or a newer event brings the object back.
REVIVABLE_REASONS: Final = frozenset({"missing", "superseded", "archived"})

ERROR_MAX: Final = 2000
"""Characters of an error that are kept: it names a key of 1,024 bytes, what failed, and the fix."""


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class SplitKey:
    """One split of an object: the cut where it begins (inclusive) and where it ends (exclusive)."""

    id: ObjectId
    begin: int
    end: int


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class ControlKey:
    """What is not an object: slots in use, first start, pause, commands."""

    name: str


LedgerKey = ObjectId | SplitKey | ControlKey


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """The checkpoint of one object or split.

    `position` is where work continues, None before the first row. `cuts` is set only in the own entry of a
    split object. `options` is the hash of the settings that give either its meaning. `records` and `bad`
    count from the object's start. Sizes in bytes, times in ms since 1970. `sides` and `tombstones` are what
    the object is read with, which its position covers. `action` is the text of the `post.action` that is owed
    to an object that is done; `is_kept` that none will be: not all that belongs to it was restored with it.
    """

    state: State
    reason: str | None = None
    records: int = 0
    bad: int = 0
    position: Position | None = None
    options: str | None = None
    topic: str | None = None
    partition: int | None = None
    attempts: int = 0
    error: str | None = None
    size: int = 0
    version_id: str | None = None
    last_modified_ms: int = 0
    updated_ms: int = 0
    cuts: tuple[int, ...] | None = None
    sides: tuple[SideObject, ...] = ()
    tombstones: tuple[PlacedTombstones, ...] = ()
    action: str | None = None
    is_kept: bool = False

    @property
    def is_settled(self) -> bool:
        """True when nothing more is owed for this object unless something outside changes."""
        return self.state in SETTLED

    @property
    def changed_ms(self) -> int:
        """When the entry was written, or the object, whichever is later."""
        return max(self.updated_ms, self.last_modified_ms)


def is_owed(state: State, bad: int) -> bool:
    """Whether an object with this end is owed its `post.action`: one with bad records stays as it is."""
    return state is State.DONE and not bad


def shortened(error: str) -> str:
    """An error's sentence as it may be kept, printable and of a bounded length.

    What it quotes was written elsewhere: a record above the topic's limit would end the ingester. An entry
    with more than this is read back as another one than was committed.
    """
    text = printable(error, limit=ERROR_MAX)
    return text if len(text) <= ERROR_MAX else f"{text[: ERROR_MAX - 1]}…"


def encode_key(key: LedgerKey) -> bytes:
    """Compact UTF-8 JSON in a fixed field order, so that equal keys are equal bytes (compaction)."""
    match key:
        case ObjectId(bucket, name, etag):
            return msgspec.json.encode({"bucket": bucket, "key": name, "etag": etag})
        case SplitKey(ObjectId(bucket, name, etag), begin, end):
            return msgspec.json.encode({"bucket": bucket, "key": name, "etag": etag, "slice": [begin, end]})
        case ControlKey(name):
            return msgspec.json.encode({"control": name})


def decode_key(raw: bytes) -> LedgerKey:
    """The key that `encode_key` gave; InvalidLedger for anything else."""
    try:
        shape: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
        if "control" in shape:
            return ControlKey(shape["control"])
        object_id = ObjectId(shape["bucket"], shape["key"], shape["etag"])
        if "slice" in shape:
            begin, end = shape["slice"]
            return SplitKey(object_id, begin, end)
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise InvalidLedger(f"The ledger holds a key that is not Headrace's: {raw[:200]!r}.") from error
    return object_id


class _ControlShape(msgspec.Struct):
    control: str


def is_control_key(raw: bytes) -> bool:
    """Whether these are the bytes that `encode_key` gives for a control record."""
    try:
        name = msgspec.json.decode(raw, type=_ControlShape).control
    except ValueError:
        return False
    return encode_key(ControlKey(name)) == raw


def encode_entry(entry: LedgerEntry) -> bytes:
    """The value of an object's or split's ledger record, in a fixed field order."""
    position = None
    if entry.position is not None:
        position = {**position_as_dict(entry.position), "options": entry.options}
    shape: dict[str, Any] = {
        "v": VERSION,
        "state": entry.state.value,
        "reason": entry.reason,
        "records": entry.records,
        "bad": entry.bad,
        "position": position,
        "topic": entry.topic,
        "partition": entry.partition,
        "attempts": entry.attempts,
        "error": None if entry.error is None else entry.error[:ERROR_MAX],
        "size": entry.size,
        "version_id": entry.version_id,
        "last_modified_ms": entry.last_modified_ms,
        "updated_ms": entry.updated_ms,
    }
    if entry.cuts is not None:
        shape["cuts"] = list(entry.cuts)
    if entry.options is not None and entry.position is None:
        # Beside the cuts, which have their meaning before any row was read.
        shape["options"] = entry.options
    if entry.sides:
        shape["sides"] = entry.sides
    if entry.tombstones:
        shape["tombstones"] = entry.tombstones
    if entry.action is not None:
        shape["action"] = entry.action
    if entry.is_kept:
        shape["kept"] = True
    return msgspec.json.encode(shape)


class _EntryShape(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An entry's value as this version writes it."""

    v: Literal[1]
    state: State
    position: dict[str, Any] | None
    reason: str | None = None
    records: int = 0
    bad: int = 0
    topic: str | None = None
    partition: int | None = None
    attempts: int = 0
    error: str | None = None
    size: int = 0
    version_id: str | None = None
    last_modified_ms: int = 0
    updated_ms: int = 0
    cuts: tuple[int, ...] | None = None
    options: str | None = None
    sides: tuple[SideObject, ...] = ()
    tombstones: tuple[PlacedTombstones, ...] = ()
    action: str | None = None
    kept: bool = False


_SHAPES: Final = msgspec.json.Decoder(_EntryShape)


class _Times(msgspec.Struct, gc=False):
    """What of an entry's value tells its age."""

    last_modified_ms: int = 0
    updated_ms: int = 0


_TIMES: Final = msgspec.json.Decoder(_Times)


def changed_ms(raw: bytes) -> int:
    """`LedgerEntry.changed_ms` of the entry that `encode_entry` gave, without decoding the rest of it."""
    try:
        times = _TIMES.decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidLedger(_what_is_wrong_with(raw)) from error
    return max(times.last_modified_ms, times.updated_ms)


def decode_entry(raw: bytes) -> LedgerEntry:
    """The entry that `encode_entry` gave; InvalidLedger when a newer Headrace wrote it, or another program.

    A listing decodes one for each object in the bucket.
    """
    try:
        shape = _SHAPES.decode(raw)
        position = shape.position
        return LedgerEntry(
            state=shape.state,
            reason=shape.reason,
            records=shape.records,
            bad=shape.bad,
            position=None if position is None else position_from_dict(position),
            options=shape.options if position is None else position.get("options"),
            topic=shape.topic,
            partition=shape.partition,
            attempts=shape.attempts,
            error=shape.error,
            size=shape.size,
            version_id=shape.version_id,
            last_modified_ms=shape.last_modified_ms,
            updated_ms=shape.updated_ms,
            cuts=shape.cuts,
            sides=shape.sides,
            tombstones=shape.tombstones,
            action=shape.action,
            is_kept=shape.kept,
        )
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise InvalidLedger(_what_is_wrong_with(raw)) from error


def _what_is_wrong_with(raw: bytes) -> str:
    """One sentence: the version that is needed, the state that is not known, or that it is not ours."""
    with contextlib.suppress(msgspec.DecodeError, ValueError):
        shape = msgspec.json.decode(raw, type=dict[str, Any])
        version, state = shape.get("v", VERSION), shape.get("state", State.NEW)
        if version != VERSION:
            return (
                f"The ledger was written by a newer Headrace (ledger format {version!r}); "
                f"this one reads format {VERSION}. Run the newer version."
            )
        if state not in tuple(State):
            return (
                f"The ledger holds the state {state!r}, which this version does not know. "
                "Run the newer version."
            )
    return f"The ledger holds a value that is not Headrace's: {raw[:200]!r}."


def unsent(entry: LedgerEntry) -> tuple[PlacedTombstones, ...]:
    """The tombstones between the rows of an object of which its position has not passed all."""
    sent = sent_runs(entry)
    return tuple(each for each, runs in zip(entry.tombstones, sent, strict=True) if runs != each.places)


def sent_runs(entry: LedgerEntry) -> list[tuple[RowPlace, ...]]:
    """By tombstone object of the entry, the rows that its position has passed; in the decoder's order."""
    left = entry.position.tombstones if isinstance(entry.position, JoinedPosition) else 0
    runs: list[list[RowPlace]] = [[] for _ in entry.tombstones]
    order = sorted(
        (place.row, number, place.first, place.count)
        for number, each in enumerate(entry.tombstones)
        for place in each.places
    )
    for row, number, first, count in order:
        sent = min(count, left)
        left -= sent
        if sent:
            runs[number].append(RowPlace(row, first, sent))
    return [tuple(run) for run in runs]
