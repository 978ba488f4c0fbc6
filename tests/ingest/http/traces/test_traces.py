"""One trace an object, of the times that the driver knows."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.model.ledger_entry import LedgerEntry, SplitKey, State
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.sink_entries import SealedObject, Upload, Verdict
from headrace.model.sink_protocol import ObjectTimes, SinkCommitted, SinkCompleted
from headrace.model.slot_protocol import BatchOutcome, Checkpoint, Committed, Failure, Finished, Split
from ingest.http.metrics import Metrics
from ingest.http.traces.object_traces import SinkTraces, SourceTraces, Trace
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.statistics import Statistics
from ingest.source.catalogue import FinishedObject
from tests.support.instants import STEADY_AHEAD_MS, MovedClock, at

SECOND = 1_000_000_000
ONE = ObjectId("bucket", "a\n.jsonl", "e1")


def _split(object_id: ObjectId = ONE, begin: int | None = None) -> Split:
    known = S3Object(id=object_id, size=9, last_modified_ms=990_000)
    return Split(object=known, route=Route(topic="t"), begin=begin, end=None if begin is None else begin + 5)


def _committed(batch: int, *keys: ObjectId | SplitKey, seconds: float = 1.0) -> Committed:
    entry = LedgerEntry(state=State.DONE)
    return Committed(
        batch=batch,
        checkpoints=tuple(Checkpoint(key=key, entry=entry) for key in keys),
        records_by_topic={},
        bad_by_reason={},
        fetched={},
        seconds=seconds,
    )


def _ended(entry: LedgerEntry, *, is_announced: bool = True) -> FinishedObject:
    return FinishedObject(
        id=ONE, entry=entry, since_ms=1_000_000 + STEADY_AHEAD_MS, seen_ms=990_000, is_announced=is_announced
    )


DONE = LedgerEntry(state=State.DONE, records=3, size=9, topic="t", version_id="v7")


def _spans(trace: Trace) -> list[tuple[str, float, float]]:
    return [(step.name, step.start_ns / SECOND, step.end_ns / SECOND) for step in (trace.root, *trace.steps)]


def _source(act: Callable[[Statistics, MovedClock], None]) -> list[Trace]:
    """What a source's statistics send while this happens, which began at second 1,000."""
    sent: list[Trace] = []
    clock = MovedClock(1_000)
    statistics = Statistics(Metrics(dict))
    statistics.traces = SourceTraces(sent.append, lambda: int(clock() * SECOND))
    act(statistics, clock)
    return sent


def test_an_objects_way_through_a_source() -> None:
    """Announced, waited, read, committed; the transaction's length is the task's own."""

    def act(statistics: Statistics, clock: MovedClock) -> None:
        clock.now = 1_002
        statistics.granted(1, 4, [_split()])
        clock.now = 1_005
        statistics.committed(_committed(1, ONE, seconds=0.5))
        statistics.ended([_ended(DONE)], at(1_005_000))

    (trace,) = _source(act)

    assert _spans(trace) == [
        ("ingest", 990, 1_005),
        ("announce", 990, 1_000),
        ("wait", 1_000, 1_002),
        ("read", 1_002, 1_005),
        ("commit", 1_004.5, 1_005),
    ]
    assert trace.root.attributes == {
        "aws.s3.bucket": "bucket",
        "aws.s3.key": "a\\n.jsonl",
        "headrace.object.version_id": "v7",
        "messaging.destination.name": "t",
        "headrace.rows": 3,
        "headrace.bad_rows": 0,
        "headrace.bytes": 9,
        "headrace.outcome": "done",
        "headrace.found_by": "event",
        "headrace.attempts": 0,
    }


def test_a_transaction_that_began_before_the_read_is_shown_from_there() -> None:
    """Until then it was about the objects before."""

    def act(statistics: Statistics, clock: MovedClock) -> None:
        clock.now = 1_002
        statistics.granted(1, 4, [_split()])
        clock.now = 1_005
        statistics.committed(_committed(1, ONE, seconds=4.0))
        statistics.ended([_ended(DONE)], at(1_005_000))

    (trace,) = _source(act)

    assert _spans(trace)[-2:] == [("read", 1_002, 1_005), ("commit", 1_002, 1_005)]


def test_an_object_of_last_year_begins_when_it_was_listed() -> None:
    """LastModified is no part of its way."""

    def act(statistics: Statistics, clock: MovedClock) -> None:
        clock.now = 1_002
        statistics.ended([_ended(DONE, is_announced=False)], at(1_002_000))

    (trace,) = _source(act)
    assert _spans(trace) == [("ingest", 1_000, 1_002), ("wait", 1_000, 1_002)]


def test_what_was_restored_begins_with_its_event() -> None:
    """Its upload is no part of its way."""

    def act(statistics: Statistics, clock: MovedClock) -> None:
        clock.now = 1_002
        statistics.ended([replace(_ended(DONE), is_replayed=True)], at(1_002_000))

    (trace,) = _source(act)
    assert _spans(trace) == [("ingest", 1_000, 1_002), ("wait", 1_000, 1_002)]


