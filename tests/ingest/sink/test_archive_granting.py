from dataclasses import replace

import pytest

from headrace.model.sink_entries import (
    NO_EPOCH,
    GroupingOptions,
    ObjectState,
    PartitionCheckpoint,
    TopicPartition,
    decode_sink_entry,
    offset_mark,
    partition_key,
)
from headrace.model.sink_protocol import (
    EarlierGroups,
    GroupWanted,
    PartitionReleased,
    PartitionStopped,
    SinkCommitted,
    SinkProgress,
)
from headrace.options.choices import OffsetReset
from ingest.sink import EarlierArchive, FoundLives, FoundTopics, Refused, SinkEffects, TopicLife
from tests.ingest.sink.sink_entries import P0, Leader, checkpoint, found, leader, sealed

COMPLETE = ObjectState.COMPLETE


def granted(one: Leader, *slots: int) -> dict[int, int]:
    """The offsets from which these slots are granted partitions."""
    grants = [grant for slot in slots or (0, 1) for grant in one.archive.next_batch(slot, slot)]
    return {grant.partition: grant.offset for grant in grants}


class TestStart:
    """Where a partition begins."""

    def test_the_ledger_has_the_start_before_anything_is_granted(self) -> None:
        """Else a crash would begin elsewhere, with `latest` above records that were never read."""
        one = leader()
        request = one.archive.request_topics()
        effects = one.archive.on_topics(FoundTopics(request=request, partitions=found({0: 10}, begin=3)))
        assert one.archive.next_batch(0, 1) == ()
        one.apply(effects)
        (grant,) = one.archive.next_batch(0, 1)
        assert (grant.partition_of, grant.offset, grant.topic_id) == (P0, 3, "id1")
        key = partition_key(P0)
        start = PartitionCheckpoint(topic="t", partition=0, topic_id="id1", offset=3)
        assert decode_sink_entry(key, one.ledger[key]) == start

    def test_latest_is_for_topics_that_were_there_at_the_start(self) -> None:
        """A partition by which a topic grows, and a topic that appears, have no old record."""
        one = leader(reset=OffsetReset.LATEST)
        one.topics(*found({0: 10}))
        one.topics(*found({0: 12, 1: 5}), *found({2: 7}, topic="new"))
        assert granted(one) == {0: 10, 1: 0, 2: 0}

    def test_a_topic_that_the_ledger_knows_has_grown_while_nobody_led(self) -> None:
        """Its new partition begins at its first record, whatever `auto.offset.reset` says."""
        one = leader(checkpoint(4), reset=OffsetReset.LATEST)
        one.topics(*found({0: 10, 1: 5}))
        assert granted(one) == {0: 4, 1: 0}

    def test_the_ledger_wins_over_the_group(self) -> None:
        """Whoever has changed the group's offset, or let it expire."""
        one = leader(checkpoint(4))
        one.topics(*found({0: 10}, group_offset=9))
        assert granted(one) == {0: 4}

    def test_without_a_ledger_the_offsets_of_a_vendors_group_count(self) -> None:
        """A running connector is stopped, and this one goes on where it was."""
        one = leader()
        one.topics(*found({0: 10}, group_offset=7))
        assert granted(one) == {0: 7}

    @pytest.mark.parametrize(
        ("mark", "reason"),
        [(offset_mark("other", "id1"), "foreign_offsets"), (offset_mark("ledger", "id0"), "other_topic_id")],
    )
    def test_a_foreign_mark_refuses_the_partition(self, mark: str, reason: str) -> None:
        """Until somebody has decided whose offsets these are."""
        one = leader()
        one.topics(*found({0: 10}, group_offset=7, mark=mark))
        assert granted(one) == {}
        refused = one.archive._states[P0].refused
        assert refused is not None
        assert refused.reason == reason
        one.topics(*found({0: 10}))
        assert granted(one) == {0: 0}

    def test_what_the_group_has_is_wanted_until_every_partition_has_begun(self) -> None:
        """And again while one is refused by it: then an operator deletes it, and waits."""
        one = leader()
        one.topics(*found({0: 10}))
        assert one.archive.is_settled
        one.topics(*found({0: 10}, group_offset=7, mark=offset_mark("other", "id1")))
        assert not one.archive.is_settled
        one.topics(*found({0: 10}))
        assert one.archive.is_settled
        request = one.archive.request_topics()
        one.archive.on_topics(FoundTopics(request=request, partitions=found({0: 10, 1: 5})))
        # Its start is not in the ledger yet, but decided.
        assert one.archive.is_settled

    def test_another_headrace_in_the_group_is_refused_though_the_ledger_has_a_checkpoint(self) -> None:
        """Two of them would take each other's place in every tool that shows the lag."""
        one = leader(checkpoint(4))
        one.topics(*found({0: 10}, group_offset=4, mark=offset_mark("other", "id1")))
        assert granted(one) == {}
        assert "the ledger 'other'" in one.archive.problems(0)[0]
        one.topics()
        assert one.archive.problems(0) == ()

    def test_an_offset_above_the_end_stops_once_kafka_was_asked_after_it(self) -> None:
        """An answer from before the last commit proves nothing."""
        one = leader(checkpoint(4))
        one.topics(*found({0: 4}))
        assert granted(one, 0) == {0: 4}
        stale = one.archive.request_topics()
        one.archive.on_committed(_committed(0, checkpoint(9)))
        one.apply(one.archive.on_finished(0))
        effects = one.apply(one.archive.on_topics(FoundTopics(request=stale, partitions=found({0: 4}))))
        assert effects.topics_wanted
        assert one.archive.problems(0) == ()
        one.topics(*found({0: 4}))
        assert "ends at offset 4, below the offset 9" in one.archive.problems(0)[0]
        assert "set its offset (PATCH /connectors/NAME/offsets)" in one.archive.problems(0)[0]
        one.topics(*found({0: 9}))
        assert one.archive.problems(0) == ()
        assert granted(one, 1) == {0: 9}

    def test_lost_offsets_are_counted_once_and_warned_of(self) -> None:
        """Retention has overtaken the sink: on from the earliest, with the range."""
        one = leader(checkpoint(4, highest=6, letters=(5, 9)))
        effects = one.topics(*found({0: 20}, begin=8))
        (lost,) = effects.lost_offsets
        assert (lost.first, lost.end) == (4, 8)
        assert "from offset 4 to 8" in effects.warnings[0]
        assert one.topics(*found({0: 20}, begin=8)).lost_offsets == ()
        (grant,) = one.archive.next_batch(0, 1)
        assert (grant.offset, grant.dead_letters, grant.highest) == (8, (9,), 6)

    @pytest.mark.parametrize(("highest", "kept"), [(7, (NO_EPOCH, 3)), (8, (2, 9)), (11, (2, 12))])
    def test_lost_offsets_leave_the_leader_epoch_of_what_is_covered(
        self, highest: int, kept: tuple[int, int]
    ) -> None:
        """By it a log is known that is cut off below that, and has grown again; it ends above the offset."""
        one = leader(replace(checkpoint(4, highest=highest), leader_epoch=2, epoch_end=3))
        for begin in (6, 8):
            one.topics(*found({0: 20}, begin=begin))
        (grant,) = one.archive.next_batch(0, 1)
        assert (grant.offset, grant.highest) == (8, highest)
        epoch, end = kept
        assert grant.leader_epoch == epoch
        assert epoch == NO_EPOCH or grant.epoch_end == end

    def test_a_topic_made_again_begins_at_its_first_record(self) -> None:
        """Old entries pass over nothing of it; those that are complete go."""
        one = leader(
            checkpoint(4, topic_id="id0", highest=9, letters=(5,)),
            sealed("a", 6, 9, group="g", topic_id="id0", state=COMPLETE),
            reset=OffsetReset.LATEST,
        )
        effects = one.topics(*found({0: 3}))
        (grant,) = one.archive.next_batch(0, 1)
        assert (grant.offset, grant.topic_id, grant.done, grant.dead_letters) == (0, "id1", (), ())
        assert grant.highest == -1
        assert "made again" in effects.warnings[0]
        assert one.objects() == {}

    def test_members_of_the_group_keep_everything_from_being_granted(self) -> None:
        """The vendor's connector still runs; where it will stop decides where the sink begins."""
        one = leader()
        effects = one.topics(*found({0: 10}, group_offset=3), members=("connect-1",))
        assert (effects.writes, effects.offsets) == ((), ())
        assert granted(one) == {}
        assert "active members (connect-1)" in one.archive.problems(0)[0]
        one.topics(*found({0: 10}, group_offset=7))
        assert granted(one) == {0: 7}

    @pytest.mark.parametrize(
        ("group_offset", "earlier", "begins"),
        [
            pytest.param(None, EarlierArchive(offset=7), 7, id="locks-alone"),
            pytest.param(3, EarlierArchive(offset=7), 7, id="locks-are-further"),
            pytest.param(8, EarlierArchive(offset=7), 8, id="the-group-is-further"),
            pytest.param(8, EarlierArchive(), 8, id="locks-say-nothing"),
            pytest.param(None, EarlierArchive(), 0, id="nobody-has-begun"),
        ],
    )
    def test_the_higher_of_the_group_and_another_sinks_files(
        self, group_offset: int | None, earlier: EarlierArchive, begins: int
    ) -> None:
        """What either says is archived is so."""
        one = leader()
        one.topics(*found({0: 20}, group_offset=group_offset, earlier=earlier))
        assert granted(one) == {0: begins}

    def test_groups_that_another_sink_has_further_are_passed_over(self) -> None:
        """In the transaction that says where the partition begins; by the options in force."""
        one = leader()
        earlier = EarlierArchive(offset=4, done=(("a", 9), ("b", 3), ("c", 4)))
        one.topics(*found({0: 20}, group_offset=2, earlier=earlier))
        (grant,) = one.archive.next_batch(0, 1)
        assert (grant.offset, grant.done, grant.highest) == (4, (("a", 9), ("c", 4)), 9)
        again = leader(*(decode_sink_entry(key, raw) for key, raw in one.ledger.items()))
        again.topics(*found({0: 20}))
        (grant,) = again.archive.next_batch(0, 1)
        assert (grant.offset, grant.done) == (4, (("a", 9), ("c", 4)))

    def test_files_that_cannot_be_read_hold_a_partition_that_is_new(self) -> None:
        """Visibly, until they can; what has a checkpoint needs them no more."""
        one = leader(checkpoint(4, partition=1))
        broken = EarlierArchive(problem="s3://b/x is no lock.")
        one.topics(*found({0: 20, 1: 20}, group_offset=2, earlier=broken))
        assert one.archive.problems(0) == ("s3://b/x is no lock.",)
        assert granted(one) == {1: 4}

    def test_another_sinks_files_beyond_the_end_are_refused(self) -> None:
        """They are of another topic of this name."""
        one = leader()
        one.topics(*found({0: 20}, earlier=EarlierArchive(offset=21)))
        assert "below the offset 21 that the other sink's own file" in one.archive.problems(0)[0]


