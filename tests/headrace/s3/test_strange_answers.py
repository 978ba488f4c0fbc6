"""OKs that are not S3's: of a login page, of a proxy, of a connection that ended before its document."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest

from headrace.aws.glue import GlueRegistry, glue_versions
from headrace.model.errors import SourceUnavailable
from headrace.model.objects import ObjectId, S3Object
from headrace.model.sink_entries import Upload
from headrace.options.schema_settings import GlueSettings, GlueWriting
from headrace.options.secret import Secret
from headrace.options.token_logins import aws_login
from headrace.s3 import new_s3_calls
from headrace.s3.client import new_s3_client
from headrace.s3.completion import StoredObject
from headrace.s3.post_action_calls import new_post_action_calls
from headrace.s3.upload_calls import new_upload_calls
from ingest.checks.probes.bucket_keys import aws_clients, list_pages
from listeners.async_clients import s3_client
from tests.headrace.s3.scripted_s3 import BUCKET, ETAG, settings
from tests.ingest.checks.findings.configured import configured
from tests.spark.sink.upload_settings import PLAIN

UPLOAD: Final = Upload(key="key", upload_id="an-upload", parts=(f'"{ETAG}"',))
KEYS: Final = {"aws.access.key.id": "test", "aws.secret.access.key": "test"}
PAGE: Final = b"<html><body>Please log in</body></html>"


class Stranger:
    """What says 200 to everything; HEADs are of an object where it has one."""

    def __init__(self) -> None:
        self.body, self.content_type, self.has_object = PAGE, "text/html", False
        self.tells_time = True
        handler = type("Handler", (_Handler,), {"stranger": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.settings = settings(f"http://127.0.0.1:{self._server.server_port}")
        # Making a client is slow.
        self.uploads = new_upload_calls(self.settings, PLAIN)
        self.calls = new_s3_calls(self.settings)
        self.actions = new_post_action_calls(self.settings, is_unconditional=False)

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stranger: Stranger

    def answer(self) -> None:
        """200, to whatever it is."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response_only(200)
        if self.stranger.tells_time:
            self.send_header("Date", self.date_time_string())
        if self.stranger.content_type:
            self.send_header("Content-Type", self.stranger.content_type)
        is_object = self.stranger.has_object and self.command == "HEAD"
        if is_object:
            self.send_header("ETag", f'"{ETAG}"')
            self.send_header("x-amz-version-id", "v")
        if is_object and self.stranger.tells_time:
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(self.stranger.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.stranger.body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815 - http.server's names

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - as above
        """Say nothing."""


@pytest.fixture(scope="module")
def one_stranger() -> Iterator[Stranger]:
    """It, for all tests."""
    made = Stranger()
    yield made
    made.close()


@pytest.fixture
def stranger(one_stranger: Stranger) -> Stranger:
    """It, with a login page."""
    one_stranger.body, one_stranger.content_type, one_stranger.has_object = PAGE, "text/html", False
    one_stranger.tells_time = True
    return one_stranger


CALLS: Final[dict[str, Callable[[Stranger], object]]] = {
    "begin": lambda s3: s3.uploads.begin(BUCKET, "key", object_id="one"),
    "part": lambda s3: s3.uploads.part(BUCKET, "key", "an-upload", 1, b"content"),
    "complete": lambda s3: s3.uploads.complete(BUCKET, UPLOAD, object_id="one"),
    "complete over": lambda s3: s3.uploads.complete(BUCKET, UPLOAD, object_id="one", overwrites=True),
    "put": lambda s3: s3.uploads.put(BUCKET, "key", b"content", object_id="one"),
    "parts": lambda s3: s3.uploads.list_parts(BUCKET, "key", "an-upload"),
    "head": lambda s3: s3.calls.head(BUCKET, "key"),
    "list": lambda s3: list(s3.calls.listed(BUCKET, "")),
    "uploads": lambda s3: s3.calls.uploads_under_way(BUCKET, ""),
    "move": lambda s3: s3.actions.move("key", ETAG, "moved/key"),
    "tag": lambda s3: s3.actions.tag("key", ETAG, "done", "yes"),
    "delete": lambda s3: s3.actions.delete("key", ETAG),
}


@pytest.mark.parametrize("content_type", ["text/html", ""])
@pytest.mark.parametrize("body", [PAGE, b""], ids=["page", "nothing"])
@pytest.mark.parametrize("call", CALLS)
def test_nothing_was_done(stranger: Stranger, call: str, body: bytes, content_type: str) -> None:
    """It passes, as anything that keeps S3 from answering: nothing is completed, listed or gone."""
    stranger.body, stranger.content_type = body, content_type
    with pytest.raises(SourceUnavailable, match="and not by S3"):
        CALLS[call](stranger)


@pytest.mark.parametrize("call", ["move", "tag", "delete"])
def test_an_action_on_an_object_that_is_there_was_not_done(stranger: Stranger, call: str) -> None:
    """The page comes between the look at the object and what is done with it."""
    stranger.has_object = True
    with pytest.raises(SourceUnavailable, match="and not by S3"):
        CALLS[call](stranger)


LISTED: Final = (
    b"<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated><Contents><Key>k</Key>%s"
    b"<LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>"
)
UPLOADED: Final = (
    b"<ListPartsResult><UploadId>u</UploadId><IsTruncated>false</IsTruncated>"
    b"<Part><PartNumber>1</PartNumber><Size>3</Size></Part></ListPartsResult>"
)


def test_an_answer_that_lacks_what_is_read_is_told_by_its_name(stranger: Stranger) -> None:
    """S3 sends it always; a proxy, or a store that is not quite S3, may not."""
    stranger.content_type, stranger.body = "application/xml", LISTED % b"<ETag>e</ETag>"
    stranger.has_object, stranger.tells_time = True, False
    client = aws_clients(configured({"aws.s3.endpoint": stranger.settings.endpoint, **KEYS})).s3
    readers: list[Callable[[], list[S3Object]]] = [
        lambda: list(stranger.calls.listed(BUCKET, "")),
        lambda: [
            found for page in list_pages(client, stranger.settings, prefix="") for found in page.objects
        ],
    ]
    for read in readers:
        stranger.body = LISTED % b"<ETag>e</ETag>"
        with pytest.raises(SourceUnavailable, match=f"s3://{BUCKET}/k in a listing was .* without Size"):
            read()
        # Of one without its ETag the object is asked.
        stranger.body = LISTED % b"<Size>3</Size>"
        with pytest.raises(SourceUnavailable, match=f"s3://{BUCKET}/k was answered without Last-Modified"):
            read()
        stranger.tells_time = True
        assert [(found.id, found.version_id) for found in read()] == [(ObjectId(BUCKET, "k", ETAG), None)]
        stranger.tells_time = False
    with pytest.raises(SourceUnavailable, match=f"s3://{BUCKET}/ was answered without Date"):
        stranger.calls.clock_ms(BUCKET, "")
    with pytest.raises(SourceUnavailable, match=f"s3://{BUCKET}/key was answered without Last-Modified"):
        stranger.calls.head(BUCKET, "key")
    stranger.body = UPLOADED
    with pytest.raises(SourceUnavailable, match=f"s3://{BUCKET}/key was answered without ETag"):
        stranger.uploads.list_parts(BUCKET, "key", "u")


@pytest.mark.parametrize("lacks", ["ETag", "ContentLength"])
def test_an_object_of_unknown_length_or_content_is_not_compared(lacks: str) -> None:
    """By a sink, whose completion waits: the archive's loop does not end."""
    answer = {name: value for name, value in {"ETag": '"e"', "ContentLength": 3}.items() if name != lacks}
    with pytest.raises(SourceUnavailable, match="s3://b/k was answered without"):
        StoredObject(lambda *_, **__: None, "b", "k", answer)


@pytest.mark.parametrize("body", [PAGE, b""], ids=["page", "nothing"])
def test_a_bucket_is_not_taken_for_empty(stranger: Stranger, body: bytes) -> None:
    """By a listing of the service, and by one of a command."""
    stranger.body, stranger.content_type = body, ""

    async def listed() -> object:
        async with s3_client(stranger.settings) as client:
            return await client.list_objects_v2(Bucket=BUCKET)

    with pytest.raises(SourceUnavailable, match="and not by S3"):
        asyncio.run(listed())
    client = aws_clients(configured({"aws.s3.endpoint": stranger.settings.endpoint, **KEYS})).s3
    with pytest.raises(SourceUnavailable, match="and not by S3"):
        list(list_pages(client, stranger.settings, prefix=""))


def test_the_settings_of_a_bucket_are_not_taken_for_none(stranger: Stranger) -> None:
    """They are merged into, and written back."""
    stranger.content_type = "text/html; charset=utf-8"
    with pytest.raises(SourceUnavailable, match="and not by S3"):
        new_s3_client(stranger.settings).client.get_bucket_notification_configuration(Bucket=BUCKET)


def test_a_listing_whose_pages_do_not_advance_ends(stranger: Stranger) -> None:
    """Each page says that more follows, after the same token: of commands, and of a task's own calls."""
    stranger.content_type = "application/xml"
    stranger.body = (
        b"<ListBucketResult><Name>b</Name><IsTruncated>true</IsTruncated>"
        b"<NextContinuationToken>again</NextContinuationToken></ListBucketResult>"
    )
    client = aws_clients(configured({"aws.s3.endpoint": stranger.settings.endpoint, **KEYS})).s3

    with pytest.raises(SourceUnavailable, match="the same one again"):
        list(list_pages(client, stranger.settings, prefix=""))
    with pytest.raises(SourceUnavailable, match="the same one again"):
        list(stranger.calls.listed(BUCKET, ""))


def test_parts_whose_pages_do_not_advance_end(stranger: Stranger) -> None:
    """A missing marker is no next page either."""
    stranger.content_type = "application/xml"
    stranger.body = (
        b"<ListPartsResult><UploadId>u</UploadId><IsTruncated>true</IsTruncated></ListPartsResult>"
    )

    with pytest.raises(SourceUnavailable, match="the same one again"):
        stranger.uploads.list_parts(BUCKET, "key", "u")


@pytest.mark.parametrize("use_latest", [False, True])
def test_a_page_in_the_place_of_glue_is_waited_for(stranger: Stranger, *, use_latest: bool) -> None:
    """It is no schema's fault, and no row's."""
    login = Secret(aws_login(stranger.settings, "eu-west-1"))
    where = GlueSettings(region="eu-west-1", endpoint=stranger.settings.endpoint, login=login)
    registry = GlueRegistry(
        GlueWriting(
            where=where,
            registry="r",
            schema=None,
            auto_register=True,
            use_latest=use_latest,
            compatibility="BACKWARD",
        )
    )

    def asked() -> object:
        return registry.latest("orders") if use_latest else registry.version("orders", "AVRO", '"string"')

    with pytest.raises(SourceUnavailable, match=r"aws\.glue\.endpoint"):
        asked()
    with pytest.raises(SourceUnavailable, match=r"aws\.glue\.endpoint"):
        glue_versions(where)("11111111-1111-1111-1111-111111111111")
