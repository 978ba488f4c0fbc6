"""One topic-partition in a slot of the sink: records come, are grouped and written, and are committed."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.conversion.encoders import with_texts
from headrace.conversion.sink_records import sink_records
from headrace.conversion.writable_runs import FAILING_NULL, REPORTED_NULL
from headrace.formats.converted_records import Conversion, ConvertedRecords, RecordFault
from headrace.formats.converters.typed_columns import RowsUnread
from headrace.kafka.consumer.message_columns import FaultReason, truncated_message
from headrace.model.columns import NULL_LENGTH, KafkaRecords, Numbers
from headrace.model.errors import InvalidObject
from headrace.model.sink_entries import PartitionCheckpoint, SealedObject, TopicPartition
from headrace.model.sink_protocol import LeftOpen, ObjectTimes, PartitionGrant, PartitionStopped
from headrace.options.choices import Tolerance
from headrace.options.sink_settings import OF_REGISTRIES
from spark.sink.bad_records import REASON, DeadLetter, Isolation
from spark.sink.grouping import GroupRows, Groups
from spark.sink.names_and_openings import opened_facts, routed_group
from spark.sink.partition_objects import PartitionObjects
from spark.sink.partition_offsets import PartitionCommit, PartitionOffsets
from spark.sink.routed_tools import SlotTools

_NOTHING: Final = Conversion(runs=(), faults=(), ignored=0)


@dataclass(frozen=True, slots=True)
class Stop:
    """The partition is at `offset`: nothing from there on is written until an operator has helped."""

    offset: int
    reason: str
    message: str

    def report(self, batch: int, partition: TopicPartition) -> PartitionStopped:
        """As the leader receives it."""
        return PartitionStopped(
            batch=batch,
            topic=partition.topic,
            partition=partition.partition,
            offset=self.offset,
            reason=self.reason,
            message=self.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What one partition has for a transaction. Without `is_urgent` it can wait for a later one."""

    objects: tuple[SealedObject, ...]
    commit: PartitionCommit
    dead_letters: tuple[DeadLetter, ...]
    bad: tuple[str, ...]
    """The reason of each record that is left out, with a dead letter or without."""
    is_urgent: bool
    times: Mapping[str, ObjectTimes]
    """Of the objects, by id."""

    @property
    def checkpoint(self) -> PartitionCheckpoint:
        """How far the partition is archived with it."""
        return self.commit.checkpoint


