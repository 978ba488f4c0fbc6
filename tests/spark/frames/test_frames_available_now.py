"""What a listing finds is read: all by `Trigger.AvailableNow`, whatever limits, room and ages are."""

import json
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest
import structlog
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.model.errors import SourceUnavailable
from headrace.model.objects import ListingPage, ObjectId, S3Object
from ingest.source.catalogue import Baseline
from ingest.source.object_selection import object_filter_of
from listeners.discovery_events import HeadAnswer, ListingFailed, Message, Received
from spark.frames.admission import NO_LIMITS
from spark.frames.frame_options import reading_settings
from spark.frames.inference import RECORDS
from spark.frames.log_entries import KnownObjects
from spark.frames.new_objects import Discovery
from spark.frames.source import HeadraceSource, HeadraceStreamReader
from tests.support.instants import at

_PAGE = 2
_SECONDS = 60.0


class Listed:
    """What lists objects of a byte each, two a page; the first `young` of them are of this moment."""

    def __init__(self) -> None:
        self.count = self.young = 0
        self.storage_class = "STANDARD"
        self.restore: str | None = ""
        """What is shown of each to those who ask for it; None where the store refuses that."""
        self.is_begun_only = False
        """Whether the pages after the first one are denied."""
        handler = type("Handler", (_Handler,), {"listed": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def page(self, begin: int, restore: str) -> str:
        """The page after so many objects."""
        now = datetime.now(UTC)
        end = min(begin + _PAGE, self.count)
        entries = "".join(
            f"<Contents><Key>in/{number:04d}</Key><ETag>&quot;e&quot;</ETag><Size>1</Size><LastModified>"
            f"{now - timedelta(days=0 if number < self.young else 9):%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<StorageClass>{self.storage_class}</StorageClass>{restore}</Contents>"
            for number in range(begin, end)
        )
        more = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < self.count else ""
        return (
            f"<ListBucketResult><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{entries}"
            "</ListBucketResult>"
        )


class _Handler(BaseHTTPRequestHandler):
    listed: Listed

    def do_GET(self) -> None:  # http.server's name
        """A page, after a token or a key."""
        asked = parse_qs(urlsplit(self.path).query)
        after = asked.get("start-after", [""])[0].removeprefix("in/")
        begin = int(asked["continuation-token"][0]) if "continuation-token" in asked else int(after or -1) + 1
        is_asked = "RestoreStatus" in self.headers.get("x-amz-optional-object-attributes", "")
        if is_asked and self.listed.restore is None:
            self.send_error(501)
            return
        body = self.listed.page(begin, self.listed.restore or "" if is_asked else "").encode()
        is_denied = self.listed.is_begun_only and begin > 0
        if is_denied:
            body = b"<Error><Code>AccessDenied</Code></Error>"
        self.send_response(403 if is_denied else 200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - as above
        """Say nothing."""


@pytest.fixture
def listed() -> Iterator[Listed]:
    """A bucket that is listed."""
    made = Listed()
    yield made
    made.close()


def batches(reader: HeadraceStreamReader) -> list[int]:
    """How many objects each batch has of a query that ends when there is nothing new, as Spark's does."""
    sizes: list[int] = []

    def run() -> None:
        at = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            sizes.append(sum(len(part.splits) for part in reader.partitions(at, end)))
            at = end

    query = threading.Thread(target=run, daemon=True)
    query.start()
    query.join(_SECONDS)
    reader.stop()
    assert not query.is_alive(), "it waits for ever"
    return sizes


@pytest.mark.parametrize(
    ("count", "young", "options"),
    [
        (9, 0, {"maxBytesPerTrigger": "1000000"}),
        (9, 0, {"maxFilesPerTrigger": "1000"}),
        (90, 80, {"maxFilesPerTrigger": "2"}),
        (90, 80, {"maxBytesPerTrigger": "1"}),
        (90, 80, {"maxFilesPerTrigger": "1000"}),
        (9, 0, {}),
        (9, 9, {"maxFilesPerTrigger": "2"}),
    ],
)
def test_all_that_is_there_and_old_enough_is_read(
    listed: Listed, tmp_path: Path, count: int, young: int, options: dict[str, str]
) -> None:
    """Batches that the room for waiting objects does not hold, and young objects that are listed first."""
    listed.count, listed.young = count, young
    given = {
        "path": "s3://bucket/in/",
        "state.path": str(tmp_path),
        "aws.s3.endpoint": listed.url,
        "aws.access.key.id": "x",
        "aws.secret.access.key": "y",
        "max.pending.objects": "4",
        "object.min.age.ms": "3600000",
        **options,
    }

    assert sum(batches(HeadraceSource(given).streamReader(RECORDS))) == count - young


_UNDER_WAY: Final = "<RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress></RestoreStatus>"
_RESTORED: Final = (
    "<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress>"
    "<RestoreExpiryDate>2026-02-07T00:00:00.000Z</RestoreExpiryDate></RestoreStatus>"
)


@pytest.mark.parametrize(
    ("storage_class", "restore", "warned"),
    [
        ("STANDARD", "", []),
        ("GLACIER", "", [3]),
        ("DEEP_ARCHIVE", "", [3]),
        ("GLACIER", _UNDER_WAY, [3]),
        ("GLACIER", _RESTORED, []),
        ("STANDARD", None, []),
        ("GLACIER", None, [3]),
    ],
)
def test_a_read_says_what_it_leaves_out(
    listed: Listed, storage_class: str, restore: str | None, warned: list[int]
) -> None:
    """Objects that S3 gives to nobody until they are restored; a stream says it as well."""
    listed.count, listed.storage_class, listed.restore = 3, storage_class, restore
    given = {
        "path": "s3://bucket/in/",
        "aws.s3.endpoint": listed.url,
        "aws.access.key.id": "x",
        "aws.secret.access.key": "y",
    }
    with structlog.testing.capture_logs() as lines:
        parts = HeadraceSource(given).reader(RECORDS).partitions()

    assert [line["keys"] for line in lines if line["event"] == "object_archived"] == warned
    assert sum(len(each.splits) for each in parts) == (0 if warned else 3)


@pytest.mark.parametrize("is_once", [True, False])
def test_one_batch_is_all_that_is_there_or_none(listed: Listed, tmp_path: Path, is_once: bool) -> None:
    """`Trigger.Once` asks for no other, which would tell that its listing has no end: it ended in success."""
    listed.count, listed.is_begun_only = 9, True
    given = {
        "path": "s3://bucket/in/",
        "state.path": str(tmp_path),
        "aws.s3.endpoint": listed.url,
        "aws.access.key.id": "x",
        "aws.secret.access.key": "y",
    }
    reader = HeadraceSource(given).streamReader(RECORDS)
    sizes: list[int] = []
    errors: list[Exception] = []

    def run() -> None:
        at = reader.initialOffset()
        limit = ReadAllAvailable() if is_once else reader.getDefaultReadLimit()
        if not is_once:
            reader.prepareForTriggerAvailableNow()
        try:
            for _ in range(1 if is_once else 2):
                end = reader.latestOffset(at, limit)
                sizes.append(sum(len(part.splits) for part in reader.partitions(at, end)))
                at = end
        except Exception as error:  # noqa: BLE001  # compared below
            errors.append(error)

    query = threading.Thread(target=run, daemon=True)
    query.start()
    query.join(_SECONDS)
    reader.stop()

    assert not query.is_alive(), "it waits for ever"
    assert sizes == ([] if is_once else [_PAGE])
    assert ["AccessDenied" in str(error) for error in errors] == [True]


def listed_object(key: str) -> S3Object:
    """An object of a byte."""
    return S3Object(id=ObjectId("bucket", key, "e"), size=1, last_modified_ms=0)


class Failing:
    """A discovery whose listings fail, by a clock that stands still."""

    def __init__(self, folder: Path, options: Mapping[str, str] = MappingProxyType({})) -> None:
        self.now = at(0)
        given = {"path": "s3://bucket/in/", "rows": "columns", "state.path": str(folder), **options}
        settings = reading_settings(given)
        self.discovery = Discovery(
            settings,
            known=KnownObjects(),
            object_filter=object_filter_of(settings.shared, Baseline()),
            listeners=self._made,
            clock=lambda: self.now,
        )

    def _made(self, _settings: Any, post: Any, _counters: Any) -> Any:
        self.post = post
        self.listeners = Mock()
        return self.listeners

    def fail(self, seconds: int) -> None:
        """Another attempt has failed, at this time."""
        self.now = at(seconds * 1000)
        self.post(ListingFailed(bucket="bucket", listing_id=1, error=SourceUnavailable("no answer")))

    def upload(self, key: str) -> None:
        """A message names an object, and a HEAD has found it."""
        created = {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "eventName": "ObjectCreated:Put",
            "eventTime": "2026-01-01T00:00:00.000Z",
            "s3": {"bucket": {"name": "bucket"}, "object": {"key": key, "size": 1, "sequencer": "01"}},
        }
        self.post(Received(messages=(Message(id=key, body=json.dumps({"Records": [created]})),)))
        token = self.listeners.request_head.call_args.args[0]
        self.post(HeadAnswer(token=token, answer=listed_object(key)))

    def page(self, *keys: str) -> None:
        """A page of the listing, which is not the last."""
        objects = tuple(listed_object(key) for key in keys)
        self.post(
            ListingPage(
                bucket="bucket",
                listing_id=1,
                is_full=True,
                after_key=None,
                through_key=keys[-1],
                objects=objects,
            )
        )

    def batch(self) -> list[str]:
        """The keys of what goes into a batch, which is durable at once."""
        found = self.discovery.take(NO_LIMITS)
        self.discovery.admit(1, found)
        return [each.id.key for each in found.values()]


def test_a_query_that_ends_by_itself_ends_where_it_cannot_list(tmp_path: Path) -> None:
    """After ten minutes, with what is wrong, and not before; it waited for ever."""
    failing = Failing(tmp_path)
    failing.discovery.only_what_is_there(at_once=True)
    failing.fail(5)
    failing.fail(305)
    failing.fail(604)
    failing.now = at(7_200_000)
    assert failing.discovery.take(NO_LIMITS) == {}
    errors: list[Exception] = []

    def wait() -> None:
        try:
            failing.discovery.wait_for_batch(NO_LIMITS)
        except SourceUnavailable as error:
            errors.append(error)

    query = threading.Thread(target=wait, daemon=True)
    query.start()
    failing.fail(605)
    query.join(_SECONDS)

    assert [str(error) for error in errors] == ["no answer"]


@pytest.mark.parametrize(("longest", "ends"), [("20000", False), ("3600000", True)])
def test_failures_far_apart_are_not_in_a_row(tmp_path: Path, longest: str, ends: bool) -> None:
    """Where many keys were deleted S3 answers with pages that have none; but pauses may be long as well."""
    failing = Failing(tmp_path, {"aws.s3.backoff.max.delay.ms": longest})
    failing.discovery.only_what_is_there(at_once=True)
    failing.fail(5)
    failing.fail(665)

    if ends:
        with pytest.raises(SourceUnavailable):
            failing.batch()
        return
    assert failing.batch() == []
    failing.fail(965)
    failing.fail(1265)
    with pytest.raises(SourceUnavailable):
        failing.batch()


def test_uploads_do_not_keep_a_query_from_its_end_that_cannot_list(tmp_path: Path) -> None:
    """What waits is read, then it ends: each upload was a batch of its own. A page is read all the same."""
    failing = Failing(tmp_path)
    failing.discovery.only_what_is_there(at_once=True)
    failing.upload("in/before")
    for seconds in range(0, 601, 60):
        failing.fail(seconds)
    failing.upload("in/since")

    assert failing.batch() == ["in/before"]
    failing.upload("in/later")
    with pytest.raises(SourceUnavailable):
        failing.batch()
    settled = [each for call in failing.listeners.settle.call_args_list for each in call.args[0]]
    assert settled == [], "messages are held, and go back with the end"
    failing.page("in/listed", "in/since")
    assert failing.batch() == ["in/listed", "in/since"]


def test_a_query_that_does_not_end_waits_for_its_listing_and_the_log_says_so_again(tmp_path: Path) -> None:
    """A minute after the first failure, then after twice the time; its progress shows it all the while."""
    failing = Failing(tmp_path)
    said = []
    for now in range(0, 2000, 10):
        with structlog.testing.capture_logs() as lines:
            failing.fail(now)
        said += [now for line in lines if line["event"] == "listing_failed"]

    assert failing.discovery.take(NO_LIMITS) == {}
    assert failing.discovery.problem == "no answer"
    assert said == [0, 60, 120, 240, 480, 960, 1920]
