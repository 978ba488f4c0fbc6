"""One topic-partition as the leader has it: what the ledger says, who holds it, why it is not granted."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import (
    GroupingOptions,
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    SinkEntry,
    TopicPartition,
    decode_sink_entry,
    is_sink_key,
    key_of,
    object_key,
    partition_key,
)
from headrace.model.sink_protocol import PartitionStopped
from headrace.options.choices import OffsetReset
from ingest.sink.archived import pending_of
from ingest.sink.effects import FoundPartition, LostOffsets
from ingest.sink.starting import Refused

# A broker that has just become the controller may not know a topic for a moment.
_TIMES_MISSING: Final = 2


class PartitionCondition(StrEnum):
    """What a partition is at, as status shows it."""

    GRANTED = "granted"  # a slot archives it
    RECOVERING = "recovering"  # its slot was lost: void, fence, read
    COMPLETING = "completing"  # the leader completes what was sealed
    STARTING = "starting"  # where it begins is being found out, or written to the ledger
    WAITING = "waiting"  # for a slot
    STOPPED = "stopped"  # at a record that nothing but an operator gets past
    REFUSED = "refused"  # its offsets cannot be right
    MISSING = "missing"  # Kafka has no such topic or partition


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """Everything the leader knows of one partition; `batch` is that of the slot that holds it.

    `changed` is the number of the last description of topics that was asked for before the checkpoint
    changed: only a later one can show that the checkpoint is wrong.
    """

    partition: TopicPartition
    checkpoint: PartitionCheckpoint | None = None
    objects: dict[str, SealedObject] = field(default_factory=dict)
    found: FoundPartition | None = None
    found_request: int = 0
    changed: int = 0
    reset: OffsetReset | None = None
    batch: int | None = None
    last_slot: int | None = None
    is_lost: bool = False
    is_grantable: bool = False
    stopped: PartitionStopped | None = None
    refused: Refused | None = None
    position: int | None = None
    committed_ms: int | None = None
    last_end: int | None = None
    """The end of its log when Kafka had it last, until it was said what is lost with it."""
    times_missing: int = 0

    def on_found(self, found: FoundPartition | None, request: int) -> None:
        """Pick up what Kafka has of it by this description of the topics."""
        self.found, self.found_request = found, request
        self.times_missing = self.times_missing + 1 if found is None else 0
        if found is not None:
            self.last_end = found.end

    def lost_with_topic(self) -> LostOffsets | None:
        """What was not archived of a topic that is gone, once, when that is certain."""
        if not self.is_gone or not self.is_free or self.checkpoint is None:
            return None
        first, end = self.checkpoint.offset, self.last_end
        self.last_end = None
        if end is None or end <= first:
            return None
        topic, partition = self.partition
        return LostOffsets(topic=topic, partition=partition, first=first, end=end, with_topic=True)

    @property
    def is_gone(self) -> bool:
        """Whether Kafka does not have it, for certain."""
        return self.times_missing >= _TIMES_MISSING

    def release(self, request: int) -> None:
        """No slot holds it any more; `request` is the last description that was asked for."""
        self.batch, self.is_lost, self.position = None, False, None
        self.changed = request

    @property
    def is_free(self) -> bool:
        """True when no slot holds it and none may have something of it in a transaction."""
        return self.batch is None and not self.is_lost

    @property
    def key(self) -> ControlKey:
        """Its checkpoint's key in the ledger."""
        return partition_key(self.partition)

    @property
    def pending(self) -> tuple[SealedObject, ...]:
        """Its objects that are sealed and not completed, in offset order."""
        return pending_of(self.objects.values())

    @property
    def is_made_again(self) -> bool:
        """True when Kafka has another life of the topic than the checkpoint is of."""
        return (
            self.checkpoint is not None
            and self.found is not None
            and self.found.topic_id != self.checkpoint.topic_id
        )

    @property
    def end(self) -> int | None:
        """The high watermark that was seen last."""
        return None if self.found is None else self.found.end

    @property
    def lag(self) -> int:
        """How many offsets are not archived yet."""
        if self.found is None:
            return 0
        start = self.found.begin if self.checkpoint is None else self.checkpoint.offset
        return max(0, self.found.end - max(start, self.found.begin))

    @property
    def condition(self) -> PartitionCondition:
        """What it is at."""
        for applies, condition in (
            (self.is_lost, PartitionCondition.RECOVERING),
            (self.stopped is not None, PartitionCondition.STOPPED),
            (self.batch is not None, PartitionCondition.GRANTED),
            (bool(self.pending), PartitionCondition.COMPLETING),
            (self.found is None, PartitionCondition.MISSING),
            (self.refused is not None, PartitionCondition.REFUSED),
            (self.is_grantable, PartitionCondition.WAITING),
        ):
            if applies:
                return condition
        return PartitionCondition.STARTING

    @property
    def options_above(self) -> frozenset[str]:
        """The hashes of all options that what is archived above the checkpoint depends on."""
        begin = 0 if self.checkpoint is None else self.checkpoint.offset
        pending = ObjectState.PENDING
        return frozenset(
            one.options for one in self.objects.values() if one.last_offset >= begin or one.state is pending
        )


