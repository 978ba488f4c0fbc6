"""A standby's ledger is read when somebody asks, followed while they do, and let go of afterwards."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.cache_files import collect_rows, find_cache_directory
from headrace.kafka.control_records import (
    PAUSE,
    SLOTS,
    TOPICS,
    Pause,
    SlotCount,
    TargetState,
    TopicsReset,
    encode_control,
)
from headrace.kafka.ledger_cache import LedgerCache, open_cache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import InvalidLedger, Unavailable
from headrace.model.ledger_entry import LedgerEntry, LedgerKey, State, encode_entry, encode_key
from headrace.model.objects import ObjectId
from headrace.model.sink_entries import PartitionCheckpoint, encode_sink_entry, key_of
from ingest.http.rest.port import NotLeading
from ingest.http.snapshot import Snapshot, SnapshotHolder
from ingest.service import standby
from ingest.service.rest_adapter import SourceAdapter, SourceLeadership
from ingest.service.sink.sink_lifecycle import SinkAdapter
from ingest.service.standby import InstanceSink, InstanceSource, StandbyLedger
from tests.support.until import until_sync

DONE = LedgerEntry(state=State.DONE, records=3, topic="events", size=10)


@dataclass(slots=True)
class Following:
    """A cache that nobody writes to, and the error that ended its reading."""

    cache: LedgerCache
    error: Exception | None = None
    closed: bool = False

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Raise what there is."""
        del timeout
        if self.error is not None:
            raise self.error
        return condition()

    def close(self) -> None:
        """Note it."""
        self.closed = True
        self.cache.close()


@dataclass(slots=True)
class Ledger:
    """Opens a new following each time, of these records; without any there is no ledger."""

    folder: Path
    records: dict[LedgerKey, bytes] = field(default_factory=dict)
    opened: list[Following] = field(default_factory=list)

    def open(self) -> Following | None:
        """The next one."""
        if not self.records:
            return None
        home = find_cache_directory(None, f"standby-{len(self.opened)}")
        cache = open_cache(
            home,
            LedgerIdentity(cluster_id="cluster", topic="orders-offsets", topic_id="topic"),
            ends=(0, 0),
            delete_retention_ms=1,
        )
        cache.apply(collect_rows([(encode_key(key), value) for key, value in self.records.items()]), 1)
        self.opened.append(Following(cache))
        return self.opened[-1]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Two slots, paused, one object."""
    return Ledger(
        tmp_path,
        {
            SLOTS: encode_control(SlotCount(slots=2)),
            PAUSE: encode_control(Pause(state=TargetState.PAUSED, at_ms=1)),
            ObjectId("bucket", "a.jsonl", "e"): encode_entry(DONE),
        },
    )


def instance(ledger: Ledger, *, role: str = "standby", tasks_max: int | None = None) -> InstanceSource:
    """A connector of an instance that does not lead."""
    leader = SourceAdapter(SnapshotHolder(Snapshot(name="orders", version="1", role=role)))
    return InstanceSource(leader, StandbyLedger(ledger.open), buckets=("bucket",), tasks_max=tasks_max)


def test_topics_count_from_the_last_reset_on(ledger: Ledger) -> None:
    """Of what was ingested before nothing is shown, of what came after all."""
    ledger.records[TOPICS] = encode_control(TopicsReset(at_ms=DONE.updated_ms))
    assert instance(ledger).topics() == []
    ledger.records[TOPICS] = encode_control(TopicsReset(at_ms=DONE.updated_ms - 1))
    assert instance(ledger).topics() == ["events"]


def test_topics_of_an_earlier_leadership_count_no_more(ledger: Ledger) -> None:
    """Another instance led between, and reset them, or has had objects for others."""
    adapter = SourceAdapter(SnapshotHolder(Snapshot(name="orders", version="1", role="leader")))

    def lead() -> None:
        assert ledger.open() is not None
        unused: Any = None
        adapter.lead(
            SourceLeadership(
                post=unused,
                lifecycle=unused,
                statistics=unused,
                cache=ledger.opened[-1].cache,
                buckets=("bucket",),
            )
        )

    lead()
    adapter.remember("remembered")
    assert adapter.topics() == ["events", "remembered"]
    adapter.stand_by()
    ledger.records[TOPICS] = encode_control(TopicsReset(at_ms=DONE.updated_ms))
    later = replace(DONE, topic="later", updated_ms=DONE.updated_ms + 1)
    ledger.records[ObjectId("bucket", "b.jsonl", "e")] = encode_entry(later)
    lead()
    assert adapter.topics() == ["later"]
    for following in ledger.opened:
        following.close()


def test_topics_of_a_sink_count_once_a_partition_has_moved_on(ledger: Ledger) -> None:
    """A reset keeps where each went on."""
    for number, topic in ((0, "a"), (1, "b")):
        start = PartitionCheckpoint(topic=topic, partition=number, topic_id=topic, offset=7)
        ledger.records[key_of(start)] = encode_sink_entry(start)
    leader = SinkAdapter(SnapshotHolder(Snapshot(name="orders", version="1", role="standby")))

    def topics() -> Sequence[str]:
        return InstanceSink(leader, StandbyLedger(ledger.open), tasks_max=None).topics()

    assert topics() == ["a", "b"]
    ledger.records[TOPICS] = encode_control(TopicsReset(at_ms=1, offsets=(("a", 0, 7), ("b", 1, 5))))

    assert topics() == ["b"]


def test_a_ledger_that_nothing_would_end_is_not_followed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the process may start no more threads for now; the next question follows it."""
    with monkeypatch.context() as patched:
        patched.setattr(threading.Timer, "start", _refuse)
        with pytest.raises(Unavailable, match="may start no more threads"):
            instance(ledger).topics()
    assert [one.closed for one in ledger.opened] == [True]
    assert instance(ledger).topics() == ["events"]