class TestGrant:
    """What a slot is told of what is archived already."""

    def test_entries_above_the_offset_by_group_and_options(self) -> None:
        """Of earlier options each hash for itself, with the options that it stands for."""
        old = GroupingOptions(hash="old", options={"file.name.template": "x"})
        one = leader(
            checkpoint(4, highest=11, letters=(5, 3)),
            old,
            sealed("a", 2, 6, group="a", state=COMPLETE),
            sealed("b", 7, 9, group="a", state=COMPLETE),
            sealed("c", 5, 8, group="x", state=COMPLETE, options="old"),
            sealed("d", 1, 3, group="z", state=COMPLETE),
        )
        one.topics(*found({0: 20}))
        (grant,) = grants = one.archive.next_batch(0, 1)
        assert grant.done == (("a", 9),)
        assert grant.earlier == (EarlierGroups(options="old", done=(("x", 8),)),)
        assert (grant.highest, grant.dead_letters) == (11, (5,))
        assert one.archive.earlier_options(grants) == (old,)

    def test_entries_that_say_nothing_more_are_removed(self) -> None:
        """Passed by the offset, or older than another of their group; so are options that nothing needs."""
        one = leader(
            checkpoint(4),
            GroupingOptions(hash="old", options={}),
            sealed("passed", 1, 3, state=COMPLETE, options="old"),
            sealed("older", 4, 6, group="a", state=COMPLETE),
            sealed("newest", 7, 9, group="a", state=COMPLETE),
            sealed("kept", 1, 3, group="q", state=ObjectState.QUARANTINED),
        )
        assert sorted(one.objects()) == ["kept", "newest"]
        assert sorted(one.options()) == ["now"]

    def test_options_that_the_ledger_has_not_refuse_the_partition(self) -> None:
        """Nobody could tell what is archived above its offset."""
        one = leader(checkpoint(4), sealed("c", 3, 4, group="x", state=COMPLETE, options="unknown"))
        one.topics(*found({0: 20}))
        assert granted(one) == {}
        assert "not in the ledger" in one.archive.problems(0)[0]


