"""The open transaction of a batch: what it holds, when it closes, and how far each object of the batch is.

Of each object it is known what was sent, what is committed, and how it ended. A record that the broker
refuses is found by sending less and less after each refusal.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from headrace.kafka.producer import SlotProducer, SlotRevoked
from headrace.model.clock import wall_ms
from headrace.model.errors import (
    HeadraceError,
    InvalidObject,
    TopicForbidden,
    TopicMissing,
    TopicWithoutLeader,
)
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey, State, is_owed, shortened
from headrace.model.objects import ObjectId
from headrace.model.positions import Position
from headrace.model.slot_protocol import Batch, Checkpoint, Committed, Failure, Split
from spark.source.dead_letters import REFUSED
from spark.source.source_work import TaskSettings
from spark.task.slot_session import DriverConnection

_ABOUT_TOPICS = (TopicForbidden, TopicMissing, TopicWithoutLeader)


class CheckpointState(NamedTuple):
    """What a checkpoint of a work would say. `state` stays PARTIAL until the work has an end."""

    records: int
    bad: int
    position: Position | None
    state: State = State.PARTIAL
    reason: str | None = None
    error: str | None = None


class SplitProgress:
    """One work of a batch. `now` runs ahead of `committed` by what the open transaction holds."""

    __slots__ = ("committed", "error", "is_answered", "is_left", "now", "split")

    def __init__(self, split: Split) -> None:
        self.split = split
        self.now = CheckpointState(records=split.records, bad=split.bad, position=split.start)
        self.committed = self.now
        self.error: HeadraceError | None = None
        self.is_left = False
        self.is_answered = False
        """What was asked of the work needed no records: where its object can be cut."""

    @property
    def is_finished(self) -> bool:
        """True when nothing more is to be sent for this work in this batch."""
        return (
            self.error is not None or self.is_left or self.is_answered or self.now.state is not State.PARTIAL
        )

    @property
    def remaining(self) -> Split:
        """The work as it continues from what is committed."""
        committed = self.committed
        if committed == (self.split.records, self.split.bad, self.split.start, State.PARTIAL, None, None):
            return self.split
        if committed.position == self.split.start:
            return replace(self.split, records=committed.records, bad=committed.bad)
        # What this task committed has the meaning that its own settings give it.
        return replace(
            self.split,
            start=committed.position,
            options=None,
            records=committed.records,
            bad=committed.bad,
        )

    def advance(self, position: Position, *, records: int = 0, bad: int = 0) -> None:
        """Everything before `position` is sent, with so many records and bad rows more."""
        now = self.now
        self.now = CheckpointState(now.records + records, now.bad + bad, position, *now[3:])

    def finish(self, state: State, *, reason: str | None = None, error: str | None = None) -> None:
        """The work's end in the ledger, once it is committed."""
        self.now = CheckpointState(*self.now[:3], state, reason, error)

    def fail(self, error: HeadraceError) -> None:
        """The work stops without an end in the ledger: the driver decides what becomes of it."""
        self.error = error

    def hand_back(self) -> None:
        """The work goes back untouched from here on."""
        self.is_left = True

    def roll_back(self) -> None:
        """Forget what was not committed, an end or an error met after it included."""
        self.now, self.error = self.committed, None

    def failure(self) -> Failure:
        """The report of a split that failed, which continues from what is committed."""
        return Failure(
            work=self.remaining,
            kind=type(self.error).__name__,
            message=shortened(str(self.error)),
            reason=self.error.reason if isinstance(self.error, InvalidObject) else None,
            topic=self.error.topic if isinstance(self.error, _ABOUT_TOPICS) else None,
        )

    def checkpoint(self, options: str, post_action: str | None = None) -> Checkpoint:
        """The ledger record of where the work is now; at a good end `post_action` is owed."""
        split, now = self.split, self.now
        key: LedgerKey = split.object.id
        is_whole = split.begin is None or split.end is None
        if split.begin is not None and split.end is not None:
            key = SplitKey(split.object.id, split.begin, split.end)
        entry = LedgerEntry(
            state=now.state,
            reason=now.reason,
            records=now.records,
            bad=now.bad,
            position=now.position,
            options=None if now.position is None else options,
            topic=split.route.output,
            partition=split.route.partition,
            attempts=split.attempts,
            error=None if now.error is None else shortened(now.error),
            size=split.object.size,
            version_id=split.object.version_id,
            last_modified_ms=split.object.last_modified_ms,
            updated_ms=wall_ms(),
            sides=split.sides,
            tombstones=split.tombstones,
            action=post_action if is_whole and not split.is_kept and is_owed(now.state, now.bad) else None,
            is_kept=split.is_kept,
        )
        return Checkpoint(key=key, entry=entry)


