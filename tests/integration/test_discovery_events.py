"""Discovery by events that cannot be relied on: some never come, an object is slow, or replaced meanwhile."""

import random
import time
from collections.abc import Iterator
from typing import Final

import pytest

from bench.stage import Service
from tests.support import aws, kafka
from tests.support.discovery import (
    announce_all,
    await_full_listing,
    await_records,
    await_settled,
    metric,
    outcomes,
    running,
    upload_all,
    values_of,
)
from tests.support.proxy import Answer, Proxy, Request, Slow
from tests.support.service import Route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

VISIBILITY_SECONDS: Final = 1
SLOTS: Final = 2
BYTES_PER_SECOND: Final = 1_500_000
RECONCILE_MS: Final = 2_000


@pytest.fixture(scope="module")
def route(tmp_path_factory: pytest.TempPathFactory) -> Route:
    """A route whose bucket tells nobody: the tests send the events. Its queue hides for one second."""
    return Route(
        folder=tmp_path_factory.mktemp("events"),
        bucket=aws.new_bucket(),
        queue_url=aws.new_queue(attributes={"VisibilityTimeout": str(VISIBILITY_SECONDS)}),
        topic=kafka.new_topic("route", partitions=2),
    )


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """What stands between the service and its bucket."""
    with Proxy(aws.address()) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def service(route: Route, proxy: Proxy) -> Iterator[Service]:
    """A service on events that reconciles every two seconds and reads slowly."""
    options = {
        "aws__s3__endpoint": proxy.url,
        "sqs__endpoint": aws.address(),
        "reconcile__interval__ms": RECONCILE_MS,
        "tasks__max": SLOTS,
        "max__bytes__per__second": BYTES_PER_SECOND,
        "sqs__wait__time__seconds": 1,
        # A slow object keeps its slot to its end.
        "job__max__seconds": 60,
    }
    with running(route.service(aws.unique("events"), **options)) as service:
        yield service


@pytest.mark.long
def test_one_event_in_five_is_dropped(route: Route, service: Service) -> None:
    """All objects are there after the next reconcile."""
    drop_events(route, service, 200)


@pytest.mark.long
def test_one_event_in_five_of_two_thousand_is_dropped(route: Route, service: Service) -> None:
    """The same with 2,000 objects."""
    drop_events(route, service, 2_000)


def drop_events(route: Route, service: Service, count: int) -> None:
    """Upload so many objects, tell of four in five, and account for all."""
    before = service.status()
    stem = f"dropped-{count}"
    contents = {f"{stem}/{number}.jsonl": rows(f"{stem}-{number}", 1) for number in range(count)}
    uploaded = upload_all(route, contents)
    announce_all(route, random.Random(count).sample(uploaded, count - count // 5))
    await_records(service, before["records_total"] + count, seconds=60 + count / 20)
    await_settled(service, route)
    await_full_listing(service)

    assert route.account() == (0, 0)
    assert service.status()["mode"] == "events"


@pytest.mark.long
def test_ten_messages_of_which_one_takes_three_visibility_timeouts(route: Route, service: Service) -> None:
    """While the slow object is read all ten stay hidden, from us and from anybody else; none comes twice."""
    redelivered = metric(service, "headrace_sqs_messages_total", outcome="redelivered")
    received = metric(service, "headrace_sqs_messages_total", outcome="received")
    contents = {f"ten/{number}.jsonl": rows(f"ten-{number}", 1) for number in range(9)}
    contents["ten/slow.jsonl"] = slow_rows("ten", 3 * VISIBILITY_SECONDS + 1)
    client, found = aws.sqs(), []
    uploaded = upload_all(route, contents)
    began = time.monotonic()
    announce_all(route, uploaded)
    until_sync(
        lambda: metric(service, "headrace_sqs_messages_total", outcome="received") == received + 10,
        seconds=60,
        what="ten messages",
    )

    def is_over() -> bool:
        # Another consumer of the queue, who would get whatever becomes visible.
        answer = client.receive_message(QueueUrl=route.queue_url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        found.extend(answer.get("Messages", ()))
        return metric(service, "headrace_sqs_messages_total", outcome="settled") >= received + 10

    until_sync(is_over, seconds=180, what="ten messages settled")
    took = time.monotonic() - began
    await_settled(service, route)

    assert took > 3 * VISIBILITY_SECONDS, "the object was not slow enough to tell anything"
    assert found == []
    assert metric(service, "headrace_sqs_messages_total", outcome="redelivered") == redelivered
    assert metric(service, "headrace_sqs_heartbeats_total") > 0
    assert route.account() == (0, 0)


def test_an_object_replaced_while_it_is_read_is_never_mixed(
    route: Route, service: Service, proxy: Proxy
) -> None:
    """Of the first content a beginning, in order; then all of the second; no row of both."""
    before = service.status()["records_total"]
    # Long, so that its middle is met also on a machine that does much else.
    first = slow_rows("first", 20)
    second = slow_rows("other", 5)

    def is_it(request: Request) -> bool:
        return request.method == "GET" and request.path.endswith("/replaced.jsonl")

    # At a slow flow nothing waits in the sockets' buffers. LocalStack serves an open GET to its end from the
    # content with which it began: only a second one, after a cut, meets the other content.
    proxy.on(Slow(bytes_per_second=BYTES_PER_SECOND), when=is_it)
    route.upload("replaced.jsonl", first, counts=False)
    until_sync(
        lambda: before < service.status()["records_total"] < before + len(first),
        seconds=60,
        what="the middle of the first content",
    )
    proxy.off()
    proxy.on(Answer(status=503), when=is_it)
    proxy.cut()
    route.upload("replaced.jsonl", second)
    proxy.off()
    until_sync(
        lambda: outcomes(service, "replaced.jsonl") == [("skipped", "superseded"), ("done", None)],
        seconds=180,
        what="the end of both contents",
    )

    values = values_of(route, "replaced.jsonl")
    of_first = [value for value in values if b"first" in value]
    assert 0 < len(of_first) < len(first)
    assert of_first == first[: len(of_first)]
    assert values[len(of_first) :] == second
    route.uploaded.update(of_first)
    assert route.account() == (0, 0)


@pytest.mark.long
def test_an_overwrite_between_listing_and_reading(route: Route, service: Service) -> None:
    """The first content is gone when its turn comes: `superseded`, and only the second is in the topic."""
    await_settled(service, route, seconds=180)
    blockers = {f"between/a{number}.jsonl": slow_rows(f"blocker-{number}", 8) for number in range(2)}
    announce_all(route, upload_all(route, blockers))
    until_sync(lambda: service.status()["slots"]["busy"] == 2, seconds=60, what="two busy slots")
    route.upload("between/late.jsonl", rows("overwritten", 5), counts=False)
    until_sync(
        lambda: service.status()["objects"]["pending"] >= 1, seconds=60, what="a listing that shows it"
    )
    route.upload("between/late.jsonl", rows("current", 5))
    await_settled(service, route, seconds=180)
    until_sync(
        lambda: outcomes(service, "between/late.jsonl") == [("skipped", "superseded"), ("done", None)],
        seconds=60,
        what="the end of both contents",
    )

    assert values_of(route, "between/late.jsonl") == rows("current", 5)
    assert route.account() == (0, 0)


def slow_rows(stem: str, seconds: int) -> list[bytes]:
    """Rows of 100 bytes and a LF that take so many seconds at the pace of one slot."""
    count = BYTES_PER_SECOND // SLOTS * seconds // 101
    return [
        (b'{"from":"%s","row":%d,"fill":"' % (stem.encode(), n)).ljust(98, b"x") + b'"}' for n in range(count)
    ]
