"""What a real service says of its work in `/metrics` and `/status`, compared with what it did."""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.stage import Service
from tests.ingest.http.numbered import BAD, SLOTS, Numbered
from tests.ingest.http.page.chromium import Chromium, find_chromium
from tests.support import aws
from tests.support.proxy import Proxy, Silent
from tests.support.service import Route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


@contextmanager
def held(proxy: Proxy, key: str) -> Iterator[None]:
    """A read of this object gets no answer before the end of the block."""
    proxy.on(Silent(), when=lambda request: request.method == "GET" and f"/{key}" in request.path)
    try:
        yield
    finally:
        proxy.off()
        proxy.cut()


@pytest.fixture
def route(numbered_service: Numbered) -> Route:
    """Its route: an object from before, found by listing; the others are announced."""
    return numbered_service.route


@pytest.fixture
def proxy(numbered_service: Numbered) -> Proxy:
    """Before S3, so that an object can be held for as long as a test looks at it."""
    return numbered_service.proxy


@pytest.fixture
def service(numbered_service: Numbered) -> Service:
    """The service itself."""
    return numbered_service.service


def numbers(service: Service) -> dict[tuple[str, ...], float]:
    """The samples of `/metrics`: name and label values to value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_metric_says_what_was_done(route: Route, service: Service) -> None:
    """Each of docs/metrics.md, moved by real work and by nothing else."""
    found: dict[tuple[str, ...], float] = {}

    def is_quiet() -> bool:
        """Whether all that was received is counted on: what is none of ours comes again and again."""
        found.update(numbers(service))
        of_messages = [
            found.get(("headrace_sqs_messages_total", outcome), 0) for outcome in ("received", "left")
        ]
        return (
            found.get(("headrace_sqs_messages_total", "settled")) == 5
            and of_messages[0] - 5
            == of_messages[1]
            == found.get(("headrace_objects_total", "not_understood", "ignored"))
            and found["headrace_slots", "ready"] + found["headrace_slots", "free"] == SLOTS
        )

    until_sync(is_quiet, what="all counted")
    size = sum(found["Size"] for found in listed(route))

    assert found["headrace_leader",] == found["headrace_ready",] == 1
    assert [found["headrace_mode", mode] for mode in ("events", "fallback", "listing")] == [1, 0, 0]
    assert found["headrace_objects", "done"] == found["headrace_objects_total", "", "done"] == 2
    assert found["headrace_objects", "quarantined"] == 1
    assert found["headrace_objects_total", "not_json", "quarantined"] == 1
    assert found["headrace_objects_total", "empty", "skipped"] == 1
    # S3 tells the queue that it may, before the first object.
    assert found["headrace_objects_total", "test_event", "ignored"] == 1
    # Those before the broken line are in Kafka.
    assert found["headrace_records_total", route.topic] == 50 + 70 + 3
    assert found["headrace_bad_records_total", "not_json"] == 1
    assert found["headrace_read_bytes_total",] == size
    assert found["headrace_event_to_commit_seconds_count",] == 2
    # The listed object counts from its upload, long before the start was over.
    assert 2 <= found["headrace_event_to_commit_seconds_sum",] < 600
    assert found["headrace_batch_seconds_count",] >= 1
    assert found["headrace_transactions_total", "committed"] == service.status()["transactions_total"] >= 1
    # A busy broker may abort one.
    assert [found["headrace_transactions_total", outcome] for outcome in ("fenced", "unknown")] == [0] * 2
    assert found["headrace_list_requests_total",] >= 1
    # The test event, four objects, and what is none of ours (and may have come again).
    assert found["headrace_sqs_messages_total", "received"] >= 6
    assert found["headrace_sqs_messages_total", "settled"] == 5
    foreign = found["headrace_sqs_messages_total", "received"] - 5
    assert found["headrace_sqs_messages_total", "left"] == foreign
    assert found["headrace_objects_total", "not_understood", "ignored"] == foreign
    assert found["headrace_sqs_heartbeats_total",] >= 1
    assert found["headrace_slots", "ready"] + found["headrace_slots", "free"] == SLOTS
    assert [found[f"headrace_pending_{what}",] for what in ("objects", "bytes")] == [0, 0]
    assert found["headrace_oldest_pending_seconds",] == found["headrace_oldest_due_seconds",] == 0
    assert time.time() - found["headrace_last_full_listing_timestamp_seconds",] < 600


def test_what_waits_is_counted_while_it_waits(route: Route, proxy: Proxy, service: Service) -> None:
    """Objects, bytes and the age of the oldest: the lag that people ask for."""

    def waiting() -> tuple[float, float, bool]:
        found = numbers(service)
        age = found["headrace_oldest_pending_seconds",]
        return found["headrace_pending_objects",], found["headrace_pending_bytes",], 0.5 < age < 600

    with held(proxy, "waits.jsonl"):
        route.upload("waits.jsonl", rows("waits", 10))
        size = next(found["Size"] for found in listed(route) if found["Key"] == "waits.jsonl")
        until_sync(lambda: waiting() == (1, size, True), seconds=60, what="one object in the backlog")
    until_sync(lambda: numbers(service)["headrace_pending_objects",] == 0, seconds=60, what="an empty one")


def test_status_says_the_same(service: Service) -> None:
    """What the page draws."""
    status = service.status()

    assert status["bad_records"] == {"not_json": 1}
    assert status["event_to_commit"]["objects"] >= 2
    assert 0 < status["event_to_commit"]["p50_seconds"] <= status["event_to_commit"]["max_seconds"] < 600


def test_status_lists_what_is_quarantined(service: Service) -> None:
    """As many as it counts, with what an operator needs."""
    status = service.status()

    (shown,) = status["quarantined"]
    assert status["objects"]["quarantined"] == 1
    assert (shown["key"], shown["reason"]) == ("bad.jsonl", "not_json")
    assert shown["error"]
    assert shown["position"] == f"byte {BAD.index(b'{broken')}"
    assert 0 <= status["at_ms"] - shown["at_ms"] < 600_000


def test_the_page_of_a_real_service(
    route: Route, proxy: Proxy, service: Service, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From an upload to a browser: what is over, what is quarantined, what is read for as long as it is."""
    command = find_chromium()
    if command is None:
        pytest.skip("no Chromium on PATH (Debian: apt-get install chromium): the page was NOT looked at")
    browser = Chromium(command, tmp_path_factory.mktemp("profile"))
    try:
        with browser.page(f"http://127.0.0.1:{service.port}/") as page:
            page.await_text("#role", lambda text: text == "leader")
            assert "announced.jsonl done" in page.text("#recent")
            assert page.text("#mode") == "events"
            quarantined = page.text("#quarantined")
            assert "bad.jsonl not_json" in quarantined
            assert "None." not in quarantined
            assert page.text("#reading") == "None."
            with held(proxy, "large.jsonl"):
                route.upload("large.jsonl", rows("large" * 40, 10_000))
                page.await_text("#reading", lambda text: "large.jsonl 0" in text, seconds=60)
            page.await_text("#reading", lambda text: text == "None.", seconds=120)
            assert "large.jsonl done" in page.text("#recent")
            assert page.complaints == []
    finally:
        browser.close()


def listed(route: Route) -> list[Any]:
    """The objects of the bucket."""
    return list(aws.s3().list_objects_v2(Bucket=route.bucket)["Contents"])
