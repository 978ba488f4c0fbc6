"""The loop of a slot: initialise, ask, do, report, ask again."""

import contextlib
import functools
import os

import structlog
from pyspark import TaskContext

from ingest.errors import HeadraceError
from ingest.logs import configure
from ingest.model.slot_protocol import Batch, BatchOutcome, Finished, Hello, Ready
from spark.memory import keep_freed_memory
from spark.producer import SlotProducer, SlotRevoked
from spark.source.batch import BatchRun
from spark.source.driver_connection import DriverConnection
from spark.source.entry import TaskCredentials
from spark.source.task_settings import TaskSettings
from spark.source.worker_cache import checkout_producer, return_producer, s3_calls, topic_limits, worker_name

log = structlog.get_logger(__name__)


def run_slot(ticket: TaskCredentials, settings: TaskSettings) -> str | None:
    """Work for the slot until the driver ends it; None, or a sentence that says why it could not begin.

    A task that is told no, is fenced or has aborted ends: it never initialises again, since a late
    initialisation is what fencing does not stop (docs/protocol.md, step 4).
    """
    _configure_logs(settings.log_level)
    keep_freed_memory()
    repeated = _repetition(TaskContext.get())
    if repeated is not None:
        return repeated
    try:
        link = DriverConnection.connect(ticket)
    except SlotRevoked as error:
        return str(error)
    try:
        link.send(Hello(slot=ticket.slot, worker=worker_name()))
        producer = checkout_producer(
            settings, ticket.slot, link.welcome().last_worker, link.is_void_in_a_wait
        )
        if _serve(link, producer, settings, ticket.slot):
            return_producer(settings, ticket.slot, producer)
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


def warm_process(settings: TaskSettings) -> str | None:
    """Load what a slot's task needs, clients included; None, or a sentence on what is missing."""
    _configure_logs(settings.log_level)
    try:
        s3_calls(settings.s3)
    except HeadraceError as error:
        return str(error)
    if settings.topic is not None:
        topic_limits(settings.kafka).of(settings.topic)
    return None


def _serve(link: DriverConnection, producer: SlotProducer, settings: TaskSettings, slot: int) -> bool:
    """Do batch after batch; True when the producer may be kept for the slot's next task here."""
    try:
        link.send(Ready())
        while (batch := link.batch()) is not None:
            producer.on_stuck = functools.partial(_leave, link, batch)
            finished = BatchRun(batch, producer=producer, link=link, settings=settings).run()
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
    log.debug("slot_ended", slot=slot)
    return True


def _leave(link: DriverConnection, batch: Batch) -> None:
    """End this process, whose main thread is stuck in a transaction in which nothing is written yet.

    The driver hears of it first, or it would take the objects of the batch for what killed the worker.
    """
    error = "a call of librdkafka does not return; the worker ends, and the slot begins anew in another"
    log.error("kafka_call_stalled", slot=batch.slot, detail=error)
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


@functools.cache
def _configure_logs(level: str) -> None:
    configure(level=level, style="json")
