"""A slot's session with the driver: its connection, its loop, and what outlives it in its process."""

import contextlib
import functools
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import structlog
from pyspark import TaskContext

from headrace.kafka.producer import SlotProducer, SlotRevoked
from headrace.model.errors import HeadraceError
from headrace.model.sink_protocol import GroupWanted, LeaderGroup, ObjectsEnded, SinkBatch
from headrace.model.slot_protocol import Batch, BatchOutcome, End, Finished, Hello, Ready, Welcome, Working
from headrace.process.logs import configure
from headrace.process.threads import start_thread
from spark.memory import keep_freed_memory
from spark.socket_protocol import AuthenticatedSocket, Disconnected, connect
from spark.task.entry import TaskCredentials, TaskLog

_CONNECT_SECONDS: Final = 10.0
BEAT_SECONDS: Final = 5.0
"""How often a task that has a batch sends the driver a sign of life."""


def why_unreachable(address: tuple[str, int]) -> str | None:
    """None when something answers there; otherwise what the system says. Blocks for 10 s at most."""
    try:
        socket.create_connection(address, _CONNECT_SECONDS).close()
    except OSError as error:
        return str(error.strerror or error)
    return None


B = TypeVar("B", Batch, SinkBatch)


class DriverConnection:
    """The connection to the driver. A closed one means that the slot is void, whichever side closed it."""

    def __init__(self, wire: AuthenticatedSocket, *, beat_seconds: float = BEAT_SECONDS) -> None:
        self._wire = wire
        self._beat_seconds = beat_seconds
        self._void = threading.Event()
        self._end = threading.Event()
        self._beat_at = time.monotonic()
        self._messages: queue.Queue[object] = queue.Queue()
        self._groups: queue.Queue[LeaderGroup | None] = queue.Queue()
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        start_thread(self._listen, name="driver-link")

    @classmethod
    def connect(cls, ticket: TaskCredentials) -> "DriverConnection":
        """A proven connection; blocks. Raises SlotRevoked when the driver is not there or refuses."""
        try:
            connection = socket.create_connection(ticket.address, _CONNECT_SECONDS)
            return cls(connect(connection, ticket.start_id, ticket.token))
        except (OSError, Disconnected) as error:
            raise SlotRevoked(
                f"the driver at {ticket.address} is not there for this task: {error}"
            ) from error

    def is_void(self) -> bool:
        """True once nothing may be started for this slot any more."""
        return self._void.is_set()

    def is_void_in_a_wait(self) -> bool:
        """As `is_void`, asked by the working thread during a wait for brokers: it works on, and says so."""
        self.beat()
        return self._void.is_set()

    def beat(self, idle_seconds: float = 0.0) -> None:
        """Send the driver a sign of life every few seconds; `idle_seconds` as in `Working`.

        For the working thread only: from a thread of its own it would say so of a task that hangs.
        """
        now = time.monotonic()
        if now - self._beat_at < self._beat_seconds:
            return
        self._beat_at = now
        try:
            self._wire.send(Working(idle_seconds))
        except Disconnected:
            self._void.set()

    def is_ending(self) -> bool:
        """True once the driver has asked the task to end, at its next checkpoint when it is busy."""
        return self._end.is_set()

    def send(self, message: object) -> None:
        """Send it to the driver; SlotRevoked when it is gone."""
        try:
            self._wire.send(message)
        except Disconnected as error:
            self._void.set()
            raise SlotRevoked(str(error)) from error

    def welcome(self) -> Welcome:
        """The driver's answer to Hello; blocks. SlotRevoked when it refuses."""
        message = self._messages.get()
        if not isinstance(message, Welcome):
            raise SlotRevoked("the driver refused this task")
        return message

    def batch(self, batch_type: type[B]) -> B | None:
        """The next batch, or None when the task is to end; blocks. SlotRevoked when the driver is gone."""
        message = self._messages.get()
        if isinstance(message, batch_type):
            return message
        if isinstance(message, End):
            return None
        raise SlotRevoked("the driver is gone")

    def ended_objects(self) -> list[str]:
        """The ids of objects that the leader has brought to their ends since the last call."""
        ended: list[str] = []
        while not self._ended.empty():
            ended.append(self._ended.get())
        return ended

    def leader_group(self, batch: int) -> LeaderGroup:
        """The leader's group metadata of the moment; blocks. SlotRevoked when the leader is gone.

        The leader asks brokers first, for as long as that takes: the wait gives signs of life.
        """
        self.send(GroupWanted(batch=batch))
        answer = None
        while answer is None and not self.is_void_in_a_wait():
            with contextlib.suppress(queue.Empty):
                answer = self._groups.get(timeout=self._beat_seconds)
        if answer is None:
            raise SlotRevoked("the driver is gone")
        return answer

    def close(self) -> None:
        """End the connection."""
        self._wire.close()

    def _listen(self) -> None:
        """Body of the thread: a batch and an end wait their turn, a broken connection is known at once."""
        while True:
            try:
                message = self._wire.receive()
            except Disconnected:
                self._void.set()
                self._messages.put(None)
                self._groups.put(None)
                return
            if isinstance(message, LeaderGroup):
                self._groups.put(message)
                continue
            if isinstance(message, ObjectsEnded):
                for object_id in message.ids:
                    self._ended.put(object_id)
                continue
            if isinstance(message, End):
                self._end.set()
            self._messages.put(message)


# Each has threads and connections of its own; slots of many connectors come by here.
_KEPT_PRODUCERS: Final = 16
# By the process as well: what a process is forked with is not its own.
_PRODUCERS: Final[dict[tuple[int, str, int], SlotProducer]] = {}


