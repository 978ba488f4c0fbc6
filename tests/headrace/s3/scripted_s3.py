"""An S3 on loopback that says exactly the bytes a test writes, and remembers what it was asked."""

import contextlib
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal, Self

from headrace.model.objects import ObjectId, S3Object
from headrace.options.secret import Secret
from headrace.options.settings import BackoffSettings, Credentials, S3Settings, StaticCredentials
from headrace.s3 import S3Calls, new_s3_calls

ETAG: Final = "0123456789abcdef0123456789abcdef"
BUCKET: Final = "bucket"
KEYS: Final = StaticCredentials(
    access_key_id="AKIAPUBLIC",
    secret_access_key=Secret("hidden-half"),
    session_token=Secret("a-token"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came: header names in lower case, and the number of its connection, from 0."""

    path: str
    headers: dict[str, str]
    connection: int

    @property
    def is_botocores(self) -> bool:
        """Whether botocore sent it: it tells about its repeats."""
        return "amz-sdk-invocation-id" in self.headers


@dataclass(frozen=True, slots=True)
class Say:
    """Bytes for the next request, and what becomes of the connection."""

    raw: bytes
    then: Literal["keep", "close", "reset", "silent"] = "keep"


@dataclass(slots=True)
class ScriptedS3:
    """One listening port. What is not scripted is answered by `usual`, by path."""

    usual: Callable[[str], Say]
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    _script: deque[Say] = field(default_factory=deque)
    _listening: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _open: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A socket that another thread waits on is woken by its shutdown, not by its close.
        for one in [self._listening, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(60)

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`, or https."""
        return f"http{'' if self.tls is None else 's'}://127.0.0.1:{self.port}"

    def says(self, *said: Say) -> None:
        """Answer the next requests so, in this order."""
        self._script.extend(said)

    def hang_up(self) -> None:
        """Close all connections that are open, properly."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._open.append(connection)
                self.connections += 1
                self._start(self._serve, connection, self.connections - 1)

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, ValueError), contextlib.ExitStack() as ends:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            ends.callback(connection.close)
            lines = ends.enter_context(connection.makefile("rb"))
            while first := lines.readline().decode():
                headers = {}
                while line := lines.readline().strip():
                    name, _, value = line.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                path = first.split(" ")[1]
                self.asked.append(Asked(path, headers, number))
                said = self._script.popleft() if self._script else self.usual(path)
                connection.sendall(said.raw)
                if said.then == "silent":
                    continue
                if said.then == "reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if said.then != "keep":
                    return


def said(
    body: bytes = b"content", *headers: str, status: int = 200, etag: str = ETAG, length: int | None = None
) -> bytes:
    """An answer with this body; its length as told, or as it is."""
    lines = [
        f"HTTP/1.1 {status} As told",
        f'ETag: "{etag}"',
        f"Content-Length: {len(body) if length is None else length}",
        *headers,
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(*pieces: bytes, status: int = 200, ends: bool = True) -> bytes:
    """An answer in chunks, without a length."""
    head = f'HTTP/1.1 {status} As told\r\nETag: "{ETAG}"\r\nTransfer-Encoding: chunked\r\n\r\n'.encode()
    return (
        head + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces) + (b"0\r\n\r\n" if ends else b"")
    )


def error(code: str, status: int, *headers: str) -> bytes:
    """A refusal as S3 words it."""
    body = f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>so</Message></Error>'
    return said(body.encode(), *headers, status=status)


def settings(
    endpoint: str | None,
    *,
    credentials: Credentials = KEYS,
    ca_bundle: str | None = None,
    requester_pays: bool = False,
    region: str = "eu-west-1",
    retries: int = 0,
) -> S3Settings:
    """Settings of a bucket behind the endpoint, with quick retries."""
    return S3Settings(
        bucket=BUCKET,
        prefix="",
        region=region,
        endpoint=endpoint,
        path_style=endpoint is not None,
        credentials=credentials,
        backoff=BackoffSettings(delay_ms=1, max_delay_ms=2, max_retries=retries),
        requester_pays=requester_pays,
        ca_bundle=ca_bundle,
    )


def calls_by(route: str, given: S3Settings) -> S3Calls:
    """Calls whose GETs take the fast path, or botocore's only."""
    calls = new_s3_calls(given)
    if route == "fast":
        return calls
    return S3Calls(calls._client, backoff=given.backoff, requester_pays=given.requester_pays)


def an_object(
    size: int = 7, key: str = "key", *, bucket: str = BUCKET, etag: str = ETAG, version_id: str | None = None
) -> S3Object:
    """An object as it was announced."""
    return S3Object(id=ObjectId(bucket, key, etag), size=size, last_modified_ms=0, version_id=version_id)
