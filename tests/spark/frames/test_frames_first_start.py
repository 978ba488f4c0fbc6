"""A query's first start with `include.existing=false`: what it needs of S3, and how often it asks."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from structlog.testing import capture_logs

from headrace.options.settings import BackoffSettings
from headrace.s3 import S3Calls
from spark.frames.frame_options import reading_settings
from spark.frames.running_stream import _first_start

_HEADERS = {"HTTPHeaders": {"date": "Thu, 01 Jan 2026 00:00:00 GMT"}}
_AT_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)


class Store:
    """A store with so many uploads that were never aborted, or one that refuses to list them so."""

    def __init__(self, *, uploads: int = 0, refusal: tuple[str, int] | None = None) -> None:
        self._uploads = uploads
        self._refusal = refusal
        self.heads = 0

    def list_multipart_uploads(self, **_: Any) -> Mapping[str, Any]:
        """All in one page."""
        if self._refusal is not None:
            raise _refused(*self._refusal, "ListMultipartUploads")
        began = datetime(2025, 1, 1, tzinfo=UTC)
        uploads = [
            {"Key": f"in/{number:0500}", "UploadId": "u", "Initiated": began}
            for number in range(self._uploads)
        ]
        return {"IsTruncated": False, "Uploads": uploads, "ResponseMetadata": _HEADERS}

    def list_objects_v2(self, **_: Any) -> Mapping[str, Any]:
        """Nothing, and the time."""
        return {"IsTruncated": False, "ResponseMetadata": _HEADERS}

    def head_object(self, **_: Any) -> Mapping[str, Any]:
        """There is no such object."""
        self.heads += 1
        raise _refused("404", 404, "HeadObject")


def _refused(code: str, status: int, operation: str) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


def _started(folder: Path, store: Store) -> Any:
    given = {"path": "s3://bucket/in/", "rows": "columns", "state.path": str(folder)}
    settings = reading_settings({**given, "include.existing": "false"})
    backoff = BackoffSettings(delay_ms=1, max_delay_ms=1, max_retries=0)
    return _first_start(settings, S3Calls(store, backoff=backoff, requester_pays=False))


@pytest.mark.parametrize("refusal", [("AccessDenied", 403), ("NotImplemented", 501)])
def test_a_query_starts_without_the_right_to_list_uploads(tmp_path: Path, refusal: tuple[str, int]) -> None:
    """As `run` does, with the same WARN; it was refused."""
    with capture_logs() as lines:
        baseline = _started(tmp_path, Store(refusal=refusal))

    assert (baseline.existing_before_ms, baseline.uploads) == (_AT_MS, {})
    assert [line["event"] for line in lines] == ["uploads_not_listed"]


def test_of_very_many_uploads_the_newest_are_asked_about(tmp_path: Path) -> None:
    """Each is a HEAD before the query starts: as many as `run` remembers."""
    store = Store(uploads=3000)
    with capture_logs() as lines:
        baseline = _started(tmp_path, store)

    assert 0 < store.heads == len(baseline.uploads) < 1500
    assert [line["event"] for line in lines] == ["uploads_left_out"]