def test_reads_that_failed_or_were_lost_are_errors() -> None:
    """And the end of a quarantined object is one of the whole."""

    def act(statistics: Statistics, clock: MovedClock) -> None:
        statistics.granted(1, 0, [_split()])
        clock.now = 1_001
        statistics.slot_lost(1)
        statistics.granted(2, 1, [_split()])
        clock.now = 1_003
        failure = Failure(work=_split(), kind="ObjectDamaged", message="cut\tshort")
        statistics.batch_finished(
            Finished(batch=2, outcome=BatchOutcome.CLEAN, failures=(failure,)), seconds=2.0
        )
        entry = LedgerEntry(state=State.QUARANTINED, reason="damaged", error="cut short")
        statistics.ended([_ended(entry)], at(1_003_000))

    (trace,) = _source(act)
    assert trace.root.error == "cut short"
    reads = [step for step in trace.steps if step.name == "read"]
    assert [(read.end_ns / SECOND, read.error) for read in reads] == [
        (1_001, "its slot was lost"),
        (1_003, "cut\\tshort"),
    ]


def test_hundreds_of_splits_are_one_trace_of_bounded_length() -> None:
    """Its transactions are counted."""

    def act(statistics: Statistics, clock: MovedClock) -> None:
        for number in range(300):
            statistics.granted(number, number % 4, [_split(begin=number * 5)])
        for number in range(300):
            clock.now += 0.01
            statistics.committed(_committed(number, SplitKey(ONE, number * 5, number * 5 + 5)))
            statistics.batch_finished(Finished(batch=number, outcome=BatchOutcome.CLEAN), seconds=1.0)
        statistics.ended([_ended(DONE)], at(1_003_000))

    (trace,) = _source(act)
    assert [step.name for step in trace.steps].count("read") == 16
    assert trace.steps[-1].attributes == {"headrace.transactions": 300}


def test_the_trace_waits_for_the_post_action() -> None:
    """Until the lead is lost: then it is told without."""
    owed = LedgerEntry(state=State.DONE, action="delete")

    def acted(statistics: Statistics, clock: MovedClock) -> None:
        statistics.ended([_ended(owed)], at(1_000_000))
        clock.now = 1_004
        statistics.acted([ONE, ObjectId("bucket", "of another leadership", "e")])

    (trace,) = _source(acted)
    assert _spans(trace)[0] == ("ingest", 990, 1_004)
    assert _spans(trace)[-1] == ("post-action", 1_000, 1_004)

    def lost(statistics: Statistics, _clock: MovedClock) -> None:
        statistics.ended([_ended(owed)], at(1_000_000))
        statistics.leadership_ended()
        statistics.acted([ONE])

    (trace,) = _source(lost)
    assert trace.steps[-1].name == "wait"


def _sealed(object_id: str) -> SealedObject:
    return SealedObject(
        id=object_id,
        topic="t",
        partition=2,
        topic_id="i",
        group="",
        first_offset=10,
        last_offset=19,
        records=10,
        bytes=500,
        uploads=(Upload(key="t/2/10.jsonl", upload_id="u", parts=('"e"',)),),
        options="o",
        sealed_ms=1_003_000,
        bucket="bucket",
    )


def _sink(reports: Iterable[tuple[float, SinkCommitted | SinkCompleted]]) -> list[Trace]:
    sent: list[Trace] = []
    clock = MovedClock(1_000)
    statistics = SinkStatistics(Metrics(dict))
    statistics.traces = SinkTraces(sent.append, lambda: int(clock() * SECOND))
    for seconds, report in reports:
        clock.now = seconds
        if isinstance(report, SinkCommitted):
            statistics.committed(report)
        else:
            statistics.completed(report)
    clock.now = 1_010
    statistics.left_object_ended(_sealed("of a lost slot"), Verdict.COMPLETE)
    return sent


def _sink_committed(*ids: str) -> SinkCommitted:
    return SinkCommitted(
        batch=1,
        objects=tuple(map(_sealed, ids)),
        checkpoints=(),
        records_by_topic={},
        bad_by_reason={},
        seconds=0.5,
        times={one: ObjectTimes(opened_ms=1_000_000, closed_ms=1_002_000) for one in ids},
    )


def test_an_objects_way_through_a_sink() -> None:
    """Open, sealed, committed, completed; of one that a slot has left, what is known."""
    committed = _sink_committed("good", "bad")
    ended = SinkCompleted(batch=1, ids=("good",), quarantined=(("bad", "name_taken"),))
    good, bad, left = _sink([(1_004, committed), (1_006, ended)])

    assert _spans(good) == [
        ("archive", 1_000, 1_006),
        ("open", 1_000, 1_002),
        ("seal", 1_002, 1_003.5),
        ("commit", 1_003.5, 1_004),
        ("complete", 1_004, 1_006),
    ]
    assert good.root.attributes == {
        "aws.s3.bucket": "bucket",
        "aws.s3.key": "t/2/10.jsonl",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "2",
        "headrace.first_offset": 10,
        "headrace.last_offset": 19,
        "headrace.rows": 10,
        "headrace.bytes": 500,
        "headrace.outcome": "complete",
    }
    assert (bad.root.error, bad.root.attributes["headrace.outcome"]) == ("name_taken", "quarantined")
    assert _spans(left) == [("archive", 1_003, 1_010), ("complete", 1_003, 1_010)]
