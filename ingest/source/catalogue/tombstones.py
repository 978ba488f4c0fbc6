"""Tombstones in objects of their own: merged where their place is proven, after all values, or held back."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from headrace.model.ledger_entry import LedgerEntry, State, is_owed, unsent
from headrace.model.objects import ObjectId, PlacedTombstones, Route, RowPlace, S3Object, SideObject
from headrace.options.choices import RestoreTombstones
from ingest.source.catalogue.ledger_view import KnownEntry, Overlay
from ingest.source.catalogue.owed_tombstones import ORDER_UNKNOWN, OwedTombstones
from ingest.source.catalogue.pending import PendingObject, PendingTable, Phase, SideEnd
from ingest.source.catalogue.side_objects import JOINED


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstonePlaces:
    """Where the rows of one tombstone object go, by what was found in its topic's folder.

    `inserts` are by key of the value object. Rows from `own_from` on are after all values. `unknown` is a
    sentence where the place of some row is not certain. `values` are the value objects of its partition.
    """

    object: S3Object
    headers: SideObject | None
    rows: int
    own_from: int
    inserts: Mapping[str, tuple[RowPlace, ...]]
    values: tuple[S3Object, ...]
    unknown: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPlaces:
    """What was found in the folder of one topic; `tombstones` in their order, none where there are none."""

    folder: str
    tombstones: tuple[TombstonePlaces, ...] = ()


@dataclass(slots=True)
class _Wait:
    """Tombstone objects that wait for the ends of the value objects with these keys."""

    keys: set[str] = field(default_factory=set)
    tombstones: list[ObjectId] = field(default_factory=list)
    values: tuple[S3Object, ...] = ()
    """Those that `keys` was last made from."""


@dataclass(slots=True)
class _Folder:
    """One topic: its pending objects, what was found of it, and who waits for what.

    `values` are keys of which it is known which tombstones are between their rows, `held` the objects that
    wait for the headers of such tombstones. `behind` has one wait for all tombstones after a partition.
    """

    pending: dict[ObjectId, PendingObject] = field(default_factory=dict)
    places: dict[ObjectId, TombstonePlaces] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)
    wants: set[ObjectId] = field(default_factory=set)
    asked_for: set[ObjectId] | None = None
    held: dict[ObjectId, PendingObject] = field(default_factory=dict)
    decided: set[ObjectId] = field(default_factory=set)
    behind: dict[int | None, _Wait] = field(default_factory=dict)
    waits: dict[str, list[_Wait]] = field(default_factory=dict)
    ended: set[ObjectId] = field(default_factory=set)
    """Value objects that ended while a search was under way, or just before: it may have met neither them,
    as `post.action` deletes, nor their ends in the ledger."""


class Tombstones:
    """Of the catalogue, on its thread. `takes` says whether an object that a listing shows is taken in.

    What is in a topic's folder is searched next to this thread: `searches` asks, `found` gets the answer.
    """

    def __init__(
        self,
        table: PendingTable,
        ledger: Overlay,
        *,
        takes: Callable[[S3Object], Route | None],
        route: Callable[[str], Route | None],
        mode: RestoreTombstones = RestoreTombstones.IGNORE,
    ) -> None:
        self._table = table
        self._ledger = ledger
        self._takes = takes
        self._route = route
        self._mode = mode
        self._folders: dict[str, _Folder] = {}
        self._ends: list[SideEnd] = []
        self.owed = OwedTombstones(table, ledger, route=route)

    def needs(self, known: KnownEntry) -> bool:
        """Whether the place of a tombstone that comes later is proven by this entry, however old it is.

        Without it the tombstone would seem to be after all values, and could delete a key that was
        written again; or be sent once more.
        """
        if self._mode is RestoreTombstones.IGNORE:
            return False  # before anything is decoded: all entries are asked about
        entry = known.entry
        # With `after`, only which tombstones are in Kafka already matters.
        is_read = bool(entry.sides if self._mode is RestoreTombstones.PROVEN else entry.tombstones)
        return is_read and entry.position is not None

    @property
    def is_searching(self) -> bool:
        """Whether an answer is to come that may let much begin."""
        return any(folder.wants or folder.asked_for is not None for folder in self._folders.values())

    def waits_for_listing(self) -> bool:
        """Whether a tombstone object waits for a value object that is not known here yet."""
        return any(
            not self._table.of_place((object_id.bucket, key))
            for folder in self._folders.values()
            for object_id in islice(folder.pending, 1)
            for key in folder.waits
        )

    # What may be worked on

    def admit(self, pending: PendingObject) -> bool:
        """Whether the object, for which its side objects are decided or not, has a place in the queue.

        A value object waits, in Phase.JOINING, until it is known which tombstones are between its rows;
        a tombstone object until the value objects before it have ended.
        """
        place = pending.route.archive
        if place is None or self._mode is RestoreTombstones.IGNORE or pending.parent is not None:
            return True
        if pending.entry is not None and pending.entry.position is not None:
            pending.is_placed = True
        if pending.is_placed:
            return True
        is_ready = pending.phase is Phase.WAITING and pending.sides is not None
        if place.is_tombstone:
            if is_ready:
                self._wait(pending, place.folder)
            return False
        # Tombstones are written only while keys are.
        if is_ready and self._mode is RestoreTombstones.PROVEN and pending.sides:
            self._wait(pending, place.folder)
        if is_ready and self._mode is RestoreTombstones.AFTER and pending.entry and pending.entry.tombstones:
            self._ends += filter(None, [self.owed.admit(pending)])
        return True

    def decide_again(self, pending: PendingObject) -> None:
        """A command has set where the object begins: of a value object tombstones are searched once more."""
        place = pending.route.archive
        if place is not None and not place.is_tombstone:
            pending.is_placed = False
            if (folder := self._folders.get(place.folder)) is not None:
                folder.values.discard(pending.object.id.key)
                folder.held.pop(pending.object.id, None)

    def _wait(self, pending: PendingObject, folder_name: str) -> None:
        folder = self._folders.setdefault(folder_name, _Folder())
        object_id = pending.object.id
        folder.pending[object_id] = pending
        self._table.move(pending, Phase.JOINING)
        if object_id not in folder.places and object_id.key not in folder.values:
            folder.wants.add(object_id)
        elif object_id in folder.places:
            self._settle_tombstone(folder, pending)
            held, folder.held = folder.held, {}
            for value in held.values():
                self._settle_value(folder, value)
        else:
            self._settle_value(folder, pending)

    def searches(self) -> Iterator[str]:
        """The folders that are to be searched now; of each one search at a time."""
        for name, folder in self._folders.items():
            if folder.wants and folder.asked_for is None:
                folder.asked_for, folder.wants = folder.wants, set()
                buckets = {object_id.bucket for object_id in folder.asked_for}
                folder.ended = {
                    object_id for bucket in buckets for object_id in self._ledger.not_read_back(bucket, name)
                }
                yield name

    def found(self, answer: FolderPlaces) -> None:
        """A search is over: what waits for it continues, or ends."""
        folder = self._folders[answer.folder]
        if self._has_missed(folder, answer):
            folder.wants |= folder.asked_for or set()
            folder.asked_for = None
            return
        asked_for, folder.asked_for = folder.asked_for or set(), None
        for places in answer.tombstones:
            folder.values.update(value.id.key for value in places.values)
            # What was decided stays: rows may be merged by now.
            if places.object.id not in folder.decided and self._takes(places.object) is not None:
                folder.places[places.object.id] = self._held_back_if_late(places)
        folder.values.update(object_id.key for object_id in asked_for if object_id in folder.pending)
        # Tombstone objects first: a value object takes only what is decided of them.
        for pending in sorted(folder.pending.values(), key=_is_value):
            if _is_value(pending):
                if pending.object.id.key in folder.values:
                    self._settle_value(folder, pending)
            elif pending.object.id in folder.places:
                self._settle_tombstone(folder, pending)
            elif pending.object.id in asked_for and pending.phase is Phase.JOINING:
                self._ends.append(SideEnd(pending, State.SKIPPED, "missing"))

    def _has_missed(self, folder: _Folder, answer: FolderPlaces) -> bool:
        """Whether a value object ended meanwhile that the answer does not count."""
        ended, folder.ended = folder.ended, set()
        partitions = {}
        for places in answer.tombstones:
            if (route := self._takes(places.object)) is not None:
                partitions[route.partition] = places.values
        for object_id in ended:
            route = self._route(object_id.key)
            if route is None or route.archive is None or route.archive.side or route.archive.is_tombstone:
                continue
            counted = partitions.get(route.partition)
            if counted is not None and all(value.id.key != object_id.key for value in counted):
                return True
        return False

    # What ends

    def end(self, pending: PendingObject) -> None:
        """The object has come to its end: tombstones after it may continue."""
        place = pending.route.archive
        folder = None if place is None else self._folders.get(place.folder)
        if folder is None:
            return
        object_id = pending.object.id
        if folder.asked_for is not None:
            folder.ended.add(object_id)
        for known in (folder.pending, folder.places, folder.held):
            known.pop(object_id, None)
        folder.wants.discard(object_id)
        folder.decided.discard(object_id)
        folder.values.discard(object_id.key)
        for wait in folder.waits.pop(object_id.key, ()):
            wait.keys.discard(object_id.key)
            if not wait.keys:
                self._release(folder, wait)

    def tick(self) -> list[SideEnd]:
        """What has come to an end without being read by itself."""
        ends, self._ends = self._ends, []
        return ends

    # Inside

    def _settle_tombstone(self, folder: _Folder, pending: PendingObject) -> None:
        object_id = pending.object.id
        places = folder.places[object_id]
        if pending.phase is not Phase.JOINING or object_id in folder.decided or pending.sides is None:
            return
        folder.decided.add(object_id)
        if places.unknown is not None:
            self._ends.append(SideEnd(pending, State.QUARANTINED, ORDER_UNKNOWN, places.unknown))
            return
        if places.own_from < places.rows:
            wait = folder.behind.setdefault(pending.route.partition, _Wait())
            owed = () if wait.tombstones and wait.values is places.values else places.values
            wait.values = places.values
        else:
            wait = _Wait()
            owed = tuple(value for value in places.values if value.id.key in places.inserts)
        wait.tombstones.append(object_id)
        for value in owed:
            if value.id.key not in wait.keys and self._is_owed(value):
                wait.keys.add(value.id.key)
                folder.waits.setdefault(value.id.key, []).append(wait)
        if not wait.keys:
            self._release(folder, wait)

    def _settle_value(self, folder: _Folder, pending: PendingObject) -> None:
        """Tombstones between the rows of an object that was not begun."""
        if pending.phase not in {Phase.JOINING, Phase.WAITING} or _is_begun(pending.entry):
            return
        if pending.sides is None:
            return
        merged: list[PlacedTombstones] = []
        for object_id, places in folder.places.items():
            rows = places.inserts.get(pending.object.id.key)
            if rows is None or places.unknown is not None:
                continue
            own_from = self._sent_from(object_id, places)
            if any(place.row and place.first + place.count > own_from for place in rows):
                late = _too_late(pending, places, self._again)
                self._ends.append(SideEnd(pending, State.QUARANTINED, ORDER_UNKNOWN, late))
                return
            rows = tuple(_before(own_from, rows))
            if not rows:
                continue
            known = self._table.find(object_id)
            if known is not None and known.sides is None:
                folder.held[pending.object.id] = pending  # until the tombstones have their headers
                return
            headers = places.headers if known is None or not known.sides else known.sides[0]
            keys = SideObject(object_id.key, object_id.etag, places.object.size, places.object.version_id)
            merged.append(PlacedTombstones(keys, headers, rows))
        pending.tombstones = tuple(merged)
        if not pending.is_placed:
            pending.is_placed = True
            self._table.move(pending, Phase.WAITING)

    def _sent_from(self, object_id: ObjectId, places: TombstonePlaces) -> int:
        """The first row that the tombstone object sends by itself; where it sends none, how many it has."""
        pending = self._table.find(object_id)
        if pending is not None:
            return pending.first_row if pending.is_placed else places.rows
        entry = self._ledger.get(object_id)
        if entry is None or entry.state is not State.DONE:
            return places.rows
        return max(places.rows - entry.records - entry.bad, 0)

    def _release(self, folder: _Folder, wait: _Wait) -> None:
        """The values before have ended: what of these tombstones is not merged goes out now."""
        tombstones, wait.tombstones = wait.tombstones, []
        for object_id in tombstones:
            pending, places = folder.pending.get(object_id), folder.places.get(object_id)
            if pending is None or places is None or pending.phase is not Phase.JOINING:
                continue
            # Values that waited in the queue without keys got none of their tombstones.
            late = self._held_back_if_late(places).unknown
            if late is not None:
                self._ends.append(SideEnd(pending, State.QUARANTINED, ORDER_UNKNOWN, late))
                continue
            if not self._are_merged_rows_committed(places):
                pending.is_kept = True
            if places.own_from >= places.rows:
                self._ends.append(SideEnd(pending, State.SKIPPED, JOINED, is_owed=True))
                continue
            pending.first_row, pending.is_placed = places.own_from, True
            self._table.move(pending, Phase.WAITING)

    def _are_merged_rows_committed(self, places: TombstonePlaces) -> bool:
        """True when each value object that rows of it are in is done with them, none being a bad record."""
        values = {value.id.key: value.id for value in places.values}
        for key in places.inserts:
            entry = self._ledger.get(values[key])
            if entry is None or not is_owed(entry.state, entry.bad):
                return False
            if not _is_merged(places.object.id, entry.tombstones):
                return False
        return True

    def _is_owed(self, value: S3Object) -> bool:
        """True for a value object whose end is still to come."""
        if self._table.find(value.id) is not None:
            return True
        entry = self._ledger.get(value.id)
        if entry is None:
            return self._takes(value) is not None
        # What is left out by now is not read on, whatever the ledger owes.
        return not entry.is_settled and self._route(value.id.key) is not None

    def _held_back_if_late(self, places: TombstonePlaces) -> TombstonePlaces:
        """The same, without a place where rows that it is between were read without it, or never were."""
        for value in places.values:
            if self._mode is RestoreTombstones.AFTER and self._owes(value, places.object.id):
                owed = (
                    f"{places.object.id.url}: its tombstones are between rows of {value.id.url}, which is "
                    "quarantined before it has sent them all. Replay that object, then this one; or both "
                    "with --from-start to have all once more, the tombstones after all values."
                )
                return replace(places, unknown=owed)
            if value.id.key not in places.inserts:
                continue
            if (why := self._passed_over(value)) is not None:
                gone = (
                    f"{places.object.id.url}: its tombstones are between rows of {value.id.url}, which was "
                    f"passed over ({why}). {self._advice}: those not in Kafka come after all values."
                )
                return replace(places, unknown=gone)
            if self._is_read_without(value, places.object.id):
                late = (
                    f"{places.object.id.url}: its tombstones are between rows of {value.id.url}, which "
                    f"were restored without them. {self._again}."
                )
                return replace(places, unknown=late)
        return places

    def _owes(self, value: S3Object, tombstones: ObjectId) -> bool:
        """Whether the value object, begun or not, is given up with tombstones unsent: it is read without."""
        entry = None if self._table.find(value.id) is not None else self._ledger.get(value.id)
        if entry is None or entry.state is not State.QUARANTINED:
            return False
        return _is_merged(tombstones, unsent(entry))

    @property
    def _again(self) -> str:
        again = "Replay that object and this one with --from-start to have both once more"
        is_set = self._mode is RestoreTombstones.AFTER
        return f"{again}, values first" if is_set else f"{again}, in order, or set restore.tombstones=after"

    @property
    def _advice(self) -> str:
        is_set = self._mode is RestoreTombstones.AFTER
        return "Replay it" if is_set else "Set restore.tombstones=after and replay it"

    def _passed_over(self, value: S3Object) -> str | None:
        """Why a value object has ended without a row, so that nothing is merged into it; None: it has not."""
        entry = None if self._table.find(value.id) is not None else self._ledger.get(value.id)
        return entry.reason if entry is not None and entry.state is State.SKIPPED else None

    def _is_read_without(self, value: S3Object, tombstones: ObjectId) -> bool:
        pending = self._table.find(value.id)
        if pending is None:
            entry = self._ledger.get(value.id)
            if entry is None or not (entry.is_settled or _is_begun(entry)):
                return False
            merged = entry.tombstones
        elif pending.phase in {Phase.JOINING, Phase.WAITING} and not _is_begun(pending.entry):
            return False
        elif pending.sides is None and pending.entry is not None:
            merged = pending.entry.tombstones  # begun before, and not yet in the queue
        else:
            merged = pending.tombstones
        return not _is_merged(tombstones, merged)


def _is_value(pending: PendingObject) -> bool:
    place = pending.route.archive
    return place is not None and not place.is_tombstone


def _before(own_from: int, rows: Iterable[RowPlace]) -> Iterator[RowPlace]:
    """What of these is before row `own_from` of the tombstone object."""
    for place in rows:
        count = min(place.count, own_from - place.first)
        if count > 0:
            yield replace(place, count=count)


def _too_late(value: PendingObject, places: TombstonePlaces, again: str) -> str:
    return (
        f"{value.object.id.url}: tombstones of {places.object.id.url} are between its rows, and were "
        f"restored before it came. {again}."
    )


def _is_merged(tombstones: ObjectId, merged: Iterable[PlacedTombstones]) -> bool:
    return any((each.keys.key, each.keys.etag) == (tombstones.key, tombstones.etag) for each in merged)


def _is_begun(entry: LedgerEntry | None) -> bool:
    return entry is not None and entry.position is not None
