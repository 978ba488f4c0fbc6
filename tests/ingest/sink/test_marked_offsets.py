"""Offsets that a Headrace committed in the group, another one or this sink itself, next to its ledger's."""

from dataclasses import replace

import pytest

from headrace.model.sink_entries import ObjectState, PartitionCheckpoint, offset_mark
from ingest.sink import FoundPartition, FoundTopics, Refused
from tests.ingest.sink.sink_entries import P0, Leader, checkpoint, found, leader, sealed

OTHER = offset_mark("other", "id1")
OWN = offset_mark("ledger", "id1")


def granted(one: Leader) -> dict[int, int]:
    """The offsets from which partitions are granted."""
    return {grant.partition: grant.offset for slot in (0, 1) for grant in one.archive.next_batch(slot, slot)}


def sentence(one: Leader) -> str:
    """Why the first partition is not granted."""
    (problem,) = one.archive.problems(0)
    return problem


def test_a_ledger_without_the_partition_continues_where_the_same_offset_has_no_mark() -> None:
    """An ordinary tool commits it without: deleted, all of the topic would be archived again."""
    one = leader()
    one.topics(*found({0: 10}, group_offset=7, mark=OTHER))
    assert granted(one) == {}
    assert "--reset-offsets --to-current --all-topics" in sentence(one)
    assert "delete" not in sentence(one)
    assert "another `name`" not in sentence(one)

    one.topics(*found({0: 10}, group_offset=7))

    assert granted(one) == {0: 7}


def test_a_copy_of_the_ledger_by_another_name_keeps_its_entries() -> None:
    """Where the same offset is committed without a mark; PATCH would drop what is archived above it."""
    one = leader(checkpoint(4), sealed("a", 5, 8, group="g", state=ObjectState.COMPLETE))
    one.topics(*found({0: 10}, group_offset=4, mark=OTHER))
    assert granted(one) == {}

    assert one.topics(*found({0: 10}, group_offset=4)).warnings == ()

    (grant,) = one.archive.next_batch(0, 0)
    assert (grant.offset, grant.done) == (4, (("g", 8),))


def test_a_ledger_with_the_partition_has_to_have_its_offset_set() -> None:
    """Without the mark it would continue where it was, below what the other one has archived."""
    one = leader(checkpoint(4))
    one.topics(*found({0: 10}, group_offset=7, mark=OTHER))
    assert granted(one) == {}
    assert "which is 4, to 7 (PUT /connectors/NAME/stop, PATCH /connectors/NAME/offsets)" in sentence(one)
    assert "kafka-consumer-groups" not in sentence(one)

    effects = one.archive.rewind({P0: 7})
    assert not isinstance(effects, Refused)
    assert [(each.offset, each.mark) for each in effects.offsets] == [(7, OWN)]
    one.apply(effects)
    one.topics(*found({0: 10}, group_offset=7, mark=OWN))

    assert granted(one) == {0: 7}


def further(offset: int = 7, *, begin: int = 0, end: int = 10, mark: str = OWN) -> tuple[FoundPartition, ...]:
    """The partition with what this sink has committed in the group."""
    return found({0: end}, begin=begin, group_offset=offset, mark=mark)


