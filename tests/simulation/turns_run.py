"""Runs a scenario of connectors that share the cores of one process, and gives back what came of it."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from headrace.model.errors import HeadraceError
from headrace.process.threads import ThreadFailures, collecting_own, start_thread
from ingest.connect.shared_slots import SharedSlots, SharedSpark
from ingest.service.composition import Connector, RunOptions
from ingest.service.stop import Stop, Stopped
from tests.simulation.archive_rows import rows_of
from tests.simulation.broker import Record, Transaction
from tests.simulation.course import Course, Ended, run_course
from tests.simulation.environment import Environment, environment
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Scenario
from tests.simulation.turns_generator import (
    ARCHIVE,
    INCOMING,
    ROWS,
    SOURCE,
    configurations,
    topic_of,
)
from tests.simulation.turns_stories import ALLOW, LONG_AGE, LOOK, MAKE, RATE, REFUSE
from tests.simulation.worker_processes import SimulatedJvm, workers_of

Place = tuple[str, int, int, str]
"""Topic, partition and offset, and what its value holds: a topic that is made again has the offsets again."""
_STARTUP_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 1.0
_TURN_SECONDS: Final = 45.0
"""How long another connector keeps a core at most that one waits for: a turn, and its end."""
_SPARE_SECONDS: Final = 60.0
_QUIET_SECONDS: Final = 60.0
_DEFAULT_AGE_SECONDS: Final = 150.0
"""In so long what has no age by its options is written, by the default's, and all turns are over."""
_SAID_SECONDS: Final = 180.0
_DONE_SECONDS: Final = 400.0
_MORE_SECONDS: Final = 10.0
"""So often each sink has one more record, while it is looked whether rows come."""
_READ_TIMES: Final = 4
"""An object that takes longer than a turn is read once more for its last row, and for its end."""
_HANGING: Final = "hanging-"


@dataclass
class TurnsOutcome(Ended):
    """What a run has come to."""

    archived: Counter[Place] = field(default_factory=Counter)
    """How often each record is in an object."""
    expected: set[Place] = field(default_factory=set)
    """What readers of topics get that are still there."""
    earlier: set[Place] = field(default_factory=set)
    """What they got of topics that were deleted, and may be in an object."""
    read: set[Place] = field(default_factory=set)
    """Of these, what slots had read that write what they have at their ends."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows of objects in Kafka."""
    wanted: set[str] = field(default_factory=set)
    """Rows that objects have."""
    late: list[str] = field(default_factory=list)
    """What has an age, and was not archived in time."""
    busy: list[str] = field(default_factory=list)
    """Who has asked for a core without work."""
    unsaid: list[str] = field(default_factory=list)
    """Partitions at open transactions that no problem names."""


def run_turns(scenario: Scenario) -> TurnsOutcome:
    """Run it."""
    outcome = TurnsOutcome()
    with environment(scenario.seed) as made, workers_of(made, int(scenario.options["cores"])):
        run_course(made, _TurnsCourse(made, scenario, outcome))
    return outcome


class _Host:
    """One process with all connectors, each in a thread of its own."""

    def __init__(self, made: Environment, wanted: Mapping[str, Mapping[str, str]]) -> None:
        self._made = made
        self._wanted = wanted
        self.stop = Stop()
        self.ending: str | None = None
        self.connectors: dict[str, Connector] = {}
        self.process = made.kernel.process("host")
        made.kernel.spawn(self.process, self._run, "main")

    @property
    def is_over(self) -> bool:
        """Whether it runs no more."""
        return self.ending is not None or self.process.is_dead

    def kill(self) -> None:
        """Kill -9, with the workers of its slots."""
        self._made.kernel.kill(self.process)
        for worker in self._made.workers.get(self.process, ()):
            self._made.kernel.kill(worker)

    def problems(self) -> list[str]:
        """The sentences of all connectors."""
        snapshots = [one.snapshot_holder.snapshot for one in self.connectors.values()]
        return [sentence for one in snapshots for sentence in one.problems.values()]

    def _run(self) -> None:
        spark = next(iter(map(self._made.settings, self._wanted.values()))).spark
        jvm: Any = SimulatedJvm()
        shared = SharedSpark(spark, name="host", deadline=time.monotonic() + _STARTUP_SECONDS, jvm=jvm)
        shared.start()
        threads = [start_thread(partial(self._live, name, shared), name=name) for name in self._wanted]
        for thread in threads:
            thread.join()
        shared.close()
        self.ending = "exit 0"
        self.kill()

    def _live(self, name: str, shared: SharedSpark) -> None:
        while not self.stop.asked.is_set():
            try:
                self._live_once(name, shared)
            except Stopped:
                return
            except HeadraceError:
                self.stop.asked.wait(_PAUSE_SECONDS)

    def _live_once(self, name: str, shared: SharedSpark) -> None:
        failures, settings = ThreadFailures(), self._made.settings(self._wanted[name])
        connector = Connector(
            settings,
            RunOptions(),
            self.stop,
            slot_source=SharedSlots(shared, settings),
            failures=failures,
            open_ledger=lambda: None,
        )
        self.connectors[name] = connector
        with collecting_own(failures):
            connector.run()
        failures.raise_first()