def worker_name() -> str:
    """A name that no other Python process has, of this host or another, now or later."""
    return _name_of(os.getpid())


@functools.cache
def _name_of(pid: int) -> str:
    # By pid, since Spark forks its workers from one process.
    return f"{socket.gethostname()}-{pid}-{secrets.token_hex(4)}"


def checkout_producer(
    name: str,
    slot: int,
    *,
    last_worker: str | None,
    is_void: Callable[[], bool],
    new_producer: Callable[[], SlotProducer],
) -> SlotProducer:
    """The slot's producer, initialised: the cached one only when this process held the slot last.

    Any other cached one is an old producer by now, so it is closed. Blocks; what `new_producer` raises.
    """
    cached = _PRODUCERS.pop((os.getpid(), name, slot), None)
    if cached is not None:
        if last_worker == worker_name():
            cached.is_void = is_void
            return cached
        cached.close()
    return new_producer()


def return_producer(name: str, slot: int, producer: SlotProducer) -> None:
    """Leave the producer to the slot's next task in this process."""
    _PRODUCERS[os.getpid(), name, slot] = producer
    if len(_PRODUCERS) > _KEPT_PRODUCERS:
        oldest = next(iter(_PRODUCERS))
        _PRODUCERS.pop(oldest).close()


_log = structlog.get_logger(__name__)


class SlotProgram(Protocol, Generic[B]):
    """What the task of one slot does with its batches."""

    name: str
    """The ingester's, which cached producers belong to."""
    batch_type: type[B]

    def new_producer(self, slot: int, is_void: Callable[[], bool]) -> SlotProducer:
        """A producer of the slot, initialised. Blocks; Fenced, AccessDenied, Unavailable."""

    def run_batch(self, batch: B, producer: SlotProducer, link: DriverConnection) -> Finished:
        """Do the batch; what it came to. SlotRevoked when the driver has cut the slot off."""


def run_slot(credentials: TaskCredentials, program: SlotProgram[B], *, log: TaskLog) -> str | None:
    """Work for the slot until the driver ends it; None, or a sentence that says why it could not begin.

    A task that is refused, is fenced or has aborted ends: it never initialises again, since a late
    initialisation is what fencing does not stop (docs/protocol.md, step 4).
    """
    configure_worker_logs(log.level)
    keep_freed_memory()
    # A process of Spark's has tasks of several connectors, one after the other.
    with structlog.contextvars.bound_contextvars(**dict(log.bound)):
        return _run_slot(credentials, program)


def _run_slot(credentials: TaskCredentials, program: SlotProgram[B]) -> str | None:
    repeated = _repetition(TaskContext.get())
    if repeated is not None:
        return repeated
    slot = credentials.slot
    try:
        link = DriverConnection.connect(credentials)
    except SlotRevoked as error:
        return str(error)
    try:
        link.send(Hello(slot=slot, worker=worker_name()))
        producer = checkout_producer(
            program.name,
            slot,
            last_worker=link.welcome().last_worker,
            is_void=link.is_void_in_a_wait,
            new_producer=lambda: program.new_producer(slot, link.is_void_in_a_wait),
        )
        if _serve(link, producer, program, slot):
            return_producer(program.name, slot, producer)
        else:
            producer.close()
    except SlotRevoked:
        # The driver knows: it closed the connection, or is gone.
        return None
    except HeadraceError as error:
        return str(error)
    finally:
        link.close()
    return None


@functools.lru_cache(maxsize=1)
def configure_worker_logs(level: str) -> None:
    """Have this worker's log lines written as JSON, from this level on; again where another one holds."""
    configure(level=level, style="json")


def _serve(link: DriverConnection, producer: SlotProducer, program: SlotProgram[B], slot: int) -> bool:
    """Do batch after batch; True when the producer may be kept for the slot's next task here."""
    try:
        link.send(Ready())
        while (batch := link.batch(program.batch_type)) is not None:
            producer.on_stuck = functools.partial(_leave, link, batch)
            finished = program.run_batch(batch, producer, link)
            link.send(finished)
            if finished.outcome is not BatchOutcome.CLEAN:
                return False
            if link.is_ending():
                return True
    except SlotRevoked:
        return False
    except BaseException:
        # A bug: the job fails with it, but what is open must not hold consumers back until it times out.
        if not producer.is_in_doubt:
            producer.abort()
        producer.close()
        raise
    _log.debug("slot_ended", slot=slot)
    return True


def _leave(link: DriverConnection, batch: Batch | SinkBatch) -> None:
    """End this process, whose main thread is stuck in a transaction in which nothing is written yet.

    The driver is informed first, or it would blame the objects of the batch for the worker's death.
    """
    error = "a call of librdkafka does not return; the worker ends, and the slot starts again in another"
    _log.error("kafka_call_stalled", slot=batch.slot, detail=error)
    with contextlib.suppress(SlotRevoked):
        link.send(Finished(batch=batch.number, outcome=BatchOutcome.ABORTED, error=error))
    os._exit(1)


def _repetition(context: TaskContext | None) -> str | None:
    """Why this task may not run, when Spark has run its plan before."""
    if context is None:
        return "This is not a task of Spark."
    # A repeated stage starts again at attempt 0; the driver refuses its Hello, as the start has had its task.
    if context.attemptNumber():
        return f"Spark repeats a task (attempt {context.attemptNumber()}), which could write twice: refused."
    return None
