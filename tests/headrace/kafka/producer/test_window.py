"""How far ahead of the broker rows are handed over."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.producer import SlotRevoked
from headrace.kafka.producer.window import Pace, ProduceWindow
from headrace.model.columns import Column, RecordTarget, RowBatch
from headrace.model.positions import BytePosition

MIB = 1 << 20
LIMIT = 5 * 1_000_000
"""Five requests of a million bytes, librdkafka's and our defaults."""


class Steps(deque[tuple[int, int]]):
    """Rows and bytes that wait, step by step, and their sums: tests have thousands of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.bytes = 0

    def append(self, step: tuple[int, int]) -> None:
        """One step more."""
        super().append(step)
        self.rows, self.bytes = self.rows + step[0], self.bytes + step[1]

    def popleft(self) -> tuple[int, int]:
        """Take the oldest."""
        step = super().popleft()
        self.rows, self.bytes = self.rows - step[0], self.bytes - step[1]
        return step


class Queue:
    """As a producer counts: what waits for the broker, which answers one step for each time it is polled."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.polls = 0

    def __len__(self) -> int:
        return self.steps.rows

    @property
    def bytes(self) -> int:
        """What waits."""
        return self.steps.bytes

    def poll(self, seconds: float) -> int:
        """The broker acknowledges the oldest step."""
        assert seconds > 0
        self.polls += 1
        self.steps.popleft()
        return 1


def rows_of(lengths: Sequence[int], *, has_keys: bool = False) -> RowBatch:
    """Rows of so many bytes each."""
    sizes = np.array(lengths, np.int64)
    column = Column(buffer=b"", starts=np.cumsum(sizes) - sizes, lengths=sizes)
    return RowBatch(
        values=column, after=BytePosition(0), positions=BytePosition, keys=column if has_keys else None
    )


def window(
    queue: Queue,
    properties: dict[str, object] | None = None,
    *,
    is_void: bool = False,
    pace: Pace | None = None,
) -> ProduceWindow:
    """The window of a producer with this queue, of brokers that take all of it soon."""
    return ProduceWindow(
        queue,  # type: ignore[arg-type]  # as much of a producer as it uses
        properties or {},
        lambda: is_void,
        pace=pace or Pace(1 << 40),
    )


def hand_over(
    queue: Queue, through: ProduceWindow, target: RecordTarget, rows: RowBatch
) -> list[tuple[int, int]]:
    """The steps, each in the queue before the next is asked for."""
    found = []
    for first, behind in through.steps(target, rows, 0, len(rows)):
        found.append((first, behind))
        queue.steps.append((behind - first, int(rows.values.lengths[first:behind].sum())))
    return found


ONE = RecordTarget(topic="topic", partition=3)


@given(
    st.lists(st.lists(st.integers(0, 3 * MIB), max_size=40), max_size=5),
    st.sampled_from([ONE, RecordTarget(topic="topic", key=b"key")]),
)
def test_every_row_is_given_out_once_and_in_order(batches: list[list[int]], target: RecordTarget) -> None:
    """Whatever their sizes."""
    queue = Queue()
    through = window(queue)
    for lengths in batches:
        found = hand_over(queue, through, target, rows_of(lengths))
        assert [row for first, behind in found for row in range(first, behind)] == list(range(len(lengths)))


@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=2000), st.integers(1, 3))
def test_no_more_is_outstanding_than_the_requests_hold(lengths: list[int], batches: int) -> None:
    """Before a step is given out: what the broker has not answered is at most the limit and that one step."""
    queue = Queue()
    through = window(queue)
    for _ in range(batches):
        rows = rows_of(lengths)
        for first, behind in through.steps(ONE, rows, 0, len(rows)):
            assert queue.bytes <= LIMIT + MIB
            queue.steps.append((behind - first, int(rows.values.lengths[first:behind].sum())))


def test_one_partition_waits_for_the_broker() -> None:
    """Twenty MiB, of which the last fifteen are only given out after answers."""
    queue = Queue()
    hand_over(queue, window(queue), ONE, rows_of([200] * 100_000))
    assert queue.polls >= 13


@pytest.mark.parametrize(
    ("target", "has_keys"),
    [
        pytest.param(RecordTarget(topic="topic", key=b"key"), True, id="keys of their own"),
        pytest.param(RecordTarget(topic="topic"), False, id="no key"),
        pytest.param(RecordTarget(topic="topic", key=b""), False, id="an empty key"),
    ],
)
def test_rows_for_many_partitions_do_not_wait(target: RecordTarget, *, has_keys: bool) -> None:
    """Each partition fills a batch of its own: waiting for one of them would hold up the others."""
    queue = Queue()
    hand_over(queue, window(queue), target, rows_of([200] * 100_000, has_keys=has_keys))
    assert queue.polls == 0


def test_objects_for_other_partitions_do_not_wait_for_each_other() -> None:
    """Ten objects of 4 MB to ten partitions, which fill ten batches at once."""
    queue = Queue()
    through = window(queue)
    for partition in range(10):
        hand_over(queue, through, RecordTarget(topic="topic", partition=partition), rows_of([200] * 20_000))
    assert queue.polls == 0


def test_rows_before_it_that_were_larger_or_smaller_do_not_mislead() -> None:
    """A million bytes in flight are that, however many rows they are in."""
    queue = Queue()
    through = window(queue)
    hand_over(queue, through, ONE, rows_of([1] * 50_000))
    hand_over(queue, through, ONE, rows_of([1_000_000] * 4))
    assert queue.polls == 0


