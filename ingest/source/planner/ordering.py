"""The order of `ordering=partition`: what waits in a topic-partition, and for which listing it waits."""

import heapq
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from headrace.model.text_formatting import printable
from ingest.source.catalogue.listing_merge import ListedKeys
from ingest.source.catalogue.pending import PendingObject, Place, is_begun

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


_log = structlog.get_logger(__name__)

_DIGITS: Final = re.compile(r"[0-9]+")
# Sorts after all digits.
_AFTER_DIGITS: Final = ":"


class ListingOrder:
    """Of `PartitionQueue`. `listed` is how far listings have come, by bucket; None: nothing waits for them.

    S3 lists by key: `orders-0-99` comes after `orders-0-1000`. Zeros before offsets prove no more than how
    names were written when these were: a sink that got zeros later, or wider ones, wrote names before that
    are listed after them, as Lenses' do. So every object whose offset has several digits waits until its
    topic-partition's keys in its folder are listed.
    """

    def __init__(self, listed: Mapping[str, ListedKeys] | None) -> None:
        self._listed = listed
        self._widths: dict[tuple[str, int | None], set[int]] = {}
        self._zeros: set[tuple[str, int | None]] = set()
        self._let_go: set[tuple[str, int | None]] = set()
        self._sorted: set[tuple[str, int | None]] = set()
        """Of which as much as is known sorts by offset, and which are not let go."""
        self._has_said = False

    def see(self, pending: PendingObject) -> None:
        """The object is known: its name shows how wide offsets of its topic-partition are."""
        if self._listed is None or self._listed[pending.object.id.bucket].is_complete:
            return
        spans = _offsets_in(pending)
        widths = {end - begin for begin, end in spans}
        if len(widths) != 1:
            # A partition, a day or a topic is the same number: which of them is the offset is not known.
            return
        place = _place(pending)
        self._widths.setdefault(place, set()).update(widths)
        if any(end - begin > 1 and pending.object.id.key[begin] == "0" for begin, end in spans):
            self._zeros.add(place)
        if place not in self._let_go and self._is_sorted(place):
            self._sorted.add(place)
        else:
            self._sorted.discard(place)

    def waits(self, pending: PendingObject) -> bool:
        """Whether what goes before it in its topic-partition may be listed yet; not once it is begun."""
        if self._listed is None or self._listed[pending.object.id.bucket].is_complete:
            return False
        whole, place = pending.parent or pending, _place(pending)
        if place in self._let_go or (whole.entry is not None and is_begun(whole.entry)):
            return False
        begin, end = _digits_of(pending)
        key = pending.object.id.key
        if end - begin <= 1:
            # Lower ones are listed before it. An event may come before both.
            is_first = begin == end or not pending.route.start_offset
            if is_first or not pending.is_fresh or self._listed[pending.object.id.bucket].has_passed(key):
                return False
        elif self._listed[pending.object.id.bucket].has_passed(key[:begin] + _AFTER_DIGITS):
            return False
        if not self._has_said:
            self._has_said = True
            _log.info(
                "order_waits_for_listing",
                key=printable(key),
                detail="a partition begins when the listing has passed it: names may not sort by offset",
            )
        return True

    def let_go(self, pending: PendingObject) -> bool:
        """What is known of its topic-partition begins; whether names that are known sort by offset."""
        place = _place(pending)
        self._let_go.add(place)
        return self._is_sorted(place)

    def let_go_sorted(self) -> None:
        """What is known of topic-partitions whose names, as far as they are known, sort by offset begins."""
        self._let_go |= self._sorted
        self._sorted.clear()

    def _is_sorted(self, place: tuple[str, int | None]) -> bool:
        return place in self._zeros and len(self._widths[place]) == 1


def _place(pending: PendingObject) -> tuple[str, int | None]:
    """Its topic-partition in the archive, whatever topic it comes to."""
    return pending.route.archived or pending.route.topic, pending.route.partition


def _digits_of(pending: PendingObject) -> tuple[int, int]:
    """Where the key has its offset; nothing of it where it has none.

    Of several such numbers it is the one of the fewest digits, the last of these: a guess that is wrong
    waits, or is of one object.
    """
    return min(reversed(_offsets_in(pending)), key=lambda span: span[1] - span[0], default=(0, 0))


def _offsets_in(pending: PendingObject) -> list[tuple[int, int]]:
    """Where the key has a number that is its offset."""
    offset = pending.route.start_offset
    if offset is None:
        return []
    wanted = str(offset) if offset else ""
    return [each.span() for each in _DIGITS.finditer(pending.object.id.key) if each[0].lstrip("0") == wanted]
