import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.scene import Scene
from tests.support import aws, kafka
from tests.support.proxy import Answer, Proxy, Request

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.parts


def _findings(scene: Scene, *, code: int) -> dict[str, Any]:
    lines = scene.run("check", "--json", code=code).splitlines()
    return {finding["name"]: finding for finding in map(json.loads, lines)}


def _bad(findings: dict[str, Any]) -> dict[str, str]:
    return {name: finding["verdict"] for name, finding in findings.items() if finding["verdict"] != "ok"}


def _denied(code: str = "AccessDenied") -> Answer:
    return Answer(status=403, body=f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())


def _is_listing(request: Request) -> bool:
    return "list-type=2" in request.path


def _is_get(request: Request) -> bool:
    return request.method == "GET" and "/first" in request.path


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


def test_a_bucket_that_is_not_there(scene: Scene) -> None:
    """Exit 3, as `run` would end."""
    scene.bucket = aws.unique("nowhere")

    findings = _findings(scene, code=3)

    assert _bad(findings) == {"bucket": "fail"}


def test_a_bucket_of_another_region(scene: Scene, s3: "S3Client") -> None:
    """S3 says which one it is."""
    name = aws.unique("away")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    try:
        scene.bucket = name

        findings = _findings(scene, code=2)

        assert findings["region"]["remedy"] == "Set aws.s3.region=eu-west-1."
    finally:
        s3.delete_bucket(Bucket=name)


def test_permissions_that_localstack_does_not_enforce(scene: Scene) -> None:
    """List, get and get by version are refused in turn, each by the answer that S3 gives."""
    aws.s3().put_bucket_versioning(Bucket=scene.bucket, VersioningConfiguration={"Status": "Enabled"})
    scene.put("first")
    with Proxy(aws.address()) as proxy:
        scene.options["aws.s3.endpoint"] = proxy.url

        proxy.on(_denied(), when=_is_listing)
        assert _bad(_findings(scene, code=3)) == {"list": "fail"}
        proxy.off()

        proxy.on(_denied(), when=_is_get)
        assert _bad(_findings(scene, code=3)) == {"get": "fail"}
        proxy.off()

        proxy.on(_denied(), when=lambda request: _is_get(request) and "versionId" in request.path)
        assert _bad(_findings(scene, code=0)) == {"get by version": "warn"}
        proxy.off()

        proxy.on(_denied("ExpiredToken"), when=_is_listing)
        assert "credentials" in _findings(scene, code=3)["bucket"]["sentence"]


def test_a_queue_without_this_buckets_notification_and_one_with_a_narrow_filter(
    scene: Scene, queue: str
) -> None:
    """First nothing is sent to it, then only part of what is wanted."""
    scene.put("in/first")
    scene.options |= {"sqs.queue.url": queue, "aws.s3.prefix": "in/"}

    assert _bad(_findings(scene, code=3))["notification"] == "fail"

    rules: Any = [{"Name": "prefix", "Value": "in/orders/"}]
    aws.s3().put_bucket_notification_configuration(
        Bucket=scene.bucket,
        NotificationConfiguration={
            "QueueConfigurations": [
                {
                    "QueueArn": aws.queue_arn(queue),
                    "Events": ["s3:ObjectCreated:*"],
                    "Filter": {"Key": {"FilterRules": rules}},
                }
            ]
        },
    )
    bad = _bad(_findings(scene, code=3))
    assert bad["notification filter"] == "fail"
    assert "notification" not in bad


def test_a_queue_that_is_gone_and_one_that_hides_too_shortly(scene: Scene) -> None:
    """The address of a queue that nobody made, and a visibility timeout of 5 s."""
    scene.options["sqs.queue.url"] = f"{aws.address()}/queue/us-east-1/{aws.ACCOUNT}/no-such-queue"
    assert _bad(_findings(scene, code=3))["queue"] == "fail"

    url = aws.new_queue(attributes={"VisibilityTimeout": "5"})
    try:
        scene.options["sqs.queue.url"] = url
        assert _bad(_findings(scene, code=3))["visibility timeout"] == "warn"
    finally:
        aws.sqs().delete_queue(QueueUrl=url)


def test_topics_that_are_missing_small_or_short_of_partitions(
    scene: Scene, topic: kafka.TopicFactory
) -> None:
    """What keys name is looked up in the cluster."""
    scene.topic = topic(partitions=2, config={"max.message.bytes": "500000"})
    scene.options |= {"topic": None, "file.name.template": "{{topic}}:{{partition}}"}
    scene.put(f"{scene.topic}:1")

    assert _bad(_findings(scene, code=0)) == {"record size": "warn"}

    scene.put(f"{scene.topic}:2")
    assert _bad(_findings(scene, code=2))["partitions"] == "fail"

    scene.put("no.such.topic:0")
    assert "'no.such.topic'" in scene.run("check", code=2)


def test_a_ledger_that_deletes(scene: Scene, topic: kafka.TopicFactory) -> None:
    """The topic is there, and would lose checkpoints."""
    scene.options["offsets.storage.topic"] = topic()

    assert _bad(_findings(scene, code=2)) == {"ledger": "fail"}


@pytest.mark.long  # the client tries for ten seconds
def test_no_broker(scene: Scene) -> None:
    """What S3 says is still of use."""
    scene.options["bootstrap.servers"] = "127.0.0.1:1"

    findings = _findings(scene, code=3)

    assert _bad(findings) == {"brokers": "fail"}
    assert findings["bucket"]["verdict"] == "ok"
