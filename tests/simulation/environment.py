"""One simulated environment: a cluster, buckets, and processes that run the product's connectors in it."""

import errno
import json
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import structlog
from pyspark import TaskContext

from headrace.kafka import kafka_clients
from headrace.model.errors import HeadraceError
from headrace.model.sink_protocol import SinkBatch
from headrace.model.slot_protocol import Batch
from headrace.options import Settings
from headrace.process.threads import ThreadFailures, collecting_own
from headrace.s3 import client as s3_client
from headrace.vendors.load import load
from ingest.service.composition import Connector, RunOptions
from ingest.service.spark_startup import slot_work
from ingest.service.stop import Stop, Stopped
from listeners import async_clients
from spark.slots import JobFailed, SlotEvent, SlotPool
from spark.task import slot_session
from tests.simulation import memory
from tests.simulation.broker import Broker
from tests.simulation.kafka_admin import SimulatedAdmin
from tests.simulation.kafka_consumer import SimulatedConsumer
from tests.simulation.kafka_producer import SimulatedProducer
from tests.simulation.kernel import Kernel, Process
from tests.simulation.network import Network
from tests.simulation.patches import simulated
from tests.simulation.s3 import Bucket, SimulatedS3
from tests.simulation.schemas import Registry, SimulatedRegistry
from tests.simulation.sqs import AsyncS3, Queue, SimulatedSqs, opened

_SLOTS: Final = 2
_REUSE_SHARE: Final = 0.7
_NOTICED_SECONDS: Final = 0.25
_SYNC_SECONDS: Final = 0.004
FOLDER_PREFIX: Final = "headrace-simulation-"
# Files of a run are many and small, and need no disk.
_MEMORY: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  # in a folder of its own


class SimulatedJobs:
    """`spark.slots.jobs.Jobs`: each task in a worker process, which dies with its driver or alone."""

    bind = advertise = "127.0.0.1"
    is_local = True
    slots = _SLOTS

    def __init__(self, environment: "Environment", driver: Process) -> None:
        self._environment = environment
        self._driver = driver
        self._running: dict[str, Process] = {}

    def run(self, function: Any, *, group: str, pool: str, tasks: int = 1) -> list[str]:  # noqa: ARG002  # as Jobs
        """See `Jobs.run`."""
        kernel = self._environment.kernel
        kernel.sleep(0.05 * (0.5 + kernel.rng.random()))
        worker = self._idle_worker()
        self._running[group] = worker
        answer: list[Any] = []
        done = threading.Event()
        worker.ended.append(done.set)

        def task() -> None:
            try:
                answer.append(list(function(())))
            except Exception as error:  # noqa: BLE001  # the job fails with it
                answer.append(error)
            done.set()

        late_seconds = self._environment.late_starts.pop(0) if self._environment.late_starts else 0.0

        def late() -> None:
            kernel.sleep(late_seconds)
            task()

        self._environment.begun_tasks += 1
        kernel.begun.give()
        kernel.spawn(worker, late if late_seconds else task, f"task-{group}")
        done.wait()
        if not answer:
            # Spark notices soon.
            kernel.sleep(_NOTICED_SECONDS * kernel.rng.random())
        if not answer and worker.is_dead:
            raise JobFailed("the Python worker has died")
        self._running.pop(group, None)
        if not answer:
            # Whoever cancels the job does not reach it.
            raise JobFailed("the executor is lost")
        found = answer[0]
        if isinstance(found, Exception):
            self._environment.crashes.append((worker.name, found))
            raise JobFailed(f"{type(found).__name__}: {found}")
        return [error for error in found if error is not None]

    def _idle_worker(self) -> Process:
        """A worker process that has nothing to do, mostly one of before."""
        kernel = self._environment.kernel
        workers = self._environment.workers.setdefault(self._driver, [])
        busy = set(map(id, self._running.values()))
        idle = [one for one in workers if not (one.is_dead or one.is_lost) and id(one) not in busy]
        if idle and kernel.rng.random() < _REUSE_SHARE:
            return kernel.rng.choice(idle)
        worker = kernel.process(f"{self._driver.name}-worker")
        worker.parent = self._driver
        workers.append(worker)
        return worker

    def cancel(self, group: str) -> None:
        """See `Jobs.cancel`."""
        worker = self._running.pop(group, None)
        if worker is not None:
            self._environment.kernel.kill(worker)

    def close(self) -> None:
        """See `Jobs.close`."""


