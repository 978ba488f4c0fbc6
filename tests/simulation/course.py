"""The course of a run: processes are started, and what goes wrong goes wrong, step by step."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.apart import CUT_OFF, DISK_BROKEN, DISK_FULL, NO_FILES
from tests.simulation.asked import said_in_error
from tests.simulation.environment import Environment, Instance
from tests.simulation.kernel import Process
from tests.simulation.scenario import Scenario
from tests.simulation.shown import Said, Shown
from tests.simulation.sink_generator import LETTERS

_NUMBERS: Final = itertools.count(1)
_AWAIT_SECONDS: Final = 6.0
_MOMENT_SECONDS: Final = 0.001
_STOP_SECONDS: Final = 60.0
DAY_SECONDS: Final = 86_400.0
# Three tasks one after the other, each of which Spark begins late, and what there is to do besides.
_END_SECONDS: Final = 1_800.0
_LOOK_SECONDS: Final = 0.5
_LATE: Final = (0.0, 0.2, 0.5, 0.5)
_ASK_SECONDS: Final = 60.0
_ASKED: Final = 3
"""One of so many runs ends with questions, which cost a tenth of it."""
_REST_SECONDS: Final = 3.0
"""So long, at most, the last instance but one works on when all is well again."""


@dataclass
class Ended:
    """What any run has come to."""

    ending: str | None = None
    """How its last part, until nothing is left to do, ended; None: it did not."""
    history: list[tuple[float, str, str, str]] = field(default_factory=list)
    problems: tuple[str, ...] = ()
    crashes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    log: list[Any] = field(default_factory=list)
    turns: int = 0
    seconds: float = 0.0
    is_stuck: bool = False
    silent: float = 0.0
    """The longest time in which nothing moved at the end, and nothing was said."""
    said: list[str] = field(default_factory=list)
    """How operations were refused."""
    shown: list[Said] = field(default_factory=list)
    """What was shown, and was not so; and what went beyond its bound."""


class Course:
    """One run. A subclass says what there is at its beginning, and what steps of its own do.

    `calm`: nothing goes wrong; only what it names as its data happens.
    """

    data: tuple[str, ...] = ()
    """Steps that also happen in a calm run."""
    topics: tuple[str, ...] = ()
    """Where its records come, unless it is a topic of the scenario."""
    has_commands = True
    """Whether `status` and `plan` take its options."""
    last_options: Mapping[str, str] = {}
    """What the last part has besides: it leaves nothing open."""

    def __init__(self, made: Environment, scenario: Scenario, ended: Ended, *, calm: bool) -> None:
        self.made = made
        self.scenario = scenario
        self.ended = ended
        self.calm = calm
        self.instances: list[Instance] = []
        self.last_ended = 0.0
        """When its last part was over: commands may be asked after it."""
        self._stopped: list[Process] = []
        self._cuts: list[Process] = []
        self._shown = Shown(made, self.topics or tuple(scenario.topics), scenario, LETTERS)
        number = next(_NUMBERS)
        self.options = dict(scenario.options) | {
            # Clients are kept by their properties: those of an earlier run are none of this one's.
            "bootstrap.servers": f"broker-{number}:9092",
            "aws.s3.endpoint": f"http://s3-{number}",
            "state.dir": str(made.folder / "state"),
        }

    def prepare(self) -> None:
        """Make what is there before the first step."""
        raise NotImplementedError

    def acts(self) -> dict[str, Callable[..., None]]:
        """What each step does."""
        return {
            "start": self._start_if_none,
            "wait": lambda: None,
            "second": self._start_second,
            "kill": self._kill,
            "kill worker": self._kill_worker,
            "stop": self._stop,
            "pause": self._pause,
            "pause worker": self._pause_worker,
            "pause workers": lambda seconds: self._stop_for(self._workers(), seconds),
            "pause leader": self._pause_leader,
            "kill leader": self._kill_leader,
            "executor lost": self._executor_lost,
            "await": self._await,
            "broker away": self._broker_away,
            "token away": self._token_away,
            CUT_OFF: self._cut_off,
            "commit unanswered": self._commit_unanswered,
            "s3": self._s3,
            "s3 away": self._s3_away,
            "clock": self._clock,
            "registry": self._registry,
            DISK_FULL: self._fill_disks,
            DISK_BROKEN: self._break_disks,
            NO_FILES: self._use_up_descriptors,
        }

    def _fill_disks(self, seconds: float) -> None:
        """Local disks have no room for so long."""
        self.made.kernel.disk_full_until = self.made.kernel.now + seconds

    def _break_disks(self, seconds: float) -> None:
        """Local disks cannot be read either."""
        self.made.kernel.disk_broken_until = self.made.kernel.now + seconds

    def _use_up_descriptors(self, seconds: float) -> None:
        """No process may open a file or a connection for so long."""
        self.made.kernel.no_files_until = self.made.kernel.now + seconds

    def stop_all(self) -> None:
        """Ask every process to stop, and kill what has not within a minute."""
        kernel = self.made.kernel
        for one in self.alive:
            one.stop.ask("the operator")
        deadline = kernel.now + _STOP_SECONDS
        while self.alive and kernel.now < deadline:
            kernel.sleep(0.5)
        for one in self.alive:
            one.kill()

    def pass_days(self, days: int) -> None:
        """Nothing runs for so long. A run is given up after some hours, which these are no part of."""
        self.stop_all()
        self.made.kernel.end += days * DAY_SECONDS
        self.made.kernel.sleep(days * DAY_SECONDS)

    def run(self) -> None:
        """Body of the operator."""
        self.prepare()
        acts = self.acts()
        for step in self.scenario.steps:
            if not self.calm:
                self.made.kernel.sleep(step.after)
            if not self.calm or step.act in self.data:
                acts[step.act](**step.given)
        self._finish()

    def collect(self) -> None:
        """Note what the run has come to."""
        made, ended = self.made, self.ended
        ended.crashes = [f"{type(error).__name__}: {error}" for _, error in made.crashes]
        ended.failures += [
            f"{actor.process.name}/{actor.name}: {type(error).__name__}: {error}"
            for actor, error in made.kernel.failures
        ]
        ended.history, ended.log = made.bucket.history, made.log
        ended.turns, ended.seconds = made.kernel.turns, made.kernel.now - 1000.0
        ended.shown += self._shown.broken.values()
        ended.is_stuck = made.kernel.stuck is not None

    @property
    def alive(self) -> list[Instance]:
        """The instances that run."""
        return [one for one in self.instances if not one.is_over]

    def _start_if_none(self) -> None:
        if not self.alive:
            self.start()

    def _start_second(self) -> None:
        # A leader and a standby.
        if len(self.alive) <= 1:
            self.start()

    def _kill(self) -> None:
        for one in self.alive[:1]:
            one.kill()

    def _kill_worker(self) -> None:
        workers = self._workers()
        if workers:
            self.made.kernel.kill(self.made.kernel.rng.choice(workers))

    def _workers(self) -> list[Process]:
        return [
            worker
            for one in self.alive
            for worker in self.made.workers.get(one.process, ())
            if not worker.is_dead
        ]

    def _stop(self) -> None:
        for one in self.alive[:1]:
            one.stop.ask("the operator")

    def _broker_away(self, seconds: float) -> None:
        self.made.network.down_until = self.made.kernel.now + seconds
        self.made.broker.elect()

    def _cut_off(self, seconds: float, of: str = "all") -> None:
        """An instance with its tasks, or one of the tasks alone: an executor on a machine of its own."""
        if of == "task":
            for worker in self._workers()[-1:]:
                self._cut(worker, seconds)
            return
        for one in self.alive[:1]:
            self._cut(one.process, seconds)

    def _cut(self, process: Process, seconds: float) -> None:
        """What it starts is on its network."""
        now = self.made.kernel.now
        if process.cut_until <= now:
            process.cut_from = now
        process.cut_until = max(process.cut_until, now + seconds)
        self._cuts.append(process)

    def _end_cuts(self) -> None:
        """Everyone reaches the brokers; what is shown has some time from now on to become true."""
        network, now = self.made.network, self.made.kernel.now
        network.down_until = min(network.down_until, now)
        for process in self._cuts:
            process.cut_until = min(process.cut_until, now)

    def _token_away(self, seconds: float) -> None:
        """Who makes a client has no token to log in with."""
        self.made.network.no_token_until = self.made.kernel.now + seconds

    def _commit_unanswered(self, count: int) -> None:
        self.made.network.lose_answers += count

    def _s3(self, kind: str, count: int) -> None:
        self.made.bucket.weather.failing[kind] = count

    def _s3_away(self, seconds: float) -> None:
        self.made.bucket.weather.down_until = self.made.kernel.now + seconds

    def _registry(self, seconds: float, status: int) -> None:
        self.made.registry.down_until = self.made.kernel.now + seconds
        self.made.registry.status = status

    def _clock(self, ms: int, *, tasks: bool = False) -> None:
        """The clocks of processes are moved; those of tasks as well, or they are on other machines."""
        for process in [*(one.process for one in self.alive), *(self._workers() if tasks else ())]:
            process.wall_skew_ms += ms

    def start(self, **changes: str) -> Instance:
        """A new instance."""
        found = Instance(self.made, self.options | changes)
        self.instances.append(found)
        return found

    def _pause(self, seconds: float) -> None:
        if not self.alive:
            return
        one = self.alive[0]
        workers = (worker for worker in self.made.workers.get(one.process, ()) if not worker.is_dead)
        self._stop_for([one.process, *workers], seconds)

    def _pause_worker(self, seconds: float) -> None:
        """A worker stops so long that its slot is given to another one, and comes back."""
        workers = self._workers()
        if workers:
            self._stop_for([self.made.kernel.rng.choice(workers)], seconds)

    def _pause_leader(self, seconds: float) -> None:
        """It stops without its tasks, so long that another one takes the lead."""
        if self.alive:
            self._stop_for([self.alive[0].process], seconds)

    def _kill_leader(self, seconds: float) -> None:
        """It dies without its tasks, which hear of it, and are stopped, only after a time."""
        for one in self.alive[:1]:
            self._stop_for(self._workers(), seconds)
            self.made.kernel.kill(one.process)

    def _executor_lost(self, seconds: float) -> None:
        """Spark gives a task up, which stops for a time and then works on."""
        workers = self._workers()
        in_transaction = self.made.broker.begun().values()
        workers = [one for one in workers if one in in_transaction] or workers
        if workers:
            worker = self.made.kernel.rng.choice(workers)
            self._stop_for([worker], seconds)
            self.made.kernel.lose(worker)

    def _await(self, what: str) -> None:
        """Wait until this has begun, as far as it does soon."""
        kernel, made = self.made.kernel, self.made
        is_so: Callable[[], bool] = {
            "transaction": lambda: bool(made.broker.begun()),
            "another transaction": lambda: any(made.broker.begun()),
            "task": lambda tasks=made.begun_tasks: made.begun_tasks > tasks,  # type: ignore[misc]  # as default
            "object": lambda: any(made.bucket.objects.values()),
            "action": lambda calls=made.bucket.actions: made.bucket.actions > calls,  # type: ignore[misc]  # same
        }[what]
        deadline = kernel.now + _AWAIT_SECONDS
        given = made.bucket.acted if what == "action" else kernel.begun
        while not is_so() and kernel.now < deadline:
            given.wait(deadline - kernel.now)
        # A moment in which it goes on.
        kernel.sleep(_MOMENT_SECONDS * kernel.rng.random())

    def _stop_for(self, processes: Sequence[Process], seconds: float) -> None:
        kernel = self.made.kernel
        for process in processes:
            kernel.stop(process)
        self._stopped += processes

        def resume() -> None:
            kernel.sleep(seconds)
            for process in processes:
                kernel.go_on(process)

        kernel.spawn(kernel.process("operator", is_prompt=True), resume, "resume")

    # -- the end ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """End faults and instances, then have whatever is left done."""
        made, kernel = self.made, self.made.kernel
        made.registry.down_until = kernel.disk_full_until = kernel.disk_broken_until = 0.0
        kernel.no_files_until = 0.0
        made.network.no_token_until = 0.0
        made.bucket.weather.down_until = made.queue.down_until = 0.0
        made.network.lose_answers = 0
        self._end_cuts()
        made.bucket.weather.failing.clear()
        made.bucket.listings_lack = frozenset()
        made.bucket.weather.forbidden.clear()
        made.bucket.weather.denied.clear()
        made.bucket.weather.failing_until.clear()
        made.bucket.weather.hidden_until.clear()
        for refused in (made.broker.denied, made.broker.hidden, made.broker.leaderless):
            refused.clear()
        made.broker.changed.give()
        for process in self._stopped:
            kernel.go_on(process)
        if not self.calm:
            self.rest()
        for one in self.alive:
            one.stop.ask("the end")
        deadline = kernel.now + 120.0
        while self.alive and kernel.now < deadline:
            kernel.sleep(_LOOK_SECONDS)
        for one in self.alive:
            self.ended.failures.append("an instance did not stop within two minutes")
            one.kill()
        self._do_the_rest()
        if (
            self.has_commands
            and self.scenario.seed % _ASKED == 0
            and self.ended.ending in ("exit 0", "exit 5")
        ):
            self._ask_commands()
        kernel.end = kernel.now

    def rest(self) -> None:
        """What runs has some time without faults, before it is stopped."""
        self.made.kernel.sleep(_REST_SECONDS * self.made.kernel.rng.random())

    def are_running(self) -> bool:
        """Whether there are instances, and none is stopped: a pause lasts where a kill has cut it short."""
        found = [one.connector for one in self.alive if one.connector is not None]
        return bool(found) and all(one.snapshot_holder.snapshot.target == "running" for one in found)

    def problems(self) -> tuple[str, ...]:
        """What instances that run show as their problems."""
        found = (one.connector for one in self.alive if one.connector is not None)
        return tuple(text for one in found for text in one.snapshot_holder.snapshot.problems.values())

    def _ask_commands(self) -> None:
        """Ask `status` and `plan`, in a process of their own, as a person does."""
        kernel = self.made.kernel
        is_over: list[bool] = []

        def ask() -> None:
            self.ended.shown += said_in_error(self)
            is_over.append(True)

        kernel.spawn(kernel.process("command"), ask, "command")
        deadline = kernel.now + _ASK_SECONDS
        while not is_over and kernel.now < deadline:
            kernel.sleep(_LOOK_SECONDS)
        if not is_over:
            self.ended.failures.append("`status` and `plan` have not ended within a minute")

    def _do_the_rest(self) -> None:
        kernel, ended = self.made.kernel, self.ended
        last = Instance(self.made, self.options | dict(self.last_options), until_idle=True)
        deadline = kernel.now + _END_SECONDS
        moved, ends = kernel.now, 0
        while not last.is_over and kernel.now < deadline:
            kernel.sleep(_LOOK_SECONDS)
            if last.connector is not None:
                ended.problems = tuple(last.connector.snapshot_holder.snapshot.problems.values())
            found = sum(log.end for topic in self.made.broker.topics.values() for log in topic.logs)
            if found != ends or ended.problems:
                moved, ends = kernel.now, found
            ended.silent = max(ended.silent, kernel.now - moved)
        ended.ending, self.last_ended = last.ending, kernel.now
        self._shown.end(last)


def run_course(made: Environment, course: Course) -> None:
    """Run it to its end."""
    kernel = made.kernel
    kernel.lateness = kernel.rng.choice(_LATE)
    kernel.spawn(kernel.process("operator", is_prompt=True), course.run, "operator")
    kernel.run(until=kernel.now + 4 * _END_SECONDS)
    course.collect()
