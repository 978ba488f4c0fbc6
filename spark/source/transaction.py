"""The open transaction of a batch: what it holds so far, and when it has to close."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

from headrace.kafka.producer import SlotProducer, SlotRevoked
from headrace.model.objects import ObjectId
from headrace.model.slot_protocol import Batch, Committed
from spark.source.split_progress import SplitProgress
from spark.source.task_settings import TaskSettings
from spark.task.driver_connection import DriverConnection


class SlotTransaction:
    """Begun when there is something to send or soon will be, closed by time, by records, or with the work.

    The first thing in it is the group commit, the last one a checkpoint of each object it touched.
    `take_fetched` gives the bytes fetched since it was last asked, by object.
    """

    def __init__(
        self,
        batch: Batch,
        *,
        producer: SlotProducer,
        link: DriverConnection,
        settings: TaskSettings,
        take_fetched: Callable[[], "Counter[ObjectId]"],
    ) -> None:
        self._batch = batch
        self._producer = producer
        self._link = link
        self._options = settings.options
        self._post_action = settings.post_action
        self._interval = settings.kafka.transaction_interval_ms / 1000
        self._take_fetched = take_fetched
        self._opened_at = 0.0
        self._touched: dict[int, SplitProgress] = {}
        self._records: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()
        self._inexact: Counter[str] = Counter()
        self.limit = settings.kafka.transaction_records
        """Records after which it closes; lowered while a refused record is searched for."""
        self.sent = 0
        """Records in it, dead letters included, checkpoints not."""

    @property
    def room(self) -> int:
        """How many records still fit, one at least."""
        return max(1, self.limit - self.sent)

    @property
    def is_due(self) -> bool:
        """True when it has to close now."""
        return self._producer.is_open and (
            self.sent >= self.limit or time.monotonic() - self._opened_at >= self._interval
        )

    def seconds_left(self) -> float | None:
        """Until it has to close by time; None while none is open."""
        if not self._producer.is_open:
            return None
        return max(0.0, self._opened_at + self._interval - time.monotonic())

    def open(self) -> None:
        """Begin it, unless it is open. SlotRevoked when the slot is."""
        if self._link.is_void():
            raise SlotRevoked
        if not self._producer.is_open:
            self._opened_at = time.monotonic()
            self._producer.begin(self._batch.group)

    def make_room(self) -> None:
        """Have one open that takes another record: one that is due is committed first. Raises as `open`."""
        if self.is_due:
            self.commit()
        self.open()

    def touch(self, progress: SplitProgress) -> None:
        """The work gets a checkpoint in it."""
        self._touched[id(progress)] = progress

    def count(self, topic: str, records: int) -> None:
        """So many records more are in it."""
        self._records[topic] += records
        self.sent += records

    def count_bad(self, reason: str) -> None:
        """One more bad row is accounted for in it."""
        self._bad[reason] += 1

    def count_inexact(self, counts: Mapping[str, int]) -> None:
        """So much of it could not be restored as it was, by what."""
        self._inexact.update(counts)

    def commit(self) -> None:
        """Commit it with its checkpoints and report that; nothing when none is open."""
        if not self._producer.is_open:
            return
        checkpoints = tuple(
            progress.checkpoint(self._options, self._post_action) for progress in self._touched.values()
        )
        self._producer.commit(checkpoints)
        for progress in self._touched.values():
            progress.committed = progress.now
        committed = Committed(
            batch=self._batch.number,
            checkpoints=checkpoints,
            records_by_topic=dict(self._records),
            bad_by_reason=dict(self._bad),
            inexact=dict(self._inexact),
            fetched=dict(self._take_fetched()),
            seconds=time.monotonic() - self._opened_at,
        )
        self._reset()
        self._link.send(committed)

    def abort(self) -> bool:
        """Give it up: its works are where they were committed. True once the broker has acknowledged."""
        acknowledged = self._producer.abort()
        for progress in self._touched.values():
            progress.roll_back()
        self._reset()
        return acknowledged

    def touched(self) -> tuple[SplitProgress, ...]:
        """The works that it holds something of."""
        return tuple(self._touched.values())

    def _reset(self) -> None:
        self._touched.clear()
        self._records.clear()
        self._bad.clear()
        self._inexact.clear()
        self.sent = 0
