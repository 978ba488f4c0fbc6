"""When objects of a partition were opened that are read again: by another slot, or after a failure.

A slot that leaves its open objects unwritten (`rotate.on.stop=false`) leaves their openings to the next one:
else a slot whose turns are shorter than an object's age would never write it.
"""

from collections.abc import Iterable
from typing import Final

from headrace.model.sink_protocol import LeftOpen, OpenedObject
from spark.sink.open_group import OpenGroup

# While records come that were read before, nothing closes by time: it would be a piece of what was open. They
# may not come, for want of a schema registry or of Kafka.
_STUCK_MS: Final = 5_000


class CarriedOpenings:
    """Used by the slot's thread only. Offsets are Kafka's, times ms since 1970."""

    def __init__(self, left: LeftOpen | None) -> None:
        self._objects: tuple[OpenedObject, ...] = () if left is None else left.objects
        self._end = -1 if left is None else left.position
        self._position = -1
        self._moved_ms = 0

    def abandon(self, objects: Iterable[OpenGroup], position: int) -> None:
        """These are given up, and all is read again up to this position."""
        known = {(one.group, one.first_offset): one for one in self._objects}
        known |= {(one.group, one.first_offset): opened_object(one) for one in objects}
        self._objects = tuple(known.values())
        self._end, self._position = max(self._end, position), -1

    def of(
        self, group: str, first_offset: int, now_ms: int, age_from_ms: int | None
    ) -> tuple[int, int | None]:
        """`opened_ms` and `age_from_ms` of a group's object that begins with this record, now or before.

        Where groups are by the clock it may have been in another one: the earliest counts then.
        """
        covering = [one for one in self._objects if one.first_offset <= first_offset <= one.last_offset]
        if not covering:
            return now_ms, age_from_ms
        same = [one for one in covering if one.group == group]
        first = min(same or covering, key=lambda one: one.opened_ms)
        # By another machine's clock it may be opened in the future.
        return min(first.opened_ms, now_ms), first.age_from_ms

    def moment(self, position: int, now_ms: int) -> int:
        """When the records at `position` were read first, as far as that is known."""
        if not self.is_reading_again(position, now_ms):
            return now_ms
        return min(now_ms, *(one.opened_ms for one in self._objects))

    def is_reading_again(self, position: int, now_ms: int) -> bool:
        """Whether records come at `position` that were read before."""
        if not self._objects:
            return False
        if position >= self._end:
            self._objects = ()
            return False
        if position != self._position or now_ms < self._moved_ms:
            self._position, self._moved_ms = position, now_ms
        return now_ms - self._moved_ms < _STUCK_MS


def opened_object(one: OpenGroup) -> OpenedObject:
    """What is left of an object that is given up."""
    return OpenedObject(
        group=one.group,
        first_offset=one.first_offset,
        last_offset=one.last_offset,
        opened_ms=one.opened_ms,
        age_from_ms=one.age_from_ms,
    )
