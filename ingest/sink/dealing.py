"""Which free partitions a slot is granted, and which slots have to give theirs up: few moves, even lag.

The batches that slots hold have their partitions, and what was asked of them. What is left to do for a
partition that no slot has is more to read, or what was left open and is due.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import HELD_SECONDS, LeftOpen
from ingest.sink.partitions import PartitionState, PartitionStates
from ingest.sink.sink_effects import SinkEffectsBuilder


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition that may be granted: how many records wait there, and which slot held it last.

    Without work, which it has while a slot has read all of it and left it open for later, it is granted with
    others, so that what they have soon ends no slot, and is no reason for a slot by itself.
    """

    partition: TopicPartition
    lag: int
    last_slot: int | None
    has_work: bool = True


@dataclass(slots=True)
class _Share:
    slot: int
    partitions: list[TopicPartition]
    lag: int = 0


def deal(
    slot: int,
    candidates: Sequence[Candidate],
    *,
    held: Mapping[int, int],
    slots: int,
    absent: Collection[int] = (),
) -> tuple[TopicPartition, ...]:
    """The partitions for this idle slot. `held` has the number of partitions of every slot with a batch.

    Nothing is left for slots that are `absent`: Spark has not begun their tasks for long.

    Every idle slot's share is worked out, so that the others find theirs when they ask. A slot gets back what
    it held last where there is room, for it may have something of them in hand; the rest goes where
    the least waits. A slot that asks never goes away without work while there is any: who else would get it
    may be long in coming.
    """
    if not any(one.has_work for one in candidates):
        return ()
    idle = [number for number in range(slots) if number not in held and number not in absent]
    shares = {number: _Share(number, []) for number in idle}
    room = _fair(len(candidates), held, slots - len(absent))
    ordered = sorted(candidates, key=lambda one: (not one.has_work, -one.lag, one.partition))
    for candidate in ordered:
        last = shares.get(candidate.last_slot) if candidate.last_slot is not None else None
        if last is None or len(last.partitions) >= room:
            free = [share for share in shares.values() if len(share.partitions) < room]
            if not free:
                break
            last = min(free, key=lambda share: (share.lag, len(share.partitions), share.slot))
        last.partitions.append(candidate.partition)
        last.lag += candidate.lag
    share = shares[slot].partitions
    if not any(one.has_work and one.partition in share for one in candidates):
        share = [ordered[0].partition, *share][: max(room, 1)]
    return tuple(sorted(share))


def slots_to_end(
    free: Sequence[Candidate],
    *,
    held: Mapping[int, int],
    ending: Collection[int],
    slots: int,
    absent: Collection[int] = (),
) -> list[int]:
    """The slots to be asked to end, so that partitions without a slot find one, or an idle slot work.

    `free` are the partitions that could be granted: those without work wait for no slot. What slots that are
    `ending` give back is on its way. A slot that is `absent` is no idle one.
    """
    present = slots - len(absent)
    waiting, fair = sum(one.has_work for one in free), _fair(len(free), held, present)
    live = {slot: count for slot, count in held.items() if slot not in ending}
    idle = present - len(held) + len(ending)
    wanted: list[int] = []
    # The least loaded take what waits: they have the least to close.
    for slot in sorted(live, key=lambda one: (live[one], one)):
        if waiting <= idle * fair:
            break
        if live[slot] < fair:
            wanted.append(slot)
            waiting -= fair - live[slot]
    if not free and idle > len(ending):
        # Nothing waits and a slot is idle: what is above the fair share is dealt again.
        wanted += [slot for slot, count in sorted(live.items()) if count > fair]
    return wanted


