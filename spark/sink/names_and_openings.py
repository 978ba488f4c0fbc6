"""What a partition's objects are called, and when those were opened that are read again.

The ledger, offsets and dead letters know the partition by the topic that it is of; names and rows have the
topic that the record goes to. A slot that leaves its open objects unwritten (`rotate.on.stop=false`) leaves
their openings to the next one: else a slot whose turns are shorter than an object's age would never write it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final, NamedTuple

from headrace.model.columns import NO_TIME
from headrace.model.sink_protocol import LeftOpen, OpenedObject, PartitionGrant
from headrace.s3.completion import Beginning
from spark.sink.object_keys import ObjectFacts, ObjectNames
from spark.sink.object_shape import ObjectShape
from spark.sink.open_group import OpenGroup
from spark.sink.rotation import OpenFacts
from spark.sink.routed_tools import SlotTools

# In no topic, and in no group: names show no control character of a value.
_BETWEEN: Final = "\x1e"


class RoutedGroup(NamedTuple):
    """The topic in the names of a group's objects, and the group by what those names show of the data."""

    topic: str
    group: str


def routed_group(topic: str, group: str, own_topic: str) -> str:
    """The group, within a partition of `own_topic`, of records that go to `topic`."""
    return group if topic == own_topic else f"{topic}{_BETWEEN}{group}"


def read_group(group: str, own_topic: str) -> RoutedGroup:
    """What `routed_group` put together."""
    topic, between, rest = group.partition(_BETWEEN)
    return RoutedGroup(topic, rest) if between else RoutedGroup(own_topic, group)


class ObjectNaming:
    """Of one partition's objects; keeps nothing."""

    def __init__(self, grant: PartitionGrant, tools: SlotTools) -> None:
        self._grant = grant
        self._tools = tools

    def shape(self, group: str) -> ObjectShape:
        """The shape of a group's objects."""
        return self._tools.shapes.of(read_group(group, self._grant.topic).group)

    def is_at_the_end(self, group: str) -> bool:
        """Names, tags, or an earlier object of the name: the upload begins when a group's object closes."""
        names = self.shape(group).names
        return names.overwrites or not names.is_known_at_start or self._tools.settings.sink.upload.offset_tags

    def first_name(
        self, group: str, *, first_offset: int, batch_offset: int, opened_ms: int, first_time_ms: int
    ) -> str:
        """The name of an object that begins with this record."""
        names, facts = self._begun(group, first_offset, opened_ms)
        return names.key(replace(facts, batch_offset=batch_offset, first_time_ms=first_time_ms))

    def beginning(self, group: str, first_offset: int) -> Beginning | None:
        """What an object that begins with this record says of it, where its name says only how it ends."""
        grant, tools = self._grant, self._tools
        if not tools.uploads.is_direct or not self.shape(group).names.shows_only_ends:
            return None
        return Beginning(grant.topic_id, grant.partition, tools.settings.options, first_offset)

    def last_name(self, ended: OpenGroup) -> str:
        """The name of an object that takes no more records."""
        names, facts = self._begun(ended.group, ended.first_offset, ended.opened_ms)
        return names.key(
            replace(
                facts,
                batch_offset=ended.batch_offset,
                first_time_ms=ended.first_timestamp_ms,
                last_offset=ended.last_offset,
                least_timestamp_ms=ended.least_timestamp_ms,
                greatest_timestamp_ms=ended.greatest_timestamp_ms,
            )
        )

    def _begun(self, group: str, first_offset: int, opened_ms: int) -> tuple[ObjectNames, ObjectFacts]:
        grant, routed = self._grant, read_group(group, self._grant.topic)
        names, called = self._tools.shapes.names(routed.group)
        return names, ObjectFacts(
            topic=routed.topic,
            partition=grant.partition,
            group=called,
            first_offset=first_offset,
            opened_ms=opened_ms,
            topic_id=grant.topic_id if grant.is_made_again else None,
        )


# While records come that were read before, nothing closes by time: it would be a piece of what was open. They
# may not come, for want of a schema registry or of Kafka.
_STUCK_MS: Final = 5_000


