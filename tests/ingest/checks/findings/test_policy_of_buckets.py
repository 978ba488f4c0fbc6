"""The policy where buckets are not ordinary ones: directory buckets, and aliases of access points."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session
from typer.testing import CliRunner

from headrace.options.aws_forms import express_action, is_session_write, policy_arn, rights_on
from ingest.checks.findings.iam_policy import policies
from ingest.cli.app import app
from tests.ingest.checks.findings.configured import configured

_DIRECTORY = "data--use1-az4--x-s3"
_EXPRESS = f"arn:aws:s3express:us-east-1:*:bucket/{_DIRECTORY}"
_ALIAS = "point-x1y2z3-s3alias"
_POINT = f"arn:aws:s3:us-east-1:ACCOUNT:accesspoint/NAME-OF-{_ALIAS}"
_READ_ONLY = {"StringEquals": {"s3express:SessionMode": "ReadOnly"}}
_SINK: dict[str, str | None] = {
    "topic": None,
    "sqs.queue.url": None,
    "file.name.template": None,
    "topics": "orders",
    "aws.s3.prefix": "in/",
}
_SOURCE: dict[str, str | None] = {"sqs.queue.url": None, "aws.s3.prefix": "in/"}


def _by_sid(options: dict[str, str | None], part: str = "run") -> dict[str, Any]:
    statements = policies(configured(options))[part]["Statement"]
    assert len({each["Sid"] for each in statements}) == len(statements)
    return {each["Sid"]: each for each in statements}


def _actions(found: dict[str, Any]) -> set[str]:
    return {action for each in found.values() for action in each["Action"]}


@pytest.mark.parametrize(
    "changes",
    [{}, {"include.existing": "false"}, {"input.layout": "confluent", "file.name.template": None}],
)
def test_a_source_reads_a_directory_bucket_in_sessions(changes: dict[str, str | None]) -> None:
    """Which may be of reading alone. No key or prefix can be named, and it has neither versions nor tags."""
    found = _by_sid(_SOURCE | {"aws.s3.bucket.name": _DIRECTORY} | changes)

    assert found == {
        "readSessions": {
            "Sid": "readSessions",
            "Effect": "Allow",
            "Action": ["s3express:CreateSession"],
            "Resource": _EXPRESS,
            "Condition": _READ_ONLY,
        }
    }


@pytest.mark.parametrize("action", ["delete", "move:done/"])
def test_what_becomes_of_objects_wants_sessions_of_writing(action: str) -> None:
    """In which objects are read, too."""
    found = _by_sid(_SOURCE | {"aws.s3.bucket.name": _DIRECTORY, "post.action": action})

    assert _actions(found) == {"s3express:CreateSession"}
    assert (found["sessions"]["Resource"], found["sessions"].get("Condition")) == (_EXPRESS, None)


def test_a_move_between_kinds_of_buckets_has_the_rights_of_each() -> None:
    """What is moved is deleted where it was."""
    out = _by_sid(_SOURCE | {"aws.s3.bucket.name": _DIRECTORY, "post.action": "move:s3://cold/done/"})
    assert out["sessions"]["Resource"] == _EXPRESS
    assert out["moveTo"]["Resource"] == "arn:aws:s3:::cold/done/*"
    assert set(out) == {"sessions", "moveTo", "moveToList"}

    into = _by_sid(_SOURCE | {"post.action": f"move:s3://{_DIRECTORY}/done/"})
    assert into["sessions"]["Resource"] == _EXPRESS
    assert into["moveFrom"]["Resource"] == "arn:aws:s3:::bucket/in/*"
    assert not {"moveTo", "moveToList", "readSessions"} & set(into)


def test_a_sink_writes_a_directory_bucket_and_reads_its_lifecycle() -> None:
    """The rules are asked for as a bucket's, without a session."""
    found = _by_sid(_SINK | {"aws.s3.bucket.name": _DIRECTORY, "takeover.indexes": ".indexes"})

    assert _actions(found) == {"s3express:CreateSession", "s3express:GetLifecycleConfiguration"}
    assert {each["Resource"] for each in found.values()} == {_EXPRESS}
    assert "Condition" not in found["sessions"]
    rules = _by_sid(_SINK | {"aws.s3.bucket.name": _DIRECTORY}, "setup")
    assert _actions(rules) == {"s3express:GetLifecycleConfiguration", "s3express:PutLifecycleConfiguration"}


def test_buckets_of_both_kinds_are_told_apart() -> None:
    """Each statement has those that it is for, and a directory bucket has no notifications."""
    found = _by_sid({"aws.s3.bucket.name": f"one,{_DIRECTORY}"})
    assert found["list"]["Resource"] == "arn:aws:s3:::one"
    assert found["objects"]["Resource"] == "arn:aws:s3:::one/*"
    assert found["readSessions"]["Resource"] == _EXPRESS

    for part in ("check", "setup"):
        assert "s3express" not in json.dumps(_by_sid({"aws.s3.bucket.name": f"one,{_DIRECTORY}"}, part))


