"""HTTP between simulated processes: requests as they reach a server's answer, without bytes and sockets.

A process that is stopped takes connections and does not answer, one that is dead refuses them, and one that
dies while it answers closes them.
"""

import http.client
from collections.abc import Callable, Mapping
from email.message import Message
from types import SimpleNamespace
from typing import Any, Final, Self
from urllib.parse import urlsplit

from ingest.http.http_server import Answer, Request, Response
from tests.simulation import patches
from tests.simulation.kernel import Kernel, Signal
from tests.simulation.sockets import SimulatedServer, listening

_TRIP_SECONDS: Final = 0.001
_CLOSING_SECONDS: Final = 2.0
"""As the real server's."""


class Exchange:
    """A request that is being answered, and the end of its connection."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.changed = Signal(kernel)
        self.response: Response | None = None
        self.is_broken = False

    @property
    def is_over(self) -> bool:
        """Whether there is something to read: an answer, or that there will be none."""
        return self.response is not None or self.is_broken

    def end(self, response: Response | None) -> None:
        """It is answered, or its connection is gone (None)."""
        if not self.is_over:
            self.response, self.is_broken = response, response is None
            self.changed.give()

    def wait(self, seconds: float) -> bool:
        """Whether it is over within this time."""
        deadline = self._kernel.now + seconds
        while not self.is_over and self._kernel.now < deadline:
            self.changed.wait(deadline - self._kernel.now)
        return self.is_over


class WebServer(SimulatedServer):
    """`ingest.http.http_server.HttpServer` on a port of its own, each request in a thread of its process."""

    def __init__(self, port: int, answer: Answer, on_failed: Callable[[Request, Exception], None]) -> None:
        self._answer = answer
        self._on_failed = on_failed
        self._wanted_port = port
        self._begun: dict[Exchange, None] = {}

    def start(self) -> None:
        """See HttpServer."""
        super().__init__(self._wanted_port)
        self.owner.files.append(self._break)

    def close(self) -> None:
        """See HttpServer: what is being answered gets a moment."""
        super().close()
        deadline = patches.kernel().now + _CLOSING_SECONDS
        for exchange in list(self._begun):
            exchange.wait(max(0.0, deadline - patches.kernel().now))
        self._break()

    def take(self, request: Request) -> Exchange:
        """Begin to answer."""
        kernel = patches.kernel()
        exchange = Exchange(kernel)
        self._begun[exchange] = None

        def answer() -> None:
            try:
                response = self._whole(self._answer(request))
            except Exception as error:  # noqa: BLE001  # the real one logs it, and drops the connection
                self._on_failed(request, error)
                exchange.end(None)
            else:
                exchange.end(response)
            self._begun.pop(exchange, None)

        kernel.spawn(self.owner, answer, f"{request.method} {request.path}")
        return exchange

    def _whole(self, response: Response) -> Response:
        if response.more is None:
            return response
        body = response.body + b"".join(response.more)
        return Response(response.status, response.content_type, body, response.headers)

    def _break(self) -> None:
        for exchange in list(self._begun):
            exchange.end(None)
        self._begun.clear()


class Connection:
    """`http.client.HTTPConnection`, and as its own socket what a selector waits for."""

    def __init__(self, url: str, seconds: float) -> None:
        self._port = urlsplit(url).port or 80
        self._seconds = seconds
        self.exchange: Exchange | None = None

    @property
    def sock(self) -> "Connection":
        """See HTTPConnection."""
        return self

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """See HTTPConnection; ConnectionRefusedError."""
        kernel = patches.kernel()
        kernel.require_alive()
        kernel.sleep(_TRIP_SECONDS * (0.5 + kernel.rng.random()))
        server = listening(self._port)
        assert isinstance(server, WebServer)
        given = Message()
        for name, value in (headers or {}).items():
            given[name] = value
        path, _, query = path.partition("?")
        self.exchange = server.take(Request(method=method, path=path, query=query, headers=given, body=body))

    def getresponse(self) -> "Answered":
        """See HTTPConnection; TimeoutError, RemoteDisconnected."""
        exchange = self.exchange
        assert exchange is not None, "nothing was asked"
        if not exchange.wait(self._seconds):
            raise TimeoutError("timed out")
        if exchange.response is None:
            raise http.client.RemoteDisconnected("Remote end closed connection without response")
        return Answered(exchange.response)

    def close(self) -> None:
        """See HTTPConnection."""


class Answered:
    """`http.client.HTTPResponse`, never chunked: what would be streamed is left out."""

    chunked = False

    def __init__(self, response: Response) -> None:
        self.status = int(response.status)
        self._body = response.body
        self._headers = {name.lower(): value for name, value in response.headers}
        if response.content_type is not None:
            self._headers["content-type"] = response.content_type

    def read(self, _most: int | None = None) -> bytes:
        """See HTTPResponse."""
        return self._body

    def getheader(self, name: str) -> str | None:
        """See HTTPResponse."""
        return self._headers.get(name.lower())


class _Selector:
    """`selectors.DefaultSelector` of one connection."""

    def __init__(self) -> None:
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to let go of."""

    def register(self, connection: Connection, _events: int) -> None:
        """See BaseSelector."""
        self._connection = connection

    def select(self, seconds: float) -> list[Any]:
        """Whether there is something to read, as a list that has something in it."""
        assert self._connection is not None
        exchange = self._connection.exchange
        assert exchange is not None
        return [exchange] if exchange.wait(seconds) else []


SELECTORS: Final = SimpleNamespace(DefaultSelector=_Selector, EVENT_READ=1)
"""`selectors`, as far as a client of HTTP needs it."""
