"""Every way from a bucket to the queue, for real: what arrives names the object, whatever its key."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ingest.source.notification import ObjectEvent, ObjectEvents, TestEvent, Unreadable, parse_notification
from tests.support import aws
from tests.support.configuration import settings_for
from tests.support.listener_host import ListenerHost
from tests.support.until import until_sync

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import NotificationConfigurationTypeDef

pytestmark = pytest.mark.parts

KEYS = ("in/plain", "in/a b", "in/a+b", "in/a%20b", "in/a=b&c", "in/é")
OPTIONS = {"sqs.wait.time.seconds": "1"}


def _notify(bucket: str, configuration: "NotificationConfigurationTypeDef") -> None:
    aws.s3().put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration)


def _directly(bucket: str, queue: str) -> None:
    _notify(
        bucket,
        {"QueueConfigurations": [{"QueueArn": aws.queue_arn(queue), "Events": ["s3:ObjectCreated:*"]}]},
    )


def _through_sns(bucket: str, queue: str, *, raw: bool) -> None:
    topic = aws.sns().create_topic(Name=aws.unique("topic"))["TopicArn"]
    aws.sns().subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=aws.queue_arn(queue),
        Attributes={"RawMessageDelivery": "true"} if raw else {},
    )
    _notify(bucket, {"TopicConfigurations": [{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}]})


def _through_event_bridge(bucket: str, queue: str) -> None:
    rule = aws.unique("rule")
    pattern = {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"bucket": {"name": [bucket]}},
    }
    aws.events().put_rule(Name=rule, EventPattern=json.dumps(pattern))
    aws.events().put_targets(Rule=rule, Targets=[{"Id": "queue", "Arn": aws.queue_arn(queue)}])
    _notify(bucket, {"EventBridgeConfiguration": {}})


ROUTES: list[object] = [
    pytest.param(_directly, id="S3"),
    pytest.param(lambda bucket, queue: _through_sns(bucket, queue, raw=False), id="SNS"),
    pytest.param(lambda bucket, queue: _through_sns(bucket, queue, raw=True), id="SNS raw"),
    pytest.param(_through_event_bridge, id="EventBridge"),
]


def _events(service: ListenerHost) -> list[ObjectEvent]:
    parsed = [parse_notification(delivery.body) for delivery in service.deliveries]
    assert not [found for found in parsed if isinstance(found, Unreadable)]
    return [event for found in parsed if isinstance(found, ObjectEvents) for event in found.events]


@pytest.mark.parametrize("connect", ROUTES)
def test_uploads_arrive(connect: Callable[[str, str], None]) -> None:
    """Keys as they are, ETags as S3 gave them; a test event is one; settled, the queue is empty."""
    bucket, queue = aws.new_bucket(), aws.new_queue()
    connect(bucket, queue)
    client = aws.s3()
    with ListenerHost(settings_for(bucket=bucket, queue_url=queue, options=OPTIONS)) as service:
        tags = {
            key: client.put_object(Bucket=bucket, Key=key, Body=key.encode())["ETag"].strip('"')
            for key in KEYS
        }
        until_sync(lambda: len(_events(service)) >= len(KEYS), seconds=60)
        # LocalStack quotes keys in EventBridge's events as S3 does not: then the other reading is the key.
        found = {event.alternate_key or event.key: event.etag for event in _events(service)}
        assert {event.bucket for event in _events(service)} == {bucket}
        assert found == tags
        service.listeners.settle(delivery.id for delivery in service.deliveries)
        until_sync(lambda: service.count("settled") == len(service.deliveries))
    others = [parse_notification(delivery.body) for delivery in service.deliveries]
    assert sum(isinstance(one, TestEvent) for one in others) <= 1


def test_multipart_and_copy_arrive() -> None:
    """Not only puts: all of `ObjectCreated:*`, with the ETag under which the object is listed."""
    bucket, queue = aws.new_bucket(), aws.new_queue()
    _directly(bucket, queue)
    client = aws.s3()
    with ListenerHost(settings_for(bucket=bucket, queue_url=queue, options=OPTIONS)) as service:
        upload = client.create_multipart_upload(Bucket=bucket, Key="in/parts")["UploadId"]
        part = client.upload_part(
            Bucket=bucket, Key="in/parts", UploadId=upload, PartNumber=1, Body=b"x" * 100
        )
        client.complete_multipart_upload(
            Bucket=bucket,
            Key="in/parts",
            UploadId=upload,
            MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]},
        )
        client.copy_object(Bucket=bucket, Key="in/copy", CopySource={"Bucket": bucket, "Key": "in/parts"})
        until_sync(lambda: len(_events(service)) >= 2, seconds=60)
        service.listeners.request_listing()
        until_sync(lambda: {"in/parts", "in/copy"} <= set(service.listed))
    assert {event.key for event in _events(service)} == {"in/parts", "in/copy"}
    listed = {
        found["Key"]: found["ETag"].strip('"') for found in client.list_objects_v2(Bucket=bucket)["Contents"]
    }
    assert {event.key: event.etag for event in _events(service)} == listed


def test_fifo_keeps_a_group_in_order() -> None:
    """Messages of a group come one batch after the other as they are settled."""
    queue = aws.new_queue("ordered.fifo", {"VisibilityTimeout": "30"})
    sender = aws.sqs()
    for number in range(25):
        sender.send_message(QueueUrl=queue, MessageBody=f"{number}", MessageGroupId="one")
    with ListenerHost(settings_for(bucket=aws.new_bucket(), queue_url=queue, options=OPTIONS)) as service:
        seen = 0
        while seen < 25:
            until_sync(lambda: len(service.deliveries) > seen)  # noqa: B023 - asked at once
            batch = service.deliveries[seen:]
            seen += len(batch)
            service.listeners.settle(delivery.id for delivery in batch)
    assert [delivery.body for delivery in service.deliveries] == [f"{number}" for number in range(25)]
