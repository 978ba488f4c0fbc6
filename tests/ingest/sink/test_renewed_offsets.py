"""The group's own offsets are committed again once a day, and not before topics are known to be there."""

from dataclasses import replace

import pytest

from headrace.model.sink_entries import PartitionCheckpoint, TopicPartition
from ingest.service.idle import UntilArchived
from ingest.sink import Archive, FoundLives, TopicLife
from tests.ingest.sink.sink_entries import Leader, checkpoint, controls, found, leader, options, sealed

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000
U0 = TopicPartition("u", 0)
LEFT = PartitionCheckpoint(topic="u", partition=0, topic_id="idu", offset=50)


def renewed(one: Leader, now_ms: int) -> set[str]:
    """The topics of which the group is given an offset at this time."""
    return {each.topic for each in one.apply(one.archive.tick(now_ms)).offsets}


@pytest.mark.parametrize(("ahead_ms", "is_renewed"), [(365 * DAY_MS, True), (61_000, True), (59_000, False)])
def test_a_clock_that_was_ahead_stops_no_renewal(ahead_ms: int, *, is_renewed: bool) -> None:
    """An idle partition's offset was lost a week later, until the clock was where it had been."""
    one = leader(checkpoint(4))
    one.topics(*found({0: 4}))
    assert renewed(one, NOW_MS + ahead_ms) == {"t"}
    assert renewed(one, NOW_MS) == ({"t"} if is_renewed else set())
    assert renewed(one, NOW_MS + 1) == set(), "once is enough"
    assert renewed(one, NOW_MS + 2 * DAY_MS) == {"t"}


def left_out() -> Leader:
    """A sink of `t` whose ledger has u-0 as well, which was taken out of `topics`."""
    ledger = controls(checkpoint(4), LEFT)
    chosen = replace(options(), selects=lambda topic: topic == "t")
    one = Leader(Archive.from_ledger(ledger, chosen), ledger)
    for _ in range(3):
        effects = one.topics(*found({0: 4}))
        assert effects.lost_offsets == ()
    return one


def lives(one: Leader, **topics: str) -> list[tuple[str, int]]:
    """What the group is given once these topics are known by their ids."""
    request = one.archive.request_topics()
    described = {name: TopicLife(topic_id=topic_id, partitions=1) for name, topic_id in topics.items()}
    effects = one.apply(one.archive.on_lives(FoundLives(request=request, topics=described)))
    return [(each.topic, each.offset) for each in effects.offsets]


def test_a_topic_that_was_taken_out_is_not_missing() -> None:
    """Nobody has asked for it: it may be there."""
    one = left_out()
    assert [each.condition.value for each in one.archive.partitions()] == ["waiting", "not_selected"]
    assert one.archive.counts(0).conditions == {"waiting": 1, "not_selected": 1}


def test_what_was_sealed_of_it_is_completed_first() -> None:
    """Whatever is read since."""
    pending = replace(sealed("a", 1, 3), topic="u", topic_id="idu")
    ledger = controls(checkpoint(4), LEFT, pending)
    chosen = replace(options(), selects=lambda topic: topic == "t")
    one = Leader(Archive.from_ledger(ledger, chosen), ledger)
    effects = one.topics(*found({0: 4}))
    assert [each.id for each in effects.completions or one.effects.completions] == ["a"]
    assert [each.condition.value for each in one.archive.partitions()] == ["waiting", "completing"]


def test_its_offset_is_renewed_where_it_is_there() -> None:
    """One that is gone, or was made again, or may not be read is no place for it: the commit is refused."""
    one = left_out()
    effects = one.apply(one.archive.tick(NOW_MS))
    assert ({each.topic for each in effects.offsets}, effects.lives_wanted) == ({"t"}, ("u",))
    assert one.archive.tick(NOW_MS + 1000).lives_wanted == (), "it is asked once"
    assert lives(one) == []
    assert lives(one, u="another") == []
    assert lives(one, u="idu") == [("u", 50)]
    assert lives(one, u="idu") == [], "a day passes first"
    assert one.archive.tick(NOW_MS + DAY_MS).lives_wanted == ("u",)


def test_it_holds_up_no_end() -> None:
    """`--until-idle` reads what is selected."""
    one = left_out()
    until = UntilArchived(one.archive, closes_on_stop=True)
    for _ in range(2):
        until.surveyed(())
    for now in (0.0, 1.0, 2.0):
        until.advance(now)
    assert until.is_over
