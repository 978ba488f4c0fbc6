"""One batch of work: its objects decoded and produced in transactions that carry their checkpoints."""

import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from headrace.kafka.kafka_errors import CommitUnknown, was_too_late, why_refused
from headrace.kafka.producer import SlotProducer, SlotRevoked
from headrace.kafka.producer.topic_limits import REFUSALS, topic_limits
from headrace.model.columns import BadRow, RecordTarget, RowBatch
from headrace.model.error_policy import policy_of
from headrace.model.errors import (
    AccessDenied,
    Fenced,
    HeadraceError,
    InvalidObject,
    RecordRefused,
    SourceUnavailable,
    SubjectForbidden,
    TopicForbidden,
    TopicMissing,
    TransactionAborted,
)
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from headrace.model.positions import Position
from headrace.model.slot_protocol import UNRECORDED_OPTIONS, Batch, BatchOutcome, Finished, Split
from headrace.options.choices import Ordering, Tolerance
from headrace.s3.reader import Prefetch
from spark.source.dead_letters import bad_row_log, dead_letter, refused_row
from spark.source.decoding import Decoding
from spark.source.pipeline import DecodedRows, DecodingStopped, Pipeline, SplitEnded, SplitPoints, Watchdog
from spark.source.source_work import TaskSettings, rate_limiter, s3_calls
from spark.source.transaction import RefusedRecords, SlotTransaction, SplitProgress
from spark.task.slot_session import DriverConnection

log = structlog.get_logger(__name__)

# How often a task without an open transaction looks whether it was voided or is wanted elsewhere.
_LOOK_SECONDS: Final = 0.5
# What a task may say of an object when its transaction failed; all else passes by itself.
_TELLING: Final = (TopicMissing, AccessDenied)


