"""GETs without botocore: bodies, connections, credentials, and when botocore is used instead."""

import datetime as dt
import gzip
import ipaddress
import socket
import ssl
import struct
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from urllib3.util import wait_for_read

from headrace.model.errors import AccessDenied, ObjectSuperseded, SourceUnavailable
from headrace.model.objects import Route
from headrace.model.slot_protocol import Split
from headrace.options.choices import CredentialsProvider
from headrace.options.settings import ProviderCredentials
from headrace.s3 import S3Calls
from headrace.s3.client import GetRequest, verifying
from headrace.s3.connections import READ_SECONDS, Connections, Origin
from headrace.s3.reader import Prefetch, RateLimiter, S3Source
from tests.headrace.s3.scripted_s3 import Say, ScriptedS3, an_object, calls_by, chunked, error, said, settings

LOOPBACK = ipaddress.ip_address("127.0.0.1")
CONTENT = bytes(range(256)) * 12_000


@pytest.fixture
def calls(server: ScriptedS3) -> S3Calls:
    """Calls by the fast path, with three retries."""
    return calls_by("fast", settings(server.url, retries=3))


def read(calls: S3Calls, key: str = "key") -> bytes:
    """One object, read to its end and not beyond."""
    path = f"/bucket/{key}".encode()
    return b"".join(S3Source(calls, an_object(len(path), key)).stream())


def test_each_request_says_what_it_is_for(server: ScriptedS3) -> None:
    """Content, version, range, who pays, who asks; the version's 403 falls back to the content."""
    calls = calls_by("fast", settings(server.url, requester_pays=True))
    server.says(
        Say(error("AccessDenied", 403)), Say(said(b"56789", "Content-Range: bytes 5-9/20", status=206))
    )

    wanted = an_object(20, "a b", version_id="v+1")
    assert S3Source(calls, wanted).read_at(5, 5) == b"56789"

    by_version, by_content = server.asked
    assert by_version.path == "/bucket/a%20b?versionId=v%2B1"
    assert by_content.path == "/bucket/a%20b"
    for one in server.asked:
        assert not one.is_botocores
        assert one.headers["if-match"] == f'"{wanted.id.etag}"'
        assert one.headers["range"] == "bytes=5-9"
        assert one.headers["x-amz-request-payer"] == "requester"
        assert one.headers["x-amz-security-token"] == "a-token"
        assert one.headers["host"] == f"127.0.0.1:{server.port}"
        assert one.headers["accept-encoding"] == "identity"
        assert one.headers["user-agent"].startswith("Botocore/")
        assert "SignedHeaders=host;if-match;range;x-amz-" in one.headers["authorization"]


