"""What answers over HTTP: small, in threads of its own, and unharmed by slow or malformed clients."""

import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from string import punctuation
from typing import Any, Final, Self
from urllib.parse import quote

import structlog

from headrace.model.errors import InvalidConfiguration
from headrace.model.text_formatting import json_text, printable
from headrace.process.threads import start_thread
from ingest.http.requests import HeadLines, body_length, is_local, is_loopback, origin_form, read_body

_log = structlog.get_logger(__name__)

# A request has to arrive, and each part of an answer be taken, within this time.
REQUEST_SECONDS: Final = 10.0
# When there are more connections than this, one that has asked for nothing yet is refused: the oldest.
MAX_CONNECTIONS: Final = 512
# So many requests are carried out at once: one more is refused, and answers that it was not carried out.
MAX_REQUESTS: Final = 256
RETRY: Final = (("Retry-After", "1"),)
_DEFECT: Final = "This request met a defect of Headrace; the log has it as endpoint_failed"
_BUSY: Final = "There are too many requests at once; this one was not carried out: send it again"
# What is being answered when the server closes gets so much time.
_CLOSING_SECONDS: Final = 2.0


class AddressTaken(InvalidConfiguration):
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
    """What a route gives back; `more` follows the body, chunk by chunk, where all of it would be large."""

    status: HTTPStatus
    content_type: str | None
    """None for an answer without a body."""
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    more: Iterator[bytes] | None = None

    @classmethod
    def of_json(cls, shape: Any, status: HTTPStatus = HTTPStatus.OK) -> Self:
        """A JSON answer, indented for people who look at it with curl."""
        body = json_text(shape, indent=2).encode() + b"\n"
        return cls(status, "application/json; charset=utf-8", body)

    @classmethod
    def empty(cls, status: HTTPStatus) -> Self:
        """An answer without a body: it has no type either, as clients parse what has one."""
        return cls(status, None, b"")

    @classmethod
    def of_text(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> Self:
        """A plain text answer."""
        return cls(status, "text/plain; charset=utf-8", text.encode())


Route = Callable[[], Response]
Answer = Callable[[Request], Response]
"""Called in the thread of its connection; it may block."""
Refuse = Callable[[HTTPStatus, str], Response]
Admit = Callable[[str, Message], Response | None]
"""Called with path and headers before a body is read: the answer to a client that may not ask, else None."""

# So much of a body is read and thrown away, so that a client that may not ask gets to read the answer.
_THROWN_AWAY: Final = 65_536


class HttpServer:
    """A server of HTTP/1.1; a body above `max_body` bytes is 413.

    A request is answered or it is not carried out: what is begun is never cut to make room. Beyond the limits
    503 says so, but not to the paths of `is_vital`, on which others decide whether this process is alive.

    `methods` are all that `answer` is asked for, everything else is 405; None: it decides by itself.
    `option` names what the address comes from. `refuse` words what never reaches `answer`, and `admit` keeps
    from it who may not ask. On loopback a request has to name this machine as its Host, or one of
    `host_names`; None admits every name.
    """

    def __init__(
        self,
        host: str,
        port: int,
        answer: Answer,
        *,
        option: str,
        methods: frozenset[str] | None,
        max_body: int = 0,
        refuse: Refuse = lambda status, text: Response.of_text(f"{text}\n", status),
        admit: Admit = lambda _path, _headers: None,
        host_names: frozenset[str] | None = frozenset(),
        is_vital: Callable[[str], bool] = lambda path: path.startswith("/health"),
    ) -> None:
        manners = _ServerRules(
            answer=answer,
            methods=methods,
            max_body=max_body,
            refuse=refuse,
            admit=admit,
            host_names=None if host_names is None or not is_loopback(host) else {host, *host_names},
            option=option,
            is_vital=is_vital,
        )
        try:
            self._server = _Server((host, port), manners)
        except OSError as error:
            raise AddressTaken(
                f"{option}: cannot listen on {host}:{port} ({error.strerror}). "
                "Choose a free address, or set it to an empty value to switch it off."
            ) from error
        self._option = option

    @property
    def port(self) -> int:
        """The port listened on, which the system chose where 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer; returns at once."""
        start_thread(self._server.serve_forever, name=self._option)

    def close(self) -> None:
        """Stop listening, give what is being answered a moment, and drop all connections."""
        # Its thread looks every half second whether it is to end; what happens to its socket wakes it.
        with suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.finish(_CLOSING_SECONDS)
        self._server.server_close()


_WRONG_HOST: Final = (
    "The request's Host is no name of this machine: on loopback {} answers to localhost, to an IP address "
    "and to the machine's own name, because a web page can bind any other name to it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerRules:
    """How a server answers; see HttpServer."""

    answer: Answer
    methods: frozenset[str] | None
    max_body: int
    refuse: Refuse
    admit: Admit
    host_names: Collection[str] | None
    option: str
    is_vital: Callable[[str], bool]

    def busy(self) -> Response:
        """The answer to a request that there is no place for."""
        refused = self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
        return replace(refused, headers=(*refused.headers, *RETRY))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # The kernel's queue of connections that nobody has accepted yet: a burst must not make a probe wait.
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, address: tuple[str, int], manners: "_ServerRules") -> None:
        self.manners = manners
        self._lock = threading.Condition()
        # Until when a client may take its time; inf while it waits for us.
        self._due: dict[socket.socket, float] = {}
        # What is being carried out or answered, and whether it takes one of the places for requests.
        self._begun: dict[socket.socket, bool] = {}
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; with too many at once, who has dawdled longest is refused.

        An honest client asks within milliseconds: one is answered however many there are that drip or hang.
        """
        refused = None
        with self._lock:
            self._due[request] = time.monotonic() + REQUEST_SECONDS
            if len(self._due) > MAX_CONNECTIONS:
                idle = [one for one in self._due if one not in self._begun]
                refused = min(idle, key=lambda one: self._due[one])
                del self._due[refused]
        if refused is not None:
            _refuse_at_once(refused, self.manners.busy())
        if refused is request:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def give_time(self, request: socket.socket, seconds: float | None = None) -> None:
        """Let the client take so long (None: `REQUEST_SECONDS`) from now on; inf while it waits for us."""
        with self._lock:
            if request in self._due:
                self._due[request] = time.monotonic() + (REQUEST_SECONDS if seconds is None else seconds)

    def begin(self, request: socket.socket, *, takes_place: bool) -> bool:
        """Whether there is a place to carry the request out; then it has as long as it takes.

        ConnectionAbortedError when the connection was refused meanwhile: nothing of it may be carried out.
        """
        with self._lock:
            if request not in self._due:
                raise ConnectionAbortedError
            if takes_place and sum(self._begun.values()) >= MAX_REQUESTS:
                return False
            self._begun[request] = takes_place
            self._due[request] = math.inf
            return True

    def end(self, request: socket.socket) -> None:
        """The request is answered: its client may send the next one."""
        with self._lock:
            self._begun.pop(request, None)
            self._lock.notify_all()
        self.give_time(request)

    def finish(self, seconds: float) -> None:
        """Return when all that is begun is answered, or this time is over."""
        with self._lock:
            self._lock.wait_for(lambda: not self._begun, seconds)

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
            self._begun.pop(request, None)
            self._lock.notify_all()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's
        """Say nothing of clients that went away: there is nothing to do about it. Anything else is a bug."""
        if not isinstance(sys.exception(), OSError):
            _log.error("endpoint_failed", exc_info=True)


def _refuse_at_once(connection: socket.socket, refusal: Response) -> None:
    """Answer a connection on which nothing was carried out, without waiting for anything, and close it.

    Over a socket of its own: Python waits at one with a time limit, whatever the flags of a call are.
    """
    head = (
        f"HTTP/1.1 {int(refusal.status)} {refusal.status.phrase}\r\nContent-Type: {refusal.content_type}\r\n"
        f"Content-Length: {len(refusal.body)}\r\nConnection: close\r\n"
    )
    lines = "".join(f"{name}: {value}\r\n" for name, value in refusal.headers)
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as at_once:
        # What is left unread would make the kernel reset the connection, and the answer could be lost.
        with suppress(BlockingIOError):
            at_once.recv(_THROWN_AWAY, socket.MSG_DONTWAIT)
        at_once.send(f"{head}{lines}\r\n".encode() + refusal.body, socket.MSG_DONTWAIT)
    _cut(connection)


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
    protocol_version = "HTTP/1.1"
    # Head and body leave together: in two pieces the second would wait for the first one's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    raw_requestline: bytes  # the base class's

    def handle_one_request(self) -> None:
        """Give a connection that is kept the time of one request for the next one, then serve it."""
        self.server.end(self.request)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Whether the head was read; one with a return within a line is refused, too."""
        stream = self.rfile
        self.rfile = head = HeadLines(self.raw_requestline, stream)
        try:
            is_parsed = super().parse_request()
        finally:
            self.rfile = stream
        if is_parsed and head.is_ambiguous:
            self.send_error(HTTPStatus.BAD_REQUEST)
        return is_parsed and not head.is_ambiguous

    def _serve(self) -> None:
        """Answer, or refuse what is no request of ours."""
        manners = self.server.manners
        self.path, named = origin_form(self.path)
        is_current = self.request_version == self.protocol_version
        length = body_length(self.headers, most=manners.max_body, is_current=is_current)
        if manners.methods is not None and self.command not in manners.methods:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        elif not self._names_us(named):
            self._refuse(HTTPStatus.FORBIDDEN, _WRONG_HOST.format(manners.option))
        elif isinstance(length, HTTPStatus):
            self.send_error(length)
        elif (refusal := manners.admit(self.path, self.headers)) is not None:
            is_long = length is not None and length > _THROWN_AWAY
            thrown = read_body(self.rfile, _THROWN_AWAY if is_long else length, most=_THROWN_AWAY)
            self._answer(refusal, ends=is_long or isinstance(thrown, HTTPStatus))
        elif isinstance(body := read_body(self.rfile, length, most=manners.max_body), HTTPStatus):
            self.send_error(body)
        else:
            self._pass_on(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815 - http.server finds methods by these names

    def _names_us(self, named: str | None) -> bool:
        """Whether the Host, and one in the target, is a name of ours; who sends none is no browser."""
        names, hosts = self.server.manners.host_names, (self.headers.get("Host"), named)
        return names is None or all(host is None or is_local(str(host), names) for host in hosts)

    def _pass_on(self, body: bytes) -> None:
        # http.server reads the line as Latin-1: what a client sent as it is, often UTF-8, is encoded here.
        path, _, query = quote(self.path.encode("latin-1"), safe=punctuation).partition("?")
        request = Request(method=self.command, path=path, query=query, headers=self.headers, body=body)
        manners = self.server.manners
        # What the answer waits for is no fault of the client's.
        if self.server.begin(self.request, takes_place=not manners.is_vital(path)):
            self._answer(self._answer_to(request))
        else:
            self._answer(manners.busy(), ends=True)

    def _answer_to(self, request: Request) -> Response:
        """The answer; 500 for a defect: a connection that ends looks to clients like a broken network."""
        manners = self.server.manners
        try:
            return manners.answer(request)
        except Exception:  # noqa: BLE001 - the log has it, and the client an answer
            _log.exception("endpoint_failed", method=request.method, path=printable(request.path))
            return manners.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, _DEFECT)

    def handle_expect_100(self) -> bool:
        """Ask for the body at once: what is written waits for the rest of an answer otherwise."""
        asked = super().handle_expect_100()
        self.wfile.flush()
        return asked

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer in the words of the server's own refusals, without a word of what the client sent."""
        del message, explain
        # Whatever version was asked for, if any: an answer without a head would be taken for a page.
        if self.request_version not in {"HTTP/1.0", "HTTP/1.1"}:
            self.request_version = self.protocol_version
        if code == HTTPStatus.NOT_IMPLEMENTED and self.server.manners.methods is None:
            # The base class has no function for this method; the routes say which there are.
            self._serve()
            return
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        most = self.server.manners.max_body
        too_large = f"The body is larger than the {most:,} bytes that are read; send it in several requests"
        said = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: too_large} if most else {}
        self._refuse(status, said.get(status, status.phrase))

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        # A body that was not read would be taken for the next request.
        self._answer(self.server.manners.refuse(status, text), ends=True)

    def _answer(self, response: Response, *, ends: bool = False) -> None:
        # Once begun it is not cut to make room for others, only when the client does not take it.
        self.server.give_time(self.request)
        in_chunks = response.more is not None and self.request_version == "HTTP/1.1"
        self.send_response(response.status)
        self._send_framing(response, in_chunks=in_chunks, ends=ends)
        for name, value in response.headers:
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        methods = self.server.manners.methods
        if response.status is HTTPStatus.METHOD_NOT_ALLOWED and methods is not None:
            self.send_header("Allow", ", ".join(sorted(methods)))
        self.end_headers()
        if self.command != "HEAD":
            self._send_body(response, in_chunks=in_chunks)
        self.wfile.flush()

    def _send_framing(self, response: Response, *, in_chunks: bool, ends: bool) -> None:
        """The headers that say what follows, and where it ends."""
        if response.content_type is not None:
            self.send_header("Content-Type", response.content_type)
        if in_chunks:
            self.send_header("Transfer-Encoding", "chunked")
        elif response.more is None and response.status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(response.body)))
        if ends or self.close_connection or (response.more is not None and not in_chunks):
            # The base class closes the connection when this header is sent.
            self.send_header("Connection", "close")

    def _send_body(self, response: Response, *, in_chunks: bool) -> None:
        self._send(response.body, in_chunks=in_chunks)
        for chunk in response.more or ():
            self.server.give_time(self.request)
            self._send(chunk, in_chunks=in_chunks)
        if in_chunks:
            self.wfile.write(b"0\r\n\r\n")

    def _send(self, chunk: bytes, *, in_chunks: bool) -> None:
        if in_chunks and chunk:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        elif chunk:
            self.wfile.write(chunk)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Nothing: probes and scrapes every few seconds are no news."""
