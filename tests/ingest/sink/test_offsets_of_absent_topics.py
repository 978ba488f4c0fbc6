"""Other offsets for partitions that Kafka does not have, or that `topics` leaves out."""

from typing import cast

import pytest

from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import ObjectState, SinkEntry, TopicPartition, decode_sink_entry
from headrace.options.choices import OffsetReset
from ingest.service.sink.sink_lifecycle import checkpoints, sink_topics
from ingest.sink import Refused
from tests.ingest.sink.sink_entries import P0, Leader, checkpoint, found, leader, sealed

EARLIEST, LATEST = OffsetReset.EARLIEST, OffsetReset.LATEST
P1 = TopicPartition("t", 1)


def absent(*entries: SinkEntry, reset: OffsetReset = EARLIEST) -> Leader:
    """A paused sink whose ledger has t-0 at 30, which Kafka has, and t-1 at 17, which it does not."""
    one = leader(checkpoint(30), checkpoint(17, partition=1, highest=19), *entries, reset=reset)
    one.topics(*found({0: 40}))
    one.apply(one.archive.pause())
    return one


def rewound(one: Leader, **offsets: int | None) -> set[TopicPartition]:
    """The partitions (by `p0`, `p1`) of which the group is given an offset."""
    partitions = {TopicPartition("t", int(name[1:])): offset for name, offset in offsets.items()}
    effects = one.archive.rewind(partitions)
    assert not isinstance(effects, Refused), effects
    return {TopicPartition(each.topic, each.partition) for each in one.apply(effects).offsets}


class _Cache:
    def __init__(self, one: Leader) -> None:
        self._one = one

    def controls(self) -> dict[ControlKey, bytes]:
        return self._one.ledger


def shown(one: Leader) -> dict[TopicPartition, int]:
    """The offsets that the ledger has, as a GET shows them; the archive has the same."""
    offsets = checkpoints(cast(LedgerCache, _Cache(one)))
    known = {TopicPartition(each.topic, each.partition): each.offset for each in one.archive.partitions()}
    assert offsets == {partition: offset for partition, offset in known.items() if offset is not None}
    return offsets


def restarted(one: Leader, reset: OffsetReset) -> Leader:
    """The next leader, over what this one has written."""
    return leader(*(decode_sink_entry(key, raw) for key, raw in one.ledger.items()), reset=reset)


def test_all_are_reset_at_once() -> None:
    """DELETE: one topic that is gone holds up none of the others."""
    one = absent(sealed("a", 15, 19, partition=1, group="g", state=ObjectState.COMPLETE))
    assert rewound(one, p0=None, p1=None) == {P0}, "Kafka has no place for an offset of t-1"
    assert shown(one) == {P0: 0}
    assert one.objects() == {}
    assert one.archive.is_settled


def test_a_topic_of_which_nothing_is_kept_is_not_listed() -> None:
    """Nothing of it counts as read."""
    one = leader(checkpoint(17))
    one.topics()
    one.apply(one.archive.pause())
    rewound(one, p0=None)
    assert sink_topics(cast(LedgerCache, _Cache(one))) == []


@pytest.mark.parametrize("reset", [EARLIEST, LATEST])
@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("topic_id", ["id1", "id2"])
def test_it_begins_as_one_that_was_never_read(topic_id: str, is_restarted: bool, reset: OffsetReset) -> None:
    """Put back into `topics`; and made again at its first record, with names of its own."""
    one = absent(reset=reset)
    rewound(one, p1=None)
    one = restarted(one, reset) if is_restarted else one
    # The group still has the offset that Headrace committed, which decides nothing.
    mark = "headrace ledger id1"
    effects = one.topics(*found({1: 60}, begin=5, topic_id=topic_id, group_offset=17, mark=mark))
    assert effects.lost_offsets == (), "nothing was to be read below its first record"
    one.apply(one.archive.resume())
    one.topics(*found({1: 60}, begin=5, topic_id=topic_id))
    (grant,) = one.archive.next_batch(0, 1)
    is_again = topic_id == "id2"
    begin = 60 if reset is LATEST and not is_again else 5
    assert (grant.offset, grant.topic_id, grant.is_made_again) == (begin, topic_id, is_again)


@pytest.mark.parametrize("offset", [17, 3, 40])
def test_offsets_that_were_saved_are_brought_back(offset: int) -> None:
    """What a GET has shown is taken whole: of t-1 it counts once the topic is there again."""
    one = absent()
    rewound(one, p0=None, p1=None)
    assert rewound(one, p0=30, p1=offset) == {P0}
    assert shown(one) == {P0: 30, P1: offset}
    one.apply(one.archive.resume())
    one.topics(*found({1: 60}))
    (grant,) = one.archive.next_batch(0, 1)
    assert (grant.partition, grant.offset, grant.done) == (1, offset, ())
    assert [each.offset for each in one.archive.tick(1).offsets] == [offset], "and the group has it"


def test_what_is_pending_is_not_forgotten() -> None:
    """It is to be completed, whatever has become of its topic."""
    one = absent(sealed("a", 15, 16, partition=1))
    refused = one.archive.rewind({P0: None, P1: None})
    assert isinstance(refused, Refused)
    assert "t-1 is completing" in refused.sentence
    assert set(one.objects()) == {"a"}
    assert shown(one) == {P0: 30, P1: 17}


def test_before_kafka_was_asked_nothing_is_changed() -> None:
    """Whether a partition is absent is not known yet."""
    one = leader(checkpoint(30))
    one.apply(one.archive.pause())
    refused = one.archive.rewind({P0: None})
    assert isinstance(refused, Refused)
    assert "try again" in refused.sentence


@pytest.mark.parametrize("offset", [None, 3])
def test_one_that_nobody_knows_is_refused(offset: int | None) -> None:
    """Neither the ledger has it nor Kafka."""
    refused = absent().archive.rewind({TopicPartition("t", 7): offset})
    assert isinstance(refused, Refused)
    assert "no partition of this sink" in refused.sentence