@pytest.mark.parametrize("route", ["fast", "botocore"])
class TestBodies:
    """What may happen to a body, on either route."""

    def test_what_is_stored_compressed_comes_compressed(self, server: ScriptedS3, route: str) -> None:
        """Content-Encoding is the decoder's business."""
        packed = gzip.compress(b"content")
        server.says(Say(said(packed, "Content-Encoding: gzip")))

        source = S3Source(calls_by(route, settings(server.url)), an_object(len(packed)))

        assert source.whole() == packed

    @pytest.mark.parametrize("then", ["close", "reset"])
    def test_a_cut_body_goes_on_where_it_was_cut(self, server: ScriptedS3, route: str, then: Any) -> None:
        """Every byte once."""
        size = len(CONTENT)
        cut = said(CONTENT)[: -size // 2]
        server.says(Say(cut, then))
        server.usual = lambda _: _the_rest(server)

        source = S3Source(calls_by(route, settings(server.url, retries=1)), an_object(size))

        assert source.whole() == CONTENT
        first, second = server.asked
        assert second.headers["if-match"] == first.headers["if-match"]
        # A reset may take all bytes along that were on their way; a body that ends early does not.
        expected = {"close": f"bytes={size - size // 2}-", "reset": second.headers.get("range")}
        assert (first.headers.get("range"), second.headers.get("range")) == (None, expected[then])
        assert source.fetched_bytes == size

    def test_a_body_that_never_comes_whole_is_the_sources(self, server: ScriptedS3, route: str) -> None:
        """It is no end, however often."""
        server.usual = lambda _: Say(said(b"", length=7), "close")
        source = S3Source(calls_by(route, settings(server.url, retries=2)), an_object())

        with pytest.raises(SourceUnavailable):
            source.whole()

        assert len(server.asked) == 3

    @pytest.mark.parametrize(
        ("say", "expected"),
        [
            (Say(chunked(b"con", b"tent")), SourceUnavailable),
            (Say(said(length=-1), "close"), SourceUnavailable),
            (Say(said(etag=""), "close"), SourceUnavailable),
            (Say(said(etag="other")), ObjectSuperseded),
            (Say(said(b"contents")), ObjectSuperseded),
            (Say(said(b"")), ObjectSuperseded),
        ],
        ids=["no length", "negative", "no ETag", "ETag", "length", "nothing"],
    )
    def test_only_what_was_announced_is_taken(
        self, server: ScriptedS3, route: str, say: Say, expected: type[Exception]
    ) -> None:
        """And an object is given up only when its ETag or its length is told, and is another."""
        server.says(say)

        with pytest.raises(expected):
            S3Source(calls_by(route, settings(server.url)), an_object()).whole()

    @pytest.mark.parametrize(
        "raw",
        [said(b"01234567"), said(b"45678", "Content-Range: bytes 4-8/20", status=206)],
        ids=["200", "206"],
    )
    def test_a_range_that_is_another_is_not_taken(self, server: ScriptedS3, route: str, raw: bytes) -> None:
        """Bytes at the wrong place would be rows that nobody wrote."""
        server.says(Say(raw))

        with pytest.raises(SourceUnavailable):
            S3Source(calls_by(route, settings(server.url)), an_object(20)).read_at(5, 5)


def _the_rest(server: ScriptedS3) -> Say:
    wanted = server.asked[-1].headers.get("range", "bytes=0-")
    begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
    span = f"Content-Range: bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}"
    return Say(said(CONTENT[begin:], span, status=206))


class TestConnections:
    """Kept while they are good, closed when they are not, and never asked twice."""

    def test_one_connection_carries_what_follows_one_another(
        self, server: ScriptedS3, calls: S3Calls
    ) -> None:
        """Refusals too."""
        server.says(Say(said(b"/bucket/0")), Say(error("NoSuchKey", 404)), Say(chunked(b"x", status=404)))
        for number in range(6):
            try:
                assert read(calls, str(number)) == f"/bucket/{number}".encode()
            except Exception:  # noqa: BLE001  # the two that are refused
                assert number in {1, 2}

        assert {one.connection for one in server.asked} == {0}

    @pytest.mark.parametrize("then", ["close", "reset"])
    def test_one_that_ended_while_it_was_kept_is_not_used(self, server: ScriptedS3, then: Any) -> None:
        """S3 closes what is idle: no request may be lost by that, and no retry be spent."""
        calls = calls_by("fast", settings(server.url, retries=0))
        server.usual = lambda path: Say(said(path.encode()), then)
        for number in range(4):
            assert read(calls, str(number)) == f"/bucket/{number}".encode()
            # The end has to be here before it can be seen.
            _await_end(calls)

        assert [one.connection for one in server.asked] == [0, 1, 2, 3]

    def test_one_with_bytes_left_is_not_used(self, server: ScriptedS3, calls: S3Calls) -> None:
        """More than was told, or not read: it would be taken for the next answer."""
        server.says(Say(said(b"/bucket/a") + b"x" * 100_000))
        assert read(calls, "a") == b"/bucket/a"
        _await_end(calls)
        body = calls.get(an_object(9, "b"), begin=0, end=None, by_version=False).body
        body.read(1)
        body.close()
        body.close()

        assert read(calls, "c") == b"/bucket/c"
        assert [one.connection for one in server.asked] == [0, 1, 2]

    def test_one_that_says_so_is_closed(self, server: ScriptedS3, calls: S3Calls) -> None:
        """`Connection: close` is believed."""
        server.says(Say(said(b"/bucket/a", "Connection: close")))
        read(calls, "a")
        assert read(calls, "b") == b"/bucket/b"
        assert [one.connection for one in server.asked] == [0, 1]

    def test_eight_threads_at_once(self, server: ScriptedS3, calls: S3Calls) -> None:
        """Each gets its own object, over no more connections than threads."""
        keys = [f"{number:04}" for number in range(400)]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda key: read(calls, key), keys))

        assert found == [f"/bucket/{key}".encode() for key in keys]
        assert len(server.asked) == len(keys)
        assert not any(one.is_botocores for one in server.asked)
        assert server.connections <= 8

    def test_more_than_are_kept_are_closed(self, calls: S3Calls) -> None:
        """A burst leaves no crowd behind."""
        wanted = an_object(9, "a")
        bodies = [calls.get(wanted, begin=0, end=None, by_version=False).body for _ in range(40)]
        for body in bodies:
            assert body.read(100) == b"/bucket/a"
        assert len(_kept(calls)) == 32

    def test_nothing_is_connected_before_it_is_needed(self, server: ScriptedS3, calls: S3Calls) -> None:
        """Learning where to ask asks nobody."""
        assert calls._fast_get is not None
        calls._fast_get._learn(GetRequest(bucket="bucket", key="key", etag="e"))
        assert calls._fast_get._buckets["bucket"] is not None
        assert server.connections == 0

    def test_each_waits_so_long_and_no_longer(self, server: ScriptedS3, calls: S3Calls) -> None:
        """For every read: 30 s. A silent source is the source's failure."""
        read(calls, "a")
        (kept,) = _kept(calls)
        limits = [
            kept.sock.getsockopt(socket.SOL_SOCKET, way, 16)
            for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)
        ]
        assert [struct.unpack("@ll", limit) for limit in limits] == [(READ_SECONDS, 0)] * 2
        assert READ_SECONDS == 30
        server.says(Say(b"", "silent"), Say(said(b"half", length=99), "silent"))
        hasty = Connections(Origin("http", "127.0.0.1", server.port), None, read_seconds=0.1)

        with pytest.raises(TimeoutError):
            hasty.get("/a", {})
        reply = hasty.get("/a", {})
        with pytest.raises(TimeoutError):
            reply.read(99)
        reply.close()


