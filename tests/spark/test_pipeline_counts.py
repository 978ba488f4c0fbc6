"""What a batch says of the bytes that it has read, all of them once; and where it stops."""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from headrace.model.columns import RowBatch, column_of
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import Split
from headrace.s3.reader import Prefetch
from spark.source.pipeline import DecodedRows, DecodingStopped, Pipeline, SplitEnded, Watchdog
from spark.source.source_work import task_settings
from tests.headrace.options.loading import load_with

OBJECTS = 500


class Source:
    """Counts who asks for its bytes."""

    asked = 0

    def __init__(self, size: int, *, is_here: bool = False) -> None:
        self.size = size
        self.is_here = is_here

    def comes_within(self, _seconds: float) -> bool:
        """It is here or not."""
        return self.is_here

    @property
    def fetched_bytes(self) -> int:
        """All that has come so far."""
        Source.asked += 1
        return self.size


class Sources:
    """In the place of Prefetch."""

    def __init__(self, sources: list[Source]) -> None:
        self.left = deque(sources)

    def next(self) -> Source:
        """The next one."""
        return self.left.popleft()

    def close(self) -> None:
        """Nothing is open."""


def split(number: int) -> Split:
    """A whole object."""
    return Split(
        object=S3Object(id=ObjectId("b", f"k/{number}", "e"), size=1, last_modified_ms=0),
        route=Route(topic="t"),
    )


def nothing(*_: Any) -> Iterator[Any]:
    """No rows: of each object there is its end alone."""
    return iter(())


@pytest.fixture
def sources() -> list[Source]:
    """Of one to so many bytes."""
    Source.asked = 0
    return [Source(number + 1) for number in range(OBJECTS)]


@pytest.fixture
def pipeline(sources: list[Source]) -> Iterator[Pipeline]:
    """One that decodes nothing."""
    made = Pipeline(
        [(number, split(number)) for number in range(OBJECTS)],
        cast("Prefetch", Sources(sources)),
        decode=nothing,
        cuts=lambda *_: (),
        can_resume=lambda _: True,
    )
    yield made
    made.close()


def take(pipeline: Pipeline) -> "Counter[ObjectId]":
    """All that is told, asked for after each step."""
    told: Counter[ObjectId] = Counter()
    while True:
        step = pipeline.next_step(10)
        told += pipeline.take_fetched()
        if isinstance(step, DecodingStopped):
            return told


def test_each_byte_is_told_once(pipeline: Pipeline) -> None:
    """However often it is asked."""
    assert take(pipeline) == {split(number).object.id: number + 1 for number in range(OBJECTS)}
    assert pipeline.take_fetched() == {}


def test_what_comes_late_is_told_too(pipeline: Pipeline, sources: list[Source]) -> None:
    """A chunk under way while its object was left."""
    while not isinstance(pipeline.next_step(10), DecodingStopped):
        pass
    assert pipeline.take_fetched().total() == sum(range(OBJECTS + 1))

    sources[0].size += 5
    sources[-1].size += 7

    assert pipeline.take_fetched() == {split(0).object.id: 5, split(OBJECTS - 1).object.id: 7}


def test_thousands_of_objects_are_not_looked_at_each_time(pipeline: Pipeline) -> None:
    """All of them after each step were a quarter of the CPU of a batch of small ones."""
    take(pipeline)

    assert Source.asked < 5 * OBJECTS


def test_the_object_that_is_decoded_shows_that_it_goes_on(pipeline: Pipeline, sources: list[Source]) -> None:
    """Without a question to the others."""
    while not isinstance(pipeline.next_step(10), DecodingStopped):
        pass
    Source.asked = 0

    assert pipeline.read_bytes == sources[-1].size
    assert Source.asked == 1


def test_objects_that_are_here_are_handed_over_together() -> None:
    """And nothing waits for one that is still on its way."""
    asked = threading.Event()
    arrives = threading.Event()

    class Arriving(Sources):
        def next(self) -> Source:
            if len(self.left) == 1:
                asked.set()
            return super().next()

    sources = [*(Source(1, is_here=True) for _ in range(5)), Source(1)]

    def decode(source: Source, _split: Split) -> Iterator[Any]:
        if source is sources[-1]:
            assert arrives.wait(60)
        return iter(())

    pipeline = Pipeline(
        [(number, split(number)) for number in range(6)],
        cast("Prefetch", Arriving(sources)),
        decode=decode,  # type: ignore[arg-type]  # decodes nothing
        cuts=lambda *_: (),
        can_resume=lambda _: True,
    )
    try:
        assert asked.wait(60)
        first = [pipeline.next_step(10) for _ in range(5)]
        assert [step.index for step in first if isinstance(step, SplitEnded)] == [0, 1, 2, 3, 4]
        assert pipeline._steps.qsize() == 0
        arrives.set()
        assert isinstance(pipeline.next_step(10), SplitEnded)
        assert isinstance(pipeline.next_step(10), DecodingStopped)
    finally:
        arrives.set()
        pipeline.close()


