"""HEADs that fail: what is asked again, what is given up, and that nobody waits for them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Self

import pytest

from headrace.model.errors import ObjectArchived, ObjectForbidden, ObjectMissing
from headrace.model.objects import S3Object
from listeners.discovery_events import HeadAnswer, HeadsWait
from listeners.listeners import HeadRequester
from tests.support import aws
from tests.support.configuration import settings_for
from tests.support.listener_host import ListenerHost
from tests.support.listening import QUICK, Inbox, service_error
from tests.support.proxy import Answer, Proxy
from tests.support.until import until, until_sync

_WHEN = datetime(2026, 1, 31, tzinfo=UTC)
FORBIDDEN = Answer(status=403, body=b"<Error><Code>AccessDenied</Code><Message>so</Message></Error>")


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

    async def get_object(self, **arguments: Any) -> Mapping[str, Any]:
        """The object, or the error; its body is not looked at."""
        return await self.head_object(**arguments)


def refused(status: int) -> Exception:
    """The answer to a HEAD: a status and no body."""
    return service_error(str(status), status, "HeadObject")


async def _answers(bucket: Bucket, keys: list[str], wanted: int, *, reads: bool = False) -> dict[str, Any]:
    """What is posted for these keys, once there are so many answers."""
    inbox = Inbox()
    async with asyncio.TaskGroup() as tasks:
        heads = HeadRequester(client=bucket, post=inbox.post, tasks=tasks, pauses=QUICK)
        for key in keys:
            heads.request(key, bucket="b", key=key, version_id=None, reads=reads)
        await until(lambda: len(inbox.of(HeadAnswer)) >= wanted)
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


@pytest.mark.parametrize("status", [405, 501, 503])
def test_what_is_waited_for_is_said_until_it_is_answered(status: int) -> None:
    """One of two is named, each time it is tried; a refusal that is given up after some tries is not."""
    inbox, away = Inbox(), {"one", "two"}

    def fails(key: str, _number: int) -> Exception | None:
        return refused(status) if key in away else refused(400) if key == "sse-c" else None

    async def scenario() -> None:
        async with asyncio.TaskGroup() as tasks:
            heads = HeadRequester(client=Bucket(fails), post=inbox.post, tasks=tasks, pauses=QUICK)
            heads.request("refused", bucket="b", key="sse-c", version_id=None)
            await until(lambda: len(inbox.of(HeadAnswer)) == 1)
            assert not inbox.of(HeadsWait)
            for key in ("one", "two"):
                heads.request(key, bucket="b", key=key, version_id=None)
            await until(lambda: len(inbox.of(HeadsWait)) >= 3)
            (first,) = {each.sentence for each in inbox.of(HeadsWait)}
            assert "s3://b/" in str(first)
            named = "one" if "s3://b/one" in str(first) else "two"
            away.remove(named)
            (other,) = away
            await until(lambda: f"s3://b/{other}" in str(inbox.of(HeadsWait)[-1].sentence))
            away.clear()
            await until(lambda: len(inbox.of(HeadAnswer)) == 3)

    asyncio.run(scenario())
    sentences = [each.sentence for each in inbox.of(HeadsWait)]
    assert sentences[-1] is None
    assert sentences.count(None) == 1


def test_a_version_that_is_a_delete_marker_is_missing() -> None:
    """S3 says so in a header of its 405; without it it is a proxy's answer, which says nothing."""
    inbox = Inbox()
    marked = service_error("405", 405, "HeadObject", headers={"x-amz-delete-marker": "true"})

    async def scenario() -> None:
        async with asyncio.TaskGroup() as tasks:
            bucket = Bucket(lambda _, number: refused(405) if number < 3 else marked)
            heads = HeadRequester(client=bucket, post=inbox.post, tasks=tasks, pauses=QUICK)
            heads.request("marker", bucket="b", key="k", version_id="v")
            await until(lambda: len(inbox.of(HeadAnswer)) == 1)

    asyncio.run(scenario())
    assert isinstance(inbox.of(HeadAnswer)[0].answer, ObjectMissing)


