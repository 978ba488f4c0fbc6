"""The messages that are held: which, by which receipt handle, until when they stay invisible; the calls.

What decides is pure: times are monotonic seconds, passed in. Calls have ten entries, some of which may fail.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.model.errors import SourceUnavailable
from listeners.discovery_events import NOT_SQS, translated_errors

# SQS hides a message for at most 12 hours from its receive, extensions included; past that a change of
# visibility is refused and the message comes back at a moment not of our choosing.
LONGEST_RECEIVE: Final = 12 * 3600.0
# Shown on purpose so long before, while it is hidden still: extensions reach into the margin, and by SQS's
# clock the receive was a little earlier.
_MARGIN: Final = 300.0
_RESERVE: Final = 60.0


@dataclass(slots=True, kw_only=True)
class _Message:
    receipt: str
    first_received: float
    received: float
    hidden_until: float
    granted: float
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A message and the handle of its newest receive: what SQS needs for a delete or a change."""

    message_id: str
    handle: str


class HeldMessages:
    """The messages held; `extension` is what one heartbeat grants, in seconds, at most.

    At most `limit` are held for work that continues; those that are parked are kept invisible next to them.
    """

    def __init__(self, *, limit: int, extension: float) -> None:
        self._limit = limit
        self._extension = extension
        self._messages: dict[str, _Message] = {}
        self._parked: set[str] = set()
        self._reserved = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all held messages, oldest first."""
        return tuple(self._messages)

    @property
    def is_full(self) -> bool:
        """True when no receive will be granted before one that counts is forgotten or parked."""
        return self._counted >= self._limit

    @property
    def _counted(self) -> int:
        return len(self._messages) - len(self._parked)

    def reserve(self, most: int) -> int:
        """How many messages a receive may ask for (0: none now), up to `most`; the room is kept for it."""
        granted = max(0, min(most, self._limit - self._counted - self._reserved))
        self._reserved += granted
        return granted

    def unreserve(self, granted: int) -> None:
        """The receive that `reserve` granted is over: what it brought has been taken."""
        self._reserved -= granted

    def hold(self, message_id: str, handle: str, *, now: float, hidden_for: float) -> bool:
        """True when the message is new; one that is held already gives its newer handle only.

        One that comes before its time is hidden for no longer than it was: the queue's time-out was lowered.
        """
        known = self._messages.get(message_id)
        if known is not None and now < known.hidden_until:
            hidden_for = min(hidden_for, now - known.received)
        self._messages[message_id] = _Message(
            receipt=handle,
            first_received=now if known is None else known.first_received,
            received=now,
            hidden_until=now + hidden_for,
            granted=hidden_for,
        )
        return known is None

    def is_early(self, message_id: str, now: float) -> bool:
        """Whether a message that is received now is held, and was to be hidden for longer."""
        known = self._messages.get(message_id)
        return known is not None and now < known.hidden_until

    def park(self, message_id: str) -> None:
        """Count it no longer: it waits for something that no slot can bring, and is held all the same."""
        if message_id in self._messages:
            self._parked.add(message_id)

    def release(self, message_id: str) -> Receipt | None:
        """Hold it no longer; its receipt, or None when it was not held."""
        message = self._messages.pop(message_id, None)
        self._parked.discard(message_id)
        return None if message is None else Receipt(message_id=message_id, handle=message.receipt)

    def receipt(self, message_id: str) -> Receipt | None:
        """The newest receipt of a held message."""
        message = self._messages.get(message_id)
        return None if message is None else Receipt(message_id=message_id, handle=message.receipt)

    def due(self, now: float) -> tuple[Receipt, ...]:
        """Messages to extend now: those with less than half of their last grant left, and not all 12 hours.

        What was refused thrice is left to redelivery, which brings a fresh handle.
        """
        last = now - (LONGEST_RECEIVE - _MARGIN)
        return tuple(
            Receipt(message_id=message_id, handle=message.receipt)
            for message_id, message in self._messages.items()
            if message.hidden_until - now < message.granted / 2
            and message.received > last
            and message.refused < _GIVE_UP
            # Less than a second more is none: SQS counts in whole ones.
            and self._granted(message, now) > message.hidden_until - now + 1
        )

    def extension(self, receipt: Receipt, now: float) -> int:
        """The seconds to hide a message for that is due: no more than is left of its 12 hours."""
        return self._granted(self._messages[receipt.message_id], now)

    def _granted(self, message: _Message, now: float) -> int:
        return int(min(self._extension, message.received + LONGEST_RECEIVE - _RESERVE - now))

    def expiring(self, now: float) -> tuple[Receipt, ...]:
        """Messages to make visible now, so that a new receive starts new 12 hours; each is given once."""
        last = now - (LONGEST_RECEIVE - _MARGIN)
        found = [
            (message_id, message)
            for message_id, message in self._messages.items()
            if message.received <= last and message.refused < _GIVE_UP
        ]
        for _, message in found:
            message.refused = _GIVE_UP
        return tuple(Receipt(message_id=message_id, handle=message.receipt) for message_id, message in found)

    def record_extended(self, receipts: Iterable[Receipt], *, asked: float) -> None:
        """A heartbeat was accepted; `asked` is when it was sent, so that this is never ahead of SQS."""
        for receipt in receipts:
            message = self._messages.get(receipt.message_id)
            if message is not None and message.receipt == receipt.handle:
                message.granted = self._granted(message, asked)
                message.hidden_until = asked + message.granted
                message.refused = 0

    def record_refused(self, receipts: Iterable[Receipt]) -> None:
        """A heartbeat was refused for these; they are asked for again a few times, then left."""
        for receipt in receipts:
            message = self._messages.get(receipt.message_id)
            if message is not None and message.receipt == receipt.handle:
                message.refused += 1


_GIVE_UP: Final = 3


# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
BATCH: Final = 10


class QueueClient(Protocol):
    """What we use of aiobotocore's SQS client."""

    def receive_message(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`ReceiveMessage`."""

    def delete_message_batch(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`DeleteMessageBatch`."""

    def change_message_visibility_batch(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`ChangeMessageVisibilityBatch`."""

    def get_queue_attributes(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`GetQueueAttributes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What became of each entry of a batch call; `hopeless` entries would fail again with the same handle."""

    done: tuple[Receipt, ...] = ()
    failed: tuple[Receipt, ...] = ()
    hopeless: tuple[Receipt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue and the client for it."""

    client: QueueClient
    url: str

    async def receive(
        self, *, most: int, wait_seconds: int, visibility_seconds: int | None
    ) -> Sequence[Mapping[str, Any]]:
        """Up to `most` messages (1 to 10) as SQS gives them; waits up to `wait_seconds` for the first."""
        arguments: dict[str, Any] = {
            "QueueUrl": self.url,
            "MaxNumberOfMessages": most,
            "WaitTimeSeconds": wait_seconds,
            "MessageSystemAttributeNames": ["ApproximateReceiveCount", "SentTimestamp"],
        }
        if visibility_seconds is not None:
            arguments["VisibilityTimeout"] = visibility_seconds
        answer = await self._answer(self.client.receive_message(**arguments))
        messages: Sequence[Mapping[str, Any]] = answer.get("Messages", ())
        return messages

    async def visibility_seconds(self) -> int:
        """The queue's own visibility timeout."""
        answer = await self._answer(
            self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["VisibilityTimeout"])
        )
        try:
            return int(answer["Attributes"]["VisibilityTimeout"])
        except (KeyError, ValueError) as error:
            raise SourceUnavailable(f"{self._name}: {NOT_SQS}") from error

    async def delete(self, receipts: Sequence[Receipt]) -> BatchResult:
        """Delete up to ten messages."""
        return await self._batch(self.client.delete_message_batch, receipts, {})

    async def hide(self, receipts: Sequence[Receipt], *, seconds: int) -> BatchResult:
        """Keep up to ten messages invisible for `seconds` from now; 0 makes them visible at once."""
        return await self._batch(
            self.client.change_message_visibility_batch, receipts, {"VisibilityTimeout": seconds}
        )

    async def _batch(
        self,
        call: Callable[..., Awaitable[Mapping[str, Any]]],
        receipts: Sequence[Receipt],
        more: Mapping[str, Any],
    ) -> BatchResult:
        entries = [
            {"Id": str(index), "ReceiptHandle": receipt.handle, **more}
            for index, receipt in enumerate(receipts)
        ]
        answer = await self._answer(call(QueueUrl=self.url, Entries=entries))
        faults = {int(entry["Id"]): bool(entry.get("SenderFault")) for entry in answer.get("Failed", ())}
        return BatchResult(
            done=tuple(receipt for index, receipt in enumerate(receipts) if index not in faults),
            failed=tuple(receipts[index] for index, is_ours in faults.items() if not is_ours),
            hopeless=tuple(receipts[index] for index, is_ours in faults.items() if is_ours),
        )

    async def _answer(self, call: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
        """The answer to a call; SourceUnavailable and AccessDenied."""
        with translated_errors(self._name):
            return await call

    @property
    def _name(self) -> str:
        return f"queue {self.url}"
