"""The front door of the sink's decisions: events of Kafka, slots and ledger in, what has to be done out."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import (
    GroupingOptions,
    ObjectState,
    PartitionCheckpoint,
    TopicPartition,
    Verdict,
)
from headrace.model.sink_protocol import (
    GroupWanted,
    PartitionGrant,
    PartitionReleased,
    PartitionStopped,
    SinkCommitted,
    SinkCompleted,
    SinkLeft,
    SinkProgress,
)
from ingest.sink.dealing import (
    Candidate,
    SlotBatch,
    SlotBatches,
    ask_to_end,
    candidates,
    deal,
    held_sentences,
    left_open,
    left_to_read,
    slots_to_end,
)
from ingest.sink.entries import LedgerEntries, ObjectEnd
from ingest.sink.partitions import (
    ArchiveCounts,
    PartitionState,
    PartitionStatus,
    counts_of,
    in_words,
    problems_of,
    status_of,
)
from ingest.sink.sink_effects import FoundLives, FoundTopics, SinkEffects, SinkEffectsBuilder, SinkWrite
from ingest.sink.starting import Refused, grant_of
from ingest.sink.starts import ArchiveOptions, LeaderCompletions, PartitionStarts


class Archive:
    """The sink as its leader decides it. One thread; nothing here blocks, asks a client or reads a clock."""

    def __init__(self, options: ArchiveOptions, entries: LedgerEntries) -> None:
        self.is_paused = False
        """True: nothing is granted, and slots are asked to end."""
        self.given_up = 0
        """How many batches ended with closed objects that are not committed, or may have."""
        self._options = options
        self._entries = entries
        self._states = entries.states
        self._batches = SlotBatches()
        self._completions = LeaderCompletions()
        self._starts = PartitionStarts(options, entries, self._completions)
        self._request = 0
        self._members: tuple[str, ...] = ()
        self._now_ms: int | None = None
        self._absent: tuple[int, ...] = ()
        self._compares_after: int | None = 0

    @classmethod
    def from_ledger(cls, controls: Iterable[tuple[ControlKey, bytes]], options: ArchiveOptions) -> "Archive":
        """The archive by what the ledger says once nothing of the past can commit any more."""
        return cls(options, LedgerEntries(controls))

    # -- Kafka -----------------------------------------------------------------------------------------------

    def begin(self) -> SinkEffects:
        """What the ledger has unfinished; once, before anything else."""
        effects = SinkEffectsBuilder(topics_wanted=True)
        grouping = self._options.grouping
        if self._states.options.get(grouping.hash) != grouping:
            self._entries.write(effects, grouping)
        for state in self._states:
            self._entries.remove_passed(effects, state)
        return self._advance(effects)

    def request_topics(self) -> int:
        """The number of a description of the topics that begins now."""
        self._request += 1
        return self._request

    @property
    def last_request(self) -> int:
        """The number of the description of topics, or of lives, that began last."""
        return self._request

    @property
    def found_request(self) -> int:
        """The number of the description of topics that all partitions have, or a later one; 0 for none."""
        return min((one.found_request for one in self._states), default=self._request)

    def held(self) -> frozenset[TopicPartition]:
        """The partitions of which it is to be asked where they end for readers, as transactions are open."""
        return frozenset(one.partition for one in self._states if one.held and not self._options.grants_idle)

    @property
    def is_settled(self) -> bool:
        """Whether every partition has begun and none is refused: no commit of the group decides anything."""
        has_begun = all(state.checkpoint is not None and state.refused is None for state in self._states)
        return has_begun and self._compares_after is None

    def on_topics(self, topics: FoundTopics) -> SinkEffects:
        """Pick up what Kafka has; what a later answer has said already stays."""
        effects = SinkEffectsBuilder()
        self._members = topics.group_members
        found = {one.partition_of: one for one in topics.partitions}
        for partition in (*found, *topics.leaderless):
            self._starts.set_reset(self._states[partition])
        compares = self._compares_after is not None and topics.request > self._compares_after
        self._compares_after = None if compares else self._compares_after
        for state in self._states:
            if topics.request > state.found_request:
                if compares or state.is_as_read:
                    self._starts.compare(effects, state, found.get(state.partition))
                state.is_selected = self._options.selects(state.partition.topic)
                state.on_found(found.get(state.partition), topics)
        self._starts.topics_found(topics.forbidden)
        for batch in self._batches.asked_before(topics.request):
            if not any(self._states[partition].is_in_doubt for partition in batch.partitions):
                batch.group_request = None
                effects.groups.append(batch.number)
        for state in self._states:
            if (lost := state.lost_with_topic()) is not None:
                effects.lost_offsets.append(lost)
        return self._advance(effects)

    def on_lives(self, found: FoundLives) -> SinkEffects:
        """Answer the slots that wait for it and whose topics are the same; else all is described."""
        effects = SinkEffectsBuilder()
        self._starts.renew_others(effects, found)
        for batch in self._batches.asked_before(found.request):
            if all(self._states[partition].is_same(found) for partition in batch.partitions):
                batch.group_request = None
                effects.groups.append(batch.number)
            else:
                effects.topics_wanted = True
        return effects.effects()

    def tick(self, now_ms: int) -> SinkEffects:
        """What only time brings; `now_ms` is since 1970."""
        self._now_ms = now_ms
        effects = SinkEffectsBuilder()
        self._starts.renew(effects, now_ms)
        return effects.effects()

    # -- slots -----------------------------------------------------------------------------------------------

    def ready(self) -> int:
        """How many slots without a batch would be granted partitions now."""
        asking = sum(one.has_work for one in self._candidates())
        return min(asking, self._options.slots - len(self._batches))

    def next_batch(self, slot: int, number: int) -> tuple[PartitionGrant, ...]:
        """The partitions that the slot holds from now on, as batch `number`; empty when there are none."""
        slots, absent = self._options.slots, self._absent
        chosen = deal(
            slot, self._candidates(), held=self._batches.held(self._states), slots=slots, absent=absent
        )
        if not chosen:
            return ()
        self._batches.add(number, slot, chosen)
        return tuple(self._grant(self._states[partition], slot, number) for partition in chosen)

    def on_absent(self, slots: tuple[int, ...]) -> SinkEffects:
        """Spark has not begun the tasks of these slots for long: what would be theirs is for the others."""
        if slots == self._absent:
            return SinkEffects()
        self._absent = slots
        return self._advance(SinkEffectsBuilder())

    def earlier_options(self, grants: Iterable[PartitionGrant]) -> tuple[GroupingOptions, ...]:
        """The options that are no longer in force and that these grants refer to."""
        hashes = {earlier.options for grant in grants for earlier in grant.earlier}
        return tuple(self._states.options[one] for one in sorted(hashes))

    def on_group_wanted(self, wanted: GroupWanted) -> SinkEffects:
        """A slot is about to begin a transaction: it is answered once its topics are known to be the same."""
        batch = self._batches.live(wanted.batch)
        if batch is None:
            return SinkEffects()
        batch.group_request = self._request
        return SinkEffects(lives_wanted=tuple(sorted({one.topic for one in batch.partitions})))

    def on_committed(self, committed: SinkCommitted) -> SinkEffects:
        """Pick up exactly what the acknowledged transaction has put into the ledger."""
        effects, batch = SinkEffectsBuilder(), self._batches.live(committed.batch)
        if batch is None:
            # The slot was lost meanwhile: the ledger, read after the fence, has it.
            return effects.effects()
        for sealed in committed.objects:
            # What is complete already (at least once) has no entry in the ledger.
            if sealed.state is ObjectState.PENDING:
                self._states.apply(sealed)
        for checkpoint in committed.checkpoints:
            state = self._states[checkpoint.partition_of]
            if state.on_archived(checkpoint.offset):
                batch.moved.add(state.partition)
            self._states.apply(checkpoint)
            state.changed, state.committed_ms = self._request, self._now_ms
            self._entries.remove_passed(effects, state)
        return effects.effects()

    def in_hand(self, slot: int) -> str | None:
        """The partitions of the slot's batch with their committed offsets, in words; None without a batch."""
        batch = self._batches.of_slot(slot)
        return None if batch is None else in_words(self._states[one] for one in sorted(batch.partitions))

    def left_to_read(self, slot: int) -> int:
        """How far the slot has to read what others left open, where no checkpoint has moved since."""
        batch = self._batches.of_slot(slot)
        partitions = () if batch is None else batch.partitions - batch.moved
        return sum(left_to_read(self._states[one]) for one in partitions)

    def on_left(self, left: SinkLeft) -> SinkEffects:
        """Pick up what a slot leaves unwritten at the end of its batch."""
        batch = self._batches.live(left.batch)
        for partition in () if batch is None else batch.partitions:
            self._states[partition].left = left.partitions.get(partition)
        return SinkEffects()

    def gone(self, number: int) -> tuple[TopicPartition, ...]:
        """The partitions of a batch that Kafka does not have any more."""
        batch = self._batches.live(number)
        partitions = () if batch is None else sorted(batch.partitions)
        return tuple(one for one in partitions if self._states[one].is_absent)

    def on_released(self, released: PartitionReleased) -> SinkEffects:
        """A slot has given up one partition and keeps the others."""
        batch = self._batches.live(released.batch)
        partition = TopicPartition(released.topic, released.partition)
        effects = SinkEffectsBuilder()
        if batch is None or partition not in batch.partitions:
            return effects.effects()
        batch.partitions -= {partition}
        self._states[partition].release(self._request)
        if not batch.partitions:
            ask_to_end(effects, batch)
        return self._advance(effects)

    def on_completed(self, completed: SinkCompleted) -> SinkEffects:
        """Pick up the ends of objects, as S3 answered a slot or the leader.

        What a slot leaves to the leader is completed by it at once, though the slot has the partition.
        """
        effects = SinkEffectsBuilder()
        left = (self._states.object(one) for one in completed.left)
        self._completions.add(one for one in left if one is not None and one.state is ObjectState.PENDING)
        ends = [ObjectEnd(object_id, ObjectState.COMPLETE) for object_id in completed.ids]
        ends += [ObjectEnd(one, ObjectState.QUARANTINED, reason) for one, reason in completed.quarantined]
        self._end(effects, *ends)
        return self._advance(effects)

    def on_stopped(self, stopped: PartitionStopped) -> SinkEffects:
        """A partition is at a record; it is not granted again before `restart`."""
        batch = self._batches.live(stopped.batch)
        partition = TopicPartition(stopped.topic, stopped.partition)
        if batch is not None and partition in batch.partitions:
            self._states[partition].stopped = stopped
        return self._advance(SinkEffectsBuilder())

    def on_progress(self, progress: SinkProgress) -> SinkEffects:
        """Pick up where a slot is: for the numbers only."""
        if self._batches.live(progress.batch) is not None:
            for partition, position in progress.positions.items():
                self._states[partition].position = position
                self._states[partition].held = progress.held.get(partition)
            for partition, end in progress.ends.items():
                self._states[partition].on_end(end)
        return SinkEffects()

    def on_finished(self, number: int, *, is_whole: bool = True) -> SinkEffects:
        """The slot has said all of the batch's transactions; `is_whole`: what is closed is committed."""
        batch = self._batches.live(number)
        if batch is None:
            return SinkEffects()
        self.given_up += not is_whole
        self._release(batch)
        return self._advance(SinkEffectsBuilder())

    def on_lost(self, number: int) -> SinkEffects:
        """The batch's slot was voided: nothing of its partitions is granted before `on_recovered`."""
        batch = self._batches.live(number)
        if batch is not None:
            batch.is_lost, batch.group_request = True, None
            self.given_up += 1
            for partition in batch.partitions:
                self._states[partition].lose()
        return SinkEffects()

    def on_recovered(self, slot: int, controls: Iterable[tuple[ControlKey, bytes]]) -> SinkEffects:
        """The slot is fenced, and the ledger was read to its end since: `controls` are all that it has."""
        batch = self._batches.of_slot(slot)
        if batch is None:
            return SinkEffects()
        effects = SinkEffectsBuilder()
        effects.unreported += self._entries.reread(batch.partitions, controls)
        self._release(batch)
        for partition in batch.partitions:
            self._entries.remove_passed(effects, self._states[partition])
        return self._advance(effects)

    # -- the leader's own work -------------------------------------------------------------------------------

    def on_completion(self, object_id: str, verdict: Verdict) -> SinkEffects:
        """A completion of the leader's has its end; RETRY is not one. The slot that left it is notified."""
        effects = SinkEffectsBuilder()
        sealed = self._states.object(object_id)
        state = None if sealed is None else self._states[sealed.partition_of]
        if state is not None and state.batch is not None and verdict is not Verdict.RETRY:
            effects.ended.append((state.batch, object_id))
        if verdict is Verdict.COMPLETE:
            self._end(effects, ObjectEnd(object_id, ObjectState.COMPLETE))
        elif verdict is Verdict.UNPROVEN:
            self._end(effects, ObjectEnd(object_id, ObjectState.COMPLETE, verdict.value))
        elif verdict is not Verdict.RETRY:
            self._end(effects, ObjectEnd(object_id, ObjectState.QUARANTINED, verdict.value))
        return self._advance(effects)

    def on_written(self, writes: Iterable[SinkWrite]) -> SinkEffects:
        """The leader's transaction with these records is acknowledged."""
        effects = SinkEffectsBuilder()
        written = tuple(writes)
        self._entries.on_written(written)
        for write in written:
            if isinstance(write.entry, PartitionCheckpoint):
                # Entries of before were kept until it was in the ledger.
                self._entries.remove_passed(effects, self._states[write.entry.partition_of])
        return self._advance(effects)

    # -- commands --------------------------------------------------------------------------------------------

    def pause(self) -> SinkEffects:
        """Grant nothing more, and ask every slot to end."""
        self.is_paused = True
        return self._advance(SinkEffectsBuilder())

    def resume(self) -> SinkEffects:
        """Grant again."""
        self.is_paused, self._compares_after = False, self._request
        return self._advance(SinkEffectsBuilder(topics_wanted=True))

    def restart(self, partition: TopicPartition | None = None) -> SinkEffects:
        """Let partitions that stopped, one or all, be tried again from their checkpoint."""
        effects = SinkEffectsBuilder(topics_wanted=True)
        for state in list(self._states) if partition is None else [self._states[partition]]:
            batch = None if state.stopped is None or state.batch is None else self._batches.live(state.batch)
            if batch is not None:
                ask_to_end(effects, batch)
            state.stopped = None
        return self._advance(effects)

    def rewind(self, offsets: Mapping[TopicPartition, int | None]) -> SinkEffects | Refused:
        """Archive these partitions again from these offsets, all or none; their entries are dropped.

        None begins as a partition that was never read. Pause first.
        """
        effects = SinkEffectsBuilder()
        refused = self._starts.rewind(effects, offsets)
        return self._advance(effects) if refused is None else refused

    # -- what is shown ---------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True when no slot holds a batch, nothing is pending and nothing waits for the ledger."""
        return not self._batches and not self._completions and self._entries.is_all_written

    def partitions(self) -> tuple[PartitionStatus, ...]:
        """Every partition with what it is at, in order."""
        return tuple(status_of(state) for state in self._states)

    def counts(self, now_ms: int) -> ArchiveCounts:
        """Sums over all partitions; `now_ms` is since 1970."""
        return counts_of(self._states, now_ms)

    def problems(self, now_ms: int) -> tuple[str, ...]:
        """Why the sink is not ready, a sentence each; none when it is."""
        found = problems_of(
            self._states,
            self.counts(now_ms),
            members=self._members,
            group=self._options.group,
            max_pending=self._options.max_pending,
            max_pending_age_ms=self._options.max_pending_age_ms,
        )
        return (*found, *held_sentences(self._states, now_ms))

    # -- inside ----------------------------------------------------------------------------------------------

    def _advance(self, effects: SinkEffectsBuilder) -> SinkEffects:
        """What follows for partitions that no slot holds, and for slots that have to give some up."""
        self._starts.advance(effects, is_held=bool(self._members))
        for batch in self._batches:
            if batch.is_lost:
                continue
            if any(self._states[partition].is_in_doubt for partition in batch.partitions):
                # What it has in hand may be of both lives: nothing of that is committed.
                effects.slots_to_revoke.append(batch.slot)
            elif self.is_paused or self._members:
                ask_to_end(effects, batch)
        self._rebalance(effects)
        return effects.effects()

    def _rebalance(self, effects: SinkEffectsBuilder) -> None:
        ending = {batch.slot for batch in self._batches if batch.is_ending or batch.is_lost}
        slots, absent, free = self._options.slots, self._absent, self._candidates()
        for slot in slots_to_end(
            free, held=self._batches.held(self._states), ending=ending, slots=slots, absent=absent
        ):
            batch = self._batches.of_slot(slot)
            assert batch is not None, "only a slot that holds partitions is asked to end"
            ask_to_end(effects, batch)

    def _candidates(self) -> list[Candidate]:
        if self.is_paused or self._members:
            return []
        return candidates(self._states, self._now_ms, grants_idle=self._options.grants_idle)

    def _grant(self, state: PartitionState, slot: int, number: int) -> PartitionGrant:
        assert state.checkpoint is not None, "where a partition begins is in the ledger first"
        state.batch, state.last_slot, state.is_grantable = number, slot, False
        grant = grant_of(state.checkpoint, state.objects.values(), options=self._options.grouping.hash)
        return replace(grant, left=left_open(state), held=state.held)

    def _release(self, batch: SlotBatch) -> None:
        """No slot holds these partitions any more."""
        self._batches.remove(batch.number)
        for partition in batch.partitions:
            self._states[partition].release(self._request)

    def _end(self, effects: SinkEffectsBuilder, *ends: ObjectEnd) -> None:
        for end in ends:
            self._completions.remove(end.id)
        self._entries.end_objects(effects, ends)
