"""The endpoints on `http.listen`: read-only, small, and unharmed by slow or malformed clients."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from ingest.errors import HeadraceError

# A request line and headers have to arrive, and an answer be taken, within this time.
REQUEST_SECONDS: Final = 10.0
# Scrapers, probes and a few people: more connections than this at once are closed unanswered.
MAX_CONNECTIONS: Final = 32


class AddressTaken(HeadraceError):
    """The address of an endpoint cannot be listened on: a configuration error."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a route gives back."""

    status: HTTPStatus
    content_type: str
    body: bytes

    @classmethod
    def of_json(cls, shape: Any, status: HTTPStatus = HTTPStatus.OK) -> Self:
        """A JSON answer, indented for people who look at it with curl."""
        body = json.dumps(shape, ensure_ascii=False, indent=2).encode() + b"\n"
        return cls(status, "application/json; charset=utf-8", body)

    @classmethod
    def of_text(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> Self:
        """A plain text answer."""
        return cls(status, "text/plain; charset=utf-8", text.encode())


Route = Callable[[], Response]


class Endpoints:
    """A server of GET routes in threads of its own; each route is called with nothing and must not block."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        try:
            self._server = _Server((host, port), routes)
        except OSError as error:
            raise AddressTaken(
                f"http.listen: cannot listen on {host}:{port} ({error.strerror}). "
                "Choose a free address, or set it to an empty value to switch the endpoints off."
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port listened on, which the system chose where 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering; open connections are dropped."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], routes: Mapping[str, Route]) -> None:
        self.routes = routes
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, unless too many are busy already."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection, cutting it when it takes too long in all, however it drips."""
        cut = threading.Timer(REQUEST_SECONDS, _cut, [request])
        cut.daemon = True
        cut.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            cut.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away: there is nobody to act on it."""


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # gone already


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "headrace"
    sys_version = ""
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer the route, or 404 with what there is."""
        path = self.path.split("?", 1)[0]
        route = self.server.routes.get(path)
        if route is None:
            known = ", ".join(self.server.routes)
            self._answer(Response.of_text(f"No such page. There are: {known}\n", HTTPStatus.NOT_FOUND))
        else:
            self._answer(route())

    do_HEAD = do_GET  # noqa: N815 - http.server finds methods by these names

    def _answer(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Nothing: probes and scrapes every few seconds are no news."""
