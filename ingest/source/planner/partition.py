"""One topic-partition of `ordering=partition`: what waits in it, in order, and what comes too late."""

import heapq
from dataclasses import dataclass, field
from typing import Final

from ingest.source.catalogue.pending import PendingObject, Place

# Absent start offsets go first.
_NO_OFFSET: Final = -1
_NONE: Final = (_NO_OFFSET, 0)
# So many objects that come too late are named, then they are counted.
_NAMED: Final = 20


@dataclass(slots=True, kw_only=True)
class Partition:
    """One topic-partition: its waiting keys by start offset, time in the key, key and bucket."""

    topic: str
    partition: int | None
    heap: list[tuple[int, int, str, str]] = field(default_factory=list)
    places: set[Place] = field(default_factory=set)
    is_held: bool = False
    is_queued: bool = False
    _highest: dict[str | None, tuple[int, int]] = field(default_factory=dict)
    """The highest start offset, and the time with it, that has come to its end, by `Route.archived`."""
    _late: int = 0
    _said_at: int = _NAMED * 2

    def put(self, pending: PendingObject) -> None:
        """Give it its place, unless its key has one."""
        place = pending.object.id.place
        if place not in self.places:
            self.places.add(place)
            heapq.heappush(self.heap, (*place_of(pending), place[1], place[0]))

    def pop(self) -> None:
        """Take the first place away."""
        self.places.discard(self.first)
        heapq.heappop(self.heap)

    @property
    def first(self) -> Place:
        """Bucket and key of what goes first."""
        _, _, key, bucket = self.heap[0]
        return bucket, key

    def is_over(self, pending: PendingObject) -> None:
        """The object has come to its end."""
        before = self._highest.get(pending.route.archived, _NONE)
        self._highest[pending.route.archived] = max(before, place_of(pending))

    def late(self, pending: PendingObject) -> list[str]:
        """A warning for an object that begins after a higher place; of many, the count as it doubles."""
        at = pending.route.archive
        if at is not None and at.is_tombstone:
            return []  # after values of higher offsets is its proven place, or where it was told to go
        place, last = place_of(pending), self._highest.get(pending.route.archived, _NONE)
        (offset, _), (highest, _) = place, last
        if offset == _NO_OFFSET or place >= last:
            return []
        self._late += 1
        name = f"{self.topic}-{self.partition}"
        if self._late <= _NAMED:
            before = f"below {highest}" if offset < highest else "and a time before that of another one"
            sentence = (
                f"{pending.object.id.url} has the start offset {offset}, {before}, which {name} has already: "
                "it is produced now, out of order."
            )
            return [sentence]
        if self._late < self._said_at:
            return []
        self._said_at *= 2
        sentence = (
            f"{self._late} objects of {name} have come after a higher start offset, {highest} at most, "
            f"and were produced out of order; the first {_NAMED} were named."
        )
        return [sentence]


def place_of(pending: PendingObject) -> tuple[int, int]:
    """Start offset, and the time in the key, which tells objects of one offset apart."""
    offset = pending.route.start_offset
    return (_NO_OFFSET if offset is None else offset), pending.route.timestamp_ms or 0
