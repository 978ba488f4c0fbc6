"""Findings about the queue, and about what the bucket sends to it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote_plus, unquote_plus

from headrace.model.text_formatting import counted
from headrace.options.aws_forms import is_amazons
from headrace.options.aws_forms import queue_region as queue_region_of_url
from headrace.options.settings import S3Settings, SqsSettings
from ingest.checks.findings.finding import Cause, Finding, Refused, ok, unusable, warn

_SHORT_VISIBILITY_SECONDS: Final = 30
_FEW_RECEIVES: Final = 5
_SHORT_RETENTION_SECONDS: Final = 86_400
_ALL_CREATED: Final = "s3:ObjectCreated:*"
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html: a space is `+`,
# and all but these is URL-encoded. As it is, `region=eu/` passes no key.
_SAFE: Final = "/!-_.*'()"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """What queue and bucket answered; `bucket_region` as far as it is known."""

    attributes: Mapping[str, str] | Refused
    notification: Mapping[str, Any] | Refused
    bucket_region: str


@dataclass(frozen=True, slots=True)
class BucketAndQueue:
    """What is configured: the bucket and the queue."""

    s3: S3Settings
    sqs: SqsSettings


def filter_value(text: str, s3: S3Settings) -> str:
    """The value of a rule for keys that begin or end with `text`; of other stores than S3 it is that text."""
    return quote_plus(text, safe=_SAFE) if is_amazons(s3.endpoint) else text


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """What keys have to begin and end with. `unencoded` is a value that S3 takes and matches with no key."""

    prefix: str
    suffix: str
    unencoded: str | None

    @classmethod
    def of(cls, configuration: Mapping[str, Any], s3: S3Settings) -> Self:
        """The filter of one entry of a notification's configuration."""
        rules = configuration.get("Filter", {}).get("Key", {}).get("FilterRules", ())
        # AWS writes the names capitalised, LocalStack as they were given.
        values = {rule["Name"].lower(): str(rule["Value"]) for rule in rules}
        prefix, suffix = values.get("prefix", ""), values.get("suffix", "")
        if not is_amazons(s3.endpoint):
            return cls(prefix, suffix, None)
        wrong = (each for each in (prefix, suffix) if quote_plus(each, safe=f"{_SAFE}%+") != each)
        return cls(unquote_plus(prefix), unquote_plus(suffix), next(wrong, None))

    def shows(self, prefix: str, keys: Sequence[str] = ()) -> bool:
        """Whether everything under `prefix` is sent; a suffix is judged by the keys that are there."""
        return (
            self.unencoded is None
            and prefix.startswith(self.prefix)
            and all(key.endswith(self.suffix) for key in keys)
        )

    def __str__(self) -> str:
        begins = f"beginning with {self.prefix!r}" if self.prefix else ""
        ends = f"ending in {self.suffix!r}" if self.suffix else ""
        return " and ".join(part for part in (begins, ends) if part)


def queue_there(place: BucketAndQueue, facts: QueueFacts) -> Finding:
    """Whether the queue exists and may be asked."""
    name, url = "queue", place.sqs.queue_url
    if not isinstance(facts.attributes, Refused):
        waiting = facts.attributes.get("ApproximateNumberOfMessages", "0")
        return ok(name, f"{url} is there, {counted(int(waiting), 'message')} in it")
    words = facts.attributes.words
    if facts.attributes.cause is Cause.MISSING:
        return unusable(
            name,
            f"{url} is not there: {words}",
            "Correct sqs.queue.url, or make it: `headrace setup CONFIG`.",
        )
    if facts.attributes.cause in {Cause.DENIED, Cause.CREDENTIALS}:
        return unusable(
            name,
            f"{url} may not be used: {words}",
            "Allow sqs:GetQueueAttributes, sqs:ReceiveMessage, sqs:DeleteMessage and "
            "sqs:ChangeMessageVisibility on it.",
        )
    return unusable(
        name,
        f"{url} cannot be asked: {words}",
        "Check sqs.queue.url, sqs.endpoint and the network. Until then `run` lists the bucket instead.",
    )


def queue_region(place: BucketAndQueue, facts: QueueFacts) -> Finding | None:
    """Whether the queue is in the region it is asked in, and in the bucket's."""
    name = "queue region"
    found = _region_of(place, facts)
    if found is None:
        return None
    if found != place.sqs.region:
        return unusable(
            name,
            f"the queue is in {found}, and asked for in {place.sqs.region}.",
            f"Set sqs.region={found}, or leave it out.",
        )
    if found != facts.bucket_region and not _is_indirect(facts):
        return unusable(
            name,
            f"the queue is in {found}, the bucket in {facts.bucket_region}: S3 sends only to queues of the "
            "bucket's own region.",
            f"Use a queue in {facts.bucket_region}, or send through SNS or EventBridge.",
        )
    return ok(name, f"the queue is in {found}")


def notified(place: BucketAndQueue, facts: QueueFacts) -> Finding | None:
    """Whether the bucket tells the queue of new objects."""
    name = "notification"
    if isinstance(facts.notification, Refused):
        if facts.notification.cause is not Cause.DENIED:
            return None
        return warn(
            name,
            f"whether the bucket tells the queue cannot be seen: {facts.notification.words}",
            f"Allow s3:GetBucketNotification on {place.s3.arn} for `check` and `setup`; "
            "`run` does not need it.",
        )
    if isinstance(facts.attributes, Refused):
        return None
    if ours := _ours(facts):
        return _events_fit({event for one in ours for event in one.get("Events", ())})
    if _is_indirect(facts):
        way = "EventBridge" if "EventBridgeConfiguration" in facts.notification else "SNS"
        return ok(name, f"the bucket tells {way} of new objects; the way from there was not followed")
    return unusable(
        name,
        f"s3://{place.s3.bucket} does not tell this queue of new objects.",
        "`headrace setup CONFIG` adds a notification to those that are there. Until then only listings find "
        "objects.",
    )


