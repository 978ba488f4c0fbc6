"""When `run --until-idle` is over, and how it receives until then."""

import queue
from typing import Any, cast

import pytest

from headrace.model.errors import AccessDenied, Unavailable
from headrace.model.objects import ListingPage
from ingest.http.metrics import Metrics
from ingest.service.event_loop import Event, EventLoop, LoopComponents
from ingest.service.idle import Patience, UntilIdle, listening, waits_sentence
from ingest.service.statistics import Statistics
from ingest.source.catalogue.effects import Effects
from ingest.source.command_queue import CommandQueue
from listeners.discovery_events import (
    HeadsWait,
    InventoryWaits,
    ListingBegun,
    ListingFailed,
    ListingKind,
    Mode,
    ModeChanged,
)
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import BUCKET, Desk, event

_QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/uploads"


@pytest.mark.parametrize(
    ("has_queue", "listed", "answers", "is_idle", "over"),
    [
        (True, True, (1, 0, 0), True, True),
        (True, True, (0, 1, 0), True, False),
        (True, True, (0, 0), False, False),
        (True, False, (0, 0), True, False),
        (False, True, (), True, True),
        (False, False, (), True, False),
    ],
)
def test_it_is_over_when_nothing_can_come(
    has_queue: bool, listed: bool, answers: tuple[int, ...], is_idle: bool, over: bool
) -> None:
    """All was listed, the queue was found empty twice in a row, and nothing is left to do."""
    until_idle = UntilIdle(has_queue=has_queue, patience=Patience(60.0))
    until_idle.begun("bucket", 1)
    if listed:
        until_idle.listed("bucket", 1)
    for messages in answers:
        until_idle.received(messages)

    assert until_idle.is_over(is_idle=is_idle) is over


def test_a_listing_that_began_before_it_was_asked_for_does_not_count() -> None:
    """Its pages may have passed what it was asked for."""
    until_idle = UntilIdle(has_queue=False, patience=Patience(60.0))
    for number in (1, 2):
        until_idle.begun("bucket", number)
    until_idle.listed("bucket", 2)
    assert not until_idle.has_listed
    until_idle.listed("bucket", 1)
    assert until_idle.has_listed

    until_idle.list_again()

    until_idle.listed("bucket", 2)
    assert not until_idle.has_listed
    until_idle.begun("bucket", 3)
    until_idle.listed("bucket", 3)
    assert until_idle.has_listed


@pytest.mark.parametrize(("given", "waits"), [("20", 2), ("1", 1)])
def test_its_end_is_not_held_up_by_receives(given: str, waits: int) -> None:
    """Twice twenty seconds without a message are no part of a run whose work is done."""
    settings = load_with({"sqs.queue.url": _QUEUE, "sqs.wait.time.seconds": given})

    sqs = listening(settings).sqs

    assert sqs is not None
    assert sqs.wait_time_seconds == waits


def test_without_a_queue_nothing_is_received() -> None:
    """The settings are as they were."""
    settings = load_with({"sqs.queue.url": None})

    assert listening(settings) is settings


class _Others:
    """Listeners, and what effects are applied by: nothing comes of either."""

    def page_done(self, _bucket: str) -> None:
        """A page is taken in."""

    def pause_listing(self) -> None:
        """No more pages."""

    def resume_listing(self) -> None:
        """More pages."""

    def apply(self, _effects: Effects) -> None:
        """What is decided."""


def _loop(desk: Desk) -> EventLoop:
    """A run until idle that bears what is outside for a minute; nothing here asks its threads."""
    nobody, others = cast("Any", None), cast("Any", _Others())
    components = LoopComponents(
        catalogue=desk.catalogue,
        planner=desk.planner,
        commands=CommandQueue(desk.catalogue),
        lifecycle=nobody,
        listeners=others,
        writes=nobody,
        applier=others,
        supervisor=nobody,
        statistics=Statistics(Metrics(dict)),
    )
    return EventLoop(
        queue.SimpleQueue(),
        components,
        buckets=[BUCKET],
        startup_deadline=float("inf"),
        stop=nobody,
        failures=nobody,
        until_idle=UntilIdle(has_queue=False, patience=Patience(60.0)),
    )