class _SimulatedPool(SlotPool):
    """Slots, which tell what they are given."""

    on_granted: Callable[[Batch | SinkBatch], None]

    def grant(self, slot: int, batch: Batch | SinkBatch) -> bool:
        """See SlotPool."""
        self.on_granted(batch)
        return super().grant(slot, batch)


class SimulatedSlots:
    """`ingest.service.spark_startup.SlotSource`."""

    is_shared = False

    def __init__(self, environment: "Environment", settings: Settings, process: Process) -> None:
        self._jobs = SimulatedJobs(environment, process)
        self._on_granted = environment.on_granted
        self._settings = settings
        self.slots = settings.identity.tasks_max or _SLOTS

    def start(self) -> None:
        """See SlotSource."""

    def is_up(self) -> bool:
        """See SlotSource."""
        return True

    def new_slot_pool(self, post: Callable[[SlotEvent], None]) -> SlotPool:
        """See SlotSource."""
        work = slot_work(self._settings, slots=self.slots)
        pool = _SimulatedPool(
            self._jobs, work, post, linger_seconds=self._settings.jobs.linger_ms / 1000, keeps_warm=False
        )
        pool.on_granted = self._on_granted
        return pool


class Instance:
    """One process that runs one connector."""

    def __init__(
        self, environment: "Environment", configuration: Mapping[str, str], *, until_idle: bool = False
    ) -> None:
        self.environment = environment
        self.stop = Stop()
        self.ending: str | None = None
        """How its run ended, None while it runs."""
        self.connector: Connector | None = None
        self.process = environment.kernel.process(configuration["name"])
        self.options = dict(configuration)
        self._until_idle = until_idle
        environment.kernel.spawn(self.process, self._run, "main")

    @property
    def is_over(self) -> bool:
        """Whether it runs no more."""
        return self.ending is not None or self.process.is_dead

    def kill(self) -> None:
        """Kill -9, with the workers of its slots."""
        self.environment.kernel.kill(self.process)
        for worker in self.environment.workers.get(self.process, ()):
            self.environment.kernel.kill(worker)

    def _run(self) -> None:
        failures = ThreadFailures()
        try:
            settings = self.environment.settings(self.options)
            self.connector = Connector(
                settings,
                RunOptions(until_idle=self._until_idle),
                self.stop,
                slot_source=SimulatedSlots(self.environment, settings, self.process),
                failures=failures,
                open_ledger=lambda: None,
            )
            self.environment.watch(self)
            with collecting_own(failures):
                code = self.connector.run()
            failures.raise_first()
            self.ending = f"exit {int(code)}"
        except Stopped:
            self.ending = "exit 0"
        except HeadraceError as error:
            self.ending = f"{type(error).__name__}: {error}"
        except Exception as error:
            self.ending = f"{type(error).__name__}: {error}"
            raise
        # What is left of it ends with its process.
        self.environment.kernel.kill(self.process)
        for worker in self.environment.workers.get(self.process, ()):
            self.environment.kernel.kill(worker)


_LEFT_SECONDS: Final = 60.0


