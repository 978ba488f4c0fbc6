import json
import re
from typing import Any

import pytest

from tests.ingest.cli.cli_environment import Scene
from tests.support import aws, kafka

pytestmark = pytest.mark.parts


def _findings(scene: Scene, *, code: int) -> dict[str, Any]:
    lines = scene.run("check", "--json", code=code).splitlines()
    return {finding["name"]: finding for finding in map(json.loads, lines)}


def _bad(findings: dict[str, Any]) -> dict[str, str]:
    return {name: finding["verdict"] for name, finding in findings.items() if finding["verdict"] != "ok"}


def test_an_ingester_that_may_start(scene: Scene, queue: str) -> None:
    """Bucket, queue, topic and brokers as `setup` leaves them; nothing is left behind by the check."""
    scene.put("first")
    scene.options["sqs.queue.url"] = queue
    aws.s3().put_bucket_notification_configuration(
        Bucket=scene.bucket,
        NotificationConfiguration={
            "QueueConfigurations": [{"QueueArn": aws.queue_arn(queue), "Events": ["s3:ObjectCreated:*"]}]
        },
    )

    findings = _findings(scene, code=0)

    assert _bad(findings) == {"dead letter queue": "warn"}
    assert {"configuration", "bucket", "region", "list", "get", "keys", "clock"} <= findings.keys()
    assert {"queue", "notification", "brokers", "topic", "ledger", "transactions"} <= findings.keys()
    assert kafka.read_committed(scene.topic) == []


def test_what_people_read(scene: Scene) -> None:
    """One line each, the remedy under it, and a sum at the end."""
    scene.put("cold", StorageClass="GLACIER")

    text = scene.run("check")

    assert re.search(r"^ok    bucket: s3://", text, re.MULTILINE)
    assert re.search(r"^warn  archives: .*\n      -> Restore", text, re.MULTILINE)
    assert text.endswith("Ready to run; 1 to look at.\n")


def test_a_configuration_that_cannot_work_is_all_that_is_said(scene: Scene) -> None:
    """Nothing is asked of anybody."""
    scene.options |= {"no.such.option": "1", "poll.interval.ms": "soon"}

    findings = _findings(scene, code=2)

    assert list(findings) == ["configuration"]
    assert "no.such.option" in findings["configuration"]["sentence"]
    assert "poll.interval.ms" in findings["configuration"]["sentence"]
    assert scene.run("check", code=2).endswith("2 to correct, 0 to look at.\n")


def test_a_queue_that_is_gone(scene: Scene) -> None:
    """The address of a queue that nobody made."""
    scene.options["sqs.queue.url"] = f"{aws.address()}/queue/us-east-1/{aws.ACCOUNT}/no-such-queue"

    findings = _findings(scene, code=3)

    assert _bad(findings) == {"queue": "fail"}
    assert "headrace setup CONFIG" in findings["queue"]["remedy"]


@pytest.mark.long  # the client tries for ten seconds
def test_no_broker(scene: Scene) -> None:
    """What S3 says is still of use."""
    scene.options["bootstrap.servers"] = "127.0.0.1:1"

    findings = _findings(scene, code=3)

    assert _bad(findings) == {"brokers": "fail"}
    assert findings["bucket"]["verdict"] == "ok"


def test_each_bucket_of_a_list_is_checked_by_itself(scene: Scene, queue: str) -> None:
    """The one that is there is looked at as ever; the findings of each have its name, the queue's are one."""
    missing = aws.unique("never-made")
    scene.put("first")
    scene.options |= {"aws.s3.bucket.name": f"{scene.bucket},{missing}", "sqs.queue.url": queue}

    findings = _findings(scene, code=3)

    assert findings[f"list {scene.bucket}"]["verdict"] == "ok"
    assert findings[f"notification {scene.bucket}"]["verdict"] == "fail"
    assert findings[f"bucket {missing}"]["verdict"] == "warn"
    assert f"s3://{missing}" in findings[f"bucket {missing}"]["sentence"]
    assert findings["queue"]["verdict"] == "ok"
    scene.options["aws.s3.bucket.name"] = f"{scene.bucket},{aws.new_bucket()}"
    chosen = scene.asked("mark", "--bucket", scene.bucket, "--dry-run")["chosen"]
    assert [(one["bucket"], one["key"]) for one in chosen] == [(scene.bucket, "first")]
    shown = scene.asked("plan")["buckets"]
    assert sorted(one["objects"] for one in shown.values()) == [0, 1]