def test_what_is_decoded_waits_a_moment_for_the_next_small_object() -> None:
    """Objects that S3 gives slowly do not wake the other thread one by one."""
    waited: list[float] = []

    class Soon(Source):
        def comes_within(self, seconds: float) -> bool:
            waited.append(seconds)
            self.is_here = True
            return True

    pipeline = Pipeline(
        [(number, split(number)) for number in range(3)],
        cast("Prefetch", Sources([Source(1, is_here=True), Soon(1), Soon(1)])),
        decode=nothing,
        cuts=lambda *_: (),
        can_resume=lambda _: True,
    )
    try:
        assert isinstance(pipeline.next_step(10), SplitEnded)
        together = [pipeline.step_at_hand() for _ in range(3)]
        assert [type(step) for step in together] == [SplitEnded, SplitEnded, DecodingStopped]
        assert pipeline.step_at_hand() is None
        # From when the first of them was decoded.
        assert 0.1 >= waited[0] > waited[1] >= 0
    finally:
        pipeline.close()


def rows(count: int, after: int) -> RowBatch:
    """So many rows, and what follows them."""
    return RowBatch(
        values=column_of([b"1"] * count), after=BytePosition(after), positions=lambda _: BytePosition(after)
    )


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize(("is_anywhere", "last"), [(False, 2), (True, 1)])
def test_a_stop_comes_further_than_the_batch_before(*, is_anywhere: bool, count: int, last: int) -> None:
    """Rows that are filtered out are committed as far as they are read: a slot kept its core for hours."""
    is_stopped = threading.Event()

    def decode(*_: Any) -> Iterator[RowBatch]:
        assert is_stopped.wait(60)
        yield rows(0, 1)
        yield rows(count, 2)
        yield rows(1, 3)

    pipeline = Pipeline(
        [(0, replace(split(0), start=BytePosition(1)))],
        cast("Prefetch", Sources([Source(1)])),
        decode=decode,
        cuts=lambda *_: (),
        can_resume=lambda _: True,
    )
    pipeline.stop(anywhere=is_anywhere)
    is_stopped.set()
    seen = []
    while not isinstance(step := pipeline.next_step(10), DecodingStopped):
        assert isinstance(step, DecodedRows)
        seen.append(step.rows.after)
    pipeline.close()

    assert seen == [BytePosition(number) for number in range(1, last + 1)]


class _Beats:
    """What a driver would be given of a task's signs of life."""

    def __init__(self) -> None:
        self.idle_seconds: list[float] = []

    def beat(self, idle_seconds: float = 0.0) -> None:
        self.idle_seconds.append(idle_seconds)


@pytest.mark.parametrize(("limit", "is_idle"), [({}, True), ({"max.bytes.per.second": "20480"}, False)])
def test_who_waits_for_the_turn_to_read_is_not_idle(
    limit: dict[str, str], *, is_idle: bool, pipeline: Pipeline
) -> None:
    """A recalled slot that reads nothing is ended after half a minute, and a chunk may wait for longer."""
    beats = _Beats()
    watchdog = Watchdog(cast(Any, beats), task_settings(load_with(limit), slots=1))

    watchdog.check(pipeline)
    watchdog.check(pipeline)

    assert (beats.idle_seconds[-1] > 0.0) is is_idle


@pytest.mark.parametrize(
    ("seconds", "stopped_after"),
    [
        # One that is fetched whole, under a limit: all of it is here when its first row is.
        ((20, 0, 0, 0, 0), None),
        ((20, 15, 15, 15, 15), 3),
        ((20, 30, 0, 0, 0), 2),
        ((1, 0, 0, 0, 0), 1),
    ],
)
def test_a_stop_is_not_before_a_beginning_was_worth_it(
    seconds: tuple[int, ...], stopped_after: int | None
) -> None:
    """An object of which each read takes longer than a batch may was read once for each 10,000 rows."""
    now = 0.0

    is_stopped = threading.Event()

    def decode(*_: Any) -> Iterator[RowBatch]:
        nonlocal now
        assert is_stopped.wait(60)
        for number, took in enumerate(seconds):
            now += took
            yield rows(1, number + 1)

    pipeline = Pipeline(
        [(0, split(0))],
        cast("Prefetch", Sources([Source(1)])),
        decode=decode,
        cuts=lambda *_: (),
        can_resume=lambda _: True,
        clock=lambda: now,
    )
    pipeline.stop()
    is_stopped.set()
    steps = []
    while not isinstance(step := pipeline.next_step(10), DecodingStopped):
        steps.append(type(step))
    pipeline.close()

    whole = [DecodedRows] * len(seconds) + [SplitEnded]
    assert steps == (whole if stopped_after is None else whole[:stopped_after])


def test_an_object_of_filtered_rows_stops_like_any_other() -> None:
    """They are committed as they are read: it held its core for hours, and each kill read it again."""
    now = 0.0
    is_stopped = threading.Event()

    def decode(*_: Any) -> Iterator[RowBatch]:
        nonlocal now
        assert is_stopped.wait(60)
        for number in range(20):
            now += 5
            yield rows(0, number + 1)

    pipeline = Pipeline(
        [(0, split(0))],
        cast("Prefetch", Sources([Source(1)])),
        decode=decode,
        cuts=lambda *_: (),
        can_resume=lambda _: True,
        clock=lambda: now,
    )
    pipeline.stop()
    is_stopped.set()
    steps = []
    while not isinstance(step := pipeline.next_step(10), DecodingStopped):
        steps.append(type(step))
    pipeline.close()

    assert steps == [DecodedRows] * 2