class TestLedgerEnd:
    """A sink commits the group's offset and its ledger's in one transaction: a lower one was lost."""

    def test_what_the_ledger_has_lost_is_named(self) -> None:
        """Once, before the group's offset, which proves it, is put back."""
        one = leader(checkpoint(4))
        (warning,) = one.topics(*further()).warnings
        assert "The ledger 'ledger' has offset 4 of t-0, and this sink had committed 7 (group 'c')" in warning
        assert "Records from 4 on are archived again. To leave them out, where all objects up to 7" in warning
        assert one.archive.problems(0) == ()
        assert granted(one) == {0: 4}
        assert [each.offset for each in one.archive.tick(1).offsets] == [4]
        assert one.topics(*further()).warnings == ()

    def test_a_partition_that_has_no_leader_at_the_start_is_named_later(self) -> None:
        """As after the failure that has cost the ledger its end."""
        one = leader(checkpoint(4))
        request = one.archive.request_topics()
        one.apply(one.archive.on_topics(FoundTopics(request=request, partitions=(), leaderless={P0: "id1"})))
        assert len(one.topics(*further()).warnings) == 1

    def test_only_what_is_archived_again_is_named(self) -> None:
        """Kafka may have deleted some of it; where its log ends lower, too, no offset is proposed."""
        (_, deleted) = sorted(leader(checkpoint(4)).topics(*further(begin=6)).warnings)
        assert "Records from 6 on" in deleted
        (cut,) = leader(checkpoint(4)).topics(*further(end=5)).warnings
        assert cut.endswith("are archived again.")

    @pytest.mark.parametrize(
        ("entry", "offsets"),
        [
            pytest.param(checkpoint(7), further(), id="the same"),
            pytest.param(checkpoint(8), further(), id="lower, of a slot whose topic was gone for a moment"),
            pytest.param(replace(checkpoint(4), is_reset=True), further(), id="a reset without the topic"),
            pytest.param(checkpoint(4), further(mark=offset_mark("ledger", "id0")), id="another topic"),
            pytest.param(checkpoint(4), further(end=3), id="refused"),
        ],
    )
    def test_nothing_is_lost(self, entry: PartitionCheckpoint, offsets: tuple[FoundPartition, ...]) -> None:
        """Where the group is not further, or not with this topic."""
        assert leader(entry).topics(*offsets).warnings == ()

    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_rewind_of_this_leader_is_no_loss(self, *, is_there: bool) -> None:
        """What the group has was asked for before it was put back, or could not be put back."""
        one = leader(checkpoint(7))
        one.topics(*(further() if is_there else ()))
        one.apply(one.archive.pause())
        effects = one.archive.rewind({P0: 4})
        assert not isinstance(effects, Refused)
        one.apply(effects)
        one.apply(one.archive.resume())
        assert one.topics(*further()).warnings == ()


class TestAnotherCluster:
    """Where a topic of the same name has another id and other offsets: docs/operations.md has the way."""

    def test_offsets_that_a_mirror_has_committed_continue_without_the_mark(self) -> None:
        """It takes the mark along, and the new cluster's ledger knows nothing: names are as they were."""
        one = leader()
        one.topics(*found({0: 10}, topic_id="new", group_offset=7, mark=OWN))
        assert granted(one) == {}
        assert "or of another cluster" in sentence(one)
        assert "--reset-offsets --to-current --all-topics" in sentence(one)

        one.topics(*found({0: 10}, topic_id="new", group_offset=7))

        (grant,) = one.archive.next_batch(0, 0)
        assert (grant.offset, grant.is_made_again) == (7, False)

    @pytest.mark.parametrize(
        ("offset", "mark"), [(None, ""), (7, ""), (7, OWN)], ids=["none", "no mark", "a mirror's"]
    )
    def test_with_a_copied_ledger_it_has_to_be_stopped_before(self, offset: int | None, mark: str) -> None:
        """Else all is archived again; set while it is stopped, it continues there, by names of its own."""
        one = leader(checkpoint(9))
        one.apply(one.archive.pause())
        copied = found({0: 10}, topic_id="new", group_offset=offset, mark=mark)
        (warning,) = one.topics(*copied).warnings
        assert "was deleted and made again, or this is another cluster: t-0 begins at 0" in warning
        assert granted(one) == {}
        effects = one.archive.rewind({P0: 7})
        assert not isinstance(effects, Refused)
        one.apply(effects)
        one.apply(one.archive.resume())
        one.topics(*found({0: 10}, topic_id="new", group_offset=7, mark=offset_mark("ledger", "new")))

        (grant,) = one.archive.next_batch(0, 0)
        assert (grant.offset, grant.topic_id, grant.is_made_again) == (7, "new", True)
