"""What a slot of the source does, as its job carries it, with the settings that its tasks need.

Settings are small and picklable, and secrets in them are wrapped. What outlives a task in its Python
process is made here too: the S3 client, the limit on reading, and producers that fit the topic.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.kafka.producer import IdempotentProducer, SlotProducer, TransactionalProducer
from headrace.kafka.producer.topic_limits import topic_limits
from headrace.kafka.producer.window import DEFAULTS
from headrace.model.errors import HeadraceError
from headrace.model.objects import ObjectId
from headrace.model.slot_protocol import Batch, Finished
from headrace.options.choices import Ordering
from headrace.options.describe import options_hash
from headrace.options.settings import ErrorSettings, FormatSettings, KafkaSettings, S3Settings, Settings
from headrace.options.transforms import NO_TRANSFORMS, TransformChain
from headrace.options.transforms.read_chain import known_topics
from headrace.s3 import S3Calls, new_s3_calls
from headrace.s3.reader import RateLimiter
from headrace.vendors.key_names import options_of_object
from spark.task.entry import TaskLog, log_of_this_process

if TYPE_CHECKING:
    from spark.task.entry import TaskCredentials
    from spark.task.slot_session import DriverConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """`options` is the hash of the settings that give positions their meaning.

    `bytes_per_second` is one slot's share of `max.bytes.per.second`; `topic` is that of all records, unless
    keys name theirs; `post_action` is owed to objects that are done; a task that makes no progress for
    `stuck_seconds` ends.
    """

    name: str
    kafka: KafkaSettings
    s3: S3Settings
    format: FormatSettings
    errors: ErrorSettings
    ordering: Ordering
    options: str
    topics: tuple[str, ...] = ()
    """Those that records come to, as far as the configuration names them."""
    post_action: str | None = None
    transforms: TransformChain = NO_TRANSFORMS
    bytes_per_second: float | None = None
    log: TaskLog = field(default_factory=TaskLog)
    # Reads time out within minutes, repeats included, and what is decoded at once takes seconds.
    stuck_seconds: float = 900.0

    def options_of(self, object_id: ObjectId) -> str:
        """`options`, as the ledger keeps it next to a position in this object."""
        return options_of_object(self.options, self.format, object_id.key)


def task_settings(settings: Settings, *, slots: int) -> TaskSettings:
    """The part of the settings that goes to the tasks of `slots` slots."""
    rate = settings.discovery.max_bytes_per_second
    return TaskSettings(
        name=settings.name,
        kafka=settings.kafka,
        s3=settings.s3,
        format=settings.format,
        errors=settings.errors,
        ordering=settings.routing.ordering,
        options=options_hash(settings.format, settings.routing, settings.transforms),
        topics=tuple(sorted(known_topics(settings.transforms, settings.routing.topic))),
        post_action=None if settings.post_action is None else settings.post_action.text,
        transforms=settings.transforms,
        bytes_per_second=None if rate is None else rate / slots,
        log=log_of_this_process(),
    )


@dataclass(frozen=True, slots=True)
class SourceWork:
    """See `spark.task.entry.SlotWork`: objects to Kafka."""

    settings: TaskSettings

    def run(self, credentials: "TaskCredentials") -> str | None:
        """See `SlotWork.run`."""
        from spark.task.slot_session import run_slot

        return run_slot(credentials, SourceProgram(self.settings), log=self.settings.log)

    def warm(self) -> str | None:
        """See `SlotWork.warm`."""
        from spark.task.slot_session import configure_worker_logs

        configure_worker_logs(self.settings.log.level)
        try:
            s3_calls(self.settings.s3)
        except HeadraceError as error:
            return str(error)
        for topic in self.settings.topics:
            topic_limits(self.settings.kafka).of(topic)
        return None


class SourceProgram:
    """See `spark.task.slot_session.SlotProgram`."""

    batch_type = Batch

    def __init__(self, settings: TaskSettings) -> None:
        self.name = settings.name
        self._settings = settings

    def new_producer(self, slot: int, is_void: Callable[[], bool]) -> SlotProducer:
        """See `SlotProgram.new_producer`."""
        return new_slot_producer(self._settings, slot, is_void)

    def run_batch(self, batch: Batch, producer: SlotProducer, link: "DriverConnection") -> Finished:
        """See `SlotProgram.run_batch`."""
        from spark.source.batch import BatchRun

        return BatchRun(batch, producer=producer, link=link, settings=self._settings).run()


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
    """The producer's properties; its batches are no larger than each of the topics takes at once."""
    properties = settings.kafka.client("producer")
    limits = map(topic_limits(settings.kafka).of, settings.topics)
    limit = min((each for each in limits if each is not None), default=None)
    most = int(properties.get("batch.size", DEFAULTS["batch.size"]))
    if limit is not None and limit < most:
        properties["batch.size"] = str(max(1, limit - _BATCH_HEAD_BYTES))
    return properties
