"""What a slot leaves to the next one by way of the leader: open objects, and an open transaction."""

from dataclasses import replace

import pytest

from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import (
    HeldBack,
    LeftOpen,
    OpenedObject,
    SinkCommitted,
    SinkLeft,
    SinkProgress,
)
from ingest.sink import SinkEffects
from ingest.sink.dealing import has_work
from tests.ingest.sink.sink_entries import P0, Leader, checkpoint, found, leader, sealed

_OPENED = OpenedObject(group="", first_offset=4, last_offset=9, opened_ms=100)


def _left(*, topic_id: str = "id1", position: int = 10) -> LeftOpen:
    return LeftOpen(topic_id=topic_id, position=position, objects=(_OPENED,), due_ms=None)


def _granted(left: LeftOpen) -> Leader:
    """Whose slot of batch 1 has left this and ended; the next grants are of batch 2 on."""
    one = leader(checkpoint(4))
    one.topics(*found({0: 10}))
    assert one.archive.next_batch(0, 1)
    one.archive.on_left(SinkLeft(batch=1, partitions={P0: left}))
    one.apply(one.archive.on_finished(1))
    one.topics(*found({0: 10}))
    return one


def test_the_next_slot_has_it_and_after_a_lost_one_the_next_again() -> None:
    """A slot that is killed says nothing: what it had read again is as old as before."""
    one = _granted(_left())
    assert not has_work(one.archive._states[P0], 0)
    (grant,) = one.archive.next_batch(0, 2)
    assert grant.left == _left()
    one.apply(one.archive.on_lost(2))
    one.apply(one.archive.on_recovered(0, one.ledger.items()))
    one.topics(*found({0: 10}))
    (grant,) = one.archive.next_batch(0, 3)
    assert grant.left == _left()


@pytest.mark.parametrize("slots", [1, 2])
def test_what_rests_is_granted_with_what_has_work(slots: int) -> None:
    """Else each record of one would end the slot of all others, which are all read again."""
    one = leader(*[checkpoint(4, partition=number) for number in range(4)], slots=slots, grants_idle=False)
    ends, held, batches = dict.fromkeys(range(4), 10), dict[int, int](), 0
    one.apply(one.archive.tick(0))
    one.topics(*found(ends))
    for turn in range(20):
        for slot in range(slots):
            if slot not in held and (grants := one.archive.next_batch(slot, batches + 1)):
                batches += 1
                held[slot] = batches
                left = {grant.partition_of: _left(position=ends[grant.partition]) for grant in grants}
                one.archive.on_left(SinkLeft(batch=batches, partitions=left))
        ending = set(held) if not turn else set(one.effects.slots_to_end)
        for slot in ending:
            one.apply(one.archive.on_finished(held.pop(slot)))
        one.effects = SinkEffects()
        one.topics(*found(ends))
        if not turn:
            assert one.archive.ready() == 0
            assert one.archive.next_batch(0, batches + 1) == ()
        ends[turn % 4] += 1
        one.topics(*found(ends))
    assert batches == 2 * slots


def test_a_slot_that_came_less_far_leaves_what_one_before_it_has_opened() -> None:
    """It has work, as it has not read all; and the next one reads further than the furthest."""
    one = _granted(replace(_left(position=4), furthest=10))
    assert one.archive.ready() == 1
    (grant,) = one.archive.next_batch(0, 2)
    assert grant.left is not None
    assert one.archive.left_to_read(0) == 10


def test_it_is_nothing_of_another_life_or_below_the_checkpoint() -> None:
    """Its offsets are those of other records, or archived."""
    for left in (_left(topic_id="id0"), _left(position=4)):
        one = _granted(left)
        assert has_work(one.archive._states[P0], 0)
        (grant,) = one.archive.next_batch(0, 2)
        assert grant.left is None


def test_a_slot_that_ends_without_a_word_of_a_partition_leaves_nothing() -> None:
    """It stopped there, or gave it up."""
    one = _granted(_left())
    assert one.archive.next_batch(0, 2)
    one.archive.on_left(SinkLeft(batch=2, partitions={}))
    one.apply(one.archive.on_finished(2))
    one.topics(*found({0: 10}))
    (grant,) = one.archive.next_batch(0, 3)
    assert grant.left is None


