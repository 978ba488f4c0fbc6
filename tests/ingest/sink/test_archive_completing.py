from dataclasses import replace

from structlog.testing import capture_logs

from headrace.model.sink_entries import ObjectState, SealedObject, Upload, Verdict
from headrace.model.sink_protocol import SinkCommitted, SinkCompleted
from ingest.service.sink.sink_leader import tell_unfinished
from ingest.sink import SinkEffects
from tests.ingest.sink.sink_entries import Leader, checkpoint, controls, found, leader, sealed


def ids(effects: SinkEffects) -> list[str]:
    """The objects that the leader completes now."""
    return [one.id for one in effects.completions]


def committed(batch: int, offset: int, *objects: SealedObject) -> SinkCommitted:
    """A transaction of a slot."""
    return SinkCommitted(
        batch=batch,
        objects=objects,
        checkpoints=(checkpoint(offset),),
        records_by_topic={},
        bad_by_reason={},
        seconds=0.1,
    )


def granted(*entries: SealedObject, offset: int = 0) -> Leader:
    """A leader whose slot 0 holds t-0 as batch 1."""
    one = leader(checkpoint(offset), *entries)
    one.topics(*found({0: 20}))
    assert one.archive.next_batch(0, 1)
    return one


class TestOrder:
    """What the leader completes of partitions that nobody holds."""

    def test_one_name_after_the_other_in_offset_order(self) -> None:
        """Other names need not wait."""
        one = leader(
            checkpoint(9),
            sealed("late", 4, 5, key="k"),
            sealed("early", 1, 2, key="k"),
            sealed("other", 6, 7, key="x"),
        )
        assert ids(one.effects) == ["early", "other"]
        assert ids(one.apply(one.archive.on_completion("other", Verdict.COMPLETE))) == []
        assert ids(one.apply(one.archive.on_completion("early", Verdict.COMPLETE))) == ["late"]

    def test_every_name_of_an_object_counts(self) -> None:
        """Side objects are completed with it."""
        keys = Upload(key="k.keys", upload_id="u", parts=())
        first = sealed("first", 1, 2, key="k")
        second = sealed("second", 4, 5, key="x")
        one = leader(
            checkpoint(9),
            replace(first, uploads=(keys, *first.uploads)),
            replace(second, uploads=(keys, *second.uploads)),
        )
        assert ids(one.effects) == ["first"]

    def test_nothing_of_a_partition_is_granted_before(self) -> None:
        """A slot could seal an object of the same name."""
        one = leader(checkpoint(9), sealed("a", 1, 2))
        one.topics(*found({0: 20}))
        assert one.archive.next_batch(0, 1) == ()
        one.apply(one.archive.on_completion("a", Verdict.COMPLETE))
        assert one.archive.next_batch(0, 1)

    def test_retry_is_no_end(self) -> None:
        """The service tries again."""
        one = leader(checkpoint(9), sealed("a", 1, 2))
        assert one.apply(one.archive.on_completion("a", Verdict.RETRY)) == SinkEffects()
        assert one.objects()["a"].state is ObjectState.PENDING


