"""Runs a scenario of a group of workers, and gives back what came of it."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.kafka.control_records import PAUSE, ConnectorRecord, pause_of
from headrace.kafka.leadership import group_id
from headrace.model.ledger_entry import encode_key
from ingest.connect.worker import Worker
from tests.simulation import web
from tests.simulation.apart import CUT_OFF
from tests.simulation.archive_rows import Row, rows_of
from tests.simulation.broker import Record
from tests.simulation.course import Course, Ended, run_course
from tests.simulation.environment import Environment, environment
from tests.simulation.objects import row_of, rows_of_object
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Scenario
from tests.simulation.sockets import listening
from tests.simulation.worker_generator import (
    ARCHIVE,
    BUCKETS,
    CONFIGS,
    DAMAGING,
    EVENTS,
    GARBAGE,
    GROUP,
    HEALED,
    INCOMING,
    LEADING,
    NAMES,
    PASSED_OVER,
    SECOND,
    SECOND_ARCHIVE,
)
from tests.simulation.worker_processes import WorkerEnvironment, WorkerInstance, workers_of

_FIRST_PORT: Final = 8100
_CLIENT_SECONDS: Final = 250.0
"""As long as a client waits: longer than a worker makes anybody wait."""
_SETTLED_SECONDS: Final = 200.0
_LOOK_SECONDS: Final = 0.5
_GIVES_UP_SECONDS: Final = 20.0
"""So long after a session, in which others can take them, connectors of a worker that is cut off may wait."""
_CHANGE_SECONDS: Final = 10.0
"""In so long a connector has stopped and started, as its options are others."""
_DONE_SECONDS: Final = 240.0
_LINGER_SECONDS: Final = 3.0
_QUIET_SECONDS: Final = 2.0
DAMAGE: Final = "DAMAGE"
"""The method of what is no request: another program writes over the configuration of connector `one`.

Its body is what the ledger says then that the connector is to do.
"""
_DAMAGED_PATH: Final = "/connectors/one"
_DAMAGED_LEDGER: Final = "one-offsets"
_LATE_SECONDS: Final = 30.0


@dataclass(slots=True)
class Asked:
    """A request, and its answer."""

    to: int
    method: str
    path: str
    body: Any
    began: float
    ended: float | None = None
    status: int | None = None
    """None: it was not answered."""
    text: str = ""
    passes: bool = False
    """Whether the answer says that nothing was carried out."""
    error: str = ""

    @property
    def json(self) -> Any:
        """What the answer says; None where it says nothing."""
        try:
            return json.loads(self.text) if self.text else None
        except ValueError:
            return None


@dataclass
class WorkerOutcome(Ended):
    """What a run has come to."""

    asked: list[Asked] = field(default_factory=list)
    """What clients have asked for, in the order in which they began."""
    judged: int = 0
    """How many of these clients have asked before all was well again."""
    refused: list[str] = field(default_factory=list)
    """Requests that ended without an answer, by an error of a worker."""
    unsettled: list[str] = field(default_factory=list)
    """What was not as it has to be when all was well again for minutes."""
    untrue: dict[str, list[str]] = field(default_factory=dict)
    """By connector, what was shown that is not so."""
    states: dict[str, tuple[dict[str, str], str] | None] = field(default_factory=dict)
    """By connector, its configuration and target state at the end; None: there is none."""
    restarted: list[str] = field(default_factory=list)
    """What a change that changes nothing has started again."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows of sources in Kafka, by what they say."""
    archived: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """What is not there in the end, of the connectors that there are."""
    endings: list[str] = field(default_factory=list)
    """How workers ended by themselves."""


def run_worker(scenario: Scenario) -> WorkerOutcome:
    """Run it."""
    outcome = WorkerOutcome()
    with (
        environment(scenario.seed) as made,
        workers_of(made, int(scenario.options.get("cores", "2"))) as group,
    ):
        run_course(made, _WorkerCourse(made, group, scenario, outcome))
    return outcome


