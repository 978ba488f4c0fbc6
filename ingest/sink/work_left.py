"""What there is to do for a partition that no slot has: more to read, or what was left open and is due."""

from collections.abc import Iterable

from headrace.model.sink_protocol import HELD_SECONDS, LeftOpen
from ingest.sink.partitions import PartitionState


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