def test_an_access_point_is_named_by_its_arn() -> None:
    """Objects below it have a form of their own; it has no lifecycle to be asked for."""
    found = _by_sid(_SOURCE | {"aws.s3.bucket.name": _ALIAS})
    assert found["list"]["Resource"] == _POINT
    assert found["list"]["Condition"] == {"StringLike": {"s3:prefix": "in/*"}}
    assert found["objects"]["Resource"] == f"{_POINT}/object/in/*"

    sink = _by_sid(_SINK | {"aws.s3.bucket.name": _ALIAS})
    assert sink["uploads"]["Resource"] == f"{_POINT}/object/in/*"
    assert "lifecycle" not in sink
    assert _by_sid(_SINK | {"aws.s3.bucket.name": _ALIAS}, "setup") == {}


@pytest.mark.parametrize("alias", [_ALIAS, "bucket"])
def test_what_is_to_be_filled_in_of_an_access_point_is_reported(tmp_path: Path, alias: str) -> None:
    """On standard error: the document stays JSON."""
    config = {
        "name": "a",
        "bootstrap.servers": "b:1",
        "aws.s3.bucket.name": alias,
        "topics": "orders",
        "aws.s3.region": "eu-west-1",
    }
    file = tmp_path / "sink.json"
    file.write_text(json.dumps(config))

    result = CliRunner().invoke(app, ["policy", str(file), "--for", "run"])
    assert json.loads(result.stdout)["Version"]
    assert ("aws s3control list-access-points" in result.stderr) == (alias == _ALIAS)


def test_the_inventory_may_be_elsewhere() -> None:
    """In another kind of bucket than what is read."""
    url = "s3://inv/a/bucket/all/2026-01-31T01-00Z/manifest.json"
    found = _by_sid(_SOURCE | {"aws.s3.bucket.name": _DIRECTORY, "initial.inventory": url})
    assert found["inventory"]["Resource"] == "arn:aws:s3:::inv/a/bucket/all/*"


@pytest.mark.parametrize(
    ("bucket", "region", "arn"),
    [
        ("b", "us-gov-west-1", "arn:aws-us-gov:s3:::b"),
        ("b--x-s3", "cn-north-1", "arn:aws-cn:s3express:cn-north-1:*:bucket/b--x-s3"),
        ("b--xa-s3", "eu-west-1", "arn:aws:s3express:eu-west-1:*:accesspoint/b--xa-s3"),
        ("b-s3alias", "eu-west-1", "arn:aws:s3:eu-west-1:ACCOUNT:accesspoint/NAME-OF-b-s3alias"),
    ],
)
def test_each_kind_has_an_arn_of_its_own(bucket: str, region: str, arn: str) -> None:
    """As policies name it."""
    assert policy_arn(bucket, region) == arn


def test_remedies_name_what_is_to_be_allowed() -> None:
    """On a directory bucket the session, and its mode where something is written."""
    s3 = configured(_SOURCE).s3
    assert rights_on(s3.arn, "s3:ListBucket") == "s3:ListBucket on arn:aws:s3:::bucket"
    assert rights_on(s3.objects_arn, "s3:GetObject") == "s3:GetObject on arn:aws:s3:::bucket/in/*"

    assert rights_on(_EXPRESS, "s3:ListBucket", "s3:GetObject") == f"s3express:CreateSession on {_EXPRESS}"
    assert rights_on(_EXPRESS, "s3:PutObject") == f"s3express:CreateSession in ReadWrite mode on {_EXPRESS}"
    rules = rights_on(_EXPRESS, "s3:GetLifecycleConfiguration")
    assert rules == f"s3express:GetLifecycleConfiguration on {_EXPRESS}"


@pytest.mark.parametrize(
    ("action", "operation"),
    [
        ("s3:GetObject", "GetObject"),
        ("s3:ListBucket", "ListObjectsV2"),
        ("s3:ListBucketMultipartUploads", "ListMultipartUploads"),
        ("s3:ListMultipartUploadParts", "ListParts"),
        ("s3:PutObject", "PutObject"),
        ("s3:AbortMultipartUpload", "AbortMultipartUpload"),
        ("s3:DeleteObject", "DeleteObject"),
    ],
)
def test_what_a_session_of_reading_admits_is_what_botocore_says(action: str, operation: str) -> None:
    """In its description of CreateSession's mode, which is AWS's."""
    model = get_session().get_service_model("s3").operation_model("CreateSession")
    assert model.input_shape is not None
    words = str(model.input_shape.members["SessionMode"].documentation)
    admitted = words.partition("<code>ReadOnly</code> session is constrained")[2]

    assert admitted
    assert (f"<code>{operation}</code>" in admitted) is not is_session_write(action)
    assert express_action(action) == "s3express:CreateSession"
