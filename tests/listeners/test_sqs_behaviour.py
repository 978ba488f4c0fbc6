"""What the listener promises of any queue: one suite over a queue in memory and LocalStack's SQS."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest

from listeners.discovery_events import Received
from listeners.sqs import QueueOptions
from listeners.visibility import QueueClient
from tests.support import aws
from tests.support.listening import QUICK, FakeQueue, Inbox, listening
from tests.support.until import until

SHORT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A queue of either kind, seen from both ends; its messages come back after three seconds."""

    client: QueueClient
    url: str
    send: Callable[[str], None]
    left: Callable[[], int]


@asynccontextmanager
async def _memory() -> AsyncIterator[Place]:
    queue = FakeQueue(visibility=SHORT)

    def send(body: str) -> None:
        queue.send(body)

    yield Place(client=queue, url="http://queue/q", send=send, left=lambda: len(queue.messages))


@asynccontextmanager
async def _localstack(stem: str) -> AsyncIterator[Place]:
    url = aws.new_queue(stem, {"VisibilityTimeout": str(SHORT)})
    sender = aws.sqs()

    def send(body: str) -> None:
        if stem.endswith(".fifo"):
            sender.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=uuid.uuid4().hex)
        else:
            sender.send_message(QueueUrl=url, MessageBody=body)

    def left() -> int:
        attributes = sender.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(attributes["ApproximateNumberOfMessages"]) + int(
            attributes["ApproximateNumberOfMessagesNotVisible"]
        )

    async with aws.aio_client("sqs") as client:
        yield Place(
            client=client,
            url=url,
            send=send,
            left=left,
        )
    sender.delete_queue(QueueUrl=url)


PLACES: dict[str, Callable[[], AbstractAsyncContextManager[Place]]] = {
    "memory": _memory,
    "standard": lambda: _localstack("standard"),
    "fifo": lambda: _localstack("fifo.fifo"),
}
place_names = pytest.mark.parametrize(
    "name",
    [
        "memory",
        pytest.param("standard", marks=pytest.mark.parts),
        pytest.param("fifo", marks=pytest.mark.parts),
    ],
)


def _options(
    *, extension: int = 300, receivers: int = 2, max_held: int = 2000, wait: int = 1
) -> QueueOptions:
    return QueueOptions(
        wait_seconds=wait,
        receivers=receivers,
        max_held=max_held,
        extension_seconds=extension,
        receive_pauses=QUICK,
        settle_pauses=QUICK,
    )


@place_names
def test_settled_messages_are_gone(name: str) -> None:
    """Every message is delivered once, with its body, and deleted when settled."""

    async def scenario() -> None:
        inbox = Inbox()
        async with PLACES[name]() as place:
            for number in range(25):
                place.send(f"body {number}")
            async with listening(place.client, inbox, url=place.url, options=_options()) as listener:
                await until(lambda: len(inbox.deliveries) == 25)
                listener.settle(delivery.id for delivery in inbox.deliveries)
                await until(lambda: inbox.counts["settled"] == 25)
                assert listener.held == 0
            assert place.left() == 0
            assert sorted(inbox.bodies) == sorted(f"body {number}" for number in range(25))

    asyncio.run(scenario())


@place_names
def test_held_messages_stay_hidden_over_a_time_out(name: str) -> None:
    """The heartbeat hides what is held, however short the queue's own time-out is."""

    async def scenario() -> None:
        inbox, other = Inbox(), Inbox()
        async with PLACES[name]() as place:
            for number in range(10):
                place.send(str(number))
            async with listening(place.client, inbox, url=place.url, options=_options()) as listener:
                await until(lambda: len(inbox.deliveries) == 10)
                # Until then the queue's own time-out counts, three seconds, which a busy machine may miss.
                await until(lambda: inbox.counts["heartbeats"] >= 10)
                before = inbox.counts["redelivered"]
                async with listening(place.client, other, url=place.url, options=_options()):
                    began = other.answers
                    await until(
                        lambda: other.answers >= began + 8, seconds=60, what="more than a time-out passes"
                    )
                assert other.deliveries == []
                assert inbox.counts["redelivered"] == before
                listener.settle(delivery.id for delivery in inbox.deliveries)
                await until(lambda: inbox.counts["settled"] == 10)
            assert place.left() == 0

    asyncio.run(scenario())


@place_names
def test_stopping_releases_what_is_held(name: str) -> None:
    """After a stop another receiver gets the messages at once, although they were hidden for minutes."""

    async def scenario() -> None:
        inbox, other = Inbox(), Inbox()
        async with PLACES[name]() as place:
            for number in range(12):
                place.send(str(number))
            async with listening(place.client, inbox, url=place.url, options=_options()):
                await until(lambda: inbox.counts["heartbeats"] >= 12)
            assert inbox.counts["released"] == 12
            async with listening(place.client, other, url=place.url, options=_options()):
                await until(lambda: sorted(other.bodies) == sorted(inbox.bodies))

    asyncio.run(scenario())


@place_names
def test_a_message_left_comes_back_in_its_time(name: str) -> None:
    """`leave` neither deletes nor hides: the queue's redrive policy counts on."""

    async def scenario() -> None:
        inbox = Inbox()
        async with PLACES[name]() as place:
            place.send("not for us")
            async with listening(place.client, inbox, url=place.url, options=_options()) as listener:
                await until(lambda: len(inbox.deliveries) == 1)
                listener.abandon(inbox.deliveries[0].id)
                assert listener.held == 0
                await until(lambda: len(inbox.deliveries) == 2)
            assert place.left() == 1

    asyncio.run(scenario())


@place_names
def test_no_more_are_held_than_allowed(name: str) -> None:
    """At `sqs.max.held` receiving waits, and goes on by itself when messages are settled."""

    async def scenario() -> None:
        inbox = Inbox()
        async with PLACES[name]() as place:
            for number in range(30):
                place.send(str(number))
            async with listening(
                place.client, inbox, url=place.url, options=_options(max_held=7, receivers=3)
            ) as listener:
                seen = 0
                while seen < 30:
                    await until(lambda: len(inbox.deliveries) > seen)  # noqa: B023 - asked at once
                    assert listener.held <= 7
                    batch = inbox.deliveries[seen:]
                    seen += len(batch)
                    listener.settle(delivery.id for delivery in batch)
                await until(lambda: inbox.counts["settled"] == 30)

    asyncio.run(scenario())


@place_names
def test_an_empty_queue_is_told_as_such(name: str) -> None:
    """A receive that found nothing is posted as nothing: that is how `--until-idle` knows."""

    async def scenario() -> None:
        inbox = Inbox()
        async with PLACES[name]() as place, listening(place.client, inbox, url=place.url, options=_options()):
            await until(lambda: len(inbox.events) >= 2)
        assert inbox.deliveries == []

    asyncio.run(scenario())


def test_a_queue_is_not_said_to_be_empty_while_a_message_is_held() -> None:
    """A FIFO queue gives nothing of a group before the messages of it that are held are deleted."""

    def told_empty() -> int:
        return sum(not received.messages for received in inbox.of(Received))

    inbox = Inbox()

    async def scenario() -> None:
        async with _memory() as place:
            place.send("first")
            options = _options(wait=0)
            async with listening(place.client, inbox, url=place.url, options=options) as listener:
                await until(lambda: inbox.bodies == ["first"])
                before, answers = told_empty(), inbox.answers
                await until(lambda: inbox.answers > answers + 8)
                assert told_empty() == before
                listener.settle(delivery.id for delivery in inbox.deliveries)
                await until(lambda: told_empty() >= before + 2)
            assert place.left() == 0

    asyncio.run(scenario())
