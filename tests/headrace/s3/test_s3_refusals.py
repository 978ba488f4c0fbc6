"""Answers that are none: the fast path and botocore's say the same of them, after one request each."""

import errno
import hashlib
import ssl
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError, SSLError
from urllib3.exceptions import HTTPError

from headrace.model.errors import (
    HeadraceError,
    ObjectForbidden,
    ObjectMissing,
    ResourceMissing,
    SourceUnavailable,
)
from headrace.s3 import S3Calls
from headrace.s3.client import translate_s3, translate_upload, unreachable
from tests.headrace.s3.scripted_s3 import Say, ScriptedS3, an_object, calls_by, chunked, error, said, settings

# What S3 says of a version that is a delete marker.
MARKED = "x-amz-delete-marker: true"
BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE Error [<!ENTITY a "NoSuchKey">'
    + b"".join(b'<!ENTITY a%d "%b">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
    + b"]><Error><Code>&a11;</Code></Error>"
)


@pytest.fixture(scope="module")
def one_server() -> Iterator[ScriptedS3]:
    """An S3 that has one object in every bucket."""
    with ScriptedS3(lambda _: Say(said())) as one:
        yield one


@pytest.fixture(scope="module")
def one_pair(one_server: ScriptedS3) -> dict[str, S3Calls]:
    """Calls by each route; making them is slow."""
    return {route: calls_by(route, settings(one_server.url)) for route in ("fast", "botocore")}


@pytest.fixture
def server(one_server: ScriptedS3) -> ScriptedS3:
    """The same, with nothing asked yet."""
    one_server.asked.clear()
    return one_server


@pytest.fixture
def fast(one_pair: dict[str, S3Calls]) -> S3Calls:
    """Calls by the fast path."""
    return one_pair["fast"]


@pytest.fixture
def both(server: ScriptedS3, one_pair: dict[str, S3Calls]) -> Callable[..., list[HeadraceError]]:
    """What the fast path and botocore's make of an answer, each asked once, or as often as is told."""

    def failures(say: Say, times: int = 1) -> list[HeadraceError]:
        found = []
        for route, calls in one_pair.items():
            server.says(*[say] * times)
            server.asked.clear()
            found.append(failure(calls))
            assert [one.is_botocores for one in server.asked] == [route == "botocore"] * times
        return found

    return failures


def failure(calls: S3Calls) -> HeadraceError:
    """What a GET raises."""
    with pytest.raises(HeadraceError) as found:
        calls.get(an_object(), begin=0, end=None, by_version=False)
    return found.value


@pytest.mark.parametrize(
    "answer",
    [
        *(
            error(code, status)
            for code, status in [
                ("NoSuchKey", 404),
                ("NoSuchVersion", 404),
                ("NoSuchBucket", 404),
                ("MethodNotAllowed", 405),
                ("PreconditionFailed", 412),
                ("InvalidRange", 416),
                ("InvalidObjectState", 403),
                ("AccessDenied", 403),
                ("ExpiredToken", 400),
                ("KMS.DisabledException", 400),
                ("RequestTimeout", 400),
                ("InternalError", 500),
                ("SlowDown", 503),
                ("Unheard-of", 418),
            ]
        ),
        *(said(b"", status=status) for status in (304, 400, 403, 404, 405, 409, 412, 416, 429, 500, 503)),
        said(b"<html><body>Bad gateway</body></html>", status=502),
        said(b"<html><Code>NoSuchKey</Code></html>", status=403),
        said(b"\xff\xfe\x00<Error", status=404),
        said(b"Forbidden.", status=403),
        said(b"<Error><Message>NoSuchKey</Message></Error>", status=403),
        said(b"<Error>\n  <Resource>/x</Resource>\n  <Code>NoSuchKey</Code>\n</Error>", status=403),
        chunked(b"<Error><Code>Expired", b"Token</Code></Error>", status=400),
        error("MethodNotAllowed", 405, MARKED),
        said(b"", MARKED, status=405),
    ],
    ids=lambda raw: raw.replace(b"\r\n", b" ").decode("latin-1")[9:90],
)
def test_a_refusal_means_the_same_on_both_paths(
    both: Callable[..., list[HeadraceError]], answer: bytes
) -> None:
    """Class and sentence, by code and by status. What other keys may help is asked twice."""
    fast, botocores = both(Say(answer), times=2 if b"Expired" in answer else 1)

    assert type(fast) is type(botocores)
    assert str(fast) == str(botocores)


@pytest.mark.parametrize(
    "say",
    [
        Say(b"", "close"),
        Say(b"", "reset"),
        Say(b"SSH-2.0-OpenSSH\r\n", "close"),
        Say(b"HTTP/1.1 abc As told\r\n\r\n", "close"),
        Say(b"HTTP/9.9\r\n\r\n", "close"),
        Say(b"HTTP/1.1 200 As told\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", "close"),
        Say(b"HTTP/1.1 200 As told\r\n" + b"X: y\r\n" * 200 + b"\r\n", "close"),
        Say(b"\x00\xff" * 5000, "reset"),
        Say(chunked(b"<Error><Code>NoSuchKey", status=404, ends=False), "close"),
        Say(said(b"<Error>", status=404, length=500), "reset"),
    ],
    ids=lambda say: f"{say.raw[:24]!r} {say.then}",
)
def test_a_broken_answer_is_the_sources(both: Callable[..., list[HeadraceError]], say: Say) -> None:
    """Never the object's: it is read later. And never asked for twice by itself."""
    assert [type(one) for one in both(say)] == [SourceUnavailable, SourceUnavailable]


@pytest.mark.parametrize(
    ("say", "expected"),
    [
        # A missing bucket would else be taken for a missing object, which is skipped.
        (Say(said(b"<Error><Co", status=404, length=300), "close"), SourceUnavailable),
        (Say(said(b"<Error><Code>NoSuchBucket</Code>", status=404, length=300), "close"), ResourceMissing),
        # An ETag that is cut would else be another content's, and its object skipped.
        (Say(said()[:30], "close"), SourceUnavailable),
        (Say(said().replace(b"\r\n\r\ncontent", b""), "close"), SourceUnavailable),
        (Say(said(b"<Error><Code></Code></Error>", status=404)), ObjectMissing),
        (Say(error("MethodNotAllowed", 405, MARKED)), ObjectMissing),
        (Say(error("MethodNotAllowed", 405)), SourceUnavailable),
        (Say(said(b"", status=405)), SourceUnavailable),
        (Say(said(b'<Error xmlns="urn:s3"><Code>NoSuchKey</Code></Error>', status=403)), ObjectMissing),
    ],
    ids=str,
)
def test_an_answer_that_is_cut_proves_nothing(
    server: ScriptedS3, fast: S3Calls, say: Say, expected: type[HeadraceError]
) -> None:
    """Where the fast path looks closer than botocore."""
    server.says(say)

    assert type(failure(fast)) is expected


def test_nobody_listens() -> None:
    """A refused connection is the source's too."""
    with ScriptedS3(lambda _: Say(b"")) as server:
        url = server.url

    for route in ("fast", "botocore"):
        assert type(failure(calls_by(route, settings(url)))) is SourceUnavailable


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BOMB, ObjectForbidden),
        (b"<Error><Code>NoSuchKey</Code>" + b"x" * 3_000_000, ObjectMissing),
        (b" " * 3_000_000 + b"<Error><Code>NoSuchKey</Code></Error>", ObjectForbidden),
        (b"<Error><Code>" * 1000, ObjectForbidden),
        (b"<Error " * 2000, ObjectForbidden),
        (b"<Error><Code>" + b"A" * 5000 + b"</Code></Error>", ObjectForbidden),
    ],
    ids=["entities", "endless", "late", "nested", "open", "long"],
)
def test_a_hostile_document_is_searched_for_one_word(
    server: ScriptedS3, fast: S3Calls, body: bytes, expected: type[HeadraceError]
) -> None:
    """Its beginning only; what is not read ends with its connection, and the next GET is as good as any."""
    server.says(Say(said(body, status=403)))

    assert type(failure(fast)) is expected

    answer = fast.get(an_object(), begin=0, end=None, by_version=False)
    assert answer.body.read(10) == b"content"


