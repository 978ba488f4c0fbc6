"""Connect's REST interface of a worker: what it answers itself, and what it passes to another one."""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from email.message import Message
from functools import partial
from http import HTTPStatus
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote

from headrace.kafka.control_records import ConnectorRecord, WorkersRecord
from headrace.model.errors import HeadraceError, InvalidLedger
from headrace.process.threads import SystemLimit, start_thread
from ingest.connect.changes import ConnectorChanges
from ingest.connect.other_workers import (
    ADVERTISE,
    ANSWER_SECONDS,
    GROUP,
    OtherGroup,
    Sender,
    WorkerSilent,
    forward_as_worker,
    is_of_other_group,
)
from ingest.connect.worker_view import WorkerDirectory
from ingest.http.http_server import RETRY, Request, Response
from ingest.http.rest.auth import INTERNAL
from ingest.http.rest.plugins import texts_of
from ingest.http.rest.port import NotLeading
from ingest.http.rest.rest_routes import LIST_SECONDS, READS, RestRoutes, info_of
from ingest.http.rest.router import Acts, Call, Refused, conflict, error_response, refusing
from ingest.http.rest.server import FORWARDED

_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")
_CREATION_FIELDS: Final = frozenset({"name", "config", "initial_state"})
_CONNECTOR_SEGMENTS: Final = 2
# What workers ask each other for, and how.
_INTERNAL_ACTS: Final = {"reading": {"GET"}, "workers": {"PUT", "DELETE"}}
# Longer than each waits for its own (docs/rest.md): with one that hangs it answers only then.
_LIST_SECONDS: Final = LIST_SECONDS + 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Which worker this is among those of its group."""

    own_id: str
    own_url: Callable[[], str | None]
    """Where others ask this worker; None while it is not known."""
    workers: Callable[[], WorkersRecord | None]
    is_leading: Callable[[], bool]
    on_heartbeat: Callable[[str, str | None], None]
    on_leaving: Callable[[str], None]
    sender: Callable[[], Sender]
    """As who this worker talks to the others."""
    reading: Callable[[str], Sequence[str]]
    """The keys of what a connector that runs here reads now. NotLeading until it leads."""
    read_to_end: Callable[[], HeadraceError | None]
    """Has known here what other workers have written until now; why it cannot be read, or None."""


def changing_acts(changes: ConnectorChanges, directory: WorkerDirectory) -> Mapping[str, Acts]:
    """What creates, configures and deletes connectors, for the worker that leads."""

    def shown(record: ConnectorRecord, status: HTTPStatus) -> Response:
        answer = Response.of_json(info_of(directory.served(record)), status)
        if status is not HTTPStatus.CREATED:
            return answer
        where = (("Location", f"/connectors/{quote(record.name, safe='')}"),)
        return Response(answer.status, answer.content_type, answer.body, headers=where)

    def create(call: Call) -> Response:
        name, config, state = _creation(call.json())
        return shown(changes.create(name, config, initial_state=state), HTTPStatus.CREATED)

    def configure(call: Call) -> Response:
        name, config = call.names[0], _whole_config(call.json())
        _require_same_name(name, config.get("name"))
        record, is_new = changes.configure(name, config)
        return shown(record, HTTPStatus.CREATED if is_new else HTTPStatus.OK)

    def patch(call: Call) -> Response:
        body = call.json()
        if not isinstance(body, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "The body has to be a JSON object of options to change")
        removed = [option for option, value in body.items() if value is None]
        _require_same_name(call.names[0], body.get("name"))
        record = changes.patch(call.names[0], {**texts_of(body), **dict.fromkeys(removed)})
        return shown(record, HTTPStatus.OK)

    def delete(call: Call) -> Response:
        changes.delete(call.names[0])
        return Response.empty(HTTPStatus.NO_CONTENT)

    one = "connectors/*"
    return {
        "connectors": {"POST": create},
        one: {"DELETE": delete},
        f"{one}/config": {"PUT": configure, "PATCH": patch},
    }


def refused_acts(folder: str) -> Mapping[str, Acts]:
    """The same where connectors are files: refused, with the folder."""
    refuse = refusing(
        f"the connectors of this worker are the files in {folder} (--connectors): add, change or remove one "
        "there, and it is taken up"
    )
    one = "connectors/*"
    return {
        "connectors": {"POST": refuse},
        one: {"DELETE": refuse},
        f"{one}/config": {"PUT": refuse, "PATCH": refuse},
    }


class WorkerRoutes:
    """Answers every request of a worker."""

    def __init__(self, routes: RestRoutes, membership: Membership) -> None:
        self._routes = routes
        self._membership = membership

    def answer(self, request: Request) -> Response:
        """The answer, this worker's own or another one's."""
        try:
            # Before it is passed on, which leaves out where it comes from; of one that was, too: a page can
            # say so.
            self._routes.refuse_other_sites(request)
        except Refused as error:
            return error_response(error.status, str(error))
        own = self._membership.sender().group
        if is_of_other_group(request.headers.get(GROUP), own):
            # Its record of this address is of before, or for its machine the address is another one.
            refused = error_response(HTTPStatus.MISDIRECTED_REQUEST, "this worker is of another group")
            return replace(refused, headers=(*refused.headers, (GROUP, own)))
        segments = [unquote(segment) for segment in request.path.strip("/").split("/")]
        # As it was written: who may ask was judged by that.
        if request.path.startswith(INTERNAL):
            return self._internal(request, segments)
        return self._answer(request, segments, is_read=segments[0] != "connectors")

    def _answer(self, request: Request, segments: list[str], *, is_read: bool) -> Response:
        if request.headers.get(FORWARDED) is None:
            if segments == ["connectors"] and request.method in {"GET", "HEAD"} and _is_expanded(request):
                # The server leaves the body out.
                return self._expanded(replace(request, method="GET"))
            if request.method == "PUT" and segments[:2] == ["admin", "loggers"] and _is_for_all(request):
                return self._everywhere(replace(request, query=""))
            url = self._elsewhere(request.method, segments)
            if isinstance(url, Response):
                return url
            if url is not None:
                return self._forward(url, request)
        return self._routes.answer(request) if is_read else self._read_first(request, segments)

    def _read_first(self, request: Request, segments: list[str]) -> Response:
        """The answer to a change, or a 404, by all that was written before the request came.

        A connector may have been made or deleted a moment ago, by way of another worker or while this one
        hung; and another worker may run it, or lead. 409 where that cannot be read.
        """
        if request.method in READS:
            own = self._routes.answer(request)
            if own.status is not HTTPStatus.NOT_FOUND:
                return own
        unread = self._membership.read_to_end()
        if unread is None:
            return self._answer(request, segments, is_read=True)
        return _conflict(str(unread).rstrip("."), passes=not isinstance(unread, InvalidLedger))

    # -- to other workers ------------------------------------------------------------------------------------

    def _elsewhere(self, method: str, segments: list[str]) -> str | Response | None:
        """The URL of the worker that has to answer; None for this one, a refusal where there is none."""
        if segments[0] != "connectors":
            return None
        own, workers = self._membership.own_id, self._membership.workers()
        if is_change(method, segments):
            return None if self._membership.is_leading() else self._leader()
        if len(segments) < _CONNECTOR_SEGMENTS or workers is None:
            return None
        worker = workers.worker_of(segments[1])
        return None if worker in (None, own) else workers.workers[str(worker)].url

    def _leader(self) -> str | Response:
        """The URL of the worker that leads; a refusal where it has none of its own."""
        membership, workers = self._membership, self._membership.workers()
        leader = None if workers is None else workers.workers.get(workers.leader)
        if workers is None or workers.leader == membership.own_id or leader is None or leader.url is None:
            return _conflict("no worker leads this group yet", passes=True)
        if leader.url == membership.own_url():
            why = f"the worker that leads has this one's own address, {leader.url}: {ADVERTISE}"
            return _conflict(why, passes=True)
        return leader.url

    def _forward(self, url: str, request: Request) -> Response:
        try:
            return self._pass_on(url, request)
        except WorkerSilent as error:
            return _silent(url, request.method, error)
        except OSError as error:
            if request.method in {"GET", "HEAD"}:
                # What the configuration topic says, and that nobody runs it.
                return self._routes.answer(request)
            # Nothing was carried out where nobody of the group listens; another worker takes its place.
            gone = isinstance(error, ConnectionRefusedError | OtherGroup)
            return _conflict(f"the worker at {url} does not answer ({error})", passes=gone)

    def _pass_on(self, url: str, request: Request) -> Response:
        return forward_as_worker(url, request, self._membership.sender(), seconds=ANSWER_SECONDS)

    def _everywhere(self, request: Request) -> Response:
        """A level that is changed on every worker of the group: 204, as no worker's loggers are shown."""
        own = self._routes.answer(request)
        if own.status is not HTTPStatus.OK:
            return own
        workers = self._membership.workers()
        for name, worker in ({} if workers is None else workers.workers).items():
            if name == self._membership.own_id or worker.url is None:
                continue
            try:
                theirs = self._pass_on(worker.url, request)
            except OSError as error:
                return _conflict(f"the worker at {worker.url} does not answer ({error})")
            if theirs.status is not HTTPStatus.OK:
                return theirs
        return Response.empty(HTTPStatus.NO_CONTENT)

    def _expanded(self, request: Request) -> Response:
        """`GET /connectors?expand=..`: each connector as the worker shows it that runs it."""
        own = self._routes.answer(request)
        workers = self._membership.workers()
        if own.status is not HTTPStatus.OK or workers is None:
            return own
        shown: dict[str, Any] = _json(own)
        urls = {
            name: worker.url
            for name, worker in workers.workers.items()
            if name != self._membership.own_id and worker.url is not None and worker.connectors
        }
        answers = self._shown_elsewhere(urls, request)
        for name, url in urls.items():
            found = answers.get(name, f"it has not answered for {_LIST_SECONDS:.0f} s")
            for one in shown.keys() & set(workers.workers[name].connectors):
                if isinstance(found, str):
                    _show_unknown(shown[one], url, found)
                else:
                    shown[one] = found.get(one, shown[one])
        return Response.of_json(shown)

    def _shown_elsewhere(
        self, urls: Mapping[str, str], request: Request
    ) -> Mapping[str, dict[str, Any] | str]:
        """See `_shown_at`, of all workers that answer in time: all are asked at once."""
        answers: dict[str, dict[str, Any] | str] = {}

        def ask(name: str, url: str) -> None:
            answers[name] = self._shown_at(url, request)

        threads: list[Thread] = []
        for name, url in urls.items():
            try:
                threads.append(start_thread(partial(ask, name, url), name=f"expand-{name}"))
            except SystemLimit as error:
                answers[name] = f"was not asked: here {error}"
        deadline = time.monotonic() + _LIST_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        # What comes later is for nobody.
        return answers.copy()

    def _shown_at(self, url: str, request: Request) -> dict[str, Any] | str:
        """What the worker at an address shows of its connectors; else why that is not known."""
        try:
            theirs = forward_as_worker(url, request, self._membership.sender(), seconds=_LIST_SECONDS)
            if theirs.status is not HTTPStatus.OK:
                return f"it answers {int(theirs.status)}"
            found = _json(theirs)
            return found if isinstance(found, dict) else "what it answers is not a list of connectors"
        except ConnectionRefusedError:
            # Nobody runs them: UNASSIGNED, as this worker shows them itself.
            return {}
        except (OSError, ValueError) as error:
            return str(error)

    # -- from other workers ----------------------------------------------------------------------------------

    def _internal(self, request: Request, segments: list[str]) -> Response:
        membership = self._membership
        acts = _INTERNAL_ACTS.get(segments[1]) if len(segments) == _CONNECTOR_SEGMENTS + 1 else None
        if acts is None:
            return error_response(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")
        if refused := _refused_to_browsers(request, acts):
            return refused
        name = segments[2]
        if segments[1] == "reading":
            try:
                return Response.of_json(list(membership.reading(name)))
            except NotLeading as error:
                return conflict(str(error), passes=error.passes)
        if not membership.is_leading():
            return _conflict("this worker does not lead")
        if request.method == "DELETE":
            membership.on_leaving(name)
        else:
            url = request.body.decode("utf-8", "replace").strip()
            membership.on_heartbeat(name, url or None)
        return Response.empty(HTTPStatus.NO_CONTENT)


def _refused_to_browsers(request: Request, acts: Collection[str]) -> Response | None:
    """The answer to what no worker asks; None for what one may.

    A picture in any page makes its visitor's browser GET, which says not where it comes from; a form POSTs.
    """
    if request.headers.get("Origin") is not None:
        return error_response(HTTPStatus.FORBIDDEN, "only another worker may ask for this")
    if request.method not in acts:
        return error_response(HTTPStatus.METHOD_NOT_ALLOWED, "HTTP 405 Method Not Allowed")
    return None


def reading_elsewhere(url: str, name: str, sender: Sender) -> list[str]:
    """The keys of what a connector reads on the worker at this address. NotLeading when that is unknown."""
    path = f"{INTERNAL}reading/{quote(name, safe='')}"
    request = Request(method="GET", path=path, query="", headers=Message(), body=b"")
    try:
        answer = forward_as_worker(url, request, sender, seconds=ANSWER_SECONDS)
    except ConnectionRefusedError:
        # It is gone: what it has begun is in the ledger.
        return []
    except OSError as error:
        raise NotLeading(
            f"Cannot complete request momentarily: the worker at {url} runs this connector, and {error}: "
            "what it has begun is not known"
        ) from error
    if answer.status is not HTTPStatus.OK:
        # 404 is a worker of an earlier version, or a proxy: what is begun there is not known either.
        raise NotLeading(
            f"Cannot complete request momentarily: the worker at {url} runs this connector, and answers "
            f"{int(answer.status)} to the question what it reads",
            # It does not lead it yet.
            passes=answer.status is HTTPStatus.CONFLICT and RETRY[0] in answer.headers,
        )
    return list(_json(answer))


def _show_unknown(shown: dict[str, Any], url: str, why: str) -> None:
    """Show one connector as FAILED: the worker that runs it does not say how it is."""
    if "status" in shown:
        trace = f"The worker at {url} runs this connector, and {why}: restart its process if it stays so"
        shown["status"]["connector"] |= {"state": "FAILED", "trace": trace}


def _is_expanded(request: Request) -> bool:
    return "expand" in parse_qs(request.query, keep_blank_values=True)


def _is_for_all(request: Request) -> bool:
    """Whether it is meant for every worker (`?scope=cluster`)."""
    return [one.lower() for one in parse_qs(request.query).get("scope", [])][:1] == ["cluster"]


def is_change(method: str, segments: list[str]) -> bool:
    """Whether a request creates, configures or deletes a connector."""
    match segments:
        case ["connectors"]:
            return method == "POST"
        case ["connectors", _]:
            return method == "DELETE"
        case ["connectors", _, "config"]:
            return method in {"PUT", "PATCH"}
        case _:
            return False


def _conflict(why: str, *, passes: bool = False) -> Response:
    text = f"Cannot complete request momentarily due to a rebalance: {why}; try again"
    return conflict(text, passes=passes)


def _silent(url: str, method: str, error: OSError) -> Response:
    """As Connect words a request that it could not pass on."""
    unknown = (
        "" if method in {"GET", "HEAD"} else " Whether it was carried out is not known: read it back first."
    )
    return error_response(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"IO Error trying to forward REST request: the worker at {url} is the one to ask, and {error}. If "
        "its process is stopped or hangs, restart it; once its session.timeout.ms is over another worker "
        f"takes its place, and the request may be repeated.{unknown}",
    )


def _json(response: Response) -> Any:
    return json.loads(response.body)


def _creation(body: Any) -> tuple[str, dict[str, str], str]:
    """Name, configuration and first state of `POST /connectors`."""
    config = body.get("config") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(config, dict):
        raise Refused(
            HTTPStatus.BAD_REQUEST, 'The body has to be {"name": NAME, "config": {OPTION: VALUE, ..}}'
        )
    if unknown := sorted(body.keys() - _CREATION_FIELDS):
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            f"Unrecognized field {unknown[0]!r}; there are: {', '.join(sorted(_CREATION_FIELDS))}",
        )
    initial_state = str(body.get("initial_state") or _STATES[0]).upper()
    if initial_state not in _STATES:
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            f"initial_state = {body['initial_state']!r}: expected one of {', '.join(_STATES)}",
        )
    texts = _whole_config(config)
    name = str(body.get("name") or "").strip()
    _require_same_name(name, texts.get("name"))
    if not name:
        raise Refused(HTTPStatus.BAD_REQUEST, "The name of the connector is missing")
    return name, texts, initial_state


def _whole_config(body: Any) -> dict[str, str]:
    """The options of a body that is a connector's whole configuration: no option of it may be null."""
    texts = texts_of(body)
    if nulls := sorted(option for option, value in body.items() if value is None):
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            f"{', '.join(nulls)}: Null value can not be supplied as the configuration value. Leave the "
            "option out, or remove it with PATCH",
        )
    return texts


def _require_same_name(name: str, given: Any) -> None:
    if given is not None and given != name:
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})",
        )