def _events_fit(events: set[str]) -> Finding:
    if _ALL_CREATED in events:
        return ok("notification", "the bucket tells the queue of new objects")
    return warn(
        "notification",
        f"the bucket tells the queue only of {', '.join(sorted(events))}: uploads made in another way come "
        "with the next listing.",
        f"Let it send {_ALL_CREATED}: `headrace setup CONFIG`.",
    )


def filters_fit(place: BucketAndQueue, facts: QueueFacts, keys: Sequence[str] = ()) -> Finding | None:
    """Whether a filter of the notification hides objects that `run` would take; `keys` are some of those."""
    name = "notification filter"
    ours = [] if isinstance(facts.notification, Refused) else _ours(facts)
    if not ours:
        return None
    filters = [KeyFilter.of(one, place.s3) for one in ours]
    if any(one.shows(place.s3.prefix, keys) for one in filters):
        return ok(name, "no filter of the notification hides objects")
    unencoded = next((one.unencoded for one in filters if one.unencoded is not None), None)
    if unencoded is not None:
        return unusable(
            name,
            f"the notification's filter {unencoded!r} passes no key: S3 wants such values URL-encoded.",
            f"Write {filter_value(unencoded, place.s3)!r}; `headrace setup CONFIG` does so in its own.",
        )
    return unusable(
        name,
        f"the bucket tells the queue only of keys {' or '.join(map(str, filters))}, and aws.s3.prefix is "
        f"{place.s3.prefix!r}: the others come with listings only.",
        "Widen the filter of the notification, or narrow aws.s3.prefix to what it sends.",
    )


def visibility(place: BucketAndQueue, facts: QueueFacts) -> Finding | None:
    """Whether messages stay hidden long enough for a heartbeat to be in time."""
    name = "visibility timeout"
    if isinstance(facts.attributes, Refused):
        return None
    given = place.sqs.visibility_timeout_seconds
    seconds = int(facts.attributes.get("VisibilityTimeout", "30")) if given is None else given
    if seconds < _SHORT_VISIBILITY_SECONDS:
        option = "the queue's VisibilityTimeout" if given is None else "sqs.visibility.timeout.seconds"
        return warn(
            name,
            f"{option} is {seconds} s: a short pause of this process or of the network, and messages come a "
            "second time while they are worked on (which is harmless, and counts towards the redrive limit).",
            f"Set {option} to {_SHORT_VISIBILITY_SECONDS} s or more; a heartbeat prolongs it as needed.",
        )
    return ok(name, f"messages stay hidden for {seconds} s, and longer by heartbeat")


def redrive(_place: BucketAndQueue, facts: QueueFacts) -> Finding | None:
    """Whether unusable messages end somewhere, and not too early."""
    name = "dead letter queue"
    if isinstance(facts.attributes, Refused):
        return None
    try:
        policy = json.loads(facts.attributes.get("RedrivePolicy", "null"))
        most = None if policy is None else int(policy["maxReceiveCount"])
    except (ValueError, KeyError, TypeError):
        most = None
    if most is None:
        return warn(
            name,
            "the queue has no dead letter queue: messages of other buckets or unknown shape come again and "
            "again until they expire.",
            "`headrace setup CONFIG` adds one.",
        )
    if most < _FEW_RECEIVES:
        return warn(
            name,
            f"messages go to the dead letter queue after {most} receives: a few restarts of `run`, and good "
            "ones end there (their objects come with the next listing).",
            "Raise maxReceiveCount; `headrace setup` uses 100.",
        )
    return ok(name, f"unusable messages end in a dead letter queue after {most} receives")


def retention(_place: BucketAndQueue, facts: QueueFacts) -> Finding | None:
    """Whether messages outlive a weekend, or at least a day."""
    if isinstance(facts.attributes, Refused):
        return None
    seconds = int(facts.attributes.get("MessageRetentionPeriod", "345600"))
    if seconds >= _SHORT_RETENTION_SECONDS:
        return None
    return warn(
        "retention",
        f"the queue forgets messages after {seconds / 3600:.1f} h: objects announced while `run` is down for "
        "longer come with the listing at its start only.",
        "Raise MessageRetentionPeriod to 14 days: `headrace setup CONFIG`.",
    )


QUEUE_CHECKS: Final = (queue_there, queue_region, notified, visibility, redrive, retention)
"""`filters_fit` comes in addition: it looks at keys too."""
OF_THE_BUCKET: Final = frozenset({"queue region", "notification", "notification filter"})
"""Names of findings that may differ from bucket to bucket of one queue."""


def _region_of(place: BucketAndQueue, facts: QueueFacts) -> str | None:
    if not isinstance(facts.attributes, Refused) and "QueueArn" in facts.attributes:
        return facts.attributes["QueueArn"].split(":")[3]
    # A queue of another region is asked with the wrong signature, so its URL has to tell.
    return queue_region_of_url(place.sqs.queue_url)


def _ours(facts: QueueFacts) -> list[Mapping[str, Any]]:
    assert not isinstance(facts.notification, Refused)
    if isinstance(facts.attributes, Refused):
        return []
    arn = facts.attributes.get("QueueArn")
    return [one for one in facts.notification.get("QueueConfigurations", ()) if one.get("QueueArn") == arn]


def _is_indirect(facts: QueueFacts) -> bool:
    if isinstance(facts.notification, Refused):
        return False
    return bool(
        facts.notification.get("TopicConfigurations") or "EventBridgeConfiguration" in facts.notification
    )
