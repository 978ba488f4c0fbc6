from collections.abc import Mapping
from typing import Any

import pytest

from headrace.model.errors import Exit
from ingest.checks.findings.finding import Cause, Finding, Refused, Verdict, exit_of
from ingest.checks.findings.queue_findings import QUEUE_CHECKS, BucketAndQueue, QueueFacts, filters_fit
from tests.ingest.checks.findings.configured import configured

ARN = "arn:aws:sqs:us-east-1:123456789012:queue"
ATTRIBUTES = {
    "QueueArn": ARN,
    "VisibilityTimeout": "30",
    "MessageRetentionPeriod": "1209600",
    "RedrivePolicy": '{"deadLetterTargetArn":"x","maxReceiveCount":100}',
}
AWAY = ARN.replace("us-east-1", "eu-west-1")


def _notification(arn: str) -> dict[str, Any]:
    return {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}


def _with_filter(**rules: str) -> dict[str, Any]:
    return {
        "QueueConfigurations": [
            {
                "QueueArn": ARN,
                "Events": ["s3:ObjectCreated:*"],
                # AWS writes the names capitalised, LocalStack as they were given.
                "Filter": {"Key": {"FilterRules": [{"Name": k, "Value": v} for k, v in rules.items()]}},
            }
        ]
    }


def _found(
    facts: Mapping[str, Any], options: Mapping[str, str], keys: tuple[str, ...] = ()
) -> dict[str, Finding]:
    settings = configured(options)
    assert settings.sqs is not None
    place = BucketAndQueue(settings.s3, settings.sqs)
    made = QueueFacts(
        **{
            "attributes": ATTRIBUTES,
            "notification": _notification(ARN),
            "bucket_region": "us-east-1",
            **facts,
        }
    )
    found = [check(place, made) for check in QUEUE_CHECKS]
    found.append(filters_fit(place, made, keys))
    return {finding.name: finding for finding in found if finding is not None}


def test_all_is_well() -> None:
    """Each finding says so."""
    found = _found({}, {})

    assert {finding.verdict for finding in found.values()} == {Verdict.OK}
    assert exit_of(found.values()) is Exit.DONE


