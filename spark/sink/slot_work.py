"""What a slot of the sink does, as its job carries it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from headrace.model.sink_protocol import SinkBatch
from headrace.model.slot_protocol import Finished
from spark.sink.task_settings import SinkTaskSettings

if TYPE_CHECKING:
    from headrace.kafka.producer import SlotProducer, TransactionalProducer
    from spark.task.driver_connection import DriverConnection
    from spark.task.entry import TaskCredentials


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
