"""Where GETs of a bucket go, what they carry and give, and the kept connections over which they are sent.

Both are read from a request that botocore made. A connection sends one GET at a time.
"""

import http.client
import re
import socket
import ssl
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

from botocore.httpsession import create_urllib3_context
from urllib3.util import wait_for_read

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 30
# What is kept unused; there may be more connections than these.
CONNECTIONS: Final = 32
# What a request line ends at, or is cut by.
_NOT_IN_TARGET: Final = re.compile("[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go."""

    scheme: str
    host: str
    port: int


class Connections:
    """Connections to one origin; thread-safe. `tls` is a context that verifies, needed for https only.

    Those that are kept are closed when nothing refers to this any more.
    """

    def __init__(
        self, origin: Origin, tls: ssl.SSLContext | None, *, read_seconds: float = READ_SECONDS
    ) -> None:
        self._origin = origin
        self._tls = tls
        self._read_seconds = read_seconds
        # Appending and popping are atomic: no lock. The last one used is taken first, so few are kept busy.
        self._kept: deque[http.client.HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._kept)

    def get(self, target: str, headers: Mapping[str, str]) -> "Reply":
        """The answer to one GET, whatever its status, with its body unread; blocks.

        Sent once, never again: repeats are the caller's. Raises OSError (ssl.SSLError is one),
        `http.client.HTTPException`, or ValueError for a header that no request can hold.
        """
        connection = self._take()
        try:
            connection.sock.sendall(_request(target, headers))
            return Reply(_answered(connection.sock), connection, self)
        except BaseException:
            connection.close()
            raise

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection whose answer was read to its end, for the next GET."""
        if len(self._kept) < CONNECTIONS:
            self._kept.append(connection)
        else:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        while True:
            try:
                connection = self._kept.pop()
            except IndexError:
                return self._connected()
            # Nothing was asked, so what can be read is the other side's end (or bytes that nobody may trust).
            if connection.sock is not None and not wait_for_read(connection.sock, timeout=0):
                return connection
            connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        origin = self._origin
        connection: http.client.HTTPConnection
        if origin.scheme == "https":
            connection = http.client.HTTPSConnection(
                origin.host, origin.port, timeout=CONNECT_SECONDS, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(origin.host, origin.port, timeout=CONNECT_SECONDS)
        # One that lost its socket is not to open another behind our back.
        connection.auto_open = 0
        try:
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.settimeout(self._read_seconds)
        except BaseException:
            connection.close()
            raise
        return connection


def _request(target: str, headers: Mapping[str, str]) -> bytes:
    """A GET as it is sent; ValueError for what would be another request, or more than one."""
    if _NOT_IN_TARGET.search(target):
        raise ValueError("a request's target holds a control character or a space")
    lines = [f"GET {target} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in headers.items())]
    text = "".join(lines)
    if text.count("\r") != len(lines) or text.count("\n") != len(lines):
        raise ValueError("a header holds a line break")
    return f"{text}\r\n".encode("latin-1")


def _answered(sock: socket.socket) -> "_Response":
    response = _Response(sock, method="GET")
    try:
        response.begin()
    except BaseException:
        response.close()
        raise
    return response


class _Response(http.client.HTTPResponse):
    """An answer whose head, when it is the usual one, is read without `email`'s parser: a tenth of the CPU.

    Usual is what S3 says of an object, as far as the first packet shows it: 200 or 206, with a length, over a
    connection that is kept. Any other head is the library's to read.
    """

    _usual: dict[bytes, bytes] | None = None

    def begin(self) -> None:
        """Read the head; blocks. Raises as the library does."""
        seen = self.fp.peek()
        end = seen.find(b"\r\n\r\n")
        status = _USUAL_STATUS.match(seen)
        headers = None if end < 0 or status is None else _usual_headers(seen[:end])
        if headers is None or status is None:
            super().begin()
            return
        self.fp.read(end + 4)
        self._usual = headers
        self.status = self.code = int(status[1])
        self.version, self.reason = 11, ""
        self.length = int(headers[b"content-length"])
        self.chunked = self.will_close = False

    def getheader(self, name: str, default: Any = None) -> Any:
        """The value of one of the headers that `_HEADERS` names, or `default` without it."""
        if self._usual is None:
            return super().getheader(name, default)
        value = self._usual.get(name.lower().encode())
        return default if value is None else value.decode("latin-1")


_USUAL_STATUS: Final = re.compile(rb"HTTP/1\.1 (200|206)[ \r]")
# What a GET of an object is asked for, and what would make its answer another than the usual one.
_HEADERS: Final = re.compile(
    rb"\r\n(etag|content-length|content-range|transfer-encoding|connection):[ \t]*([^\r\n]*)", re.IGNORECASE
)
# Bare line breaks, continued lines, spaces before a colon or a line's end: parsers differ there.
_ODD: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]|\n[^:\r\n]*(?:[ \t]:|(?=\r|$))|[ \t](?=\r|$)")


def _usual_headers(head: bytes) -> dict[bytes, bytes] | None:
    """What `_HEADERS` finds in a head, by names in lower case; None for a head that is not the usual one."""
    if _ODD.search(head):
        return None
    found = _HEADERS.findall(head)
    headers = {name.lower(): value for name, value in found}
    if len(headers) != len(found) or not headers.get(b"content-length", b"").isdigit():
        return None
    if b"transfer-encoding" in headers or headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    return headers


class Reply:
    """The answer to a GET. Closed, it gives its connection back if the body was read to its end."""

    def __init__(
        self, response: http.client.HTTPResponse, connection: http.client.HTTPConnection, home: Connections
    ) -> None:
        self._response = response
        self._connection: http.client.HTTPConnection | None = connection
        self._home = home
        self.status = response.status
        # None where the other side gives none, or no number.
        self._left: int | None = response.length

    def header(self, name: str) -> str | None:
        """The header's value; None without it."""
        return self._response.getheader(name)

    def has_begun(self) -> bool:
        """Whether a first byte of the body is here, or none is to come; blocks, and raises as `read` does."""
        return self._left == 0 or bool(self._response.peek(1))

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the body, then none; blocks. Raises as `answer.Body` says."""
        chunk = self._response.read(size)
        if self._left is not None:
            self._left -= len(chunk)
            if not chunk and size and self._left:
                raise http.client.IncompleteRead(b"", self._left)
        if self._response.isclosed():
            # Not when the object is closed, but now: its decoding may take longer than the connection lives.
            self._end(keep=not self._left and not self._response.will_close)
        return chunk

    def close(self) -> None:
        """Close the connection unless it was given back; more than once does no harm."""
        self._end(keep=False)

    def _end(self, *, keep: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if keep:
            self._home.give_back(connection)
            return
        self._response.close()
        connection.close()


def _close_all(kept: deque[http.client.HTTPConnection]) -> None:
    while kept:
        kept.pop().close()


def verifying(ca_file: str) -> ssl.SSLContext:
    """A TLS context as botocore makes it, that trusts these authorities and checks the host's name.

    Raises OSError when the file cannot be used.
    """
    context: ssl.SSLContext = create_urllib3_context()
    # Python as Debian builds it leaves this to OpenSSL's configuration, which a container may not have.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.set_alpn_protocols(["http/1.1"])
    # What urllib3 does to it before it connects.
    context.check_hostname = True
    context.load_verify_locations(cafile=ca_file)
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRequest:
    """One GET: of this content (`etag` without quotes), of this version if any, of this range if any."""

    bucket: str
    key: str
    etag: str
    version_id: str | None = None
    range: str | None = None
    """As the header says it: `bytes=5-9`, `bytes=5-`."""
    requester_pays: bool = False

    @property
    def what(self) -> str:
        """`s3://bucket/key`, for messages."""
        return f"s3://{self.bucket}/{self.key}"

    def parameters(self) -> dict[str, str]:
        """The same for botocore's `get_object`."""
        # With or without a version id: what was announced is a content, and only that may be read.
        given = {"Bucket": self.bucket, "Key": self.key, "IfMatch": f'"{self.etag}"'}
        if self.version_id is not None:
            given["VersionId"] = self.version_id
        if self.range is not None:
            given["Range"] = self.range
        if self.requester_pays:
            given["RequestPayer"] = "requester"
        return given


class Body(Protocol):
    """The bytes of an answer, to be read by one thread and closed."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, fewer only at the end, then none; blocks.

        Raises OSError, `http.client.HTTPException`, or errors of botocore and urllib3 when the connection
        breaks or the body ends before its length.
        """
        ...

    def close(self) -> None:
        """Give the connection back if the body was read to its end; else close it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAnswer:
    """S3's answer to a GET, its body unread. `etag` as it came, in quotes; None is what the answer lacks."""

    body: Body
    etag: str
    content_length: int | None
    content_range: str | None


_PORTS: Final = {"http": 80, "https": 443}
_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256 Credential=.+/\d{8}/([a-z0-9-]+)/s3/aws4_request, ")
# Directory buckets have sessions of their own, and an ARN may mean several regions.
_OTHER_BUCKETS: Final = re.compile(r":|--x-s3$|--xa-s3$")
# Printable, without spaces and quotes: what is signed as it is sent.
_PLAIN_ETAG: Final = re.compile(r"[!#-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How to ask for the objects of a bucket. `region` is None when requests are not signed."""

    origin: Origin
    host: str
    """The header: with the port unless it is the scheme's own."""
    prefix: str
    """What is before the key in the path, with its slash."""
    region: str | None
    user_agent: str

    def path(self, asked: GetRequest) -> str:
        """The path, as it is sent and signed."""
        return self.prefix + _path(asked.key)

    def headers(self, asked: GetRequest) -> dict[str, str]:
        """The headers that are signed, names in lower case."""
        # As `Asked.parameters` says it to botocore.
        headers = {"host": self.host, "if-match": f'"{asked.etag}"'}
        if asked.range is not None:
            headers["range"] = asked.range
        if asked.requester_pays:
            headers["x-amz-request-payer"] = "requester"
        return headers


def is_supported(asked: GetRequest) -> bool:
    """Whether the fast path can send this at all; what is unusual is botocore's."""
    return bool(asked.key) and _PLAIN_ETAG.fullmatch(asked.etag) is not None


def query_of(asked: GetRequest) -> str:
    """The query, as it is sent and signed; empty for none."""
    return "" if asked.version_id is None else f"versionId={quote(asked.version_id, safe='~')}"


def endpoint_of(url: str, headers: Mapping[str, str], asked: GetRequest) -> Endpoint | None:
    """The endpoint of botocore's request for `asked` (names in lower case); None for any other kind."""
    parts = urlsplit(url)
    own = _path(asked.key)
    if (
        _OTHER_BUCKETS.search(asked.bucket)
        or parts.scheme not in _PORTS
        or parts.hostname is None
        or "@" in parts.netloc
        or parts.query != query_of(asked)
        or not parts.path.endswith(f"/{own}")
    ):
        return None
    region = None
    if "authorization" in headers:
        found = _CREDENTIAL.match(headers["authorization"])
        if found is None:
            return None
        region = found[1]
    port = parts.port or _PORTS[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Endpoint(
        origin=Origin(parts.scheme, parts.hostname, port),
        host=host if port == _PORTS[parts.scheme] else f"{host}:{port}",
        prefix=parts.path.removesuffix(own),
        region=region,
        user_agent=headers.get("user-agent", ""),
    )


def _path(key: str) -> str:
    return quote(key, safe="/~")
