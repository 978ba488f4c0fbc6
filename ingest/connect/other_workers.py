"""The other workers of a group: which live, and requests passed on to them.

A worker lives that was heard of lately, unless its process is seen to be gone before.
"""

import http.client
import math
import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from email.message import Message
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import structlog

from headrace.kafka.control_records import WorkersRecord
from headrace.model.errors import HeadraceError
from ingest.connect.hosted_connectors import assign
from ingest.http.http_server import Request, Response
from ingest.http.rest.auth import INTERNAL
from ingest.http.rest.server import FORWARDED

_log = structlog.get_logger(__name__)


# Who led before is gone, or is heard of within this time.
_FORMER_LEADER_SECONDS: Final = 3.0
# Who led longer ago than so many sessions forgets how long others were silent then: four may take turns.
_REMEMBERED_SESSIONS: Final = 3
# Heartbeats come every second: one that is late is asked after.
_LATE_SECONDS: Final = 1.5
_PROBE_SECONDS: Final = 1.0


ADVERTISE: Final = (
    "give each a rest.advertised.host.name (and rest.advertised.port) under which the others reach it and no "
    "other one"
)


class Liveness:
    """Thread-safe. A worker is alive until it leaves, is silent for a session, or its address refuses us.

    Only a refused connection counts: then the machine says that nothing listens there. An address that does
    not answer may be one that we alone do not reach, so such a worker keeps its session.
    """

    def __init__(
        self,
        own_id: str,
        *,
        session_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        refuses: Callable[[str], bool] | None = None,
    ) -> None:
        self._own_id = own_id
        self._session_seconds = session_seconds
        self._clock = clock
        self._refuses = refuses or refuses_connections
        self._lock = threading.Lock()
        self._heard: dict[str, tuple[float, str | None]] = {}
        self._gone: set[str] = set()
        self._displaced: set[str] = set()
        self._shared: set[str] = set()
        self._led_at = -math.inf

    @property
    def problem(self) -> str | None:
        """That several workers live at one address, where requests reach any of them; None otherwise."""
        urls = [url for _, url in self._heard.copy().values()]
        found = sorted(url for url in self._shared.copy() if urls.count(url) > 1)
        return f"several workers have the address {found[0]}: {ADVERTISE}" if found else None

    def on_heartbeat(self, name: str, url: str | None) -> None:
        """A worker says that it lives; the one that had its address before does not."""
        with self._lock:
            former = [one for one, (_, known) in self._heard.items() if url and known == url and one != name]
            if name in self._displaced:
                # It was not gone: several processes have this address, and live.
                self._shared.add(str(url))
            if url not in self._shared:
                for one in former:
                    del self._heard[one]
                self._displaced.update(former)
            self._heard[name] = (self._clock(), url)
            self._gone.discard(name)

    def on_leaving(self, name: str) -> None:
        """A worker says that it ends."""
        with self._lock:
            self._heard.pop(name, None)

    def on_refused(self, name: str) -> None:
        """Nothing listens at the worker's address any more."""
        with self._lock:
            self._gone.add(name)
            self._heard.pop(name, None)

    def on_answered(self, name: str) -> None:
        """The worker has answered us: it was not gone."""
        with self._lock:
            self._gone.discard(name)

    def expect(self, before: WorkersRecord | None, *, only_known: bool = False) -> None:
        """Wait for the workers of before as if they had just been heard of; shortly for who led.

        Who leads again has received no heartbeat meanwhile: that time is no reason to wait less. How long one
        was silent before is, or a dead one was never missed where the lead changes faster than a session.
        `only_known` leaves out who has not been heard of, or has left.
        """
        if before is None:
            return
        now, session = self._clock(), self._session_seconds
        least = now - session + min(_FORMER_LEADER_SECONDS, session)
        with self._lock:
            away = now - self._led_at
            self._heard = {
                # Whom it does not name another leader has missed.
                name: one
                for name, one in self._heard.items()
                if name in before.workers or one[0] > self._led_at
            }
            for name, worker in before.workers.items():
                known, granted = self._heard.get(name), now
                if name == self._own_id or name in self._gone or (only_known and known is None):
                    continue
                if name == before.leader:
                    granted = least
                elif known is not None and away < _REMEMBERED_SESSIONS * session:
                    granted = min(now, max(least, known[0] + away))
                if known is None or known[0] < granted:
                    self._heard[name] = (granted, worker.url)

    def others(self) -> dict[str, str | None]:
        """The addresses of the other workers that live, for who leads them."""
        with self._lock:
            now = self._led_at = self._clock()
            self._heard = {
                name: one for name, one in self._heard.items() if now - one[0] < self._session_seconds
            }
            return {name: url for name, (_, url) in self._heard.items() if name != self._own_id}

    def probe(self) -> None:
        """Ask after the workers whose heartbeats are late. Blocks for a second each at most."""
        with self._lock:
            now = self._clock()
            late = [(name, url) for name, (at, url) in self._heard.items() if now - at > _LATE_SECONDS]
        for name, url in late:
            if url is not None and self._refuses(url):
                self.on_refused(name)

    def adopted(self, workers: WorkersRecord | None, connectors: set[str]) -> tuple[str, ...]:
        """The connectors of this worker once the leader of `workers`, which is gone, is replaced.

        Before there is a new leader each worker joins for those that will be its own: their leaderships
        still wait for the end of the dead worker's sessions, and are taken up the moment these are over. Two
        workers that disagree harm nothing: a connector's own group gives its lead to one of them.
        """
        with self._lock:
            if workers is None or workers.leader not in self._gone or self._own_id not in workers.workers:
                return ()
            living = {name for name in workers.workers if name not in self._gone}
        had = {name: one.connectors for name, one in workers.workers.items()}
        return assign(connectors, living, had)[self._own_id]


