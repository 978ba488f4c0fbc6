"""Runs a scenario of the sink, and gives back what came of it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tests.simulation.apart import LOG_CUT
from tests.simulation.archive_rows import Row, rows_in, rows_of
from tests.simulation.bare_nulls import bare_rows, is_bare
from tests.simulation.broker import Record, is_visible
from tests.simulation.course import Course, Ended, run_course
from tests.simulation.environment import Environment, Instance, environment
from tests.simulation.hidden_names_run import HiddenNames
from tests.simulation.late_topics_run import LateTopics
from tests.simulation.moved_offsets import MovedOffsets
from tests.simulation.operations import Operations
from tests.simulation.scenario import Given, Scenario
from tests.simulation.sink_generator import BUCKET, LETTERS, SECOND

Place = tuple[str, int, int]
_HELD_SECONDS: Final = 5.0
_BY_TIME: Final = frozenset({"rotate.age.ms", "rotate.schedule.ms"})
"""With one of these no record waits for others."""
_BY_TIME_SHARE: Final = 0.5
_BY_TIME_SECONDS: Final = 120.0
_ABSENT_SECONDS: Final = 60.0


@dataclass
class Outcome(Ended):
    """What a run has come to."""

    rows: list[Row] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    """By bucket and key, where rows are those of another vendor's layout."""
    uploads: dict[str, bytes] = field(default_factory=dict)
    """Likewise, of parts that were not completed."""
    foreign: set[str] = field(default_factory=set)
    """Names, likewise, that another program has taken."""
    letters: list[Record] = field(default_factory=list)
    expected: dict[Place, Given] = field(default_factory=dict)
    """What a reader of the topics gets, by its place."""
    earlier: list[tuple[Place, Given]] = field(default_factory=list)
    """What readers of topics got that were deleted since."""
    repeats: int = 0
    """How often an operator has asked for records again."""
    skips: dict[tuple[str, int], int] = field(default_factory=dict)
    """By partition, below which offset somebody has let go of what was not archived yet."""
    ended_uploads: bool = False
    set_aside: set[Place] = field(default_factory=set)
    """Rows of uploads whose names another program's objects have."""
    foreign_changed: list[str] = field(default_factory=list)
    deleted: dict[Place, bool] = field(default_factory=dict)
    """Records that retention took, and whether their partition had a checkpoint then."""
    cut_off: dict[Place, Given] = field(default_factory=dict)
    """Records that a new leader did not have."""
    cut_below: set[tuple[str, int]] = field(default_factory=set)
    """Partitions whose log was cut off below what was archived of them."""
    cut_unread: set[tuple[str, int]] = field(default_factory=set)
    """Those that have grown to just what is archived of them again, and of which no slot has read since."""
    deleted_with_topic: set[Place] = field(default_factory=set)
    """Records of partitions that had a checkpoint when their topic was deleted."""
    said_made_again: set[tuple[str, int]] = field(default_factory=set)
    """Partitions of which a log line says that their topic was made again."""
    said_lost: set[Place] = field(default_factory=set)
    """Offsets of which a log line says that they were deleted before they were read."""


def letter_places(letters: Sequence[Record]) -> list[Place]:
    """Where dead letters come from."""
    places = []
    for letter in letters:
        named = {
            name.rpartition(".")[2]: value
            for name, value in letter.headers
            if name.startswith("__connect.errors.")
        }
        place = named.get("topic"), named.get("partition"), named.get("offset")
        if all(one is not None for one in place):
            topic, partition, offset = (one.decode() for one in place if one is not None)
            places.append((topic, int(partition), int(offset)))
    return places


def run_sink(scenario: Scenario, *, calm: bool = False, seed: int | None = None) -> Outcome:
    """Run it; `calm`: the same records with nothing that goes wrong, cut elsewhere."""
    outcome = Outcome()
    with environment(scenario.seed if seed is None else seed) as made:
        run_course(made, _SinkCourse(made, scenario, outcome, calm=calm))
    return outcome


