"""Processes of `headrace worker`: the worker's own code, on simulated Kafka, S3, Spark and HTTP."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headrace.model.errors import HeadraceError
from headrace.options import Settings
from headrace.process import threads
from headrace.process.threads import ThreadFailures
from headrace.vendors.load import load
from ingest.connect import other_workers
from ingest.connect import worker as worker_module
from ingest.connect.connector_loading import Loading
from ingest.connect.worker import Worker
from ingest.connect.worker_settings import read_worker
from ingest.http.http_server import Request
from ingest.http.rest.auth import AuthFile
from ingest.http.rest.server import patiently
from ingest.service.spark_startup import SparkStartup
from ingest.service.stop import Stop
from spark.slots import JobFailed
from tests.simulation import patches, web
from tests.simulation.environment import Environment, SimulatedJobs
from tests.simulation.kernel import Process, Signal

_STARTUP_SECONDS: Final = 60.0
_SPARK_SECONDS: Final = (0.1, 3.0)
"""How long Spark takes to start."""


class _Cores(SimulatedJobs):
    """Spark with so many cores and its fair scheduler: a task without one waits."""

    def __init__(self, environment: Environment, driver: Process, cores: int) -> None:
        super().__init__(environment, driver)
        self.slots = cores
        self._free = cores
        self._changed = Signal(environment.kernel)
        self._waiting: dict[str, str] = {}
        """The pool of each job that waits, in the order in which they came."""
        self._at_work: Counter[str] = Counter()

    def run(self, function: Any, *, group: str, pool: str, tasks: int = 1) -> list[str]:
        """See `Jobs.run`."""
        self._waiting[group] = pool
        while group in self._waiting and (self._free <= 0 or self._next() != group):
            self._changed.wait()
        if group not in self._waiting:
            raise JobFailed("the job was cancelled")
        del self._waiting[group]
        self._take(pool, 1)
        try:
            return super().run(function, group=group, pool=pool, tasks=tasks)
        finally:
            self._take(pool, -1)

    def cancel(self, group: str) -> None:
        """See `Jobs.cancel`."""
        if self._waiting.pop(group, None) is not None:
            self._changed.give()
        super().cancel(group)

    def _next(self) -> str:
        """Who gets a core that is free: of the pool with the fewest, then by name, however long others wait.

        As org.apache.spark.scheduler.FairSchedulingAlgorithm has it, of pools without settings of their own.
        """
        return min(self._waiting.items(), key=lambda one: (self._at_work[one[1]], one[1]))[0]

    def _take(self, pool: str, cores: int) -> None:
        self._free -= cores
        self._at_work[pool] += cores
        self._changed.give()


class SimulatedJvm:
    """`spark.jvm.Jvm`: it ends when it is told to."""

    def __init__(self) -> None:
        self._changed = Signal(patches.kernel())
        self.is_dead = False

    def kill(self) -> None:
        """See Jvm."""
        self.is_dead = True
        self._changed.give()

    def discard(self) -> None:
        """See Jvm."""

    def watch(self, is_over: Any) -> bool:
        """See Jvm: whether it has ended before the process is over with it."""
        while not (self.is_dead or is_over.is_set()):
            self._changed.wait(0.5)
        return not is_over.is_set()


class _Collectors:
    """`headrace.process.threads._collectors`, of which each process has its own."""

    def _own(self) -> list[ThreadFailures]:
        process = patches.process()
        found: list[ThreadFailures] = [] if process is None else process.held.setdefault("collectors", [])
        return found

    def append(self, failures: ThreadFailures) -> None:
        """See list."""
        self._own().append(failures)

    def remove(self, failures: ThreadFailures) -> None:
        """See list."""
        self._own().remove(failures)

    def __iter__(self) -> Iterator[ThreadFailures]:
        return iter(self._own())


class WorkerInstance:
    """One process of a worker."""

    connector = None
    """As `Instance`: it runs several."""

    def __init__(self, made: "WorkerEnvironment", number: int, options: Mapping[str, str]) -> None:
        self.made = made
        self.number = number
        self.options = dict(options)
        self.stop = Stop()
        self.ending: str | None = None
        """How its run ended, None while it runs."""
        self.worker: Worker | None = None
        self.jvm = SimulatedJvm()
        self.process = made.environment.kernel.process(f"worker{number}")
        made.of_process[self.process] = self
        made.environment.kernel.spawn(self.process, self._run, "main")

    @property
    def is_over(self) -> bool:
        """Whether it runs no more."""
        return self.ending is not None or self.process.is_dead

    @property
    def is_ending(self) -> bool:
        """Whether it is about to end, and has others run its connectors meanwhile."""
        failed = any(one.first is not None for one in self.process.held.get("collectors", ()))
        return failed or self.jvm.is_dead or self.stop.asked.is_set()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.options['rest.listen']}"

    def kill(self) -> None:
        """Kill -9, with the workers of its slots."""
        kernel, environment = self.made.environment.kernel, self.made.environment
        kernel.kill(self.process)
        for worker in environment.workers.get(self.process, ()):
            kernel.kill(worker)

    def _run(self) -> None:
        try:
            settings = read_worker(
                json.dumps(self.options), is_json=True, environment={}, read_file=_read_file
            )
            self.worker = Worker(
                settings,
                Loading(settings, self.made.load),
                self.stop,
                folder=None,
                startup_seconds=_STARTUP_SECONDS,
                jvm=self.jvm,  # type: ignore[arg-type]  # as a Jvm
            )
            self.ending = f"exit {int(self.worker.run())}"
        except HeadraceError as error:
            self.ending = f"{type(error).__name__}: {error}"
        except Exception as error:
            self.ending = f"{type(error).__name__}: {error}"
            raise
        # What is left of it ends with its process.
        self.kill()


class WorkerEnvironment:
    """What the processes of a group share besides the cluster."""

    def __init__(self, environment: Environment, cores: int) -> None:
        self.environment = environment
        self.cores = cores
        self.of_process: dict[Process, WorkerInstance] = {}
        self.failures: list[str] = []
        """Requests that ended with an error and without an answer."""
        self._settings: dict[str, Settings] = {}

    def load(self, config: Mapping[str, str], worker_config: str) -> Settings:
        """A connector's settings next to the worker's file. SettingsError."""
        text = json.dumps([dict(config), worker_config])
        if text not in self._settings:
            self._settings[text] = load(
                json.dumps(dict(config)),
                kind="json",
                environment={},
                read_file=_read_file,
                worker_config=worker_config,
            )
        return self._settings[text]

    def new_jobs(self) -> SimulatedJobs:
        """A session of Spark, for `SparkStartup`."""
        kernel, process = self.environment.kernel, patches.process()
        assert process is not None
        kernel.sleep(kernel.rng.choice(_SPARK_SECONDS))
        return _Cores(self.environment, process, self.cores)

    def rest_server(
        self, listen: Any, answer: Any, auth: AuthFile | None, *, host_name: str
    ) -> web.WebServer:
        """See `ingest.http.rest.server.rest_server`."""
        del auth, host_name
        return web.WebServer(listen.port, patiently(answer), self._failed)

    def _failed(self, request: Request, error: Exception) -> None:
        self.failures.append(f"{request.method} {request.path}: {type(error).__name__}: {error}")


@contextmanager
def workers_of(environment: Environment, cores: int) -> Iterator[WorkerEnvironment]:
    """Have workers that are started in this block run in the environment."""
    made = WorkerEnvironment(environment, cores)
    replaced: list[tuple[Any, str, Any]] = [
        (worker_module, "rest_server", made.rest_server),
        (other_workers, "_connection", web.Connection),
        (other_workers, "selectors", web.SELECTORS),
        (SparkStartup, "_new_jobs", _new_jobs_of(made)),
        (threads, "_collectors", _Collectors()),
    ]
    before = [(place, name, getattr(place, name)) for place, name, _ in replaced]
    for place, name, ours in replaced:
        setattr(place, name, ours)
    try:
        yield made
    finally:
        for place, name, theirs in before:
            setattr(place, name, theirs)


def _new_jobs_of(made: WorkerEnvironment) -> Callable[[SparkStartup], SimulatedJobs]:
    def new_jobs(_startup: SparkStartup) -> SimulatedJobs:
        return made.new_jobs()

    return new_jobs


def _read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
