from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from headrace.model.sink_protocol import HeldBack
from ingest.sink.dealing import Candidate, deal, has_work, slots_to_end
from ingest.sink.partitions import PartitionState
from ingest.sink.sink_effects import FoundPartition
from tests.support.examples import examples


def candidates(*lags: int, last: int | None = None) -> list[Candidate]:
    """Partitions 0 and on of a topic with these lags."""
    return [
        Candidate(partition=TopicPartition("t", number), lag=lag, last_slot=last)
        for number, lag in enumerate(lags)
    ]


def dealt(found: list[Candidate], slots: int, held: dict[int, int] | None = None) -> dict[int, list[int]]:
    """The partitions of each idle slot after all of them have asked, in the order of their numbers."""
    held = dict(held or {})
    shares: dict[int, list[int]] = {}
    for slot in [one for one in range(slots) if one not in held]:
        chosen = deal(slot, found, held=held, slots=slots)
        shares[slot] = [one.partition for one in chosen]
        found = [one for one in found if one.partition not in chosen]
        if chosen:
            held[slot] = len(chosen)
    return shares


class TestDeal:
    """Which partitions a slot is granted."""

    def test_every_slot_gets_its_share_whoever_asks_first(self) -> None:
        """The first one leaves the others theirs."""
        assert dealt(candidates(1, 1, 1, 1), 2) == {0: [0, 2], 1: [1, 3]}
        assert dealt(candidates(1), 3) == {0: [0], 1: [], 2: []}

    def test_partitions_with_much_to_do_are_kept_apart(self) -> None:
        """Two heavy ones on one slot would leave the other idle."""
        assert dealt(candidates(1000, 900, 1, 2), 2) == {0: [0, 2], 1: [1, 3]}

    def test_a_slot_gets_back_what_it_held(self) -> None:
        """As far as its share goes."""
        found = [
            Candidate(partition=TopicPartition("t", number), lag=1, last_slot=last)
            for number, last in enumerate([1, 1, 1, 0])
        ]
        assert dealt(found, 2) == {0: [2, 3], 1: [0, 1]}

    def test_a_slot_that_asks_does_not_go_away_empty(self) -> None:
        """Another that held it last, or comes first by its number, may not be there."""
        assert deal(1, candidates(5, last=0), held={}, slots=2) == (TopicPartition("t", 0),)

    def test_a_slot_that_asks_gets_what_has_work(self) -> None:
        """Where slots have a core in turns, another that held it last may never be there."""
        found = [replace(one, last_slot=at, has_work=at == 2) for at, one in enumerate(candidates(9, 9, 1))]

        assert all(found[2].partition in deal(slot, found, held={}, slots=3) for slot in range(3))

    def test_a_slot_takes_no_more_than_its_share(self) -> None:
        """Those with a batch are asked to end for the rest."""
        assert dealt(candidates(1, 1, 1, 1, 1), 4, held={0: 1, 1: 1, 2: 1}) == {3: [0, 1]}

    def test_nothing_is_left_for_slots_that_are_absent(self) -> None:
        """What is dealt to a slot that Spark does not start waits for as long as that lasts."""
        assert len(deal(1, candidates(1, 1, 1, last=0), held={}, slots=2, absent=(0,))) == 3
        assert len(deal(1, candidates(1, 1, 1, 1), held={0: 1, 2: 1}, slots=4, absent=(3,))) == 2


