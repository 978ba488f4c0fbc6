"""`last_error` of `/status`: the last sentence of `problems`, also when it is over."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.kafka.control_records import TargetState
from headrace.model.errors import LeadershipLost
from headrace.model.sink_protocol import SinkProgress
from ingest.http.metrics import Metrics
from ingest.http.snapshot import Snapshot, SnapshotHolder
from ingest.service.leading import void_slots
from ingest.service.sink.sink_leader import SinkLeader
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.slot_states import SlotStates
from ingest.service.statistics import CommonStatistics, Statistics
from ingest.sink.partitions import ArchiveCounts, PartitionCondition, PartitionStatus

STOPPED = "orders-0 is at offset 7 (not_json): it is no JSON."
AWAY = "s3://backup/a.gz could not be written for now (503)."


@dataclass(slots=True)
class Archive:
    """One with these problems, and a partition in each of these conditions."""

    sentences: tuple[str, ...] = ()
    conditions: tuple[PartitionCondition, ...] = ()

    def counts(self, _now_ms: int) -> ArchiveCounts:
        """None."""
        return ArchiveCounts(
            partitions=0,
            conditions={},
            lag=0,
            entries=0,
            pending_objects=0,
            quarantined_objects=0,
            oldest_pending_ms=None,
        )

    def partitions(self) -> tuple[PartitionStatus, ...]:
        """One for each condition."""
        return tuple(
            PartitionStatus(
                topic="orders",
                partition=number,
                condition=condition,
                slot=None,
                offset=0,
                position=0,
                end=9,
                lag=9,
                pending_objects=0,
                quarantined_objects=0,
                detail=None,
            )
            for number, condition in enumerate(self.conditions)
        )

    def problems(self, _now_ms: int) -> tuple[str, ...]:
        """What a test says."""
        return self.sentences


@dataclass(slots=True)
class Led:
    """A sink that leads, as far as what it shows is concerned."""

    archive: Archive = field(default_factory=Archive)
    holder: SnapshotHolder = field(default_factory=lambda: SnapshotHolder(Snapshot(name="a", version="1")))
    statistics: SinkStatistics = field(default_factory=lambda: SinkStatistics(Metrics(dict)))
    process: Any = None
    taken: Any = None

    def __post_init__(self) -> None:
        settings = SimpleNamespace(kafka=SimpleNamespace(client=lambda _kind: {}))
        self.process = SimpleNamespace(
            settings=settings,
            snapshot_holder=self.holder,
            metrics=Metrics(dict),
            statistics=Statistics(Metrics(dict)),
        )
        self.taken = SimpleNamespace(
            process=self.process,
            inbox=None,
            give_up=lambda: None,
            slot_pool=SimpleNamespace(close=lambda _seconds: None),
        )

    def lead(self) -> SinkLeader:
        """A leadership."""
        sink: Any = None
        connector: Any = None
        return SinkLeader(self.taken, sink, self.statistics, connector)

    def shown(self, leader: SinkLeader) -> str | None:
        """The last error, once the leader has shown how it is."""
        running: Any = SimpleNamespace(
            archive=self.archive,
            missing=SimpleNamespace(names=()),
            lifecycle=SimpleNamespace(target=TargetState.RUNNING),
            slots=SimpleNamespace(slots=SlotStates(1), is_at_rest=False),
        )
        leader._publish(running)
        return self.holder.snapshot.last_error

    def report(self, **problems: str) -> None:
        """Slot 0 says where it is."""
        self.statistics.progress(
            0,
            SinkProgress(
                batch=1,
                positions={},
                ends={},
                open_objects=0,
                pending_objects=0,
                buffered_bytes=0,
                spilled_bytes=0,
                oldest_open_ms=None,
                problems=problems,
            ),
        )


def test_what_slots_and_partitions_of_a_sink_report_is_its_last_error() -> None:
    """When it begins, and when it is over."""
    led = Led()
    leader = led.lead()
    assert led.shown(leader) is None
    led.report(s3=AWAY)
    assert led.shown(leader) == AWAY
    led.report()
    assert led.shown(leader) == AWAY
    led.archive.sentences = (STOPPED,)
    assert led.shown(leader) == STOPPED
    led.archive.sentences = ()
    assert led.shown(leader) == STOPPED
    assert not led.holder.snapshot.problems


def test_partitions_that_need_an_operator_are_a_metric() -> None:
    """One that a record stops, and one whose offsets cannot be right; it is 0 once they continue."""
    led = Led()
    leader = led.lead()
    led.archive.conditions = tuple(PartitionCondition)
    led.shown(leader)
    name = b"\nheadrace_sink_stopped_partitions"
    assert name + b" 2.0\n" in led.process.metrics.exposition()
    led.archive.conditions = (PartitionCondition.GRANTED, PartitionCondition.WAITING)
    led.shown(leader)
    assert name + b" 0.0\n" in led.process.metrics.exposition()


def test_a_lead_that_is_lost_is_the_last_error_until_another_begins() -> None:
    """Of a sink too, whose standby counts its problems elsewhere."""
    led = Led()
    leader = led.lead()
    led.archive.sentences = (STOPPED,)
    assert led.shown(leader) == STOPPED

    lost = LeadershipLost("another one leads")
    void_slots(led.taken, lost, adapter=SimpleNamespace(stand_by=lambda: None), statistics=led.statistics)
    assert led.holder.snapshot.last_error == "another one leads"

    led.archive.sentences = ()
    again = led.lead()
    assert led.shown(again) == "another one leads"
    led.report(s3=AWAY)
    assert led.shown(again) == AWAY


@pytest.mark.parametrize("statistics", [Statistics(Metrics(dict)), SinkStatistics(Metrics(dict))])
def test_the_last_to_begin_is_the_last_error(statistics: CommonStatistics) -> None:
    """One that counts on, or names another object, does not begin by that; and one that comes back does."""
    first, second = {"a": "It waits for 5 s."}, {"b": "s3://b/c d.gz is refused (503)."}
    assert statistics.last_of(first) == first["a"]
    assert statistics.last_of({**first, **second}) == second["b"]
    assert statistics.last_of({"a": "It waits for 6 s.", "b": "s3://b/e.gz is refused (503)."}) == second["b"]
    assert statistics.last_of(second) == second["b"]
    assert statistics.last_of({"a": "It waits for 1 s.", **second}) == "It waits for 1 s."
    assert statistics.last_of({}) == "It waits for 1 s."
