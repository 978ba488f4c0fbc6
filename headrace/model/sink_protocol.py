"""What the leader and a slot of the sink send each other, next to `Hello` to `Ready` of the source's slots.

    task                                   leader
    Ready()                        ──▶
                                   ◀──     SinkBatch(partitions, ..) | End()
    GroupWanted()                  ──▶     before each transaction
                                   ◀──     LeaderGroup(metadata of the moment, partitions that are gone)
    SinkCommitted(objects, ..)     ──▶     after every acknowledged commit
    SinkCompleted(object ids)      ──▶     after each completed upload
                                   ◀──     ObjectsEnded(ids)       of what the slot left to the leader
    PartitionReleased(..)          ──▶     its topic is gone, and all that was read of it is committed
    SinkProgress(..)               ──▶     every second
    PartitionStopped(..)           ──▶     a record that nothing but an operator gets past
    SinkLeft(..)                   ──▶     before Finished: what an end leaves open, for the next slot
    Finished(outcome)              ──▶     after End(), or when it cannot continue

A slot keeps its partitions until it is asked to end: it then closes what is open, commits, completes, and is
given another batch.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.model.fast_pickle import fast_pickle
from headrace.model.sink_entries import (
    NO_EPOCH,
    NONE_COVERED,
    GroupingOptions,
    PartitionCheckpoint,
    SealedObject,
    TopicPartition,
)

HELD_SECONDS: Final = 60.0
"""Transactions are shorter; one that is not may be hanging."""


class HeldBack(NamedTuple):
    """A partition is read to `offset`, at an open transaction, since then (ms since 1970).

    `stable_end` is where it ends for readers: further on than what is read where aborted records are between.
    """

    offset: int
    since_ms: int
    stable_end: int = 0

    def sentence(self, partition: TopicPartition, end: int, seconds: float) -> str:
        """What holds the partition back, whose log ends at `end`, and what helps."""
        return (
            f"{partition} is read up to offset {self.offset} of {end}: an open transaction there holds "
            f"back what comes after it, for {seconds:.0f} s by now. End its producer, or abort "
            "it (kafka-transactions.sh find-hanging shows it)."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedObject:
    """A group's object that was open from `first_offset` to `last_offset`; ms since 1970.

    `age_from_ms` is when its age begins, None for when it was opened.
    """

    group: str
    first_offset: int
    last_offset: int
    opened_ms: int
    age_from_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOpen:
    """What a slot gave up of a partition that it had read to `position`: these objects are not written.

    `topic_id` is the life of the topic. `due_ms` is when the first of them is to close by time (ms since
    1970), None for never by time alone. A slot before it may have read further, to `furthest`: some of the
    objects are of that one then.
    """

    topic_id: str
    position: int
    objects: tuple[OpenedObject, ...]
    due_ms: int | None
    furthest: int = 0

    @property
    def end(self) -> int:
        """Where records begin that no slot has read."""
        return max(self.position, self.furthest)


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierGroups:
    """What is archived by options that are no longer in force: the last offset of each of their groups.

    `options` is the hash under which the ledger has them (`GroupingOptions`).
    """

    options: str
    done: tuple[tuple[str, int], ...]


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGrant:
    """A topic-partition for a slot, with what is archived of it above `offset`.

    `done` has the last archived offset of each group, `dead_letters` the offsets above `offset` that have a
    dead letter. `highest` is the highest offset that either covers. `earlier` has the groups of other options
    than those in force: a record is archived if any of them covers it. `is_made_again`,
    `leader_epoch` and `epoch_end` as in the checkpoint. `left` is what the slot before has left unwritten,
    and `held` what it has found of an open transaction, as far as this leader knows.
    """

    topic: str
    partition: int
    topic_id: str
    offset: int
    done: tuple[tuple[str, int], ...] = ()
    highest: int = NONE_COVERED
    dead_letters: tuple[int, ...] = ()
    earlier: tuple[EarlierGroups, ...] = ()
    is_made_again: bool = False
    leader_epoch: int = NO_EPOCH
    epoch_end: int = 0
    left: LeftOpen | None = None
    held: HeldBack | None = None

    @property
    def partition_of(self) -> TopicPartition:
        """The topic-partition."""
        return TopicPartition(self.topic, self.partition)


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBatch:
    """Partitions for one slot, until it is asked to end. `group` is the leader's group metadata, pickled.

    `earlier` has the options that the grants' `earlier` name by hash.
    """

    number: int
    slot: int
    group: bytes
    partitions: tuple[PartitionGrant, ...]
    earlier: tuple[GroupingOptions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkReport:
    """What a slot says while it works on a batch, by the batch's number."""

    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWanted(SinkReport):
    """The slot is about to begin a transaction: a standby's arrival may have raised the generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderGroup:
    """The answer to GroupWanted: the leader's group metadata of the moment, pickled.

    `gone` are partitions of the batch that Kafka does not have any more: it takes no offsets of them.
    """

    group: bytes
    gone: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsEnded:
    """Objects of the batch that the leader has brought to their ends: their names are free."""

    ids: tuple[str, ...]


@fast_pickle
@dataclass(frozen=True, slots=True)
class ObjectTimes:
    """When an object was opened, and when it took its last record; ms since 1970 by the slot's clock."""

    opened_ms: int
    closed_ms: int


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCommitted(SinkReport):
    """A transaction whose commit the broker acknowledged: its ledger records, and counts of it.

    `objects` that are complete already (`exactly.once.support=disabled`) have no ledger record.
    """

    objects: tuple[SealedObject, ...]
    checkpoints: tuple[PartitionCheckpoint, ...]
    records_by_topic: dict[str, int]
    bad_by_reason: dict[str, int]
    seconds: float
    """From begin to acknowledged commit."""
    times: dict[str, ObjectTimes] = field(default_factory=dict)
    """Of the objects, by id."""


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCompleted(SinkReport):
    """The slot has completed these objects; with `quarantined`, it is known that they cannot be."""

    ids: tuple[str, ...]
    quarantined: tuple[tuple[str, str], ...] = ()
    """Pairs of object id and reason."""
    left: tuple[str, ...] = ()
    """Of these S3's answer proves nothing yet: the leader completes them, and sends ObjectsEnded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReleased(SinkReport):
    """The slot has given up one partition of its batch, and has committed what it had read of it."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStopped(SinkReport):
    """A partition is at a record that is refused; the others continue. `message` holds no content."""

    topic: str
    partition: int
    offset: int
    reason: str
    message: str


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProgress(SinkReport):
    """Where a slot is. Positions and ends by partition; sums of the moment for the rest."""

    positions: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    open_objects: int
    pending_objects: int
    buffered_bytes: int
    spilled_bytes: int
    oldest_open_ms: int | None
    problems: dict[str, str] = field(default_factory=dict)
    """What keeps the slot from going on at the moment, by part."""
    lost_offsets: tuple[tuple[str, int, int, int], ...] = ()
    """Topic, partition, first and after the last offset that Kafka had deleted before they were read."""
    held: dict[TopicPartition, HeldBack] = field(default_factory=dict)
    """What open transactions hold back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLeft(SinkReport):
    """What is left unwritten of each partition at the batch's end: the next slot reads it again."""

    partitions: dict[TopicPartition, LeftOpen]
