"""Keys page by page, for a person's question, of a store that lists objects without their ETags."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from ingest.checks.probes.bucket_keys import list_pages
from tests.headrace.s3.scripted_s3 import settings

_WHEN = datetime(2026, 1, 1, tzinfo=UTC)


class _Store:
    """Answers a HEAD when another one waits, too."""

    def __init__(self) -> None:
        self.both = threading.Barrier(2, timeout=60)
        self.is_slow = True

    def list_objects_v2(self, **_: Any) -> Mapping[str, Any]:
        keys = ("a", "b", "c", "gone", "listed", "z")
        entries = [{"Key": key, "Size": 3, "LastModified": _WHEN} for key in keys]
        entries[4]["ETag"] = "of-the-listing"
        return {"Contents": entries}

    def head_object(self, *, Key: str, **_: Any) -> Mapping[str, Any]:  # noqa: N803  # botocore's name
        if Key != "z":
            self.both.wait()
        elif self.is_slow:
            self.is_slow = False
            raise _refused("SlowDown", 503)
        if Key == "gone":
            raise _refused("404", 404)
        return {"ETag": f"of-{Key}", "ContentLength": 3, "LastModified": _WHEN, "VersionId": "v"}


def _refused(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "HeadObject")


def test_several_objects_are_asked_for_at_once() -> None:
    """One after the other a plan of a million takes hours. One that is gone meanwhile is none."""
    slept: list[float] = []
    plain = settings("http://localhost:1")
    patient = replace(plain, backoff=replace(plain.backoff, max_retries=1))
    [page] = list_pages(_Store(), patient, prefix="", sleep=slept.append)
    assert [found.id.etag for found in page.objects] == ["of-a", "of-b", "of-c", "of-the-listing", "of-z"]
    assert {found.version_id for found in page.objects} == {None}
    assert len(slept) == 1
