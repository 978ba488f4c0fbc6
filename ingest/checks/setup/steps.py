"""The steps from what is there to what Headrace needs; looked for first, then done one by one."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from headrace.aws.aws_errors import refusal
from headrace.model.errors import HeadraceError, InvalidConfiguration
from headrace.options.aws_forms import bucket_arn, queue_region
from headrace.options.settings import S3Settings, Settings, SqsSettings
from ingest.checks.findings.queue_findings import KeyFilter, filter_value
from ingest.checks.probes.bucket_keys import of_each_bucket
from listeners.discovery_events import error_code, translated_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

# -- What setup changes at a queue and a bucket, as documents: pure, merged into what is there ---------------

RETENTION_SECONDS: Final = 14 * 24 * 3600
REDRIVE_LIMIT: Final = 100
# A restore makes an archived object readable; removals and the rest are of no use here.
EVENTS: Final = ("s3:ObjectCreated:*", "s3:ObjectRestore:Completed")


def with_statement(policy: str | None, *, bucket: str, queue_arn: str) -> str | None:
    """The queue's policy with a statement that lets this bucket send, or None when it has it already.

    Other statements stay. The statement is for S3 on behalf of this bucket only: without the condition any
    bucket of anyone could fill the queue.
    """
    document: dict[str, Any] = json.loads(policy) if policy else {"Version": "2012-10-17", "Statement": []}
    found = document.get("Statement", [])
    statements = [found] if isinstance(found, dict) else list(found)
    # What SQS itself says of the partition holds for regions that are newer than ours.
    partition = queue_arn.split(":")[1]
    wanted = {
        "Sid": f"headrace-{bucket}",
        "Effect": "Allow",
        "Principal": {"Service": "s3.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": bucket_arn(bucket, partition)}},
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
    s3: S3Settings,
) -> dict[str, Any] | None:
    """The bucket's notification configuration with ours in it, or None when nothing has to change.

    Everything else in it stays as it is: `PutBucketNotificationConfiguration` replaces the whole.
    """
    queues: Sequence[Mapping[str, Any]] = notification.get("QueueConfigurations", ())
    if any(_covers(one, queue_arn=queue_arn, s3=s3) for one in queues):
        return None
    rules = [{"Name": "prefix", "Value": filter_value(s3.prefix, s3)}] if s3.prefix else []
    wanted: dict[str, Any] = {"Id": entry_id, "QueueArn": queue_arn, "Events": list(EVENTS)}
    if rules:
        wanted["Filter"] = {"Key": {"FilterRules": rules}}
    kept = {name: value for name, value in notification.items() if name != "ResponseMetadata"}
    return {**kept, "QueueConfigurations": [*(one for one in queues if one.get("Id") != entry_id), wanted]}


def _covers(queue: Mapping[str, Any], *, queue_arn: str, s3: S3Settings) -> bool:
    """Whether an entry announces all new objects to our queue; a second one for the same would be refused."""
    keys = KeyFilter.of(queue, s3)
    return (
        queue["QueueArn"] == queue_arn
        and EVENTS[0] in queue["Events"]
        and keys.shows(s3.prefix)
        and not keys.suffix
    )


# -- The steps from what is there to what Headrace needs; looked for first, then done one by one -------------

# S3 sends a test message before it accepts a destination; a new queue's policy is believed after a while.
_POLICY_SECONDS: Final = 60.0
_REGION_HEADER: Final = "x-amz-bucket-region"
_NOT_FOUND: Final = "404"
# What SQS takes.
_MAX_NAME: Final = 80
_MISSING: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})


class SetupError(InvalidConfiguration):
    """Setup cannot do what is wanted; the sentence names what is in the way and the fix. Exit code 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do: a sentence for people, and how it is done (blocks; HeadraceError)."""

    sentence: str
    apply: Callable[[], None]


def missing_steps(
    settings: Settings,
    *,
    s3: "S3Client",
    sqs: "SQSClient | None",
    account: Callable[[], str | None],
    topics: Callable[[], Sequence[Step]],
    refused: dict[str, HeadraceError],
) -> tuple[Step, ...]:
    """What is missing, in the order in which it has to be done; nothing is changed by asking. Blocks.

    Without `sqs.queue.url` there is no queue to set up, and no `sqs` needed. Applying all steps makes the
    next plan empty. `account` gives the number of the credentials' account where it is known, and is called
    while there is no queue; `topics` gives the steps for topics that are missing. Of several buckets one that
    can be set up is enough, as for `run`: why others cannot goes into `refused`. Raises SetupError,
    AccessDenied or SourceUnavailable.
    """
    places: list[_Place] = []

    def of_bucket(one: Settings) -> list[Step]:
        bucket = one.s3.bucket
        region = _bucket_region(s3, bucket)
        if one.sqs is None:
            return []
        assert sqs is not None, "clients are made of the same settings"
        _check_regions(bucket, region, one.sqs, is_only=len(settings.buckets) == 1)
        place = _Place(
            s3=s3,
            sqs=sqs,
            url=one.sqs.queue_url,
            place=one.s3,
            entry_id=f"headrace-{one.name}",
        )
        if place.attributes(place.queue) is None:
            place.check_account(account())
        steps = [*_permission_steps(place), *_notification_steps(place)]
        places.append(place)
        return steps

    # Of a sink each is needed; those with routes are asked with the rules of their lifecycle.
    asked = settings.by_place() if settings.sink is None else (settings,)
    of_buckets = list(of_each_bucket(asked, of_bucket, refused))
    return (*(_queue_steps(places[0]) if places else ()), *of_buckets, *topics())


def _bucket_region(s3: "S3Client", bucket: str) -> str | None:
    """The bucket's region, None where its S3 does not say; AccessDenied for a bucket that is not there."""
    subject = f"aws.s3.bucket.name = {bucket!r}"
    with translated_errors(subject):
        try:
            return s3.head_bucket(Bucket=bucket).get("BucketRegion")
        except ClientError as error:
            if error_code(error) == _NOT_FOUND:
                # The answer to HEAD has no body with S3's own word.
                raise refusal("NoSuchBucket", 404, error.operation_name, what=subject) from error
            headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            if not headers.get(_REGION_HEADER):
                raise
            # Another region, or no s3:ListBucket: it is there, and says where.
            return str(headers[_REGION_HEADER])