# How often the brokers are asked, by a worker that does not lead.
_ASK_SECONDS: Final = 2.0


class BrokerContact:
    """Whether the brokers answer this worker, which others may reach all the same. One thread asks.

    A member of the group that does not lead receives no word when its session is over, and its heartbeats to
    the leader go another way: without this it would keep connectors that it cannot run.
    """

    def __init__(
        self,
        ask: Callable[[], object],
        *,
        session_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._session_seconds = session_seconds
        self._clock = clock
        self._heard_at = self._asked_at = clock()
        self._error: str | None = None
        self._was_silent = False

    @property
    def problem(self) -> str | None:
        """That they have not answered for a session, in a sentence; None as long as they do."""
        error = self._error
        if error is None or self._clock() - self._heard_at < self._session_seconds:
            return None
        return (
            f"Kafka does not answer this worker, so that others of its group take its connectors: {error} "
            "Check the network between this machine and bootstrap.servers"
        )

    def on_heard(self) -> None:
        """They have answered just now."""
        self._heard_at, self._error = self._clock(), None
        if self._was_silent:
            self._was_silent = False
            _log.info("brokers_answered")

    def on_lost(self) -> None:
        """The lead is lost, as it is when they were silent for a session: the next answer tells."""
        self._heard_at = min(self._heard_at, self._clock() - self._session_seconds)
        self._asked_at = self._clock() - _ASK_SECONDS

    def look(self) -> None:
        """Ask them, if it is time to. Blocks for as long as `ask` does."""
        if self._clock() - self._asked_at < min(_ASK_SECONDS, self._session_seconds / 4):
            return
        try:
            self._ask()
        except HeadraceError as error:
            self._error = str(error)
        else:
            self.on_heard()
        self._asked_at = self._clock()
        problem = self.problem
        if problem is not None and not self._was_silent:
            self._was_silent = True
            _log.warning("brokers_silent", error=problem)


def refuses_connections(url: str) -> bool:
    """Whether the machine of this address says that nothing listens there."""
    with suppress(OSError):
        try:
            socket.create_connection(_address(url), timeout=_PROBE_SECONDS).close()
        except ConnectionRefusedError:
            return True
    return False


# What a change or a large ledger may take, as long as the worker answers others meanwhile.
ANSWER_SECONDS: Final = 100.0
# After this long without an answer the worker is asked whether it answers at all.
_SILENT_SECONDS: Final = 10.0
_FORWARDING_PROBE_SECONDS: Final = 2.0
# So much of a streamed answer is held at a time.
_CHUNK_BYTES: Final = 1024 * 1024
_PASSED_ON: Final = ("Content-Type", "Authorization", "Accept")
_BLANK: Final = re.compile(r"[\x00-\x20\x7f]")
_PASSED_BACK: Final = ("Location", "Allow", "Retry-After")

GROUP: Final = "Headrace-Group"
"""Of which group a worker is that asks another one, or answers 421; earlier versions do not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """As who a worker asks others: by one of these `authorizations`, of the group of this `group_mark`."""

    authorizations: Sequence[str] = ()
    group: str = ""


def group_mark(group: str, cluster_id: str | None) -> str:
    """A group of one Kafka cluster, as `GROUP` names it: groups of several may have the same `group.id`."""
    return f"{cluster_id or ''}/{quote(group, safe='')}"


def is_of_other_group(said: str | None, own: str) -> bool:
    """Whether these are marks of two groups; False where one is not known."""
    if not said or not own:
        return False
    (cluster, _, group), (own_cluster, _, own_group) = said.partition("/"), own.partition("/")
    return group != own_group or (cluster != own_cluster and "" not in {cluster, own_cluster})


class WorkerSilent(OSError):
    """The worker accepts connections, or its machine does, and nothing comes back."""


class OtherGroup(OSError):
    """A worker of another group answers at this address, and has done nothing."""

    def __init__(self, mark: str) -> None:
        cluster, _, group = mark.partition("/")
        where = f" on the cluster {cluster}" if cluster else ""
        super().__init__(
            f"a worker of another group answers there (group.id={unquote(group)}{where}): {ADVERTISE}"
        )


def forward_as_worker(url: str, request: Request, sender: Sender, *, seconds: float) -> Response:
    """Another worker's answer to this request, sent in this worker's own name where no other's is accepted.

    Its sender was admitted here, and files with passwords are not replaced on all machines at once.
    Blocks and raises as `forward`.
    """
    given = request.headers.get("Authorization")
    answer = None
    for authorization in ([] if given is None else [str(given)]) + list(sender.authorizations):
        headers = Message()
        for name, value in request.headers.items():
            if name.lower() != "authorization":
                headers[name] = value
        headers["Authorization"] = authorization
        answer = forward(url, replace(request, headers=headers), group=sender.group, seconds=seconds)
        if answer.status is not HTTPStatus.UNAUTHORIZED:
            return answer
    return answer or forward(url, request, group=sender.group, seconds=seconds)


def forward(
    url: str,
    request: Request,
    *,
    group: str = "",
    seconds: float = ANSWER_SECONDS,
    silent_seconds: float = _SILENT_SECONDS,
) -> Response:
    """Another worker's answer to this request. Blocks for `seconds` at most.

    WorkerSilent when nothing comes for `silent_seconds`, to a plain question either: its process is stopped
    or hangs, or its machine is cut off. OtherGroup when it is of another one than `group`. OSError when it
    does not answer for another reason.
    """
    headers = {name: str(request.headers[name]) for name in _PASSED_ON if request.headers[name] is not None}
    path = f"{request.path}?{request.query}" if request.query else request.path
    began, connection, more = time.monotonic(), _connection(url, min(seconds, silent_seconds)), None
    try:
        sent = headers | {FORWARDED: "1"} | ({GROUP: group} if group else {})
        connection.request(request.method, path, body=request.body, headers=sent)
        _await_answer(connection, url, headers, seconds=seconds, silent_seconds=silent_seconds)
        answer = connection.getresponse()
        other = answer.getheader(GROUP)
        if answer.status == HTTPStatus.MISDIRECTED_REQUEST and other is not None:
            raise OtherGroup(other)
        status = _status(answer.status)
        # Only a stream may be large; all others are read to their ends, which are known.
        body = answer.read(_CHUNK_BYTES if answer.chunked else None)
        more = _rest(connection, answer) if answer.chunked and len(body) == _CHUNK_BYTES else None
        found = [(name, answer.getheader(name)) for name in _PASSED_BACK]
        return Response(
            status,
            answer.getheader("Content-Type"),
            body,
            headers=tuple((name, value) for name, value in found if value is not None),
            more=more,
        )
    except http.client.HTTPException as error:
        raise OSError(f"it answered {error!r}") from error
    except TimeoutError as error:
        raise WorkerSilent(f"it has not answered for {time.monotonic() - began:.0f} s") from error
    finally:
        if more is None:
            connection.close()


def _rest(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """What comes after the first chunk. OSError where the answer is cut off."""
    with closing(connection):
        try:
            while chunk := answer.read(_CHUNK_BYTES):
                yield chunk
        except http.client.HTTPException as error:
            raise OSError(f"it answered {error!r}") from error


def tell_leader(url: str, name: str, method: str, body: bytes, sender: Sender, seconds: float) -> HTTPStatus:
    """The answer of the worker that leads to one of this name that lives (PUT), or leaves (DELETE)."""
    request = Request(method=method, path=f"{INTERNAL}workers/{name}", query="", headers=Message(), body=body)
    return forward_as_worker(url, request, sender, seconds=seconds).status


def refusal_of(url: str, status: HTTPStatus) -> str | None:
    """Why the worker that leads does not count this one in; None where it does, or is about to."""
    if status is HTTPStatus.UNAUTHORIZED:
        return (
            f"the worker that leads, at {url}, refuses this one's user and password ({int(status)}): "
            "rest.auth.file has to be the same on all workers of a group"
        )
    if status is HTTPStatus.FORBIDDEN:
        return (
            f"the worker that leads, at {url}, refuses what this one tells it ({int(status)}): a proxy "
            "between them has to keep Host, and may add no Origin"
        )
    return None


def _status(code: int) -> HTTPStatus:
    """The status of an answer. OSError for one that no worker gives: a proxy answers in its place."""
    try:
        return HTTPStatus(code)
    except ValueError as error:
        raise OSError(f"a proxy answers in its place, with the status {code}") from error


def _await_answer(
    connection: http.client.HTTPConnection,
    url: str,
    headers: Mapping[str, str],
    *,
    seconds: float,
    silent_seconds: float,
) -> None:
    """Return when the answer begins. TimeoutError when the worker is silent, or `seconds` are over."""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        while not selector.select(max(0.0, min(silent_seconds, deadline - time.monotonic()))):
            if time.monotonic() >= deadline or not _answers(url, headers):
                raise TimeoutError


def _answers(url: str, headers: Mapping[str, str]) -> bool:
    """Whether the worker answers a plain question, whatever it says: one that does is only slow."""
    connection = _connection(url, _FORWARDING_PROBE_SECONDS)
    try:
        connection.request("GET", "/", headers={**headers, FORWARDED: "1"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _connection(url: str, seconds: float) -> http.client.HTTPConnection:
    host, port = _address(url)
    return http.client.HTTPConnection(host, port, timeout=seconds)


def _address(url: str) -> tuple[str, int]:
    """The host and the port of a worker. OSError where it has none: earlier versions took any text for it."""
    try:
        where = urlsplit(url)
        host, port = where.hostname or "", where.port or 80
        host.encode("idna")
    except ValueError:
        host, port = "", 0
    if not host or _BLANK.search(host):
        raise OSError("its rest.advertised.host.name is not a host")
    return host, port