def test_what_one_partition_commits_leaves_the_others_to_be_read_further() -> None:
    """Else a busy one would end the turn before the tail of another is read further than before."""
    one = leader(*[checkpoint(4, partition=number) for number in (0, 1)], slots=1)
    one.topics(*found({0: 10, 1: 10}))
    grants = one.archive.next_batch(0, 1)
    one.archive.on_left(SinkLeft(batch=1, partitions={grant.partition_of: _left() for grant in grants}))
    one.apply(one.archive.on_finished(1))
    one.topics(*found({0: 10, 1: 10}))
    assert len(one.archive.next_batch(0, 2)) == 2
    to_read = [one.archive.left_to_read(0)]
    for number, offset in ((0, 4), (0, 7), (1, 6)):
        moved = SinkCommitted(
            batch=2,
            objects=(sealed(f"o{number}-{offset}", 4, offset, partition=number),),
            checkpoints=(checkpoint(offset, partition=number),),
            records_by_topic={},
            bad_by_reason={},
            seconds=0.1,
        )
        one.apply(one.archive.on_committed(moved))
        to_read.append(one.archive.left_to_read(0))
    assert to_read == [20, 20, 10, 0]


def test_the_next_slot_knows_since_when_a_transaction_is_open() -> None:
    """Until a slot finds that it is over, or the topic is another: its transactions are others, too."""
    one = leader(checkpoint(4))
    one.topics(*found({0: 10}))
    given = []
    back, topic_id = {P0: HeldBack(7, 100)}, "id1"
    for batch, held in enumerate((back, {}, back, {}), 1):
        if batch == 4:
            topic_id = "id2"
            for _ in range(2):
                one.topics(*found({0: 10}, topic_id=topic_id))
        (grant,) = one.archive.next_batch(0, batch)
        given.append(grant.held)
        progress = SinkProgress(
            batch=batch,
            positions={P0: 7},
            ends={P0: 10},
            open_objects=0,
            pending_objects=0,
            buffered_bytes=0,
            spilled_bytes=0,
            oldest_open_ms=None,
            held=held,
        )
        one.archive.on_progress(progress)
        one.apply(one.archive.on_finished(batch))
        one.topics(*found({0: 10}, topic_id=topic_id))
    assert given == [None, HeldBack(7, 100), None, None]


def _progress(batch: int, held: dict[TopicPartition, HeldBack]) -> SinkProgress:
    return SinkProgress(
        batch=batch,
        positions={P0: 7},
        ends={P0: 10},
        open_objects=0,
        pending_objects=0,
        buffered_bytes=0,
        spilled_bytes=0,
        oldest_open_ms=None,
        held=held,
    )


@pytest.mark.parametrize("left", [None, _left(position=7)], ids=["archived", "open"])
def test_what_waits_for_a_transaction_asks_for_no_core_until_that_is_over(left: LeftOpen | None) -> None:
    """It took turns for ever, from those with work. What is due is written nevertheless."""
    one = leader(checkpoint(7 if left is None else 4), grants_idle=False)
    one.apply(one.archive.tick(0))
    one.topics(*found({0: 10}))
    assert one.archive.held() == frozenset()
    assert one.archive.next_batch(0, 1)
    one.archive.on_progress(_progress(1, {P0: HeldBack(7, 100, 8)}))
    one.archive.on_left(SinkLeft(batch=1, partitions={} if left is None else {P0: left}))
    one.apply(one.archive.on_finished(1))
    assert one.archive.held() == {P0}
    asked = []
    for end, stable_end in ((10, None), (10, 8), (99, 8), (99, 9), (99, None)):
        one.topics(*(replace(each, stable_end=stable_end) for each in found({0: end})))
        asked.append(one.archive.ready())
    assert asked == [1, 0, 0, 1, 1]
    if left is not None:
        one.topics(*(replace(each, stable_end=8) for each in found({0: 99})))
        one.archive._states[P0].left = replace(left, due_ms=0)
        assert one.archive.ready() == 1


def test_a_transaction_that_is_open_for_long_is_named_while_no_slot_waits_for_it() -> None:
    """`problems` had it from the slot."""
    one = leader(checkpoint(7), grants_idle=False)
    one.apply(one.archive.tick(0))
    one.topics(*found({0: 10}))
    assert one.archive.next_batch(0, 1)
    one.archive.on_progress(_progress(1, {P0: HeldBack(7, 100, 7)}))
    one.apply(one.archive.on_finished(1))
    one.topics(*(replace(each, stable_end=7) for each in found({0: 10})))
    assert one.archive.problems(60_099) == ()
    (said,) = one.archive.problems(60_100)
    assert said.startswith("t-0 is read up to offset 7 of 10: an open transaction there holds back")
    one.topics(*(replace(each, stable_end=10) for each in found({0: 10})))
    assert one.archive.problems(60_100) == ()
