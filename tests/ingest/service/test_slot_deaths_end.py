"""The deaths of slots are over with what they died with, though none of those slots gets more to do."""

from typing import Any

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.slot_protocol import Batch, BatchOutcome, Checkpoint, Committed, Failure, Finished, Split
from ingest.http.metrics import Metrics
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.slot_states import SlotDeaths, SlotState
from ingest.service.slot_supervisor import SlotComponents, SlotSupervisor
from ingest.service.statistics import Statistics
from ingest.sink.partitions import PartitionCondition, PartitionStatus
from ingest.source.catalogue import Effects
from ingest.source.planner import BatchLimits
from spark.slots import BatchCommitted, BatchFinished, SlotEnded, SlotReady
from tests.ingest.source.catalogue.desk import Desk, event
from tests.support.instants import MovedClock


class _Pool:
    """Takes every start and batch."""

    def __init__(self) -> None:
        self.starts = 0
        self.granted: dict[int, tuple[Split, ...]] = {}

    def start(self, _: int) -> int:
        """Its number."""
        self.starts += 1
        return self.starts

    def grant(self, slot: int, batch: Batch) -> bool:
        """The slot has it."""
        self.granted[slot] = batch.splits
        return True

    def void(self, slot: int) -> None:
        """Nothing runs."""

    def forget_worker(self, slot: int) -> None:
        """Nothing is remembered."""


class _Recovery:
    def __init__(self) -> None:
        self.slots: list[int] = []

    def submit(self, slot: int) -> None:
        """To be recovered by the test."""
        self.slots.append(slot)


class _CountingDesk(Desk):
    """Counts what the driver has written."""

    statistics: Statistics | None = None

    def do(self, effects: Effects) -> Effects:
        """As the service does, in a moment."""
        if self.statistics is not None:
            self.statistics.written(effects.writes)
        return super().do(effects)


def _committed(batch: int, records: dict[str, int], *checkpoints: Checkpoint) -> Committed:
    return Committed(
        batch=batch,
        checkpoints=checkpoints,
        records_by_topic=records,
        bad_by_reason={},
        fetched={},
        seconds=0.1,
    )


