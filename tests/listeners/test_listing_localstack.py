"""Listings of a real bucket, through a proxy that damages the answers."""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.model.objects import ListingPage
from listeners.discovery_events import Event, ListingFailed, ListingKind
from listeners.listing import Bucket, Lister
from tests.support import aws
from tests.support.listening import QUICK, Inbox
from tests.support.proxy import Answer, Cut, Proxy, Request, Truncate

pytestmark = pytest.mark.parts

ODD_KEYS = [
    "in/a b",
    "in/a+b",
    "in/a%2Bb",
    "in/a=b&c",
    "in/é/ü",
    "in/\x01\x1f\x7f",
    "in/line\nbreak",
    "in/<&>\"'",
    "in/\U0001f600",
    "in/\uffee",
    "in//double",
    "in/./dot",
    "in/",
]


class _Service(Inbox):
    lister: Lister

    def post(self, event: Event) -> None:
        super().post(event)
        if isinstance(event, ListingPage):
            self.lister.page_done()


def _list(endpoint: str, bucket: Bucket, *, page_keys: int = 1000) -> _Service:
    async def scenario() -> _Service:
        service = _Service()
        async with aws.aio_client("s3", endpoint) as client:
            service.lister = Lister(
                client=client,
                bucket=bucket,
                post=service.post,
                counters=service.counters,
                pauses=QUICK,
                page_keys=page_keys,
            )
            await service.lister.list(ListingKind.FULL, after=None)
        return service

    return asyncio.run(scenario())


def _keys(service: _Service) -> list[str]:
    return [found.id.key for page in service.of(ListingPage) for found in page.objects]


def test_odd_keys_come_as_they_are() -> None:
    """Blank, plus, percent, control characters and what lies beyond 16 bits, in the order of UTF-8."""
    bucket = aws.new_bucket()
    client = aws.s3()
    tags = {
        key: client.put_object(Bucket=bucket, Key=key, Body=key.encode())["ETag"].strip('"')
        for key in ODD_KEYS
    }
    # In one page: LocalStack 4.10 loses keys between pages when their encoded form sorts otherwise.
    service = _list(aws.address(), Bucket(name=bucket, prefix="in/"))
    assert _keys(service) == sorted(ODD_KEYS, key=str.encode)
    assert {found.id.key: found.id.etag for page in service.of(ListingPage) for found in page.objects} == tags


@pytest.fixture(scope="module")
def large_bucket() -> str:
    """1,100 objects under `in/` and some beside it on both ends."""
    bucket = aws.new_bucket()
    client = aws.s3()
    keys = [f"in/{number:05}" for number in range(1100)] + ["aside", "in", "in.jsonl", "other/1", "z"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"x"), keys))
    return bucket


def test_more_than_one_page_and_nothing_beside_the_prefix(large_bucket: str) -> None:
    """1,100 keys are two requests."""
    service = _list(aws.address(), Bucket(name=large_bucket, prefix="in/"))
    assert _keys(service) == [f"in/{number:05}" for number in range(1100)]
    assert service.counts["list_requests"] == 2
    assert len(service.of(ListingPage)) == 2


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Answer(status=503), id="503"),
        pytest.param(Answer(status=500, body=b"not XML at all", content_type="text/plain"), id="500"),
        pytest.param(Cut(), id="cut instead of an answer"),
        pytest.param(Cut(5000), id="cut in the answer"),
        pytest.param(Truncate(5000), id="truncated answer"),
    ],
)
def test_a_listing_that_fails_half_way_is_taken_up_again(
    large_bucket: str, fault: Answer | Cut | Truncate
) -> None:
    """Every third LIST is damaged: still every key once, in order."""
    calls = itertools.count()

    def every_third(request: Request) -> bool:
        return "list-type" in request.path and next(calls) % 3 == 1

    with Proxy(aws.address()) as proxy:
        proxy.on(fault, when=every_third)
        service = _list(proxy.url, Bucket(name=large_bucket, prefix="in/"), page_keys=200)
    # aiohttp itself repeats a GET whose connection was reset before any answer.
    assert len(service.of(ListingFailed)) == (0 if fault == Cut() else 3)
    assert next(calls) >= 9
    assert _keys(service) == [f"in/{number:05}" for number in range(1100)]
    assert [page.is_last for page in service.of(ListingPage)] == [False] * 5 + [True]
