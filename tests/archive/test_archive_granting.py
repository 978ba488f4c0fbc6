from archive import FoundTopics, OffsetReset
from ingest.model.sink_entries import PartitionCheckpoint, TopicPartition, decode_sink_entry, partition_key
from tests.archive.sink_entries import P0, checkpoint, found, leader, sealed


class TestStart:
    """Where a partition begins."""

    def test_a_new_partition_begins_at_the_earliest_and_the_ledger_has_it_first(self) -> None:
        """Nothing is granted before the write is acknowledged."""
        one = leader()
        request = one.archive.request_topics()
        effects = one.archive.on_topics(FoundTopics(request=request, partitions=found({0: 10}, begin=3)))
        assert one.archive.next_batch(0, 1) == ()
        one.apply(effects)
        (grant,) = one.archive.next_batch(0, 1)
        assert (grant.partition_of, grant.offset, grant.topic_id) == (P0, 3, "id1")
        key = partition_key(TopicPartition("t", 0))
        assert decode_sink_entry(key, one.ledger[key]) == PartitionCheckpoint(
            topic="t", partition=0, topic_id="id1", offset=3
        )

    def test_latest_is_for_topics_that_were_there_at_the_start(self) -> None:
        """A partition by which a topic grows has no old record."""
        one = leader(reset=OffsetReset.LATEST)
        one.topics(*found({0: 10}))
        one.topics(*found({0: 12, 1: 5}))
        offsets = {
            grant.partition: grant.offset for slot in (0, 1) for grant in one.archive.next_batch(slot, slot)
        }
        assert offsets == {0: 10, 1: 0}

    def test_a_pending_object_is_completed_before_its_partition_is_granted(self) -> None:
        """By the leader, on taking the lead."""
        one = leader(checkpoint(5), sealed("a", 0, 4))
        one.topics(*found({0: 10}))
        assert [sealed_.id for sealed_ in one.effects.completions] == ["a"]
        assert one.archive.next_batch(0, 1) == ()