def _fair(waiting: int, held: Mapping[int, int], slots: int) -> int:
    """How many partitions a slot has at most when all are dealt evenly."""
    return -(-(waiting + sum(held.values())) // slots)


@dataclass(slots=True, kw_only=True)
class SlotBatch:
    """Partitions that one slot holds until its batch ends; it may give one of them up before.

    `group_request` is the number of the last description of topics that was asked for before the slot wanted
    the group's metadata; None: it wants none. A batch that `is_lost` is not over: its slot is being fenced.
    """

    number: int
    slot: int
    partitions: frozenset[TopicPartition]
    is_ending: bool = False
    is_lost: bool = False
    moved: set[TopicPartition] = field(default_factory=set)
    """Those whose checkpoint has moved since they were granted."""
    group_request: int | None = None


class SlotBatches:
    """Every batch that is not over."""

    def __init__(self) -> None:
        self._batches: dict[int, SlotBatch] = {}

    def __iter__(self) -> Iterator[SlotBatch]:
        return iter(tuple(self._batches.values()))

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, number: int, slot: int, partitions: Collection[TopicPartition]) -> None:
        """A batch was granted; its slot has no other, its number was never used."""
        assert number not in self._batches, f"batch {number} exists"
        assert self.of_slot(slot) is None, f"slot {slot} has a batch"
        self._batches[number] = SlotBatch(number=number, slot=slot, partitions=frozenset(partitions))

    def live(self, number: int) -> SlotBatch | None:
        """The batch, unless it is over or its slot was lost: what such a one says late means nothing."""
        batch = self._batches.get(number)
        return None if batch is None or batch.is_lost else batch

    def of_slot(self, slot: int) -> SlotBatch | None:
        """The batch that the slot holds, or held when it was lost."""
        return next((batch for batch in self if batch.slot == slot), None)

    def asked_before(self, request: int) -> Iterator[SlotBatch]:
        """The batches whose slots wait for the group, and did before this description of topics began."""
        return (one for one in self if one.group_request is not None and one.group_request < request)

    def held(self, states: PartitionStates) -> dict[int, int]:
        """How many partitions every slot with a batch has, those that stopped not counted."""
        return {
            batch.slot: sum(states[partition].stopped is None for partition in batch.partitions)
            for batch in self
        }

    def remove(self, number: int) -> None:
        """The batch is over."""
        self._batches.pop(number, None)


def ask_to_end(effects: SinkEffectsBuilder, batch: SlotBatch) -> None:
    """Once: the slot closes, commits and completes what it has, which takes its time."""
    if not batch.is_ending:
        batch.is_ending = True
        effects.slots_to_end.append(batch.slot)


def left_open(state: PartitionState) -> LeftOpen | None:
    """What a slot has left open of the life of the topic that the checkpoint is of; None: nothing."""
    left, checkpoint = state.left, state.checkpoint
    if left is None or checkpoint is None or left.topic_id != checkpoint.topic_id:
        return None
    return left if left.end > checkpoint.offset else None


def has_work(state: PartitionState, now_ms: int | None) -> bool:
    """Whether a slot could do anything for it: a tail that was read waits for its time, or for more."""
    if not state.lag or now_ms is None or state.found is None or state.checkpoint is None:
        return state.lag > 0
    left = left_open(state)
    if left is None:
        return _is_readable(state, state.checkpoint.offset)
    return _is_readable(state, left.position) or (left.due_ms is not None and left.due_ms <= now_ms)


def candidates(states: Iterable[PartitionState], now_ms: int | None, *, grants_idle: bool) -> list[Candidate]:
    """The partitions that a slot could be granted; without `grants_idle` only those with more to read."""
    return [
        Candidate(one.partition, one.lag, one.last_slot, has_work=grants_idle or has_work(one, now_ms))
        for one in states
        if one.is_grantable and (grants_idle or one.lag)
    ]


def _is_readable(state: PartitionState, position: int) -> bool:
    """Whether a slot would read anything from there on that was not read.

    At an open transaction it would wait, and have a core for nothing, until the end for readers has moved.
    """
    found, held = state.found, state.held
    assert found is not None
    if held is None or found.stable_end is None or position < held.offset:
        return found.end > position
    # Read further since, or of another life of the topic, it says nothing of where that ends.
    end = held.stable_end if position == held.offset else position
    return found.stable_end > max(end, position)


def held_sentences(states: Iterable[PartitionState], now_ms: int) -> list[str]:
    """Of partitions that no slot has, as open transactions have held them back for long: a sentence each.

    A slot that is at work says it itself.
    """
    found = []
    for state in states:
        held = state.held
        if held is None or state.batch is not None or not state.lag or _is_readable(state, held.offset):
            continue
        seconds = (now_ms - held.since_ms) / 1000
        if seconds >= HELD_SECONDS:
            found.append(held.sentence(state.partition, state.end or 0, seconds))
    return found


def left_to_read(state: PartitionState) -> int:
    """How many offsets its slot has still to read to come further than one that left these open.

    Half as far again, where there is so much: else ever longer turns would each read a little more.
    """
    left = left_open(state)
    if left is None or not left.objects or state.checkpoint is None:
        return 0
    end = state.held.offset if state.held is not None else state.end or 0
    further = left.end + (left.end - state.checkpoint.offset) // 2
    return max(0, max(left.end, min(further, end)) - (state.position or 0))
