"""Counts and log lines of objects that came to their ends, many at a time."""

import io
import json
import logging

import pytest
import structlog
from structlog.testing import capture_logs

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId
from headrace.model.slot_protocol import BatchOutcome, Committed, Finished
from headrace.process.logs import configure
from ingest.http.metrics import Metrics
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.statistics import Statistics
from ingest.source.catalogue import Effects, FinishedObject, Mark, Replay, Selection
from ingest.source.catalogue.effects import Unreported
from tests.ingest.sink.sink_entries import sealed
from tests.ingest.source.catalogue.desk import DAY, NOW, Desk, listed, object_id, page
from tests.support.instants import at

LARGE, SMALL = ObjectId("b", "large", "e1"), ObjectId("b", "small", "e2")


def committed(**fetched: int) -> Committed:
    """A transaction of plan 1 before which so much was fetched, by key."""
    of = {"large": LARGE, "small": SMALL}
    return Committed(
        batch=1,
        checkpoints=(),
        records_by_topic={"t": 1},
        bad_by_reason={},
        fetched={of[key]: count for key, count in fetched.items()},
        seconds=0.1,
    )


def ended(identity: ObjectId) -> FinishedObject:
    """The object is done."""
    return FinishedObject(id=identity, entry=LedgerEntry(state=State.DONE, size=1000), since_ms=0, seen_ms=0)


def test_the_line_sums_what_all_tasks_fetched() -> None:
    """Over transactions, slices and slots, and once: an object that is read again begins at nothing."""
    tally = Statistics(Metrics(dict))
    tally.committed(committed(large=300, small=7))
    tally.committed(committed(large=500))
    tally.batch_finished(Finished(batch=1, outcome=BatchOutcome.CLEAN, fetched={LARGE: 11}), 1.0)

    with capture_logs() as lines:
        tally.ended([ended(LARGE), ended(SMALL)], now=at(5))
        tally.ended([ended(LARGE)], now=at(5))

    assert [(line["event"], line["key"], line["bytes"], line["fetched_bytes"]) for line in lines] == [
        ("object", "large", 1000, 811),
        ("object", "small", 1000, 7),
        ("object", "large", 1000, 0),
    ]
    assert tally.bytes == 818


def test_what_was_fetched_after_the_end_is_counted_and_forgotten() -> None:
    """The rest of a batch may tell of objects whose lines are written: they have none to come."""
    tally = Statistics(Metrics(dict))
    tally.committed(committed(large=300))
    with capture_logs():
        tally.ended([ended(LARGE)], now=at(5))
    tally.batch_finished(Finished(batch=1, outcome=BatchOutcome.CLEAN, fetched={LARGE: 11, SMALL: 2}), 1.0)

    tally.forget([LARGE])

    with capture_logs() as lines:
        tally.ended([ended(LARGE), ended(SMALL)], now=at(6))
    assert [line["fetched_bytes"] for line in lines] == [0, 2]
    assert tally.bytes == 313


def test_many_ends_at_once_are_counted_one_by_one() -> None:
    """By state and reason; of all of them the newest are shown."""
    metrics = Metrics(dict)
    tally = Statistics(metrics)
    for first in (0, 100):
        tally.ended(
            [
                *(ended(ObjectId("b", f"key {number}", "e")) for number in range(first, first + 60)),
                *(_quarantined(ObjectId("b", f"bad {number}", "e")) for number in range(2)),
            ],
            now=at(5),
        )
    assert metrics.registry.get_sample_value(*_objects("done", "")) == 120
    assert metrics.registry.get_sample_value(*_objects("quarantined", "unfit")) == 4
    assert tally.quarantined == 4
    assert [one.key for one in tally.recent] == [*(f"key {n}" for n in range(112, 160)), "bad 0", "bad 1"]
    assert metrics.registry.get_sample_value("headrace_event_to_commit_seconds_count") == 120


