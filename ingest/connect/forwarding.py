"""Requests that a worker passes on to another one, and how long it waits for the answer."""

import http.client
import selectors
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from email.message import Message
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from ingest.http.http_server import Request, Response
from ingest.http.rest.server import FORWARDED

# What a change or a large ledger may take, as long as the worker answers others meanwhile.
ANSWER_SECONDS: Final = 100.0
# After this long without an answer the worker is asked whether it answers at all.
_SILENT_SECONDS: Final = 10.0
_PROBE_SECONDS: Final = 2.0
_PASSED_ON: Final = ("Content-Type", "Authorization", "Accept")
_PASSED_BACK: Final = ("Location", "Allow", "Retry-After")


class WorkerSilent(OSError):
    """The worker accepts connections, or its machine does, and nothing comes back."""


def forward_as_worker(
    url: str, request: Request, authorizations: Sequence[str], *, seconds: float
) -> Response:
    """Another worker's answer to this request, sent in this worker's own name where no other's is accepted.

    Its sender was admitted here, and files with passwords are not replaced on all machines at once.
    Blocks and raises as `forward`.
    """
    given = request.headers.get("Authorization")
    answer = None
    for authorization in ([] if given is None else [str(given)]) + list(authorizations):
        headers = Message()
        for name, value in request.headers.items():
            if name.lower() != "authorization":
                headers[name] = value
        headers["Authorization"] = authorization
        answer = forward(url, replace(request, headers=headers), seconds=seconds)
        if answer.status is not HTTPStatus.UNAUTHORIZED:
            return answer
    return answer or forward(url, request, seconds=seconds)


def forward(
    url: str,
    request: Request,
    *,
    seconds: float = ANSWER_SECONDS,
    silent_seconds: float = _SILENT_SECONDS,
) -> Response:
    """Another worker's answer to this request. Blocks for `seconds` at most.

    WorkerSilent when nothing comes for `silent_seconds`, to a plain question either: its process is stopped
    or hangs, or its machine is cut off. OSError when it does not answer for another reason.
    """
    headers = {name: str(request.headers[name]) for name in _PASSED_ON if request.headers[name] is not None}
    path = f"{request.path}?{request.query}" if request.query else request.path
    began, connection = time.monotonic(), _connection(url, min(seconds, silent_seconds))
    try:
        connection.request(request.method, path, body=request.body, headers=headers | {FORWARDED: "1"})
        _await_answer(connection, url, headers, seconds=seconds, silent_seconds=silent_seconds)
        answer = connection.getresponse()
        body = answer.read()
        found = [(name, answer.getheader(name)) for name in _PASSED_BACK]
        return Response(
            _status(answer.status),
            answer.getheader("Content-Type"),
            body,
            headers=tuple((name, value) for name, value in found if value is not None),
        )
    except http.client.HTTPException as error:
        raise OSError(f"it answered {error!r}") from error
    except TimeoutError as error:
        raise WorkerSilent(f"it has not answered for {time.monotonic() - began:.0f} s") from error
    finally:
        connection.close()


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
    connection = _connection(url, _PROBE_SECONDS)
    try:
        connection.request("GET", "/", headers={**headers, FORWARDED: "1"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _connection(url: str, seconds: float) -> http.client.HTTPConnection:
    where = urlsplit(url)
    return http.client.HTTPConnection(where.hostname or "", where.port, timeout=seconds)