@pytest.mark.parametrize(
    ("facts", "options", "name", "verdict", "remedy"),
    [
        pytest.param(
            {"attributes": Refused(Cause.MISSING, "gone")},
            {},
            "queue",
            Verdict.FAIL,
            "headrace setup",
            id="no such queue",
        ),
        pytest.param(
            {"attributes": Refused(Cause.DENIED, "no")},
            {},
            "queue",
            Verdict.FAIL,
            "sqs:ReceiveMessage",
            id="a forbidden queue",
        ),
        pytest.param(
            {"attributes": Refused(Cause.UNREACHED, "no answer")},
            {},
            "queue",
            Verdict.FAIL,
            "sqs.endpoint",
            id="no answer",
        ),
        pytest.param(
            {"attributes": {**ATTRIBUTES, "QueueArn": AWAY}, "notification": _notification(AWAY)},
            {},
            "queue region",
            Verdict.FAIL,
            "sqs.region=eu-west-1",
            id="a queue of another region, by its ARN",
        ),
        pytest.param(
            {"bucket_region": "eu-west-1"},
            {},
            "queue region",
            Verdict.FAIL,
            "queue in eu-west-1",
            id="a queue of another region than the bucket",
        ),
        pytest.param(
            {"notification": {}},
            {},
            "notification",
            Verdict.FAIL,
            "headrace setup",
            id="no notification at all",
        ),
        pytest.param(
            {"notification": {"QueueConfigurations": [{"QueueArn": ARN + "2", "Events": ["*"]}]}},
            {},
            "notification",
            Verdict.FAIL,
            "headrace setup",
            id="another queue's notification",
        ),
        pytest.param(
            {"notification": Refused(Cause.DENIED, "no")},
            {},
            "notification",
            Verdict.WARN,
            "s3:GetBucketNotification",
            id="a notification that cannot be seen",
        ),
        pytest.param(
            {
                "notification": {
                    "QueueConfigurations": [{"QueueArn": ARN, "Events": ["s3:ObjectCreated:Put"]}]
                }
            },
            {},
            "notification",
            Verdict.WARN,
            "s3:ObjectCreated:*",
            id="multipart uploads unannounced",
        ),
        pytest.param(
            {"notification": _with_filter(Prefix="in/orders/")},
            {"aws.s3.prefix": "in/"},
            "notification filter",
            Verdict.FAIL,
            "aws.s3.prefix",
            id="a prefix filter that hides objects",
        ),
        pytest.param(
            {"notification": _with_filter(Prefix="in/region=eu/")},
            {"aws.s3.prefix": "in/region=eu/"},
            "notification filter",
            Verdict.FAIL,
            "Write 'in/region%3Deu/'",
            id="a prefix filter that is not encoded",
        ),
        pytest.param(
            {"notification": _with_filter(suffix=".gz")},
            {"aws.s3.prefix": "in/"},
            "notification filter",
            Verdict.FAIL,
            "Widen",
            id="a suffix filter that hides objects",
        ),
        pytest.param(
            {"attributes": {**ATTRIBUTES, "VisibilityTimeout": "5"}},
            {},
            "visibility timeout",
            Verdict.WARN,
            "VisibilityTimeout to 30",
            id="the queue's visibility too short",
        ),
        pytest.param(
            {},
            {"sqs.visibility.timeout.seconds": "10"},
            "visibility timeout",
            Verdict.WARN,
            "sqs.visibility.timeout.seconds",
            id="the option's visibility too short",
        ),
        pytest.param(
            {"attributes": {k: v for k, v in ATTRIBUTES.items() if k != "RedrivePolicy"}},
            {},
            "dead letter queue",
            Verdict.WARN,
            "headrace setup",
            id="no dead letter queue",
        ),
        pytest.param(
            {"attributes": {**ATTRIBUTES, "RedrivePolicy": '{"maxReceiveCount":"2"}'}},
            {},
            "dead letter queue",
            Verdict.WARN,
            "maxReceiveCount",
            id="few receives",
        ),
        pytest.param(
            {"attributes": {**ATTRIBUTES, "MessageRetentionPeriod": "3600"}},
            {},
            "retention",
            Verdict.WARN,
            "14 days",
            id="an hour's retention",
        ),
    ],
)
def test_what_is_wrong_is_found_with_its_remedy(
    facts: dict[str, Any], options: dict[str, str], name: str, verdict: Verdict, remedy: str
) -> None:
    """One finding each, and no other turns bad with it."""
    found = _found(facts, options, ("in/orders/1.csv",))

    assert found[name].verdict is verdict
    assert remedy in (found[name].remedy or "")
    assert exit_of(found.values()) is (Exit.UNUSABLE if verdict is Verdict.FAIL else Exit.DONE)
    assert [one.name for one in found.values() if one.verdict is not Verdict.OK] == [name]


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/1/q", "eu-west-1"),
        ("https://eu-central-1.queue.amazonaws.com/1/q", "eu-central-1"),
        ("https://vpce-0a1-b2.sqs.ap-south-1.vpce.amazonaws.com/1/q", "ap-south-1"),
    ],
)
def test_the_url_tells_the_region_of_a_queue_that_refuses_us(url: str, region: str) -> None:
    """Asked in another region it says only that it does not exist."""
    refused = {"attributes": Refused(Cause.MISSING, "gone")}

    found = _found(refused, {"sqs.queue.url": url, "sqs.region": "us-east-1"})

    assert found["queue region"].remedy == f"Set sqs.region={region}, or leave it out."


@pytest.mark.parametrize(
    ("rules", "prefix", "key"),
    [
        ({"Prefix": "in/", "Suffix": ".csv"}, "in/orders/", "in/orders/1.csv"),
        ({"Prefix": "in/region%3Deu/", "Suffix": "+1.csv"}, "in/region=eu/", "in/region=eu/a 1.csv"),
    ],
)
def test_a_filter_as_wide_as_the_prefix_hides_nothing(rules: dict[str, str], prefix: str, key: str) -> None:
    """The prefix itself, and a suffix that all keys have; S3 has them URL-encoded."""
    found = _found({"notification": _with_filter(**rules)}, {"aws.s3.prefix": prefix}, (key,))

    assert found["notification filter"].verdict is Verdict.OK


def test_the_way_over_eventbridge_is_not_followed() -> None:
    """It may cross regions, too."""
    found = _found({"notification": {"EventBridgeConfiguration": {}}, "bucket_region": "eu-west-1"}, {})

    assert "EventBridge" in found["notification"].sentence
    assert found["queue region"].verdict is Verdict.OK
