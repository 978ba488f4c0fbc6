"""What a partition that no slot holds needs before it may be granted: completions, a checkpoint, a slot.

Sealed objects of one name are completed one after the other. A partition that is to be archived again from
another offset is judged here: whether it can be, and what it becomes.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.model.sink_entries import (
    GroupingOptions,
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    TopicPartition,
    Upload,
    key_of,
    offset_mark,
)
from headrace.options.choices import OffsetReset
from ingest.sink.entries import LedgerEntries
from ingest.sink.partitions import PartitionState
from ingest.sink.sink_effects import FoundLives, FoundPartition, GroupOffset, SinkEffectsBuilder
from ingest.sink.starting import Refused, Start, begin_of, committed_further, set_elsewhere, start_of

# A group without members loses an offset a week after its last commit.
_RENEWAL_MS: Final = 24 * 3600 * 1000
# A clock that was ahead has noted a commit that is still to come.
_CLOCK_MS: Final = 60 * 1000

_Names = frozenset[tuple[str, str]]


class LeaderCompletions:
    """Objects of partitions that no slot holds. Each is released once, when no earlier one has its name."""

    def __init__(self) -> None:
        self._waiting: dict[str, SealedObject] = {}
        self._released: dict[str, SealedObject] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._released)

    def __contains__(self, object_id: str) -> bool:
        return object_id in self._waiting or object_id in self._released

    def add(self, pending: Iterable[SealedObject]) -> None:
        """Have these completed; one that waits or is released already is so once."""
        for one in pending:
            if one.id not in self:
                self._waiting[one.id] = one

    def remove(self, object_id: str) -> None:
        """The object has its end, or is no longer the leader's."""
        self._waiting.pop(object_id, None)
        self._released.pop(object_id, None)

    def release(self) -> tuple[SealedObject, ...]:
        """What can be completed now and was not given out before."""
        taken = {name for one in self._released.values() for name in _names(one)}
        released: list[SealedObject] = []
        for one in sorted(self._waiting.values(), key=_order):
            names = _names(one)
            if taken.isdisjoint(names):
                released.append(one)
            # Also the names of one that has to wait: nothing of a later one goes before it.
            taken |= names
        for one in released:
            self._released[one.id] = self._waiting.pop(one.id)
        return tuple(released)


def _names(sealed: SealedObject) -> _Names:
    """Everything that its completion puts into buckets."""
    return frozenset((sealed.bucket, upload.key) for upload in sealed.uploads)


def _order(sealed: SealedObject) -> tuple[TopicPartition, int, int, str]:
    return sealed.partition_of, sealed.first_offset, sealed.last_offset, sealed.id


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """`ledger` is the ledger topic, `group` the connector's own group, `grouping` the options in force.

    `selects` says whether `topics` or `topics.regex` means a topic.
    """

    ledger: str
    group: str
    reset: OffsetReset
    grouping: GroupingOptions
    selects: Callable[[str], bool] = lambda _topic: True