class BatchRun:
    """One batch, run once. Every work comes to a committed end, to a failure, or is returned."""

    def __init__(
        self, batch: Batch, *, producer: SlotProducer, link: DriverConnection, settings: TaskSettings
    ) -> None:
        self._batch = batch
        self._producer = producer
        self._link = link
        self._settings = settings
        self._limits = topic_limits(settings.kafka)
        self._decoding = Decoding(settings.format, self._limits, settings.transforms)
        self._progress = tuple(SplitProgress(split) for split in batch.splits)
        for progress in self._progress:
            self._refuse_other_meaning(progress)
        self._targets: dict[tuple[int, str | None], RecordTarget] = {}
        self._cuts: list[tuple[Split, tuple[int, ...]]] = []
        self._began_at = time.monotonic()
        self._bad_log = bad_row_log(settings.name)
        self._refused = RefusedRecords()
        self._has_aborted = False
        self._follows_refusal = False
        self._untaken: Counter[ObjectId] = Counter()
        self._pipeline: Pipeline | None = None
        self._watchdog = Watchdog(link, settings)
        self._transaction = SlotTransaction(
            batch, producer=producer, link=link, settings=settings, take_fetched=self._take_fetched
        )

    def run(self) -> Finished:
        """What became of the batch; blocks. Raises SlotRevoked when the driver has let go of the slot."""
        try:
            while not self._pass():
                pass
        except SlotRevoked:
            self._give_up()
            raise
        except CommitUnknown as error:
            return self._finished(BatchOutcome.UNKNOWN, error)
        except Fenced as error:
            self._give_up()
            return self._finished(BatchOutcome.FENCED, error)
        except HeadraceError as error:
            touched, writers = self._transaction.touched(), self._transaction.writers()
            is_aborted = self._transaction.abort()
            refused = self._refusals(error, writers)
            others = error if isinstance(error, _TELLING) and not refused else TransactionAborted(str(error))
            for progress in touched:
                progress.fail(refused.get(progress, others))
            # An abort that nobody has acknowledged may come after a commit that was tried: void, fence, read.
            return self._finished(BatchOutcome.ABORTED if is_aborted else BatchOutcome.UNKNOWN, error)
        # The producer of an aborted transaction is not kept, though the rest of the batch went well.
        return self._finished(BatchOutcome.ABORTED if self._has_aborted else BatchOutcome.CLEAN, None)

    def _refuse_other_meaning(self, progress: SplitProgress) -> None:
        """Fail a work whose position or cuts were written under settings that gave them another meaning.

        A split that was not begun is refused, too: what its neighbours read decides what is left for it.
        """
        split = progress.split
        if (split.start is None and not split.is_part) or split.options in {None, self._options_of(split)}:
            return
        if split.options == UNRECORDED_OPTIONS:
            sentence = (
                "was split under a configuration that the ledger does not show, so rows between its splits "
                "may be missing. Replay the object with --from-start."
            )
        else:
            sentence = (
                "was begun under another configuration (format, compression, chunk size, envelope, topic, "
                "template or prefix), so its position means something else now. Set it back and replay the "
                "object, or replay it with --from-start."
            )
        progress.fail(InvalidObject(f"{split.object.id.url} {sentence}", reason="configuration_changed"))

    def _options_of(self, split: Split) -> str:
        return self._settings.options_of(split.object.id)

    def _pass(self) -> bool:
        """Go through what is not over yet; False when a record was refused and is still searched."""
        splits = [
            (i, progress.remaining) for i, progress in enumerate(self._progress) if not progress.is_finished
        ]
        if not splits:
            return True
        try:
            calls = s3_calls(self._settings.s3)
        except AccessDenied as error:
            # Nothing of the batch can be read, and the driver has to know why.
            for index, _ in splits:
                self._progress[index].fail(error)
            return True
        sources = Prefetch(
            calls,
            [split for _, split in splits],
            rate_limiter(self._settings.bytes_per_second),
            streams=self._decoding.streams,
        )
        self._pipeline = Pipeline(
            splits,
            sources,
            decode=self._decoding.decode,
            cuts=self._decoding.cuts,
            can_resume=self._decoding.can_resume,
        )
        try:
            if any(work.object.size and not work.splits_wanted for _, work in splits):
                # There will be rows, as good as surely: begun while the first object is on its way.
                self._transaction.open()
            self._drain(self._pipeline)
            self._transaction.commit()
        except RecordRefused as error:
            self._narrow(error)
            return False
        except TransactionAborted as error:
            if not self._follows_refusal:
                raise
            # librdkafka 2.16 counts the refused records on in their sequence, so that the broker misses
            # some in the next transaction; only that one's abort starts a new sequence (and epoch).
            self._follows_refusal = False
            self._abort_and_go_on(error)
            return False
        finally:
            self._pipeline.close()
            self._untaken += self._pipeline.take_fetched()
            self._pipeline = None
        return True

    def _drain(self, pipeline: Pipeline) -> None:
        """Take steps until there are no more, closing transactions whenever they are due."""
        while True:
            self._watchdog.check(pipeline)
            left = self._transaction.seconds_left()
            step = pipeline.next_step(_LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS))
            if self._link.is_void():
                raise SlotRevoked
            # What was handed over together is taken together: the questions around it are for a group.
            while step is not None:
                if isinstance(step, DecodingStopped):
                    return
                self._act(pipeline, step)
                self._commit_if_due(pipeline)
                step = pipeline.step_at_hand()
            self._commit_if_due(pipeline)
            if self._link.is_ending():
                pipeline.stop(anywhere=True)
            elif time.monotonic() - self._began_at >= self._batch.max_seconds:
                pipeline.stop()

    def _commit_if_due(self, pipeline: Pipeline) -> None:
        # An object's end is part of the transaction of its last rows, not of one more.
        if self._transaction.is_due and not pipeline.ends_next():
            self._transaction.commit()

    def _act(self, pipeline: Pipeline, step: DecodedRows | SplitEnded | SplitPoints) -> None:
        progress = self._progress[step.index]
        if progress.is_finished:
            # Decoded before the work came to its end.
            return
        match step:
            case DecodedRows(index, rows):
                self._rows(index, progress, rows)
            case SplitEnded(_, error):
                if error is None:
                    self._end(progress)
                else:
                    progress.fail(self._of_all(error))
            case SplitPoints(_, marks):
                self._cuts.append((replace(progress.split, options=self._options_of(progress.split)), marks))
                progress.is_answered = True
        if progress.is_finished:
            pipeline.skip(step.index)
        if progress.error is not None and policy_of(type(progress.error).__name__).holds_partition_back:
            self._hold_back(pipeline, progress)

    # Rows.

    def _rows(self, index: int, progress: SplitProgress, rows: RowBatch) -> None:
        """Send the rows of a batch and what becomes of its bad ones, in order."""
        try:
            # No record, no question: before a router the topic is one that nobody writes to.
            target = self._target(index, progress.split, rows.topic) if len(rows) else None
            if rows.bad and self._settings.errors.dead_letter is not None:
                # Missing, it is told at once; librdkafka would wait for it, the whole transaction with it.
                self._producer.partitions(self._settings.errors.dead_letter.topic)
                self._limits.require_writable(self._settings.errors.dead_letter.topic)
                self._limits.of_dead_letters(self._settings.errors.dead_letter.topic)
        except (*REFUSALS, TopicMissing, AccessDenied, InvalidObject, SourceUnavailable) as error:
            progress.fail(self._of_all(error))
            return
        if rows.inexact:
            self._transaction.make_room()
            self._transaction.count_inexact(rows.inexact)
        at = 0
        for bad in rows.bad:
            self._send(index, progress, target, rows, at, bad.index, then=bad.position)
            if not progress.is_finished:
                self._bad(progress, bad)
            if progress.is_finished:
                return
            at = bad.index
        self._send(index, progress, target, rows, at, len(rows), then=rows.after)
        if not len(rows) and not rows.bad:
            # A large object may have none for long: it is as far as it is read all the same.
            self._transaction.open()
            self._transaction.touch(progress)

    def _send(
        self,
        index: int,
        progress: SplitProgress,
        target: RecordTarget | None,
        rows: RowBatch,
        begin: int,
        end: int,
        *,
        then: Position,
    ) -> None:
        """Send rows [begin, end), as many transactions as it takes; `then` is the position after them."""
        transaction = self._transaction
        while begin < end:
            assert target is not None, "rows have a target"
            why = self._refused.why_row(index, partial(rows.positions, begin))
            if why is not None:
                self._bad(progress, refused_row(rows, begin, then if begin + 1 == end else None, why))
                if progress.is_finished:
                    return
                begin += 1
                continue
            transaction.make_room()
            until = min(end, begin + transaction.room)
            transaction.touch(progress)
            self._refused.sends_row(index, partial(rows.positions, begin))
            # Before: where one of the first is refused, the others are not queued any more.
            transaction.count(target.topic, until - begin, progress)
            self._producer.send(target, rows, begin, until)
            progress.advance(then if until == end else rows.positions(until), records=until - begin)
            begin = until
        # Blank lines may lie behind the last row.
        progress.advance(then)

    def _target(self, index: int, split: Split, topic: str | None) -> RecordTarget:
        """Where the work's rows go; to `topic` if transforms say so.

        TopicMissing, TopicForbidden, TopicWithoutLeader; InvalidObject when its partition does not exist.
        """
        known = self._targets.get((index, topic))
        if known is None:
            known = self._decoding.target(split)
            if topic is not None:
                known = replace(known, topic=topic, key=None, headers=())
            wanted = self._decoding.partitions_wanted(known.partition)
            count = self._producer.partitions(known.topic, at_least=wanted)
            # Told at once as well: a refused transaction is aborted with what others wrote in it.
            self._limits.require_writable(known.topic)
            partition = self._decoding.partition_among(known.partition, count)
            if partition != known.partition:
                known = replace(known, partition=partition)
            if known.partition is not None and known.partition >= count:
                is_archive = self._settings.format.restore is not None
                remedy = "restore.partition" if is_archive else "file.name.template"
                raise InvalidObject(
                    f"{split.object.id.url}: partition {known.partition} does not exist, "
                    f"topic {known.topic!r} has {count}. Add partitions, or correct {remedy}.",
                    reason="unknown_partition",
                )
            self._targets[index, topic] = known
        return known

    def _bad(self, progress: SplitProgress, bad: BadRow) -> None:
        """Stop the work in front of a bad row, or set the row aside and continue after it."""
        errors, transaction = self._settings.errors, self._transaction
        transaction.make_room()
        transaction.touch(progress)
        transaction.count_bad(bad.reason)
        if errors.tolerance is Tolerance.NONE:
            progress.advance(bad.position)
            progress.finish(State.QUARANTINED, reason=bad.reason, error=bad.message)
            becomes = "the object is quarantined"
        else:
            becomes = "left out"
            if errors.dead_letter is not None:
                topic = errors.dead_letter.topic
                is_emptied = self._refused.holds_dead_letter(progress, bad.position)
                key, value, headers = dead_letter(
                    progress.split,
                    bad,
                    settings=self._settings,
                    slot=self._batch.slot,
                    topic_max_bytes=0 if is_emptied else self._limits.of_dead_letters(topic),
                )
                self._refused.sends_dead_letter(progress, bad.position)
                transaction.count(topic, 1, progress)
                self._producer.send_record(topic, key=key, value=value, headers=headers)
                becomes = "dead letter"
            progress.advance(bad.after, bad=1)
        if errors.log_enable:
            self._bad_log.note(progress.split, bad, becomes=becomes)

    def _end(self, progress: SplitProgress) -> None:
        """The work has no more rows: its end is part of the open transaction, with rows or without."""
        self._transaction.open()
        self._transaction.touch(progress)
        found = progress.split.object
        if (found.size == 0 or found.id.key.endswith("/")) and not progress.now.records:
            progress.finish(State.SKIPPED, reason="empty")
        else:
            progress.finish(State.DONE)

    def _hold_back(self, pipeline: Pipeline, failed: SplitProgress) -> None:
        """With `ordering=partition`, return what follows a failed object in its topic-partition untouched."""
        if self._settings.ordering is not Ordering.PARTITION:
            return
        held = (failed.split.route.topic, failed.split.route.partition)
        for index, progress in enumerate(self._progress):
            if (
                not progress.is_finished
                and (progress.split.route.topic, progress.split.route.partition) == held
            ):
                progress.hand_back()
                pipeline.skip(index)

    # A record that the broker refuses.

    def _narrow(self, error: RecordRefused) -> None:
        """Abort, and continue from the last checkpoint in smaller steps, down to one record: a bad one.

        A dead letter is tried once more without its value, then its object is failed.
        """
        transaction = self._transaction
        sent, touched = transaction.sent, transaction.touched()
        self._abort_and_go_on(error)
        self._follows_refusal = True
        transaction.narrow(sent)
        if sent > 1:
            return
        for progress in self._refused.narrow(sent=sent, touched=touched, why=why_refused(error)):
            progress.fail(error)

    def _abort_and_go_on(self, error: HeadraceError) -> None:
        """Abort in order to continue with the same producer, which is still the slot's newest one.

        No initialisation happens here: the broker lets an aborted producer continue only under its own epoch.
        """
        self._has_aborted = True
        if not self._transaction.abort():
            raise TransactionAborted(f"{error} (and the transaction could not be aborted)") from error

    # A topic that cannot be written.

    def _refusals(
        self, error: HeadraceError, writers: Mapping[str, Collection[SplitProgress]]
    ) -> dict[SplitProgress, HeadraceError]:
        """What the works of a failed transaction fail with that wrote to a topic of which it is the fault.

        The topic, its rights or its leaders have changed since it was asked for. May block.
        """
        is_told = isinstance(error, _TELLING)
        if not (is_told or was_too_late(error)):
            return {}
        topics = [topic for topic in writers if is_told or not self._is_only(topic)]
        found: dict[SplitProgress, HeadraceError] = {}
        for topic, refusal in self._limits.refusals(topics).items():
            found |= dict.fromkeys(writers[topic], self._of_all(refusal))
        return found

    def _of_all(self, error: HeadraceError) -> HeadraceError:
        """The error as it is reported: of the topic that all objects go to it is true of all of them."""
        match error:
            case TopicForbidden(topic=topic) | SubjectForbidden(topic=topic) if self._is_only(topic):
                return AccessDenied(str(error))
        return error

    def _is_only(self, topic: str) -> bool:
        return self._settings.topics == (topic,)

    # The end.

    def _give_up(self) -> None:
        """Abort what is open, unless its commit is under way."""
        if not self._producer.is_in_doubt:
            self._transaction.abort()

    def _take_fetched(self) -> "Counter[ObjectId]":
        news, self._untaken = self._untaken, Counter()
        return news if self._pipeline is None else news + self._pipeline.take_fetched()

    def _finished(self, outcome: BatchOutcome, error: HeadraceError | None) -> Finished:
        return Finished(
            batch=self._batch.number,
            outcome=outcome,
            failures=tuple(progress.failure() for progress in self._progress if progress.error is not None),
            cuts=tuple(self._cuts),
            fetched=dict(self._take_fetched()),
            error=None if error is None else str(error),
        )
