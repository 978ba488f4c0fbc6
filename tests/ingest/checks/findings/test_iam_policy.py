"""The least policy of a configuration: what is in it, and what is only where an option asks for it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingest.checks.findings.iam_policy import policies
from ingest.cli.app import app
from tests.ingest.checks.findings.configured import configured

_SINK: dict[str, str | None] = {
    "topic": None,
    "sqs.queue.url": None,
    "file.name.template": None,
    "topics": "orders",
    "aws.s3.prefix": "in/",
}


def _actions(document: dict[str, Any]) -> set[str]:
    return {action for statement in document["Statement"] for action in statement["Action"]}


def test_a_sink_puts_and_ends_uploads() -> None:
    """And nothing that deletes an object."""
    found = policies(configured(_SINK))

    assert _actions(found["run"]) == {
        "s3:ListBucket",
        "s3:PutObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
        "s3:GetObject",
        "s3:GetLifecycleConfiguration",
    }
    listing, lifecycle, uploads = found["run"]["Statement"]
    assert lifecycle["Resource"] == "arn:aws:s3:::bucket"
    assert listing["Resource"] == "arn:aws:s3:::bucket"
    assert listing["Condition"] == {"StringLike": {"s3:prefix": "in/*"}}
    assert uploads["Resource"] == "arn:aws:s3:::bucket/in/*"
    assert _actions(found["setup"]) == {"s3:GetLifecycleConfiguration", "s3:PutLifecycleConfiguration"}
    assert found["check"]["Statement"] == []
    assert found["lifecycle"]["Rules"][0]["Filter"] == {"Prefix": "in/"}


def test_a_document_without_a_statement_is_none_for_iam(tmp_path: Path) -> None:
    """IAM refuses an empty one: the command says that there is nothing to allow."""
    config = {
        "name": "a",
        "bootstrap.servers": "b:1",
        "aws.s3.bucket.name": "bucket",
        "topics": "orders",
        "aws.s3.region": "eu-west-1",
    }
    (tmp_path / "sink.json").write_text(json.dumps(config))

    result = CliRunner().invoke(app, ["policy", str(tmp_path / "sink.json")])
    assert "# for `headrace check`, beside that of run: nothing\n" in result.output
    assert '"Statement": []' not in result.output


@pytest.mark.parametrize(
    ("options", "action"),
    [
        ({"aws.s3.object.tags": "offsets"}, "s3:PutObjectTagging"),
        ({"aws.s3.acl": "private"}, "s3:PutObjectAcl"),
        ({"aws.s3.sse": "aws:kms"}, "kms:GenerateDataKey"),
    ],
)
def test_an_option_brings_its_action(options: dict[str, str | None], action: str) -> None:
    """Not before."""
    assert action not in _actions(policies(configured(_SINK))["run"])
    assert action in _actions(policies(configured(_SINK | options))["run"])


def test_a_key_that_is_named_by_its_arn_is_the_only_one() -> None:
    """An alias or an id is no resource of a policy."""
    arn = "arn:aws:kms:eu-west-1:123456789012:key/k"
    named = policies(configured(_SINK | {"aws.s3.sse": "aws:kms", "aws.s3.sse.kms.key.id": arn}))
    alias = policies(configured(_SINK | {"aws.s3.sse": "aws:kms", "aws.s3.sse.kms.key.id": "alias/k"}))

    assert named["run"]["Statement"][-1]["Resource"] == arn
    assert alias["run"]["Statement"][-1]["Resource"] == "arn:aws:kms:*:*:key/*"


def test_going_on_behind_lenses_takes_its_locks() -> None:
    """Which stand outside the prefix, as its copies that were under way do."""
    found = policies(configured({**_SINK, "takeover.indexes": ".indexes"}))["run"]["Statement"]
    by_sid = {each["Sid"]: each for each in found}

    assert by_sid["takeoverLocks"]["Resource"] == "arn:aws:s3:::bucket/.indexes/*"
    assert set(by_sid["takeoverLocks"]["Action"]) == {"s3:GetObject", "s3:PutObject"}
    assert by_sid["takeoverCopies"]["Resource"] == "arn:aws:s3:::bucket/.temp-upload/*"
    assert by_sid["list"]["Condition"] == {
        "StringLike": {"s3:prefix": ["in/*", ".indexes/*", ".temp-upload/*"]}
    }
    assert not any(each.startswith("takeover") for each in _sids(policies(configured(_SINK))["run"]))


def _sids(document: dict[str, Any]) -> set[str]:
    return {each["Sid"] for each in document["Statement"]}


def test_a_source_reads_objects_and_its_queue() -> None:
    """As docs/security.md has it."""
    found = policies(configured())

    assert _actions(found["run"]) == {
        "s3:ListBucket",
        "s3:GetObject",
        "s3:GetObjectVersion",
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
        "sqs:GetQueueAttributes",
    }
    assert found["run"]["Statement"][-1]["Resource"] == "arn:aws:sqs:us-east-1:123456789012:queue"
    assert "Condition" not in found["run"]["Statement"][0]
    assert "lifecycle" not in found


def test_a_source_without_a_queue_needs_none() -> None:
    """Listing only."""
    found = policies(configured({"sqs.queue.url": None}))

    assert not any(action.startswith("sqs:") for part in found.values() for action in _actions(part))


def test_a_move_to_another_bucket_needs_rights_there() -> None:
    """To put, and to see what is there already."""
    found = policies(configured({"post.action": "move:s3://cold/done/"}))["run"]["Statement"]
    by_sid = {each["Sid"]: each for each in found}

    assert by_sid["moveTo"]["Resource"] == "arn:aws:s3:::cold/done/*"
    assert {"s3:GetObject", "s3:PutObject"} <= set(by_sid["moveTo"]["Action"])
    assert (by_sid["moveToList"]["Resource"], by_sid["moveToList"]["Action"]) == (
        "arn:aws:s3:::cold",
        ["s3:ListBucket"],
    )
    assert by_sid["moveFrom"]["Resource"] == "arn:aws:s3:::bucket/*"