class TestMetadata:
    """The answer to a slot that is about to begin a transaction."""

    def test_it_comes_after_a_description_that_began_later(self) -> None:
        """One that was under way may have seen the topic of before."""
        one = leader(checkpoint(0))
        one.topics(*found({0: 9}))
        one.archive.next_batch(0, 1)
        under_way = one.archive.request_topics()
        assert one.archive.on_group_wanted(GroupWanted(batch=1)).lives_wanted == ("t",)
        early = one.archive.on_topics(FoundTopics(request=under_way, partitions=found({0: 9})))
        assert early.groups == ()
        assert one.topics(*found({0: 9})).groups == (1,)
        assert one.topics(*found({0: 9})).groups == ()

    def test_a_slot_whose_topic_was_made_again_is_revoked(self) -> None:
        """What it has in hand may be of both lives."""
        one = leader(checkpoint(0))
        one.topics(*found({0: 9}))
        one.archive.next_batch(0, 1)
        one.archive.on_group_wanted(GroupWanted(batch=1))
        effects = one.topics(*found({0: 9}, topic_id="id2"))
        assert (effects.groups, effects.slots_to_revoke) == ((), (0,))

    def test_a_lost_slot_is_not_answered(self) -> None:
        """Its batch is void."""
        one = leader(checkpoint(0))
        one.topics(*found({0: 9}))
        one.archive.next_batch(0, 1)
        one.archive.on_group_wanted(GroupWanted(batch=1))
        one.archive.on_lost(1)
        assert one.topics(*found({0: 9})).groups == ()
        assert one.archive.on_group_wanted(GroupWanted(batch=1)) == SinkEffects()
        assert one.archive.on_lives(_lives()).groups == ()

    def test_a_description_of_lives_that_began_later_is_enough(self) -> None:
        """It is one request, and nothing else of Kafka's matters here."""
        one = leader(checkpoint(0))
        one.topics(*found({0: 9}))
        one.archive.next_batch(0, 1)
        under_way = one.archive.request_topics()
        one.archive.on_group_wanted(GroupWanted(batch=1))
        assert one.archive.on_lives(_lives(request=under_way)) == SinkEffects()
        assert one.archive.on_lives(_lives()) == SinkEffects(groups=(1,))
        assert one.archive.on_lives(_lives()) == SinkEffects()

    @pytest.mark.parametrize(
        "topics",
        [
            {"t": TopicLife(topic_id="id2", partitions=1)},
            {"t": TopicLife(topic_id="id1", partitions=0)},
            {"u": TopicLife(topic_id="id1", partitions=1)},
            {},
        ],
    )
    def test_a_topic_that_is_not_the_same_is_described_in_full(self, topics: dict[str, TopicLife]) -> None:
        """Made again, or gone: what follows is decided by everything that Kafka has."""
        one = leader(checkpoint(0))
        one.topics(*found({0: 9}))
        one.archive.next_batch(0, 1)
        one.archive.on_group_wanted(GroupWanted(batch=1))
        assert one.archive.on_lives(_lives(topics)) == SinkEffects(topics_wanted=True)
        assert one.topics(*found({0: 9}, topic_id="id2")).groups == ()


