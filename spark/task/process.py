"""What outlives a task in its Python process: the S3 client, the pace of reading, the slots' producers."""

import functools
import os
import secrets
import socket
from collections.abc import Callable
from typing import Final

from ingest.settings.model import S3Settings
from spark.producer import IdempotentProducer, SlotProducer, TransactionalProducer
from spark.reader import Pace
from spark.s3 import S3Calls, new_s3_calls
from spark.task.settings import TaskSettings

_PRODUCERS: Final[dict[tuple[str, int], SlotProducer]] = {}


def worker_name() -> str:
    """A name that no other Python process has, of this host or another, now or later."""
    return _name_of(os.getpid())


@functools.cache
def _name_of(pid: int) -> str:
    # By pid, since Spark forks its workers from one process.
    return f"{socket.gethostname()}-{pid}-{secrets.token_hex(4)}"


@functools.cache
def s3_calls(settings: S3Settings) -> S3Calls:
    """The process's S3 client for these settings. Raises AccessDenied without credentials."""
    return new_s3_calls(settings)


@functools.cache
def pace(bytes_per_second: float | None) -> Pace:
    """The process's limit on reading."""
    return Pace(bytes_per_second)


def take_producer(
    settings: TaskSettings, slot: int, last_worker: str | None, is_void: Callable[[], bool]
) -> SlotProducer:
    """The slot's producer, initialised: the cached one only when this process held the slot last.

    Any other cached one is an old producer by now, so it is closed. Blocks; Fenced, AccessDenied, Unusable.
    """
    cached = _PRODUCERS.pop((settings.name, slot), None)
    if cached is not None:
        if last_worker == worker_name():
            cached.is_void = is_void
            return cached
        cached.close()
    properties = settings.kafka.client("producer")
    ledger = settings.kafka.ledger_topic
    if not settings.kafka.exactly_once:
        return IdempotentProducer(properties, ledger_topic=ledger, is_void=is_void)
    return TransactionalProducer(
        properties, name=settings.name, slot=slot, ledger_topic=ledger, is_void=is_void
    )


def keep_producer(settings: TaskSettings, slot: int, producer: SlotProducer) -> None:
    """Leave the producer to the slot's next task in this process."""
    _PRODUCERS[settings.name, slot] = producer
