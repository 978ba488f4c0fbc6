"""The sink's calls of S3 under our own policy and under those that the other makers publish.

A proxy in front of S3 refuses every other action, as IAM would.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from headrace.model.errors import HeadraceError
from headrace.model.sink_entries import Upload
from headrace.options import Settings
from headrace.s3.completion import CompletionState
from headrace.s3.upload_calls import new_upload_calls
from ingest.checks.findings.finding import Verdict
from ingest.checks.findings.iam_policy import policies
from ingest.checks.findings.sink_findings import upload_findings
from ingest.checks.probes.bucket_keys import aws_clients
from ingest.checks.probes.probe_calls import probe_uploads
from tests.support import aws
from tests.support.iam_proxy import Guard
from tests.support.proxy import Proxy
from tests.support.published_policies import PUBLISHED
from tests.support.sink_archives import sink_settings

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

# What `check` has to say of each, by the action that would help.
_NAMED: Final = {
    "own": set[str](),
    "aiven": {"s3:ListBucket"},
    "confluent": {"s3:AbortMultipartUpload"},
    "lenses": {"s3:ListBucket", "s3:AbortMultipartUpload"},
}
_PART: Final = b"x" * (5 * 1024 * 1024)


def _settings(bucket: str, url: str, **options: Any) -> Settings:
    return sink_settings(
        {
            "connector.class": "HeadraceSink",
            "topics": "orders",
            "aws.s3.bucket.name": bucket,
            "aws.s3.prefix": "in/",
            "aws.s3.endpoint": url,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.backoff.max.retries": 0,
            **{name.replace("_", "."): value for name, value in options.items()},
        }
    )


def _own(settings: Settings, part: str = "run") -> frozenset[str]:
    return frozenset(action for each in policies(settings)[part]["Statement"] for action in each["Action"])


@contextmanager
def _guarded(whose: str, bucket: str, **options: Any) -> Iterator[tuple[Settings, Guard]]:
    with Proxy(aws.address()) as proxy:
        settings = _settings(bucket, proxy.url, **options)
        yield settings, Guard(proxy, PUBLISHED.get(whose) or _own(settings))


@pytest.mark.parametrize("whose", sorted(_NAMED))
def test_an_upload_is_written_and_completed(bucket: str, whose: str) -> None:
    """Of parts and whole, and after an answer that was lost: nothing that has to be allowed is refused."""
    with _guarded(whose, bucket) as (settings, guard):
        assert settings.sink is not None
        calls = new_upload_calls(settings.s3, settings.sink.upload)
        begun = calls.begin(bucket, "in/a", object_id="a")
        parts = tuple(calls.part(bucket, "in/a", begun, number, _PART) for number in (1, 2))
        upload = Upload(key="in/a", upload_id=begun, parts=parts)
        completed = calls.complete(bucket, upload, object_id="a")
        again = calls.complete(bucket, upload, object_id="a")
        calls.put(bucket, "in/b", b"b", object_id="b")

        assert completed.state is again.state is CompletionState.COMPLETED
        assert guard.refused == set()
    keys = {each["Key"] for each in aws.s3().list_objects_v2(Bucket=bucket)["Contents"]}
    assert keys == {"in/a", "in/b"}


@pytest.mark.parametrize("whose", sorted(_NAMED))
def test_a_lost_upload_is_never_taken_for_a_completed_one(bucket: str, whose: str) -> None:
    """Who may not list is told 403 for a missing object, which proves nothing."""
    with _guarded(whose, bucket) as (settings, _):
        assert settings.sink is not None
        calls = new_upload_calls(settings.s3, settings.sink.upload)
        begun = calls.begin(bucket, "in/a", object_id="a")
        part = calls.part(bucket, "in/a", begun, 1, b"x")
        aws.s3().abort_multipart_upload(Bucket=bucket, Key="in/a", UploadId=begun)
        found = calls.complete(bucket, Upload(key="in/a", upload_id=begun, parts=(part,)), object_id="a")

    tells = "s3:ListBucket" in PUBLISHED.get(whose, frozenset({"s3:ListBucket"}))
    assert found.state is (CompletionState.UPLOAD_MISSING if tells else CompletionState.UNPROVEN)


@pytest.mark.parametrize("whose", sorted(_NAMED))
def test_check_names_the_actions_that_would_help(bucket: str, whose: str) -> None:
    """In one sentence each, and no others."""
    with _guarded(whose, bucket) as (settings, _):
        clients = aws_clients(settings)
        try:
            found = list(upload_findings(settings, probe_uploads(settings, clients)))
        finally:
            clients.close()

    remedies = " ".join(
        each.remedy or "" for each in found if each.verdict is not Verdict.OK and each.name != "lifecycle"
    )
    named = {
        action
        for action in ("s3:ListBucket", "s3:AbortMultipartUpload", "s3:PutObject")
        if action in remedies
    }
    assert named == _NAMED[whose]


@pytest.mark.parametrize(
    ("options", "action"),
    [
        ({"aws_s3_object_tags": "a=b"}, "s3:PutObjectTagging"),
        ({"aws_s3_acl": "bucket-owner-full-control"}, "s3:PutObjectAcl"),
    ],
)
def test_an_option_needs_the_action_that_policy_adds_for_it(
    bucket: str, options: dict[str, str], action: str
) -> None:
    """Without it S3 refuses the upload: the policy has nothing that is not needed."""
    with _guarded("own", bucket, **options) as (settings, guard):
        assert settings.sink is not None
        new_upload_calls(settings.s3, settings.sink.upload).put(bucket, "in/a", b"a", object_id="a")
        assert guard.refused == set()
    with Proxy(aws.address()) as proxy:
        settings = _settings(bucket, proxy.url, **options)
        guard = Guard(proxy, _own(settings) - {action})
        assert settings.sink is not None
        with pytest.raises(HeadraceError):
            new_upload_calls(settings.s3, settings.sink.upload).put(bucket, "in/b", b"b", object_id="b")
        assert guard.refused == {action}
