"""The calls we make on a queue, ten entries at a time, with their partial failures."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from listeners.failures import translated_errors
from listeners.visibility import Receipt

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
        with translated_errors(self._name):
            answer = await self.client.receive_message(**arguments)
        messages: Sequence[Mapping[str, Any]] = answer.get("Messages", ())
        return messages

    async def visibility_seconds(self) -> int:
        """The queue's own visibility timeout."""
        with translated_errors(self._name):
            answer = await self.client.get_queue_attributes(
                QueueUrl=self.url, AttributeNames=["VisibilityTimeout"]
            )
        return int(answer["Attributes"]["VisibilityTimeout"])

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
        with translated_errors(self._name):
            answer = await call(QueueUrl=self.url, Entries=entries)
        faults = {int(entry["Id"]): bool(entry.get("SenderFault")) for entry in answer.get("Failed", ())}
        return BatchResult(
            done=tuple(receipt for index, receipt in enumerate(receipts) if index not in faults),
            failed=tuple(receipts[index] for index, is_ours in faults.items() if not is_ours),
            hopeless=tuple(receipts[index] for index, is_ours in faults.items() if is_ours),
        )

    @property
    def _name(self) -> str:
        return f"queue {self.url}"