@pytest.mark.parametrize(
    "waits",
    [
        InventoryWaits(sentence="it cannot be read"),
        HeadsWait(sentence="it cannot be read"),
        ListingFailed(bucket=BUCKET, listing_id=1, error=AccessDenied("it cannot be read")),
    ],
    ids=["inventory", "heads", "listing"],
)
def test_what_s3_does_not_give_for_a_minute_ends_it_and_is_named(waits: Event) -> None:
    """No listing begins before the inventory is read, and a HEAD is asked for as long as it takes."""
    loop = _loop(Desk())
    loop.handle(waits)
    assert not loop.is_over(0.0)
    assert not loop.is_over(59.0)
    with pytest.raises(Unavailable, match=r"waits for something outside: .*it cannot be read"):
        loop.is_over(60.0)


def test_an_object_that_the_listing_leaves_out_ends_it_and_is_named() -> None:
    """It would end well, with exit code 0, though one object was not read."""
    refused = f"s3://{BUCKET}/x may not be read"
    loop = _loop(Desk())

    def list_all(number: int, *sentences: str) -> None:
        loop.handle(ListingBegun(bucket=BUCKET, listing_id=number, kind=ListingKind.FULL, after_key=None))
        page = ListingPage(
            bucket=BUCKET,
            listing_id=number,
            is_full=True,
            after_key=None,
            through_key=None,
            objects=(),
            refused=sentences,
        )
        loop.handle(page)

    list_all(1, refused)
    assert not loop.is_over(0.0)
    list_all(2, refused)
    with pytest.raises(Unavailable, match=f"waits for something outside: .*{refused}"):
        loop.is_over(60.0)
    list_all(3)
    assert loop.is_over(61.0)


def test_only_the_bucket_whose_listing_left_something_out_is_listed_again() -> None:
    """The next full listing of another one may be an hour off, and nothing says that it is waited for."""
    until = UntilIdle(has_queue=False, patience=Patience(60), buckets=2)
    for number, bucket in enumerate(("one", "two")):
        until.begun(bucket, number)
    until.listed("one", 0)
    until.listed("two", 1, is_whole=False)
    assert not until.is_over(is_idle=True)
    until.begun("two", 2)
    until.listed("two", 2)
    assert until.is_over(is_idle=True)


def test_a_file_of_the_inventory_that_is_read_after_all_is_no_longer_waited_for() -> None:
    """The minute is one without an answer."""
    loop = _loop(Desk())
    loop.handle(InventoryWaits(sentence="it cannot be read"))
    assert not loop.is_over(0.0)
    loop.handle(InventoryWaits(sentence=None))
    assert not loop.is_over(61.0)
    assert not loop.is_over(3600.0)


@pytest.mark.parametrize("is_failing", [True, False])
def test_a_queue_is_waited_for_only_while_it_fails(*, is_failing: bool) -> None:
    """One that answers again is no obstacle, though the fallback is on until a full listing has ended."""
    loop = _loop(Desk())
    loop.handle(ModeChanged(mode=Mode.FALLBACK, why="what it does", is_failing=is_failing))
    loop.handle(InventoryWaits(sentence="it cannot be read"))
    loop.is_over(0.0)
    with pytest.raises(Unavailable, match="it cannot be read") as ended:
        loop.is_over(60.0)
    assert ("sqs.queue.url: what it does" in str(ended.value)) == is_failing


def test_while_a_batch_is_read_nothing_outside_ends_it() -> None:
    """What is in hand may take longer."""
    desk = Desk()
    desk.announce("m", event("a"))
    desk.plan()
    loop = _loop(desk)
    loop.handle(InventoryWaits(sentence="it cannot be read"))
    assert not any(loop.is_over(float(now)) for now in (0, 61, 3600))


@pytest.mark.parametrize(
    ("waits_for", "last_error", "end"),
    [
        (["topic_missing (2 objects)"], "s3://b/k: no.", "(2 objects). The last error: s3://b/k: no."),
        (["sqs.queue.url: it is not there. Correct it."], None, ": it is not there. Correct it."),
        (["sqs.queue.url: it is away."], "it is away.", ": it is away."),
        (["one.", "two."], None, "outside: one; two."),
    ],
)
def test_what_it_waited_for_is_said_once(waits_for: list[str], last_error: str | None, end: str) -> None:
    """Of a missing queue it ended in two full stops, and in a last error that was none."""
    assert waits_sentence(waits_for, last_error).endswith(end)
