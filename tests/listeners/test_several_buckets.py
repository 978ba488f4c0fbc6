"""Listings of several buckets beside one another, and the return from a fallback when they are done."""

import asyncio
from typing import Any, cast

import structlog

from headrace.model.errors import AccessDenied, SourceUnavailable
from headrace.model.objects import ListingPage
from listeners.discovery import DiscoveryMonitor
from listeners.discovery_events import Backoff, Event, ListingFailed, ListingKind, Mode, ModeChanged
from listeners.listing import Bucket, Listed, Lister
from tests.headrace.options.loading import load_with
from tests.support.fake_bucket import FakeBucket
from tests.support.listening import Inbox, service_error
from tests.support.until import until

QUEUE = "https://sqs.us-east-1.amazonaws.com/1/q"
ONE, TWO = "one-bucket", "two-bucket"


class _Listings(Inbox):
    """What listers of two buckets post; each page is acknowledged at once."""

    def __init__(self, *clients: Any) -> None:
        super().__init__()
        self.listers: dict[str, Lister] = {}
        for name, client in zip((ONE, TWO), clients, strict=True):
            self.listers[name] = Lister(
                client=client,
                bucket=Bucket(name=name),
                post=self.post,
                counters=self.counters,
                pauses=Backoff(first=0.0, longest=0.0),
            )

    def post(self, event: Event) -> None:
        super().post(event)
        if isinstance(event, ListingPage):
            self.listers[event.bucket].page_done()

    def keys_of(self, bucket: str) -> list[str]:
        pages = [page for page in self.of(ListingPage) if page.bucket == bucket]
        return [found.id.key for page in pages for found in page.objects]

    @property
    def mode(self) -> Mode:
        return self.of(ModeChanged)[-1].mode


class _Denying(FakeBucket):
    """Refuses to be listed until it is allowed."""

    is_allowed = False

    async def list_objects_v2(self, **arguments: Any) -> Any:
        await asyncio.sleep(0)
        if not self.is_allowed:
            raise service_error("AccessDenied", 403)
        return await super().list_objects_v2(**arguments)


def test_a_bucket_that_cannot_be_listed_holds_up_no_other() -> None:
    """It is named, tried again, and listed as soon as it can be."""
    denying = _Denying(["b"])
    listings = _Listings(FakeBucket(["a"]), denying)

    async def scenario() -> None:
        monitor = _monitor(listings)
        running = asyncio.create_task(monitor.run(listings.listers))
        await until(lambda: listings.keys_of(ONE) and listings.of(ListingFailed))
        assert {failed.bucket for failed in listings.of(ListingFailed)} == {TWO}
        assert listings.keys_of(TWO) == []
        denying.is_allowed = True
        await until(lambda: listings.keys_of(TWO))
        running.cancel()

    asyncio.run(scenario())


def test_events_are_enough_again_when_each_bucket_was_listed() -> None:
    """A queue that answers again may have lost the news of any of them."""
    gate = asyncio.Event()

    class _Slow(FakeBucket):
        async def list_objects_v2(self, **arguments: Any) -> Any:
            await gate.wait()
            return await super().list_objects_v2(**arguments)

    listings = _Listings(FakeBucket(["a"]), _Slow(["b"]))

    async def scenario() -> None:
        monitor = _monitor(listings)
        monitor.begin()
        monitor.queue_failed(SourceUnavailable("away"), since=-100.0)
        running = asyncio.create_task(monitor.run(listings.listers))
        await until(lambda: listings.mode is Mode.FALLBACK)
        monitor.queue_answered(asked=0.0)
        await until(lambda: len(listings.keys_of(ONE)) > 1)
        assert listings.mode is Mode.FALLBACK, "the second bucket is not listed yet"
        assert listings.of(ModeChanged)[-1].why.startswith("the queue answers again"), "nor does it fail"
        gate.set()
        await until(lambda: listings.mode is Mode.EVENTS)
        assert listings.keys_of(TWO)
        running.cancel()

    asyncio.run(scenario())


def test_a_queue_that_fails_once_more_is_told_of_as_the_first_time() -> None:
    """The listing for its return has not ended: the mode is the same, its reason another."""
    listings = _Listings(FakeBucket(["a"]), FakeBucket(["b"]))

    async def scenario() -> None:
        monitor = _monitor(listings)
        monitor.begin()
        for error in (AccessDenied("no"), SourceUnavailable("away")):
            monitor.queue_failed(error, since=-100.0)
            monitor.queue_answered(asked=0.0)
        monitor.queue_failed(AccessDenied("no"), since=-100.0)

    with structlog.testing.capture_logs() as logged:
        asyncio.run(scenario())
    told = [(one["event"], one["log_level"], "remedy" in one) for one in logged]
    again = ("mode_reason", "info", False)
    assert told[1:] == [
        ("mode", "error", True),
        again,
        ("mode_reason", "warning", False),
        again,
        ("mode_reason", "error", True),
    ]
    assert [one.is_failing for one in listings.of(ModeChanged)] == [False, True, False, True, False, True]


def test_a_bucket_that_cannot_be_listed_does_not_keep_up_the_fallback() -> None:
    """Its own listing is still owed, and tried."""
    listings = _Listings(FakeBucket(["a"]), _Denying(["b"]))

    async def scenario() -> None:
        monitor = _monitor(listings)
        monitor.begin()
        monitor.queue_failed(SourceUnavailable("away"), since=-100.0)
        running = asyncio.create_task(monitor.run(listings.listers))
        await until(lambda: listings.of(ListingFailed))
        monitor.queue_answered(asked=0.0)
        await until(lambda: listings.mode is Mode.EVENTS)
        running.cancel()

    asyncio.run(scenario())


def _monitor(listings: _Listings) -> DiscoveryMonitor:
    settings = load_with(
        {
            "aws.s3.bucket.name": f"{ONE},{TWO}",
            "sqs.queue.url": QUEUE,
            "events.fallback.after.ms": "1000",
            "poll.interval.ms": "100",
        }
    )
    return DiscoveryMonitor(settings, listings.post)


class _SlowLister:
    """Each listing takes longer than `auto` allows one in full to take."""

    is_failing = False

    def __init__(self) -> None:
        self.kinds: list[ListingKind] = []

    async def list(self, kind: ListingKind, *, after: str | None) -> Listed:
        """Nothing but a last key."""
        self.kinds.append(kind)
        return Listed(last_key=after or "k", seconds=1000.0)


def test_a_directory_bucket_is_listed_in_full() -> None:
    """Its keys have no order: what is new may be listed anywhere."""
    directory, ordinary = "data--euw1-az1--x-s3", "one-bucket"
    slow = {directory: _SlowLister(), ordinary: _SlowLister()}

    async def scenario() -> None:
        settings = load_with({"aws.s3.bucket.name": ",".join(slow), "poll.interval.ms": "100"})
        monitor = DiscoveryMonitor(settings, Inbox().post)
        running = asyncio.create_task(monitor.run(cast("dict[str, Lister]", slow)))
        await until(lambda: all(len(each.kinds) > 2 for each in slow.values()))
        running.cancel()

    asyncio.run(scenario())

    assert set(slow[directory].kinds) == {ListingKind.FULL}
    assert slow[ordinary].kinds[1] is ListingKind.INCREMENTAL
