"""What a slot of the source does, as its job carries it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.slot_protocol import Batch, Finished
from spark.source.task_settings import TaskSettings

if TYPE_CHECKING:
    from headrace.kafka.producer import SlotProducer
    from spark.task.driver_connection import DriverConnection
    from spark.task.entry import TaskCredentials


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
