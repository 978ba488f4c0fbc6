"""What outlives a task in its Python process: the S3 client, the rate limit, topics' limits."""

import functools
from collections.abc import Callable
from typing import Final

from headrace.kafka.producer import IdempotentProducer, SlotProducer, TransactionalProducer
from headrace.kafka.producer.topic_limits import topic_limits
from headrace.kafka.producer.window import DEFAULTS
from headrace.options.settings import S3Settings
from headrace.s3 import S3Calls, new_s3_calls
from headrace.s3.reader import RateLimiter
from spark.source.source_work import TaskSettings

# What stands before the records of a batch, which librdkafka does not count.
_BATCH_HEAD_BYTES: Final = 128


@functools.cache
def s3_calls(settings: S3Settings) -> S3Calls:
    """The process's S3 client for these settings, kept once it could be made; AccessDenied until then."""
    return new_s3_calls(settings)


@functools.cache
def rate_limiter(bytes_per_second: float | None) -> RateLimiter:
    """The process's limit on reading."""
    return RateLimiter(bytes_per_second)


def new_slot_producer(settings: TaskSettings, slot: int, is_void: Callable[[], bool]) -> SlotProducer:
    """A producer of the slot, initialised. Blocks; Fenced, AccessDenied, Unavailable."""
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