def _kept(calls: S3Calls) -> Any:
    assert calls._fast_get is not None
    (connections,) = calls._fast_get._origins.values()
    return connections._kept


def _await_end(calls: S3Calls) -> None:
    """Until the other side's end, or bytes, can be read on the connection that is kept."""
    (kept,) = _kept(calls)
    assert wait_for_read(kept.sock, timeout=60)


class TestCredentials:
    """Whose they are is botocore's business, at every GET."""

    def test_renewed_ones_sign_the_next_get(self, server: ScriptedS3, calls: S3Calls) -> None:
        """Roles and instance profiles renew theirs within the hour."""
        now = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]
        renewed = 0

        def renew() -> dict[str, str]:
            nonlocal renewed
            renewed += 1
            if renewed > 2:
                raise CredentialRetrievalError(provider="test", error_msg="no")
            expiry = (now[0] + dt.timedelta(hours=1)).isoformat()
            return {
                "access_key": f"AKIA{renewed}",
                "secret_key": f"secret{renewed}",
                "token": f"token{renewed}",
                "expiry_time": expiry,
            }

        assert calls._fast_get is not None
        found = RefreshableCredentials.create_from_metadata(
            metadata=renew(), refresh_using=renew, method="test"
        )
        vars(found)["_time_fetcher"] = lambda: now[0]
        calls._fast_get._credentials._found = found
        for _ in range(2):
            read(calls)
        now[0] += dt.timedelta(minutes=58)
        read(calls)
        now[0] += dt.timedelta(hours=2)
        with pytest.raises(AccessDenied, match="CredentialRetrievalError"):
            read(calls)

        assert not any(one.is_botocores for one in server.asked)
        signed_by = [one.headers["authorization"].partition("=")[2][:5] for one in server.asked]
        assert signed_by == ["AKIA1", "AKIA1", "AKIA2"]
        assert [one.headers["x-amz-security-token"] for one in server.asked] == ["token1", "token1", "token2"]

    def test_one_that_no_request_can_hold_is_not_quoted(self, server: ScriptedS3) -> None:
        """http.client quotes the header that it refuses."""
        calls = calls_by("fast", settings(server.url))
        read(calls)
        assert calls._fast_get is not None
        calls._fast_get._credentials._found = Credentials("AKIA", "secret", "hid\nden")

        with pytest.raises(SourceUnavailable, match="ValueError") as found:
            read(calls)

        assert "den" not in "".join(traceback.format_exception(found.value))
        assert len(server.asked) == 1

    def test_nobody_signs_nothing(self, server: ScriptedS3) -> None:
        """A public bucket is read without credentials."""
        nobody = ProviderCredentials(provider=CredentialsProvider.ANONYMOUS)
        calls = calls_by("fast", settings(server.url, credentials=nobody))

        assert read(calls) == b"/bucket/key"

        (asked,) = server.asked
        assert not asked.is_botocores
        assert not [name for name in asked.headers if name.startswith(("authorization", "x-amz-"))]


class TestBotocores:
    """Where the fast path is not taken."""

    def test_through_a_proxy(self, server: ScriptedS3, monkeypatch: pytest.MonkeyPatch) -> None:
        """Botocore knows how to ask one."""
        server.usual = lambda path: Say(said(path.removeprefix("http://s3.example").encode()))
        monkeypatch.setenv("http_proxy", server.url)

        assert read(calls_by("fast", settings("http://s3.example"))) == b"/bucket/key"

        (asked,) = server.asked
        assert asked.is_botocores
        assert asked.path == "http://s3.example/bucket/key"

    def test_with_an_etag_that_has_to_be_folded(self, server: ScriptedS3, calls: S3Calls) -> None:
        """Once for the object; the bucket stays on the fast path."""
        server.says(Say(said(etag="a  b")))
        assert S3Source(calls, an_object(etag="a  b")).whole() == b"content"
        assert read(calls) == b"/bucket/key"
        assert [one.is_botocores for one in server.asked] == [True, False]


