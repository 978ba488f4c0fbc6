"""`--log-level debug` explains why an object arrives or does not, step by step."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import aws
from tests.support.run import Run, start_run
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def about(run: Run, key: str) -> list[dict[str, Any]]:
    """The lines that name an object."""
    return [
        line
        for line in run.lines
        if line.get("key") == key
        or key in line.get("keys", ())
        or any(event.endswith(f" {key}") for event in line.get("events", ()))
    ]


def named(lines: list[dict[str, Any]]) -> list[str]:
    """Their events."""
    return [line["event"] for line in lines]


def test_an_object_can_be_followed_from_its_message_to_its_commit(tmp_path: Path) -> None:
    """And one that never arrives up to the option that keeps it out."""
    route: Route = new_route(tmp_path)
    run = start_run(route, "--log-level", "debug", object__exclude="*.tmp", job__linger__ms=1000)
    try:
        until_sync(lambda: "page_listed" in run.events(), seconds=180, what="the first listing")
        route.upload("a.jsonl", rows("a", 3))
        aws.s3().put_object(Bucket=route.bucket, Key="b.tmp", Body=b"1\n")
        aws.sqs().send_message(QueueUrl=route.queue_url, MessageBody='{"Event": "s3:TestEvent"}')

        def is_over() -> bool:
            return "object" in named(about(run, "a.jsonl")) and "object_ignored" in named(about(run, "b.tmp"))

        until_sync(is_over, seconds=60, what="both explained")
        until_sync(lambda: "message_ignored" in run.events(), seconds=60, what="the test event")
        route.upload("a.jsonl", rows("a", 3), counts=False)
        until_sync(lambda: "object_ignored" in named(about(run, "a.jsonl")), seconds=60, what="what is known")
    finally:
        run.end()

    followed = named(about(run, "a.jsonl"))
    steps = ["message_parsed", "object_pending", "batch_planned", "batch_committed", "object"]
    assert [event for event in followed if event in steps][:5] == steps
    assert {"service_started", "messages_received", "slot_starting", "batch_granted"} <= set(run.events())
    (ignored,) = [line for line in about(run, "b.tmp") if line["event"] == "object_ignored"]
    assert (ignored["reason"], "object.exclude" in ignored["detail"]) == ("excluded", True)
    known = next(line for line in about(run, "a.jsonl") if line["event"] == "object_ignored")
    assert (known["reason"], "headrace status" in known["detail"]) == ("known", True)