@pytest.mark.parametrize(
    ("properties", "waits"),
    [
        pytest.param({"batch.size": "100000"}, True, id="smaller batches"),
        pytest.param({"max.in.flight": 1}, True, id="one request"),
        pytest.param({"max.in.flight.requests.per.connection": "1"}, True, id="by its long name"),
        pytest.param({}, False, id="none"),
    ],
)
def test_it_follows_the_producer_s_properties(properties: dict[str, object], *, waits: bool) -> None:
    """Four MB do not wait with the defaults."""
    queue = Queue()
    through = window(queue, properties)
    for _ in range(10):
        hand_over(queue, through, ONE, rows_of([2000] * 200))
    assert (queue.polls > 0) is waits


def test_a_slot_that_is_cut_off_does_not_wait() -> None:
    """It is told where it would have to."""
    queue = Queue()
    with pytest.raises(SlotRevoked):
        hand_over(queue, window(queue, is_void=True), ONE, rows_of([200] * 100_000))


class SlowQueue(Queue):
    """Of brokers that take so many bytes a second, in time that passes while they are waited for."""

    def __init__(self, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.rate = rate
        self.now = 0.0
        self.slowest = 0.0
        self._free_at = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def poll(self, seconds: float) -> int:
        """Wait until the oldest step is taken."""
        del seconds
        self.polls += 1
        rows, size = self.steps.popleft()
        self.now += size / self.rate
        # What is outstanding then takes as long as this, also in a commit.
        self.slowest = max(self.slowest, self.bytes / self.rate)
        return rows


SPREAD = RecordTarget(topic="topic")


@pytest.mark.parametrize("target", [ONE, SPREAD])
@pytest.mark.parametrize("rate", [100_000, 500_000, 3_000_000])
def test_no_more_is_outstanding_than_slow_brokers_take_in_a_transaction(
    monkeypatch: pytest.MonkeyPatch, target: RecordTarget, rate: int
) -> None:
    """Whatever librdkafka's queue has room for; after the first that was too much, which is halved.

    Mutation tried: without `_keep_pace` rows that spread are all outstanding, which takes minutes.
    """
    queue, pace = SlowQueue(rate, monkeypatch), Pace()
    through = window(queue, pace=pace)
    while pace.limit > 10 * rate:
        pace.took_too_long()
    for _ in range(40):
        hand_over(queue, through, target, rows_of([1000] * 1000))
    assert queue.slowest < 12
    queue.slowest = 0
    for _ in range(20):
        hand_over(queue, through, target, rows_of([1000] * 1000))
    assert queue.slowest < 4
    assert queue.polls > 20


def test_single_records_keep_the_pace_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead letters, which may be all that an object has."""
    queue = SlowQueue(1_000_000, monkeypatch)
    through = window(queue, pace=Pace())
    for _ in range(20_000):
        through.make_room(None, bytes(1000), ())
        queue.steps.append((1, 1000))
    assert queue.slowest < 5


def test_the_pace_of_quick_brokers_is_no_limit_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a handful of waits as much is outstanding as librdkafka's queue takes."""
    queue, pace = SlowQueue(300_000_000, monkeypatch), Pace()
    through = window(queue, pace=pace)
    for _ in range(100):
        hand_over(queue, through, SPREAD, rows_of([1000] * 1000))
    assert pace.limit >= 64 * MIB


def test_what_was_too_much_is_approached_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota lets ten seconds' worth pass at once, so that a wait tells little of the next one."""
    queue, pace = SlowQueue(300_000_000, monkeypatch), Pace()
    through = window(queue, pace=pace)
    pace.took_too_long()
    before = pace.limit
    for _ in range(5):
        hand_over(queue, through, SPREAD, rows_of([1000] * 1000))
    assert before < pace.limit < 1.3 * before
    for _ in range(20):
        pace.took_too_long()
    assert pace.limit == 128 * 1024


class Steady(Pace):
    """Stays what it is."""

    def waited(self, size: int, seconds: float) -> None:
        """Nothing is learned."""


@pytest.mark.parametrize(
    ("rows", "target"),
    [
        (replace(rows_of([-1] * 4000), keys=rows_of([1000] * 4000).values), ONE),
        (rows_of([-1] * 4000), replace(ONE, key=bytes(1000))),
        (rows_of([0] * 4000), replace(ONE, headers=(("h", bytes(999)),))),
        (replace(rows_of([-1] * 4000), headers=((("h", bytes(999)), ("n", None)),) * 4000), ONE),
        (rows_of([1000] * 4000), ONE),
    ],
    ids=["keys", "one key", "constant headers", "headers", "values"],
)
def test_all_that_brokers_are_to_take_counts(rows: RowBatch, target: RecordTarget) -> None:
    """Tombstones with long keys were handed over at once, whatever the pace: no quota let them pass."""
    queue = Queue()
    behind = 0
    for first, behind in window(queue, pace=Steady(MIB)).steps(target, rows, 0, len(rows)):
        assert len(queue) * 1000 <= MIB + MIB // 2, "more is outstanding than the pace allows"
        queue.steps.append((behind - first, 0))
    assert behind == len(rows)
    assert queue.polls


def test_one_record_counts_with_its_key_and_headers() -> None:
    """A dead letter of a row that is too large has no value."""
    queue = Queue()
    through = window(queue, pace=Steady(MIB))
    for _ in range(3000):
        through.make_room(bytes(500), None, [("h", bytes(499))])
        queue.steps.append((1, 1000))
        assert queue.bytes <= MIB + MIB // 2
    assert queue.polls