class PartitionStarts:
    """Brings free partitions to where they can be granted, and keeps `is_grantable` of each."""

    def __init__(self, options: StartOptions, entries: LedgerEntries, completions: LeaderCompletions) -> None:
        self._options = options
        self._entries = entries
        self._completions = completions
        self._known_topics = frozenset(
            state.partition.topic for state in entries.states if state.checkpoint is not None or state.objects
        )
        # Of which it is not known yet whether they were there at the start; None: of all.
        self._unseen: frozenset[str] | None = None

    def set_reset(self, state: PartitionState) -> None:
        """Settle where a partition that Kafka has begins when it was never read, once.

        `latest` is for topics that were there at the start. All that appears later, and every partition by
        which a topic grows, begins at its first record: there is no old record in it.
        """
        topic = state.partition.topic
        was_there = self._unseen is None or topic in self._unseen
        earliest = topic in self._known_topics or not was_there
        state.reset = state.reset or (OffsetReset.EARLIEST if earliest else self._options.reset)

    def topics_found(self, forbidden: frozenset[str]) -> None:
        """The topics that were there at the start are known, but for these."""
        self._unseen = forbidden if self._unseen is None else self._unseen & forbidden

    def advance(self, effects: SinkEffectsBuilder, *, is_held: bool) -> None:
        """Do what free partitions need next. With `is_held` none begins: its offset may still move."""
        for state in self._entries.states:
            state.is_grantable = False
            if not state.is_free:
                continue
            if pending := state.pending:
                # Until they are completed nobody may write anything that could have their names.
                self._complete(pending)
            elif state.is_absent:
                state.refused = None
            elif not (is_held or state.is_unknown or self._entries.is_unwritten(state.key)):
                self._start(effects, state)
        self._entries.remove_unused_options(effects, self._options.grouping.hash)
        effects.completions += self._completions.release()

    def compare(
        self, effects: SinkEffectsBuilder, state: PartitionState, found: FoundPartition | None
    ) -> None:
        """Say, at a start or after a stop, that the group has another offset: it is about to be replaced.

        What is committed in this sink's own name is only held against the ledger's entry as it was read.
        """
        options = self._options
        warning = set_elsewhere(found, state.checkpoint, ledger=options.ledger, group=options.group)
        if warning is None and state.is_as_read:
            warning = committed_further(found, state.checkpoint, ledger=options.ledger, group=options.group)
        if warning is not None:
            effects.warnings.append(warning)

    def commit_offset(self, effects: SinkEffectsBuilder, checkpoint: PartitionCheckpoint) -> None:
        """Have the checkpoint's offset shown in the connector's own group."""
        effects.offsets.append(
            GroupOffset(
                topic=checkpoint.topic,
                partition=checkpoint.partition,
                offset=checkpoint.offset,
                mark=offset_mark(self._options.ledger, checkpoint.topic_id),
            )
        )

    def renew(self, effects: SinkEffectsBuilder, now_ms: int) -> None:
        """Have offsets committed again that the group would lose, each a day after the last time.

        Of a topic that is not selected it is asked first whether it is there: a commit that brokers refuse
        would end the leader.
        """
        for state in self._entries.states:
            self._renew(effects, state, now_ms)

    def _renew(self, effects: SinkEffectsBuilder, state: PartitionState, now_ms: int) -> None:
        if state.checkpoint is None or state.is_made_again or state.is_unknown:
            return
        if state.found is None and state.is_selected:
            return
        age_ms = None if state.committed_ms is None else now_ms - state.committed_ms
        if age_ms is not None and -_CLOCK_MS <= age_ms < _RENEWAL_MS:
            return
        state.committed_ms = now_ms
        if state.is_selected:
            self.commit_offset(effects, state.checkpoint)
        else:
            state.is_renewed_next = True
            effects.lives_wanted.add(state.partition.topic)

    def renew_others(self, effects: SinkEffectsBuilder, found: FoundLives) -> None:
        """Have the offsets committed that wait for this: of topics that are not selected, and still there."""
        for state in self._entries.states:
            if state.is_renewed_next and state.is_same(found):
                assert state.checkpoint is not None, "one without is never the same"
                state.is_renewed_next = False
                self.commit_offset(effects, state.checkpoint)

    def _complete(self, pending: Iterable[SealedObject]) -> None:
        """Have those completed whose entries are in the ledger."""
        self._completions.add(one for one in pending if not self._entries.is_unwritten(key_of(one)))

    def _start(self, effects: SinkEffectsBuilder, state: PartitionState) -> None:
        assert state.found is not None, "only what Kafka has is started"
        # A reset asks for the option's own place, also of a topic that was known.
        is_reset = state.checkpoint is not None and state.checkpoint.is_reset
        start = start_of(
            state.found,
            state.checkpoint,
            ledger=self._options.ledger,
            group=self._options.group,
            reset=self._options.reset if is_reset else state.reset or self._options.reset,
        )
        if isinstance(start, Start) and not start.is_new:
            state.refused = self._refused_options(state)
            ready = not self._entries.is_unwritten(key_of(self._options.grouping))
            state.is_grantable = ready and state.refused is None and state.stopped is None
            return
        if state.found_request <= state.changed:
            # What Kafka had was asked for before the checkpoint moved: only a later answer can contradict it.
            effects.topics_wanted = True
        elif isinstance(start, Refused):
            state.refused = start
        else:
            state.refused = None
            if state.is_made_again:
                # It stood at a record of the old topic, or because that was gone or seemed to be cut.
                state.stopped = state.held = None
                start = replace(start, lost=state.lost_of_old_topic())
            self._commit_start(effects, start)

    def _commit_start(self, effects: SinkEffectsBuilder, start: Start) -> None:
        """Where it begins is in the ledger before anybody reads: a crash must not begin elsewhere."""
        for group, last in start.done:
            self._entries.write(effects, self._earlier_object(start.checkpoint, group, last))
        self._entries.write(effects, start.checkpoint)
        self.commit_offset(effects, start.checkpoint)
        if start.lost is not None:
            effects.lost_offsets.append(start.lost)
        if start.warning is not None:
            effects.warnings.append(start.warning)

    def _earlier_object(self, start: PartitionCheckpoint, group: str, last: int) -> SealedObject:
        """The entry of what another sink has archived of a group: its records are passed over."""
        digest = hashlib.sha256(group.encode()).hexdigest()[:16]
        return SealedObject(
            id=f"earlier-{start.topic}-{start.partition}-{digest}",
            topic=start.topic,
            partition=start.partition,
            topic_id=start.topic_id,
            group=group,
            first_offset=start.offset,
            last_offset=last,
            records=0,
            bytes=0,
            uploads=(Upload(key="", upload_id="", parts=()),),
            options=self._options.grouping.hash,
            sealed_ms=0,
            bucket="",
            state=ObjectState.COMPLETE,
        )

    def rewind(
        self, effects: SinkEffectsBuilder, offsets: Mapping[TopicPartition, int | None]
    ) -> Refused | None:
        """Have these partitions continue at these offsets; why one of them cannot, and then none does.

        None as an offset is where a partition begins that was never read.
        """
        for partition, offset in offsets.items():
            refused = _refused_rewind(self._entries, partition, offset)
            if refused is not None:
                return refused
        for partition, offset in offsets.items():
            start = _rewound(self._entries, effects, partition, offset, self._options.reset)
            if self._entries.states[partition].found is not None:
                self.commit_offset(effects, start)
        return None

    def _refused_options(self, state: PartitionState) -> Refused | None:
        if state.options_above <= self._entries.states.options.keys():
            return None
        return Refused(
            reason="options_unknown",
            sentence=f"The options by which {state.partition} was archived are not in the ledger: run the "
            "version and configuration of before with rotate.on.stop=true until it has caught up, stop it "
            "cleanly, which closes all objects, and change them then.",
        )