class Environment:
    """Everything that a run's processes share."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.kernel = Kernel(seed)
        self.broker = Broker(self.kernel)
        self.network = Network(self.kernel, self.broker)
        self.bucket = Bucket(self.kernel)
        self.queue = Queue(self.kernel, self.bucket)
        self.registry = Registry(self.kernel)
        self.folder = folder
        self.workers: dict[Process, list[Process]] = {}
        self.late_starts: list[float] = []
        """So late the next tasks begin, as where a cluster has no core for them."""
        self.watch: Callable[[Instance], None] = lambda _: None
        """Called with each instance that is about to run."""
        self.on_granted: Callable[[Batch | SinkBatch], None] = lambda _: None
        """Called with each batch that a slot is given."""
        self.begun_tasks = 0
        """How many tasks Spark has been asked for."""
        self.crashes: list[tuple[str, Exception]] = []
        self.log: list[tuple[float, str, str, dict[str, Any]]] = []

    def operate(self, body: Callable[[], None], *, seconds: float = 3_000.0) -> None:
        """Run `body` as an operator next to the processes that it starts, in virtual time.

        The first error of any of them is raised, and AssertionError where `body` has not ended in `seconds`.
        What still runs then has some time to fail: not the rest, which takes ten times what courses do.
        """
        has_ended = False

        def operator() -> None:
            nonlocal has_ended
            body()
            has_ended = True
            self.kernel.end = min(self.kernel.end, self.kernel.now + _LEFT_SECONDS)

        self.kernel.spawn(self.kernel.process("operator"), operator, "operator")
        self.kernel.run(until=self.kernel.now + seconds)
        for _, error in self.kernel.failures:
            raise error
        assert has_ended, f"{seconds:.0f} s were not enough"

    def settings(self, configuration: Mapping[str, str]) -> Settings:
        """The settings of a configuration as a user would write it."""
        return _loaded(json.dumps(configuration))

    def note(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """A processor of structlog: keep the line, and show none."""
        process = self.kernel.here()
        # A process that was killed says nothing of how its threads end.
        if method != "debug" and (process is None or not process.is_dead):
            name = "" if process is None else f"{process.name}:{process.pid}"
            self.log.append((self.kernel.now - 1000.0, name, str(event.pop("event", "")), dict(event)))
        raise structlog.DropEvent


@lru_cache(maxsize=64)
def _loaded(text: str) -> Settings:
    """They never change, and most processes of a scenario have the same, in its second run too."""
    return load(text, kind="json", environment={}, read_file=lambda path: Path(path).read_text())


@contextmanager
def environment(seed: int) -> Iterator[Environment]:
    """An empty environment, for as long as the block lasts."""
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=_MEMORY))
    made = Environment(seed, folder)
    # What a killed process leaves goes with the environment.
    temporary, tempfile.tempdir = tempfile.tempdir, str(folder)
    classes, clients = kafka_clients.CLASSES, s3_client.CLIENTS
    loop_clients = async_clients.CLIENTS
    before = classes.consumer, classes.producer, classes.admin, clients.new
    before_of_loops = loop_clients.s3, loop_clients.sqs
    network = made.network
    classes.consumer = lambda given: SimulatedConsumer(network, given)  # type: ignore[assignment,return-value]
    classes.producer = lambda given: SimulatedProducer(network, given)  # type: ignore[assignment,return-value]
    classes.admin = lambda given: SimulatedAdmin(network, given)  # type: ignore[assignment,return-value]
    clients.new = lambda _settings, _uploads: s3_client.S3Client(SimulatedS3(made.bucket), None)  # type: ignore[arg-type]
    memory.MADE["registry_client"] = lambda _settings: SimulatedRegistry(made.registry)
    loop_clients.s3 = lambda _settings: opened(AsyncS3(made.bucket))
    loop_clients.sqs = lambda _sqs, _settings: opened(SimulatedSqs(made.queue))
    configured = structlog.get_config()
    # Once and for all: a task's own call finds it done.
    slot_session.configure_worker_logs("info")
    structlog.configure(processors=[made.note], cache_logger_on_first_use=False)
    TaskContext._getOrCreate()  # as Spark's worker does
    logging.disable(logging.CRITICAL)
    try:
        with simulated(made.kernel):
            yield made
    finally:
        # Where a process has one, Spark starts no session.
        TaskContext._setTaskContext(None)
        logging.disable(logging.NOTSET)
        structlog.configure(**configured)
        classes.consumer, classes.producer, classes.admin, clients.new = before
        loop_clients.s3, loop_clients.sqs = before_of_loops
        memory.MADE.clear()
        tempfile.tempdir = temporary
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def slow_folders(made: Environment) -> Iterator[None]:
    """Folders whose writes take their time, so that a process may die at any, and fail on a full disk."""
    synced = os.fsync

    def sync(_descriptor: int) -> None:
        made.kernel.sleep(_SYNC_SECONDS * made.kernel.rng.random())
        made.kernel.require_alive()
        if made.kernel.disk_full_until > made.kernel.now:
            raise OSError(errno.ENOSPC, "No space left on device")

    os.fsync = sync  # type: ignore[assignment]  # for this run
    try:
        yield
    finally:
        os.fsync = synced
