"""The loop of a slot's task: initialise, ask, do, report, ask again; and what outlives it in its process."""

import contextlib
import functools
import os
import secrets
import socket
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import structlog
from pyspark import TaskContext

from headrace.kafka.producer import SlotProducer, SlotRevoked
from headrace.model.errors import HeadraceError
from headrace.model.sink_protocol import SinkBatch
from headrace.model.slot_protocol import Batch, BatchOutcome, Finished, Hello, Ready
from headrace.process.logs import configure
from spark.memory import keep_freed_memory
from spark.task.driver_connection import DriverConnection
from spark.task.entry import TaskCredentials, TaskLog

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

B = TypeVar("B", Batch, SinkBatch)


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
