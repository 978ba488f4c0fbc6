"""What a move sends of an object's metadata, and on which conditions, to a store that plays one part."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from headrace.model.errors import ObjectArchived, SourceUnavailable
from headrace.s3.client import new_s3_client
from headrace.s3.post_action_calls import PostActionCalls
from headrace.s3.s3_calls import S3Calls
from tests.headrace.s3.scripted_s3 import BUCKET, ETAG, settings

COPIED: Final = f'<ETag>"{ETAG}"</ETag><LastModified>2026-01-01T00:00:00Z</LastModified>'
DOCUMENTS: Final = {
    "begin": "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
    "part": f"<CopyPartResult>{COPIED}</CopyPartResult>",
    "complete": f'<CompleteMultipartUploadResult><ETag>"{ETAG}"</ETag></CompleteMultipartUploadResult>',
    "copy": f"<CopyObjectResult>{COPIED}</CopyObjectResult>",
}
MOVED: Final = "x-amz-meta-headrace-moved"


class Store:
    """Has the object `in/a`, and nothing under `done/`; `headers` are the object's own, as bytes."""

    def __init__(self) -> None:
        self.headers: dict[str, bytes] = {}
        self.etag = ETAG
        self.is_archived = False
        self.refuses = ""
        """The request that a condition refuses (412); of a part, since other content has the key."""
        self.asked: dict[str, dict[str, str]] = {}
        handler = type("Handler", (_Handler,), {"store": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True)
        self._thread.start()
        self._settings = settings(f"http://127.0.0.1:{self._server.server_port}", retries=1)

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def actions(self, *, in_parts: bool, is_unconditional: bool = False) -> PostActionCalls:
        """Calls of it, which copy in parts what has any content."""
        client = new_s3_client(self._settings).client
        return PostActionCalls(
            client,
            S3Calls(client, backoff=self._settings.backoff, requester_pays=False),
            bucket=BUCKET,
            is_unconditional=is_unconditional,
            copy_max_bytes=1 if in_parts else 5 * 1024**3,
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def answer(self) -> None:
        """As S3 would, and what was asked is kept by its name."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        store, name = self.store, self._name()
        store.asked[name] = {header.lower(): value for header, value in self.headers.items()}
        if name == store.refuses:
            store.etag = "other" if name == "part" else store.etag
            self._say(412, b"<Error><Code>PreconditionFailed</Code><Message>so</Message></Error>")
        elif name in {"copy", "part"} and store.is_archived:
            self._say(403, b"<Error><Code>InvalidObjectState</Code><Message>so</Message></Error>")
        elif name == "head":
            is_there = "/in/a" in self.path
            self._say(200 if is_there else 404, b"xx", *self._described())
        else:
            self._say(204 if name in {"delete", "abort"} else 200, DOCUMENTS.get(name, "").encode())

    def _name(self) -> str:
        is_upload = "uploadId=" in self.path
        match self.command:
            case "HEAD":
                return "head"
            case "PUT":
                return "part" if is_upload else "copy"
            case "POST":
                return "complete" if is_upload else "begin"
            case "GET":
                return "tags"
            case _:
                return "abort" if is_upload else "delete"

    def _described(self) -> Iterator[bytes]:
        yield b'ETag: "%s"' % self.store.etag.encode()
        yield b"Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"
        for name, value in self.store.headers.items():
            yield name.encode() + b": " + value

    def _say(self, status: int, body: bytes, *headers: bytes) -> None:
        if self._name() == "tags":
            body = b"<Tagging><TagSet/></Tagging>"
        lines = [b"HTTP/1.1 %d As told" % status, b"Connection: close", *headers]
        if status != 204:
            lines.append(b"Content-Length: %d" % len(body))
        self.wfile.write(b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if self.command == "HEAD" else body))
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815 - http.server's names

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - as above
        """Say nothing."""


@pytest.fixture
def store() -> Iterator[Store]:
    """One of its own."""
    made = Store()
    yield made
    made.close()


AUTHOR, DISPOSITION = "x-amz-meta-author", "content-disposition"
ENCODED: Final = "=?utf-8?q?J=C3=BCrgen?="
LONG: Final = "x" * 2030
HEADERS: Final[dict[str, tuple[str, bytes, str | None, str]]] = {
    # name of a header, its value as stored, as a copy by one request has it (None: S3 keeps it), and in parts
    "ascii": (AUTHOR, b"me", "me", "me"),
    "utf-8": (AUTHOR, "Jürgen".encode(), None, ENCODED),
    "latin-1": (AUTHOR, "Jürgen".encode("latin-1"), None, ENCODED),
    "as S3 shows it": (AUTHOR, ENCODED.encode(), ENCODED, ENCODED),
    "of the content": (DISPOSITION, "Jürgen".encode(), None, ENCODED),
    "no room": (AUTHOR, LONG.encode(), None, LONG),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_copy_keeps_what_the_object_has(store: Store, name: str) -> None:
    """What cannot be sent with a mark of ours, S3 copies itself."""
    header, stored, sent, _ = HEADERS[name]
    store.headers = {header: stored}

    assert store.actions(in_parts=False).move("in/a", ETAG, "done/a")

    asked = store.asked["copy"]
    assert asked.get(header) == sent
    assert asked.get("x-amz-metadata-directive") == (None if sent is None else "REPLACE")
    assert asked.get(MOVED) == (None if sent is None else ETAG)
    assert "delete" in store.asked


@pytest.mark.parametrize("name", HEADERS)
def test_a_copy_in_parts_is_told_what_the_object_has(store: Store, name: str) -> None:
    """Nothing is kept by itself: what is not ASCII goes as S3 shows it, and a mark where there is room."""
    header, stored, _, sent = HEADERS[name]
    store.headers = {header: stored}

    assert store.actions(in_parts=True).move("in/a", ETAG, "done/a")

    asked = store.asked["begin"]
    assert asked.get(header) == sent
    assert asked.get(MOVED) == (None if name == "no room" else ETAG)
    assert "delete" in store.asked


class _Stays(Exception):
    """The object is not to be taken away."""


@contextmanager
def _staying() -> Iterator[None]:
    raise _Stays
    yield


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in parts"])
def test_whether_an_object_may_go_is_asked_right_before(store: Store, *, in_parts: bool) -> None:
    """A copy may take minutes, in which the object is to be read again."""
    assert store.actions(in_parts=in_parts).copy("in/a", ETAG, "done/a")
    with pytest.raises(_Stays):
        store.actions(in_parts=in_parts).delete("in/a", ETAG, _staying)

    assert ("complete" if in_parts else "copy") in store.asked
    assert "delete" not in store.asked


def test_it_is_asked_before_each_attempt(store: Store) -> None:
    """Between two attempts there is a pause, which may be long."""
    asked: list[int] = []

    @contextmanager
    def once() -> Iterator[None]:
        asked.append(len(asked))
        if len(asked) > 1:
            raise _Stays
        yield
        raise SourceUnavailable("no answer came")

    with pytest.raises(_Stays):
        store.actions(in_parts=False).delete("in/a", ETAG, once)
    assert asked == [0, 1]


def test_an_object_overwritten_while_its_parts_are_copied_is_left_alone(store: Store) -> None:
    """Other content has the key: no error, and nothing is deleted."""
    store.refuses = "part"

    assert not store.actions(in_parts=True).move("in/a", ETAG, "done/a")

    assert "abort" in store.asked
    assert not {"complete", "delete"} & set(store.asked)


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in parts"])
def test_a_key_that_is_taken_while_an_object_moves_to_it_is_not_overwritten(
    store: Store, *, in_parts: bool
) -> None:
    """S3 refuses the copy, and the object stays until the next attempt finds another key."""
    store.refuses = last = "complete" if in_parts else "copy"

    with pytest.raises(SourceUnavailable, match="s3://bucket/done/a was written while"):
        store.actions(in_parts=in_parts).move("in/a", ETAG, "done/a")

    assert store.asked[last]["if-none-match"] == "*"
    assert "delete" not in store.asked


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in parts"])
def test_an_object_that_was_archived_since_it_was_read(store: Store, *, in_parts: bool) -> None:
    """The sentence names the object, and that it has to be restored."""
    store.is_archived = True

    with pytest.raises(ObjectArchived, match="s3://bucket/in/a is in an archive storage class"):
        store.actions(in_parts=in_parts).move("in/a", ETAG, "done/a")

    assert "delete" not in store.asked


class Client:
    """botocore's, as far as a move calls it: `copied` is what a copy was given."""

    def __init__(self, storage_class: str) -> None:
        self.head = {
            "ETag": f'"{ETAG}"',
            "ContentLength": 2,
            "LastModified": datetime(2026, 1, 1, tzinfo=UTC),
            "StorageClass": storage_class,
        }
        self.copied: dict[str, Any] = {}

    def head_object(self, **given: Any) -> dict[str, Any]:
        """What is said of the object; it alone is there."""
        if given["Key"] != "in/a":
            answer: Any = {"Error": {"Code": "404"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
            raise ClientError(answer, "HeadObject")
        return self.head

    def copy_object(self, **given: Any) -> None:
        """Take it down."""
        self.copied = given

    def delete_object(self, **_: Any) -> None:
        """It is gone."""


@pytest.mark.parametrize(
    ("bucket", "target", "storage_class", "sent"),
    [
        ("general", "other", "STANDARD_IA", "STANDARD_IA"),
        ("a--use1-az4--x-s3", "b--use1-az4--x-s3", "EXPRESS_ONEZONE", "EXPRESS_ONEZONE"),
        ("a--use1-az4--x-s3", "general", "EXPRESS_ONEZONE", None),
        ("general", "a--use1-az4--x-s3", "STANDARD_IA", None),
    ],
)
def test_a_copy_keeps_the_class_among_buckets_of_one_kind(
    bucket: str, target: str, storage_class: str, sent: str | None
) -> None:
    """A directory bucket has a class of its own, which other buckets refuse, and refuses theirs."""
    client = Client(storage_class)
    backoff = settings(None).backoff
    calls = S3Calls(client, backoff=backoff, requester_pays=False)

    assert PostActionCalls(client, calls, bucket=bucket, target_bucket=target).move("in/a", ETAG, "done/a")
    assert client.copied.get("StorageClass") == sent


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in parts"])
def test_a_store_without_conditions_is_sent_none(store: Store, *, in_parts: bool) -> None:
    """`post.action.unconditional` trusts the look just before."""
    assert store.actions(in_parts=in_parts, is_unconditional=True).move("in/a", ETAG, "done/a")

    assert "if-none-match" not in store.asked["complete" if in_parts else "copy"]
