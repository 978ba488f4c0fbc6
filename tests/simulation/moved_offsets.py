"""Offsets of a sink that others set: operators rewind it, and another program commits for its group."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from headrace.model.sink_entries import TopicPartition
from ingest.http.rest.port import InvalidOffsets
from tests.simulation.apart import EXPIRED, GROUP_MOVED, REWINDS, WEEKS
from tests.simulation.course import Course
from tests.simulation.operations import Operations

_FAR: Final = 2**40
_ABOVE: Final = 3
_FORGETS: Final = frozenset({EXPIRED, WEEKS, REWINDS, "rewind", "reset", "topic again"})


class MovedOffsets:
    """What sets offsets in one run. `broken` says what has come of it that was not asked for."""

    def __init__(self, course: Course, operations: Operations) -> None:
        self._course = course
        self._made = course.made
        self._operations = operations
        self.skips: dict[tuple[str, int], int] = {}
        """By partition, below which offset somebody has let go of what was not archived yet."""
        self.taken_over: dict[tuple[str, int], int] = {}
        """By partition, where another sink had come before this one began with it."""
        self.broken: list[str] = []

    def acts(self) -> dict[str, Any]:
        """What each step does."""
        return {REWINDS: self._rewind, GROUP_MOVED: self._move_group}

    def beyond(self) -> list[str]:
        """Partitions that are archived beyond their ends, as somebody has set them."""
        known, topics = self._operations.checkpoints(), self._made.broker.topics
        again = {step.given["topic"] for step in self._course.scenario.steps if step.act == "topic again"}
        return [
            f"{topic}-{partition}"
            for topic, partition in self.skips
            if topic in topics
            and topic not in again
            and partition < len(topics[topic].logs)
            and known.get((topic, partition), 0) > topics[topic].logs[partition].end
        ]

    def archived_again(self, places: Iterable[tuple[str, int, int]]) -> list[str]:
        """Which of these another sink had archived before; unless its offsets are no more, or set since."""
        if any(step.act in _FORGETS for step in self._course.scenario.steps):
            return []
        found = (place for place in places if place[2] < self.taken_over.get(place[:2], 0))
        return [f"{place} is archived, and was before this sink began" for place in sorted(found)]

    def _move_group(self, share: float) -> None:
        """Another program commits, for the group of the sink, so great a share of what each partition has.

        A partition that the sink has begun with continues where its ledger has it.
        """
        sink = self._made.settings(self._course.options).sink
        assert sink is not None, "only a sink's group has offsets"
        group, known = self._made.broker.group(sink.group_id), self._operations.checkpoints()
        for topic in self._course.scenario.topics:
            found = self._made.broker.topics.get(topic)
            for partition, log in enumerate(() if found is None else found.logs):
                offset = log.begin + round(share * (log.end - log.begin))
                group.offsets[topic, partition] = (offset, "")
                if (topic, partition) not in known:
                    self._let_go((topic, partition), offset)
                    self.taken_over[topic, partition] = offset
                    if self._course.alive:
                        # It may have begun with what was there before.
                        del self.taken_over[topic, partition]
        self._made.broker.changed.give()

    def _let_go(self, place: tuple[str, int], offset: int) -> None:
        self.skips[place] = max(offset, self.skips.get(place, 0))

    def _rewind(self, offsets: Sequence[Sequence[Any]]) -> None:
        self._operations.repeats += 1
        self._operations.steered(partial(self._alter, offsets))

    def _alter(self, offsets: Sequence[Sequence[Any]], port: Any) -> None:
        """All of them are set, as asked, or none."""
        wanted = {
            TopicPartition(topic, partition): self._offset(topic, partition, where)
            for topic, partition, where in offsets
        }
        for place, offset in wanted.items():
            # Whatever is answered: it may be carried out.
            self._let_go((place.topic, place.partition), offset or 0)
        before = self._operations.checkpoints()
        try:
            port.alter(wanted)
        except InvalidOffsets as error:
            if self._operations.steers_alone and self._operations.checkpoints() != before:
                self.broken.append(f"offsets were changed, and it was refused: {error}")
            raise
        now = self._operations.checkpoints()
        meant = before | {place: offset for place, offset in wanted.items() if offset is not None}
        left = {place: offset for place, offset in wanted.items() if offset is None}
        differ = {place: offset for place, offset in meant.items() if place not in left}
        if self._operations.steers_alone and any(now.get(place) != one for place, one in differ.items()):
            self.broken.append(f"offsets were to be {differ}, and are {now}")

    def _offset(self, topic: str, partition: int, where: str) -> int | None:
        found = self._made.broker.topics.get(topic)
        if found is None or partition >= len(found.logs):
            return None if where == "none" else 1
        log = found.logs[partition]
        places = {
            "begin": log.begin,
            "middle": (log.begin + log.end) // 2,
            "end": log.end,
            "above": log.end + _ABOVE,
            "far": _FAR,
        }
        return places.get(where)