class TestEntries:
    """What the leader writes of objects."""

    def test_complete_is_kept_until_the_offset_has_passed(self) -> None:
        """Then one tombstone is all."""
        one = granted()
        one.archive.on_committed(committed(1, 0, sealed("a", 2, 4, group="g")))
        one.apply(one.archive.on_completed(SinkCompleted(batch=1, ids=("a",))))
        assert one.objects()["a"].state is ObjectState.COMPLETE
        one.apply(one.archive.on_committed(committed(1, 5)))
        assert one.objects() == {}

    def test_a_complete_entry_keeps_no_parts(self) -> None:
        """Nothing is completed with them any more; a quarantined one may be."""
        one = granted()
        one.archive.on_committed(committed(1, 0, sealed("a", 2, 4), sealed("b", 5, 6)))
        told = SinkCompleted(batch=1, ids=("a",), quarantined=(("b", "name_taken"),))
        one.apply(one.archive.on_completed(told))
        assert one.objects()["a"].uploads == (Upload(key="a", upload_id="u-a", parts=()),)
        assert one.objects()["b"].uploads == (Upload(key="b", upload_id="u-b", parts=("e",)),)

    def test_what_is_passed_when_it_is_completed_is_only_removed(self) -> None:
        """One write, not two."""
        one = granted()
        one.archive.on_committed(committed(1, 5, sealed("a", 2, 4)))
        effects = one.apply(one.archive.on_completed(SinkCompleted(batch=1, ids=("a",))))
        assert [(write.key.name, write.entry) for write in effects.writes] == [("sink/object/a", None)]

    def test_an_older_entry_of_a_group_folds_into_a_newer_one(self) -> None:
        """So a group has one, however long another holds the offset back."""
        one = granted()
        for number, first in enumerate((2, 5)):
            one.archive.on_committed(committed(1, 0, sealed(f"a{number}", first, first + 1, group="g")))
            one.apply(one.archive.on_completed(SinkCompleted(batch=1, ids=(f"a{number}",))))
        assert list(one.objects()) == ["a1"]

    def test_a_quarantined_object_stays_with_its_reason(self) -> None:
        """It is nobody's to forget; and its partition goes on."""
        one = leader(checkpoint(9), sealed("a", 1, 2))
        one.topics(*found({0: 20}))
        one.apply(one.archive.on_completion("a", Verdict.NAME_TAKEN))
        assert (one.objects()["a"].state, one.objects()["a"].reason) == (
            ObjectState.QUARANTINED,
            "name_taken",
        )
        assert one.archive.next_batch(0, 1)

    def test_an_end_of_an_unknown_object_says_nothing(self) -> None:
        """A late word of a lost slot."""
        one = granted()
        late = SinkCompleted(batch=7, ids=("a",), quarantined=(("b", "name_taken"),))
        assert one.apply(one.archive.on_completed(late)).writes == ()


class TestLostSlot:
    """Void, fence, read: what a slot has left behind."""

    def test_its_pending_objects_become_the_leaders(self) -> None:
        """By the ledger, read after the fence; what it said before says nothing."""
        one = granted()
        one.archive.on_lost(1)
        assert one.archive.on_committed(committed(1, 3, sealed("unseen", 0, 2))) == SinkEffects()
        assert one.archive.on_finished(1) == SinkEffects()
        assert one.archive.next_batch(1, 2) == ()
        now = dict(controls(checkpoint(5), sealed("a", 0, 4)))
        one.ledger |= now
        effects = one.apply(one.archive.on_recovered(0, one.ledger.items()))
        assert ids(effects) == ["a"]
        one.archive.on_committed(committed(1, 3, sealed("late", 0, 2)))
        one.apply(one.archive.on_completion("a", Verdict.COMPLETE))
        (grant,) = one.archive.next_batch(1, 2)
        assert grant.offset == 5

    def test_what_it_committed_without_a_word_is_counted(self) -> None:
        """Objects that only the ledger has told of; those that were reported were counted then."""
        one = granted()
        one.archive.on_committed(committed(1, 0, sealed("a", 2, 3)))
        unreported = sealed("c", 6, 7)
        one.ledger |= dict(controls(checkpoint(0), sealed("a", 2, 3), unreported))
        one.archive.on_lost(1)
        assert one.archive.on_recovered(0, list(one.ledger.items())).unreported == (unreported,)

    def test_what_is_on_its_way_to_the_ledger_is_not_undone(self) -> None:
        """A read that shows an entry from before the leader's own write of it."""
        one = granted()
        one.archive.on_committed(committed(1, 0, sealed("a", 2, 3), sealed("b", 4, 5, group="b")))
        one.ledger |= dict(
            controls(checkpoint(0), sealed("a", 2, 3), sealed("b", 4, 5, group="b"), sealed("c", 6, 7))
        )
        complete = one.archive.on_completed(SinkCompleted(batch=1, ids=("a",)))
        one.archive.on_lost(1)
        effects = one.archive.on_recovered(0, list(one.ledger.items()))
        assert ids(effects) == ["b", "c"]
        assert ids(one.apply(complete)) == []
        assert one.objects()["a"].state is ObjectState.COMPLETE

    def test_a_pending_object_that_a_slot_left_at_its_end_is_the_leaders(self) -> None:
        """S3 did not answer it."""
        one = granted()
        one.archive.on_committed(committed(1, 3, sealed("a", 0, 2)))
        assert ids(one.apply(one.archive.on_finished(1))) == ["a"]


