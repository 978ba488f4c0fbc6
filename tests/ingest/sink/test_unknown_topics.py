"""What Kafka does not say of a partition or a topic: it keeps what it has, and holds up no other."""

import pytest

from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from headrace.model.sink_protocol import GroupWanted
from headrace.options.choices import OffsetReset
from ingest.sink import FoundLives, FoundPartition, FoundTopics, Refused, SinkEffects, TopicLife
from tests.ingest.sink.sink_entries import P0, Leader, checkpoint, found, leader

P1 = TopicPartition("t", 1)
HERE = found({0: 9})
THERE = found({0: 9}, topic="u", topic_id="id9")


def topics(
    one: Leader,
    *known: FoundPartition,
    leaderless: dict[TopicPartition, str] | None = None,
    forbidden: str = "",
) -> SinkEffects:
    """Describe the topics now, as far as brokers say what they are."""
    described = FoundTopics(
        request=one.archive.request_topics(),
        partitions=known,
        leaderless=leaderless or {},
        forbidden=frozenset(forbidden),
    )
    return one.apply(one.archive.on_topics(described))


def granted(one: Leader, number: int = 1) -> dict[str, int]:
    """What slot 0 is granted now, and from where."""
    return {str(grant.partition_of): grant.offset for grant in one.archive.next_batch(0, number)}


def held() -> Leader:
    """A leader whose slot 0 holds t-0 and u-0 as batch 1, and is about to begin a transaction."""
    one = leader(
        checkpoint(4), PartitionCheckpoint(topic="u", partition=0, topic_id="id9", offset=3), slots=1
    )
    topics(one, *HERE, *THERE)
    assert granted(one) == {"t-0": 4, "u-0": 3}
    one.archive.on_group_wanted(GroupWanted(batch=1))
    return one


def conditions(one: Leader) -> list[str]:
    """Those of all partitions."""
    return [each.condition.value for each in one.archive.partitions()]


class TestLeaderless:
    """A partition of which the topic's id is known, and where its log begins and ends is not."""

    def test_the_others_begin_without_it(self) -> None:
        """It was there at the start, so that `latest` is for it too."""
        one = leader(reset=OffsetReset.LATEST, slots=1)
        topics(one, *HERE, leaderless={P1: "id1"})
        assert granted(one) == {"t-0": 9}
        assert conditions(one) == ["granted", "starting"]
        topics(one, *found({0: 9, 1: 7}))
        one.apply(one.archive.on_finished(1))
        assert granted(one, 2) == {"t-0": 9, "t-1": 7}

    def test_its_slot_keeps_it_and_is_answered(self) -> None:
        """Its topic is the same: all that a transaction needs to know."""
        one = held()
        effects = topics(one, *THERE, leaderless={P0: "id1"})
        assert (effects.groups, effects.slots_to_revoke, one.archive.gone(1)) == ((1,), (), ())
        one.archive.on_group_wanted(GroupWanted(batch=1))
        same = {"t": TopicLife(topic_id="id1", partitions=1), "u": TopicLife(topic_id="id9", partitions=1)}
        lives = FoundLives(request=one.archive.request_topics(), topics=same)
        assert one.archive.on_lives(lives) == SinkEffects(groups=(1,))

    def test_it_is_not_granted_again_before_it_has_a_leader(self) -> None:
        """Its log may have been cut off meanwhile."""
        one = held()
        for _ in range(3):
            effects = topics(one, *THERE, leaderless={P0: "id1"})
            assert effects.lost_offsets == ()
        one.apply(one.archive.on_finished(1))
        topics(one, *THERE, leaderless={P0: "id1"})
        assert [each.is_gone for each in one.archive.partitions()] == [False, False]
        assert granted(one, 2) == {"u-0": 3}
        topics(one, *found({0: 2}), *THERE)
        assert conditions(one) == ["refused", "granted"]

    def test_a_slot_of_another_life_is_revoked(self) -> None:
        """A topic that was made again may be without a leader."""
        effects = topics(held(), *THERE, leaderless={P0: "id2"})
        assert (effects.groups, effects.slots_to_revoke) == ((), (0,))


class TestForbidden:
    """A topic that may not be described: whether it is there, and which it is, is not known."""

    def test_its_slot_is_revoked_and_the_others_are_granted_again(self) -> None:
        """What it has of the topic may be of another life, and holds back the rest."""
        one = held()
        effects = topics(one, *THERE, forbidden="t")
        assert (effects.groups, effects.slots_to_revoke, one.archive.gone(1)) == ((), (0,), ())
        one.archive.on_lost(1)
        one.apply(one.archive.on_recovered(0, tuple(one.ledger.items())))
        for _ in range(3):
            assert topics(one, *THERE, forbidden="t").lost_offsets == ()
        assert granted(one, 2) == {"u-0": 3}
        assert [each.is_gone for each in one.archive.partitions()] == [False, False]
        topics(one, *HERE, *THERE)
        one.apply(one.archive.on_finished(2))
        assert granted(one, 3) == {"t-0": 4, "u-0": 3}

    def test_a_slot_without_it_works_on(self) -> None:
        """Before its transaction only its own topics are looked at."""
        one = leader(checkpoint(4), slots=1)
        topics(one, *HERE)
        assert granted(one) == {"t-0": 4}
        one.archive.on_group_wanted(GroupWanted(batch=1))
        effects = topics(one, *HERE, forbidden="u")
        assert (effects.groups, effects.slots_to_revoke) == ((1,), ())

    def test_one_that_was_there_at_the_start_begins_as_such(self) -> None:
        """Whenever it may be described; what has appeared since has no old record."""
        one = leader(reset=OffsetReset.LATEST, slots=1)
        topics(one, *HERE, forbidden="uv")
        topics(one, *HERE, forbidden="u")
        topics(one, *HERE, *THERE, *found({0: 5}, topic="v"))
        assert granted(one) == {"t-0": 9, "u-0": 9, "v-0": 0}


@pytest.mark.parametrize("unknown", [{"leaderless": {P0: "id1"}}, {"forbidden": "t"}], ids=str)
def test_nothing_is_written_for_what_is_unknown(unknown: dict[str, object]) -> None:
    """Neither the day's renewal of its offset in the group nor another place to begin."""
    one = leader(checkpoint(4))
    topics(one, *HERE)
    topics(one, **unknown)  # type: ignore[arg-type]
    assert one.archive.tick(1).offsets == ()
    assert isinstance(one.archive.rewind({P0: 0}), Refused)
    topics(one, *HERE)
    assert [each.offset for each in one.archive.tick(2).offsets] == [4]
    assert isinstance(one.archive.rewind({P0: 0}), SinkEffects)


@pytest.mark.parametrize("unknown", [{"leaderless": {P0: "id1"}}, {"forbidden": "t"}], ids=str)
@pytest.mark.parametrize("offset", [0, None])
def test_what_is_not_known_is_not_rewound_as_if_it_were_gone(
    unknown: dict[str, object], offset: int | None
) -> None:
    """From the start on: it may be there, and the group would stay where it is."""
    one = leader(checkpoint(4))
    topics(one, **unknown)  # type: ignore[arg-type]
    one.apply(one.archive.pause())
    refused = one.archive.rewind({P0: offset})
    assert isinstance(refused, Refused)
    assert refused.reason == "partition_unknown"
