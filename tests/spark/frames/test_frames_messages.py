"""Messages of a queue that name several objects: what becomes of them with each."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from headrace.model.clock import Instant, now
from headrace.model.errors import ObjectForbidden
from headrace.model.objects import ObjectId, S3Object
from headrace.process.threads import start_thread
from ingest.source.catalogue import Baseline
from ingest.source.object_selection import object_filter_of
from listeners.discovery_events import HeadAnswer, HeadsWait, Message, Received
from spark.frames.admission import NO_LIMITS
from spark.frames.frame_options import reading_settings
from spark.frames.log_entries import KnownObjects
from spark.frames.new_objects import Discovery
from tests.support.instants import at

_ETAG: Final = "e1" * 16
_MESSAGE: Final = "m1"


_SECONDS: Final = 30.0


class Queue:
    """A discovery whose listeners are a double, and what it has them do with messages."""

    def __init__(self, folder: Path, *, clock: Callable[[], Instant] = now) -> None:
        given = {"path": "s3://bucket/in/", "rows": "columns", "state.path": str(folder)}
        settings = reading_settings({**given, "sqs.queue.url": "http://localhost/1/q"})
        self.listeners = Mock()
        self.discovery = Discovery(
            settings,
            known=KnownObjects(),
            object_filter=object_filter_of(settings.shared, Baseline()),
            listeners=self._made,
            clock=clock,
        )

    def _made(self, _settings: Any, post: Any, _counters: Any) -> Any:
        self.post = post
        return self.listeners

    def receive(self, *keys: str) -> None:
        """One message; objects without ETag have to be asked about."""
        records = [
            {
                "eventVersion": "2.1",
                "eventSource": "aws:s3",
                "eventName": "ObjectCreated:Put",
                "eventTime": "2026-01-01T00:00:00.000Z",
                "s3": {"bucket": {"name": "bucket"}, "object": {"key": key, "size": 3, "sequencer": "01"}},
            }
            for key in keys
        ]
        body = json.dumps({"Records": records})
        self.post(Received(messages=(Message(id=_MESSAGE, body=body),)))

    def answer(self, *, forbidden: str) -> None:
        """All that is asked for."""
        asked = self.listeners.request_head.call_args_list
        self.listeners.request_head.call_args_list = []
        for call in asked:
            key = call.kwargs["key"]
            found = S3Object(id=ObjectId("bucket", key, _ETAG), size=3, last_modified_ms=1)
            answer = ObjectForbidden("no GetObject") if key == forbidden else found
            self.post(HeadAnswer(token=call.args[0], answer=answer))

    @property
    def ends(self) -> tuple[list[str], list[str]]:
        """The messages that were deleted, and those that were given back."""
        calls = self.listeners
        return (
            [each for call in calls.settle.call_args_list for each in call.args[0]],
            [call.args[0] for call in calls.abandon.call_args_list],
        )


def _of_bucket(bucket: str) -> str:
    created = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": "2026-01-01T00:00:00.000Z",
        "s3": {"bucket": {"name": bucket}, "object": {"key": "in/a", "size": 3, "sequencer": "01"}},
    }
    return json.dumps({"Records": [created]})


@pytest.mark.parametrize("keys", [("in/a", "in/b"), ("in/b", "in/a")])
def test_an_object_that_may_not_be_asked_about_next_to_one_that_is_read(
    tmp_path: Path, keys: tuple[str, ...]
) -> None:
    """The message goes back to its queue with the commit of the other; it was held for ever."""
    queue = Queue(tmp_path)
    queue.receive(*keys)
    queue.answer(forbidden="in/a")
    taken = queue.discovery.take(NO_LIMITS)
    assert [found.id.key for found in taken.values()] == ["in/b"]
    queue.discovery.admit(1, taken)
    assert queue.ends == ([], [])

    queue.discovery.commit(1)

    assert queue.ends == ([], [_MESSAGE])


def test_a_message_whose_objects_are_all_read(tmp_path: Path) -> None:
    """It is deleted with the commit."""
    queue = Queue(tmp_path)
    queue.receive("in/a", "in/b")
    queue.answer(forbidden="")
    queue.discovery.admit(1, queue.discovery.take(NO_LIMITS))

    queue.discovery.commit(1)

    assert queue.ends == ([_MESSAGE], [])


def test_a_message_of_objects_that_another_query_may_want(tmp_path: Path) -> None:
    """It is deleted, as one queue has one query, and the log says so once."""
    queue = Queue(tmp_path)
    with capture_logs() as lines:
        queue.receive("elsewhere/a")
        queue.receive("elsewhere/b")

    assert queue.ends == ([_MESSAGE, _MESSAGE], [])
    told = [line["key"] for line in lines if line["event"] == "message_outside_prefix"]
    assert told == ["elsewhere/a"]


def test_messages_that_cannot_be_read_are_told_of_once_for_each_shape(tmp_path: Path) -> None:
    """They go back to the queue, which may lose them: nothing else says why their objects are not read."""
    queue = Queue(tmp_path)
    with capture_logs() as lines:
        for body in ("no JSON", "nor this", _of_bucket("other"), _of_bucket("other")):
            queue.post(Received(messages=(Message(id=_MESSAGE, body=body),)))

    assert queue.ends == ([], [_MESSAGE] * 4)
    told = [(line["shape"], line["message_id"]) for line in lines if line["event"] == "message_left_on_queue"]
    assert told == [("not JSON", _MESSAGE), ("bucket other", _MESSAGE)]
    assert queue.discovery.left_out == {"unreadable_message": 4}


def test_heads_without_an_answer_are_shown_and_told_again(tmp_path: Path) -> None:
    """Their messages are held all the while: a minute after the first failure, then after twice the time."""
    times = [0]
    queue = Queue(tmp_path, clock=lambda: at(times[-1] * 1000))
    told = []
    for seconds in range(0, 600, 10):
        times.append(seconds)
        with capture_logs() as lines:
            queue.post(HeadsWait(sentence="no answer"))
        told += [seconds for line in lines if line["event"] == "heads_unanswered"]

    assert told == [0, 60, 120, 240, 480]
    assert queue.discovery.problem == "no answer"
    queue.post(HeadsWait(sentence=None))
    assert queue.discovery.problem is None
    with capture_logs() as lines:
        queue.post(HeadsWait(sentence="no answer again"))
    assert [line["error"] for line in lines] == ["no answer again"]


@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_listeners_thread_that_dies_ends_the_query(tmp_path: Path, *, is_available_now: bool) -> None:
    """It found nothing any more, in silence, and a query that ends by itself never did."""
    may_die, errors = threading.Event(), list[BaseException]()

    def die() -> None:
        may_die.wait(_SECONDS)
        raise LookupError("a flaw")

    queue = Queue(tmp_path)
    queue.listeners.start = lambda **_: start_thread(die, name="listeners")
    queue.discovery.start(skip_through=None)
    if is_available_now:
        queue.discovery.only_what_is_there(at_once=True)

    def ask() -> None:
        try:
            if is_available_now:
                queue.discovery.wait_for_batch(NO_LIMITS)
            queue.discovery.wait(_SECONDS)
            queue.discovery.take(NO_LIMITS)
        except LookupError as error:
            errors.append(error)

    query = threading.Thread(target=ask, daemon=True)
    query.start()
    may_die.set()
    query.join(_SECONDS / 2)

    assert [str(error) for error in errors] == ["a flaw"]
