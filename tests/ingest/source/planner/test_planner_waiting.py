"""Deliveries that no slot can bring forward, and that therefore need not count against `sqs.max.held`."""

from dataclasses import replace

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.options.choices import Ordering
from ingest.source.catalogue import ObjectFilter
from ingest.source.catalogue.effects import MAX_PARKED, EffectsBuilder, MessageTracker
from ingest.source.planner import BatchLimits
from tests.ingest.source.catalogue.desk import NOW, Desk, event, object_id, route
from tests.ingest.source.catalogue.fake_ledger import FakeLedger


def parked(desk: Desk) -> tuple[str, ...]:
    """What the planner names now."""
    return desk.planner.park(desk.now)


@pytest.mark.parametrize("kind", ["TopicMissing", "ObjectCorrupt"])
def test_the_message_of_a_failed_object(kind: str) -> None:
    """Once the ledger says so, and once only; others that go on, or wait for a slot, count."""
    desk = Desk()
    desk.announce("failing", event("a"))
    assert parked(desk) == ()
    desk.fail(desk.plan(), kind)
    desk.announce("fine", event("b"))
    assert parked(desk) == ("failing",)
    desk.tick(60_000)
    desk.plan(0)
    assert parked(desk) == ()


def test_a_message_of_several_objects_waits_for_the_one_that_fails() -> None:
    """Whatever becomes of the others; in the end it is deleted like any other."""
    desk = Desk()
    desk.announce("both", event("a"), event("b"))
    desk.fail(desk.plan(), "TopicMissing")
    desk.complete(desk.plan())
    assert (parked(desk), desk.settled) == (("both",), [])
    desk.tick(60_000)
    desk.complete(desk.plan())
    assert desk.settled == ["both"]


@pytest.mark.parametrize("kind", ["SourceUnavailable", "AccessDenied"])
def test_an_outage_is_no_reason(kind: str) -> None:
    """What is wrong for all has to slow receiving down."""
    desk = Desk()
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), kind)
    assert parked(desk) == ()


def test_the_messages_of_what_a_failed_object_holds_back() -> None:
    """In its topic-partition, though they have no entry in the ledger; not those of another one."""
    desk = Desk(limits=BatchLimits(slots=2, ordering=Ordering.PARTITION))
    desk.announce("first", event("a-0-1"))
    desk.fail(desk.plan(), "ObjectCorrupt")
    desk.announce("behind", event("a-0-2"))
    desk.announce("before", event("a-0-0"))
    desk.announce("beside", event("a-1-2"))
    assert parked(desk) == ("first",)  # a-0-0 goes first, and nothing is wrong with it
    desk.complete(desk.plan())
    assert parked(desk) == ("behind",)


def test_the_messages_of_later_versions_of_its_key() -> None:
    """They go one after the other under any ordering."""
    desk = Desk()
    desk.announce("old", event("a", "1", sequencer="01"))
    desk.fail(desk.plan(), "TopicMissing")
    desk.announce("new", event("a", "2", sequencer="02"))
    assert parked(desk) == ("old", "new")


def test_the_message_of_an_object_that_is_too_young() -> None:
    """`object.min.age.ms` is long, and uploads are many: thousands may wait for their age."""
    desk = Desk(intake=ObjectFilter(route=route, min_age_ms=60_000))
    desk.announce("young", event("a"))
    assert parked(desk) == ("young",)
    desk.now_ms += 60_000
    desk.announce("old", event("b", event_time_ms=NOW - 60_000))
    assert parked(desk) == ()


def test_the_message_of_a_split_that_fails() -> None:
    """The object's own entry is `partial`; it is the split that waits."""
    ledger = FakeLedger()
    ledger.commit(object_id("a"), LedgerEntry(state=State.PARTIAL, size=30, cuts=(0, 10, 30)))
    desk = Desk(ledger=ledger, limits=BatchLimits(slots=1, ordering=Ordering.NONE))
    desk.announce("m", event("a", size=30))
    assert parked(desk) == ()
    desk.fail(desk.plan(), "ObjectCorrupt")
    assert parked(desk) == ("m",)


def test_a_head_that_is_not_answered_is_no_reason() -> None:
    """There is no object yet."""
    desk = Desk()
    desk.announce("m", replace(event("a"), etag=None))
    assert parked(desk) == ()


def test_received_again_it_counts_again() -> None:
    """It was released in between: the one who holds messages has forgotten that it was parked."""
    desk = Desk()
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), "TopicMissing")
    assert parked(desk) == ("m",)
    desk.announce("m", event("a"))
    assert parked(desk) == ("m",)


def test_not_above_what_may_be_pending() -> None:
    """`max.pending.objects` bounds memory."""
    desk = Desk(max_pending_objects=2)
    desk.announce("m", event("a"))
    desk.fail(desk.plan(), "TopicMissing")
    desk.announce("n", event("b"))
    assert parked(desk) == ()
    desk.complete(desk.plan())
    assert parked(desk) == ("m",)


def test_not_above_what_sqs_lets_be_in_flight() -> None:
    """Room comes back with those that settle."""
    deliveries, gathering = MessageTracker(), EffectsBuilder()
    for number in range(MAX_PARKED + 1):
        deliveries.hold(f"m{number}", {object_id(f"k{number}")}, gathering)
    assert all(deliveries.park(f"m{number}") for number in range(MAX_PARKED))
    assert not deliveries.park(f"m{MAX_PARKED}")
    deliveries.finish(object_id("k0"), gathering)
    deliveries.finish(object_id("k1"), gathering)
    assert [key for key, _ in deliveries.counted()] == [f"m{MAX_PARKED}"]
    assert deliveries.park(f"m{MAX_PARKED}")
