"""What `check` says of a sink's bucket, each with what to do."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.options import Settings
from ingest.checks.findings.finding import Cause, Finding, Refused, Verdict
from ingest.checks.findings.sink_findings import UploadFacts, upload_findings
from tests.ingest.checks.findings.configured import configured

_RULE = {"Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}
_GOOD = UploadFacts(begin=True, part=True, abort=True, missing=True, rules=[_RULE])
_DENIED = Refused(Cause.DENIED, "no")


def _settings(**changes: str | None) -> Settings:
    sink: dict[str, str | None] = {"topic": None, "sqs.queue.url": None, "file.name.template": None}
    return configured({**sink, "aws.s3.prefix": "in/", "topics": "orders,lost", **changes})


def _uploads(**changes: Any) -> dict[str, Finding]:
    findings = upload_findings(_settings(), replace(_GOOD, **changes))
    return {finding.name: finding for finding in findings if finding.verdict is not Verdict.OK}


def test_a_bucket_that_takes_uploads_is_well() -> None:
    """Two lines: uploads, and their end."""
    found = list(upload_findings(_settings(), _GOOD))

    assert [(finding.name, finding.verdict) for finding in found] == [
        ("bucket", Verdict.OK),
        ("lifecycle", Verdict.OK),
    ]


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "remedy"),
    [
        (
            {"begin": _DENIED, "part": None, "abort": None, "missing": None},
            "bucket",
            Verdict.FAIL,
            "s3:PutObject on arn:aws:s3:::bucket/in/*",
        ),
        (
            {
                **dict.fromkeys(("begin", "rules"), Refused(Cause.MISSING, "no")),
                **dict.fromkeys(("part", "abort", "missing")),
            },
            "bucket",
            Verdict.FAIL,
            "aws.s3.bucket.name",
        ),
        (
            {"begin": Refused(Cause.OPTION, "Remove aws.s3.acl"), "part": None, "abort": None},
            "bucket",
            Verdict.FAIL,
            "option",
        ),
        ({"part": _DENIED}, "bucket", Verdict.FAIL, "kms:"),
        ({"part": Refused(Cause.KEY, "no")}, "bucket", Verdict.FAIL, "See the sentence"),
        ({"part": Refused(Cause.QUOTA, "no")}, "bucket", Verdict.FAIL, "See the sentence"),
        ({"abort": False}, "abort", Verdict.WARN, "s3:AbortMultipartUpload"),
        ({"missing": _DENIED}, "list", Verdict.WARN, "s3:ListBucket"),
        ({"rules": []}, "lifecycle", Verdict.WARN, "headrace setup"),
        (
            {"rules": [{**_RULE, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2}}]},
            "lifecycle",
            Verdict.WARN,
            "3 or more",
        ),
        ({"rules": _DENIED}, "lifecycle", Verdict.WARN, "s3:GetLifecycleConfiguration"),
        ({"rules": Refused(Cause.OTHER, "NotImplemented")}, "lifecycle", Verdict.WARN, "See that a rule"),
    ],
)
def test_what_stands_in_the_way_of_uploads(
    changes: dict[str, Any], name: str, verdict: Verdict, remedy: str
) -> None:
    """One finding, which names the action or the option."""
    found = _uploads(**changes)

    assert list(found) == [name]
    assert found[name].verdict is verdict
    assert remedy in (found[name].remedy or "")
