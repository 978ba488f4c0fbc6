"""Messages that are none of ours. A queue that fails is in tests/integration/test_discovery_fallback.py."""

import json
from typing import Any, Final

import pytest

from tests.errors.harness import Stand
from tests.support import aws
from tests.support.discovery import log_lines, metric
from tests.support.service import queue_depth
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(300)]

NAMED: Final = {"key": "elsewhere/a.jsonl", "eTag": "0" * 32, "size": 3}


def message(bucket: str, event: str = "ObjectCreated:Put", **named: Any) -> str:
    """One message as S3 words it."""
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": event,
        "eventTime": "2026-01-01T00:00:00.000Z",
        "s3": {"bucket": {"name": bucket}, "object": {**NAMED, **named}},
    }
    return json.dumps({"Records": [record]})


def send(on: Stand, body: str) -> None:
    """Put this on the service's queue."""
    aws.sqs().send_message(QueueUrl=on.route.queue_url, MessageBody=body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(lambda b: message(b, key="does not match"), "unmatched", id="not matching"),
        pytest.param(lambda b: message(b, "ObjectRemoved:Delete"), "removed", id="removal"),
        pytest.param(
            lambda b: message(b, "ObjectRestore:Completed"), "restored", id="restore", marks=pytest.mark.long
        ),
        pytest.param(
            lambda b: message(b, "ObjectTagging:Put"), "other", id="tagging", marks=pytest.mark.long
        ),
        pytest.param(
            lambda b: message(b, "LifecycleExpiration:Delete"),
            "other",
            id="lifecycle",
            marks=pytest.mark.long,
        ),
        pytest.param(
            lambda b: json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": b}),
            "test_event",
            id="test event",
        ),
    ],
)
def test_what_names_nothing_to_read_is_deleted_and_counted(one: Stand, body: Any, reason: str) -> None:
    """And is not in the ledger."""
    one.await_quiet()

    def ignored() -> float:
        found = ("removed", "restored", "other", "unmatched", "test_event", "lifecycle", "tagging")
        return sum(
            metric(one.service, "headrace_objects_total", state="ignored", reason=name) for name in found
        )

    before = ignored()
    send(one, body(one.route.bucket))
    until_sync(lambda: ignored() == before + 1, seconds=30, what=f"one more ignored ({reason})")
    until_sync(lambda: queue_depth(one.route.queue_url) == 0, seconds=30, what="an empty queue")
    assert one.entry("elsewhere/a.jsonl") is None


@pytest.mark.parametrize(
    ("bodies", "shape"),
    [
        pytest.param(
            [message("somebody-elses", key=f"a-{n}") for n in range(3)], "somebody-elses", id="other bucket"
        ),
        pytest.param([f"no JSON, {n}" for n in range(3)], "JSON", id="not JSON"),
        pytest.param(
            [json.dumps({"hello": n}) for n in range(3)], None, id="unknown shape", marks=pytest.mark.long
        ),
    ],
)
def test_what_is_foreign_is_left_to_the_queue(one: Stand, bodies: list[str], shape: str | None) -> None:
    """For its own redrive policy; counted, and one WARN for each shape or bucket."""
    one.await_quiet()
    left = metric(one.service, "headrace_sqs_messages_total", outcome="left")
    said = len(log_lines(one.service, "message_left_on_queue"))
    try:
        for body in bodies:
            send(one, body)
        until_sync(
            lambda: metric(one.service, "headrace_sqs_messages_total", outcome="left") >= left + len(bodies),
            seconds=30,
            what="all of them counted",
        )
        assert queue_depth(one.route.queue_url) == len(bodies)
        (line,) = log_lines(one.service, "message_left_on_queue")[said:]
        assert line["level"] == "warning"
        if shape is not None:
            assert shape in f"{line['shape']} {line['reason']}"
        one.goes_on(one.topic())
    finally:
        aws.sqs().purge_queue(QueueUrl=one.route.queue_url)
