"""Offsets that another Headrace committed in the group: what its sentence asks for archives nothing twice."""

from headrace.model.sink_entries import offset_mark
from ingest.sink import Refused
from tests.ingest.sink.sink_entries import P0, Leader, checkpoint, found, leader

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
