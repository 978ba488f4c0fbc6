"""One batch of a slot of the sink: its partitions are read until it is asked to end, or cannot continue."""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from headrace.formats.content_digest import has_content
from headrace.kafka.consumer.message_columns import FaultReason, LostOffsets, PartitionFault
from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.kafka.kafka_errors import CommitUnknown
from headrace.kafka.producer import SlotRevoked, TransactionalProducer
from headrace.kafka.producer.topic_limits import topic_limits
from headrace.model.clock import wall_ms
from headrace.model.error_policy import LEAST, Repeats
from headrace.model.errors import Fenced, HeadraceError
from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import PartitionGrant, PartitionReleased, SinkBatch, SinkLeft, SinkProgress
from headrace.model.slot_protocol import BatchOutcome, Finished
from headrace.s3.upload_calls import UploadCalls, new_upload_calls
from spark.sink.bad_records import DeadLetters
from spark.sink.grouping_options import refused_grouping
from spark.sink.object_keys import RecurringNames
from spark.sink.partition_work import PartitionWork, Stop
from spark.sink.record_feed import (
    FULL_SECONDS,
    MAX_PENDING,
    FetchSize,
    RecordFeed,
    close_excess,
    make_room,
    pending_objects,
    safely,
)
from spark.sink.routed_tools import RoutedTools
from spark.sink.sink_transaction import (
    DeadLettersRefused,
    DeadLettersWait,
    SinkTransactions,
    TransactionTurns,
)
from spark.sink.sink_work import SinkTaskSettings
from spark.sink.slot_uploads import (
    REFUSED_SECONDS,
    CompletingObjects,
    EndPatience,
    SlotUploads,
    give_up_failed,
)
from spark.task.slot_session import DriverConnection

_log = structlog.get_logger(__name__)

# The longest wait for records: how soon an end, a void slot and a finished upload are noticed.
_FETCH_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 0.005
_PROGRESS_SECONDS: Final = 1.0
# Of buffer.max.bytes: what the allocator loses between the pieces of a thousand open objects.
_LOST_SHARE: Final = 8
_FETCH_BUDGET_BYTES: Final = 16 * 1024 * 1024


