"""Which objects are read together: an object waits for those of its keys and headers, and covers them."""

import heapq
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

import structlog

from headrace.model.clock import Instant
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ArchivePlace, ListingPage, ObjectId, Route, SideObject
from headrace.model.text_formatting import printable
from headrace.options.choices import RestoreSidecars
from ingest.source.catalogue.effects import EffectsBuilder
from ingest.source.catalogue.ledger_view import KnownEntry, Overlay
from ingest.source.catalogue.pending import PendingObject, PendingTable, Phase, SideEnd

_log = structlog.get_logger(__name__)

JOINED: Final = "joined"
LATE: Final = "side_object_late"
ALONE: Final = "side_object_alone"
MISSING: Final = "side_object_missing"
# The first few of each kind are logged one by one; all of them are counted.
_MAX_WARNINGS: Final = 20
# So many entries of a topic show which kinds it has, in a tenth of a second.
_RECALLED: Final = 10_000
# Listing pauses for as long as it likes: at `max.pending.objects`, or where the service is paused.
_LOOKS_AGAIN_MS: Final = 1000


@dataclass(slots=True, kw_only=True)
class _Open:
    """An object for which it is not decided yet what it is read with."""

    pending: PendingObject
    deadline_ms: int
    is_passed: bool = False


class SideObjects:
    """Of the catalogue, on its thread. `route` says what a key of the ledger is.

    `left_out` says of a folder which kinds tombstones show that are left out.
    An object with rows waits, in Phase.JOINING, until the kinds of side objects that its topic has are known;
    side objects are in Phase.BESIDE, and end with the object that covers them. Which kinds a topic has is
    established by the first object that waits to the end, or that a listing shows to have no more.
    """

    def __init__(
        self,
        table: PendingTable,
        ledger: Overlay,
        *,
        route: Callable[[str], Route | None],
        left_out: Callable[[str], AbstractSet[str]] = lambda _folder: frozenset(),
        mode: RestoreSidecars = RestoreSidecars.IGNORE,
        wait_ms: int = 0,
    ) -> None:
        self._table = table
        self._ledger = ledger
        self._route = route
        self._left_out = left_out
        self._mode = mode
        self._wait_ms = wait_ms
        self._stems: dict[str, list[PendingObject]] = {}
        self._shown: dict[str, set[str]] = {}
        self._established: set[str] = set()
        # By folder, until that is known.
        self._waiting: dict[str, list[PendingObject]] = {}
        self._open: dict[ObjectId, _Open] = {}
        self._alone: dict[ObjectId, int] = {}
        self._unchecked: list[PendingObject] = []
        self._deadlines: list[tuple[int, int, PendingObject]] = []
        self._order = count()
        self._ends: list[SideEnd] = []
        self._warned: dict[str, int] = {}
        self._seen_folder = ""
        # A listing, and what it has gone through: behind the first key up to the second one.
        self._passed: tuple[int, str | None, str | None] = (-1, None, None)

    # What becomes known

    def add(self, pending: PendingObject, now: Instant) -> None:
        """The object has become pending."""
        place = pending.route.archive
        if place is None:
            return
        self._stems.setdefault(place.stem, []).append(pending)
        self._shows(place)
        if place.side is None:
            self._reopen(pending, now)
            return
        self._table.move(pending, Phase.BESIDE)
        if any(each.route.archive == _main_place(place) for each in self._stems[place.stem]):
            self._has_come(place, now)
        else:
            self._unchecked.append(pending)
            self._alone[pending.object.id] = now.steady_ms + self._wait_ms

    def decide_again(self, pending: PendingObject, now: Instant) -> None:
        """A command has set where the object begins: what it is read with may be another now.

        One of which no rows are sent waits for its keys as a new one does; any other keeps what it has.
        """
        place = pending.route.archive
        if place is not None and place.side is None and pending.sides is not None:
            pending.tombstones = ()
            self._reopen(pending, now)

    def _shows(self, place: ArchivePlace) -> None:
        """The topic has side objects of this kind; where there are tombstones, there are keys."""
        shown: set[str] = {"keys"} if place.is_tombstone else set()
        if place.side is not None:
            shown.add(place.side)
        if shown:
            self._shown.setdefault(place.folder, set()).update(shown)

    def listed(self, page: ListingPage, now: Instant) -> None:
        """A page of a listing: what it passed and did not show, of old objects, will not come."""
        if not page.is_in_order:
            self._passed = (-1, None, None)
            return
        listing, after, through = self._passed
        after = after if (page.listing_id, page.after_key) == (listing, through) else page.after_key
        self._passed = (page.listing_id, after, page.through_key)
        for waiting in list(self._open.values()):
            if not waiting.is_passed and _is_between(waiting.pending, after, page.through_key):
                waiting.is_passed = True
                age_ms = max(0, now.wall_ms - waiting.pending.object.last_modified_ms)
                due_ms = now.steady_ms + max(0, self._wait_ms - age_ms)
                waiting.deadline_ms = min(waiting.deadline_ms, due_ms)
                if waiting.pending.phase is Phase.JOINING:
                    self._due(waiting.pending, waiting.deadline_ms, now)

    @property
    def has_deadlines(self) -> bool:
        """Whether something that waits is looked at again at its time."""
        return bool(self._deadlines)

    def waits_for_listing(self) -> bool:
        """Whether an object waits for what the next page of a listing has first, or has not."""
        return any(self._is_half_listed(each.pending.route.archive) for each in self._open.values())

    def _is_half_listed(self, place: ArchivePlace | None) -> bool:
        """Whether a listing that is under way, or pauses, has ended its last page among keys of the stem."""
        through = self._passed[2]
        return place is not None and through is not None and through.startswith(f"{place.stem}.")

    def saw(self, key: str, entry: LedgerEntry) -> None:
        """A listing shows an object of which the ledger has the end: an earlier run may have joined it."""
        if entry.reason != JOINED:
            return
        known = self._shown.get(self._seen_folder, ())
        if key.startswith(self._seen_folder) and any(f".{kind}." in key for kind in known):
            return  # to read each key would make long listings slow
        route = self._route(key)
        if route is not None and route.archive is not None:
            self._seen_folder = route.archive.folder
            self._shows(route.archive)

    # What may be worked on

    def admit(self, pending: PendingObject, now: Instant) -> bool:
        """Whether the object has a place in the queue: all but what is read with another object.

        An object for which it is not decided yet what it is read with gets Phase.JOINING.
        """
        place = pending.route.archive
        if place is None or pending.parent is not None:
            return True
        if place.side is not None:
            if pending.phase is Phase.WAITING:
                self._table.move(pending, Phase.BESIDE)
            return False
        if pending.phase is Phase.WAITING and pending.sides is None:
            self._decide(pending, place, now)
        return True

    def _decide(self, pending: PendingObject, place: ArchivePlace, now: Instant) -> None:
        entry = pending.entry
        if entry is not None and entry.position is not None:
            # What the rows before were read with.
            self._close(pending, entry.sides)
            pending.tombstones = entry.tombstones
            return
        if self._mode is RestoreSidecars.IGNORE:
            self._close(pending, ())
            return
        found = self._known_sides(pending, place)
        deadline_ms = self._open[pending.object.id].deadline_ms
        is_over = now.steady_ms >= deadline_ms and not self._is_half_listed(place)
        if self._wanted(place) - found.keys() and not is_over:
            self._table.move(pending, Phase.JOINING)
            self._due(pending, deadline_ms, now)
            if place.folder not in self._established:
                self._waiting.setdefault(place.folder, []).append(pending)
            return
        if is_over and place.folder not in self._established:
            self._recall(pending.object.id.bucket, place)
            self._established.add(place.folder)
            self._look_again(place.folder, now)
        missing = sorted(self._wanted(place) - found.keys())
        is_required = self._mode is RestoreSidecars.REQUIRED
        if is_required and (missing or (not found and not place.is_tombstone)):
            self._refuse(pending, missing or ["keys"])
            return
        if missing:
            self._go_without(pending, missing)
        self._close(pending, tuple(found[kind] for kind in sorted(found)))

    def _look_again(self, folder: str, now: Instant) -> None:
        """Let go what waits for kinds that the topic does not have; `required` takes it to have them."""
        for waiting in self._waiting.pop(folder, ()):
            if self._mode is RestoreSidecars.AUTO and waiting.object.id in self._open:
                self._due(waiting, now.steady_ms, now)

    def _recall(self, bucket: str, place: ArchivePlace) -> None:
        """Learn from the ledger which kinds the topic had: a post-action may have taken them since."""
        last = f"{place.folder}\U0010ffff"
        for found in islice(self._ledger.scan(bucket, place.folder, last), _RECALLED):
            entry = found.entry
            kinds = {self._kind(side.key) for side in entry.sides}
            for merged in entry.tombstones:
                kinds |= {"keys"} if merged.headers is None else {"keys", "headers"}
            self._shown.setdefault(place.folder, set()).update(kind for kind in kinds if kind)
            known = self._route(found.key)
            if known is not None and known.archive is not None:
                self._shows(known.archive)

    def _wanted(self, place: ArchivePlace) -> set[str]:
        """The kinds that the topic has shown; all, before an object of it has waited to the end.

        Keys are a tombstone's own rows.
        """
        is_established = place.folder in self._established
        wanted = self._shown.get(place.folder, set()) if is_established else {"keys", "headers"}
        wanted = wanted | self._left_out(place.folder)
        return wanted - {"keys"} if place.is_tombstone else wanted

    def _known_sides(self, pending: PendingObject, place: ArchivePlace) -> dict[str, SideObject]:
        """The side objects of a stem by kind: pending ones first, then those that the ledger names."""
        found: dict[str, SideObject] = {}
        if pending.entry is not None:
            found = {self._kind(side.key) or "": side for side in pending.entry.sides}
        for other in self._stems.get(place.stem, ()):
            if other.route.archive is not None and (kind := other.route.archive.side) is not None:
                newest = self._table.of_place(other.object.id.place)
                if all(other is each or each.comes_before(other) for each in newest):
                    found[kind] = _side_of(other)
        if self._wanted(place) - found.keys():
            for side in self._sides_in_ledger(pending.object.id.bucket, place):
                found.setdefault(self._kind(side.key) or "", side)
        return found

    def _sides_in_ledger(self, bucket: str, place: ArchivePlace) -> Iterator[SideObject]:
        newest: dict[str, tuple[int, SideObject]] = {}
        for known in self._of_stem(bucket, place.stem):
            if self._kind(known.key) is not None:
                entry = known.entry
                side = SideObject(known.key, known.etag, entry.size, entry.version_id)
                found = (entry.last_modified_ms, side)
                newest[known.key] = max(newest.get(known.key, found), found, key=lambda each: each[0])
        for _, side in newest.values():
            self._shows(ArchivePlace(place.stem, place.folder, self._kind(side.key)))
            yield side

    def _of_stem(self, bucket: str, stem: str) -> list[KnownEntry]:
        # Behind the stem comes a dot, and behind the dot in the order of keys the slash.
        return list(self._ledger.scan(bucket, stem, f"{stem}/"))

    def _kind(self, key: str) -> str | None:
        route = self._route(key)
        return None if route is None or route.archive is None else route.archive.side

    def _go_without(self, pending: PendingObject, missing: list[str]) -> None:
        pending.is_kept = True
        self._ends.append(SideEnd(pending, State.PARTIAL, MISSING))
        self._warn(
            MISSING,
            pending,
            f"its {' and '.join(missing)} did not come in restore.sidecars.wait.ms; it is restored without",
        )

    def _refuse(self, pending: PendingObject, missing: list[str]) -> None:
        kinds = " and ".join(missing)
        sentence = (
            f"{pending.object.id.url}: its {kinds} did not come in restore.sidecars.wait.ms. Upload them and "
            "replay the object, or set restore.sidecars=auto."
        )
        self._table.move(pending, Phase.JOINING)
        self._ends.append(SideEnd(pending, State.QUARANTINED, MISSING, sentence))

    # What ends

    def end(self, pending: PendingObject) -> None:
        """The object has come to its end; what it was read with ends with it."""
        place = pending.route.archive
        if place is None:
            return
        others = self._stems.get(place.stem, [])
        others.remove(pending)
        if not others:
            del self._stems[place.stem]
        self._open.pop(pending.object.id, None)
        self._alone.pop(pending.object.id, None)
        if place.side is None and all(_side_kind(each) is not None for each in others):
            assert pending.entry is not None
            for each in others:
                self._conclude(each, pending.entry)

    def has_uncovered(self, object_id: ObjectId, entry: LedgerEntry) -> bool:
        """Whether keys or headers of the object are here, or came too late, that it was not read with."""
        route = None if self._mode is RestoreSidecars.IGNORE else self._route(object_id.key)
        if route is None or route.archive is None or route.archive.side is not None:
            return False
        place = route.archive
        covered = {(side.key, side.etag) for side in entry.sides}
        beside = [each.object.id for each in self._stems.get(place.stem, ()) if _side_kind(each) is not None]
        beside += [
            known.id
            for known in self._of_stem(object_id.bucket, place.stem)
            if known.entry.reason in {LATE, ALONE} and self._kind(known.key) is not None
        ]
        return any((other.key, other.etag) not in covered for other in beside)

    def are_wanted(self, object_id: ObjectId) -> bool:
        """Whether another version of the object is still to be read with the same keys and headers."""
        route = None if self._mode is RestoreSidecars.IGNORE else self._route(object_id.key)
        if route is None or route.archive is None:
            return False
        others = self._stems.get(route.archive.stem, ())
        return any(_side_kind(each) is None and each.object.id != object_id for each in others)

    def _conclude(self, side: PendingObject, entry: LedgerEntry) -> None:
        """A side object whose object has this end."""
        is_covered = any((each.key, each.etag) == _identity(side) for each in entry.sides)
        if is_covered or entry.state is not State.DONE or entry.reason is not None:
            self._ends.append(SideEnd(side, State.SKIPPED, JOINED))
            return
        self._ends.append(SideEnd(side, State.SKIPPED, LATE))
        self._warn(
            LATE,
            side,
            "it came after its object was restored without it; replay that one with --from-start to have "
            "its records once more, with it",
        )

    def tick(self, now: Instant) -> list[SideEnd]:
        """What has come to an end by waiting; of `State.PARTIAL` are those that continue without."""
        unchecked, self._unchecked = self._unchecked, []
        for side in unchecked:
            if side.object.id in self._alone and not self._has_ended(side):
                self._due(side, self._alone[side.object.id], now)
        while self._deadlines and self._deadlines[0][0] <= now.steady_ms:
            pending = heapq.heappop(self._deadlines)[2]
            if pending.phase is Phase.JOINING and pending.sides is None:
                self._table.move(pending, Phase.WAITING)
            due_ms = self._alone.get(pending.object.id)
            if due_ms is not None and self._is_half_listed(pending.route.archive):
                self._due(pending, due_ms, now)
            elif due_ms is not None and due_ms <= now.steady_ms:
                del self._alone[pending.object.id]
                self._ends.append(SideEnd(pending, State.SKIPPED, ALONE))
                self._warn(ALONE, pending, "the object that it belongs to did not come: it waits for that")
        ends, self._ends = self._ends, []
        return ends

    def _has_ended(self, side: PendingObject) -> bool:
        """Whether the ledger knows of the object of this side object, and so of its end."""
        place = side.route.archive
        assert place is not None
        found = [
            known.entry
            for known in self._of_stem(side.object.id.bucket, place.stem)
            if (route := self._route(known.key)) is not None and route.archive == _main_place(place)
        ]
        if found:
            del self._alone[side.object.id]
            if all(entry.is_settled for entry in found):
                self._conclude(side, max(found, key=lambda entry: entry.updated_ms))
        return bool(found)

    # Inside

    def _has_come(self, place: ArchivePlace, now: Instant) -> None:
        """A side object of this stem is new: whatever waits for it, or was not begun, is decided again."""
        for each in self._stems[place.stem]:
            self._alone.pop(each.object.id, None)
            begun = each.entry is not None and each.entry.position is not None
            if _side_kind(each) is None and each.phase in {Phase.JOINING, Phase.WAITING} and not begun:
                self._reopen(each, now)
                self._table.move(each, Phase.WAITING)

    def _reopen(self, pending: PendingObject, now: Instant) -> None:
        pending.sides = None
        place = pending.route.archive
        assert place is not None
        for other in self._stems[place.stem]:
            self._alone.pop(other.object.id, None)
        opened = _Open(pending=pending, deadline_ms=now.steady_ms + self._wait_ms)
        self._open.setdefault(pending.object.id, opened)

    def _due(self, pending: PendingObject, due_ms: int, now: Instant) -> None:
        """Look at it again then; only for what waits, as all that is here stays in memory until then."""
        if self._is_half_listed(pending.route.archive):
            due_ms = max(due_ms, now.steady_ms + _LOOKS_AGAIN_MS)
        heapq.heappush(self._deadlines, (due_ms, next(self._order), pending))

    def _close(self, pending: PendingObject, sides: tuple[SideObject, ...]) -> None:
        pending.sides = sides
        self._open.pop(pending.object.id, None)

    def _warn(self, event: str, pending: PendingObject, warning: str) -> None:
        self._warned[event] = self._warned.get(event, 0) + 1
        if self._warned[event] <= _MAX_WARNINGS:
            _log.warning(event, key=printable(pending.object.id.key), warning=warning)


def count_inexact(end: SideEnd, effects: EffectsBuilder) -> None:
    """Count what cannot be restored as it was."""
    if end.reason in {MISSING, LATE} and end.state is not State.QUARANTINED:
        effects.inexact[end.reason] += 1


def _main_place(place: ArchivePlace) -> ArchivePlace:
    return ArchivePlace(place.stem, place.folder, None, place.is_tombstone)


def _side_kind(pending: PendingObject) -> str | None:
    return None if pending.route.archive is None else pending.route.archive.side


def _side_of(pending: PendingObject) -> SideObject:
    known = pending.object
    return SideObject(known.id.key, known.id.etag, known.size, known.version_id)


def _identity(pending: PendingObject) -> tuple[str, str]:
    return pending.object.id.key, pending.object.id.etag


def _is_between(pending: PendingObject, after: str | None, through: str | None) -> bool:
    """True when a listing of the keys from `after` to `through` has shown all of the object's stem."""
    place = pending.route.archive
    assert place is not None
    return (after is None or after < f"{place.stem}.") and (through is None or through >= f"{place.stem}/")
