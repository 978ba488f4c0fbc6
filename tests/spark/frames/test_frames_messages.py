"""Messages of a queue that name several objects: what becomes of them with each."""

import json
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from headrace.model.errors import ObjectForbidden
from headrace.model.objects import ObjectId, S3Object
from ingest.source.catalogue import Baseline
from ingest.source.object_selection import object_filter_of
from listeners.discovery_events import HeadAnswer, Message, Received
from spark.frames.admission import NO_LIMITS
from spark.frames.frame_options import reading_settings
from spark.frames.log_entries import KnownObjects
from spark.frames.new_objects import Discovery

_ETAG: Final = "e1" * 16
_MESSAGE: Final = "m1"


class Queue:
    """A discovery whose listeners are a double, and what it has them do with messages."""

    def __init__(self, folder: Path) -> None:
        given = {"path": "s3://bucket/in/", "rows": "columns", "state.path": str(folder)}
        settings = reading_settings({**given, "sqs.queue.url": "http://localhost/1/q"})
        self.listeners = Mock()
        self.discovery = Discovery(
            settings,
            known=KnownObjects(),
            object_filter=object_filter_of(settings.shared, Baseline()),
            listeners=self._made,
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
