"""Multipart uploads under way, as the first start asks for them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.options.settings import BackoffSettings
from headrace.s3 import S3Calls
from tests.support import aws


def calls(client: Any) -> S3Calls:
    """Calls through this client, not repeated."""
    return S3Calls(
        client, backoff=BackoffSettings(delay_ms=1, max_delay_ms=1, max_retries=0), requester_pays=False
    )


@pytest.mark.parts
def test_what_is_begun_under_the_prefix() -> None:
    """Not what is complete, aborted, or elsewhere; of several uploads of a key the earliest."""
    s3, bucket = aws.s3(), aws.new_bucket()

    def begin(key: str) -> str:
        return str(s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"])

    for key in ("in/a b+é", "in/a b+é", "out/b"):
        begin(key)
    s3.abort_multipart_upload(Bucket=bucket, Key="in/gone", UploadId=begin("in/gone"))
    listed = s3.list_multipart_uploads(Bucket=bucket, Prefix="in/")["Uploads"]
    found = calls(s3).uploads_under_way(bucket, "in/")
    assert found.begun_ms == {
        "in/a b+é": min(int(upload["Initiated"].timestamp() * 1000) for upload in listed)
    }
    assert found.at_ms >= found.begun_ms["in/a b+é"]
    assert calls(s3).uploads_under_way(bucket, "none/").begun_ms == {}


def test_pages() -> None:
    """The date is that of the first one: who begins later is dated later."""
    asked: list[Mapping[str, Any]] = []

    class Client:
        def list_multipart_uploads(self, **arguments: Any) -> Mapping[str, Any]:
            number = len(asked)
            asked.append(arguments)
            return {
                "Uploads": [
                    {"Key": f"k{number}", "Initiated": datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC)}
                ],
                "IsTruncated": number < 2,
                "NextKeyMarker": f"k{number}",
                "NextUploadIdMarker": f"u{number}",
                "ResponseMetadata": {"HTTPHeaders": {"date": f"Thu, 01 Jan 2026 00:01:0{number} GMT"}},
            }

    found = calls(Client()).uploads_under_way("b", "p/")
    first_ms = 1_767_225_600_000
    assert found.begun_ms == {f"k{number}": first_ms + number * 1000 for number in range(3)}
    assert found.at_ms == first_ms + 60_000
    markers = [(one.get("KeyMarker"), one.get("UploadIdMarker")) for one in asked]
    assert markers == [(None, None), ("k0", "u0"), ("k1", "u1")]
    assert {(one["Bucket"], one["Prefix"]) for one in asked} == {("b", "p/")}
