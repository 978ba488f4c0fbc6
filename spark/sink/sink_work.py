"""What a slot of the sink does, as its job carries it, with the settings that its tasks need.

Settings are small and picklable, and secrets in them are wrapped.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from headrace.model.sink_protocol import SinkBatch
from headrace.model.slot_protocol import Finished
from headrace.options.settings import ErrorSettings, KafkaSettings, S3Settings, Settings
from headrace.options.sink_settings import SinkSettings
from spark.sink.grouping_options import grouping_hash
from spark.task.entry import TaskLog, log_of_this_process

if TYPE_CHECKING:
    from headrace.kafka.producer import SlotProducer, TransactionalProducer
    from spark.task.entry import TaskCredentials
    from spark.task.slot_session import DriverConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTaskSettings:
    """`options` is the hash of what decides which group a record belongs to."""

    name: str
    kafka: KafkaSettings
    s3: S3Settings
    errors: ErrorSettings
    sink: SinkSettings
    options: str
    log: TaskLog = field(default_factory=TaskLog)


def for_topic(settings: SinkTaskSettings, topic: str) -> SinkTaskSettings:
    """What is in force for a topic. `options` stays that of the whole sink."""
    route = settings.sink.route(topic)
    if route is None:
        return settings
    return replace(settings, sink=route.sink, s3=replace(settings.s3, bucket=route.bucket))


def sink_task_settings(settings: Settings, sink: SinkSettings) -> SinkTaskSettings:
    """The part of a sink's settings that goes to its tasks."""
    return SinkTaskSettings(
        name=settings.name,
        kafka=settings.kafka,
        s3=settings.s3,
        errors=settings.errors,
        sink=sink,
        options=grouping_hash(sink),
        log=log_of_this_process(),
    )


@dataclass(frozen=True, slots=True)
class SinkWork:
    """See `spark.task.entry.SlotWork`: Kafka to objects."""

    settings: SinkTaskSettings

    def run(self, credentials: "TaskCredentials") -> str | None:
        """See `SlotWork.run`."""
        from spark.task.slot_session import run_slot

        return run_slot(credentials, SinkProgram(self.settings), log=self.settings.log)

    def warm(self) -> str | None:
        """See `SlotWork.warm`."""
        import spark.sink.sink_run  # noqa: F401  # loading it is what takes the time
        from spark.task.slot_session import configure_worker_logs

        configure_worker_logs(self.settings.log.level)
        return None


class SinkProgram:
    """See `spark.task.slot_session.SlotProgram`."""

    batch_type = SinkBatch

    def __init__(self, settings: SinkTaskSettings) -> None:
        self.name = settings.name
        self._settings = settings

    def new_producer(self, slot: int, is_void: Callable[[], bool]) -> "SlotProducer":
        """See `SlotProgram.new_producer`."""
        from headrace.kafka.producer import TransactionalProducer

        return TransactionalProducer(
            self._settings.kafka.client("producer"),
            name=self.name,
            slot=slot,
            ledger_topic=self._settings.kafka.ledger_topic,
            is_void=is_void,
        )

    def run_batch(self, batch: SinkBatch, producer: "SlotProducer", link: "DriverConnection") -> Finished:
        """See `SlotProgram.run_batch`."""
        from spark.sink.sink_run import SinkRun

        return SinkRun(
            batch, producer=cast("TransactionalProducer", producer), link=link, settings=self._settings
        ).run()
