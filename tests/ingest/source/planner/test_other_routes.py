"""An object that was begun for one topic-partition is not continued in another one."""

import pytest

from headrace.model.ledger_entry import LedgerEntry, SplitKey, State
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import OTHER_ROUTE
from tests.ingest.source.catalogue.desk import Desk, object_id
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

_AT = BytePosition(40)


@pytest.mark.parametrize(
    ("key", "topic", "partition", "options", "planned"),
    [
        pytest.param("x-3-1", "topic", 3, "hash", "hash", id="as it was"),
        pytest.param("x-3-1", "other", 3, "hash", OTHER_ROUTE, id="another topic"),
        pytest.param("x-3-1", "topic", 4, "hash", OTHER_ROUTE, id="another partition"),
        pytest.param("x-3-1", None, None, "hash", "hash", id="an old entry without a topic"),
        pytest.param("x-3-1", "other", 3, None, None, id="a position that any settings may read"),
    ],
)
def test_what_was_begun_for_another_topic_is_refused(
    key: str, topic: str | None, partition: int | None, options: str | None, planned: str | None
) -> None:
    """The task quarantines what has another hash than its own settings."""
    begun = LedgerEntry(
        state=State.PARTIAL, records=4, position=_AT, options=options, topic=topic, partition=partition
    )
    ledger = FakeLedger()
    ledger.commit(object_id(key), begun)
    desk = Desk(ledger=ledger)
    (work,) = desk.works[desk.plan()]
    assert (work.start, work.options) == (_AT, planned)


def test_what_was_not_begun_goes_where_its_key_says() -> None:
    """An attempt that failed before its first row has noted the topic of then, too."""
    ledger = FakeLedger()
    ledger.commit(object_id("x-3-1"), LedgerEntry(state=State.FAILED, attempts=1, topic="other"))
    desk = Desk(ledger=ledger)
    desk.now_ms += 600_000
    (work,) = desk.works[desk.plan()]
    assert (work.start, work.options) == (None, None)


def test_it_stays_refused_when_it_is_replayed_from_its_position() -> None:
    """The quarantine keeps where its records are."""
    ledger = FakeLedger()
    begun = LedgerEntry(
        state=State.PARTIAL, records=4, position=_AT, options="hash", topic="other", partition=3
    )
    ledger.commit(object_id("x-3-1"), begun)
    desk = Desk(ledger=ledger)
    desk.fail(desk.plan(), "InvalidObject")
    entry = desk.entry("x-3-1")
    assert entry is not None
    assert (entry.state, entry.topic, entry.position) == (State.QUARANTINED, "other", _AT)


def test_no_split_of_it_is_read_either() -> None:
    """Its neighbours' records are in the other topic."""
    ledger, whole = FakeLedger(), object_id("x-3-1")
    ledger.commit(
        whole,
        LedgerEntry(
            state=State.PARTIAL, cuts=(0, 50, 100), options="hash", size=100, topic="other", partition=3
        ),
    )
    ledger.commit(
        SplitKey(whole, 0, 50),
        LedgerEntry(state=State.DONE, position=BytePosition(50), options="hash", topic="other", partition=3),
    )
    desk = Desk(ledger=ledger)
    (work,) = desk.works[desk.plan()]
    assert (work.begin, work.options) == (50, OTHER_ROUTE)
