"""What answers over HTTP: small, in threads of its own, and unharmed by slow or malformed clients."""

import math
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

import structlog

from ingest.errors import HeadraceError
from ingest.printable import json_text

_log = structlog.get_logger(__name__)

# A request has to arrive, and each part of an answer be taken, within this time.
REQUEST_SECONDS: Final = 10.0
# Scrapers, probes and a few people: when there are more connections than this, the oldest is cut.
MAX_CONNECTIONS: Final = 32


class AddressTaken(HeadraceError):
    """The address of an endpoint cannot be listened on: a configuration error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks: `path` is still percent-encoded, `query` without its `?`."""

    method: str
    path: str
    query: str
    headers: Message
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """What a route gives back; `more` follows the body, piece by piece, where all of it would be large."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    more: Iterator[bytes] | None = None

    @classmethod
    def of_json(cls, shape: Any, status: HTTPStatus = HTTPStatus.OK) -> Self:
        """A JSON answer, indented for people who look at it with curl."""
        body = json_text(shape, indent=2).encode() + b"\n"
        return cls(status, "application/json; charset=utf-8", body)

    @classmethod
    def of_text(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> Self:
        """A plain text answer."""
        return cls(status, "text/plain; charset=utf-8", text.encode())


Route = Callable[[], Response]
Answer = Callable[[Request], Response]
"""Called in the thread of its connection; it may block."""
Refuse = Callable[[HTTPStatus, str], Response]
Admit = Callable[[Message], Response | None]
"""Called with the headers before a body is read: the answer to somebody who may not ask, else None."""

# So much of a body is read and thrown away, so that a client that may not ask gets to read the answer.
_THROWN_AWAY: Final = 65_536


class HttpServer:
    """A server of these methods; everything else is 405, a body above `max_body` bytes 413.

    `option` names what the address comes from. `refuse` words what never reaches `answer`, and `admit` keeps
    from it who may not ask.
    """

    def __init__(
        self,
        host: str,
        port: int,
        answer: Answer,
        *,
        option: str,
        methods: frozenset[str],
        max_body: int = 0,
        refuse: Refuse = lambda status, text: Response.of_text(f"{text}\n", status),
        admit: Admit = lambda _headers: None,
    ) -> None:
        manners = _Manners(answer=answer, methods=methods, max_body=max_body, refuse=refuse, admit=admit)
        try:
            self._server = _Server((host, port), manners)
        except OSError as error:
            raise AddressTaken(
                f"{option}: cannot listen on {host}:{port} ({error.strerror}). "
                "Choose a free address, or set it to an empty value to switch it off."
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name=option, daemon=True)

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


class Endpoints(HttpServer):
    """`http.listen`: read-only routes by path; each is called with nothing and must not block."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        def answer(request: Request) -> Response:
            route = routes.get(request.path)
            if route is not None:
                return route()
            known = ", ".join(routes)
            return Response.of_text(f"No such page. There are: {known}\n", HTTPStatus.NOT_FOUND)

        super().__init__(host, port, answer, option="http.listen", methods=frozenset({"GET", "HEAD"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manners:
    """How a server answers; see HttpServer."""

    answer: Answer
    methods: frozenset[str]
    max_body: int
    refuse: Refuse
    admit: Admit


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # The kernel's queue of connections that nobody has accepted yet: a burst must not make a probe wait.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], manners: "_Manners") -> None:
        self.manners = manners
        self._lock = threading.Lock()
        self._due: dict[socket.socket, float] = {}
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; with too many at once, the client that has dawdled longest is cut.

        An honest client asks within milliseconds: one is answered however many there are that drip or hang.
        """
        with self._lock:
            if len(self._due) >= MAX_CONNECTIONS:
                slowest = min(self._due, key=lambda one: self._due[one])
                # All of them wait for us: this one has to come again.
                chosen = request if self._due[slowest] == math.inf else slowest
                self._due.pop(chosen, None)
                _cut(chosen)
        self.give_time(request)
        super().process_request(request, client_address)

    def give_time(self, request: socket.socket, seconds: float | None = None) -> None:
        """Let the client take so long (None: `REQUEST_SECONDS`) from now on; inf while it waits for us."""
        with self._lock:
            self._due[request] = time.monotonic() + (REQUEST_SECONDS if seconds is None else seconds)

    def service_actions(self) -> None:
        """Cut the clients whose time is over, however they drip; called twice a second and oftener."""
        now = time.monotonic()
        with self._lock:
            late = [one for one, due in self._due.items() if due < now]
            for request in late:
                del self._due[request]
                _cut(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and make room for another."""
        with self._lock:
            self._due.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's
        """Say nothing of clients that went away: there is nobody to act on it. Anything else is a bug."""
        if not isinstance(sys.exception(), OSError):
            _log.error("endpoint_failed", exc_info=True)


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

    def _serve(self) -> None:
        """Answer, or refuse what is no request of ours."""
        manners = self.server.manners
        length = self._body_length()
        refusal = manners.admit(self.headers)
        if self.command not in manners.methods:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        elif isinstance(length, HTTPStatus):
            self.send_error(length)
        elif refusal is not None:
            self.rfile.read(min(length, _THROWN_AWAY))
            self._answer(refusal)
        else:
            self._pass_on(self.rfile.read(length))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server finds methods by these names

    def _pass_on(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        request = Request(method=self.command, path=path, query=query, headers=self.headers, body=body)
        # What the answer waits for is no fault of the client's.
        self.server.give_time(self.request, math.inf)
        self._answer(self.server.manners.answer(request))

    def _body_length(self) -> int | HTTPStatus:
        """How many bytes follow the headers, or why they are not read."""
        if "Transfer-Encoding" in self.headers:
            return HTTPStatus.LENGTH_REQUIRED
        length = str(self.headers.get("Content-Length", "0")).strip()
        if not (length.isascii() and length.isdigit()):
            return HTTPStatus.BAD_REQUEST
        # Ten digits are more than any limit; what is longer need not be made a number.
        if len(length) > 10 or int(length) > self.server.manners.max_body:  # noqa: PLR2004 - see above
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return int(length)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer in the words of the server's own refusals, without a word of what the client sent."""
        del message, explain
        # Whatever version was asked for, if any: an answer without a head would be taken for a page.
        self.request_version = self.protocol_version
        # The base class's word for a method that has no function here.
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._answer(self.server.manners.refuse(status, status.phrase))

    def _answer(self, response: Response) -> None:
        self.server.give_time(self.request)
        self.send_response(response.status)
        if response.status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", response.content_type)
            if response.more is None:
                self.send_header("Content-Length", str(len(response.body)))
        for name, value in response.headers:
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if response.status is HTTPStatus.METHOD_NOT_ALLOWED and "Allow" not in dict(response.headers):
            self.send_header("Allow", ", ".join(sorted(self.server.manners.methods)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(response.body)
        for piece in response.more or ():
            self.server.give_time(self.request)
            self.wfile.write(piece)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Nothing: probes and scrapes every few seconds are no news."""