class _SinkCourse(Course):
    """Records come, and are archived."""

    data = ("produce",)

    def __init__(self, made: Environment, scenario: Scenario, outcome: Outcome, *, calm: bool) -> None:
        super().__init__(made, scenario, outcome, calm=calm)
        self._outcome = outcome
        self._operations = Operations(self)
        self._moved = MovedOffsets(self, self._operations)
        self._late = LateTopics(self, self._operations)
        self._hidden = HiddenNames(self, self._operations, self._waiting)
        self._earlier: list[tuple[Place, Given]] = []
        self._produced: list[tuple[str, int, Record, Given]] = []
        self.options["buffer.dir"] = str(made.folder / "buffer")
        self.last_options = {"rotate.on.stop": "true"}

    def prepare(self) -> None:
        """See Course."""
        self.made.bucket.make(BUCKET)
        self.made.bucket.make(SECOND)
        for name in self._late.prepare():
            self.made.broker.create(name, self.scenario.topics[name])
        self.made.broker.create(LETTERS, 1)

    def start(self, **changes: str) -> Instance:
        """See Course."""
        self._late.begun()
        return super().start(**changes)

    def _do_the_rest(self) -> None:
        self._late.begun()
        super()._do_the_rest()

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        operations = self._operations.acts()
        own: dict[str, Callable[..., None]] = {
            "produce": self._produce,
            "topic again": self._topic_again,
            LOG_CUT: self._cut_log,
        }
        return {
            **super().acts(),
            **operations,
            **self._moved.acts(),
            **self._hidden.acts(),
            **self._late.acts(),
            **own,
        }

    def _cut_log(
        self, topic: str, share: float, again: float, seconds: float, *, marker: bool = False
    ) -> None:
        """A partition's new leader lacks the end of its log; what is lost is sent again in another order.

        First there may be a marker, of a transaction whose records are lost.
        """
        broker, kernel = self.made.broker, self.made.kernel
        if topic not in broker.topics:
            return
        partition = kernel.rng.randrange(len(broker.topics[topic].logs))
        log = broker.log(topic, partition)
        if log.stable_end() != log.end or not log.records:
            # Transactions end with their producers, which is not looked at here.
            return
        cut = log.end - round(share * (log.end - log.begin))
        # What was aborted no reader has got.
        places = [one for one in self._visible(topic) if one[0][1] == partition and one[0][2] >= cut]
        lost = [one for one in self._produced if one[:2] == (topic, partition) and one[2].offset >= cut]
        self._produced = [one for one in self._produced if one not in lost]
        self._earlier += places
        self._outcome.cut_off.update(places)
        offset = self._operations.checkpoints().get((topic, partition), 0)
        if offset > cut and any(one.offset < offset for one in log.records):
            self._outcome.cut_below.add((topic, partition))
        log.cut_off(cut)
        if marker:
            log.append(Record(0, None, None, (), round(kernel.now * 1000), is_marker=True))
        broker.changed.give()
        kernel.sleep(seconds)
        # Rows of other vendors' layouts are told apart by what they have: these are others.
        begin = max(step.given["end"] for step in self.scenario.steps if step.act == "produce")
        others = [replace(one, topic=topic, partition=partition) for one in self.scenario.records[begin:]]
        sent = others or [given for *_, given in lost[::-1]] * 3
        for one in sent[: round(again * len(lost))]:
            if topic in broker.topics:
                record = Record(0, one.key, one.value, one.headers, one.timestamp_ms)
                broker.produce(topic, partition, record)
                self._produced.append((topic, partition, record, one))

    def _topic_again(self, topic: str) -> None:
        found = self._visible(topic)
        self._earlier += found
        known = self._operations.checkpoints()
        self._outcome.deleted_with_topic.update(place for place, _ in found if place[:2] in known)
        self._produced = [one for one in self._produced if one[0] != topic]
        self._operations.acts()["topic again"](topic)

    def _visible(self, topic: str) -> list[tuple[Place, Given]]:
        """What a reader gets of a topic."""
        reads_all = self.options.get("consumer.override.isolation.level") == "read_uncommitted"
        return [
            ((name, partition, record.offset), given)
            for name, partition, record, given in self._produced
            if name == topic and (reads_all or is_visible(record))
        ]

    def _produce(self, begin: int, end: int, how: str) -> None:
        broker, kernel = self.made.broker, self.made.kernel
        running = None
        if how != "plain":
            epoch = broker.initialise("load")
            running = broker.transaction("load", epoch)
        for one in self.scenario.records[begin:end]:
            record = Record(0, one.key, one.value, one.headers, one.timestamp_ms)
            broker.produce(one.topic, one.partition, record, running)
            self._produced.append((one.topic, one.partition, record, one))
        self._late.produced()
        if running is None:
            return
        if how == "held" and not self.calm:
            kernel.sleep(_HELD_SECONDS)
        if how == "aborted":
            broker.abort("load", epoch)
        else:
            broker.commit("load", epoch)

    def rest(self) -> None:
        """See Course. What closes by time is archived while the sink runs."""
        super().rest()
        is_looked_at = random.Random(f"by-time-{self.scenario.seed}").random() < _BY_TIME_SHARE
        if not (is_looked_at and _BY_TIME & self.options.keys()):
            return
        # Slots that Spark does not begin are known for absent after a minute each.
        late = sum(step.given["count"] for step in self.scenario.steps if step.act == "starts late")
        seconds = _BY_TIME_SECONDS + _ABSENT_SECONDS * late
        deadline = self.made.kernel.now + seconds
        while self.are_running() and not self.problems() and (waiting := self._waiting()):
            if self.made.kernel.now > deadline:
                self.ended.failures.append(f"{seconds:.0f} s were not enough to archive {waiting}")
                return
            self.made.kernel.sleep(1.0)

    def _waiting(self) -> list[str]:
        """The last record of each partition that no checkpoint has passed."""
        known, found = self._operations.checkpoints(), {}
        for name in self.scenario.topics:
            for (topic, partition, offset), _ in self._visible(name):
                if (
                    topic in self.made.broker.topics
                    and offset >= self.made.broker.log(topic, partition).begin
                ):
                    found[topic, partition] = offset
        return [f"{place}: {offset}" for place, offset in found.items() if known.get(place, 0) <= offset]

    def collect(self) -> None:
        """See Course."""
        super().collect()
        made, outcome = self.made, self._outcome
        for name in self.scenario.topics:
            outcome.expected |= dict(self._visible(name))
        outcome.earlier = self._earlier
        if any(step.act == "starts late" for step in self.scenario.steps):
            known = self._operations.checkpoints()
            # Or what was committed later had been read before.
            cut = outcome.cut_below | {(topic, partition) for topic, partition, _ in outcome.cut_off}
            outcome.cut_unread = {at for at in cut if at in known and made.broker.log(*at).end <= known[at]}
        outcome.repeats, outcome.said = self._operations.repeats, self._operations.said
        outcome.skips = self._moved.skips | self._late.skips
        outcome.shown += [("once", sentence) for sentence in self._moved.broken]
        outcome.shown += self._hidden.broken
        if outcome.ending == "exit 0":
            beyond = "is archived beyond its end, and the sink has ended well"
            outcome.shown += [("shown = true", f"{name} {beyond}") for name in self._moved.beyond()]
        outcome.ended_uploads = self._operations.ended_uploads
        outcome.letters = made.broker.visible(LETTERS, 0)
        outcome.deleted = self._operations.deleted
        outcome.said_lost = {
            (line["topic"], line["partition"], offset)
            for _, _, event, line in made.log
            if event == "offsets_lost"
            for offset in range(line["first"], line["end"])
        }
        warnings = [line["warning"] for _, _, event, line in made.log if event == "archive_warned"]
        outcome.said_made_again = {
            (name, partition)
            for name, partitions in self.scenario.topics.items()
            for partition in range(partitions + len(self.scenario.steps))
            if any(f"another cluster: {name}-{partition} begins" in warning for warning in warnings)
        }
        outcome.foreign_changed = self._operations.foreign_changed()
        if self.scenario.direction == "layouts":
            self._collect_objects()
            return
        for one in made.bucket.uploads.values():
            if (one.bucket, one.key) in self._operations.foreign and one.parts:
                rows = rows_in(one.key, one.body())
                outcome.set_aside.update((row.topic, row.partition, row.offset) for row in rows)
        outcome.rows = self._rows()
        archived = {(row.topic, row.partition, row.offset) for row in outcome.rows}
        outcome.shown += [("once", sentence) for sentence in self._moved.archived_again(archived)]

    def _rows(self) -> list[Row]:
        """All rows of both buckets."""
        bucket, outcome = self.made.bucket, self._outcome
        if not is_bare(self.scenario):
            return [*rows_of(bucket, BUCKET), *rows_of(bucket, SECOND)]
        letters = set(letter_places(outcome.letters))
        return list(
            bare_rows(bucket.objects[BUCKET], self.options["value.converter"], outcome.expected, letters)
        )

    def _collect_objects(self) -> None:
        """What is in the buckets, for readers of other vendors' layouts."""
        bucket, foreign, outcome = self.made.bucket, self._operations.foreign, self._outcome
        outcome.objects = {
            f"{where}/{key}": stored.body
            for where in (BUCKET, SECOND)
            for key, stored in bucket.objects[where].items()
            if (where, key) not in foreign
        }
        outcome.foreign = {f"{where}/{key}" for where, key in foreign}
        outcome.uploads = {
            f"{one.bucket}/{one.key}": one.body() for one in bucket.uploads.values() if one.parts
        }
