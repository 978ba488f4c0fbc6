"""A queue as a server of HTTP: gives each message once, and remembers which were deleted."""

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.http_serving import QuietHandler, serving


class HttpQueue:
    """`deleted` are the bodies of messages that were deleted."""

    def __init__(self, url: str) -> None:
        self.endpoint = url
        self.url = f"{url}/1/queue"
        self.deleted: list[str] = []
        self._waiting: deque[str] = deque()
        self._any = threading.Condition()

    def send(self, body: str) -> None:
        """One more message."""
        with self._any:
            self._waiting.append(body)
            self._any.notify()

    def answer(self, operation: str, asked: Any) -> dict[str, Any]:
        """What SQS answers to it; a receive waits for a message, though not for long."""
        match operation:
            case "ReceiveMessage":
                with self._any:
                    self._any.wait_for(lambda: self._waiting, 0.2)
                    some = [self._waiting.popleft()] if self._waiting else []
                return {
                    "Messages": [{"MessageId": each, "ReceiptHandle": each, "Body": each} for each in some]
                }
            case "GetQueueAttributes":
                return {"Attributes": {"VisibilityTimeout": "60"}}
            case _:
                entries = asked.get("Entries", [])
                if operation == "DeleteMessageBatch":
                    self.deleted += [each["ReceiptHandle"] for each in entries]
                return {"Successful": [{"Id": each["Id"]} for each in entries], "Failed": []}


@contextmanager
def http_queue() -> Iterator[HttpQueue]:
    """An empty queue, for as long as the context is."""
    handler: Any = type("Handler", (_Handler,), {})
    with serving(handler) as url:
        handler.queue = HttpQueue(url)
        yield handler.queue


class _Handler(QuietHandler):
    queue: HttpQueue

    def do_POST(self) -> None:  # http.server's name
        """A call of SQS, in its JSON."""
        operation = self.headers["X-Amz-Target"].partition(".")[2]
        answer = self.queue.answer(operation, json.loads(self.body()))
        self.answer(200, json.dumps(answer).encode(), {"Content-Type": "application/x-amz-json-1.0"})
