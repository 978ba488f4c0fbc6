"""What outlives a task in its Python process: the S3 client, the pace, topics' limits, slots' producers."""

import functools
import os
import secrets
import socket
from collections.abc import Callable
from typing import Final

from ingest.kafka.output_topics import OutputTopics
from ingest.settings.settings import KafkaSettings, S3Settings
from spark.producer import IdempotentProducer, SlotProducer, TransactionalProducer
from spark.producer.producer_properties import DEFAULTS
from spark.reader import RateLimiter
from spark.s3 import S3Calls, new_s3_calls
from spark.source.task_settings import TaskSettings
from spark.source.topic_limits import TopicLimits

# What stands before the records of a batch, which librdkafka does not count.
_BATCH_HEAD_BYTES: Final = 128

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
    """The process's S3 client for these settings, kept once it could be made; AccessDenied until then."""
    return new_s3_calls(settings)


@functools.cache
def rate_limiter(bytes_per_second: float | None) -> RateLimiter:
    """The process's limit on reading."""
    return RateLimiter(bytes_per_second)


@functools.cache
def topic_limits(settings: KafkaSettings) -> TopicLimits:
    """What the process knows of the topics' limits."""
    return TopicLimits(OutputTopics(settings.client("admin")))


def checkout_producer(
    settings: TaskSettings, slot: int, last_worker: str | None, is_void: Callable[[], bool]
) -> SlotProducer:
    """The slot's producer, initialised: the cached one only when this process held the slot last.

    Any other cached one is an old producer by now, so it is closed. Blocks; Fenced, AccessDenied,
    Unavailable.
    """
    cached = _PRODUCERS.pop((settings.name, slot), None)
    if cached is not None:
        if last_worker == worker_name():
            cached.is_void = is_void
            return cached
        cached.close()
    properties = _with_fitting_batches(settings)
    ledger = settings.kafka.ledger_topic
    if not settings.kafka.exactly_once:
        return IdempotentProducer(properties, ledger_topic=ledger, is_void=is_void)
    return TransactionalProducer(
        properties, name=settings.name, slot=slot, ledger_topic=ledger, is_void=is_void
    )


def _with_fitting_batches(settings: TaskSettings) -> dict[str, str]:
    """The producer's properties; its batches are no larger than the topic takes at once."""
    properties = settings.kafka.client("producer")
    limit = None if settings.topic is None else topic_limits(settings.kafka).of(settings.topic)
    most = int(properties.get("batch.size", DEFAULTS["batch.size"]))
    if limit is not None and limit < most:
        properties["batch.size"] = str(max(1, limit - _BATCH_HEAD_BYTES))
    return properties


def return_producer(settings: TaskSettings, slot: int, producer: SlotProducer) -> None:
    """Leave the producer to the slot's next task in this process."""
    _PRODUCERS[settings.name, slot] = producer