def _check_regions(bucket: str, bucket_region: str | None, sqs: SqsSettings, *, is_only: bool) -> None:
    """Raise where the queue would be made in a region in which it is not looked for, or not sent to."""
    named = queue_region(sqs.queue_url)
    if named is not None and named != sqs.region:
        raise SetupError(
            f"sqs.queue.url {sqs.queue_url} is in {named}, and sqs.region is {sqs.region}: leave that out"
        )
    if bucket_region is not None and bucket_region != sqs.region:
        fix = f"name a queue in {bucket_region}"
        if not is_only:
            fix = f"give it a source of its own, with aws.s3.region={bucket_region}"
        raise SetupError(
            f"s3://{bucket} is in {bucket_region}, and the queue of sqs.queue.url in {sqs.region}: S3 sends "
            f"only to queues of the bucket's own region; {fix}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    s3: "S3Client"
    sqs: "SQSClient"
    url: str
    place: S3Settings
    entry_id: str

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self.place.bucket

    @property
    def queue(self) -> str:
        """The queue's name: the last part of its URL."""
        name = self.url.rstrip("/").rsplit("/", 1)[-1]
        if name.endswith(".fifo"):
            raise SetupError(
                f"sqs.queue.url {self.url}: S3 cannot send to a FIFO queue; name a standard queue, or set up "
                "the way to this one (SNS FIFO, EventBridge) yourself"
            )
        return name

    @property
    def dead_letters(self) -> str:
        """The name of the queue's dead letter queue."""
        return f"{self.queue}-dead-letters"

    def attributes(self, name: str) -> dict[str, str] | None:
        """The attributes of the queue of that name, or None when it does not exist."""
        with translated_errors(f"queue {name!r} (sqs.queue.url)"):
            try:
                url = self.sqs.get_queue_url(QueueName=name)["QueueUrl"]
                # It finds the queue of that name in our own account, whichever the configuration names.
                self.check_account(_account(url))
                found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
            except ClientError as error:
                if error_code(error) in _MISSING:
                    return None
                raise
        return {str(key): value for key, value in found["Attributes"].items()}

    def check_account(self, own: str | None) -> None:
        """SetupError where the URL names another account than the credentials' own; None is not known."""
        named = _account(self.url)
        if named is not None and own is not None and named != own:
            raise SetupError(
                f"sqs.queue.url {self.url} is of account {named}, and these credentials are of {own}: "
                "correct the URL, or set the queue up with credentials of its own account"
            )

    def arn(self, name: str) -> str:
        """The ARN of a queue that exists by now."""
        attributes = self.attributes(name)
        if attributes is None:
            raise SetupError(f"queue {name} was deleted while it was being set up; run setup again")
        return attributes["QueueArn"]

    def set(self, name: str, attributes: "dict[QueueAttributeNameType, str]") -> None:
        """Make the queue if it is not there, then set these attributes."""
        with translated_errors(f"queue {name!r} (sqs.queue.url)"):
            url = self.sqs.create_queue(QueueName=name)["QueueUrl"]
            # The account and the name: the host differs where an endpoint is given.
            if name == self.queue and url.split("/")[-2:] != self.url.rstrip("/").split("/")[-2:]:
                raise SetupError(
                    f"sqs.queue.url {self.url} is not this account's; its queue is {url}: name that"
                )
            self.sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)

    def redrive(self) -> "dict[QueueAttributeNameType, str]":
        """The redrive policy towards the dead letter queue, which exists by now."""
        policy = {"deadLetterTargetArn": self.arn(self.dead_letters), "maxReceiveCount": str(REDRIVE_LIMIT)}
        return {"RedrivePolicy": json.dumps(policy)}

    def allow(self) -> "dict[QueueAttributeNameType, str]":
        """The queue's policy with the bucket in it."""
        attributes = self.attributes(self.queue) or {}
        policy = attributes.get("Policy")
        wanted = with_statement(policy, bucket=self.bucket, queue_arn=self.arn(self.queue))
        return {"Policy": wanted or policy or ""}

    def notification(self) -> Any:
        """What the bucket's notification configuration is."""
        with translated_errors(f"aws.s3.bucket.name = {self.bucket!r}"):
            return self.s3.get_bucket_notification_configuration(Bucket=self.bucket)

    def notify(self) -> None:
        """Put ours into the bucket's notification configuration as it is now."""
        wanted = with_queue(
            self.notification(), entry_id=self.entry_id, queue_arn=self.arn(self.queue), s3=self.place
        )
        if wanted is None:
            return
        attempts = Retrying(
            retry=retry_if_exception(_is_not_yet_allowed),
            stop=stop_after_delay(_POLICY_SECONDS),
            wait=wait_fixed(2.0),
            reraise=True,
        )
        with translated_errors(f"the notification configuration of s3://{self.bucket}"):
            try:
                attempts(
                    self.s3.put_bucket_notification_configuration,
                    Bucket=self.bucket,
                    NotificationConfiguration=wanted,
                )
            except ClientError as error:
                if not _is_not_yet_allowed(error):
                    raise
                raise SetupError(
                    f"s3://{self.bucket} refuses the notification ({error_code(error)}): another one for the "
                    f"same events overlaps with prefix {self.place.prefix!r}, or the queue is in another "
                    "region; see `aws s3api get-bucket-notification-configuration`"
                ) from error