class PartitionWork:
    """Used by the slot's thread only. Offsets are Kafka's, times ms since 1970."""

    def __init__(self, grant: PartitionGrant, tools: SlotTools) -> None:
        self.partition: TopicPartition = grant.partition_of
        self._topic_id = grant.topic_id
        self.stop: Stop | None = None
        self._tools = tools
        self._offsets = PartitionOffsets(
            grant,
            options=tools.settings.options,
            closes_together=tools.shapes.are_of_batches
            or not tools.settings.sink.transforms.is_deterministic,
        )
        # By offset: why the record is left out, and its dead letter, if it has one.
        self._bad: dict[int, tuple[str, DeadLetter | None]] = {}
        self._adding: KafkaRecords | None = None
        self._has_written_beyond_stop = False
        self.isolation: Final = Isolation()
        """What makes our own code fail here."""
        self.objects = PartitionObjects(grant, tools, self._offsets, self._refuse)

    @property
    def position(self) -> int:
        """The next record to read."""
        return self._offsets.position

    @property
    def start(self) -> tuple[int, int]:
        """See `PartitionOffsets.start`."""
        return self._offsets.start

    @property
    def committed_offset(self) -> int:
        """Where reading would continue after a crash."""
        return self._offsets.committed_offset

    @property
    def max_open_objects(self) -> int:
        """Above so many open objects of a slot the oldest closes early."""
        return self._tools.settings.sink.buffer.max_open_objects

    @property
    def is_at_stop(self) -> bool:
        """True once everything before the record at which it stops is read."""
        return self.stop is not None and self._offsets.position >= self.stop.offset

    @property
    def is_crowded(self) -> bool:
        """See `PartitionOffsets.is_crowded`."""
        return self._offsets.is_crowded

    def failure(self) -> str | None:
        """Why the partition has to be read again from its checkpoint; None where it has not."""
        if self._has_written_beyond_stop:
            return "it stops at a record after which others are written already"
        if self.isolation.broken is not None:
            return f"Headrace itself fails ({self.isolation.broken}), which is a defect of it: report it"
        for one in self.objects.uncommitted():
            if one.object.failure is not None:
                return str(one.object.failure)
        return None

    # -- records come ----------------------------------------------------------------------------------------

    def bounded(self, records: KafkaRecords) -> Iterator[KafkaRecords]:
        """The records in their order, as many as can be added at once; those under suspicion are fewer."""
        for those in self.isolation.pieces(records):
            yield from self._tools.converter.bounded(those)

    def add(self, records: KafkaRecords, now_ms: int) -> None:
        """Write these records, which follow those before; objects that are full on the way are closed.

        Raises SourceUnavailable and AccessDenied of the schema registry: then nothing of them is written, or
        those before a record whose schema is not asked for yet. They are to be added again.
        """
        self._tools.beat()
        self._look_at_epochs(records)
        end, unread = records.last_offset + 1, None
        wanted = self._unread(records)
        while len(wanted):
            sound, apart = self.isolation.set_apart(wanted)
            try:
                self._add(wanted, sound, apart, now_ms)
            except RowsUnread as error:
                unread, end = error, int(sound.offsets[error.row])
                wanted = wanted.take(slice(0, int(np.searchsorted(wanted.offsets, end))))
            else:
                break
        if self.stop is not None:
            end = min(end, self.stop.offset)
        if end > self._offsets.position:
            self._offsets.advance(end)
        self.isolation.passed(end)
        if unread is not None and not self.is_at_stop:
            # A stop may lie above the rows that wait: where the log was cut off, or the reader has a fault.
            raise unread

    def _add(self, wanted: KafkaRecords, sound: KafkaRecords, apart: list[RecordFault], now_ms: int) -> None:
        """Write what is `wanted`: `sound` records, and those set `apart`. RowsUnread: nothing is written."""
        conversion = self._tools.converter.convert(sound) if len(sound) else _NOTHING
        runs = [self.objects.values.learned(run) for run in conversion.runs]
        groups, archived = self._grouped(sound, runs)
        faults = [*apart, *conversion.faults, *(fault for _, found in groups for fault in found.faults)]
        nulls = self._groups_of_nulls(sound, faults)
        faults = [one for one in faults if one.offset not in nulls or not self._is_archived(one, nulls)]
        self._adding = wanted
        self._settle(faults, known=nulls.keys())
        if self.stop is not None:
            # Names of keys alone keep the last record of each: it is the last one before the stop.
            groups, archived = self._grouped(self._before_stop(sound), runs)
        # A record that no object takes stops the partition; what stands before it is written anyway.
        for run, found in groups:
            if len(found.parts) > 1:
                run = with_texts(self._tools.settings.sink.output, run)  # noqa: PLW2901  # from here on
            self.objects.write(self._unarchived(run, found.parts, archived), now_ms)
        self._adding = None

    def stop_reading(self, offset: int, reason: str, message: str) -> None:
        """Stop where the reader cannot read, or at a record before it where there is a stop already."""
        self._stop_at(max(offset, self.position), reason, message)

    def read_to(self, position: int, epoch: int) -> bool:
        """See `PartitionOffsets.read_to`. False where the partition stops at that."""
        is_written = self.stop is None and self.isolation.broken is None
        if is_written and position > self._offsets.position:
            self._stop_at_change(self._offsets.read_to(position, epoch))
            return self.stop is None
        return True

    def deleted(self, first: int, end: int) -> int | None:
        """See `PartitionOffsets.deleted`."""
        return self._offsets.deleted(first, end)

    def _look_at_epochs(self, records: KafkaRecords) -> None:
        """Stop before records that are not those that are archived already."""
        self._stop_at_change(self._offsets.note_epochs(records.leader_epochs, records.last_offset + 1))

    def _stop_at_change(self, changed: int | None) -> None:
        """Stop at the first offset from which on the log is not the one that was read; None: it is."""
        if changed is not None and (self.stop is None or changed < self.stop.offset):
            end = max(self._offsets.highest + 1, self.position)
            message = truncated_message(str(self.partition), end, changed)
            self._stop_at(max(changed, self.position), FaultReason.LOG_TRUNCATED, message)

    def _unread(self, records: KafkaRecords) -> KafkaRecords:
        mask = self._offsets.unread(records.offsets)
        if mask is not None:
            records = records.take(np.flatnonzero(mask))
        return self._before_stop(records)

    def _before_stop(self, records: KafkaRecords) -> KafkaRecords:
        if self.stop is None:
            return records
        return records.take(slice(0, int(np.searchsorted(records.offsets, self.stop.offset))))

    def _grouped(
        self, records: KafkaRecords, runs: Sequence[ConvertedRecords]
    ) -> tuple[list[tuple[ConvertedRecords, Groups]], Numbers | None]:
        """The groups of what is before a stop, by run, and the offsets that objects of earlier options cover.

        `runs` are the records as they are read now.
        """
        if self.stop is not None:
            cut = (run.slice(0, int(np.searchsorted(run.records.offsets, self.stop.offset))) for run in runs)
            runs = [run for run in cut if len(run)]
        archived = self._archived_by_earlier_options(records, runs) if self._offsets.is_replaying else None
        return [(run, self._tools.shapes.split(run)) for run in runs], archived

    def _unarchived(
        self, run: ConvertedRecords, parts: Iterable[GroupRows], archived: Numbers | None
    ) -> Iterator[tuple[str, ConvertedRecords]]:
        """The records of each group that are in no object yet, and are before a stop.

        `archived` are offsets that objects of earlier options cover.
        """
        for group, rows in parts:
            routed = routed_group(run.records.topic, group, self.partition.topic)
            part = run if rows is None else run.take(rows)
            mask = self._offsets.unarchived(routed, part.records.offsets)
            if archived is not None:
                fresh = ~np.isin(part.records.offsets, archived)
                mask = fresh if mask is None else mask & fresh
            if mask is not None:
                part = part.take(np.flatnonzero(mask))
            if self.stop is not None:
                part = part.slice(0, int(np.searchsorted(part.records.offsets, self.stop.offset)))
            if len(part):
                yield routed, part

    def _archived_by_earlier_options(
        self, records: KafkaRecords, runs: Sequence[ConvertedRecords]
    ) -> Numbers | None:
        """The offsets that objects of options no longer in force cover; None where there are none.

        `runs` are the records as they are read now.
        """
        covered: list[Numbers] = []
        for options in self._offsets.earlier:
            earlier = self._tools.earlier[options]
            reader = earlier.converter
            for run in runs if reader is None or not len(records) else reader.convert(records).runs:
                for name, rows in earlier.shapes.split(run).parts:
                    group = routed_group(run.records.topic, name, self.partition.topic)
                    offsets = run.records.offsets if rows is None else run.records.offsets[rows]
                    mask = self._offsets.unarchived(group, offsets, options=options)
                    if mask is not None:
                        covered.append(offsets[~mask])
        return np.concatenate(covered) if covered else None

    def _groups_of_nulls(self, records: KafkaRecords, faults: Sequence[RecordFault]) -> dict[int, str]:
        """The groups, by offset, of the tombstones that fail while what may be archived is read again.

        What was fetched with one, by whose schema it fails or not, has no say in its group.
        """
        sink, offsets = self._tools.settings.sink, self._offsets
        is_own = sink.converters.value.kind in OF_REGISTRIES and not sink.transforms
        if not faults or not is_own or not offsets.is_replaying or offsets.earlier:
            return {}
        # Not those whose keys cannot be read.
        refused = [one.offset for one in faults if one.reason == FAILING_NULL[0]]
        is_null = records.values.lengths == NULL_LENGTH
        rows = np.flatnonzero(is_null & np.isin(records.offsets, refused))
        if not len(rows):
            return {}
        # By one that has read no value: it refuses no null by the schema of another record.
        found: dict[int, str] = {}
        for run in sink_records(sink).convert(records.take(rows)).runs:
            for name, part in self._tools.shapes.split(run, keeps_all=True).parts:
                group = routed_group(run.records.topic, name, self.partition.topic)
                taken = run.records.offsets if part is None else run.records.offsets[part]
                found |= dict.fromkeys(taken.tolist(), group)
        return found

    def _is_archived(self, fault: RecordFault, groups: Mapping[int, str]) -> bool:
        """Whether an object has the record, by its group."""
        offset = np.array([fault.offset], np.int64)
        return self._offsets.unarchived(groups[fault.offset], offset) is not None

    # -- bad records -----------------------------------------------------------------------------------------

    def _refuse(self, part: ConvertedRecords, reason: str, message: str) -> bool:
        """No object can take these records; False when the partition stops at them."""
        return self._settle(
            [
                RecordFault(offset=offset, reason=reason, message=message)
                for offset in part.records.offsets.tolist()
            ]
        )

    def _settle(self, faults: list[RecordFault], *, known: Collection[int] = ()) -> bool:
        """Make dead letters of bad records, or stop at the first; False when the partition stops.

        The groups of those at the offsets `known` are: no object has them.
        """
        faults = [one for one in faults if not self._is_null_of_before(one)]
        if not faults:
            return True
        assert self._adding is not None, "only what is being added is refused"
        changed = self._offsets.refuse_changed(one.offset for one in faults if one.offset not in known)
        for fault in sorted(faults, key=lambda one: one.offset):
            if fault.offset == changed:
                # It was written before, and is bad now: nobody knows in which object it is, if in any.
                message = f"a record that was archived before a crash is read otherwise now: {fault.message}"
                self._stop_at(fault.offset, "replay_changed", message)
                return False
            if self._tools.settings.errors.tolerance is not Tolerance.ALL:
                self._stop_at(fault.offset, fault.reason, fault.message)
                return False
            try:
                dead_letter = self._tools.dead_letters.of(self._adding, fault)
            except InvalidObject as error:
                # Its topic has become a ledger, which nothing may be written into.
                self._stop_at(fault.offset, "dead_letter_refused", str(error))
                return False
            self._bad[fault.offset] = fault.reason, dead_letter
            self._offsets.add_dead_letter(fault.offset)
        return True

    def _is_null_of_before(self, fault: RecordFault) -> bool:
        """Whether it is a null that was read before and has no letter, as `write` or `ignore` had it.

        It is left out: a letter could come next to an object that has it.
        """
        is_null = (fault.reason, fault.message) == REPORTED_NULL
        return is_null and self._offsets.refuse_changed([fault.offset]) is not None

    def stop_at_dead_letter(self, why: str) -> None:
        """Stop at the first record whose dead letter no topic takes."""
        self._stop_at(min(self._bad), "dead_letter_refused", why)

    def give_up(self, why: str) -> None:
        """Stop where reading would begin again: objects of what follows cannot be made."""
        self._stop_at(self._offsets.committed_offset, REASON, why)

    def _stop_at(self, offset: int, reason: str, message: str) -> None:
        if self.stop is None or offset < self.stop.offset:
            self.stop = Stop(offset=offset, reason=reason, message=message)
        self._has_written_beyond_stop = any(one.last_offset > offset for one in self.objects.uncommitted())

    # -- what is committed -----------------------------------------------------------------------------------

    def transaction(self, now_ms: int, *, most: int | None = None) -> Transaction | None:
        """What may be committed now; None where that is nothing. `most` as in `PartitionOffsets.commit`."""
        if self.isolation.broken is not None:
            # Objects may hold records that no position is behind.
            return None
        self.objects.closed.note_sealed(now_ms)
        if not self._offsets.has_news:
            return None
        commit = self._offsets.commit(most=most)
        if not self._offsets.is_news(commit):
            return None
        bad = [self._bad[offset] for offset in commit.dead_letters]
        return Transaction(
            objects=self.objects.closed.entries(commit.objects, now_ms),
            commit=commit,
            dead_letters=tuple(dead_letter for _, dead_letter in bad if dead_letter is not None),
            bad=tuple(reason for reason, _ in bad),
            is_urgent=bool(commit.objects or commit.dead_letters),
            times=self.objects.closed.times(commit.objects),
        )

    def committed(self, transaction: Transaction) -> None:
        """The broker has acknowledged it: nothing was read, closed or sealed since it was made."""
        commit = transaction.commit
        self._offsets.committed(commit)
        for offset in commit.dead_letters:
            del self._bad[offset]
        self.objects.closed.committed(commit.objects)

    def left(self, now_ms: int) -> LeftOpen:
        """What an end leaves of it: due at once, unless only open objects are not committed.

        Where an end closes what is open there are no openings to carry: each end writes what it can.
        """
        objects, furthest = self.objects.left()
        objects = () if self._tools.settings.sink.rotation.on_stop else objects
        due_ms: int | None = now_ms
        if self.failure() is None and not self.objects.closed and (objects or not self._offsets.has_news):
            dues = [
                self.objects.next_due_ms(),
                *map(self._tools.rotation.next_due_ms, map(opened_facts, objects)),
            ]
            due_ms = min((due for due in dues if due is not None), default=None)
        return LeftOpen(
            topic_id=self._topic_id,
            position=self.position,
            objects=objects,
            due_ms=due_ms,
            furthest=furthest if objects else 0,
        )

    def abandon(self) -> None:
        """Give up everything that is not committed: reading continues at the checkpoint, up to a stop."""
        self.objects.abandon()
        self._bad.clear()
        self._offsets.abandon()
        self._has_written_beyond_stop = False
        self.isolation.begin_again()
