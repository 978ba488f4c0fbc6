"""The automatic change between events and listings: a queue that fails in every way, and returns."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

import pytest

from bench.stage import Service
from tests.support import aws
from tests.support.discovery import (
    await_all,
    await_mode,
    await_settled,
    log_lines,
    modes,
    running,
)
from tests.support.proxy import Answer, Fault, Proxy, Refuse, Silent, Slow
from tests.support.service import Route, announce, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

FALLBACK_MS: Final = 1_500
FORBIDDEN: Final = Answer(
    status=403,
    body=b'{"__type":"com.amazonaws.sqs#AccessDeniedException","message":"as told by the test"}',
    content_type="application/x-amz-json-1.0",
)
BROKEN: Final = Answer(
    status=500,
    body=b'{"__type":"com.amazonaws.sqs#InternalFailure","message":"as told by the test"}',
    content_type="application/x-amz-json-1.0",
)


@dataclass(slots=True)
class Load:
    """Uploads that go on while something else happens; ends with its `with` block."""

    route: Route
    stem: str
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)
    count: int = 0

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            name = f"{self.stem}-{self.count}"
            self.route.upload(f"load/{name}.jsonl", rows(name, 5))
            self.count += 1


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """What stands between the service and its queue."""
    with Proxy(aws.address()) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def route(tmp_path_factory: pytest.TempPathFactory) -> Route:
    """A route whose queue is not there."""
    route = new_route(tmp_path_factory.mktemp("switch"))
    remove_queue(route)
    return route


@pytest.fixture(scope="module")
def service(route: Route, proxy: Proxy) -> Iterator[Service]:
    """A service that speaks to its queue through the proxy, for all tests of this module."""
    options = {
        "sqs__endpoint": proxy.url,
        "sqs__queue__url": route.queue_url.replace(aws.address(), proxy.url),
        "sqs__wait__time__seconds": 1,
        "events__fallback__after__ms": FALLBACK_MS,
        "poll__interval__ms": 500,
    }
    with running(route.service(aws.unique("switch"), **options)) as service:
        yield service


@pytest.fixture
def in_events(route: Route, service: Service, proxy: Proxy) -> Iterator[None]:
    """A service on events before; afterwards it is so again, and every row is there once."""
    make_queue(route)
    await_mode(service, "events", seconds=60)
    yield
    proxy.off()
    await_mode(service, "events", seconds=60)
    await_settled(service, route)
    assert route.account() == (0, 0)


def test_a_queue_that_was_never_there_is_an_error_and_listing_instead(route: Route, service: Service) -> None:
    """The first call tells: nothing waits for `events.fallback.after.ms`, and nobody has to restart."""
    await_mode(service, "fallback")
    said = log_lines(service, "mode")[-1]
    assert said["level"] == "error"
    assert "sqs.queue.url" in said["remedy"]
    assert route.queue_url.rsplit("/", 1)[1] in service.status()["mode_reason"]
    route.upload("listed.jsonl", rows("listed", 10))
    await_all(service, route)

    make_queue(route)
    await_mode(service, "events", seconds=60)
    route.upload("announced.jsonl", rows("announced", 10))
    await_settled(service, route)
    assert route.account() == (0, 0)


@pytest.mark.usefixtures("in_events")
def test_the_queue_deleted_under_load_and_made_again(route: Route, service: Service) -> None:
    """The messages in it are lost, and those of the time between were never sent."""
    told = len(modes(service))
    with Load(route, "deleted") as load:
        until_sync(lambda: load.count >= 20, what="some load")
        remove_queue(route)
        await_mode(service, "fallback")
        reached = load.count
        until_sync(lambda: load.count >= reached + 20, what="load without a queue")
        make_queue(route)
        await_mode(service, "events", seconds=60)
        reached = load.count
        until_sync(lambda: load.count >= reached + 20, what="load on the new queue")
    await_settled(service, route)

    assert modes(service)[told:] == ["fallback", "events"]
    assert all(line["why"] for line in log_lines(service, "mode"))


@pytest.mark.usefixtures("in_events")
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(BROKEN, id="answers 500", marks=pytest.mark.long),
        pytest.param(FORBIDDEN, id="permission lost", marks=pytest.mark.long),
        pytest.param(Refuse(), id="refuses connections", marks=pytest.mark.long),
        pytest.param(Silent(), id="never answers", marks=pytest.mark.long),
    ],
)
def test_a_queue_that_fails_under_load(route: Route, service: Service, proxy: Proxy, fault: Fault) -> None:
    """Listings take over, whatever it fails with, and its return ends them; nothing lost, nothing twice."""
    told = len(modes(service))
    with Load(route, f"fault-{told}") as load:
        until_sync(lambda: load.count >= 10, what="some load")
        proxy.on(fault)
        await_mode(service, "fallback", seconds=60)
        reached = load.count
        until_sync(lambda: load.count >= reached + 10, what="load in fallback")
        proxy.off()
        proxy.cut()  # what is silent stays so
        await_mode(service, "events", seconds=60)
    await_settled(service, route)

    assert modes(service)[told:] == ["fallback", "events"]


@pytest.mark.long
@pytest.mark.usefixtures("in_events")
def test_a_slow_queue_is_no_failing_one(route: Route, service: Service, proxy: Proxy) -> None:
    """Answers that come late are answers: the mode stays, and no message is lost by it."""
    told = len(modes(service))
    proxy.on(Slow(seconds=FALLBACK_MS / 1000 + 1))
    for number in range(10):
        route.upload(f"slow/{number}.jsonl", rows(f"slow-{number}", 5))
    await_settled(service, route, seconds=180)

    assert modes(service)[told:] == []


def remove_queue(route: Route) -> None:
    """Delete the queue, messages and all."""
    aws.sqs().delete_queue(QueueUrl=route.queue_url)


def make_queue(route: Route) -> None:
    """Make the queue of the same name, told of uploads as before; does nothing when it is there."""
    aws.sqs().create_queue(QueueName=route.queue_url.rsplit("/", 1)[1])
    announce(route.bucket, route.queue_url)