def _account(url: str) -> str | None:
    """The number of the account that a queue's URL names; None where another SQS has none in it."""
    account = "".join(url.rstrip("/").split("/")[-2:-1])
    return account if account.isdecimal() else None


def _is_not_yet_allowed(error: BaseException) -> bool:
    return isinstance(error, ClientError) and error_code(error) == "InvalidArgument"


def _queue_steps(place: _Place) -> list[Step]:
    steps = []
    days = RETENTION_SECONDS // 86400
    retention: dict[QueueAttributeNameType, str] = {"MessageRetentionPeriod": str(RETENTION_SECONDS)}
    found = place.attributes(place.queue)
    has_redrive = found is not None and "RedrivePolicy" in found
    needed = place.queue if has_redrive else place.dead_letters
    if len(needed) > _MAX_NAME:
        otherwise = "" if has_redrive else ", or give this one a redrive policy of its own"
        raise SetupError(
            f"sqs.queue.url {place.url}: the name {needed} is longer than the {_MAX_NAME} characters that "
            f"SQS takes; name a queue with a shorter name{otherwise}"
        )
    if not has_redrive and place.attributes(place.dead_letters) is None:
        steps.append(
            Step(
                sentence=f"create the dead letter queue {place.dead_letters} (messages kept {days} days)",
                apply=lambda: place.set(place.dead_letters, retention),
            )
        )
    if found is None:
        steps.append(
            Step(
                sentence=f"create the queue {place.queue} (messages kept {days} days)",
                apply=lambda: place.set(place.queue, retention),
            )
        )
    elif int(found["MessageRetentionPeriod"]) < RETENTION_SECONDS:
        steps.append(
            Step(
                sentence=f"keep messages of {place.queue} for {days} days",
                apply=lambda: place.set(place.queue, retention),
            )
        )
    if not has_redrive:
        steps.append(
            Step(
                sentence=f"move messages of {place.queue} to {place.dead_letters} "
                f"after {REDRIVE_LIMIT} receives",
                apply=lambda: place.set(place.queue, place.redrive()),
            )
        )
    return steps


def _permission_steps(place: _Place) -> list[Step]:
    found = place.attributes(place.queue)
    is_allowed = found is not None and (
        with_statement(found.get("Policy"), bucket=place.bucket, queue_arn=found["QueueArn"]) is None
    )
    if is_allowed:
        return []
    return [
        Step(
            sentence=f"allow s3://{place.bucket}, and no other bucket by this, to send to {place.queue}",
            apply=lambda: place.set(place.queue, place.allow()),
        )
    ]


def _notification_steps(place: _Place) -> list[Step]:
    there = place.notification()
    found = place.attributes(place.queue)
    if found is not None and (
        with_queue(there, entry_id=place.entry_id, queue_arn=found["QueueArn"], s3=place.place) is None
    ):
        return []
    return [
        Step(
            sentence=f"let s3://{place.bucket}/{place.place.prefix} notify {place.queue} of new objects "
            "(other notifications stay)",
            apply=place.notify,
        )
    ]