@pytest.mark.parametrize(
    "answer",
    [
        error("PermanentRedirect", 301),
        error("TemporaryRedirect", 307),
        error("AuthorizationHeaderMalformed", 400),
        error("IllegalLocationConstraintException", 400),
        said(b"", "Location: http://127.0.0.1:9/", status=302),
    ],
    ids=lambda raw: hashlib.sha256(raw).hexdigest()[:8],
)
def test_a_redirect_makes_the_bucket_botocores(
    server: ScriptedS3, fast: S3Calls, answer: bytes, request: pytest.FixtureRequest
) -> None:
    """It knows where to look; the fast path follows nobody."""
    wanted = an_object(bucket=f"moved-{request.node.callspec.id}")
    server.says(Say(answer))

    for _ in range(2):
        found = fast.get(wanted, begin=0, end=None, by_version=False)
        assert found.body.read(10) == b"content"
        found.body.close()

    assert [one.is_botocores for one in server.asked] == [False, True, True]


@pytest.mark.parametrize(
    "say", [Say(error("SignatureDoesNotMatch", 403)), Say(b"", "reset"), Say(b"x" * 99, "close")], ids=str
)
def test_no_error_tells_a_secret(server: ScriptedS3, fast: S3Calls, say: Say) -> None:
    """Neither in its words nor in what led to it."""
    server.says(*[say] * (2 if b"Signature" in say.raw else 1))
    text = "".join(traceback.format_exception(failure(fast)))

    sent = server.asked[0].headers
    signature = sent["authorization"].partition("Signature=")[2]
    assert sent["x-amz-security-token"] == "a-token"
    assert [word for word in ("hidden-half", "a-token", "AKIAPUBLIC", signature) if word in text] == []