def test_their_lines_are_written_together() -> None:
    """Each with its own level."""
    writes: list[str] = []

    class _Stream(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure(stream=_Stream())
    try:
        Statistics(Metrics(dict)).ended([ended(LARGE), _quarantined(SMALL)], now=at(5))
    finally:
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)
    (text,) = writes
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["key"], line["level"]) for line in lines] == [("large", "info"), ("small", "error")]


def _quarantined(identity: ObjectId) -> FinishedObject:
    entry = LedgerEntry(state=State.QUARANTINED, reason="unfit")
    return FinishedObject(id=identity, entry=entry, since_ms=0, seen_ms=0)


def _objects(state: str, reason: str) -> tuple[str, dict[str, str]]:
    return "headrace_objects_total", {"state": state, "reason": reason}


def test_what_a_lost_slot_has_not_reported_counts() -> None:
    """Found in the ledger, which gives no reason of a bad record; a transaction in doubt counts once."""
    metrics = Metrics(dict)
    tally = Statistics(metrics)
    tally.slot_lost(7)
    tally.slot_lost(None)
    tally.unreported((Unreported(topic="t", records=5, bad=2), Unreported(topic=None, records=0, bad=1)))
    found = metrics.exposition().decode()
    for line in (
        'headrace_records_total{topic="t"} 5.0',
        'headrace_bad_records_total{reason="unknown"} 3.0',
        'headrace_transactions_total{outcome="unknown"} 1.0',
    ):
        assert line in found
    assert (tally.records, tally.bad_records) == (5, {"unknown": 3})


class _CountingDesk(Desk):
    """Has what comes to its end counted."""

    def __init__(self) -> None:
        self.tally = Statistics(Metrics(dict))
        super().__init__()

    def do(self, effects: Effects) -> Effects:
        """As the service does."""
        self.tally.ended(effects.finished, self.now)
        return super().do(effects)


def test_what_a_command_ends_has_no_time_from_upload_to_commit() -> None:
    """A mark reads nothing, and a replay was not asked for by the upload; an object that is read is timed."""
    desk = _CountingDesk()
    old, again, read = (listed(key, last_modified_ms=NOW - DAY) for key in ("old", "again", "read"))
    desk.observe(page(old))
    desk.do(desk.catalogue.apply_command(Mark(selection=Selection()), [old], desk.now))
    desk.observe(page(again, listing_id=2))
    plan = desk.plan()
    desk.commit(plan, object_id("again"), LedgerEntry(state=State.QUARANTINED, reason="unfit"))
    desk.finish(plan)
    desk.do(desk.catalogue.apply_command(Replay(selection=Selection()), [again], desk.now))
    desk.complete(desk.plan())
    assert [(one.key, one.state) for one in desk.tally.recent] == [
        ("old", "done"),
        ("again", "quarantined"),
        ("again", "done"),
    ]
    assert desk.tally.latency.shown is None

    desk.observe(page(read, listing_id=3))
    desk.complete(desk.plan())
    shown = desk.tally.latency.shown
    assert shown is not None
    assert (shown.objects, shown.max_seconds) == (1, DAY / 1000)


@pytest.mark.parametrize("outcome", [BatchOutcome.UNKNOWN, None])
def test_a_transaction_in_doubt_counts_once(outcome: BatchOutcome | None) -> None:
    """Of a sink's slot that has reported it, and of one that is lost without a word."""
    metrics = Metrics(dict)
    tally = SinkStatistics(metrics)
    if outcome is not None:
        tally.batch_finished(1, Finished(batch=7, outcome=outcome))
    tally.slot_lost(1, in_doubt=outcome is None)
    tally.unreported((sealed("a", 0, 2),))
    found = metrics.exposition().decode()
    assert 'headrace_transactions_total{outcome="unknown"} 1.0' in found
    assert 'headrace_sink_records_total{topic="t"} 3.0' in found
    assert tally.records == 3
