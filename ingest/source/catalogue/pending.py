"""The objects that are known and not yet done: one small record each, counted, and ordered within a key.

A large one is worked on in splits: its cuts are kept, and what it came to when all of them are over.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise
from operator import attrgetter
from typing import Final

from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State, is_owed
from headrace.model.objects import ObjectId, PlacedTombstones, Route, S3Object, SideObject
from headrace.model.slot_protocol import OTHER_ROUTE, UNRECORDED_OPTIONS

Place = tuple[str, str]
"""`ObjectId.place`."""

_OLDEST_FOR_MS: Final = 10_000


class Phase(Enum):
    """Where a pending object is in memory."""

    WAITING = auto()  # the planner may take it, at once or when its delay is over
    ACTIVE = auto()  # a live plan holds it
    WRITING = auto()  # a ledger record of the driver's is under way for it
    JOINING = auto()  # it is not decided yet what it is read together with
    BESIDE = auto()  # it is read with another object, and ends with it
    SPLIT = auto()  # its splits are worked on in its stead
    GONE = auto()  # the ledger says its end


class Suspicion(Enum):
    """Whether an object may be what kills workers."""

    NONE = auto()
    SUSPECT = auto()  # its next attempt has to be in the ledger before it runs
    ARMED = auto()  # it is there: it may run, alone


class PendingObject:
    """One object, or one split of a split one, until the ledger says its end. Mutable, and small.

    `newer` is what an event told of the same content since, or of another version with it, `relisted` what a
    listing showed: they make `missing` and `superseded` worth another look. `trouble` is the reason of the
    last failure. `ticket` makes places in queues stale. `reads_before` is how often anything was read before
    the attempts that `errors.max.attempts` has not counted yet (-1: none was made). `sides` and `tombstones`
    are what it is read with, `sides` None and `is_placed` False before that is decided; `first_row` is the
    first of its own rows. `is_kept`: no `post.action` will be owed to it. `is_replayed`: a command of this
    process's time, or of shortly before, has it read again. `ripe_ms` is when it was old enough to be read.
    """

    __slots__ = (
        "begin",
        "due_ms",
        "end",
        "entry",
        "first_row",
        "is_fresh",
        "is_kept",
        "is_placed",
        "is_replayed",
        "is_whole",
        "label",
        "newer",
        "object",
        "parent",
        "phase",
        "reads_before",
        "relisted",
        "ripe_ms",
        "route",
        "sides",
        "since_ms",
        "splits",
        "suspicion",
        "ticket",
        "tombstones",
        "tries",
        "trouble",
    )

    def __init__(
        self,
        known: S3Object,
        *,
        route: Route,
        since_ms: int,
        entry: LedgerEntry | None = None,
        is_fresh: bool = False,
        due_ms: int = 0,
        parent: "PendingObject | None" = None,
        begin: int | None = None,
        end: int | None = None,
    ) -> None:
        self.object = known
        self.route = route
        self.since_ms = self.ripe_ms = since_ms
        self.entry = entry
        self.is_fresh = is_fresh
        self.due_ms = due_ms
        self.parent = parent
        self.begin = begin
        self.end = end
        self.phase = Phase.WAITING
        self.suspicion = Suspicion.NONE
        self.tries = 0
        self.ticket = 0
        self.reads_before = -1
        self.is_whole = False
        self.newer: S3Object | None = None
        self.relisted: S3Object | None = None
        self.splits: tuple[PendingObject, ...] = ()
        self.trouble: str | None = None
        self.label = ""
        self.sides: tuple[SideObject, ...] | None = None
        self.tombstones: tuple[PlacedTombstones, ...] = ()
        self.first_row = 0
        self.is_placed = False
        self.is_kept = entry is not None and entry.is_kept
        self.is_replayed = entry is not None and entry.state is State.NEW

    @property
    def key(self) -> LedgerKey:
        """The ledger key of its checkpoints."""
        if self.begin is None or self.end is None:
            return self.object.id
        return SplitKey(self.object.id, self.begin, self.end)

    @property
    def size(self) -> int:
        """Bytes to read, roughly for a split."""
        if self.parent is None:
            return self.object.size
        return self.object.size // max(1, len(self.parent.splits))

    @property
    def attempts(self) -> int:
        """Attempts that the ledger counts against it."""
        return 0 if self.entry is None else self.entry.attempts

    def comes_before(self, other: "PendingObject") -> bool:
        """True when this version of a key goes first: by sequencer where both have one, then by time.

        Listings know whole seconds and no sequencer; what they show is the newest of its second.
        """
        mine, theirs = self.object, other.object
        if mine.sequencer is not None and theirs.sequencer is not None:
            ranks = sequencer_rank(mine.sequencer), sequencer_rank(theirs.sequencer)
            if ranks[0] != ranks[1]:
                return ranks[0] < ranks[1]
        elif (mine.sequencer is None) != (theirs.sequencer is None):
            seconds = mine.last_modified_ms // 1000, theirs.last_modified_ms // 1000
            return seconds[0] < seconds[1] or (seconds[0] == seconds[1] and mine.sequencer is not None)
        return (mine.last_modified_ms, mine.id.etag) < (theirs.last_modified_ms, theirs.id.etag)


def sequencer_rank(sequencer: str) -> str:
    """Text that sorts as AWS compares sequencers: hexadecimal, the shorter padded with zeros on the right.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    """
    return sequencer.upper().rstrip("0")


@dataclass(frozen=True, slots=True)
class SideEnd:
    """How an object that is not read by itself, or not without others, ends."""

    pending: PendingObject
    state: State
    reason: str
    error: str | None = None
    is_owed: bool = False
    """All of its rows are committed with others: `post.action` is owed to it."""


class PendingTable:
    """Pending objects by bucket and key.

    `arrivals` are those for the planner to queue, again or for the first time.
    """

    def __init__(self) -> None:
        self._by_place: dict[Place, PendingObject | list[PendingObject]] = {}
        self._count = 0
        self.labels: Counter[str] = Counter()
        self.of_bucket: Counter[str] = Counter()
        """How many there are of each bucket."""
        self.bytes = 0
        self.arrivals: list[PendingObject] = []
        self.held: set[LedgerKey] = set()
        """What live plans hold; no driver write may name it."""
        self._oldest: tuple[int, PendingObject, int] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PendingObject]:
        for found in self._by_place.values():
            if isinstance(found, list):
                yield from found
            else:
                yield found

    def of_place(self, place: Place) -> list[PendingObject]:
        """Every pending version of a key of a bucket."""
        found = self._by_place.get(place)
        if found is None:
            return []
        return found if isinstance(found, list) else [found]

    def first_of(self, place: Place) -> PendingObject | None:
        """The pending version of a key that goes first."""
        versions = self.of_place(place)
        return _first(versions) if versions else None

    def find(self, object_id: ObjectId) -> PendingObject | None:
        """The pending object with this identity."""
        return next(
            (pending for pending in self.of_place(object_id.place) if pending.object.id == object_id), None
        )

    def find_split(self, key: SplitKey) -> PendingObject | None:
        """The pending split with this key."""
        parent = self.find(key.id)
        return next((split for split in parent.splits if split.key == key), None) if parent else None

    def find_pending(self, key: LedgerKey) -> PendingObject | None:
        """The pending object or split whose checkpoints have this ledger key."""
        if isinstance(key, ObjectId):
            return self.find(key)
        return self.find_split(key) if isinstance(key, SplitKey) else None

    def add(self, pending: PendingObject) -> None:
        """Take in a new object."""
        place = pending.object.id.place
        found = self._by_place.get(place)
        if found is None:
            self._by_place[place] = pending
        elif isinstance(found, list):
            found.append(pending)
        else:
            self._by_place[place] = [found, pending]
        self.of_bucket[place[0]] += 1
        self._count += 1
        self.bytes += pending.object.size
        self.relabel(pending)
        self.arrivals.append(pending)

    def remove(self, pending: PendingObject) -> None:
        """Let go of an object that has come to its end, and wake the next version of its key."""
        place = pending.object.id.place
        rest = [other for other in self.of_place(place) if other is not pending]
        if not rest:
            del self._by_place[place]
        else:
            self._by_place[place] = rest if len(rest) > 1 else rest[0]
        self.of_bucket[place[0]] -= 1
        self._count -= 1
        self.bytes -= pending.object.size
        self.labels[pending.label] -= 1
        pending.phase = Phase.GONE
        if not self._count:
            self._oldest = None
        self.wake(place)

    def move(self, pending: PendingObject, phase: Phase) -> None:
        """Change the phase; what waits again is queued again, and so is the first of its key."""
        pending.phase = phase
        if pending.parent is None:
            self.relabel(pending)
        if phase is Phase.WAITING:
            self.arrivals.append(pending)
            self.wake_rivals(pending.object.id.place)

    def relabel(self, pending: PendingObject) -> None:
        """Count an object under what it is now: pending, active or failed."""
        label = "pending"
        if pending.phase in {Phase.ACTIVE, Phase.SPLIT}:
            label = "active"
        elif pending.entry is not None and pending.entry.state is State.FAILED:
            label = "failed"
        if label != pending.label:
            if pending.label:
                self.labels[pending.label] -= 1
            self.labels[label] += 1
            pending.label = label

    def wake(self, place: Place) -> None:
        """Queue the first version of a key, or its splits, where they wait."""
        versions = self.of_place(place)
        if versions:
            first = _first(versions)
            splits = first.splits if first.phase is Phase.SPLIT else (first,)
            self.arrivals.extend(each for each in splits if each.phase is Phase.WAITING)

    def wake_rivals(self, place: Place) -> None:
        """The same where there are several versions: with a single one nothing waits for another."""
        if isinstance(self._by_place.get(place), list):
            self.wake(place)

    def is_clear(self, pending: PendingObject) -> bool:
        """True when nothing of the same key goes before this object or is under way."""
        if pending.key in self.held:
            return False
        versions = self.of_place(pending.object.id.place)
        if len(versions) <= 1:
            return True
        whole = pending.parent or pending
        return _first(versions) is whole and not any(
            self._is_under_way(other) for other in versions if other is not whole
        )

    def _is_under_way(self, pending: PendingObject) -> bool:
        if pending.phase is Phase.SPLIT:
            return any(split.phase is Phase.WRITING or split.key in self.held for split in pending.splits)
        return pending.phase not in {Phase.WAITING, Phase.JOINING, Phase.BESIDE}

    def release(self, keys: list[LedgerKey]) -> None:
        """A plan is over: its keys are free, and what waited for that is queued."""
        self.held.difference_update(keys)
        for key in keys:
            if isinstance(key, ObjectId):
                self.wake(key.place)
            elif isinstance(key, SplitKey):
                self.wake_rivals(key.id.place)

    def oldest_ms(self, now_ms: int) -> int | None:
        """When the oldest became known, in `steady_ms`; of a new look each 10 s, or of the first place."""
        oldest = self._looked_through(now_ms)[0] if self._count else None
        if oldest is not None and oldest.phase is Phase.GONE:
            return min(pending.since_ms for pending in self.of_place(next(iter(self._by_place))))
        return None if oldest is None else oldest.since_ms

    def oldest_ripe_ms(self, now_ms: int) -> int:
        """When the first of them was old enough, up to ten seconds ago; `now_ms` where none is."""
        return min(now_ms, self._looked_through(now_ms)[1]) if self._count else now_ms

    def _looked_through(self, now_ms: int) -> tuple[PendingObject, int]:
        # Not the first place alone: a key that always has a newer version keeps its place.
        if self._oldest is None or now_ms - self._oldest[0] >= _OLDEST_FOR_MS:
            oldest = min(self, key=attrgetter("since_ms"))
            self._oldest = now_ms, oldest, min(pending.ripe_ms for pending in self)
        return self._oldest[1:]


def _first(versions: list[PendingObject]) -> PendingObject:
    first = versions[0]
    for pending in versions[1:]:
        if pending.comes_before(first):
            first = pending
    return first


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


def options_of(pending: PendingObject) -> str | None:
    """The hash of the settings under which an object or a split has to be read; None where any will do.

    OTHER_ROUTE where it was begun for another topic or partition than its key gives now: which one that is
    depends on `aws.s3.prefix` too, and that is in no hash.
    """
    whole = pending if pending.parent is None else pending.parent
    found = None if pending.entry is None else pending.entry.options
    if pending.parent is not None:
        found = _options_of_split(pending)
    entries = [each for each in (pending.entry, whole.entry) if each is not None and is_begun(each)]
    was_elsewhere = any(is_elsewhere(each, pending.route) for each in entries)
    return OTHER_ROUTE if found is not None and was_elsewhere else found


def is_elsewhere(entry: LedgerEntry, route: Route) -> bool:
    """Whether the entry has another topic or partition than the object's key gives now."""
    # Earlier versions noted the topic before transforms.
    same = {None, route.topic, route.output}
    return entry.topic not in same or (entry.topic is not None and entry.partition != route.partition)


def is_begun(entry: LedgerEntry) -> bool:
    """Whether rows of the object, or of splits of it, may have gone where the entry says."""
    return entry.position is not None or entry.cuts is not None


def _options_of_split(split: PendingObject) -> str | None:
    """The same of a split.

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
