"""Objects as sources, read from LocalStack through a proxy that misbehaves."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.model.errors import (
    AccessDenied,
    ObjectArchived,
    ObjectForbidden,
    ObjectMissing,
    ObjectSuperseded,
    SourceUnavailable,
)
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import Split
from headrace.options.secret import Secret
from headrace.options.settings import BackoffSettings, S3Settings, StaticCredentials
from headrace.s3 import S3Calls, new_s3_calls
from headrace.s3.reader import Prefetch, RateLimiter, S3Source
from headrace.s3.reader.resumable_get import ResumableGet
from headrace.s3.reader.s3_source import SMALL_BYTES
from tests.support import aws
from tests.support.proxy import Answer, Cut, Proxy, Request, Truncate

pytestmark = pytest.mark.parts

CONTENT = os.urandom(5 * 1024 * 1024)


def settings(bucket: str, endpoint: str) -> S3Settings:
    """Settings of the bucket behind the endpoint, with quick retries."""
    return S3Settings(
        bucket=bucket,
        prefix="",
        region="us-east-1",
        endpoint=endpoint,
        path_style=True,
        credentials=StaticCredentials(
            access_key_id="test", secret_access_key=Secret("test"), session_token=None
        ),
        backoff=BackoffSettings(delay_ms=1, max_delay_ms=5, max_retries=3),
        requester_pays=True,
        ca_bundle=None,
    )


def is_get(request: Request) -> bool:
    """Whether an object is being read."""
    return request.method == "GET"


@pytest.fixture
def proxy(s3_endpoint: str) -> Iterator[Proxy]:
    """A proxy in front of LocalStack."""
    with Proxy(s3_endpoint.removeprefix("http://")) as one:
        yield one


@pytest.fixture
def put(bucket: str, s3_endpoint: str) -> Callable[..., S3Object]:
    """Uploads an object."""

    def upload(key: str, content: bytes) -> S3Object:
        found = aws.s3(s3_endpoint).put_object(Bucket=bucket, Key=key, Body=content)
        etag = found["ETag"].strip('"')
        return S3Object(id=ObjectId(bucket, key, etag), size=len(content), last_modified_ms=0)

    return upload


@pytest.fixture
def calls(bucket: str, proxy: Proxy) -> S3Calls:
    """Calls through the proxy."""
    return new_s3_calls(settings(bucket, proxy.url))


@pytest.mark.parametrize(
    "key", ["plain", "a b", "a+b", "50%", "%2B", "a=b&c", "é/ü", "../up", "a//b", "ends.", "?q=1#f", "日本"]
)
def test_any_key_is_read(put: Callable[..., S3Object], calls: S3Calls, proxy: Proxy, key: str) -> None:
    """As it is: nothing in a key is a path, a query or an escape. Every GET carries If-Match."""
    wanted = put(key, b"content")

    assert b"".join(S3Source(calls, wanted).stream()) == b"content"

    (request,) = [one for one in proxy.requests if is_get(one)]
    assert request.headers["if-match"] == f'"{wanted.id.etag}"'
    assert request.headers["x-amz-request-payer"] == "requester"


@pytest.mark.parametrize(
    ("begin", "end"), [(0, None), (0, 10), (5, 6), (1_500_000, None), (1, 3_000_001), (len(CONTENT), None)]
)
def test_streams_and_ranges_give_exactly_what_was_asked_for(
    put: Callable[..., S3Object], calls: S3Calls, begin: int, end: int | None
) -> None:
    """The same bytes, streamed or at once, and fewer only at the end."""
    source = S3Source(calls, put("object", CONTENT))
    stop = len(CONTENT) if end is None else end

    assert b"".join(source.stream(begin, end)) == CONTENT[begin:stop]
    assert source.read_at(begin, stop - begin + (10 if end is None else 0)) == CONTENT[begin:stop]


@pytest.mark.parametrize("fault", [Cut(1_300_000), Truncate(1_300_000), Cut(0)], ids=str)
def test_a_cut_body_goes_on_where_it_was_cut(
    put: Callable[..., S3Object], calls: S3Calls, proxy: Proxy, fault: Cut | Truncate
) -> None:
    """By a range of the same content; nothing is missing, nothing comes twice."""
    source = S3Source(calls, put("object", CONTENT))
    proxy.on(fault, when=is_get, times=3)

    assert b"".join(source.stream()) == CONTENT

    gets = [request for request in proxy.requests if is_get(request)]
    assert len(gets) >= 3
    assert all("if-match" in request.headers for request in gets)
    assert source.fetched_bytes == len(CONTENT)
    if isinstance(fault, Truncate):
        # A reset may take bytes along that were on their way; a body that ends early does not.
        ranges = [request.headers.get("range") for request in gets]
        assert ranges == [None, "bytes=1300000-", "bytes=2600000-", "bytes=3900000-"]


def test_three_retries_are_four_calls(put: Callable[..., S3Object], calls: S3Calls, proxy: Proxy) -> None:
    """One kind of retry, counted; the fourth answer counts, the fifth is never asked for."""
    source = S3Source(calls, put("object", b"content"))
    proxy.on(Answer(status=503), when=is_get, times=3)
    assert b"".join(source.stream()) == b"content"
    assert len(proxy.requests) == 4
    proxy.on(Answer(status=503), when=is_get)

    with pytest.raises(SourceUnavailable, match=r"s3://.*/object could not be read for now"):
        list(source.stream())

    assert len(proxy.requests) == 8


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (404, "NoSuchKey", ObjectMissing),
        (412, "PreconditionFailed", ObjectSuperseded),
        (403, "AccessDenied", ObjectForbidden),
        (403, "InvalidObjectState", ObjectArchived),
        (403, "ExpiredToken", AccessDenied),
        (404, "NoSuchBucket", AccessDenied),
    ],
)
def test_a_refusal_is_told_in_our_words_at_once(
    put: Callable[..., S3Object],
    calls: S3Calls,
    proxy: Proxy,
    status: int,
    code: str,
    expected: type[Exception],
) -> None:
    """By code and status, without a retry; what is refused for its keys is signed once more."""
    source = S3Source(calls, put("object", b"content"))
    proxy.on(Answer(status=status, body=f"<Error><Code>{code}</Code></Error>".encode()), when=is_get)

    with pytest.raises(expected, match="object"):
        list(source.stream())

    assert len(proxy.requests) == (2 if code == "ExpiredToken" else 1)


def test_an_object_overwritten_while_it_is_read_ends_the_read(
    put: Callable[..., S3Object], calls: S3Calls, proxy: Proxy
) -> None:
    """The rest of a cut body would be of other content."""
    wanted = put("object", CONTENT)
    proxy.on(Truncate(1_500_000), when=is_get, times=1)
    chunks = ResumableGet(calls, wanted, RateLimiter(None)).chunks(0, wanted.size)
    first = next(chunks)
    put("object", bytes(len(CONTENT)))

    with pytest.raises(ObjectSuperseded):
        list(chunks)

    assert first == CONTENT[: len(first)]


def test_a_version_that_may_not_be_read_is_read_by_its_etag(
    put: Callable[..., S3Object], calls: S3Calls, proxy: Proxy
) -> None:
    """A policy with s3:GetObject and without s3:GetObjectVersion is common."""
    plain = put("object", CONTENT)
    versioned = S3Object(id=plain.id, size=plain.size, last_modified_ms=0, version_id="v1")
    body = b"<Error><Code>AccessDenied</Code></Error>"
    proxy.on(Answer(status=403, body=body), when=lambda request: "versionId" in request.path)
    source = S3Source(calls, versioned)

    assert b"".join(source.stream()) == CONTENT
    assert source.read_at(0, 3_000_000) == CONTENT[:3_000_000]

    assert len([request for request in proxy.requests if "versionId" in request.path]) == 1


def test_head_says_what_is_there(put: Callable[..., S3Object], calls: S3Calls) -> None:
    """Identity and size, as an event would have said."""
    wanted = put("object", b"content")

    found = calls.head(wanted.id.bucket, "object")

    assert (found.id, found.size, found.version_id) == (wanted.id, 7, None)
    assert found.last_modified_ms > 1_700_000_000_000


def test_works_come_in_order_and_are_fetched_before_they_are_asked_for(
    put: Callable[..., S3Object], calls: S3Calls, proxy: Proxy
) -> None:
    """Small objects whole, one large one at a time as a stream; nothing is fetched twice."""
    large = CONTENT[: SMALL_BYTES + 1]
    contents = [b"one", b"", b"two" * 1000, large, b"three", large]
    works = [
        Split(object=put(f"object-{n}", content), route=Route(topic="t"))
        for n, content in enumerate(contents)
    ]
    prefetch = Prefetch(calls, works, RateLimiter(None), streams=True)

    read = [b"".join(prefetch.next().stream()) for _ in works]

    prefetch.close()
    assert read == contents
    assert len([request for request in proxy.requests if is_get(request)]) == len(contents) - 1


class _OtherContent:
    """An S3 that ignores If-Match and has something else by now."""

    def __init__(self, **answer: Any) -> None:
        self._answer = answer

    def get_object(self, **_asked: Any) -> dict[str, Any]:
        return {"Body": _Body(), **self._answer}


class _Body:
    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    "answer",
    [
        {"ETag": '"other"', "ContentRange": "bytes 5-9/10"},
        {"ETag": '"etag"', "ContentRange": "bytes 5-9/11"},
    ],
    ids=["other ETag", "other length"],
)
def test_a_range_of_other_content_ends_the_read(answer: dict[str, str]) -> None:
    """Whatever the server made of If-Match."""
    backoff = BackoffSettings(delay_ms=1, max_delay_ms=1, max_retries=0)
    calls = S3Calls(_OtherContent(**answer), backoff=backoff, requester_pays=False)
    wanted = S3Object(id=ObjectId("bucket", "key", "etag"), size=10, last_modified_ms=0)

    with pytest.raises(ObjectSuperseded):
        S3Source(calls, wanted).read_at(5, 5)


def test_a_stream_that_is_closed_early_stops_fetching(put: Callable[..., S3Object], calls: S3Calls) -> None:
    """A decoder that gives up leaves no thread that reads on."""
    source = S3Source(calls, put("object", CONTENT))
    stream = source.stream()
    next(iter(stream))

    stream.close()  # type: ignore[attr-defined]  # a generator, as every stream here

    assert source.fetched_bytes <= len(CONTENT)
