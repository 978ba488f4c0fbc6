"""SQS as aiobotocore's client shows it: visibility, duplicates, late messages; and S3 for the same loop."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self
from urllib.parse import quote_plus, unquote_plus

from botocore.exceptions import ClientError, ConnectionClosedError

from tests.simulation.kernel import EPOCH_MS, Kernel
from tests.simulation.s3 import Bucket, SimulatedS3, refused

_VISIBILITY: Final = 30.0
_POLL_SECONDS: Final = 0.25


@dataclass(slots=True)
class _Message:
    id: str
    body: str
    visible_at: float
    sent_ms: int
    receipts: int = 0


class Queue:
    """One queue."""

    def __init__(self, kernel: Kernel, bucket: Bucket) -> None:
        self.kernel = kernel
        self.bucket = bucket
        self.messages: list[_Message] = []
        self.down_until = 0.0
        self.is_deleted = False
        self.is_bare = False
        """Whether events have neither ETag nor size."""
        self.on_deleted: Callable[[str], None] = lambda _body: None
        """Called with the body of a message that a client deletes."""
        self.on_asked: Callable[[int], None] = lambda _most: None
        """Called with how many messages a client asks for."""
        self.on_received: Callable[[str], None] = lambda _body: None
        """Called with the body of a message that a client receives."""
        self._numbers = itertools.count(1)

    def announce(
        self,
        bucket: str,
        key: str,
        *,
        etag: str,
        size: int,
        after: float = 0.0,
        is_bare: bool = False,
        sequencer: str | None = None,
    ) -> None:
        """An S3 notification; with a sequencer it has the version that is there, and its time."""
        entity: dict[str, dict[str, Any]] = {
            "bucket": {"name": bucket},
            "object": {"key": quote_plus(key, safe="/"), "eTag": etag, "size": size},
        }
        if self.is_bare or is_bare:
            entity["object"] = {"key": quote_plus(key, safe="/")}
        at_ms = EPOCH_MS
        if sequencer is not None:
            stored = self.bucket.objects[bucket][key]
            entity["object"] |= {"sequencer": sequencer, "versionId": stored.version}
            at_ms = self.bucket.now_ms()
        record = {
            "eventSource": "aws:s3",
            "eventName": "ObjectCreated:Put",
            "eventTime": f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z",
        }
        self.send(json.dumps({"Records": [{**record, "s3": entity}]}), after=after)

    def send(self, body: str, *, after: float = 0.0) -> None:
        """A message of any kind."""
        number = next(self._numbers)
        at = self.kernel.now + after
        self.messages.append(_Message(f"message-{number}", body, at, self.bucket.now_ms()))

    def receive(self, most: int, visibility: float | None) -> list[dict[str, Any]]:
        """Some of what is visible now."""
        ready = [one for one in self.messages if one.visible_at <= self.kernel.now]
        self.kernel.rng.shuffle(ready)
        found = []
        for one in ready[:most]:
            one.receipts += 1
            self.on_received(one.body)
            one.visible_at = self.kernel.now + (_VISIBILITY if visibility is None else visibility)
            attributes = {"ApproximateReceiveCount": str(one.receipts), "SentTimestamp": str(one.sent_ms)}
            handle = f"{one.id}/{one.receipts}"
            found.append(
                {"MessageId": one.id, "ReceiptHandle": handle, "Body": one.body, "Attributes": attributes}
            )
        return found

    def held(self, at: float) -> set[tuple[str, str]]:
        """Buckets and keys of messages that a client had received then, and that were to come again."""
        found = set()
        for one in self.messages:
            if not one.receipts or one.visible_at <= at:
                continue
            for record in json.loads(one.body).get("Records", ()):
                about = record["s3"]
                found.add((about["bucket"]["name"], unquote_plus(about["object"]["key"])))
        return found

    def find(self, handle: str) -> _Message | None:
        """The message of a receipt."""
        name, _, _ = handle.partition("/")
        return next((one for one in self.messages if one.id == name), None)


class SimulatedSqs:
    """`aiobotocore`'s client of SQS, as far as the product calls it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def _call(self, operation: str) -> None:
        kernel = self._queue.kernel
        await asyncio.sleep(0.003 * (0.5 + kernel.rng.random()))
        kernel.require_alive()
        if self._queue.is_deleted:
            raise refused(operation, "AWS.SimpleQueueService.NonExistentQueue", 400)
        if self._queue.down_until > kernel.now:
            raise ConnectionClosedError(endpoint_url="http://simulated-sqs")

    async def receive_message(self, **given: Any) -> Any:
        """See aiobotocore."""
        await self._call("ReceiveMessage")
        deadline = self._queue.kernel.now + given["WaitTimeSeconds"]
        self._queue.on_asked(given["MaxNumberOfMessages"])
        while True:
            found = self._queue.receive(given["MaxNumberOfMessages"], given.get("VisibilityTimeout"))
            if found or self._queue.kernel.now >= deadline:
                return {"Messages": found}
            await asyncio.sleep(_POLL_SECONDS)

    async def delete_message_batch(self, **given: Any) -> Any:
        """See aiobotocore."""
        await self._call("DeleteMessageBatch")
        for entry in given["Entries"]:
            message = self._queue.find(entry["ReceiptHandle"])
            if message is not None:
                self._queue.messages.remove(message)
                self._queue.on_deleted(message.body)
        return {"Successful": given["Entries"], "Failed": []}

    async def change_message_visibility_batch(self, **given: Any) -> Any:
        """See aiobotocore."""
        await self._call("ChangeMessageVisibilityBatch")
        for entry in given["Entries"]:
            message = self._queue.find(entry["ReceiptHandle"])
            if message is not None:
                message.visible_at = self._queue.kernel.now + entry["VisibilityTimeout"]
        return {"Successful": given["Entries"], "Failed": []}

    async def get_queue_attributes(self, **_given: Any) -> Any:
        """See aiobotocore."""
        await self._call("GetQueueAttributes")
        return {"Attributes": {"VisibilityTimeout": str(int(_VISIBILITY))}}


class _Body:
    """The body of a GET, as aiobotocore gives it."""

    def __init__(self, body: Any) -> None:
        self._body = body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_ended: object) -> None:
        self._body.close()

    async def read(self) -> bytes:
        """Bytes."""
        found: bytes = self._body.read()
        return found


class AsyncS3:
    """`aiobotocore`'s client of S3 over the one that waits."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._client = SimulatedS3(bucket)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        async def call(**given: Any) -> Any:
            late = self._bucket.on_asked(name, given)
            if late:
                await asyncio.sleep(late)
            try:
                answer = await _asynchronously(method, given)
            except ClientError as error:
                self._bucket.on_answered(name, given, error)
                raise
            self._bucket.on_answered(name, given, answer)
            return answer | {"Body": _Body(answer["Body"])} if "Body" in answer else answer

        return call


async def _asynchronously(method: Callable[..., Any], given: Any) -> Any:
    """What a call that waits gives, without holding up what else the loop has to do for long."""
    await asyncio.sleep(0)
    return method(**given)


@asynccontextmanager
async def opened(client: Any) -> AsyncIterator[Any]:
    """A client as a context."""
    yield client
