"""HEADs that fail: what is asked again, what is given up, and that nobody waits for them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ingest.errors import ObjectForbidden
from ingest.model.objects import S3Object
from listeners.discovery_events import HeadAnswer
from listeners.head import HeadRequester
from tests.support.listening import QUICK, Inbox, service_error
from tests.support.until import until

_WHEN = datetime(2026, 1, 31, tzinfo=UTC)


class Bucket:
    """Answers a HEAD of any key, unless `fails` gives an error for its number (from 1) of that key."""

    def __init__(self, fails: Callable[[str, int], Exception | None]) -> None:
        self.calls: Counter[str] = Counter()
        self._fails = fails

    async def head_object(self, **arguments: Any) -> Mapping[str, Any]:
        """The object, or the error."""
        key = arguments["Key"]
        self.calls[key] += 1
        await asyncio.sleep(0)
        if (error := self._fails(key, self.calls[key])) is not None:
            raise error
        return {"ETag": '"e"', "ContentLength": 3, "LastModified": _WHEN}


def refused(status: int) -> Exception:
    """The answer to a HEAD: a status and no body."""
    return service_error(str(status), status, "HeadObject")


async def _answers(bucket: Bucket, keys: list[str], wanted: int) -> dict[str, Any]:
    """What is posted for these keys, once there are so many answers."""
    inbox = Inbox()
    async with asyncio.TaskGroup() as tasks:
        heads = HeadRequester(client=bucket, post=inbox.post, tasks=tasks, pauses=QUICK)
        for key in keys:
            heads.request(key, bucket="b", key=key, version_id=None)
        await until(lambda: len(inbox.events) >= wanted)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
    return {answer.token: answer.answer for answer in inbox.of(HeadAnswer)}


def answers(bucket: Bucket, keys: list[str], wanted: int) -> dict[str, Any]:
    """The same, in a loop of its own."""
    return asyncio.run(_answers(bucket, keys, wanted))


def test_whoever_is_asked_for_again_holds_nobody_up() -> None:
    """A hundred keys that S3 cannot answer for, and one that it can."""
    failing = [f"failing-{number}" for number in range(100)]
    bucket = Bucket(lambda key, _: refused(500) if key in failing else None)
    found = answers(bucket, [*failing, "fine"], 1)
    assert list(found) == ["fine"]
    assert isinstance(found["fine"], S3Object)


def test_a_bad_request_every_time_is_given_up() -> None:
    """As forbidden, so that its message stays on the queue, or the object is tried and its error seen."""
    bucket = Bucket(lambda _, __: refused(400))
    found = answers(bucket, ["sse-c"], 1)
    assert isinstance(found["sse-c"], ObjectForbidden)
    assert "s3://b/sse-c cannot be read (400)" in str(found["sse-c"])
    assert bucket.calls["sse-c"] == 10


def test_what_passes_is_waited_for() -> None:
    """Credentials that were expired, a service that was out of order."""
    bucket = Bucket(lambda _, number: refused(400 if number % 2 else 503) if number < 15 else None)
    found = answers(bucket, ["later"], 1)
    assert isinstance(found["later"], S3Object)
    assert bucket.calls["later"] == 15