def test_a_byte_that_cannot_be_read_is_told_at_once() -> None:
    """A GET's refusal has a document: an object that was archived since is no 403 of all."""
    bucket = Bucket(lambda _, __: service_error("InvalidObjectState", 403, "GetObject"))
    found = asyncio.run(_answers(bucket, ["cold"], 1, reads=True))
    assert type(found["cold"]) is ObjectArchived
    assert bucket.calls["cold"] == 1


@pytest.mark.parametrize(
    ("lacks", "header"), [("ContentLength", "Content-Length"), ("LastModified", "Last-Mod")]
)
def test_an_answer_that_lacks_a_header_is_asked_for_again(lacks: str, header: str) -> None:
    """Until a proxy lets it pass: neither the listeners end nor is the object given up."""

    class Lacking(Bucket):
        async def head_object(self, **arguments: Any) -> Mapping[str, Any]:
            answer = await super().head_object(**arguments)
            is_lacking = self.calls["k"] <= 12
            return {name: value for name, value in answer.items() if not (is_lacking and name == lacks)}

    inbox = Inbox()

    async def asked() -> None:
        async with asyncio.TaskGroup() as tasks:
            heads = HeadRequester(
                client=Lacking(lambda _, __: None), post=inbox.post, tasks=tasks, pauses=QUICK
            )
            heads.request("k", bucket="b", key="k", version_id=None)
            await until(lambda: bool(inbox.of(HeadAnswer)))

    asyncio.run(asked())
    assert isinstance(inbox.of(HeadAnswer)[0].answer, S3Object)
    told = [one.sentence for one in inbox.of(HeadsWait) if one.sentence is not None]
    assert f"s3://b/k was answered without {header}" in told[0]


class Unread:
    """A body that is left."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave it."""

    async def read(self) -> bytes:
        """None may be read."""
        raise AssertionError("the whole object is read")


class WholeBucket(Bucket):
    """Answers a GET with the whole object, whatever range it is asked for."""

    async def get_object(self, **arguments: Any) -> Mapping[str, Any]:
        """The object, and no range."""
        return {**await super().get_object(**arguments), "Body": Unread()}


def test_a_byte_is_not_waited_for_where_ranges_are_not_heeded() -> None:
    """Such as by a cache in between: the answer's length is the object's."""
    found = asyncio.run(_answers(WholeBucket(lambda _, __: None), ["k"], 1, reads=True))
    assert isinstance(found["k"], S3Object)
    assert found["k"].size == 3


@pytest.mark.parts
def test_a_byte_is_read_where_a_head_would_not_tell() -> None:
    """GETs are refused and HEADs answered, as where the right to decrypt is lost."""
    bucket = aws.new_bucket()
    aws.s3().put_object(Bucket=bucket, Key="k", Body=b"content")
    with (
        Proxy(aws.address()) as proxy,
        ListenerHost(settings_for(bucket=bucket, queue_url=None, s3=proxy.url)) as service,
    ):

        def answer(token: str, *, reads: bool) -> object:
            service.listeners.request_head(token, bucket=bucket, key="k", version_id=None, reads=reads)
            until_sync(lambda: any(one.token == token for one in service.of(HeadAnswer)))
            return next(one.answer for one in service.of(HeadAnswer) if one.token == token)

        found = answer("read", reads=True)
        assert isinstance(found, S3Object)
        assert found == answer("headed", reads=False)
        assert (found.size, found.id.key) == (7, "k")

        proxy.on(FORBIDDEN, when=lambda request: request.method == "GET" and "/k" in request.path)
        assert isinstance(answer("headed again", reads=False), S3Object)
        assert isinstance(answer("read again", reads=True), ObjectForbidden)
