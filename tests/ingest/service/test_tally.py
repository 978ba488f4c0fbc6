"""What the canonical line of an object says of the bytes that were fetched for it."""

from structlog.testing import capture_logs

from ingest.catalogue import Ended
from ingest.ledger import LedgerEntry, State
from ingest.metrics import Metrics
from ingest.objects import ObjectId
from ingest.service.tally import Tally
from ingest.work import Committed, Finished, Outcome

LARGE, SMALL = ObjectId("b", "large", "e1"), ObjectId("b", "small", "e2")


def committed(**fetched: int) -> Committed:
    """A transaction of plan 1 before which so much was fetched, by key."""
    of = {"large": LARGE, "small": SMALL}
    return Committed(
        plan=1,
        checkpoints=(),
        records_by_topic={"t": 1},
        bad_by_reason={},
        fetched={of[key]: count for key, count in fetched.items()},
        seconds=0.1,
    )


def ended(identity: ObjectId) -> Ended:
    """The object is done."""
    return Ended(id=identity, entry=LedgerEntry(state=State.DONE, size=1000), since_ms=0, seen_ms=0)


def test_the_line_sums_what_all_tasks_fetched() -> None:
    """Over transactions, slices and slots, and once: an object that is read again begins at nothing."""
    tally = Tally(Metrics(dict))
    tally.committed(committed(large=300, small=7))
    tally.committed(committed(large=500))
    tally.batch_finished(Finished(plan=1, outcome=Outcome.CLEAN, fetched={LARGE: 11}), 1.0)

    with capture_logs() as lines:
        for identity in (LARGE, SMALL, LARGE):
            tally.ended(ended(identity), now_ms=5)

    assert [(line["event"], line["key"], line["bytes"], line["fetched_bytes"]) for line in lines] == [
        ("object", "large", 1000, 811),
        ("object", "small", 1000, 7),
        ("object", "large", 1000, 0),
    ]
    assert tally.bytes == 818
