"""Requests to the functions that answer them, by path and method, and Kafka Connect's JSON of answers.

A path that is not there is refused. `/admin/loggers` shows and changes what this process logs.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from headrace.kafka.control_records import TargetState
from headrace.model.errors import HeadraceError
from headrace.options.vendor import Direction
from headrace.process.log_levels import InvalidLevel, LoggerLevel, LoggerLevels, UnsafeLevel
from ingest.http.http_server import RETRY, Request, Response
from ingest.http.rest.port import ConnectorCondition

# The version of Kafka Connect whose interface this is. Tools decide by it what they may ask for: `stop` came
# with 3.5, changing offsets with 3.6.
CONNECT_VERSION: Final = "4.1.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What does not change while the process runs. `config` is as it may be shown, secrets masked."""

    name: str
    config: Mapping[str, str]
    worker_id: str
    version: str
    type: Direction = Direction.SOURCE


def error_response(status: HTTPStatus, message: str) -> Response:
    """An error as Connect words it."""
    return Response.of_json({"error_code": int(status), "message": message}, status)


def conflict(message: str, *, passes: bool) -> Response:
    """409; where it `passes` nothing was carried out, and `Retry-After` says so."""
    answer = error_response(HTTPStatus.CONFLICT, message)
    return replace(answer, headers=RETRY) if passes else answer


def server_info(version: str, cluster_id: str | None) -> dict[str, Any]:
    """`GET /`."""
    return {
        "version": CONNECT_VERSION,
        "commit": f"headrace-{version}",
        "kafka_cluster_id": cluster_id,
    }


def connector_info(identity: Identity, condition: ConnectorCondition | None) -> dict[str, Any]:
    """`GET /connectors/{name}`; before anybody leads (None) there are no tasks."""
    tasks = () if condition is None else condition.slots
    return {
        "name": identity.name,
        "config": dict(identity.config),
        "tasks": [{"connector": identity.name, "task": number} for number, _ in tasks],
        "type": identity.type,
    }


def connector_status(
    identity: Identity, condition: ConnectorCondition, *, restarting: frozenset[int] | None = None
) -> dict[str, Any]:
    """`GET /connectors/{name}/status`; `restarting` says that a restart was asked for, and of which tasks."""
    worker_id = condition.worker_id or identity.worker_id
    connector = {"state": _state(condition), "worker_id": worker_id, "version": identity.version}
    if condition.problems:
        connector["trace"] = "\n".join(condition.problems)
    if restarting is not None:
        connector["state"] = "RESTARTING"
    return {
        "name": identity.name,
        "connector": connector,
        "tasks": [
            task_status(identity, condition, number, is_restarting=number in (restarting or ()))
            for number, _ in condition.slots
        ],
        "type": identity.type,
    }


def task_status(
    identity: Identity, condition: ConnectorCondition, number: int, *, is_restarting: bool = False
) -> dict[str, Any]:
    """`GET /connectors/{name}/tasks/{id}/status`, of a task that there is."""
    state = condition.target.value.upper()
    if is_restarting or (number, True) in condition.slots:
        state = "RESTARTING"
    worker_id = condition.worker_id or identity.worker_id
    return {"id": number, "state": state, "worker_id": worker_id, "version": identity.version}


def task_infos(identity: Identity, condition: ConnectorCondition) -> list[dict[str, Any]]:
    """`GET /connectors/{name}/tasks`."""
    return [
        {"id": {"connector": identity.name, "task": number}, "config": dict(identity.config)}
        for number, _ in condition.slots
    ]


def _state(condition: ConnectorCondition) -> str:
    if condition.state is not None:
        return condition.state
    # What fails is tried again by itself; FAILED is how people and their alerts learn of it.
    if condition.target is TargetState.RUNNING and condition.problems:
        return "FAILED"
    return condition.target.value.upper()


class Refused(HeadraceError):
    """What is asked for cannot be; it carries the status of the answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request whose path is known: `names` are the values of its asterisks, decoded."""

    request: Request
    names: tuple[str, ...]

    def flag(self, name: str) -> bool:
        """Whether a query parameter says true."""
        return self.parameter(name, "false").lower() == "true"

    def parameter(self, name: str, default: str) -> str:
        """The first value of a query parameter."""
        return parse_qs(self.request.query).get(name, [default])[0]

    def json(self) -> Any:
        """The body; 415 when it is not sent as JSON, 400 when it is not JSON."""
        if not self.request.body.strip():
            raise Refused(HTTPStatus.BAD_REQUEST, "The request has no body: a JSON document is needed")
        content_type = str(self.request.headers.get("Content-Type", ""))
        if content_type.partition(";")[0].strip().lower() != _JSON:
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"HTTP 415 Unsupported Media Type: send the body with Content-Type: {_JSON}",
            )
        return _read_json(self.request.body)