class TestSlotsToEnd:
    """Which slots have to give up what they hold."""

    def test_nobody_while_an_idle_slot_has_room(self) -> None:
        """It asks soon."""
        assert slots_to_end(candidates(1), held={0: 3}, ending=(), slots=2) == []

    def test_the_least_loaded_when_a_partition_has_no_place(self) -> None:
        """As few as will do."""
        assert slots_to_end(candidates(1), held={0: 2, 1: 1, 2: 2}, ending=(), slots=3) == [1]

    def test_what_is_ending_is_waited_for(self) -> None:
        """Its partitions, and its place, come back."""
        assert slots_to_end(candidates(1), held={0: 2, 1: 1}, ending=(1,), slots=2) == []

    def test_what_is_above_the_share_while_a_slot_is_idle(self) -> None:
        """Once, and not while another is ending."""
        assert slots_to_end((), held={0: 2}, ending=(), slots=2) == [0]
        assert slots_to_end((), held={0: 2}, ending=(0,), slots=2) == []
        assert slots_to_end((), held={0: 1}, ending=(), slots=2) == []

    def test_a_slot_takes_what_an_absent_one_would_get(self) -> None:
        """Where Spark has no core for it; once it has begun, it is dealt its share again."""
        assert slots_to_end(candidates(1), held={1: 2}, ending=(), slots=2) == []
        assert slots_to_end(candidates(1), held={1: 2}, ending=(), slots=2, absent=(0,)) == [1]
        assert slots_to_end(candidates(1), held={1: 2}, ending=(1,), slots=2, absent=(0,)) == []
        assert slots_to_end((), held={1: 3}, ending=(), slots=2, absent=(0,)) == []
        assert slots_to_end((), held={1: 3}, ending=(), slots=2) == [1]

    def test_no_slot_where_only_partitions_without_work_are_free(self) -> None:
        """Nor is what a slot has above its share dealt again: they would be dealt with it, without end."""
        resting = [replace(one, has_work=False) for one in candidates(5, 5, 5, 5)]
        assert slots_to_end(resting, held={0: 4}, ending=(), slots=1) == []
        assert slots_to_end(resting, held={0: 4}, ending=(), slots=2) == []
        assert slots_to_end([*resting, *candidates(5)], held={0: 4}, ending=(), slots=1) == [0]
        assert deal(1, resting, held={0: 4}, slots=2) == ()


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    lags=st.lists(st.integers(0, 100), max_size=12),
    slots=st.integers(1, 5),
    last=st.one_of(st.none(), st.integers(0, 4)),
)
def test_all_are_dealt_once_and_evenly(lags: list[int], slots: int, last: int | None) -> None:
    """Whatever the lags: each partition has one slot, none has two more than another."""
    shares = dealt(candidates(*lags, last=last), slots)
    assert sorted(one for share in shares.values() for one in share) == list(range(len(lags)))
    assert max(len(share) for share in shares.values()) == -(-len(lags) // slots)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(held=st.lists(st.integers(1, 4), max_size=4), waiting=st.integers(0, 6), slots=st.integers(1, 4))
def test_asking_comes_to_an_end_with_everything_dealt(held: list[int], waiting: int, slots: int) -> None:
    """After a few rounds nothing waits, and nobody is asked to end any more."""
    loads = {slot: count for slot, count in enumerate(held) if slot < slots}
    for _ in range(10):
        ending = slots_to_end(candidates(*[1] * waiting), held=loads, ending=(), slots=slots)
        waiting += sum(loads.pop(slot) for slot in ending)
        shares = dealt(candidates(*[1] * waiting), slots, loads)
        waiting -= sum(len(share) for share in shares.values())
        loads |= {slot: len(share) for slot, share in shares.items() if share}
    assert waiting == 0
    assert slots_to_end((), held=loads, ending=(), slots=slots) == []


@pytest.mark.parametrize(("offset", "expected"), [(90, False), (100, True), (600, False)])
def test_what_held_an_earlier_life_back_keeps_nothing_of_a_later_one(offset: int, expected: bool) -> None:
    """The topic was made again while the stable end was at 1000: its records waited until it came there."""
    state = PartitionState(partition=TopicPartition("t", 0))
    state.checkpoint = PartitionCheckpoint(topic="t", partition=0, topic_id="later", offset=offset)
    state.found = FoundPartition(topic="t", partition=0, topic_id="later", begin=0, end=700, stable_end=600)
    state.held = HeldBack(offset=90, since_ms=0, stable_end=1000)

    assert has_work(state, 1) is expected