class TestTls:
    """A name and an authority, checked as botocore checks them."""

    def test_the_authority_of_the_settings_is_trusted(self, tmp_path: Path) -> None:
        """And the route is the fast one."""
        tls = _tls(tmp_path, x509.IPAddress(LOOPBACK))
        with ScriptedS3(lambda path: Say(said(path.encode())), tls=tls) as server:
            calls = calls_by("fast", settings(server.url, ca_bundle=str(tmp_path / "own.pem")))
            assert [read(calls, key) for key in "ab"] == [b"/bucket/a", b"/bucket/b"]
            assert [(one.is_botocores, one.connection) for one in server.asked] == [(False, 0), (False, 0)]

    def test_the_authority_of_the_environment_is_trusted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """AWS_CA_BUNDLE, as botocore reads it."""
        tls = _tls(tmp_path, x509.IPAddress(LOOPBACK))
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "own.pem"))
        with ScriptedS3(lambda path: Say(said(path.encode())), tls=tls) as server:
            assert read(calls_by("fast", settings(server.url))) == b"/bucket/key"
            assert [one.is_botocores for one in server.asked] == [False]

    @pytest.mark.parametrize("route", ["fast", "botocore"])
    @pytest.mark.parametrize("name", ["another name", "no name", "another authority"])
    def test_nobody_else_is_told_anything(self, tmp_path: Path, name: str, route: str) -> None:
        """A request is sent to nobody who is not who he says."""
        names = {"another name": x509.DNSName("127.0.0.1.example"), "no name": None}
        tls = _tls(tmp_path, names.get(name, x509.IPAddress(LOOPBACK)))
        if name == "another authority":
            _tls(tmp_path, x509.IPAddress(LOOPBACK))
        with ScriptedS3(lambda path: Say(said(path.encode())), tls=tls) as server:
            calls = calls_by(route, settings(server.url, ca_bundle=str(tmp_path / "own.pem")))
            with pytest.raises(SourceUnavailable):
                read(calls)
            assert server.asked == []
            assert server.connections == 1

    @pytest.mark.parametrize("route", ["fast", "botocore"])
    def test_a_common_name_still_is_a_name(self, tmp_path: Path, route: str) -> None:
        """Botocore takes it where there is no other, and certificates of one's own may be so."""
        with ScriptedS3(lambda path: Say(said(path.encode())), tls=_tls(tmp_path, None)) as server:
            url = server.url.replace("127.0.0.1", "localhost")
            assert read(calls_by(route, settings(url, ca_bundle=str(tmp_path / "own.pem")))) == b"/bucket/key"

    def test_many_are_received_at_once(self, tmp_path: Path) -> None:
        """Records of TLS come whole or not, and are not waited for."""
        tls = _tls(tmp_path, x509.IPAddress(LOOPBACK))
        body = bytes(range(256)) * 200
        with ScriptedS3(lambda _: Say(said(body)), tls=tls) as server:
            calls = calls_by("fast", settings(server.url, ca_bundle=str(tmp_path / "own.pem")))
            works = [
                Split(object=an_object(len(body), f"{number}"), route=Route(topic="t"))
                for number in range(100)
            ]
            assert S3Source(calls, works[0].object).whole() == body
            prefetch = Prefetch(calls, works, RateLimiter(None), streams=True)

            for _ in works:
                assert b"".join(prefetch.next().stream()) == body
            prefetch.close()
            assert len(server.asked) == 1 + len(works)
            for kept in _kept(calls):
                assert kept.sock.gettimeout() == READ_SECONDS

    def test_old_protocols_are_not_spoken(self, tmp_path: Path) -> None:
        """The context is botocore's own, and verifies."""
        _tls(tmp_path, None)
        context = verifying(str(tmp_path / "own.pem"))

        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError, match="No such file"):
            verifying(str(tmp_path / "none.pem"))


def _tls(folder: Path, name: x509.GeneralName | None) -> ssl.SSLContext:
    """A server's context with a new certificate for this name, which is its own authority: own.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(
        subject,
        subject,
        key.public_key(),
        x509.random_serial_number(),
        now - dt.timedelta(hours=1),
        now + dt.timedelta(hours=1),
    ).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if name is not None:
        made = made.add_extension(x509.SubjectAlternativeName([name]), critical=False)
    certificate = made.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "own.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem", folder / "key.pem")
    return context
