"""The real archive with slots that use the real arithmetic, a ledger and a bucket, at random."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pytest

from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import GroupingOptions, PartitionCheckpoint, SealedObject, Verdict
from headrace.model.sink_protocol import GroupWanted, PartitionGrant, SinkCommitted, SinkCompleted
from ingest.sink import Archive, FoundLives, FoundTopics, SinkEffects, TopicLife
from spark.sink.partition_offsets import PartitionOffsets
from tests.ingest.sink.sink_entries import NOW, Leader, controls, found, options, sealed

SLOTS = 2
OTHER = GroupingOptions(hash="other", options={"file.name.template": "{{start_offset}}"})
# The group of each record by its offset, None for a bad one.
RECORDS: dict[int, list[str | None]] = {
    0: ["a", "b", "a", None, "b", "a"],
    1: ["c", "c", None, "c"],
    2: ["d", "e", "d", "e", "d"],
}


def _group(options: str, letter: str) -> str:
    """The group of a record: by itself, or by the other options one for all."""
    return letter if options == NOW.hash else "all"


@dataclass
class Held:
    """A partition in a slot."""

    options: str
    offsets: PartitionOffsets
    open: dict[str, tuple[str, list[int]]] = field(default_factory=dict)
    sealed: set[str] = field(default_factory=set)

    def read(self, partition: int, next_id: str) -> None:
        """The record at the position, put where it belongs."""
        offset = self.offsets.position
        if offset >= len(RECORDS[partition]):
            return
        alone, letter = np.array([offset]), RECORDS[partition][offset]
        if self.offsets.unread(alone) is None:
            if letter is None:
                assert self.offsets.refuse_changed([offset]) is None
                self.offsets.add_dead_letter(offset)
            elif all(
                self.offsets.unarchived(_group(options, letter), alone, options=options) is None
                for options in (self.options, *self.offsets.earlier)
            ):
                self._add(_group(self.options, letter), offset, next_id)
        self.offsets.advance(offset + 1)

    def _add(self, group: str, offset: int, next_id: str) -> None:
        for object_id, (of, records) in self.open.items():
            if of == group and object_id not in self.sealed:
                records.append(offset)
                return
        self.offsets.open(next_id, group, offset)
        self.open[next_id] = (group, [offset])

    def seal(self, object_id: str) -> None:
        """Close an object."""
        if object_id not in self.sealed:
            self.sealed.add(object_id)
            self.offsets.seal(object_id, self.open[object_id][1][-1])


@dataclass
class Slot:
    """A slot with its batch; `wants` the group's metadata, or has been answered."""

    number: int
    batch: int
    held: dict[int, Held]
    completing: list[SealedObject] = field(default_factory=list)
    wants: bool = False
    is_ending: bool = False