class _Earliest:
    """Which of these objects was opened first, of those that cover an offset: a search, however many."""

    def __init__(self, objects: Iterable[OpenedObject]) -> None:
        by_first = sorted(objects, key=lambda one: one.first_offset, reverse=True)
        bounds = {bound for one in by_first for bound in (one.first_offset, one.last_offset + 1)}
        self._bounds: Final = sorted(bounds)
        self._first: Final[list[OpenedObject | None]] = []
        covering: list[tuple[int, int, OpenedObject]] = []
        for bound in self._bounds:
            while by_first and by_first[-1].first_offset == bound:
                one = by_first.pop()
                heappush(covering, (one.opened_ms, len(by_first), one))
            while covering and covering[0][2].last_offset < bound:
                heappop(covering)
            self._first.append(covering[0][2] if covering else None)

    def at(self, offset: int) -> OpenedObject | None:
        """The one that was opened first; None where none covers it."""
        index = bisect_right(self._bounds, offset) - 1
        return self._first[index] if index >= 0 else None


class CarriedOpenings:
    """Used by the slot's thread only. Offsets are Kafka's, times ms since 1970."""

    def __init__(self, left: LeftOpen | None) -> None:
        self._set(() if left is None else left.objects)
        self._end = -1 if left is None else left.end
        self._position = -1
        self._moved_ms = 0

    def _set(self, objects: Sequence[OpenedObject]) -> None:
        """An object that is opened again, and each group of each fetch, asks: none looks at all."""
        self._objects = objects
        self._least_ms = min((one.opened_ms for one in objects), default=0)
        self._of_group: dict[str, list[OpenedObject]] = {}
        for one in objects:
            self._of_group.setdefault(one.group, []).append(one)
        # Those that were asked for; None: of all groups.
        self._earliest: dict[str | None, _Earliest] = {}

    def abandon(self, objects: Iterable[OpenGroup], position: int) -> None:
        """These are given up, and all is read again up to this position."""
        self._set(_united(self._objects, objects))
        self._end, self._position = max(self._end, position), -1

    def left(self, objects: Iterable[OpenGroup], position: int) -> tuple[tuple[OpenedObject, ...], int]:
        """What is left where these are given up at this position, and the furthest that was ever read.

        What was open further on before, and this slot has not come to, is as old as it was.
        """
        known = self._objects if position < self._end else ()
        known = [one for one in known if one.last_offset >= position]
        return _united(known, objects), max(self._end, position)

    def of(
        self, group: str, first_offset: int, now_ms: int, age_from_ms: int | None
    ) -> tuple[int, int | None]:
        """`opened_ms` and `age_from_ms` of a group's object that begins with this record, now or before.

        Where groups are by the clock it may have been in another one: the earliest counts then.
        """
        first = self._earliest_of(group).at(first_offset) or self._earliest_of(None).at(first_offset)
        if first is None:
            return now_ms, age_from_ms
        # By another machine's clock it may be opened in the future.
        return min(first.opened_ms, now_ms), first.age_from_ms

    def _earliest_of(self, group: str | None) -> _Earliest:
        found = self._earliest.get(group)
        if found is None:
            objects = self._objects if group is None else self._of_group.get(group, ())
            found = self._earliest[group] = _Earliest(objects)
        return found

    def moment(self, position: int, now_ms: int) -> int:
        """When the records at `position` were read first, as far as that is known."""
        return min(now_ms, self._least_ms) if self.is_reading_again(position, now_ms) else now_ms

    def is_reading_again(self, position: int, now_ms: int) -> bool:
        """Whether records come at `position` that were read before."""
        if not self._objects:
            return False
        if position >= self._end:
            self._set(())
            return False
        if position != self._position or now_ms < self._moved_ms:
            self._position, self._moved_ms = position, now_ms
        return now_ms - self._moved_ms < _STUCK_MS


def _united(known: Iterable[OpenedObject], objects: Iterable[OpenGroup]) -> tuple[OpenedObject, ...]:
    """Both, each object once."""
    united = {(one.group, one.first_offset): one for one in known}
    united |= {(one.group, one.first_offset): _opened_object(one) for one in objects}
    return tuple(united.values())


def opened_facts(one: OpenedObject) -> OpenFacts:
    """What decides when it closes by time, as far as that is known of it."""
    return OpenFacts(
        records=0, bytes=0, opened_ms=one.opened_ms, first_timestamp_ms=NO_TIME, age_from_ms=one.age_from_ms
    )


def _opened_object(one: OpenGroup) -> OpenedObject:
    """What is left of an object that is given up."""
    return OpenedObject(
        group=one.group,
        first_offset=one.first_offset,
        last_offset=one.last_offset,
        opened_ms=one.opened_ms,
        age_from_ms=one.age_from_ms,
    )
