"""One topic-partition as the leader has it: the ledger's entries, its slot, and what is shown of it."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
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
from headrace.model.sink_protocol import HeldBack, LeftOpen, PartitionStopped
from headrace.options.choices import OffsetReset
from ingest.sink.sink_effects import FoundLives, FoundPartition, FoundTopics, LostOffsets
from ingest.sink.starting import Refused, pending_of

# A broker that has just become the controller may not know a topic for a moment.
_TIMES_MISSING: Final = 2
# Of the partitions that a slot has in hand, in a sentence.
_SHOWN: Final = 3


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
    NOT_SELECTED = "not_selected"  # `topics` or `topics.regex` does not mean its topic (any more)


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
    topic_id: str | None = None
    """Which topic of its name Kafka has, as far as brokers said when they were asked last."""
    is_unknown: bool = False
    """Whether they said nothing more: it has no leader, or the topic may not be described. `found` stays."""
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
    """The end of its log when Kafka had the checkpoint's topic last, until what is lost with it is said."""
    times_missing: int = 0
    left: LeftOpen | None = None  # what the last slot has read and left open, as far as is known
    held: HeldBack | None = None  # at an open transaction, as far as is known
    is_selected: bool = True
    """Whether its topic is asked for at all: of another one nothing says that it is missing."""
    is_renewed_next: bool = False  # once it is known that its topic is there

    def on_found(self, found: FoundPartition | None, topics: FoundTopics) -> None:
        """Pick up what Kafka has of it by this description of the topics, unless that does not say."""
        self.found_request, self.is_unknown = topics.request, topics.is_unknown(self.partition)
        if self.is_unknown:
            self.topic_id, self.times_missing = topics.leaderless.get(self.partition), 0
            return
        self.found = found
        self.topic_id = None if found is None else found.topic_id
        self.times_missing = self.times_missing + 1 if found is None and self.is_selected else 0
        # Of a topic that was made again the end of the old one is kept until it begins.
        if found is not None and not self.is_made_again:
            self.last_end = found.end

    def on_end(self, end: int) -> None:
        """Pick up the end that its slot has met: for the numbers only, as it may be of another life."""
        if self.found is not None and not self.is_made_again and end > self.found.end:
            self.found = replace(self.found, end=end)

    def on_archived(self, offset: int) -> bool:
        """Whether its slot has archived it further than before: the log's end is there at least."""
        is_further = self.checkpoint is not None and offset > self.checkpoint.offset
        if is_further:
            self.on_end(offset)
        return is_further

    def is_same(self, found: FoundLives) -> bool:
        """Whether Kafka has it of the topic that its checkpoint is of."""
        life, checkpoint = found.topics.get(self.partition.topic), self.checkpoint
        if life is None or checkpoint is None:
            return False
        return life.has(self.partition.partition, topic_id=checkpoint.topic_id)

    def lost_with_topic(self) -> LostOffsets | None:
        """What was not archived of a topic that is gone, once, when that is certain."""
        return self.lost_of_old_topic() if self.is_gone and self.is_free else None

    def lost_of_old_topic(self) -> LostOffsets | None:
        """What was not archived of the topic that the checkpoint is of, as far as it was seen; once."""
        first, end = None if self.checkpoint is None else self.checkpoint.offset, self.last_end
        self.last_end = None
        if first is None or end is None or end <= first:
            return None
        topic, partition = self.partition
        return LostOffsets(topic=topic, partition=partition, first=first, end=end, with_topic=True)

    @property
    def is_gone(self) -> bool:
        """Whether Kafka does not have it, for certain."""
        return self.times_missing >= _TIMES_MISSING

    def lose(self) -> None:
        """Its slot was lost: what that had read and not committed is read again."""
        self.is_lost, self.position = True, None

    def release(self, request: int) -> None:
        """No slot holds it any more; `request` is the last description that was asked for."""
        self.batch, self.is_lost, self.position = None, False, None
        self.changed = request

    @property
    def is_as_read(self) -> bool:
        """Whether this leader has not found it yet: its checkpoint is as the ledger was read."""
        return self.found is None and (self.is_unknown or not self.found_request)

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
        return self.checkpoint is not None and self.topic_id not in {None, self.checkpoint.topic_id}

    @property
    def is_in_doubt(self) -> bool:
        """True when what a slot has of it may be of another life than Kafka has: that is not committed."""
        return self.is_made_again or (self.is_unknown and self.topic_id is None)

    @property
    def is_absent(self) -> bool:
        """True when Kafka said that it has no such partition, for the moment at least."""
        return self.found is None and not self.is_unknown

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
        if self.is_lost:
            return PartitionCondition.RECOVERING
        if self.stopped is not None:
            return PartitionCondition.STOPPED
        return self._condition_at_rest if self.batch is None else PartitionCondition.GRANTED

    @property
    def _condition_at_rest(self) -> PartitionCondition:
        """The same of one that no slot has, and that nothing stops."""
        if any(one.state is ObjectState.PENDING for one in self.objects.values()):
            return PartitionCondition.COMPLETING
        if not self.is_selected:
            return PartitionCondition.NOT_SELECTED
        if self.is_absent:
            return PartitionCondition.MISSING
        if self.refused is not None:
            return PartitionCondition.REFUSED
        return PartitionCondition.WAITING if self.is_grantable else PartitionCondition.STARTING

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """A partition as status shows it. `slot` holds it; `detail` is the sentence of what stops it.

    `is_gone`: nothing is to come of it. Kafka does not have it, and not only for the moment, or its topic is
    not selected.
    """

    topic: str
    partition: int
    condition: PartitionCondition
    slot: int | None
    offset: int | None
    position: int | None
    end: int | None
    lag: int
    pending_objects: int
    quarantined_objects: int
    detail: str | None
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCounts:
    """Sums over all partitions; ages in ms. `entries` are all objects that the ledger still has."""

    partitions: int
    conditions: dict[str, int]
    lag: int
    entries: int
    pending_objects: int
    quarantined_objects: int
    oldest_pending_ms: int | None
    oldest_pending: SealedObject | None = None


