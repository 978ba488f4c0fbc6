"""What a slot of the source does, as its job carries it, with the settings that its tasks need.

Settings are small and picklable, and secrets in them are wrapped.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.model.slot_protocol import Batch, Finished
from headrace.options.choices import Ordering
from headrace.options.describe import options_hash
from headrace.options.settings import ErrorSettings, FormatSettings, KafkaSettings, S3Settings, Settings
from headrace.options.transforms import NO_TRANSFORMS, TransformChain
from spark.task.entry import TaskLog, log_of_this_process

if TYPE_CHECKING:
    from headrace.kafka.producer import SlotProducer
    from spark.task.driver_connection import DriverConnection
    from spark.task.entry import TaskCredentials


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
    topic: str | None = None
    post_action: str | None = None
    transforms: TransformChain = NO_TRANSFORMS
    bytes_per_second: float | None = None
    log: TaskLog = field(default_factory=TaskLog)
    # Reads time out within minutes, repeats included, and what is decoded at once takes seconds.
    stuck_seconds: float = 900.0


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
        topic=settings.routing.topic,
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
        from headrace.kafka.producer.topic_limits import topic_limits
        from headrace.model.errors import HeadraceError
        from spark.source.worker_cache import s3_calls
        from spark.task.slot_session import configure_worker_logs

        configure_worker_logs(self.settings.log.level)
        try:
            s3_calls(self.settings.s3)
        except HeadraceError as error:
            return str(error)
        if self.settings.topic is not None:
            topic_limits(self.settings.kafka).of(self.settings.topic)
        return None


class SourceProgram:
    """See `spark.task.slot_session.SlotProgram`."""

    batch_type = Batch

    def __init__(self, settings: TaskSettings) -> None:
        self.name = settings.name
        self._settings = settings

    def new_producer(self, slot: int, is_void: Callable[[], bool]) -> "SlotProducer":
        """See `SlotProgram.new_producer`."""
        from spark.source.worker_cache import new_slot_producer

        return new_slot_producer(self._settings, slot, is_void)

    def run_batch(self, batch: Batch, producer: "SlotProducer", link: "DriverConnection") -> Finished:
        """See `SlotProgram.run_batch`."""
        from spark.source.batch import BatchRun

        return BatchRun(batch, producer=producer, link=link, settings=self._settings).run()
