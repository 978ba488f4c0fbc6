"""Small objects that are received together, and what is wrong with some of them, or becomes so meanwhile."""

import gzip
from collections import Counter
from collections.abc import Mapping

import pytest

from tests.errors.harness import ATTEMPTS, Stand, counted, json_lines
from tests.support import aws
from tests.support.proxy import Answer, Request, Slow
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_EXPIRED = Answer(
    status=400, body=b"<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"
)
_ROWS = 20


def bodies(topic: str, count: int = 50) -> dict[str, bytes]:
    """Small objects of different rows, by key; all together they are one batch."""
    keys = [f"{topic}/{number:02}.gz" for number in range(count)]
    return {key: gzip.compress(json_lines(*counted(_ROWS, key)), mtime=0) for key in keys}


def rows(objects: Mapping[str, bytes]) -> Counter[bytes]:
    """What these objects hold."""
    return Counter(line for body in objects.values() for line in gzip.decompress(body).splitlines())


def put_together(one: Stand, topic: str, objects: Mapping[str, bytes]) -> str:
    """Upload them while both slots wait for an object each, so that they are dealt out together."""
    plugs = [f"{topic}/plug-{number}" for number in range(2)]
    one.proxy.on(Slow(3), when=lambda request: any(one.is_get(request, plug) for plug in plugs), times=2)
    for plug in plugs:
        one.put(plug, b'{"id":"plug"}\n')
    until_sync(lambda: all(one.gets(plug) for plug in plugs), what="slots that wait")
    for key, body in objects.items():
        one.put(key, body)
    return plugs[0]


def ended(one: Stand, topic: str) -> Counter[bytes]:
    """The rows of a topic without those of the plugs."""
    return Counter(value for value in one.values(topic) if value != b'{"id":"plug"}')


def test_one_damaged_object_among_fifty(one: Stand) -> None:
    """It ends as it does alone; each of the others is read once."""
    topic = one.topic()
    objects = bodies(topic)
    damaged = f"{topic}/23.gz"
    good = {key: body for key, body in objects.items() if key != damaged}
    put_together(one, topic, {**objects, damaged: objects[damaged][:30]})
    end = one.await_end(damaged)
    assert (end["outcome"], end["reason"], end["attempts"]) == ("quarantined", "corrupt", ATTEMPTS)
    for key in good:
        found = one.await_end(key)
        assert (found["outcome"], found["attempts"]) == ("done", 0)
        assert len(one.answered(key)) == 1 + one.again(key)
    kept = ended(one, topic) - rows(good)
    assert ended(one, topic) == rows(good) + kept
    assert kept.total() == end["records"]
    assert one.readiness()[0]


def test_objects_that_are_deleted_and_overwritten_after_they_were_dealt_out(one: Stand) -> None:
    """The first of the batch is slow, and the others change before they are asked for: content by content."""
    topic = one.topic()
    objects = bodies(topic)
    first, deleted, overwritten = f"{topic}/00.gz", f"{topic}/45.gz", f"{topic}/47.gz"
    new = gzip.compress(json_lines(*counted(_ROWS, "new")), mtime=0)
    one.proxy.on(Slow(3), when=lambda request: one.is_get(request, first), times=1)
    put_together(one, topic, objects)
    until_sync(lambda: one.gets(first), seconds=60, what="the first of them")
    aws.s3().delete_object(Bucket=one.route.bucket, Key=deleted)
    one.put(overwritten, new)
    gone = one.await_end(deleted)
    assert gone["outcome"] in {"skipped", "done"}
    until_sync(
        lambda: (
            (rows(objects) + rows({"": new})) - ended(one, topic)
            <= rows({key: objects[key] for key in (deleted, overwritten)})
        ),
        seconds=60,
        what="all that is there still",
    )
    one.await_quiet()
    found = ended(one, topic)
    left_out = Counter[bytes]()
    for key in (deleted, overwritten):
        of_object = rows({key: objects[key]})
        if not of_object & found:
            left_out += of_object
    assert found == rows(objects) + rows({"": new}) - left_out
    assert one.readiness()[0]


def test_credentials_that_expire_in_the_middle(one: Stand) -> None:
    """Objects whose turn it is wait for new ones: none is given up, and none is read twice."""
    topic = one.topic()
    objects = bodies(topic)
    refused = [f"{topic}/{number:02}.gz" for number in range(20, 30)]

    def is_refused(request: Request) -> bool:
        return any(one.is_get(request, key) for key in refused)

    one.proxy.on(_EXPIRED, when=is_refused, times=len(refused))
    put_together(one, topic, objects)
    for key in objects:
        found = one.await_end(key)
        assert (found["outcome"], found["attempts"], found["records"]) == ("done", 0, _ROWS)
        assert len(one.answered(key)) == 1 + one.again(key)
    assert ended(one, topic) == rows(objects)
    one.await_ready(ready=True)
