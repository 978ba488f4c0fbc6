"""Tombstones that a value object was to send between its rows, and is read again without. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, PlacedTombstones, Route
from headrace.model.positions import JoinedPosition
from ingest.source.catalogue.ledger_view import Overlay
from ingest.source.catalogue.pending import PendingObject, PendingTable, Phase, SideEnd
from ingest.source.catalogue.side_objects import JOINED

ORDER_UNKNOWN: Final = "tombstone_order_unknown"


class OwedTombstones:
    """Has those that ended as joined sent after all values, before a value object begins without them.

    Of the catalogue, on its thread, with `restore.tombstones=after`: `proven` merges them once more. The
    value object's entry names them until it has begun, so that a restart, and an option that is set between
    the command and the first row, find them as well.
    """

    def __init__(self, table: PendingTable, ledger: Overlay, *, route: Callable[[str], Route | None]) -> None:
        self._table = table
        self._ledger = ledger
        self._route = route
        self._waiting: dict[ObjectId, PendingObject] = {}

    def admit(self, pending: PendingObject) -> SideEnd | None:
        """Have a value object that was not begun wait, in Phase.JOINING, where it owes any; or its end."""
        self._table.move(pending, Phase.JOINING)
        self._waiting[pending.object.id] = pending
        for object_id, placed in _owed(pending):
            if _is_sent_in_part(self._ledger.get(object_id), placed):
                del self._waiting[pending.object.id]
                assert pending.entry is not None
                pending.tombstones = pending.entry.tombstones  # its entry is to name them still
                held = (
                    f"{pending.object.id.url}: tombstones of {object_id.url} between its rows are not in "
                    "Kafka, those after them are. To have all once more, the tombstones after all values, "
                    "replay that object with --from-start, which is held back then, this one, and that one "
                    "again."
                )
                return SideEnd(pending, State.QUARANTINED, ORDER_UNKNOWN, held)
        return None

    def tick(self) -> list[ObjectId]:
        """The tombstone objects that are to be read again; value objects that owe none any more begin."""
        found: dict[ObjectId, None] = {}
        for value_id, pending in list(self._waiting.items()):
            is_waiting = pending.phase is Phase.JOINING and pending.sides is not None
            joined = [
                object_id for object_id, _ in _owed(pending) if is_waiting and self._is_joined(object_id)
            ]
            found.update(dict.fromkeys(joined))
            if not joined:
                del self._waiting[value_id]
                if is_waiting:
                    pending.is_placed = True
                    self._table.move(pending, Phase.WAITING)
        return list(found)

    def _is_joined(self, object_id: ObjectId) -> bool:
        """Whether it has ended with the object that owes it; not what is left out by now."""
        entry = self._ledger.get(object_id)
        is_joined = entry is not None and (entry.state, entry.reason) == (State.SKIPPED, JOINED)
        return is_joined and self._route(object_id.key) is not None


def _owed(pending: PendingObject) -> Iterator[tuple[ObjectId, PlacedTombstones]]:
    for each in () if pending.entry is None else pending.entry.tombstones:
        yield ObjectId(pending.object.id.bucket, each.keys.key, each.keys.etag), each


def _is_sent_in_part(entry: LedgerEntry | None, placed: PlacedTombstones) -> bool:
    """Whether the tombstone object has sent rows by itself, and not all of these."""
    if entry is None or not isinstance(entry.position, JoinedPosition):
        return False  # it is read by itself from its first row on, or not begun
    sent_from = entry.position.row - entry.records - entry.bad
    return any(place.first < sent_from for place in placed.places)