ABOVE_END: Final = "offset_above_end"


def _refused_rewind(entries: LedgerEntries, partition: TopicPartition, offset: int | None) -> Refused | None:
    """Why the partition cannot continue at this offset (None: where it begins) now; None when it can.

    With `ABOVE_END` by what Kafka had when it was asked last: its log may have grown since.
    """
    unknown = Refused(reason="unknown_partition", sentence=f"{partition} is no partition of this sink.")
    if partition not in entries.states:
        return unknown
    state = entries.states[partition]
    if state.found is None and state.checkpoint is None:
        return unknown
    if not state.is_free or state.pending or entries.is_unwritten(state.key):
        return Refused(
            reason="partition_in_use",
            sentence=f"{partition} is {state.condition}: pause the connector, and rewind it once nothing "
            "of the partition is open or pending.",
        )
    if not state.found_request:
        return Refused(
            reason="partition_not_found_yet",
            sentence=f"Whether Kafka has {partition} is being found out: try again in a moment.",
        )
    if state.is_unknown:
        return Refused(
            reason="partition_unknown",
            sentence=f"What Kafka has of {partition} is not known: it has no leader, or its topic may not be "
            "described. Rewind it once /status has no problem `topics`.",
        )
    return _refused_offset(state, offset)


def _refused_offset(state: PartitionState, offset: int | None) -> Refused | None:
    # Of a partition that Kafka does not have it is judged once the sink has it again.
    if state.found is None or offset is None or offset <= state.found.end:
        return None
    end = state.found.end
    return Refused(
        reason=ABOVE_END,
        sentence=f"{state.partition} ends at offset {end}, below {offset}: nothing would be read there. "
        f"Set an offset up to {end}.",
    )


def _rewound(
    entries: LedgerEntries,
    effects: SinkEffectsBuilder,
    partition: TopicPartition,
    offset: int | None,
    reset: OffsetReset,
) -> PartitionCheckpoint:
    """Where the partition continues, written; what the ledger has of its objects is removed.

    None: where a partition begins that was never read, once Kafka has it. Only for what `_refused_rewind`
    lets pass.
    """
    state = entries.states[partition]
    for sealed in list(state.objects.values()):
        entries.remove(effects, sealed)
    # Of a partition that Kafka does not have the group is given its offset once it is there again.
    state.stopped = state.committed_ms = state.left = None
    start = _start_at(state, offset, reset)
    entries.write(effects, start)
    return start


def _start_at(state: PartitionState, offset: int | None, reset: OffsetReset) -> PartitionCheckpoint:
    found, before = state.found, state.checkpoint
    if found is not None:
        topic_id, begin = found.topic_id, begin_of(found, reset)
    else:
        assert before is not None, "what neither Kafka nor the ledger has is refused"
        # The entry stays: by it a topic that is made again is known, and the group's offset decides nothing.
        topic_id, begin = before.topic_id, before.offset
    topic, number = state.partition
    return PartitionCheckpoint(
        topic=topic,
        partition=number,
        topic_id=topic_id,
        offset=begin if offset is None else offset,
        # Names of an earlier topic of this name stay taken, wherever reading goes on.
        is_made_again=before is not None and (before.is_made_again or state.is_made_again),
        is_reset=found is None and offset is None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions(StartOptions):
    """What the decisions depend on; `max_pending` and `max_pending_age_ms` are what readiness bears."""

    slots: int
    grants_idle: bool = True
    """False: a partition without anything to read is not granted, so that its slot is free for others."""
    max_pending: int = 1000
    max_pending_age_ms: int = 60 * 1000