class TestReadiness:
    """What is said of objects that wait."""

    def test_too_many_or_too_long(self) -> None:
        """With the remedy."""
        one = leader(checkpoint(9), sealed("a", 1, 2))
        assert one.archive.problems(1000) == ()
        assert "has waited 901 s" in one.archive.problems(901_000)[0]
        assert one.archive.counts(901_000).pending_objects == 1
        assert not one.archive.is_idle
        one.apply(one.archive.on_completion("a", Verdict.COMPLETE))
        assert one.archive.is_idle

    def test_status_has_every_partition(self) -> None:
        """With its slot, its offsets and what it is at."""
        one = granted(offset=4)
        one.topics(*found({0: 20, 1: 3}))
        first, second = one.archive.partitions()
        assert (first.condition, first.slot, first.offset, first.end, first.lag) == ("granted", 0, 4, 20, 16)
        assert (second.condition, second.slot, second.lag) == ("waiting", None, 3)
        assert one.archive.counts(0).lag == 19


class TestLeft:
    """What a slot leaves to the leader while it holds the partition."""

    def test_it_is_completed_at_once_and_the_slot_is_told(self) -> None:
        """With names of keys alone the slot's next object of that name waits for it."""
        one = granted()
        one.archive.on_committed(committed(1, 5, sealed("a", 0, 2), sealed("b", 3, 4)))
        effects = one.apply(one.archive.on_completed(SinkCompleted(batch=1, ids=("b",), left=("a",))))
        assert ids(effects) == ["a"]
        assert ids(one.apply(one.archive.on_completed(SinkCompleted(batch=1, ids=(), left=("a",))))) == []
        ended = one.apply(one.archive.on_completion("a", Verdict.COMPLETE))
        assert ended.ended == ((1, "a"),)
        assert one.objects() == {}

    def test_what_is_left_by_a_slot_that_is_lost_is_completed_once(self) -> None:
        """The ledger has it, and the leader is at it already."""
        one = granted()
        pending = sealed("a", 0, 2)
        one.ledger.update(controls(checkpoint(5), pending))
        one.archive.on_committed(committed(1, 5, pending))
        one.apply(one.archive.on_completed(SinkCompleted(batch=1, ids=(), left=("a",))))
        one.archive.on_lost(1)
        assert ids(one.apply(one.archive.on_recovered(0, tuple(one.ledger.items())))) == []
        assert one.apply(one.archive.on_completion("a", Verdict.COMPLETE)).ended == ()
        assert one.archive.next_batch(0, 2)

    def test_what_nobody_can_prove_is_passed_and_noted(self) -> None:
        """Neither upload nor object is there: the partition goes on, the statistics say it."""
        one = leader(checkpoint(0), sealed("a", 1, 2, group="g"))
        one.topics(*found({0: 20}))
        one.apply(one.archive.on_completion("a", Verdict.UNPROVEN))
        entry = one.objects()["a"]
        assert (entry.state, entry.reason) == (ObjectState.COMPLETE, "unproven")
        assert one.archive.next_batch(0, 1)


def test_an_end_says_what_s3_has_not_completed() -> None:
    """With number, key and offsets; and of slots that had no time to close."""
    one = leader(checkpoint(9), sealed("a", 1, 2, key="k"), sealed("b", 4, 5))
    with capture_logs() as lines:
        tell_unfinished(one.archive, closed=True)
    (line,) = lines
    assert (line["event"], line["log_level"], line["objects"]) == ("stop_unfinished", "error", 2)
    assert (line["oldest"], line["first_offset"], line["last_offset"]) == ("s3://b/k", 1, 2)
    for name in ("a", "b"):
        one.apply(one.archive.on_completion(name, Verdict.COMPLETE))
    with capture_logs() as lines:
        tell_unfinished(one.archive, closed=True)
        tell_unfinished(one.archive, closed=False)
    assert [each["event"] for each in lines] == ["stop_interrupted"]
