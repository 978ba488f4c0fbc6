"""Runs a scenario of the source, and gives back what came of it."""

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.broker import Record
from tests.simulation.course import Course, Ended, run_course
from tests.simulation.environment import Environment, environment
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Given, Scenario
from tests.simulation.sink_generator import LETTERS
from tests.simulation.source_generator import INCOMING, TOPIC


@dataclass
class SourceOutcome(Ended):
    """What a run has come to."""

    records: list[list[Record]] = field(default_factory=list)
    """By partition."""
    letters: list[Record] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    """Numbers of the objects that nobody has replaced or deleted before they could be read."""
    too_early: list[str] = field(default_factory=list)
    """What was taken from the bucket while rows of it were missing in Kafka."""
    left: dict[str, bytes] = field(default_factory=dict)


def run_source(scenario: Scenario, *, calm: bool = False, seed: int | None = None) -> SourceOutcome:
    """Run it; `calm`: the same objects with nothing that goes wrong."""
    outcome = SourceOutcome()
    with environment(scenario.seed if seed is None else seed) as made:
        run_course(made, _SourceCourse(made, scenario, outcome, calm=calm))
    return outcome


def rows_of_object(given: Given) -> tuple[list[bytes], int]:
    """The good rows of an object, and how many bad ones it has."""
    lines = [line.rstrip(b"\r") for line in (given.value or b"").split(b"\n")]
    good = [line for line in lines if line.startswith(b'{"n"')]
    return good, sum(1 for line in lines if line.strip() and not line.startswith(b'{"n"'))


class _SourceCourse(Course):
    """Objects come, and are ingested."""

    data = ("put", "delete")

    def __init__(self, made: Environment, scenario: Scenario, outcome: SourceOutcome, *, calm: bool) -> None:
        super().__init__(made, scenario, outcome, calm=calm)
        self._outcome = outcome
        self._put: dict[str, int] = {}
        self._touched: set[int] = set()
        made.bucket.on_taken = self._taken

    def prepare(self) -> None:
        """See Course."""
        self.made.bucket.make(INCOMING)
        for name, partitions in self.scenario.topics.items():
            self.made.broker.create(name, partitions)
        self.made.broker.create(LETTERS, 1)

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        return {**super().acts(), "put": self._upload, "delete": self._delete, "queue away": self._queue_away}

    def _upload(self, begin: int, end: int, late: float) -> None:
        made = self.made
        for number in range(begin, min(end, len(self.scenario.records))):
            given = self.scenario.records[number]
            if given.topic in self._put:
                self._touched.add(self._put[given.topic])
            self._put[given.topic] = number
            body = given.value or b""
            body = gzip.compress(body, mtime=0) if given.topic.endswith(".gz") else body
            etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
            stored = StoredObject(body, f'"{etag}"', {}, made.bucket.now_ms())
            made.bucket.put(INCOMING, given.topic, stored, "put")
            made.queue.announce(
                INCOMING, given.topic, etag=etag, size=len(body), after=0.0 if self.calm else late
            )

    def _delete(self, number: int) -> None:
        key = self.scenario.records[number].topic
        if self._put.get(key) is not None:
            self._touched.add(self._put.pop(key))
        self.made.bucket.objects[INCOMING].pop(key, None)

    def _queue_away(self, seconds: float) -> None:
        self.made.queue.down_until = self.made.kernel.now + seconds

    def _taken(self, bucket: str, key: str, stored: StoredObject) -> None:
        """Somebody takes an object away: what it held must be in Kafka by then."""
        number = self._put.get(key)
        if bucket != INCOMING or number is None:
            return
        body = self.scenario.records[number].value or b""
        packed = gzip.compress(body, mtime=0) if key.endswith(".gz") else body
        if packed != stored.body:
            return
        seen = {record.value for partition in self._partitions() for record in partition}
        good, _ = rows_of_object(self.scenario.records[number])
        missing = [row for row in good if row not in seen]
        if missing:
            self._outcome.too_early.append(f"{key} was taken with {len(missing)} of {len(good)} rows missing")

    def _partitions(self) -> list[list[Record]]:
        return [
            self.made.broker.visible(TOPIC, partition) for partition in range(self.scenario.topics[TOPIC])
        ]

    def collect(self) -> None:
        """See Course."""
        super().collect()
        self._outcome.records = self._partitions()
        self._outcome.letters = self.made.broker.visible(LETTERS, 0)
        self._outcome.whole = [number for number in sorted(self._put.values()) if number not in self._touched]
        self._outcome.left = {key: one.body for key, one in self.made.bucket.objects[INCOMING].items()}