class Sink:
    """Everything, with a leader that may be another at any moment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.archived: Counter[tuple[int, int]] = Counter()
        self.lettered: Counter[tuple[int, int]] = Counter()
        self.uploads: dict[str, list[tuple[int, int]]] = {}
        self.batches = 0
        self.ids = 0
        self.options = NOW
        self._lead({})

    def _lead(self, ledger: dict[ControlKey, bytes]) -> None:
        made = replace(options(SLOTS), grouping=self.options)
        self.leader = Leader(Archive.from_ledger(ledger.items(), made), ledger.items())
        self.slots: dict[int, Slot] = {}
        self.leaders: list[SealedObject] = list(self.leader.effects.completions)
        self._describe()

    def _follow(self, effects: SinkEffects) -> None:
        """Carry out what follows."""
        effects = self.leader.apply(effects)
        self.leaders += effects.completions
        for slot in effects.slots_to_end:
            self.slots[slot].is_ending = True
        for batch in effects.groups:
            answered = next(one for one in self.slots.values() if one.batch == batch)
            answered.wants = False
            self._commit(answered)
        if effects.topics_wanted:
            self._describe()
        if effects.lives_wanted:
            self._identify(effects.lives_wanted)

    def _describe(self) -> None:
        ends = {partition: len(records) for partition, records in RECORDS.items()}
        request = self.leader.archive.request_topics()
        self._follow(self.leader.archive.on_topics(FoundTopics(request=request, partitions=found(ends))))

    def _identify(self, topics: Iterable[str]) -> None:
        lives = dict.fromkeys(topics, TopicLife(topic_id="id1", partitions=len(RECORDS)))
        request = self.leader.archive.request_topics()
        self._follow(self.leader.archive.on_lives(FoundLives(request=request, topics=lives)))

    # -- what may happen -------------------------------------------------------------------------------------

    def act(self, *, calm: bool = False) -> None:
        """One step of somebody; with `calm` nobody fails."""
        roll = self.random.random()
        if not calm and roll < 0.02:
            self.options = self.random.choice([NOW, OTHER])
            self._lead(self.leader.ledger)
        elif self.leaders and roll < 0.2:
            self._complete(self.leaders.pop(self.random.randrange(len(self.leaders))), None)
        elif not self.slots or roll < 0.3:
            self._grant(self.random.randrange(SLOTS))
        else:
            slot = self.random.choice(list(self.slots.values()))
            if not calm and roll > 0.98:
                self._lose(slot)
            else:
                self._work(slot)

    def _grant(self, number: int) -> None:
        if number in self.slots:
            return
        self.batches += 1
        grants = self.leader.archive.next_batch(number, self.batches)
        if grants:
            held = {grant.partition: self._held(grant) for grant in grants}
            self.slots[number] = Slot(number, self.batches, held)

    def _held(self, grant: PartitionGrant) -> Held:
        options = self.options.hash
        assert {one.options for one in grant.earlier} <= {NOW.hash, OTHER.hash} - {options}
        return Held(options, PartitionOffsets(grant, options=options))

    def _lose(self, slot: Slot) -> None:
        del self.slots[slot.number]
        if self.random.random() < 0.5:
            # Its last transaction is committed, and nobody was told.
            self._transact(slot)
        archive = self.leader.archive
        self._follow(archive.on_lost(slot.batch))
        self._follow(archive.on_recovered(slot.number, list(self.leader.ledger.items())))

    def _work(self, slot: Slot) -> None:
        choice = self.random.random()
        if slot.completing and choice < 0.3:
            self._complete(slot.completing.pop(0), slot)
            return
        partition, held = self.random.choice(list(slot.held.items()))
        if slot.is_ending:
            for one in slot.held.values():
                for object_id in list(one.open):
                    one.seal(object_id)
        elif choice < 0.8:
            self.ids += 1
            held.read(partition, f"{self.ids}")
        elif held.open:
            held.seal(self.random.choice(list(held.open)))
        if slot.is_ending and not self._is_dirty(slot) and not slot.completing:
            del self.slots[slot.number]
            self._follow(self.leader.archive.on_finished(slot.batch))
        elif not slot.wants and self._is_dirty(slot) and choice > 0.6:
            slot.wants = True
            self._follow(self.leader.archive.on_group_wanted(GroupWanted(batch=slot.batch)))

    def _is_dirty(self, slot: Slot) -> bool:
        return any(held.offsets.is_news(held.offsets.commit()) for held in slot.held.values())

    def _commit(self, slot: Slot) -> None:
        self._follow(self.leader.archive.on_committed(self._transact(slot)))

    def _transact(self, slot: Slot) -> SinkCommitted:
        """The slot's transaction, decided: ledger and dead letters."""
        objects: list[SealedObject] = []
        checkpoints: list[PartitionCheckpoint] = []
        for partition, held in slot.held.items():
            commit = held.offsets.commit()
            for object_id in commit.objects:
                group, records = held.open.pop(object_id)
                held.sealed.discard(object_id)
                self.uploads[object_id] = [(partition, offset) for offset in records]
                objects.append(
                    sealed(
                        object_id,
                        records[0],
                        records[-1],
                        group=group,
                        partition=partition,
                        options=held.options,
                    )
                )
            self.lettered.update((partition, offset) for offset in commit.dead_letters)
            held.offsets.committed(commit)
            checkpoints.append(commit.checkpoint)
        self.leader.ledger.update(controls(*objects, *checkpoints))
        slot.completing += objects
        return SinkCommitted(
            batch=slot.batch,
            objects=tuple(objects),
            checkpoints=tuple(checkpoints),
            records_by_topic={},
            bad_by_reason={},
            seconds=0.1,
        )

    def _complete(self, one: SealedObject, slot: Slot | None) -> None:
        # A second completion of one upload does nothing.
        self.archived.update(self.uploads.pop(one.id, []))
        if slot is None:
            self._follow(self.leader.archive.on_completion(one.id, Verdict.COMPLETE))
        else:
            told = SinkCompleted(batch=slot.batch, ids=(one.id,))
            self._follow(self.leader.archive.on_completed(told))


@pytest.mark.parametrize("seed", range(80))
def test_each_record_is_archived_or_lettered_once(seed: int) -> None:
    """Slots are lost, leaders and options change; then all is calm and paused, and everything is there."""
    sink = Sink(seed)
    for _ in range(400):
        sink.act()
        assert all(times == 1 for times in (sink.archived + sink.lettered).values())
    for _ in range(400):
        sink.act(calm=True)
    sink._follow(sink.leader.archive.pause())
    for _ in range(2000):
        if sink.leader.archive.is_idle:
            break
        sink.act(calm=True)
    every = {
        (partition, offset): group for partition, of in RECORDS.items() for offset, group in enumerate(of)
    }
    assert sink.archived == Counter(record for record, group in every.items() if group is not None)
    assert sink.lettered == Counter(record for record, group in every.items() if group is None)
    assert sink.leader.objects() == {}
    assert sink.leader.options() == [sink.options.hash]
    assert [one.lag for one in sink.leader.archive.partitions()] == [0, 0, 0]
