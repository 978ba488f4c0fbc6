"""What setup changes at a queue and a bucket, as documents: pure, merged into what is there."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

RETENTION_SECONDS: Final = 14 * 24 * 3600
REDRIVE_LIMIT: Final = 100
# A restore makes an archived object readable; removals and the rest are of no use here.
EVENTS: Final = ("s3:ObjectCreated:*", "s3:ObjectRestore:Completed")


def bucket_arn(bucket: str, queue_arn: str) -> str:
    """The bucket's ARN, in the partition (aws, aws-cn, aws-us-gov) of the queue's."""
    return f"arn:{queue_arn.split(':')[1]}:s3:::{bucket}"


def with_statement(policy: str | None, *, bucket: str, queue_arn: str) -> str | None:
    """The queue's policy with a statement that lets this bucket send, or None when it has it already.

    Other statements stay. The statement is for S3 on behalf of this bucket only: without the condition any
    bucket of anyone could fill the queue.
    """
    document: dict[str, Any] = json.loads(policy) if policy else {"Version": "2012-10-17", "Statement": []}
    found = document.get("Statement", [])
    statements = [found] if isinstance(found, dict) else list(found)
    wanted = {
        "Sid": f"headrace-{bucket}",
        "Effect": "Allow",
        "Principal": {"Service": "s3.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": bucket_arn(bucket, queue_arn)}},
    }
    if wanted in statements:
        return None
    document["Statement"] = [*(one for one in statements if one.get("Sid") != wanted["Sid"]), wanted]
    return json.dumps(document)


def with_queue(
    notification: Mapping[str, Any],
    *,
    entry_id: str,
    queue_arn: str,
    prefix: str,
) -> dict[str, Any] | None:
    """The bucket's notification configuration with ours in it, or None when nothing has to change.

    Everything else in it stays as it is: `PutBucketNotificationConfiguration` replaces the whole.
    """
    queues: Sequence[Mapping[str, Any]] = notification.get("QueueConfigurations", ())
    if any(_covers(one, queue_arn=queue_arn, prefix=prefix) for one in queues):
        return None
    rules = [{"Name": "prefix", "Value": prefix}] if prefix else []
    wanted: dict[str, Any] = {"Id": entry_id, "QueueArn": queue_arn, "Events": list(EVENTS)}
    if rules:
        wanted["Filter"] = {"Key": {"FilterRules": rules}}
    kept = {name: value for name, value in notification.items() if name != "ResponseMetadata"}
    return {**kept, "QueueConfigurations": [*(one for one in queues if one.get("Id") != entry_id), wanted]}


def _covers(queue: Mapping[str, Any], *, queue_arn: str, prefix: str) -> bool:
    """Whether an entry announces all new objects to our queue; a second one for the same would be refused."""
    rules = queue.get("Filter", {}).get("Key", {}).get("FilterRules", ())
    values = {rule["Name"].lower(): rule["Value"] for rule in rules}
    return (
        queue["QueueArn"] == queue_arn
        and EVENTS[0] in queue["Events"]
        and prefix.startswith(values.get("prefix", ""))
        and not values.get("suffix")
    )