def _lives(topics: dict[str, TopicLife] | None = None, *, request: int = 10**6) -> FoundLives:
    """The answer to a description that began later than everything."""
    same = {"t": TopicLife(topic_id="id1", partitions=1)}
    return FoundLives(request=request, topics=same if topics is None else topics)


class TestGone:
    """Topics that are deleted while a slot reads them, with others."""

    def _held(self) -> Leader:
        """A leader whose slot 0 holds t-0 and u-0 as batch 1."""
        other = PartitionCheckpoint(topic="u", partition=0, topic_id="id9", offset=3)
        one = leader(checkpoint(4), other, slots=1)
        one.topics(*found({0: 9}), *found({0: 9}, topic="u", topic_id="id9"))
        assert len(one.archive.next_batch(0, 1)) == 2
        return one

    def test_its_slot_learns_it_before_its_next_transaction(self) -> None:
        """Kafka takes no offset of it, which would hold back the others for a minute."""
        one = self._held()
        one.archive.on_group_wanted(GroupWanted(batch=1))
        assert one.archive.gone(1) == ()
        effects = one.topics(*found({0: 9}, topic="u", topic_id="id9"))
        assert (effects.groups, one.archive.gone(1)) == ((1,), (P0,))

    def test_what_is_lost_of_a_topic_that_is_made_again_at_once(self) -> None:
        """It never seemed to be gone: what Kafka had of the old one at the last look is said, once."""
        one = leader(checkpoint(4))
        one.topics(*found({0: 9}))
        assert one.archive.next_batch(0, 1)[0].offset == 4
        new = found({0: 300}, topic_id="id2")
        assert one.topics(*new).lost_offsets == ()
        one.archive.on_progress(_progress(1, end=500))
        assert one.archive.partitions()[0].end == 300
        one.archive.on_lost(1)
        recovered = one.apply(one.archive.on_recovered(0, tuple(one.ledger.items())))
        (lost,) = (*recovered.lost_offsets, *one.topics(*new).lost_offsets)
        assert (lost.topic, lost.first, lost.end, lost.with_topic) == ("t", 4, 9, True)
        assert one.topics(*new).lost_offsets == ()

    def test_what_was_read_is_committed_and_the_partition_given_up(self) -> None:
        """The slot keeps the others; it ends once it has none."""
        one = self._held()
        there = found({0: 9}, topic="u", topic_id="id9")
        one.topics(*there)
        one.apply(one.archive.on_committed(_committed(1, checkpoint(7))))
        effects = one.apply(one.archive.on_released(PartitionReleased(batch=1, topic="t", partition=0)))
        assert effects.slots_to_end == ()
        assert one.archive._states[P0].condition.value == "missing"
        assert one.archive.problems(0) == ()
        assert [each.is_gone for each in one.archive.partitions()] == [False, False]
        (lost,) = one.topics(*there).lost_offsets
        assert [each.is_gone for each in one.archive.partitions()] == [True, False]
        assert (lost.topic, lost.first, lost.end, lost.with_topic) == ("t", 7, 9, True)
        assert one.topics(*there).lost_offsets == ()
        effects = one.apply(one.archive.on_released(PartitionReleased(batch=1, topic="u", partition=0)))
        assert effects.slots_to_end == (0,)
        again = PartitionReleased(batch=1, topic="u", partition=0)
        assert one.apply(one.archive.on_released(again)) == SinkEffects()

    def test_a_topic_that_a_broker_did_not_know_for_a_moment_goes_on(self) -> None:
        """Nothing is lost, and nothing is said to be."""
        one = self._held()
        both = (*found({0: 9}), *found({0: 9}, topic="u", topic_id="id9"))
        one.archive.on_released(PartitionReleased(batch=1, topic="t", partition=0))
        assert one.topics(*both[1:]).lost_offsets == ()
        assert one.topics(*both).lost_offsets == ()
        one.apply(one.archive.on_finished(1))
        assert [(grant.topic, grant.offset) for grant in one.archive.next_batch(0, 2)] == [("t", 4), ("u", 3)]


