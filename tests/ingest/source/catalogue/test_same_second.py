"""Uploads of one content within a second: EventBridge tells whole seconds, and sequencers tell them apart."""

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.positions import BytePosition
from ingest.source.notification import ObjectEvent
from tests.ingest.source.catalogue.desk import NOW, Desk, event, object_id

SECOND = NOW - 1000
FIRST, SECOND_UPLOAD = "0062E99A88DC407460", "0062E99A88DC99999"


def _bridged(sequencer: str | None) -> ObjectEvent:
    return event("a", sequencer=sequencer, event_time_ms=SECOND)


@pytest.mark.parametrize("failure", ["ObjectMissing", "ObjectSuperseded"])
@pytest.mark.parametrize("comes", ["during the read", "after the end"])
def test_what_is_put_again_within_the_second_is_read(comes: str, failure: str) -> None:
    """Its first upload was deleted or overwritten before it was read; the second has a higher sequencer."""
    desk = Desk()
    desk.announce("m1", _bridged(FIRST))
    batch = desk.plan()
    if comes == "during the read":
        desk.announce("m2", _bridged(SECOND_UPLOAD))
    desk.fail(batch, failure)
    if comes == "after the end":
        desk.announce("m2", _bridged(SECOND_UPLOAD))
    assert "m2" not in desk.settled

    again = desk.plan()

    assert desk.keys(again) == ["a"]
    desk.complete(again)
    assert set(desk.settled) == {"m1", "m2"}


def test_a_repeated_event_during_the_read_is_no_later_upload() -> None:
    """Its sequencer is the one that is known, or an earlier one."""
    desk = Desk()
    desk.announce("m1", _bridged(SECOND_UPLOAD))
    batch = desk.plan()
    desk.announce("m2", _bridged(SECOND_UPLOAD))
    desk.announce("m3", _bridged(FIRST))
    desk.fail(batch, "ObjectMissing")
    assert desk.works[desk.plan()] == ()
    assert sorted(desk.settled) == ["m1", "m2", "m3"]


def test_a_repeated_event_costs_one_look() -> None:
    """Whether it is one cannot be known after the end: it ends again as it did, and nothing waits for it."""
    desk = Desk()
    desk.announce("m1", _bridged(FIRST))
    desk.fail(desk.plan(), "ObjectMissing")
    desk.announce("m2", _bridged(FIRST))
    again = desk.plan()
    assert desk.keys(again) == ["a"]
    desk.fail(again, "ObjectMissing")
    assert desk.works[desk.plan()] == ()
    assert desk.settled == ["m1", "m2"]
    ended = desk.entry("a")
    assert ended is not None
    assert (ended.state, ended.reason) == (State.SKIPPED, "missing")


def test_rows_that_were_read_before_are_not_read_again() -> None:
    """The content is the same: reading continues where it ended, and what is done stays so."""
    desk = Desk()
    desk.announce("m1", _bridged(FIRST))
    batch = desk.plan()
    read = LedgerEntry(state=State.PARTIAL, records=5, position=BytePosition(50), last_modified_ms=SECOND)
    desk.commit(batch, object_id("a"), read)
    desk.fail(batch, "ObjectSuperseded")
    desk.announce("m2", _bridged(SECOND_UPLOAD))
    again = desk.plan()
    (work,) = desk.works[again]
    assert (work.start, work.records) == (BytePosition(50), 5)
    desk.complete(again)

    desk.announce("m3", _bridged(FIRST))
    desk.announce("m4", _bridged(SECOND_UPLOAD))

    assert desk.works[desk.plan()] == ()
    assert desk.settled == ["m1", "m2", "m3", "m4"]
