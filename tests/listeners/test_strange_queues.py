"""OKs that are not SQS's: the queue fails by them, and nothing ends."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ClassVar, Final

import pytest

from headrace.model.errors import SourceUnavailable
from listeners.async_clients import sqs_client
from listeners.visibility import Queue, Receipt
from tests.ingest.checks.findings.configured import configured
from tests.support.http_serving import QuietHandler, serving


class _Handler(QuietHandler):
    said: ClassVar[bytes] = b""

    def do_POST(self) -> None:
        self.body()
        self.answer(200, self.said)


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Where `_Handler.said` is the answer to everything."""
    with serving(_Handler) as url:
        yield url


async def _receive(queue: Queue) -> Any:
    return await queue.receive(most=10, wait_seconds=1, visibility_seconds=None)


async def _visibility(queue: Queue) -> Any:
    return await queue.visibility_seconds()


async def _delete(queue: Queue) -> Any:
    return await queue.delete([Receipt(message_id="m", handle="h")])


Call = Callable[[Queue], Coroutine[None, None, Any]]


def _asked(endpoint: str, call: Call) -> Any:
    settings = configured(
        {"sqs.endpoint": endpoint, "aws.access.key.id": "test", "aws.secret.access.key": "test"}
    )
    sqs, s3 = settings.sqs, settings.s3
    assert sqs is not None

    async def ask() -> Any:
        async with sqs_client(sqs, s3) as client:
            return await call(Queue(client=client, url=sqs.queue_url))

    return asyncio.run(ask())


PAGES: Final = [b"<html>Please log in</html>", b"", b"[]", b'{"Messages":[{"Body":"x"}]}', b'{"Messages":5}']


@pytest.mark.parametrize(
    ("call", "body"),
    [
        *((_receive, body) for body in PAGES),
        *((_visibility, body) for body in [*PAGES[:3], b'{"Attributes":{}}', b'{"Attributes":7}']),
        *((_delete, body) for body in [*PAGES[:3], b'{"Failed":3}']),
    ],
)
def test_another_document_is_a_failure_of_the_queue(endpoint: str, call: Call, body: bytes) -> None:
    """It is neither an empty queue, nor the end of the service."""
    _Handler.said = body
    with pytest.raises(SourceUnavailable, match="not SQS's"):
        _asked(endpoint, call)


def test_an_empty_queue_is_one(endpoint: str) -> None:
    """That is how SQS says it."""
    _Handler.said = b"{}"
    assert list(_asked(endpoint, _receive)) == []