def status_of(state: PartitionState) -> PartitionStatus:
    """The partition as status shows it."""
    of_state = [one.state for one in state.objects.values()]
    return PartitionStatus(
        topic=state.partition.topic,
        partition=state.partition.partition,
        condition=state.condition,
        slot=state.last_slot if state.batch is not None else None,
        offset=None if state.checkpoint is None else state.checkpoint.shown_offset,
        position=state.position,
        end=state.end,
        lag=state.lag,
        pending_objects=of_state.count(ObjectState.PENDING),
        quarantined_objects=of_state.count(ObjectState.QUARANTINED),
        detail=_detail(state),
        is_gone=state.is_gone or not state.is_selected,
    )


def counts_of(states: PartitionStates, now_ms: int) -> ArchiveCounts:
    """Sums over all partitions; `now_ms` is since 1970."""
    conditions: dict[str, int] = {}
    for state in states:
        conditions[state.condition.value] = conditions.get(state.condition.value, 0) + 1
    pending = list(states.objects(ObjectState.PENDING))
    oldest = min(pending, key=lambda one: one.sealed_ms, default=None)
    return ArchiveCounts(
        partitions=sum(conditions.values()),
        conditions=conditions,
        lag=sum(state.lag for state in states),
        entries=sum(len(state.objects) for state in states),
        pending_objects=len(pending),
        quarantined_objects=sum(1 for _ in states.objects(ObjectState.QUARANTINED)),
        oldest_pending_ms=None if oldest is None else max(0, now_ms - oldest.sealed_ms),
        oldest_pending=oldest,
    )


def problems_of(
    states: Iterable[PartitionState],
    counts: ArchiveCounts,
    *,
    members: tuple[str, ...],
    group: str,
    max_pending: int,
    max_pending_age_ms: int,
) -> tuple[str, ...]:
    """Why the sink is not ready, a sentence each."""
    problems: list[str] = []
    if members:
        problems.append(active_members(group, members))
    if counts.pending_objects > max_pending:
        problems.append(
            f"{counts.pending_objects} sealed objects wait to be completed, more than {max_pending}: S3 "
            "completes uploads more slowly than they are sealed, or not at all."
        )
    oldest = counts.oldest_pending
    if counts.oldest_pending_ms is not None and counts.oldest_pending_ms > max_pending_age_ms and oldest:
        problems.append(
            f"s3://{oldest.bucket}/{oldest.main.key} (offsets {oldest.first_offset} to "
            f"{oldest.last_offset} of {oldest.partition_of}) is sealed and has waited "
            f"{counts.oldest_pending_ms // 1000} s to be "
            "completed: the log shows what S3 answers, and `headrace check` what is missing."
        )
    problems += [detail for state in states if (detail := _detail(state)) is not None]
    return tuple(problems)


def active_members(group: str, members: Iterable[str]) -> str:
    """The sentence for a group in which another client consumes."""
    return (
        f"The group {group!r} has active members ({', '.join(sorted(members))}): stop the connector that "
        "consumes in it, or give this sink another `name`; until then nothing is archived."
    )


def in_words(states: Iterable[PartitionState]) -> str:
    """Where partitions are committed, the first of them."""
    checkpoints = [state.checkpoint for state in states]
    shown = [f"{one.partition_of} at offset {one.offset}" for one in checkpoints[:_SHOWN] if one is not None]
    more = len(checkpoints) - len(shown)
    return ", ".join(shown) + (f" and {more} partitions more" if more else "")


def _detail(state: PartitionState) -> str | None:
    if state.stopped is not None:
        stopped = state.stopped
        return f"{state.partition} is at offset {stopped.offset} ({stopped.reason}): {stopped.message}"
    return None if state.refused is None else state.refused.sentence