class _Source:
    """A source's slots over the real catalogue and planner; each batch kills its worker."""

    def __init__(self, slots: int) -> None:
        self.desk = _CountingDesk(limits=BatchLimits(slots=slots))
        self.statistics = self.desk.statistics = Statistics(Metrics(dict))
        self.clock = MovedClock()
        self.statistics.deaths = SlotDeaths(self.clock)
        self._recovery = _Recovery()
        self._pool = _Pool()
        pool: Any = self._pool
        recovery: Any = self._recovery
        components = SlotComponents(
            planner=self.desk.planner,
            slot_pool=pool,
            recovery=recovery,
            statistics=self.statistics,
            metadata=lambda: b"",
            remember=lambda _: None,
            create_topics=lambda _: None,
            apply=self._apply,
            clock=lambda: self.desk.now,
        )
        self.supervisor = SlotSupervisor(components, slots=slots, max_batch_seconds=10)
        self.slots = range(slots)
        self.refuses: set[int] = set()
        """Slots whose starts fail."""

    def _apply(self, effects: Effects) -> None:
        self.desk.do(effects)

    def turn(self, *, kills: bool = True) -> None:
        """A second, in which each slot that has a batch dies with it."""
        self.desk.now_ms += 1000
        self.clock.now += 1
        self.plan()
        for slot in self.slots:
            if self._state(slot) is SlotState.STARTING:
                self._end(slot) if slot in self.refuses else self._ready(slot)
            if kills and self._state(slot) is SlotState.BUSY:
                self._end(slot)
        while self._recovery.slots:
            for key, entry in self.desk.ledger.follow():
                self.desk.catalogue.on_ledger_record(key, entry)
            self.supervisor.recovered(self._recovery.slots.pop())

    def plan(self) -> None:
        """What the loop does at the end of each turn."""
        self.desk.tick()
        self.supervisor.plan(self.desk.now)

    def end_if_busy(self, slot: int) -> bool:
        """Whether the slot had a batch to die with."""
        is_busy = self._state(slot) is SlotState.BUSY
        if is_busy:
            self._end(slot)
        return is_busy

    def finish_if_busy(self, slot: int) -> None:
        """Everything of the slot's batch is committed, where it has one."""
        if self._state(slot) is SlotState.BUSY:
            self.finish(slot)

    def finish(self, slot: int, **records: int) -> None:
        """Everything of the slot's batch is committed, with so many records by topic."""
        state = self.supervisor.slots[slot]
        assert state.start is not None
        assert state.plan is not None
        done = [
            Checkpoint(key=one.object.id, entry=LedgerEntry(state=State.DONE))
            for one in self._pool.granted[slot]
        ]
        self.supervisor.take(
            BatchCommitted(slot=slot, start=state.start, committed=_committed(state.plan, records, *done))
        )
        finished = Finished(batch=state.plan, outcome=BatchOutcome.CLEAN)
        self.supervisor.take(BatchFinished(slot=slot, start=state.start, finished=finished))
        self.plan()

    def miss(self, slot: int, topic: str) -> None:
        """The first object of the slot's batch fails for a topic, as those after it do."""
        state = self.supervisor.slots[slot]
        assert state.start is not None
        assert state.plan is not None
        failed = [
            Failure(work=one, kind="TopicMissing", message=f"no {topic}", topic=topic)
            for one in self._pool.granted[slot]
        ]
        finished = Finished(batch=state.plan, outcome=BatchOutcome.CLEAN, failures=tuple(failed))
        self.supervisor.take(BatchFinished(slot=slot, start=state.start, finished=finished))
        self.plan()

    def _ready(self, slot: int) -> None:
        start = self.supervisor.slots[slot].start
        assert start is not None
        self.supervisor.take(SlotReady(slot=slot, start=start))
        self.plan()

    def _end(self, slot: int) -> None:
        start = self.supervisor.slots[slot].start
        assert start is not None
        self.supervisor.take(SlotEnded(slot=slot, start=start, clean=False, error="It was killed"))

    def _state(self, slot: int) -> SlotState:
        return self.supervisor.slots[slot].state


@pytest.mark.parametrize("slots", [1, 2])
def test_an_object_that_kills_is_no_problem_once_it_is_quarantined(slots: int) -> None:
    """In a quiet bucket no slot commits afterwards: they end with time. Each attempt counts as failed."""
    source = _Source(slots)
    source.desk.announce("m", event("killer"))
    for _ in range(60):
        source.turn()

    entry = source.desk.entry("killer")
    assert entry is not None
    assert entry.state is State.QUARANTINED
    assert source.statistics.problems
    for _ in range(300):
        source.turn()
    assert source.statistics.problems == {}
    assert 'headrace_objects_total{reason="worker_died",state="failed"} 3.0' in _exposition(source.statistics)


def test_a_slot_that_dies_with_all_it_is_given_is_a_problem_though_another_one_does_it() -> None:
    """Each object comes to its end at the other slot, so what a slot died with is over each time."""
    source = _Source(2)
    deaths, shown = 0, 0
    for number in range(200):
        for each in "ab" if number % 5 == 0 else "":
            source.desk.announce(f"{each}{number}", event(f"{each}{number}"))
        source.turn(kills=False)
        deaths += source.end_if_busy(0)
        source.finish_if_busy(1)
        shown += "slot 0" in source.statistics.problems

    assert deaths >= 20
    assert shown > 170, "from its third death on"


def _exposition(statistics: Statistics) -> str:
    return statistics._metrics.exposition().decode()


def test_starts_that_failed_are_no_problem_once_none_is_wanted() -> None:
    """They are as long as a slot is at work, or an object waits."""
    source = _Source(2)
    source.refuses = {0, 1}
    source.desk.announce("m", event("a"))
    for _ in range(5):
        source.turn(kills=False)
    assert set(source.statistics.problems) == {"the start of slot 0"}
    statistics = source.statistics
    for _ in range(3):
        statistics.slot_died(1, None, "It was killed")
    source.refuses = set()
    source.turn(kills=False)
    assert set(statistics.problems) == {"the start of slot 1"}, "slot 0 is at work"

    source.finish(0)
    assert statistics.problems == {}


