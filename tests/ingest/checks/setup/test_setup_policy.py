"""The documents of setup: merged into what is there, and left alone when all is there."""

import json
from typing import Any

import pytest

from headrace.options.settings import S3Settings
from ingest.checks.setup.steps import EVENTS, with_queue, with_statement
from tests.ingest.checks.findings.configured import configured

ARN = "arn:aws:sqs:us-east-1:111122223333:q"
OTHER = {
    "Sid": "team",
    "Effect": "Allow",
    "Principal": {"AWS": "444455556666"},
    "Action": "sqs:*",
    "Resource": ARN,
}


def test_the_policy_names_this_bucket_and_no_other() -> None:
    """S3 may send, on behalf of one bucket, to one queue."""
    policy = with_statement(None, bucket="uploads", queue_arn=ARN)
    assert policy is not None
    assert json.loads(policy)["Statement"] == [
        {
            "Sid": "headrace-uploads",
            "Effect": "Allow",
            "Principal": {"Service": "s3.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": ARN,
            "Condition": {"ArnEquals": {"aws:SourceArn": "arn:aws:s3:::uploads"}},
        }
    ]


@pytest.mark.parametrize("statement", [pytest.param([OTHER], id="list"), pytest.param(OTHER, id="single")])
def test_other_statements_stay(statement: object) -> None:
    """Whether they come as a list or as one."""
    before = json.dumps({"Version": "2012-10-17", "Id": "theirs", "Statement": statement})
    policy = with_statement(before, bucket="uploads", queue_arn=ARN)
    assert policy is not None
    document = json.loads(policy)
    assert document["Id"] == "theirs"
    assert [one["Sid"] for one in document["Statement"]] == ["team", "headrace-uploads"]
    assert with_statement(policy, bucket="uploads", queue_arn=ARN) is None


def test_a_statement_of_ours_that_was_changed_is_put_right() -> None:
    """By its Sid; it is not doubled."""
    policy = with_statement(None, bucket="uploads", queue_arn=ARN)
    assert policy is not None
    widened = json.loads(policy)
    del widened["Statement"][0]["Condition"]
    assert with_statement(json.dumps(widened), bucket="uploads", queue_arn=ARN) == policy


def test_the_partition_follows_the_queue() -> None:
    """China and GovCloud have ARNs of their own."""
    policy = with_statement(None, bucket="b", queue_arn="arn:aws-cn:sqs:cn-north-1:111122223333:q")
    assert policy is not None
    assert "arn:aws-cn:s3:::b" in policy


def _place(prefix: str = "in/", **options: str) -> S3Settings:
    return configured({"aws.s3.prefix": prefix, **options}).s3


def _entry(**changes: Any) -> dict[str, Any]:
    rules = [{"Name": "Prefix", "Value": "in/"}]
    return {
        "Id": "e",
        "QueueArn": ARN,
        "Events": list(EVENTS),
        "Filter": {"Key": {"FilterRules": rules}},
        **changes,
    }


def _filter(*rules: tuple[str, str]) -> dict[str, Any]:
    return {"Key": {"FilterRules": [{"Name": name, "Value": value} for name, value in rules]}}


@pytest.mark.parametrize(
    ("entry", "is_enough"),
    [
        pytest.param(_entry(), True, id="the same prefix"),
        pytest.param(_entry(Filter={}), True, id="no filter"),
        pytest.param(_entry(Filter=_filter(("Prefix", "i"))), True, id="a wider prefix"),
        pytest.param(_entry(Events=["s3:ObjectCreated:*"]), True, id="creations only"),
        pytest.param(_entry(Filter=_filter(("Prefix", "in/deeper/"))), False, id="a narrower prefix"),
        pytest.param(_entry(Filter=_filter(("Prefix", "in/"), ("Suffix", ".gz"))), False, id="a suffix"),
        pytest.param(_entry(Events=["s3:ObjectCreated:Put"]), False, id="puts only"),
        pytest.param(_entry(QueueArn=ARN + "2"), False, id="another queue"),
    ],
)
def test_an_entry_that_does_it_already_is_enough(entry: dict[str, Any], *, is_enough: bool) -> None:
    """A second one for the same events and prefix would be refused by S3."""
    wanted = with_queue({"QueueConfigurations": [entry]}, entry_id="headrace-x", queue_arn=ARN, s3=_place())
    assert (wanted is None) is is_enough


def test_what_else_is_configured_stays() -> None:
    """Lambda, topics, EventBridge and other queues: the call replaces the whole configuration."""
    there: dict[str, Any] = {
        "ResponseMetadata": {"HTTPStatusCode": 200},
        "EventBridgeConfiguration": {},
        "TopicConfigurations": [{"Id": "t"}],
        "LambdaFunctionConfigurations": [{"Id": "l"}],
        "QueueConfigurations": [
            _entry(QueueArn=ARN + "2"),
            _entry(Id="headrace-x", Events=["s3:ObjectCreated:Put"]),
        ],
    }
    wanted = with_queue(there, entry_id="headrace-x", queue_arn=ARN, s3=_place())
    assert wanted == {
        "EventBridgeConfiguration": {},
        "TopicConfigurations": [{"Id": "t"}],
        "LambdaFunctionConfigurations": [{"Id": "l"}],
        "QueueConfigurations": [
            _entry(QueueArn=ARN + "2"),
            {
                "Id": "headrace-x",
                "QueueArn": ARN,
                "Events": list(EVENTS),
                "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "in/"}]}},
            },
        ],
    }
    assert with_queue(wanted, entry_id="headrace-x", queue_arn=ARN, s3=_place()) is None


_ELSEWHERE = "http://minio:9000"


@pytest.mark.parametrize(
    ("prefix", "endpoint", "value", "others"),
    [
        ("topics/region=eu/", None, "topics/region%3Deu/", "topics/region=eu/"),
        ("a b+c/", "https://s3.eu-west-1.amazonaws.com", "a+b%2Bc/", "a b+c/"),
        ("zürich/", None, "z%C3%BCrich/", "zürich/"),
        ("it's_(1)-!.*/", None, "it's_(1)-!.*/", "it's/"),
        ("region=eu/", _ELSEWHERE, "region=eu/", "region%3Deu/"),
    ],
)
def test_a_filter_is_written_as_s3_matches_it(
    prefix: str, endpoint: str | None, value: str, others: str
) -> None:
    """URL-encoded at Amazon's; where it is not, it passes no key, and ours is put in its place."""
    place = _place(prefix, **({} if endpoint is None else {"aws.s3.endpoint": endpoint}))

    def put(there: dict[str, Any]) -> dict[str, Any] | None:
        return with_queue({"QueueConfigurations": [there]}, entry_id="e", queue_arn=ARN, s3=place)

    made = put(_entry(Filter=_filter(("Prefix", others))))
    assert made is not None
    (entry,) = made["QueueConfigurations"]
    assert entry["Filter"] == _filter(("prefix", value))
    assert put(entry) is None