def _refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_standby_reads_and_changes_nothing(ledger: Ledger) -> None:
    """With one ledger for all questions."""
    it = instance(ledger)

    condition = it.condition()
    assert (condition.target, condition.slots) == (TargetState.PAUSED, ((0, False), (1, False)))
    assert condition.worker_id == "leader"
    assert instance(ledger, tasks_max=3).condition().slots[-1] == (2, False)
    assert it.topics() == ["events"]
    assert [known.object.id.key for known in it.offsets()] == ["a.jsonl"]
    assert len(ledger.opened) == 2

    for change in (
        it.require_leading,
        it.reset,
        lambda: it.steer(TargetState.RUNNING),
        lambda: it.restart([0]),
        lambda: it.restart_task(0),
        lambda: it.alter([]),
    ):
        with pytest.raises(NotLeading):
            change()


def test_a_stopped_one_has_no_tasks(ledger: Ledger) -> None:
    """As on the leader once all slots are given back."""
    ledger.records[PAUSE] = encode_control(Pause(state=TargetState.STOPPED, at_ms=1))

    assert instance(ledger, tasks_max=3).condition().slots == ()


@pytest.mark.parametrize("role", ["starting", "stopping"])
def test_who_does_not_stand_by_either_says_so(ledger: Ledger, role: str) -> None:
    """There may be no leader then, and what the ledger says is old."""
    with pytest.raises(NotLeading, match=role):
        instance(ledger, role=role).condition()
    assert ledger.opened == []


def test_a_ledger_that_is_not_there_yet_is_asked_for_again(ledger: Ledger) -> None:
    """The first leader makes it."""
    records, ledger.records = ledger.records, {}
    it = instance(ledger)
    with pytest.raises(NotLeading, match="no ledger yet"):
        it.condition()

    ledger.records = records
    assert it.condition().target is TargetState.PAUSED


def test_reading_that_ended_begins_again(ledger: Ledger) -> None:
    """A ledger that was made anew, for one."""
    it = instance(ledger)
    it.condition()
    ledger.opened[0].error = InvalidLedger("gone")

    assert it.condition().target is TargetState.PAUSED
    assert (len(ledger.opened), ledger.opened[0].closed) == (2, True)


def test_nobody_asks_and_nothing_is_followed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million entries are not kept for a question of yesterday."""
    monkeypatch.setattr(standby, "_IDLE_SECONDS", 0.2)
    it = instance(ledger)
    it.condition()
    until_sync(lambda: ledger.opened[0].closed, seconds=60, what="the end of following")

    assert it.condition().target is TargetState.PAUSED
    assert len(ledger.opened) == 2