def _read_json(body: bytes) -> Any:
    """The document; 400 for what is not JSON, and for JSON that nothing could be answered about."""
    try:
        found = json.loads(body)
        # Half of a surrogate pair can be written, as an escape, and has no bytes: no answer could repeat it.
        json.dumps(found, ensure_ascii=False).encode()
    except RecursionError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "The body of the request is nested too deeply") from error
    except UnicodeEncodeError as error:
        what = "The body of the request has half of a character in it (a surrogate without its other half)"
        raise Refused(HTTPStatus.BAD_REQUEST, what) from error
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "The body of the request is not JSON") from error
    return found


_JSON: Final = "application/json"

Act = Callable[[Call], Response]
Acts = Mapping[str, Act]
"""What answers, by method."""

_NOT_ALLOWED: Final = "HTTP 405 Method Not Allowed"


class Router:
    """Calls the function of a path and method, or raises Refused.

    `refused` are functions of methods that are there only to say why they are refused: no `Allow` lists them.
    """

    def __init__(self, served: Mapping[str, Acts], refused: Mapping[str, Acts]) -> None:
        self._served = served
        self._refused = refused

    def route(self, request: Request) -> Response:
        """The answer of the function; Refused with 404 where no path fits."""
        segments = [unquote(segment) for segment in request.path.strip("/").split("/")]
        for pattern, acts in self._served.items():
            wanted = pattern.split("/")
            if len(wanted) != len(segments) or any(
                name not in ("*", segment) for name, segment in zip(wanted, segments, strict=True)
            ):
                continue
            names = tuple(segment for name, segment in zip(wanted, segments, strict=True) if name == "*")
            return self._answer(pattern, acts, Call(request=request, names=names))
        raise Refused(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")

    def _answer(self, pattern: str, acts: Acts, call: Call) -> Response:
        method = "GET" if call.request.method == "HEAD" else call.request.method
        allowed = _allowed(acts)
        if method == "OPTIONS":
            text = "text/plain; charset=utf-8"
            return Response(HTTPStatus.OK, text, allowed.encode(), headers=(("Allow", allowed),))
        act = acts.get(method) or self._refused.get(pattern, {}).get(method) or _refuse
        try:
            return act(call)
        except Refused as error:
            if error.status is not HTTPStatus.METHOD_NOT_ALLOWED:
                raise
            shown = error_response(error.status, str(error))
            return Response(shown.status, shown.content_type, shown.body, headers=(("Allow", allowed),))


def refusing(reason: str) -> Act:
    """A function that refuses its method with 405 and this reason."""

    def refuse(_call: Call) -> Response:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{_NOT_ALLOWED}: {reason}.")

    return refuse


def _refuse(_call: Call) -> Response:
    raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, _NOT_ALLOWED)


def _allowed(acts: Acts) -> str:
    methods = {*acts, "OPTIONS", *(["HEAD"] if "GET" in acts else [])}
    return ", ".join(sorted(methods))


_CLUSTER: Final = "cluster"


class Loggers:
    """The routes of `/admin/loggers`. A standby answers them too: the levels are the process's."""

    def __init__(self, levels: LoggerLevels) -> None:
        self._levels = levels

    def routes(self) -> dict[str, Acts]:
        """Functions by path and method."""
        return {
            "admin/loggers": {"GET": self._all},
            "admin/loggers/*": {"GET": self._one, "PUT": self._change},
        }

    def _all(self, call: Call) -> Response:
        del call
        shown = {name: _shape(level) for name, level in self._levels.all().items() if level.level != "OFF"}
        return Response.of_json(shown)

    def _one(self, call: Call) -> Response:
        level = self._levels.find(call.names[0])
        if level is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"Logger {call.names[0]} not found.")
        return Response.of_json(_shape(level))

    def _change(self, call: Call) -> Response:
        body = call.json()
        level = body.get("level") if isinstance(body, dict) else None
        if not isinstance(level, str):
            raise Refused(HTTPStatus.BAD_REQUEST, "Desired 'level' parameter was not specified in request.")
        if call.parameter("scope", "worker").lower() == _CLUSTER:
            raise Refused(
                HTTPStatus.BAD_REQUEST,
                "scope=cluster is not served: each instance has levels of its own; send the request to each",
            )
        try:
            return Response.of_json(self._levels.change(call.names[0], level))
        except InvalidLevel as error:
            raise Refused(HTTPStatus.NOT_FOUND, str(error)) from error
        except UnsafeLevel as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error


def _shape(level: LoggerLevel) -> dict[str, Any]:
    return {"level": level.level, "last_modified": level.last_modified_ms}
