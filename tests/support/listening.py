"""What tests of the listeners share: a place where posts and counts arrive, and a queue in memory."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from headrace.model.errors import HeadraceError
from listeners.discovery_events import Backoff, Counters, Event, Message, Received
from listeners.sqs import QueueOptions, SqsListener
from listeners.visibility import Queue, QueueClient

E = TypeVar("E")

QUICK = Backoff(first=0.01, longest=0.1)


class Inbox:
    """Keeps what is posted and counted, as a service would see it; also stands in for the switch."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.counts: Counter[str] = Counter()
        self.failures: list[HeadraceError] = []
        self.answers = 0
        self.counters = Counters(
            messages=self._count,
            heartbeats=lambda number: self._count("heartbeats", number),
            list_requests=lambda number: self._count("list_requests", number),
            inventory_rows=lambda outcome, number: self._count(f"rows {outcome}", number),
        )

    def _count(self, outcome: str, number: int) -> None:
        self.counts[outcome] += number

    def post(self, event: Event) -> None:
        """Take an event."""
        self.events.append(event)

    def queue_answered(self, *, asked: float) -> None:
        """Count the answer."""
        del asked
        self.answers += 1

    def queue_failed(self, error: HeadraceError, *, since: float) -> None:
        """Keep the failure."""
        del since
        self.failures.append(error)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def deliveries(self) -> list[Message]:
        """All messages delivered, in order."""
        return [delivery for received in self.of(Received) for delivery in received.messages]

    @property
    def bodies(self) -> list[str]:
        """Their bodies."""
        return [delivery.body for delivery in self.deliveries]


@dataclass(slots=True)
class _Message:
    body: str
    visible_at: float
    handle: str = ""
    receives: int = 0


@dataclass(slots=True)
class FakeQueue:
    """A queue in memory with SQS's rules for handles and visibility, and failures on request.

    `fails` is asked before each call with the call's name: an exception it returns is raised. `refuses` is
    asked for each entry of a batch: True makes that entry fail, for the service's fault. `before` runs
    between the arrival of a batch call and its effect.
    """

    visibility: float = 30.0
    fails: Callable[[str], Exception | None] = lambda _call: None
    refuses: Callable[[str, str], bool] = lambda _call, _handle: False
    before: Callable[[str], Awaitable[None]] = lambda _call: asyncio.sleep(0)
    messages: dict[str, _Message] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    longest_batch: int = 0
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)

    def send(self, body: str) -> str:
        """The id of a message put on the queue."""
        message_id = f"m{next(self._ids)}"
        self.messages[message_id] = _Message(body, visible_at=0.0)
        return message_id

    async def receive_message(self, **arguments: Any) -> Mapping[str, Any]:
        """Visible messages, or none after the wait."""
        self._called("receive")
        await asyncio.sleep(0.002)  # or a wait of 0 would never let the loop go
        deadline = time.monotonic() + arguments["WaitTimeSeconds"]
        while True:
            found = self._visible(
                arguments["MaxNumberOfMessages"], arguments.get("VisibilityTimeout", self.visibility)
            )
            if found or time.monotonic() >= deadline:
                return {"Messages": found} if found else {}
            await asyncio.sleep(0.005)

    async def delete_message_batch(self, **arguments: Any) -> Mapping[str, Any]:
        """Delete by the newest handle; an older one is accepted and does nothing, as on a standard queue."""
        return await self._batch("delete", arguments, self._delete)

    async def change_message_visibility_batch(self, **arguments: Any) -> Mapping[str, Any]:
        """Change the visibility by the newest handle; an older one is refused."""
        return await self._batch("hide", arguments, self._hide)

    async def get_queue_attributes(self, **_arguments: Any) -> Mapping[str, Any]:
        """The queue's own visibility."""
        self._called("attributes")
        return {"Attributes": {"VisibilityTimeout": str(int(self.visibility))}}

    def _visible(self, most: int, hidden_for: float) -> list[Mapping[str, Any]]:
        now = time.monotonic()
        found = [(i, m) for i, m in self.messages.items() if m.visible_at <= now][:most]
        for message_id, message in found:
            message.receives += 1
            message.handle = f"{message_id}/{message.receives}"
            message.visible_at = now + hidden_for
        return [
            {
                "MessageId": message_id,
                "ReceiptHandle": message.handle,
                "Body": message.body,
                "Attributes": {
                    "ApproximateReceiveCount": str(message.receives),
                    "SentTimestamp": "1700000000000",
                },
            }
            for message_id, message in found
        ]

    async def _batch(
        self, call: str, arguments: Mapping[str, Any], apply: Callable[[Mapping[str, Any]], bool]
    ) -> Mapping[str, Any]:
        self._called(call)
        await self.before(call)
        entries: Sequence[Mapping[str, Any]] = arguments["Entries"]
        self.longest_batch = max(self.longest_batch, len(entries))
        failed = []
        for entry in entries:
            if self.refuses(call, entry["ReceiptHandle"]):
                failed.append({"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"})
            elif not apply(entry):
                failed.append({"Id": entry["Id"], "SenderFault": True, "Code": "ReceiptHandleIsInvalid"})
        return {"Failed": failed} if failed else {}

    def _delete(self, entry: Mapping[str, Any]) -> bool:
        message_id = entry["ReceiptHandle"].split("/")[0]
        message = self.messages.get(message_id)
        if message is not None and message.handle == entry["ReceiptHandle"]:
            del self.messages[message_id]
        return True

    def _hide(self, entry: Mapping[str, Any]) -> bool:
        message = self.messages.get(entry["ReceiptHandle"].split("/")[0])
        if message is None or message.handle != entry["ReceiptHandle"]:
            return False
        message.visible_at = time.monotonic() + entry["VisibilityTimeout"]
        return True

    def _called(self, call: str) -> None:
        self.calls[call] += 1
        if (error := self.fails(call)) is not None:
            raise error


def service_error(
    code: str, status: int, operation: str = "Call", *, headers: Mapping[str, str] = {}
) -> ClientError:
    """What botocore raises for an answer of this code, status and headers."""
    response: Any = {
        "Error": {"Code": code, "Message": "said so"},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
    }
    return ClientError(response, operation)


@asynccontextmanager
async def listening(
    client: QueueClient, inbox: Inbox, *, url: str = "http://queue/q", options: QueueOptions | None = None
) -> AsyncIterator[SqsListener]:
    """A listener that runs while the block does; then it is stopped and has released what it held."""
    listener = SqsListener(
        queue=Queue(client=client, url=url),
        options=options or QueueOptions(wait_seconds=1, receive_pauses=QUICK, settle_pauses=QUICK),
        post=inbox.post,
        counters=inbox.counters,
        health=inbox,
    )
    task = asyncio.create_task(listener.run())
    try:
        yield listener
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await listener.close()