def _progress(batch: int, *, end: int) -> SinkProgress:
    """A slot says that t-0 ends there."""
    return SinkProgress(
        batch=batch,
        positions={},
        ends={P0: end},
        open_objects=0,
        pending_objects=0,
        buffered_bytes=0,
        spilled_bytes=0,
        oldest_open_ms=None,
    )


class TestStopped:
    """Partitions that stand at a record."""

    def test_a_stopped_partition_is_not_granted_before_its_restart(self) -> None:
        """The others of its slot go on."""
        one = leader(checkpoint(0), checkpoint(0, partition=1), slots=1)
        one.topics(*found({0: 9, 1: 9}))
        one.archive.next_batch(0, 1)
        stopped = PartitionStopped(
            batch=1, topic="t", partition=0, offset=5, reason="replay_changed", message="It differs."
        )
        one.apply(one.archive.on_stopped(stopped))
        assert one.archive.problems(0) == ("t-0 is at offset 5 (replay_changed): It differs.",)
        one.apply(one.archive.on_finished(1))
        one.topics(*found({0: 9, 1: 9}))
        assert [grant.partition for grant in one.archive.next_batch(0, 2)] == [1]
        effects = one.apply(one.archive.restart(P0))
        assert effects.slots_to_end == (0,)
        one.apply(one.archive.on_finished(2))
        assert [grant.partition for grant in one.archive.next_batch(0, 3)] == [0, 1]

    @pytest.mark.parametrize("reason", ["offset_above_end", "topic_deleted", "replay_changed"])
    def test_what_stopped_at_an_old_topic_begins_with_the_new_one(self, reason: str) -> None:
        """A reader that meets the new topic at the old one's offset says so before anybody knows why."""
        one = leader(checkpoint(500))
        one.topics(*found({0: 500}))
        one.archive.next_batch(0, 1)
        stopped = PartitionStopped(batch=1, topic="t", partition=0, offset=500, reason=reason, message="So.")
        one.apply(one.archive.on_stopped(stopped))
        assert one.topics(*found({0: 300}, topic_id="id2")).slots_to_revoke == (0,)
        one.archive.on_lost(1)
        one.apply(one.archive.on_recovered(0, tuple(one.ledger.items())))
        one.topics(*found({0: 300}, topic_id="id2"))
        (grant,) = one.archive.next_batch(0, 2)
        assert (grant.offset, grant.topic_id) == (0, "id2")
        assert one.archive.problems(0) == ()

    def test_pause_asks_every_slot_to_end_once(self) -> None:
        """And grants nothing until it is over."""
        one = leader(checkpoint(0))
        one.topics(*found({0: 9}))
        one.archive.next_batch(1, 1)
        assert one.apply(one.archive.pause()).slots_to_end == (1,)
        assert one.topics(*found({0: 9})).slots_to_end == ()
        one.apply(one.archive.on_finished(1))
        assert granted(one) == {}
        one.apply(one.archive.resume())
        assert granted(one) == {0: 0}