DeadLetterOf = tuple[SplitProgress, Position]


class RefusedRecords:
    """What was sent last, and which records and dead letters were refused when they were sent alone.

    The sender says so before; after a refusal `narrow` knows the one that was sent alone. Rows are
    known by their split's number within the batch and the position they begin at.
    """

    def __init__(self) -> None:
        # At most one of these two: the record last sent, or whose copy the dead letter last sent is.
        self._last_row: tuple[int, Callable[[], Position]] | None = None
        self._last_dead_letter: DeadLetterOf | None = None
        # Why, by the row.
        self._rows: dict[tuple[int, Position], str] = {}
        self._dead_letters: set[DeadLetterOf] = set()

    def sends_row(self, index: int, position: Callable[[], Position]) -> None:
        """A row of split `index` is about to be sent; `position` is asked only after a refusal."""
        self._last_row = (index, position)

    def sends_dead_letter(self, progress: SplitProgress, position: Position) -> None:
        """The dead letter of the row at `position` is about to be sent."""
        self._last_row, self._last_dead_letter = None, (progress, position)

    def why_row(self, index: int, position: Callable[[], Position]) -> str | None:
        """Why a row was refused alone; None for any other. `position` is asked only where one was."""
        return self._rows.get((index, position())) if self._rows else None

    def holds_dead_letter(self, progress: SplitProgress, position: Position) -> bool:
        """True for a dead letter that was refused alone: it goes once more, without its value."""
        return (progress, position) in self._dead_letters

    def narrow(self, *, sent: int, touched: Collection[SplitProgress], why: str) -> Collection[SplitProgress]:
        """Remember what was refused alone, and why, the transaction having held `sent` <= 1 records.

        Returns the splits that fail: nothing of theirs is left to try.
        """
        if self._last_row is not None:
            row = self._last_row[0], self._last_row[1]()
            if row not in self._rows:
                self._rows[row] = why
                return ()
        copy = self._last_dead_letter
        if not sent or copy is None or copy[0] not in touched:
            return touched  # nothing but checkpoints: there is no smaller step
        if copy in self._dead_letters:
            return (copy[0],)
        # Its topic's limit may be lower now than when it was asked for.
        self._dead_letters.add(copy)
        return ()


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
        self._options_of = settings.options_of
        self._post_action = settings.post_action
        self._interval = settings.kafka.transaction_interval_ms / 1000
        self._take_fetched = take_fetched
        self._opened_at = 0.0
        self._touched: dict[int, SplitProgress] = {}
        self._records: Counter[str] = Counter()
        self._writers: dict[str, set[SplitProgress]] = {}
        self._bad: Counter[str] = Counter()
        self._inexact: Counter[str] = Counter()
        self._most = self._limit = settings.kafka.transaction_records
        self._widens = False
        self.sent = 0
        """Records in it, dead letters included, checkpoints not."""

    @property
    def room(self) -> int:
        """How many records still fit, one at least."""
        return max(1, self._limit - self.sent)

    @property
    def is_due(self) -> bool:
        """True when it has to close now."""
        # A refused row is committed before the next is tried: it would be gone through again with each.
        counted = self.sent + self._bad[REFUSED] if self._widens else self.sent
        return self._producer.is_open and (
            counted >= self._limit or time.monotonic() - self._opened_at >= self._interval
        )

    def narrow(self, sent: int) -> None:
        """Take fewer records: half of these, which were refused, until it is one that was sent alone.

        What follows that one is as likely refused. So records go alone from there on, and those that are
        taken double the number: an object of refused records is not searched again for each.
        """
        self._limit, self._widens = max(1, sent // 2), sent <= 1

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

    def count(self, topic: str, records: int, progress: SplitProgress) -> None:
        """So many records more of this work are in it."""
        self._records[topic] += records
        self._writers.setdefault(topic, set()).add(progress)
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
            progress.checkpoint(self._options_of(progress.split.object.id), self._post_action)
            for progress in self._touched.values()
        )
        self._producer.commit(checkpoints)
        if self._widens and not self._bad[REFUSED]:
            self._limit = min(2 * self._limit, self._most)
            self._widens = self._limit < self._most
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

    def writers(self) -> Mapping[str, Collection[SplitProgress]]:
        """The works that it holds records of, by topic."""
        return dict(self._writers)

    def touched(self) -> tuple[SplitProgress, ...]:
        """The works that it holds something of."""
        return tuple(self._touched.values())

    def _reset(self) -> None:
        self._touched.clear()
        self._records.clear()
        self._writers.clear()
        self._bad.clear()
        self._inexact.clear()
        self.sent = 0
