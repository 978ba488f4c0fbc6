"""`headrace setup` of a sink on LocalStack and a broker: the bucket's rule, and the ledger."""

import json
from typing import Any

import pytest

from headrace.kafka.admin import KafkaAdmin
from headrace.options import Settings
from headrace.vendors.load import load
from ingest.checks.findings.bucket_lifecycle import Transition
from ingest.checks.setup import Step
from ingest.cli.setup import sink_steps
from tests.support import aws, kafka

pytestmark = pytest.mark.parts


def _settings(bucket: str) -> Settings:
    given = {
        "name": aws.unique("sink"),
        "bootstrap.servers": kafka.address(),
        "aws.s3.bucket.name": bucket,
        "aws.s3.prefix": "in/",
        "topics": "orders",
    }
    return load(json.dumps(given), kind="json", environment={}, read_file=lambda path: path)


def _steps(settings: Settings) -> tuple[Step, ...]:
    return sink_steps(settings, aws.s3(), KafkaAdmin(settings.kafka.client("admin")))


def _rules(bucket: str) -> list[dict[str, Any]]:
    found: list[Any] = aws.s3().get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    return found


def test_from_nothing_and_again() -> None:
    """Asking changes nothing; applied once, there is nothing to do."""
    bucket = aws.new_bucket()
    settings = _settings(bucket)
    steps = _steps(settings)
    assert [step.sentence.split()[0] for step in steps] == ["end", "create"]
    assert len(_steps(settings)) == 2

    for step in steps:
        step.apply()

    assert _steps(settings) == ()
    (rule,) = _rules(bucket)
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert rule["Filter"] == {"Prefix": "in/"}
    admin = KafkaAdmin(settings.kafka.client("admin"))
    assert admin.partition_count(settings.kafka.ledger_topic) == 1
    assert admin.topic_configuration(settings.kafka.ledger_topic)["cleanup.policy"] == "compact"


def test_objects_move_to_colder_classes() -> None:
    """Beside the rule for unfinished uploads, by one step; asked for again there is nothing to do."""
    bucket = aws.new_bucket()
    settings = _settings(bucket)
    admin = KafkaAdmin(settings.kafka.client("admin"))
    colder = (Transition(90, "GLACIER"), Transition(365, "DEEP_ARCHIVE"))
    steps = sink_steps(settings, aws.s3(), admin, colder)
    assert "move objects in" in steps[0].sentence
    assert "GLACIER after 90 days, then to DEEP_ARCHIVE after 365 days" in steps[0].sentence

    for step in steps:
        step.apply()

    assert sink_steps(settings, aws.s3(), admin, colder) == ()
    uploads, moves = _rules(bucket)
    assert "AbortIncompleteMultipartUpload" in uploads
    assert moves["Filter"] == {"Prefix": "in/"}
    assert [(each["Days"], each["StorageClass"]) for each in moves["Transitions"]] == [
        (90, "GLACIER"),
        (365, "DEEP_ARCHIVE"),
    ]


def test_the_rules_that_are_there_stay() -> None:
    """PutBucketLifecycleConfiguration replaces all of them."""
    bucket = aws.new_bucket()
    theirs = {
        "ID": "logs",
        "Status": "Enabled",
        "Filter": {"Prefix": "logs/"},
        "Expiration": {"Days": 30},
    }
    aws.s3().put_bucket_lifecycle_configuration(
        Bucket=bucket,
        LifecycleConfiguration={"Rules": [theirs]},  # type: ignore[list-item]  # the stubs want literals
    )

    for step in _steps(_settings(bucket)):
        step.apply()

    rules = _rules(bucket)
    assert len(rules) == 2
    assert theirs in rules
