"""The loop of a slot's task: initialise, ask, do, report, ask again."""

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

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
from spark.task.worker import checkout_producer, return_producer, worker_name

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
