"""One connection to the REST interface, byte by byte: what clients' own HTTP libraries get to see."""

import http.client
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as it came: header names in lower case."""

    version: int
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def allowed(self) -> set[str]:
        """The methods that `Allow` lists."""
        return set(self.headers["allow"].split(", "))


class Connection:
    """An open connection. `send` writes a request, `read` the next answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def ask(self, method: str, path: str, *headers: str, body: bytes = b"", version: str = "1.1") -> Answer:
        """The answer to one request; without a `Host` among the headers a local one is sent."""
        named = {header.partition(":")[0].lower() for header in headers}
        host = () if "host" in named else (f"Host: 127.0.0.1:{self._port}",)
        length = (f"Content-Length: {len(body)}",) if body else ()
        head = "\r\n".join((f"{method} {path} HTTP/{version}", *host, *headers, *length, "", ""))
        self._socket.sendall(head.encode() + body)
        return self.read(method)

    def read(self, method: str = "GET") -> Answer:
        """The next answer on this connection."""
        response = http.client.HTTPResponse(self._socket, method=method)
        response.begin()
        return Answer(
            version=response.version,
            status=response.status,
            headers={name.lower(): value for name, value in response.getheaders()},
            body=response.read(),
        )

    def send(self, raw: bytes) -> None:
        """Write these bytes."""
        self._socket.sendall(raw)

    def is_closed(self) -> bool:
        """Whether the server has ended the connection; waits for it."""
        return self._socket.recv(1) == b""

    def close(self) -> None:
        """End it."""
        self._socket.close()


@contextmanager
def connected(port: int) -> Iterator[Connection]:
    """A connection, closed at the end of the block."""
    made = Connection(port)
    try:
        yield made
    finally:
        made.close()
