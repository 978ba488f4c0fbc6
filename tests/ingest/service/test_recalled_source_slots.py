"""A source's slot whose core another connector waits for: its turn is worth what it has cost."""

from typing import Any
from unittest.mock import Mock

import pytest

from headrace.model.slot_protocol import BatchOutcome, Checkpoint, Committed, Finished
from ingest.service.slot_states import SlotState
from ingest.service.slot_supervisor import SlotSupervisor
from spark.slots import BatchCommitted, BatchFinished, SlotRecalled
from tests.support.instants import at as instant

_RECALLED = SlotRecalled(slot=0, start=7)


def _commit(*, is_empty: bool = False) -> BatchCommitted:
    committed = Committed(
        batch=1,
        checkpoints=() if is_empty else (Mock(Checkpoint),),
        records_by_topic={},
        bad_by_reason={},
        fetched={},
        seconds=0.1,
    )
    return BatchCommitted(slot=0, start=7, committed=committed)


class _Slot:
    """A slot that was granted a batch at second 0."""

    def __init__(self) -> None:
        self.now = 0.0
        components: Any = Mock()
        components.statistics.deaths.has_failed_starts = False
        components.planner.ready.return_value = 0
        components.planner.next_batch.return_value = ()
        self._supervisor = SlotSupervisor(components, slots=1, max_batch_seconds=30.0, now=lambda: self.now)
        self._supervisor.slots.started(0, 7)
        self._supervisor.slots.granted(0, 1, 0.0)
        self._end = components.slot_pool.end
        self._moved_at = components.slot_pool.moved_at
        self.moves(0.0)

    def moves(self, at: float) -> None:
        """Its task has read something then."""
        self._moved_at.return_value = at

    def take(self, event: Any, at: float) -> bool:
        """Whether it is asked to end by then."""
        self.now = at
        self._supervisor.take(event)
        return self.is_asked(at)

    def is_asked(self, at: float) -> bool:
        """The same without an event."""
        self.now = at
        self._supervisor.plan(instant(0))
        return bool(self._end.called)

    @property
    def state(self) -> SlotState:
        """What it does."""
        return self._supervisor.slots[0].state


def test_one_that_commits_all_the_time_ends_at_once() -> None:
    """As before: most objects resume where they were left."""
    slot = _Slot()
    slot.take(_commit(), 1.0)
    assert slot.take(_RECALLED, 15.0)


def test_one_that_has_just_read_what_lies_before_reads_on_for_as_long() -> None:
    """Of a compressed object each turn read all before again, and one batch of rows more."""
    slot = _Slot()
    assert not slot.take(_RECALLED, 15.0)
    assert not slot.take(_commit(), 100.0)
    assert not slot.take(_commit(), 199.0)
    assert slot.is_asked(200.0)


def test_a_transaction_that_held_nothing_is_no_commit() -> None:
    """It is begun before rows come, and due a second later: each turn ended where it had begun."""
    slot = _Slot()
    slot.take(_commit(is_empty=True), 1.0)
    slot.moves(15.0)
    assert not slot.take(_RECALLED, 15.0)


def test_one_that_reads_comes_to_where_its_object_was_left() -> None:
    """Ended before, it read the same again in each turn, and never came there."""
    slot = _Slot()
    slot.take(_RECALLED, 15.0)
    for at in range(20, 900, 10):
        slot.moves(at - 5.0)
        assert not slot.is_asked(at)
    assert not slot.take(_commit(), 900.0)
    assert slot.is_asked(1800.0)


@pytest.mark.parametrize(("at", "is_asked"), [(130.0, False), (130.1, True)])
def test_one_that_reads_nothing_is_not_waited_for(at: float, *, is_asked: bool) -> None:
    """S3 may be away: it kept its core for five minutes."""
    slot = _Slot()
    slot.take(_RECALLED, 15.0)
    slot.moves(100.0)
    assert slot.is_asked(at) is is_asked


def test_the_others_do_not_wait_without_end() -> None:
    """Its object may have no rows at all, and a terabyte."""
    slot = _Slot()
    slot.take(_RECALLED, 15.0)
    slot.moves(3610.0)
    assert (slot.is_asked(3615.0), slot.is_asked(3615.1)) == (False, True)


def test_one_whose_batch_is_over_gets_no_other() -> None:
    """It is asked to end first."""
    slot = _Slot()
    slot.take(_RECALLED, 15.0)
    finished = Finished(batch=1, outcome=BatchOutcome.CLEAN)
    assert slot.take(BatchFinished(slot=0, start=7, finished=finished), 20.0)
