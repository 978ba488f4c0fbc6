"""The topics of a run that a sink reads by a pattern."""

from collections.abc import Callable
from typing import Final

from tests.simulation.apart import LEADERLESS
from tests.simulation.broker import Record
from tests.simulation.course import Course
from tests.simulation.late_topics import PATTERN, RESET, TOPIC_MADE, has_late_topics
from tests.simulation.operations import Operations

_SURVEYED: Final = frozenset({"partitions_granted", "topics_missing"})
"""Lines by which a leader has looked at the topics that are there."""
_OTHER: Final = "other"
"""No data: the pattern does not mean it."""


class LateTopics:
    """The topics of one run, and what `latest` lets go of: what was there before a topic was first known."""

    def __init__(self, course: Course, operations: Operations) -> None:
        self._course = course
        self._made = course.made
        self._operations = operations
        self._is_latest = course.scenario.options.get(RESET) == "latest"
        steps = course.scenario.steps
        self._leaderless = {step.given["topic"] for step in steps if step.act == LEADERLESS}
        self._old: set[str] = set()
        """Topics that were there when a leader first looked, by which none of them was known."""
        self._lines = 0
        """How many there were in the log when the last process began."""
        self.skips: dict[tuple[str, int], int] = {}
        """By partition, below which offset `latest` lets go of what is there."""

    def acts(self) -> dict[str, Callable[..., None]]:
        """What each step does."""
        return {TOPIC_MADE: self._make}

    def prepare(self) -> list[str]:
        """The topics that are there from the beginning."""
        if not has_late_topics(self._course.scenario):
            return list(self._course.scenario.topics)
        if self._course.options[PATTERN] != ".*":
            self._made.broker.create(_OTHER, 1)
            self._made.broker.produce(_OTHER, 0, Record(0, None, b'{"n":-1}', (), 1_700_000_000_000))
        late = {step.given["topic"] for step in self._course.scenario.steps if step.act == TOPIC_MADE}
        return [name for name in self._course.scenario.topics if name not in late]

    def _make(self, topic: str, partitions: int) -> None:
        self._made.broker.create(topic, partitions)
        if self._is_latest and not self._has_looked():
            self._old.add(topic)

    def _has_looked(self) -> bool:
        """Whether the process that is there has looked at the topics, and leads."""
        has_led = any(event in _SURVEYED for _, _, event, _ in self._made.log[self._lines :])
        return has_led and bool(self._course.alive)

    def _known(self) -> set[str]:
        return {topic for topic, _ in self._operations.checkpoints()}

    def begun(self) -> None:
        """A process begins: topics of which no partition is known to the ledger are old ones to it."""
        self._lines = len(self._made.log)
        if self._is_latest:
            self._old |= {name for name in self._course.scenario.topics if name in self._made.broker.topics}
            self.produced()

    def produced(self) -> None:
        """Records have come: those of topics that are old, and have yet to be looked at, are let go.

        A topic that was empty by then begins at its first record, if no other process looks at it before.
        """
        self._old -= self._known()
        for name in self._old & self._leaderless if self._has_looked() else self._old:
            for partition, log in enumerate(self._made.broker.topics[name].logs):
                self.skips[name, partition] = log.end