class TestRewind:
    """The command that archives again from an offset."""

    def test_it_drops_the_entries(self) -> None:
        """They would pass over what is wanted again."""
        one = leader(checkpoint(8, highest=9, letters=(9,)), sealed("a", 8, 9, group="g", state=COMPLETE))
        one.topics(*found({0: 20}))
        effects = one.archive.rewind({P0: 2})
        assert not isinstance(effects, Refused)
        assert [offset.offset for offset in one.apply(effects).offsets] == [2]
        (grant,) = one.archive.next_batch(0, 1)
        assert (grant.offset, grant.done, grant.dead_letters, grant.highest) == (2, (), (), -1)

    @pytest.mark.parametrize("offset", [0, 2, None])
    def test_a_topic_that_was_made_again_stays_so(self, offset: int | None) -> None:
        """Else its objects meet the names of the old one, and later ones go into the old one's directory."""
        one = leader(checkpoint(30, topic_id="id0"))
        one.topics(*found({0: 40}))
        one.apply(one.archive.pause())
        effects = one.archive.rewind({P0: offset})
        assert not isinstance(effects, Refused)
        one.apply(effects)
        again = leader(*(decode_sink_entry(key, raw) for key, raw in one.ledger.items()))
        again.topics(*found({0: 40}))
        (grant,) = again.archive.next_batch(0, 1)
        assert (grant.offset, grant.topic_id, grant.is_made_again) == (offset or 0, "id1", True)

    def test_a_topic_that_was_not_made_again_is_not_either(self) -> None:
        """Its objects are named as before."""
        one = leader(checkpoint(30))
        one.topics(*found({0: 40}))
        one.apply(one.archive.pause())
        effects = one.archive.rewind({P0: 2})
        assert not isinstance(effects, Refused)
        one.apply(effects)
        one.apply(one.archive.resume())
        (grant,) = one.archive.next_batch(0, 1)
        assert not grant.is_made_again

    @pytest.mark.parametrize("offset", [20, 21])
    def test_an_offset_above_the_end_is_refused(self, offset: int) -> None:
        """It was taken, and the partition refused from then on."""
        one = leader(checkpoint(8))
        one.topics(*found({0: 20, 1: 20}))
        one.apply(one.archive.pause())
        refused = one.archive.rewind({P0: offset, TopicPartition("t", 1): 3})
        assert isinstance(refused, Refused) is (offset > 20)
        if isinstance(refused, Refused):
            assert refused.sentence == (
                "t-0 ends at offset 20, below 21: nothing would be read there. Set an offset up to 20."
            )
            assert one.archive.partitions()[0].offset == 8

    def test_a_partition_in_use_is_refused(self) -> None:
        """A slot's next commit would undo it."""
        one = leader(checkpoint(8))
        one.topics(*found({0: 20}))
        one.archive.next_batch(0, 1)
        refused = one.archive.rewind({P0: 2})
        assert isinstance(refused, Refused)
        assert "t-0 is granted" in refused.sentence


