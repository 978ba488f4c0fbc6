"""What a task needs of the settings: small, picklable, secrets wrapped."""

from dataclasses import dataclass, field

from headrace.options.choices import Ordering
from headrace.options.describe import options_hash
from headrace.options.settings import ErrorSettings, FormatSettings, KafkaSettings, S3Settings, Settings
from headrace.options.transforms import NO_TRANSFORMS, TransformChain
from spark.task.entry import TaskLog, log_of_this_process


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
