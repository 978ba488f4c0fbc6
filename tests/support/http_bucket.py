"""A small bucket as a server of HTTP: lists its objects, and gives their bytes to a GET with `If-Match`."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.http_serving import QuietHandler, serving

_MODIFIED = {"Last-Modified": "Sat, 31 Jan 2026 12:00:00 GMT"}


class HttpBucket:
    """`objects` are the contents by key; keys are plain text, and a listing is one page.

    `classes` are those of objects that are archived, which are not given; `heads` the keys of HEADs, and
    `listings` how often it was listed, `is_backwards` for one that is not in the order of keys. GETs of
    objects are answered once so many are there as `together` says; it is broken where fewer come.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.objects: dict[str, bytes] = {}
        self.classes: dict[str, str] = {}
        self.heads: list[str] = []
        self.listings = 0
        self.is_backwards = False
        self.together: threading.Barrier | None = None

    @property
    def options(self) -> dict[str, str]:
        """By which it is reached."""
        return {"aws.s3.endpoint": self.url, "aws.access.key.id": "x", "aws.secret.access.key": "y"}

    def listing(self, prefix: str, after: str) -> bytes:
        """The page of the keys below the prefix."""
        entries = "".join(
            f"<Contents><Key>{key}</Key><ETag>&quot;{_etag(content)}&quot;</ETag><Size>{len(content)}</Size>"
            "<LastModified>2026-01-31T12:00:00.000Z</LastModified>"
            f"<StorageClass>{self.classes.get(key, 'STANDARD')}</StorageClass></Contents>"
            for key, content in sorted(self.objects.items(), reverse=self.is_backwards)
            if key.startswith(prefix) and key > after
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode()


@contextmanager
def http_bucket() -> Iterator[HttpBucket]:
    """An empty bucket, for as long as the context is."""
    handler: Any = type("Handler", (_Handler,), {})
    with serving(handler) as url:
        handler.bucket = HttpBucket(url)
        yield handler.bucket


class _Handler(QuietHandler):
    bucket: HttpBucket

    def do_GET(self) -> None:  # http.server's name
        """A listing, or an object; a range of it is a range of what is there."""
        asked = urlsplit(self.path)
        query = parse_qs(asked.query)
        key = unquote(asked.path).lstrip("/").partition("/")[2]
        if not key:
            prefix, after = query.get("prefix", [""])[0], query.get("start-after", [""])[0]
            page = self.bucket.listing(prefix, after)
            self.bucket.listings += 1
            self.answer(200, page, {"Content-Type": "application/xml"})
            return
        if self.bucket.together is not None:
            with suppress(threading.BrokenBarrierError):
                self.bucket.together.wait()
        content = self.bucket.objects.get(key)
        if key in self.bucket.classes:
            self.answer(403, b"<Error><Code>InvalidObjectState</Code></Error>")
            return
        if content is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        if self.headers.get("If-Match", _etag(content)).strip('"') != _etag(content):
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        headers = {"ETag": f'"{_etag(content)}"', **_MODIFIED}
        asked_for = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked_for is None or not content:
            self.answer(200, content, headers)
            return
        begin, last = int(asked_for[1]), min(int(asked_for[2] or len(content)), len(content) - 1)
        span = {"Content-Range": f"bytes {begin}-{last}/{len(content)}"}
        self.answer(206, content[begin : last + 1], headers | span)

    def do_HEAD(self) -> None:  # http.server's name
        """What is said of an object, its class where it is archived."""
        key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]
        self.bucket.heads.append(key)
        content = self.bucket.objects.get(key)
        if content is None:
            self.answer(404, b"")
            return
        classes = self.bucket.classes
        given = {"x-amz-storage-class": classes[key]} if key in classes else {}
        self.answer(200, content, {"ETag": f'"{_etag(content)}"', **_MODIFIED, **given})


def _etag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