class PartitionStates:
    """All partitions that the ledger or Kafka has, and the options that group records."""

    def __init__(self) -> None:
        self.options: dict[str, GroupingOptions] = {}
        self._states: dict[TopicPartition, PartitionState] = {}
        self._sorted: tuple[PartitionState, ...] = ()
        self._objects: dict[ControlKey, SealedObject] = {}

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        state = self._states.get(partition)
        if state is None:
            state = self._states[partition] = PartitionState(partition=partition)
        return state

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def __iter__(self) -> Iterator[PartitionState]:
        if len(self._sorted) != len(self._states):
            self._sorted = tuple(self._states[partition] for partition in sorted(self._states))
        return iter(self._sorted)

    def apply(self, entry: SinkEntry) -> None:
        """Pick up an entry that the ledger has, or will have."""
        match entry:
            case GroupingOptions():
                self.options[entry.hash] = entry
            case SealedObject():
                self._put(key_of(entry), entry)
            case PartitionCheckpoint():
                self[entry.partition_of].checkpoint = entry

    def remove(self, entry: SealedObject | GroupingOptions) -> None:
        """Forget an entry that is removed."""
        if isinstance(entry, GroupingOptions):
            self.options.pop(entry.hash, None)
            return
        self._objects.pop(key_of(entry), None)
        self[entry.partition_of].objects.pop(entry.id, None)

    def remove_key(self, key: ControlKey) -> None:
        """Forget what has this key, where that is an object."""
        sealed = self._objects.get(key)
        if sealed is not None:
            self.remove(sealed)

    def object(self, object_id: str) -> SealedObject | None:
        """The object of this id; None for one that has no entry (any more)."""
        return self._objects.get(object_key(object_id))

    def objects(self, state: ObjectState) -> Iterator[SealedObject]:
        """All objects in this state."""
        return (sealed for sealed in self._objects.values() if sealed.state is state)

    def _put(self, key: ControlKey, sealed: SealedObject) -> None:
        self._objects[key] = sealed
        self[sealed.partition_of].objects[sealed.id] = sealed

    def replace(self, partitions: Collection[TopicPartition], entries: Iterable[SinkEntry]) -> None:
        """What these partitions are by the entries, and nothing that was known of them before."""
        for partition in partitions:
            for sealed in list(self[partition].objects.values()):
                self.remove(sealed)
            self[partition].checkpoint = None
        for entry in entries:
            if not isinstance(entry, GroupingOptions) and entry.partition_of in partitions:
                self.apply(entry)


def sink_entries(controls: Iterable[tuple[ControlKey, bytes]]) -> list[SinkEntry]:
    """The sink's entries among control records; InvalidLedger for one that this version does not read."""
    return [decode_sink_entry(key, raw) for key, raw in controls if is_sink_key(key)]
