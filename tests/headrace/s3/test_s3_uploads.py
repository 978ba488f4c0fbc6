"""Multipart uploads under way, as the first start asks for them."""

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.options.settings import BackoffSettings
from headrace.s3 import S3Calls
from headrace.s3.s3_calls import UploadsUnderWay
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
                    {
                        "Key": f"k{number}",
                        "UploadId": f"u{number}",
                        "Initiated": datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC),
                    }
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


_BEGUN = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)


class _Bucket:
    """A bucket with an upload of `k` under way, and what a HEAD finds there."""

    def __init__(self, modified: datetime | None, later: Sequence[str], status: int = 404) -> None:
        self._modified = modified
        self._status = status
        self._ids: list[Sequence[str]] = [later, ("u1", "u2")]

    def list_multipart_uploads(self, **_: Any) -> Mapping[str, Any]:
        return {
            "Uploads": [{"Key": "k", "UploadId": one, "Initiated": _BEGUN} for one in self._ids.pop()],
            "ResponseMetadata": {"HTTPHeaders": {"date": "Fri, 02 Jan 2026 00:00:00 GMT"}},
        }

    def head_object(self, **_: Any) -> Mapping[str, Any]:
        if self._modified is None:
            answer = {"ResponseMetadata": {"HTTPStatusCode": self._status}, "Error": {}}
            raise ClientError(answer, "HeadObject")  # type: ignore[arg-type]  # what botocore raises
        return {"ETag": '"e"', "ContentLength": 1, "LastModified": self._modified}


@pytest.mark.parametrize(
    ("bucket", "found"),
    [
        pytest.param(_Bucket(_BEGUN, ("u1", "u2")), {"k": "e"}, id="there, and both broken off"),
        pytest.param(_Bucket(_BEGUN, ("u1", "u2", "u3")), {"k": "e"}, id="a further one is later"),
        pytest.param(_Bucket(_BEGUN, ("u1",)), {}, id="one has ended, and may have made it"),
        pytest.param(_Bucket(datetime(2026, 1, 1, tzinfo=UTC), ()), {}, id="older than the uploads"),
        pytest.param(_Bucket(datetime(2026, 1, 2, tzinfo=UTC), ()), {}, id="younger than the start"),
        pytest.param(_Bucket(None, ()), {}, id="nothing there"),
        pytest.param(_Bucket(None, (), status=403), {}, id="may not be read"),
    ],
)
def test_what_was_there_before_uploads_of_its_key_came_to_an_end(
    bucket: _Bucket, found: Mapping[str, str]
) -> None:
    """An upload that was broken off and never aborted says nothing of what is there under its key."""
    asked = calls(bucket)
    under_way = asked.uploads_under_way("b", "")
    assert asked.there_before("b", "", under_way, ["k"]) == found


def test_keys_are_asked_about_several_at_once() -> None:
    """Of short keys there are some twenty thousand: one after the other a start took minutes."""
    together = threading.Barrier(4, timeout=20)

    class Bucket(_Bucket):
        def head_object(self, **given: Any) -> Mapping[str, Any]:
            together.wait()
            return {**super().head_object(**given), "ETag": f'"of {given["Key"]}"'}

    keys = [f"k{number}" for number in range(8)]
    begun = int(_BEGUN.timestamp() * 1000)
    under_way = UploadsUnderWay(
        at_ms=begun + 60_000, begun_ms=dict.fromkeys(keys, begun), ids=dict.fromkeys(keys, frozenset())
    )

    found = calls(Bucket(_BEGUN, ("u1",))).there_before("b", "", under_way, keys)

    assert found == {key: f"of {key}" for key in keys}
