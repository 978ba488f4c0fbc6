"""Which free partitions a slot is granted, and which slots have to give theirs up: few moves, even lag."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headrace.model.sink_entries import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A partition that may be granted: how many records wait there, and which slot held it last."""

    partition: TopicPartition
    lag: int
    last_slot: int | None


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
    the least waits. A slot that asks never goes away empty: who else would get it may be long in coming.
    """
    idle = [number for number in range(slots) if number not in held and number not in absent]
    shares = {number: _Share(number, []) for number in idle}
    room = _fair(len(candidates), held, slots - len(absent))
    ordered = sorted(candidates, key=lambda one: (-one.lag, one.partition))
    for candidate in ordered:
        last = shares.get(candidate.last_slot) if candidate.last_slot is not None else None
        if last is None or len(last.partitions) >= room:
            free = [share for share in shares.values() if len(share.partitions) < room]
            if not free:
                break
            last = min(free, key=lambda share: (share.lag, len(share.partitions), share.slot))
        last.partitions.append(candidate.partition)
        last.lag += candidate.lag
    return tuple(sorted(shares[slot].partitions)) or tuple(one.partition for one in ordered[:1])


def slots_to_end(
    waiting: int,
    *,
    held: Mapping[int, int],
    ending: Collection[int],
    slots: int,
    absent: Collection[int] = (),
) -> list[int]:
    """The slots to be asked to end, so that partitions without a slot find one, or an idle slot work.

    `waiting` counts partitions that could be granted and no idle slot has room for. What slots that are
    `ending` give back is on its way. A slot that is `absent` is no idle one.
    """
    present = slots - len(absent)
    fair = _fair(waiting, held, present)
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
    if not waiting and not wanted and idle > len(ending):
        # Nothing waits and a slot is idle: what is above the fair share is dealt again.
        wanted += [slot for slot, count in sorted(live.items()) if count > fair]
    return wanted


def _fair(waiting: int, held: Mapping[int, int], slots: int) -> int:
    """How many partitions a slot has at most when all are dealt evenly."""
    return -(-(waiting + sum(held.values())) // slots)