class SinkRun:
    """One batch, run once."""

    def __init__(
        self,
        batch: SinkBatch,
        *,
        producer: TransactionalProducer,
        link: DriverConnection,
        settings: SinkTaskSettings,
        calls: UploadCalls | None = None,
        reader: PartitionReader | None = None,
        refused_seconds: float = REFUSED_SECONDS,
    ) -> None:
        sink = settings.sink
        self._batch = batch
        self._link = link
        self._producer = producer
        self._transactions = SinkTransactions(
            batch, producer=producer, link=link, settings=settings, report=self._report
        )
        self._uploads = SlotUploads(
            calls or new_upload_calls(settings.s3, sink.upload, has_content=has_content),
            part_bytes=sink.upload.part_bytes,
            max_bytes=sink.buffer.max_bytes - sink.buffer.max_bytes // _LOST_SHARE,
            directory=sink.buffer.directory,
            is_direct=not settings.kafka.exactly_once,
            prove=self._transactions.prove,
            threads=sink.upload.connections,
        )
        self._reader = reader or PartitionReader(
            settings.kafka.client("consumer"),
            group_id=sink.group_id,
            budget_bytes=_FETCH_BUDGET_BYTES,
            isolation_level=sink.reading.isolation,
        )
        self._settings = settings
        self._recurring = RecurringNames()
        tools = RoutedTools(
            batch.earlier,
            settings=settings,
            uploads=self._uploads,
            dead_letters=DeadLetters(
                settings.name,
                batch.slot,
                settings.errors,
                max_bytes=settings.kafka.message_max_bytes,
                limit_of=topic_limits(settings.kafka).of_dead_letters,
            ),
            recurring=self._recurring,
            beat=link.beat,
        )
        self._work = {
            grant.partition_of: PartitionWork(grant, tools.for_topic(grant.topic))
            for grant in batch.partitions
        }
        self._turns = TransactionTurns(self._work)
        self._feed = RecordFeed(self._work, self._reader, between=partial(make_room, self._uploads, link))
        self._read_again = Repeats(fix="It is read again from there until that is mended.")
        self._completing = CompletingObjects(batch.number, self._uploads, self._recurring)
        self._gone: set[TopicPartition] = set()
        self._reported_stops: set[TopicPartition] = set()
        self._refused_dead_letters: DeadLettersRefused | None = None
        self._progress_at = 0.0
        self._answered_at = time.monotonic()
        self._fetch_size = FetchSize()
        self._refused_seconds = refused_seconds

    def run(self) -> Finished:
        """What became of the batch; blocks until its end. SlotRevoked when the slot is voided."""
        try:
            self._feed.read()
            self._reader.know_held({one.partition_of: one.held for one in self._batch.partitions if one.held})
            for grant in self._batch.partitions:
                self._refuse_changed_converters(grant)
            while not self._link.is_ending():
                self._step(_FETCH_SECONDS)
            given_up = self._end()
        except SlotRevoked:
            self._abort_if_known()
            raise
        except CommitUnknown as error:
            return self._finished(BatchOutcome.UNKNOWN, error)
        except Fenced as error:
            self._abort_if_known()
            return self._finished(BatchOutcome.FENCED, error)
        except HeadraceError as error:
            known = self._abort_if_known()
            return self._finished(BatchOutcome.ABORTED if known else BatchOutcome.UNKNOWN, error)
        finally:
            # Uploads that a transaction has named stay for whoever completes them; the others end by the
            # bucket's own rule.
            self._uploads.close()
            self._reader.close()
        return self._finished(BatchOutcome.CLEAN, given_up)

    def _refuse_changed_converters(self, grant: PartitionGrant) -> None:
        """Stop a partition whose archived records cannot be told any more from those that are not."""
        message = refused_grouping(grant, self._batch.earlier, self._settings.sink)
        if message is None:
            return
        work = self._work[grant.partition_of]
        work.stop = Stop(offset=grant.offset, reason="grouping_changed", message=message)
        self._note_stop(work)
        self._reader.pause([work.partition])

    # -- one round -------------------------------------------------------------------------------------------

    def _step(self, seconds: float) -> None:
        self._link.beat()
        if self._link.is_void():
            raise SlotRevoked
        if self._uploads.is_full or self._pending >= MAX_PENDING:
            self._uploads.wait(FULL_SECONDS)
        else:
            self._fetch(seconds)
        now_ms = wall_ms()
        self._feed.retry(now_ms)
        for work in self._work.values():
            self._note_stop(work)
            safely(work, partial(work.objects.close_due, now_ms))
        close_excess(self._work.values())
        self._uploads.balance()
        self._commit(now_ms)
        self._collect()
        self._rewind_failed()
        self._release_gone()
        self._report()

    def _fetch(self, seconds: float) -> None:
        pending = self._pending
        found = self._reader.poll(self._fetch_size.within(pending), self._patience(seconds))
        for event in self._reader.drain_events():
            self._on_event(event)
        for records in found:
            self._fetch_size.measure(records, self._producer.pace_bytes)
            self._feed.add(records, wall_ms())
            work = self._work[TopicPartition(records.topic, records.partition)]
            if work.is_at_stop:
                self._reader.pause([work.partition])
        self._fetch_size.closed(sum(map(len, found)), self._pending - pending)
        self._feed.read_to(self._reader.reached())

    @property
    def _pending(self) -> int:
        return pending_objects(self._work.values(), len(self._completing))

    def _patience(self, seconds: float) -> float:
        """How long to wait for records: until the next object closes by time, or an upload is answered."""
        now = time.monotonic()
        if self._completing or any(work.objects.closed for work in self._work.values()):
            # An eighth more than S3 has taken anyway: it may be away for long.
            return min(max(_ANSWER_SECONDS, (now - self._answered_at) / 8), FULL_SECONDS)
        self._answered_at = now
        now_ms = wall_ms()
        timed = [one.objects for one in self._work.values() if not one.objects.is_reading_again(now_ms)]
        dues = [due for one in timed if (due := one.next_due_ms()) is not None]
        return min(seconds, max(0.001, (min(dues) - now_ms) / 1000)) if dues else seconds

    def _on_event(self, event: LostOffsets | PartitionFault) -> None:
        partition = TopicPartition(event.topic, event.partition)
        if (work := self._work.get(partition)) is None:
            return
        if isinstance(event, LostOffsets):  # below the position were only markers of transactions
            if (first := work.deleted(event.first, event.end)) is not None:
                # Before a later offset is committed: a slot that ends would take the news with it.
                self._report((event.topic, event.partition, first, event.end))
        elif event.reason is FaultReason.TOPIC_DELETED:
            self._gone.add(partition)
        else:
            work.stop_reading(event.offset, event.reason, event.message)
            self._note_stop(work)

    def _note_stop(self, work: PartitionWork) -> None:
        if work.stop is None or work.partition in self._reported_stops:
            return
        self._reported_stops.add(work.partition)
        self._link.send(work.stop.report(self._batch.number, work.partition))

    # -- what is committed, and completed --------------------------------------------------------------------

    def _commit(self, now_ms: int) -> None:
        """Commit what is sealed, all partitions together."""
        commits = self._turns.next(now_ms)
        if not commits:
            return
        try:
            report = self._transactions.commit(
                [one for _, commit in commits for one in commit.objects],
                [commit.checkpoint for _, commit in commits],
                [dead_letter for _, commit in commits for dead_letter in commit.dead_letters],
                [reason for _, commit in commits for reason in commit.bad],
            )
        except DeadLettersRefused as error:
            self._stop_at_dead_letters([work for work, commit in commits if commit.dead_letters], error)
            return
        self._gone |= self._transactions.gone
        for work, commit in commits:
            report.times.update(commit.times)
            work.committed(commit)
            self._read_again.over(str(work.partition))
            for one in commit.objects:
                self._completing.add(one)
        self._link.send(report)

    def _stop_at_dead_letters(self, works: Sequence[PartitionWork], error: DeadLettersRefused) -> None:
        """Stop these partitions at their first bad records, for which there is no place; others continue."""
        self._refused_dead_letters = error
        if isinstance(error, DeadLettersWait):
            is_over = partial(self._transactions.has_leaders, error.topic)
            self._feed.hold((work.partition for work in works), str(error), is_over)
        else:
            for work in works:
                work.stop_at_dead_letter(str(error))
                self._note_stop(work)
        self._rewind(works)
        # Nothing of the others was committed with it.
        self._turns.hurry()

    def _collect(self) -> None:
        """Tell the leader of uploads that are completed, or that cannot be; take what it tells of others."""
        for object_id in self._link.ended_objects():
            self._recurring.release(object_id)
        if (report := self._completing.collect()) is not None:
            self._answered_at = time.monotonic()
            self._link.send(report)

    # -- topics that are gone --------------------------------------------------------------------------------

    def _close_for_good(self, work: PartitionWork) -> None:
        """It is never read again, so what is open does not wait for anything else."""
        safely(work, partial(work.objects.close_all, at_any_rate=True))

    def _release_gone(self) -> None:
        """Write what was read of topics that are gone, and give their partitions up; the others continue."""
        released = False
        for partition in sorted(self._gone):
            work = self._work.get(partition)
            if work is None:
                self._gone.discard(partition)
                continue
            self._close_for_good(work)
            if work.failure() is None and any(True for _ in work.objects.uncommitted()):
                continue
            if work.failure() is None and safely(work, partial(work.transaction, wall_ms())) is not None:
                # Offsets that moved without an object.
                self._turns.hurry()
                continue
            self._link.send(
                PartitionReleased(
                    batch=self._batch.number, topic=partition.topic, partition=partition.partition
                )
            )
            work.abandon()
            del self._work[partition]
            self._gone.discard(partition)
            released = True
        if released:
            self._rewind(())

    # -- starting over ---------------------------------------------------------------------------------------

    def _rewind_failed(self) -> None:
        failed = [work for work in self._work.values() if work.failure() is not None]
        for work in failed:
            why = work.failure() or ""
            _log.warning(
                "partition_read_again",
                partition=str(work.partition),
                offset=work.committed_offset,
                reason=why,
            )
            times = self._read_again.failed(str(work.partition), f"offset {work.committed_offset}", why)
            if times >= LEAST and work.isolation.is_at_no_record:
                work.give_up(why)
                self._note_stop(work)
            elif work.isolation.broken is None:
                # Where it is, the failing record is looked for by reading again.
                self._feed.delay(work.partition, times, why)
        if failed:
            self._rewind(failed)

    def _rewind(self, works: Iterable[PartitionWork]) -> None:
        """Give up what of these is not committed, and read them again from their checkpoints."""
        for work in works:
            work.abandon()
        self._feed.read()

    # -- the end ---------------------------------------------------------------------------------------------

    def _end(self) -> HeadraceError | str | None:
        """Close, commit and complete everything that is open; why closed objects are given up, if any are.

        Where S3 refuses, what no transaction has named is read again, and the rest is left to the leader.
        What was read of a deleted topic waits for S3: it is nowhere else.
        """
        self._refused_dead_letters = why = failed = None
        patience = EndPatience(self._uploads, seconds=self._refused_seconds)
        for work in self._work.values():
            safely(work, work.objects.close_all)
        while self._completing or any(work.objects.closed for work in self._work.values()):
            self._link.beat()
            if self._link.is_void():
                raise SlotRevoked
            self._commit(wall_ms())
            for at in self._gone & self._work.keys():
                self._close_for_good(self._work[at])
            self._collect()
            self._report()
            failed = give_up_failed(self._work.values()) or failed
            why = None if self._holds_the_last() else patience.refusal()
            if why is not None:
                break
            self._uploads.wait(FULL_SECONDS)
        self._turns.hurry()
        self._commit(wall_ms())
        self._collect()
        if (left := self._completing.leave()) is not None:
            self._link.send(left)
        is_left = any(work.objects.closed for work in self._work.values())
        self._tell_left()
        for work in self._work.values():
            # What a stop leaves open (rotate.on.stop) is read again.
            work.abandon()
        # All commits are answered: nothing of it is in a transaction.
        self._uploads.finish_aborts()
        return failed or (why if is_left else self._refused_dead_letters)

    def _holds_the_last(self) -> bool:
        """Whether records are closed here that cannot be read again, as their topic is deleted."""
        return any(self._work[at].objects.closed for at in self._gone & self._work.keys())

    def _tell_left(self) -> None:
        now_ms = wall_ms()
        left = {at: work.left(now_ms) for at, work in self._work.items() if work.stop is None}
        self._link.send(SinkLeft(batch=self._batch.number, partitions=left))

    def _abort_if_known(self) -> bool:
        """Abort what is open, unless its commit was sent; True once nothing is in doubt."""
        return not self._producer.is_in_doubt and self._producer.abort()

    def _finished(self, outcome: BatchOutcome, error: HeadraceError | str | None) -> Finished:
        return Finished(
            batch=self._batch.number, outcome=outcome, error=None if error is None else str(error)
        )

    # -- what is shown ---------------------------------------------------------------------------------------

    def _report(self, *lost: tuple[str, int, int, int]) -> None:
        now = time.monotonic()
        if now < self._progress_at and not lost:
            return
        self._progress_at = now + _PROGRESS_SECONDS
        works = self._work.values()
        self._link.send(
            SinkProgress(
                batch=self._batch.number,
                positions={
                    partition: self._work[partition].position
                    if self._feed.is_waiting(partition)
                    else position
                    for partition, position in self._reader.positions().items()
                    if partition in self._work
                },
                ends=dict(self._reader.high_watermarks()),
                open_objects=sum(work.objects.open_count for work in works),
                pending_objects=self._pending,
                buffered_bytes=self._uploads.buffered_bytes,
                spilled_bytes=self._uploads.spilled_bytes,
                oldest_open_ms=min(
                    (one for work in works if (one := work.objects.oldest_open_ms) is not None), default=None
                ),
                problems={
                    name: sentence
                    for one in (self._reader, self._uploads, self._feed, self._read_again, self._transactions)
                    for name, sentence in one.problems().items()
                },
                lost_offsets=lost,
                held=self._reader.held(),
            )
        )