def test_offsets_are_committed_for_the_group_once_a_day() -> None:
    """A group without members forgets them after a week."""
    one = leader(checkpoint(4))
    one.topics(*found({0: 20}))
    day = 24 * 3600 * 1000
    (offset,) = one.archive.tick(1).offsets
    assert (offset.topic, offset.partition, offset.offset) == ("t", 0, 4)
    assert offset.mark == offset_mark("ledger", "id1")
    assert one.archive.tick(day).offsets == ()
    assert len(one.archive.tick(day + 1).offsets) == 1


def test_an_offset_that_another_program_has_set_is_told_of_once() -> None:
    """The ledger holds: who set the group's offset has to know that it does nothing."""
    one = leader(checkpoint(4))
    (warning,) = one.topics(*found({0: 20}, group_offset=1)).warnings
    assert "offset 1 of t-0" in warning
    assert "has 4, which holds" in warning
    assert "PATCH /connectors/NAME/offsets" in warning
    assert one.topics(*found({0: 20}, group_offset=1)).warnings == ()
    assert granted(one, 0) == {0: 4}


def test_an_offset_that_was_set_while_the_sink_was_stopped_is_told_of() -> None:
    """By an answer that was asked for after that; it is not taken from what is known."""
    one = leader(checkpoint(4))
    one.topics(*found({0: 20}))
    assert one.archive.is_settled
    one.apply(one.archive.pause())
    before = one.archive.request_topics()
    one.apply(one.archive.resume())
    assert not one.archive.is_settled
    stale = FoundTopics(request=before, partitions=found({0: 20}))
    assert one.apply(one.archive.on_topics(stale)).warnings == ()
    assert len(one.topics(*found({0: 20}, group_offset=1)).warnings) == 1
    assert one.archive.is_settled


@pytest.mark.parametrize(
    ("offset", "mark", "topic_id"),
    [
        pytest.param(4, "", "id1", id="the same one"),
        pytest.param(None, "", "id1", id="none"),
        pytest.param(3, offset_mark("ledger", "id1"), "id1", id="an older one of ours"),
    ],
)
def test_an_offset_that_says_nothing_else_is_not_told_of(
    offset: int | None, mark: str, topic_id: str
) -> None:
    """Commits that came late are replaced without a word."""
    one = leader(checkpoint(4))
    assert one.topics(*found({0: 20}, group_offset=offset, mark=mark, topic_id=topic_id)).warnings == ()


def test_the_offset_that_a_first_start_begins_at_is_not_told_of() -> None:
    """It is that of the connector from which it was taken over."""
    one = leader()
    assert one.topics(*found({0: 20}, group_offset=7)).warnings == ()
    assert one.topics(*found({0: 20}, group_offset=7)).warnings == ()
    assert granted(one, 0) == {0: 7}


def _committed(batch: int, *checkpoints: PartitionCheckpoint) -> SinkCommitted:
    return SinkCommitted(
        batch=batch, objects=(), checkpoints=checkpoints, records_by_topic={}, bad_by_reason={}, seconds=0.1
    )


def test_partition_names_are_as_kafka_users_write_them() -> None:
    """In sentences and status."""
    assert str(TopicPartition("a.b", 3)) == "a.b-3"
