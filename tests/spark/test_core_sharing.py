"""Whose turn it is for a core: idle slots go first, nobody goes while a core is free."""

import queue
import threading
from dataclasses import dataclass, field

import pytest

from spark.slots import SlotPool
from spark.slots.slot_attempt import (
    AttemptState,
    CoreSharing,
    SlotAttempt,
    SlotEnded,
    SlotEvent,
    SlotHolding,
    holding_of,
    to_recall,
    to_release,
)
from spark.task.entry import NoWork, SlotFunction

NOW = 1000.0


@dataclass(eq=False)
class Pool:
    """A connector's slots, by name."""

    name: str
    starts: list[SlotAttempt] = field(default_factory=list)
    is_closed: bool = False
    recalled: list[tuple[int, int]] = field(default_factory=list)
    released: list[tuple[int, int]] = field(default_factory=list)

    def holdings(self) -> list[SlotHolding]:
        """Of its starts."""
        return [holding_of(self, start) for start in self.starts]

    def recall(self, slot: int, number: int) -> None:
        """Noted."""
        self.recalled.append((slot, number))

    def release(self, slot: int, number: int) -> None:
        """Noted."""
        self.released.append((slot, number))


class Jobs:
    """Spark that has each task end at once."""

    bind = advertise = "127.0.0.1"
    is_local = True
    slots = 1

    def __init__(self) -> None:
        self.groups: list[str] = []

    def run(self, function: SlotFunction, *, group: str, pool: str, tasks: int = 1) -> list[str]:
        """Noted."""
        del function, pool, tasks
        self.groups.append(group)
        return []

    def cancel(self, group: str) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing runs."""


A, B, C = Pool("a"), Pool("b"), Pool("c")
STARTING, READY, BUSY, ENDING = (
    AttemptState.STARTING,
    AttemptState.READY,
    AttemptState.BUSY,
    AttemptState.ENDING,
)


def holding(
    pool: Pool,
    slot: int,
    stage: AttemptState,
    ago: float,
    *,
    ending: float | None = None,
    is_held: bool = False,
) -> SlotHolding:
    """A slot that is at it since so many seconds, and was asked to end so many seconds ago."""
    return SlotHolding(
        pool=pool,
        slot=slot,
        number=slot,
        stage=stage,
        since=NOW - ago,
        ending_since=None if ending is None else NOW - ending,
        is_held=is_held,
    )


def held(pool: Pool, slot: int, ago: float) -> SlotHolding:
    """A start that is held back since so many seconds."""
    return holding(pool, slot, STARTING, ago, is_held=True)


@pytest.mark.parametrize(
    ("holdings", "recalled"),
    [
        pytest.param([holding(A, 0, READY, 20), holding(B, 0, READY, 9)], [], id="nobody waits"),
        pytest.param([holding(A, 0, READY, 20), holding(B, 0, STARTING, 9)], [], id="a core is free"),
        pytest.param(
            [holding(A, 0, READY, 3), holding(A, 1, READY, 5), holding(B, 0, STARTING, 1)],
            [("a", 1)],
            id="the longest idle",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 99), holding(A, 1, READY, 0), holding(B, 0, STARTING, 1)],
            [("a", 1)],
            id="idle before busy",
        ),
        pytest.param(
            [holding(A, 0, READY, 3), holding(A, 1, READY, 5), holding(B, 0, STARTING, 0.1)],
            [],
            id="who has just come is about to get a core",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 30), holding(A, 1, BUSY, 40), holding(B, 0, STARTING, 1)],
            [("a", 1)],
            id="who works longest, after its turn",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 10), holding(A, 1, BUSY, 10), holding(B, 0, STARTING, 9)],
            [],
            id="a turn is not cut short",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 30), holding(A, 1, BUSY, 30), holding(A, 2, STARTING, 9)],
            [],
            id="nobody makes room for itself",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 30, ending=9), holding(A, 1, BUSY, 30), holding(B, 0, STARTING, 9)],
            [],
            id="one is on its way out for who waits",
        ),
        pytest.param(
            [holding(A, 0, BUSY, 99, ending=31), holding(B, 0, BUSY, 30), holding(C, 0, STARTING, 40)],
            [("b", 0)],
            id="who is kept from ending is not waited for",
        ),
        pytest.param(
            [
                holding(A, 0, BUSY, 99, ending=60),
                holding(B, 0, BUSY, 30, ending=1),
                holding(C, 0, STARTING, 9),
            ],
            [],
            id="the next one is on its way out",
        ),
        pytest.param(
            [holding(A, 0, ENDING, 99, ending=31), holding(B, 0, READY, 2), holding(C, 0, STARTING, 40)],
            [("b", 0)],
            id="nor is a task that ends and does not",
        ),
        pytest.param(
            [
                holding(A, 0, BUSY, 30),
                holding(B, 0, BUSY, 99),
                holding(A, 1, BUSY, 20),
                holding(C, 0, STARTING, 9),
            ],
            [("a", 0)],
            id="who has most gives first",
        ),
    ],
)
def test_who_gives_its_core_back(holdings: list[SlotHolding], recalled: list[tuple[str, int]]) -> None:
    """With two cores."""
    found = to_recall(holdings, cores=2, now=NOW)

    assert [(one.pool.name, one.slot) for one in found if isinstance(one.pool, Pool)] == recalled


@pytest.mark.parametrize(
    ("holdings", "released"),
    [
        pytest.param([held(A, 0, 1), holding(B, 0, STARTING, 16), holding(C, 0, BUSY, 9)], [], id="late"),
        pytest.param([held(A, 0, 1), holding(B, 0, STARTING, 14)], [("a", 0)], id="not late yet"),
        pytest.param([held(A, 0, 20), holding(B, 0, STARTING, 16)], [("a", 0)], id="late, and younger"),
        pytest.param([held(A, 0, 20), held(B, 0, 30)], [("b", 0)], id="the oldest of those held"),
        pytest.param([held(A, 0, 1), holding(B, 0, BUSY, 99)], [("a", 0)], id="who works is not late"),
        pytest.param([held(A, 0, 1), holding(A, 1, STARTING, 99)], [("a", 0)], id="its own"),
        pytest.param(
            [held(A, 0, 1), holding(B, 0, STARTING, 99), holding(B, 1, BUSY, 9)],
            [("a", 0)],
            id="late, with more cores",
        ),
        pytest.param(
            [held(A, 0, 1), holding(A, 1, BUSY, 1), holding(B, 0, STARTING, 99), holding(B, 1, BUSY, 9)],
            [],
            id="late, with as many",
        ),
        pytest.param([held(A, 0, 61), holding(B, 0, STARTING, 99)], [("a", 0)], id="held for too long"),
        pytest.param([held(A, 0, 59), holding(B, 0, STARTING, 99)], [], id="not for too long"),
    ],
)
def test_who_is_held_back_no_more(holdings: list[SlotHolding], released: list[tuple[str, int]]) -> None:
    """Who passes nobody that is late, with a single core."""
    found = to_release(holdings, cores=1, now=NOW)

    assert [(one.pool.name, one.slot) for one in found if isinstance(one.pool, Pool)] == released


@pytest.mark.parametrize(
    ("holdings", "cores", "released"),
    [
        pytest.param([held(A, 0, 1), holding(B, 0, STARTING, 99)], 2, [("a", 0)], id="a task that hangs"),
        pytest.param(
            [held(A, 0, 20), held(C, 0, 30), holding(B, 0, STARTING, 99)], 2, [("c", 0)], id="the oldest"
        ),
        pytest.param(
            [held(A, 0, 30), holding(A, 1, BUSY, 5), held(C, 0, 20), holding(B, 0, STARTING, 99)],
            3,
            [("c", 0)],
            id="who has fewest",
        ),
        pytest.param(
            [held(A, 0, 20), held(A, 1, 25), holding(B, 0, STARTING, 99)],
            4,
            [("a", 1), ("a", 0)],
            id="a core for each",
        ),
    ],
)
def test_no_start_is_held_back_while_a_core_is_free(
    holdings: list[SlotHolding], cores: int, released: list[tuple[str, int]]
) -> None:
    """What is late waits for something else then."""
    found = to_release(holdings, cores=cores, now=NOW)

    assert [(one.pool.name, one.slot) for one in found if isinstance(one.pool, Pool)] == released


def attempt(stage: AttemptState, ago: float) -> SlotAttempt:
    """A start that is at it since so many seconds."""
    made = SlotAttempt(slot=0, number=7, last_worker=None, stage=stage, submitted_at=NOW - ago)
    made.idle_since = made.begun_at = NOW - ago
    return made


def test_a_pool_that_waits_gets_the_core_of_one_that_idles() -> None:
    """Once; a pool that is closed takes no part, and who holds nothing asks for no cores."""
    sharing, idle, waiting, closed = CoreSharing(), Pool("idle"), Pool("waiting"), Pool("closed")
    closed.starts = [attempt(READY, 99)]
    closed.is_closed = True
    for pool in (idle, waiting, closed):
        sharing.add(pool)

    sharing.share(lambda: pytest.fail("nobody holds a core"), NOW)
    idle.starts, waiting.starts = [attempt(READY, 9)], [attempt(STARTING, 2)]
    sharing.share(lambda: 1, NOW)

    assert (idle.recalled, waiting.recalled, closed.recalled) == ([(0, 7)], [], [])


def test_jobs_are_held_back_while_one_is_late() -> None:
    """Until it has its core; who is ended before has had none."""
    sharing, late, jobs = CoreSharing(), Pool("late", [attempt(STARTING, 99)]), Jobs()
    sharing.add(late)
    ended: queue.Queue[SlotEvent] = queue.Queue()
    slots = SlotPool(jobs, NoWork(), ended.put, linger_seconds=0, sharing=sharing, keeps_warm=False)
    sharing.share(lambda: 1, NOW)
    for slot in range(2):
        slots.start(slot)
    sharing.share(lambda: 1, NOW)
    slots.void(1)
    threads = [one for one in threading.enumerate() if one.name.startswith("headrace-1-")]
    for one in threads:
        one.join(10)
    assert jobs.groups == []

    late.starts.clear()
    sharing.share(lambda: 1, NOW)

    assert isinstance(ended.get(timeout=10), SlotEnded)
    assert [one.split("-")[1] for one in jobs.groups] == ["0"]
    slots.close(5)


def test_a_start_that_is_held_back_ends_when_it_is_asked_to() -> None:
    """It has no task to wait for, and may start again."""
    sharing, late, jobs = CoreSharing(), Pool("late", [attempt(STARTING, 99)]), Jobs()
    sharing.add(late)
    sharing.share(lambda: 1, NOW)
    ended: queue.Queue[SlotEvent] = queue.Queue()
    slots = SlotPool(jobs, NoWork(), ended.put, linger_seconds=0, sharing=sharing, keeps_warm=False)
    number = slots.start(0)

    slots.end(0)

    assert ended.get(timeout=10) == SlotEnded(slot=0, start=number, clean=True, error=None)
    assert slots.start(0) > number
    slots.close(5)
    assert (jobs.groups, slots.is_closed) == ([], True)


@pytest.mark.parametrize(
    ("stage", "since"),
    [(STARTING, NOW - 30), (READY, NOW - 10), (BUSY, NOW - 20)],
    ids=["waits", "idle", "busy"],
)
def test_what_a_start_holds(stage: AttemptState, since: float) -> None:
    """Since it was submitted, since it fell idle, since it got its core."""
    start = SlotAttempt(slot=1, number=2, last_worker=None, stage=stage, submitted_at=NOW - 30)
    if stage is not STARTING:
        start.begun_at, start.idle_since = NOW - 20, NOW - 10
    found = holding_of(A, start)

    assert (found.slot, found.number, found.since, found.ending_since) == (1, 2, since, None)
    start.ask_to_end()
    asked = holding_of(A, start).ending_since
    assert asked is not None
    assert (start.recall(), start.recall()) == (True, False)
    assert holding_of(A, start).ending_since == asked
