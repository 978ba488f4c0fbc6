"""Writes the documents of this folder that come from LocalStack: real uploads and queues, bodies as received.

Run by path against LocalStack: `python tests/ingest/source/notifications/capture.py
[http://127.0.0.1:4566]`. Ids, times and the random part of names differ from run to run. Where a document is
expected to name what, is in tests/ingest/source/test_notification_documents.py.
"""

import json
import sys
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

from localstack_client.session import Session

HERE = Path(__file__).parent
DEADLINE_SECONDS = 30
# One key for each way in which an encoding goes wrong: blank, plus, percent, equals, beyond ASCII.
KEYS = {
    "blank": "in/a b.jsonl",
    "plus": "in/a+b.jsonl",
    "percent": "in/100%25.jsonl",
    "equals": "in/day=1/a.jsonl",
    "accent": "in/café.jsonl",
}


class Capture:
    """A bucket that tells a queue about its objects over one route, and the bodies that arrive."""

    def __init__(self, endpoint: str) -> None:
        """Open clients of one LocalStack; the credentials are the ones it takes from anybody."""
        host = urlsplit(endpoint).netloc
        session = Session("test", "test", region_name="us-east-1", localstack_host=host)
        self.s3 = session.client("s3")
        self.sqs = session.client("sqs")
        self.sns = session.client("sns")
        self.events = session.client("events")

    def make_route(self) -> tuple[str, str, str]:
        """A new bucket and a queue of the same name, not yet connected: name, queue URL, queue ARN."""
        name = f"capture-{uuid.uuid4().hex[:8]}"
        self.s3.create_bucket(Bucket=name)
        url = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        return name, url, arn

    def receive(self, url: str) -> str:
        """The next body, deleted from the queue; waits up to the deadline."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            for message in self.sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1).get("Messages", []):
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                return str(message["Body"])
        raise TimeoutError(f"No message arrived on {url} within {DEADLINE_SECONDS} s.")

    def save(self, name: str, url: str) -> None:
        """Keep the next body as a file, byte for byte."""
        body = self.receive(url)
        (HERE / f"{name}.json").write_text(body, encoding="utf-8")
        print(f"{name}: {', '.join(json.loads(body))}")  # noqa: T201 - a script that shows what it wrote

    def clear(self, bucket: str, url: str) -> None:
        """Remove what a route was made of."""
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for item in page.get("Contents", []):
                self.s3.delete_object(Bucket=bucket, Key=item["Key"])
        self.s3.delete_bucket(Bucket=bucket)
        self.sqs.delete_queue(QueueUrl=url)


def capture_s3_to_sqs(capture: Capture) -> None:
    """The kinds of events, and every key, over S3's own route."""
    bucket, url, arn = capture.make_route()
    s3 = capture.s3
    s3.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={
            "QueueConfigurations": [
                {
                    "Id": "headrace",
                    "QueueArn": arn,
                    "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:ObjectTagging:*"],
                }
            ]
        },
    )
    capture.save("localstack_sqs_test_event", url)
    s3.put_object(Bucket=bucket, Key="in/plain.jsonl", Body=b'{"a":1}\n')
    capture.save("localstack_sqs_put", url)
    s3.copy_object(Bucket=bucket, Key="in/copy.jsonl", CopySource={"Bucket": bucket, "Key": "in/plain.jsonl"})
    capture.save("localstack_sqs_copy", url)
    s3.put_object_tagging(
        Bucket=bucket, Key="in/plain.jsonl", Tagging={"TagSet": [{"Key": "team", "Value": "water"}]}
    )
    capture.save("localstack_sqs_tagging", url)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="in/parts.jsonl")["UploadId"]
    part = s3.upload_part(
        Bucket=bucket, Key="in/parts.jsonl", UploadId=upload, PartNumber=1, Body=b'{"a":1}\n'
    )
    s3.complete_multipart_upload(
        Bucket=bucket,
        Key="in/parts.jsonl",
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )
    capture.save("localstack_sqs_multipart", url)
    for name, key in KEYS.items():
        s3.put_object(Bucket=bucket, Key=key, Body=b'{"a":1}\n')
        capture.save(f"localstack_sqs_key_{name}", url)
    s3.delete_object(Bucket=bucket, Key="in/plain.jsonl")
    capture.save("localstack_sqs_delete", url)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    marker = s3.put_object(Bucket=bucket, Key="in/version.jsonl", Body=b'{"a":1}\n')
    capture.save("localstack_sqs_put_version", url)
    deletion = s3.delete_object(Bucket=bucket, Key="in/version.jsonl")
    capture.save("localstack_sqs_delete_marker", url)
    for version in (marker["VersionId"], deletion["VersionId"]):
        s3.delete_object(Bucket=bucket, Key="in/version.jsonl", VersionId=version)
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    for item in s3.list_object_versions(Bucket=bucket).get("Versions", []):
        s3.delete_object(Bucket=bucket, Key=item["Key"], VersionId=item["VersionId"])
    capture.clear(bucket, url)


def capture_sns(capture: Capture, *, raw: bool) -> None:
    """The same through a topic, wrapped or raw; the test event is published when S3 is configured."""
    bucket, url, arn = capture.make_route()
    topic = capture.sns.create_topic(Name=bucket)["TopicArn"]
    attributes = {"RawMessageDelivery": "true"} if raw else {}
    capture.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=attributes)
    capture.s3.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={
            "TopicConfigurations": [{"Id": "headrace", "TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}]
        },
    )
    route = "localstack_sns_raw" if raw else "localstack_sns"
    capture.save(f"{route}_test_event", url)
    capture.s3.put_object(Bucket=bucket, Key="in/a b+é=1%.jsonl", Body=b'{"a":1}\n')
    capture.save(f"{route}_put", url)
    capture.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    capture.clear(bucket, url)
    capture.sns.delete_topic(TopicArn=topic)


def capture_event_bridge(capture: Capture) -> None:
    """The same through EventBridge, which gets every event of a bucket and sends no test event."""
    bucket, url, arn = capture.make_route()
    capture.s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    pattern = {"source": ["aws.s3"], "detail": {"bucket": {"name": [bucket]}}}
    capture.events.put_rule(Name=bucket, EventPattern=json.dumps(pattern))
    capture.events.put_targets(Rule=bucket, Targets=[{"Id": "queue", "Arn": arn}])
    capture.s3.put_object(Bucket=bucket, Key="in/plain.jsonl", Body=b'{"a":1}\n')
    capture.save("localstack_event_bridge_put", url)
    for key_name, key in KEYS.items():
        capture.s3.put_object(Bucket=bucket, Key=key, Body=b'{"a":1}\n')
        capture.save(f"localstack_event_bridge_key_{key_name}", url)
    capture.s3.delete_object(Bucket=bucket, Key="in/plain.jsonl")
    capture.save("localstack_event_bridge_delete", url)
    capture.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    capture.events.remove_targets(Rule=bucket, Ids=["queue"])
    capture.events.delete_rule(Name=bucket)
    capture.clear(bucket, url)


def main() -> None:
    """Capture all of them, in this folder."""
    endpoint = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4566"
    capture = Capture(endpoint)
    capture_s3_to_sqs(capture)
    capture_sns(capture, raw=False)
    capture_sns(capture, raw=True)
    capture_event_bridge(capture)


if __name__ == "__main__":
    main()