def test_no_failure_leaves_a_descriptor_open(server: ScriptedS3, fast: S3Calls) -> None:
    """Whatever the answer, and whether its body is read, left or cut."""
    said_so = [
        Say(b"", "close"),
        Say(b"", "reset"),
        Say(b"garbage\r\n\r\n", "close"),
        Say(error("NoSuchKey", 404)),
        Say(said(b"x" * 100_000, status=403)),
        Say(said(length=99), "close"),
        Say(said(b"x" * 300_000)),
        Say(chunked(b"content")),
    ]

    def round_of_all() -> int:
        for say in said_so:
            server.says(say)
            try:
                body = fast.get(an_object(), begin=0, end=None, by_version=False).body
            except HeadraceError:
                continue
            body.read(1)
            body.close()
        # The server's ends are open files of this process too.
        server.hang_up()
        return len([one for one in Path("/proc/self/fd").iterdir() if _is_of(one, server)])

    assert [round_of_all() for _ in range(3)][-1] <= 1


def _is_of(descriptor: Path, server: ScriptedS3) -> bool:
    """Whether it is a client's socket to this server."""
    try:
        inode = str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]")
    except OSError:
        return False
    port = f"0100007F:{server.port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return any(line[9] == inode and line[2] == port for line in lines[1:])


def test_too_few_open_files_are_named_however_deep_they_are() -> None:
    """What a library makes of it is a connection that fails."""
    limit = OSError(errno.EMFILE, "Too many open files")
    wrapped = EndpointConnectionError(endpoint_url="http://s3", error=limit)
    between = HTTPError("failed to establish a connection")
    wrapped.__context__, between.__cause__ = between, limit
    for found in (
        unreachable(limit, what="s3://b/k"),
        translate_s3(wrapped, what="s3://b/k"),
        translate_upload(wrapped, what="s3://b/k"),
    ):
        assert isinstance(found, SourceUnavailable)
        assert "s3://b/k could not be" in str(found)
        assert "raise ulimit -n" in str(found)
    assert (
        str(unreachable(TimeoutError(), what="s3://b/k"))
        == "s3://b/k could not be read for now (TimeoutError)."
    )


_ADDRESS = "http://x/?k=1"


@pytest.mark.parametrize(
    ("broken", "fix"),
    [
        (ConnectionRefusedError(), " Check aws.s3.endpoint, aws.s3.region"),
        (EndpointConnectionError(endpoint_url=_ADDRESS, error=OSError()), " Check aws.s3.endpoint, aws"),
        (SSLError(endpoint_url=_ADDRESS, error=OSError()), " Check aws.s3.endpoint; a certificate"),
        (ssl.SSLCertVerificationError(), " Check aws.s3.endpoint; a certificate"),
        (ConnectionResetError(), ""),
    ],
)
def test_a_store_that_is_not_reached_at_all_comes_with_what_to_check(broken: Exception, fix: str) -> None:
    """What passes by itself has nothing to be done about it; no address is shown, which may hold a key."""
    text = str(unreachable(broken, what="s3://b/"))
    begin = f"s3://b/ could not be read for now ({type(broken).__name__}).{fix}"
    assert text.startswith(begin)
    assert text == begin or fix
    assert "k=1" not in text