class _WorkerCourse(Course):
    """Workers come and go, and are asked for things."""

    has_commands = False

    def __init__(
        self, made: Environment, group: WorkerEnvironment, scenario: Scenario, outcome: WorkerOutcome
    ) -> None:
        super().__init__(made, scenario, outcome, calm=False)
        self._outcome = outcome
        self._group = group
        self._workers_at: dict[int, WorkerInstance] = {}
        self._clients = 0
        self._objects: dict[tuple[str, str], int] = {}
        self._garbage: list[Record] = []
        self._passed_over: dict[bytes, None] = {}
        self._damages: list[Record] = []

    def prepare(self) -> None:
        """See Course."""
        for bucket in BUCKETS:
            self.made.bucket.make(bucket)
        self.made.broker.create(EVENTS, self.scenario.topics[EVENTS])
        for name in ("rows-one", "more-one", "rows-two", "more-two"):
            self.made.broker.create(name, 2)

    def acts(self) -> dict[str, Callable[..., None]]:
        """See Course."""
        return {
            **super().acts(),
            "worker": self._start_worker,
            "kill": self._kill_at,
            "stop": self._stop_at,
            "pause": self._pause_at,
            CUT_OFF: self._cut_off_at,
            "java ends": self._java_ends,
            "ask": self._ask,
            "put": self._put,
            "garbage": self._put_garbage,
            "clean": self._clean,
            "compact": self._compact,
            "starts late": self._starts_late,
        }

    # -- workers ---------------------------------------------------------------------------------------------

    @property
    def alive(self) -> list[Any]:
        """The workers that run."""
        return [one for one in self._workers_at.values() if not one.is_over]

    def _start_worker(self, number: int) -> None:
        if number == LEADING:
            self._supervise()
            return
        before = self._workers_at.get(number)
        if before is not None and not before.is_over:
            return
        self._note_ending(before)
        options = {
            "bootstrap.servers": self.options["bootstrap.servers"],
            "group.id": GROUP,
            "config.storage.topic": CONFIGS,
            "rest.listen": f"127.0.0.1:{_FIRST_PORT + number}",
            "http.listen": "",
            "state.dir": str(self.made.folder / f"state-{number}"),
        }
        if "session.timeout.ms" in self.scenario.options:
            options["session.timeout.ms"] = self.scenario.options["session.timeout.ms"]
        self._workers_at[number] = WorkerInstance(self._group, number, options)

    def _note_ending(self, worker: WorkerInstance | None) -> None:
        if worker is not None and worker.ending is not None:
            self._outcome.endings.append(worker.ending)

    def _at(self, number: int) -> WorkerInstance | None:
        if number == LEADING:
            leads = (one for one in self.alive if one.worker is not None and one.worker._topic.is_leading)
            return next(leads, None)
        worker = self._workers_at.get(number)
        return None if worker is None or worker.is_over else worker

    def _kill_at(self, number: int) -> None:
        worker = self._at(number)
        if worker is not None:
            worker.kill()

    def _stop_at(self, number: int) -> None:
        worker = self._at(number)
        if worker is not None:
            worker.stop.ask("the operator")

    def _pause_at(self, number: int, seconds: float) -> None:
        worker = self._at(number)
        if worker is not None:
            tasks = [one for one in self.made.workers.get(worker.process, ()) if not one.is_dead]
            self._stop_for([worker.process, *tasks], seconds)

    def _cut_off_at(self, number: int, seconds: float) -> None:
        worker = self._at(number)
        if worker is not None:
            self._cut(worker.process, seconds)
            kernel = self.made.kernel
            watcher = kernel.process("operator", is_prompt=True)
            kernel.spawn(watcher, lambda: self._watch_cut(worker), "watch what is cut off")

    def _watch_cut(self, cut: WorkerInstance) -> None:
        """Others run what it ran, once they have been able to take it for some time."""
        kernel = self.made.kernel
        session = int(self.options.get("session.timeout.ms", "10000")) / 1000
        since, able = kernel.now, self._able_to_take(cut)
        while not able or kernel.now < since + session + _GIVES_UP_SECONDS:
            kernel.sleep(_LOOK_SECONDS)
            if cut.is_over or not self._is_cut_alone(cut):
                return
            before, able = able, self._able_to_take(cut)
            if able != before:
                # One that was cut off itself, say, joins its group and leads it first.
                since = kernel.now
        seconds, until = kernel.now - since, kernel.now + _CHANGE_SECONDS
        while left := self._left_by(cut):
            if kernel.now > until:
                self.ended.failures.append(
                    f"{left} of a worker that is cut off run nowhere for {seconds:.0f} s"
                )
                return
            kernel.sleep(_LOOK_SECONDS)
            if cut.is_over or not self._is_cut_alone(cut):
                return

    def _left_by(self, cut: WorkerInstance) -> list[str]:
        """What it hosts and no other does, as far as one leads that knows of it."""
        able = self._able_to_take(cut)
        leads = [one for one in able if one._topic.is_leading]
        taken = {name for one in able for name in one.hosted()}
        own = set() if cut.worker is None else {*cut.worker.hosted()}
        left = sorted(own - taken) if len(leads) == 1 else []
        return [name for name in left if name in leads[0]._records]

    def _able_to_take(self, cut: WorkerInstance) -> list[Worker]:
        """The other workers that reach the brokers and stay; none while no worker of this version leads."""
        if self._garbage:
            return []
        others = [one for one in self.alive if one is not cut and not one.is_ending]
        return [one.worker for one in others if one.worker is not None and self._is_reached(one)]

    def _is_cut_alone(self, cut: WorkerInstance) -> bool:
        kernel = self.made.kernel
        is_cut = cut.process.cut_until > kernel.now and not cut.process.is_stopped
        return is_cut and self.made.network.down_until <= kernel.now and not self._stopped

    def _is_reached(self, worker: WorkerInstance) -> bool:
        return worker.process.cut_until <= self.made.kernel.now

    def _java_ends(self, number: int) -> None:
        worker = self._at(number)
        if worker is not None:
            worker.jvm.kill()
            for task in self.made.workers.get(worker.process, ()):
                self.made.kernel.kill(task)

    def _starts_late(self, count: int) -> None:
        self.made.late_starts += [_LATE_SECONDS] * count

    # -- requests --------------------------------------------------------------------------------------------

    def _ask(self, requests: Sequence[Sequence[Any]], what: str = "") -> None:  # noqa: ARG002  # for readers
        """One client, which sends these one after the other."""
        kernel = self.made.kernel
        self._clients += 1

        def send() -> None:
            try:
                for to, method, path, body in requests:
                    self._request(int(to), str(method), str(path), body)
            finally:
                self._clients -= 1

        kernel.spawn(kernel.process("client", is_prompt=True), send, "client")

    def _request(self, to: int, method: str, path: str, body: Any = None) -> Asked:
        asked = Asked(to, method, path, body, self.made.kernel.now)
        self._outcome.asked.append(asked)
        connection = web.Connection(f"http://127.0.0.1:{_FIRST_PORT + to}", _CLIENT_SECONDS)
        raw = b"" if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, raw, {"Content-Type": "application/json"} if raw else {})
            answer = connection.getresponse()
        except OSError as error:
            asked.error = f"{type(error).__name__}: {error}"
            # Nobody was there to carry it out.
            asked.passes = isinstance(error, ConnectionRefusedError)
        else:
            asked.status, asked.text = answer.status, answer.read().decode()
            asked.passes = answer.getheader("Retry-After") is not None
        asked.ended = self.made.kernel.now
        return asked

    # -- data ------------------------------------------------------------------------------------------------

    def _put(self, begin: int, end: int) -> None:
        made = self.made
        for number in range(begin, min(end, len(self.scenario.records))):
            given = self.scenario.records[number]
            if given.topic == EVENTS:
                partition = given.partition % len(made.broker.topics[EVENTS].logs)
                made.broker.produce(EVENTS, partition, Record(0, None, given.value, (), given.timestamp_ms))
                continue
            body, bucket = given.value or b"", (INCOMING, SECOND)[given.partition]
            etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
            stored = StoredObject(body, f'"{etag}"', {}, made.bucket.now_ms())
            made.bucket.put(bucket, given.topic, stored, "put")
            self._objects[bucket, given.topic] = number

    # -- the configuration topic -----------------------------------------------------------------------------

    def _put_garbage(self, what: str) -> None:
        broker = self.made.broker
        if CONFIGS in broker.topics:
            key, value = GARBAGE[what]
            record = Record(0, key.encode(), None if value is None else value.encode(), (), 0)
            broker.produce(CONFIGS, 0, record)
            if what in DAMAGING:
                now = self.made.kernel.now
                # A transaction that is open may hide it for a time.
                said = self._said_in_ledger()
                lost = Asked(0, DAMAGE, _DAMAGED_PATH, said, now, float("inf"), status=200)
                self._outcome.asked.append(lost)
                self._damages.append(record)
            elif what in PASSED_OVER and value is not None:
                self._passed_over[key.encode()] = None
            elif what not in PASSED_OVER + HEALED:
                self._garbage.append(record)

    def _said_in_ledger(self) -> str:
        """What connector `one` is to do by what its ledger has now, whichever life of it wrote that."""
        broker = self.made.broker
        records = broker.durable(_DAMAGED_LEDGER, 0) if _DAMAGED_LEDGER in broker.topics else []
        said = [one.value for one in records if one.key == encode_key(PAUSE) and one.value is not None]
        found = pause_of({PAUSE: said[-1]} if said else {})
        return "RUNNING" if found is None else found.state.name

    def _clean(self) -> None:
        """An operator has what does not belong there deleted.

        Of what is passed over by its tombstone; what workers stop for is gone when compaction has done it.
        """
        if CONFIGS in self.made.broker.topics:
            for key in self._passed_over:
                self.made.broker.produce(CONFIGS, 0, Record(0, key, None, (), 0))
            self._passed_over.clear()
            self._compact_garbage()

    def _compact_garbage(self) -> None:
        if CONFIGS in self.made.broker.topics:
            log = self.made.broker.topics[CONFIGS].logs[0]
            garbage = set(map(id, self._garbage))
            log.records = [one for one in log.records if id(one) not in garbage]
            self._garbage.clear()
            self.made.broker.changed.give()

    def _compact(self) -> None:
        """The newest record of each key stays, and everything of open transactions."""
        broker = self.made.broker
        if CONFIGS not in broker.topics:
            return
        log = broker.topics[CONFIGS].logs[0]
        stable = log.stable_end()
        newest = {one.key: one for one in log.records if one.offset < stable and _counts(one)}
        log.records = [
            one for one in log.records if one.is_marker or one.offset >= stable or newest.get(one.key) is one
        ]
        broker.changed.give()

    # -- the end ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        made, kernel = self.made, self.made.kernel
        made.bucket.weather.down_until = 0.0
        self._end_cuts()
        made.network.lose_answers = 0
        made.bucket.weather.failing.clear()
        made.late_starts.clear()
        for process in self._stopped:
            kernel.go_on(process)
        # What is passed over may stay.
        self._compact_garbage()
        self._supervise()
        while self._clients:
            kernel.sleep(_LOOK_SECONDS)
        self._delete_damaged()
        self._settle()
        self._outcome.judged = len(self._outcome.asked)
        if not self._outcome.unsettled:
            self._note_states()
            self._change_nothing()
            self._have_all_done()
        for worker in self.alive:
            worker.kill()
        kernel.end = kernel.now

    def _delete_damaged(self) -> None:
        """An operator deletes the connector whose configuration is lost."""
        kernel, key = self.made.kernel, None if not self._damages else self._damages[0].key
        deadline = kernel.now + _SETTLED_SECONDS
        while self._damages and kernel.now < deadline:
            records = [one for one in self.made.broker.topics[CONFIGS].logs[0].records if _counts(one)]
            newest = [one for one in records if one.key == key][-1:]
            if not any(one is damage for one in newest for damage in self._damages):
                return
            self._supervise()
            self._request(0, "DELETE", "/connectors/one")
            kernel.sleep(_LOOK_SECONDS)

    def _settle(self) -> None:
        """Wait until every connector is where it has to be."""
        kernel = self.made.kernel
        deadline, since = kernel.now + _SETTLED_SECONDS, kernel.now
        while kernel.now < deadline:
            self._supervise()
            found = self._unsettled()
            if found:
                since = kernel.now
            elif kernel.now - since >= _QUIET_SECONDS:
                break
            kernel.sleep(_LOOK_SECONDS)
        self._outcome.unsettled = self._unsettled()

    def _supervise(self) -> None:
        """Start what has ended: a start that was refused may have met what was wrong before."""
        for number in range(int(self.scenario.options["workers"])):
            self._start_worker(number)

    def _unsettled(self) -> list[str]:
        """What is not as it has to be."""
        ended = [one.ending for one in self._workers_at.values() if one.is_over]
        if ended:
            return [f"a worker has ended: {ended}"]
        workers = [one.worker for one in self.alive if one.worker is not None]
        if len(workers) < len(self._workers_at):
            return ["a worker has not begun"]
        # One whose JVM has ended, say, answers for some seconds, and its connectors move.
        ending = [one.number for one in self._workers_at.values() if one.is_ending]
        if ending:
            return [f"workers {ending} are about to end"]
        silent = [number for number in self._workers_at if not _listens(number)]
        if silent:
            return [f"workers {silent} do not listen"]
        found = [problem for worker in workers for problem in worker.problems()]
        if self._passed_over:
            found += [
                "a worker shows no record that it passes over"
                for worker in workers
                if worker.overview()["problems"] == worker.problems()
            ]
        leads = [worker for worker in workers if worker._topic.is_leading]
        if len(leads) != 1:
            return [*found, f"{len(leads)} workers lead"]
        records = leads[0]._records
        if any(worker._records != records for worker in workers):
            found.append("workers have other configurations")
        for name in NAMES:
            found += self._unsettled_connector(name, workers, records.get(name))
        return found

    def _unsettled_connector(
        self, name: str, workers: Sequence[Worker], record: ConnectorRecord | None
    ) -> Iterator[str]:
        """What is not as it has to be of one."""
        hosts = [worker for worker in workers if name in worker.hosted()]
        if any(name in worker._hosted._stopping for worker in workers):
            yield f"{name} is still being stopped"
        elif len(hosts) != (0 if record is None else 1):
            yield f"{name} runs on {len(hosts)} workers"
        elif record is not None:
            hosted = hosts[0].hosted()[name]
            # When it was written says nothing: a change may have been taken back at once.
            if (hosted.record.config, hosted.record.created_ms) != (record.config, record.created_ms):
                yield f"{name} runs with another configuration than it has"
            elif hosted.failure is not None:
                yield f"{name} has failed: {hosted.failure}"
            elif hosted.connector is None or hosted.connector.snapshot_holder.snapshot.role != "leader":
                yield f"{name} is not led"
        elif self.made.broker.look(group_id(name)).members:
            yield f"{name} is deleted, and its group has members"

    def _note_states(self) -> None:
        """Ask every worker for everything."""
        outcome = self._outcome
        numbers = sorted(one.number for one in self.alive)
        lists = [self._request(number, "GET", "/connectors").json for number in numbers]
        if any(one != lists[0] for one in lists):
            outcome.untrue["all"] = [f"workers list other connectors: {lists}"]
        for name in NAMES:
            configs = [self._request(number, "GET", f"/connectors/{name}/config") for number in numbers]
            states = [self._request(number, "GET", f"/connectors/{name}/status") for number in numbers]
            found = []
            if any((one.status, one.text) != (configs[0].status, configs[0].text) for one in configs):
                found.append(f"configurations differ: {[(one.status, one.text) for one in configs]}")
            shown = {_state_of(one) for one in states}
            if len(shown) != 1:
                found.append(f"states differ: {sorted(shown)}")
            is_there = any(isinstance(one, list) and name in one for one in lists)
            if is_there is not (configs[0].status == 200):
                found.append(f"listed: {is_there}, and its configuration is {configs[0].status}")
            if found:
                outcome.untrue[name] = found
            config = configs[0].json if configs[0].status == 200 else None
            outcome.states[name] = None if config is None else (config, min(shown))

    def _change_nothing(self) -> None:
        """What is there is put once more, as it is shown: nothing starts again."""
        kernel = self.made.kernel
        before = {name: self._hosted(name) for name in NAMES}
        numbers = [one.number for one in self.alive]
        for name, found in self._outcome.states.items():
            if found is None:
                continue
            path = f"/connectors/{name}/config"
            asked = self._request(kernel.rng.choice(numbers), "PUT", path, found[0])
            if asked.status != 200:
                said = f"{name}: put as it is shown it is {asked.status}: {asked.text}"
                self._outcome.restarted.append(said)
        kernel.sleep(_QUIET_SECONDS)
        for name, hosted in before.items():
            if self._hosted(name) is not hosted:
                self._outcome.restarted.append(f"{name} was started again by a PUT of what it has")

    def _hosted(self, name: str) -> Any:
        found = [one.worker.hosted().get(name) for one in self.alive if one.worker is not None]
        return next((one for one in found if one is not None), None)

    def _have_all_done(self) -> None:
        """Let every connector run, until everything of its bucket or its topic is there."""
        kernel = self.made.kernel
        numbers = [one.number for one in self.alive]
        for name, found in self._outcome.states.items():
            if found is not None:
                self._request(kernel.rng.choice(numbers), "PUT", f"/connectors/{name}/resume")
        deadline = kernel.now + _DONE_SECONDS
        while self._missing() and kernel.now < deadline:
            kernel.sleep(_LOOK_SECONDS)
        kernel.sleep(_LINGER_SECONDS)
        self._outcome.missing = self._missing()

    def _missing(self) -> list[str]:
        """What is not there of the connectors that there are."""
        found: list[str] = []
        rows = self._rows()
        for (bucket, key), number in self._objects.items():
            state = self._outcome.states.get(key.partition("/")[0])
            if state is not None and state[0]["aws.s3.bucket.name"] == bucket:
                good, _ = rows_of_object(self.scenario.records[number])
                if any(rows[row[0]] == 0 for row in good):
                    found.append(f"{bucket}/{key} is not in Kafka")
        if self._outcome.states.get("out") is not None:
            places = {(row.partition, row.offset) for row in self._archived()}
            for partition in range(len(self.made.broker.topics[EVENTS].logs)):
                found += [
                    f"{EVENTS}-{partition} offset {record.offset} is not archived"
                    for record in self.made.broker.visible(EVENTS, partition)
                    if (partition, record.offset) not in places
                ]
        return found

    def _rows(self) -> Counter[str]:
        rows: Counter[str] = Counter()
        broker = self.made.broker
        for topic in ("rows-one", "more-one", "rows-two", "more-two"):
            for partition in range(len(broker.topics[topic].logs)):
                for record in broker.visible(topic, partition):
                    row = row_of(record.value)
                    rows["not a row" if row is None else row[0]] += 1
        return rows

    def _archived(self) -> list[Row]:
        bucket = self.made.bucket
        return [*rows_of(bucket, ARCHIVE), *rows_of(bucket, SECOND_ARCHIVE)]

    def collect(self) -> None:
        """See Course."""
        super().collect()
        outcome = self._outcome
        for worker in self._workers_at.values():
            self._note_ending(worker)
        outcome.refused = self._group.failures
        outcome.rows, outcome.archived = self._rows(), self._archived()
        outcome.ending = "over"


def _listens(number: int) -> bool:
    """Whether a worker of this number takes connections."""
    try:
        listening(_FIRST_PORT + number)
    except ConnectionRefusedError:
        return False
    return True


def _counts(record: Record) -> bool:
    """Whether a reader gets it."""
    return not record.is_marker and (record.transaction is None or record.transaction.state == "committed")


def _state_of(asked: Asked) -> str:
    """The state of a connector in the answer to a question for it."""
    shown: Mapping[str, Any] = asked.json if asked.status == 200 else {}
    return str(shown["connector"]["state"]) if shown else str(asked.status)