def _status(
    partition: int,
    offset: int,
    *,
    slot: int | None,
    lag: int = 5,
    free: PartitionCondition = PartitionCondition.WAITING,
    is_gone: bool = False,
) -> PartitionStatus:
    return PartitionStatus(
        topic="t",
        partition=partition,
        condition=free if slot is None else PartitionCondition.GRANTED,
        slot=slot,
        offset=offset,
        position=None,
        end=offset + lag,
        lag=lag,
        pending_objects=0,
        quarantined_objects=0,
        detail=None,
        is_gone=is_gone,
    )


_MISSING, _REFUSED = PartitionCondition.MISSING, PartitionCondition.REFUSED


@pytest.mark.parametrize(
    ("now", "is_at_rest", "is_over"),
    [
        pytest.param((_status(0, 7, slot=1), _status(1, 8, slot=0)), False, False, id="one is where it was"),
        pytest.param((_status(0, 8, slot=1), _status(1, 8, slot=0)), False, True, id="both got further"),
        pytest.param((_status(0, 7, slot=1, lag=0),), False, True, id="idle at another, and gone"),
        pytest.param((_status(0, 7, slot=0, lag=0),), False, False, id="idle at the same"),
        pytest.param((_status(0, 7, slot=None, lag=0),), False, False, id="idle, waits for a slot"),
        pytest.param((_status(0, 7, slot=None, lag=0),), True, True, id="idle, no slot is wanted"),
        pytest.param((_status(0, 7, slot=None),), False, False, id="waits for a slot"),
        pytest.param((_status(0, 7, slot=None),), True, True, id="paused"),
        pytest.param((_status(0, 7, slot=None, lag=0, free=_MISSING),), True, False, id="for a moment"),
        pytest.param((_status(0, 7, slot=None, free=_MISSING, is_gone=True),), False, True, id="deleted"),
        pytest.param((_status(0, 7, slot=None, free=_REFUSED),), False, True, id="a problem of its own"),
    ],
)
def test_a_sinks_partitions_that_got_further_at_other_slots(
    now: tuple[PartitionStatus, ...], is_at_rest: bool, is_over: bool
) -> None:
    """The slot itself may hold none of them again. Those that it did not hold say nothing."""
    statistics, clock = SinkStatistics(Metrics(dict)), MovedClock()
    statistics.deaths = SlotDeaths(clock)
    held = (_status(0, 7, slot=0), _status(1, 7, slot=0), _status(2, 7, slot=1))
    for _ in range(3):
        statistics.slot_died(0, "t-0 and t-1", "It was killed", held)
    statistics.look_at(lambda: held, is_at_rest=True)
    assert set(statistics.problems) == {"slot 0"}

    shown = (*now, _status(2, 7, slot=1))
    statistics.look_at(lambda: shown, is_at_rest=is_at_rest)
    assert set(statistics.problems) == {"slot 0"}, "it may die with all that it is given"
    clock.now += 301
    statistics.look_at(lambda: shown, is_at_rest=is_at_rest)
    assert (statistics.problems == {}) is is_over


def test_a_topic_is_named_until_records_of_a_transaction_have_gone_there() -> None:
    """Dead letters are records, too; those of other topics say nothing about it."""
    source = _Source(1)
    catalogue = source.desk.catalogue
    source.desk.announce("m", event("bad"))
    source.turn(kills=False)
    source.turn(kills=False)
    source.miss(0, "dead")
    for topic, named in (("topic", {"dead": "no dead"}), ("dead", {})):
        source.desk.announce(topic, event(f"{topic} 1"), event(f"{topic} 2"))
        source.plan()
        source.finish(0, **{topic: 1})
        assert catalogue.missing_topics == named