class _TurnsCourse(Course):
    """Records and objects come, connectors take turns, and things go wrong."""

    has_commands = False

    def __init__(self, made: Environment, scenario: Scenario, outcome: TurnsOutcome) -> None:
        super().__init__(made, scenario, outcome, calm=False)
        self._outcome = outcome
        self._produced: list[tuple[Place, Record]] = []
        self._hanging: dict[str, tuple[Transaction, bool]] = {}

    def prepare(self) -> None:
        """See Course."""
        for bucket in (ARCHIVE, INCOMING):
            self.made.bucket.make(bucket)
        for name, partitions in self.scenario.topics.items():
            self.made.broker.create(name, partitions)
        self.made.broker.create(ROWS, 1)

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        own: dict[str, Callable[..., None]] = {
            "start": self._start_after_stop,
            "produce": self._produce,
            "hang": self._hang,
            "delete": self._delete,
            MAKE: self._make,
            REFUSE: lambda: self.made.bucket.weather.denied.add(ARCHIVE),
            ALLOW: lambda: self.made.bucket.weather.denied.discard(ARCHIVE),
            LOOK: self._look,
        }
        return {**super().acts(), **own}

    def _start_after_stop(self) -> None:
        """One that was asked to stop is waited for."""
        if any(one.stop.asked.is_set() for one in self.alive):
            self.stop_all()
        self._start_if_none()

    def start(self, **changes: str) -> Any:
        """See Course."""
        return self._start_host(closes="closes" in changes)

    def _start_host(self, *, closes: bool) -> _Host:
        wanted = configurations(self.scenario.options, closes=closes)
        for name, options in wanted.items():
            options["bootstrap.servers"] = self.options["bootstrap.servers"]
            options["aws.s3.endpoint"] = self.options["aws.s3.endpoint"]
            options["state.dir"] = str(self.made.folder / f"state-{name}")
            if name != SOURCE:
                options["buffer.dir"] = str(self.made.folder / f"buffer-{name}")
        host: Any = _Host(self.made, wanted)
        self.instances.append(host)
        return host  # type: ignore[no-any-return]  # as an Instance

    # -- data ------------------------------------------------------------------------------------------------

    def _produce(self, begin: int, end: int) -> None:
        made = self.made
        for given in self.scenario.records[begin:end]:
            if given.topic.endswith(".jsonl"):
                body = _padded(given.value or b"")
                etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
                stored = StoredObject(body, f'"{etag}"', {}, made.bucket.now_ms())
                made.bucket.put(INCOMING, given.topic, stored, "put")
                self._outcome.wanted |= {json.loads(line)["row"] for line in body.splitlines()}
            elif given.topic in made.broker.topics:
                self._send(given.topic, given.partition, given.value)

    def _send(
        self, topic: str, partition: int, value: bytes | None, running: Transaction | None = None
    ) -> None:
        record = Record(0, None, value, (), round(self.made.kernel.now * 1000))
        offset = self.made.broker.produce(topic, partition, record, running)
        text = str(json.loads(value or b"{}").get("a"))
        self._produced.append(((topic, partition, offset, text), record))

    def _hang(self, topic: str, *, commits: bool, aborted: int = 0) -> None:
        """A producer begins a transaction, and is not heard of again before the end.

        `aborted` records that it has given up are before that.
        """
        broker, name = self.made.broker, f"{_HANGING}{topic}"
        if topic not in broker.topics or topic in self._hanging:
            return
        epoch = broker.initialise(name)
        for _ in range(aborted):
            self._send(topic, 0, b'{"a":"aborted"}', broker.transaction(name, epoch))
        broker.abort(name, epoch)
        running = broker.transaction(name, epoch)
        # Its timeout has not ended it.
        running.began = float("inf")
        self._send(topic, 0, b'{"a":"held"}', running)
        self._hanging[topic] = (running, commits)

    def _delete(self, topic: str) -> None:
        if topic not in self.made.broker.topics:
            return
        found = self._visible(topic)
        self._outcome.earlier |= found
        if not self._is_disturbed_later() and self._writes_at_end(topic):
            read = self._positions(topic)
            self._outcome.read |= {one for one in found if one[2] < read.get(one[1], 0)}
        self._produced = [one for one in self._produced if one[0][0] != topic]
        self._hanging.pop(topic, None)
        self.made.broker.delete(topic)

    def _make(self, topic: str) -> None:
        """A topic that was deleted is made again."""
        if topic not in self.made.broker.topics:
            self.made.broker.create(topic, self.scenario.topics[topic])

    def _look(self, what: str) -> None:
        """What came by now is done in time; while rows are waited for, sinks always have more to do."""
        kernel, topics = self.made.kernel, [topic for topic, _ in self._aged()]
        seconds = self._seconds_left(reads=what == "rows")
        deadline, more_at = kernel.now + seconds, kernel.now
        looks: dict[str, Callable[[], list[str]]] = {
            "rows": self._missing_rows,
            "full": self._missing_of_full,
            "records": partial(self._missing_records, topics),
        }
        missing = looks[what]
        while (left := missing()) and kernel.now < deadline:
            if what == "rows" and kernel.now >= more_at:
                more_at = kernel.now + _MORE_SECONDS
                for topic in self.scenario.topics.keys() & self.made.broker.topics.keys():
                    self._send(topic, 0, b'{"a":"more"}')
            kernel.sleep(_LOOK_SECONDS)
        self._outcome.late += [f"{one} after {seconds:.0f} s" for one in left]

    def _is_disturbed_later(self) -> bool:
        """Whether a process may die that has read it: what it had is lost with the topic."""
        deleted = next(place for place, step in enumerate(self.scenario.steps) if step.act == "delete")
        return any(step.act in _DEADLY for step in self.scenario.steps[deleted - _NEAR :])

    def _writes_at_end(self, topic: str) -> bool:
        sink = topic.removeprefix(topic_of(""))
        return self.scenario.options.get(f"{sink}.rotate.on.stop") == "true"

    def _positions(self, topic: str) -> dict[int, int]:
        """How far slots have read, by partition, as it is shown."""
        found = {}
        for host in self.alive:
            for connector in getattr(host, "connectors", {}).values():
                sink = connector.snapshot_holder.snapshot.sink
                for one in () if sink is None else sink.partitions:
                    if one.topic == topic and one.position is not None:
                        found[one.partition] = one.position
        return found

    def _visible(self, *topics: str) -> set[Place]:
        """What a reader gets of these."""
        broker = self.made.broker
        stable = {
            (topic, number): log.stable_end()
            for topic in topics
            if topic in broker.topics
            for number, log in enumerate(broker.topics[topic].logs)
        }
        return {
            place
            for place, record in self._produced
            if place[2] < stable.get(place[:2], 0)
            and (record.transaction is None or record.transaction.state == "committed")
        }

    # -- the end ---------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """See Course. Nothing goes wrong or comes any more: what has an age is written, then all rest."""
        self._start_after_stop()
        kernel = self.made.kernel
        topics, seconds = [topic for topic, _ in self._aged()], self._seconds_left(reads=True)
        deadline = kernel.now + seconds
        while (missing := self._missing(topics)) and kernel.now < deadline:
            kernel.sleep(_LOOK_SECONDS)
        self._outcome.late += [f"{one} after {seconds:.0f} s" for one in missing]
        kernel.sleep(_DEFAULT_AGE_SECONDS)
        if not missing:
            begun = self.made.begun_tasks
            kernel.sleep(_QUIET_SECONDS)
            if (tasks := self.made.begun_tasks - begun) > 0:
                self._outcome.busy = [f"{tasks} tasks were begun in {_QUIET_SECONDS:.0f} s without work"]
        deadline = kernel.now + _SAID_SECONDS
        while (unsaid := self._unsaid()) and kernel.now < deadline:
            kernel.sleep(_LOOK_SECONDS)
        self._outcome.unsaid = unsaid

    def _seconds_left(self, *, reads: bool) -> float:
        """In so long what came by now is done: an age, turns; with `reads` also what a source has to read."""
        options = self.scenario.options
        ages = [int(text) / 1000 for _, text in self._aged()]
        seconds = max(ages, default=0.0) + _SPARE_SECONDS
        seconds += _TURN_SECONDS * len(configurations(options, closes=False))
        if reads and SOURCE in options and RATE in options:
            left = self._outcome.wanted - self._rows().keys()
            there = self.made.bucket.objects[INCOMING].values()
            size = sum(len(one.body) for one in there if left) / max(float(options[RATE]), 1.0)
            seconds += _READ_TIMES * size
        return seconds

    def _aged(self) -> Iterator[tuple[str, str]]:
        """The topics whose objects have an age, with that."""
        for name, text in self.scenario.options.items():
            sink, _, option = name.partition(".")
            if option == "rotate.age.ms" and text != LONG_AGE and topic_of(sink) in self.made.broker.topics:
                yield topic_of(sink), text

    def _missing(self, topics: list[str]) -> list[str]:
        return [*self._missing_records(topics), *self._missing_rows()]

    def _missing_records(self, topics: list[str]) -> list[str]:
        left = self._visible(*topics) - self._archived().keys()
        return [f"{place} is not archived" for place in sorted(left)]

    def _missing_of_full(self) -> list[str]:
        """Records that fill objects with those before them in their partition, and are not archived."""
        archived, found = self._archived(), []
        for name, text in self.scenario.options.items():
            sink, _, option = name.partition(".")
            if option == "rotate.records" and topic_of(sink) in self.made.broker.topics:
                there = sorted(self._visible(topic_of(sink)))
                for number in range(self.scenario.topics[topic_of(sink)]):
                    ours = [place for place in there if place[1] == number]
                    found += ours[: len(ours) // int(text) * int(text)]
        return [f"{place} is not archived" for place in found if place not in archived]

    def _missing_rows(self) -> list[str]:
        if SOURCE not in self.scenario.options:
            return []
        left = self._outcome.wanted - self._rows().keys()
        return [f"{len(left)} rows are not in Kafka"] if left else []

    def _unsaid(self) -> list[str]:
        said = " ".join(text for host in self.alive for text in getattr(host, "problems", list)())
        return [
            f"{topic}-0 is at an open transaction, and no problem says so"
            for topic in self._hanging
            if f"{topic}-0 is read up to offset" not in said
        ]

    def _archived(self) -> "Counter[Place]":
        return Counter(
            (row.topic, row.partition, row.offset, str(row.fields["value"].get("a")))
            for row in rows_of(self.made.bucket, ARCHIVE)
        )

    def _rows(self) -> "Counter[str]":
        return Counter(json.loads(one.value or b"{}")["row"] for one in self.made.broker.visible(ROWS, 0))

    def _do_the_rest(self) -> None:
        """Transactions end, and a last process leaves nothing open."""
        broker, kernel = self.made.broker, self.made.kernel
        for running, commits in self._hanging.values():
            (broker.commit if commits else broker.abort)(running.id, running.epoch)
        last: Any = self.start(closes="true")
        deadline = kernel.now + _DONE_SECONDS
        topics, asked_at = list(self.scenario.topics), kernel.now
        while self._missing(topics) and kernel.now < deadline:
            kernel.sleep(_LOOK_SECONDS)
            if kernel.now - asked_at > _SPARE_SECONDS:
                # What only an end closes.
                self._stop_last(last)
                last, asked_at = self.start(closes="true"), kernel.now
        self._stop_last(last)
        self.ended.ending = last.ending or "killed"

    def _stop_last(self, last: Any) -> None:
        self.stop_all()
        if last.ending is None:
            self.ended.failures.append("a process did not stop within a minute")

    def collect(self) -> None:
        """See Course."""
        super().collect()
        outcome = self._outcome
        outcome.archived, outcome.rows = self._archived(), self._rows()
        outcome.expected = self._visible(*self.scenario.topics)


def _padded(body: bytes) -> bytes:
    """Rows as long as they say (`pad`): a scenario that is written down is none."""
    rows = [json.loads(line) for line in body.splitlines()]
    if not any("pad" in row for row in rows):
        return body
    return "\n".join(json.dumps({**row, "pad": "x" * row["pad"]}) for row in rows).encode()


_DEADLY: Final = ("kill", "kill worker", "executor lost", "stop", "broker away")
_NEAR: Final = 2
