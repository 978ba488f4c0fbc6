"""Which method of which path does what: Kafka Connect's REST interface for one connector."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from ingest.errors import HeadraceError
from ingest.http import Request, Response
from ingest.kafka.controls import Target
from ingest.printable import json_text
from ingest.rest import plugins, shapes
from ingest.rest.offsets import OffsetsReader, OffsetsUnfit, as_item, check_known, has_offset
from ingest.rest.plugins import ConfigUnfit
from ingest.rest.port import Connector, NotLeading, NotStopped, Unanswered
from ingest.rest.shapes import Identity, empty_response, error_response

# One transaction of the driver each; more are sent in several requests.
MAX_OFFSETS: Final = 5_000
_ITEMS_AT_ONCE: Final = 500
_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD"})

_NO_CREATING: Final = (
    "Headrace is one connector, made by its configuration file: for another one start another `headrace run`"
)
_NO_CONFIGURING: Final = (
    "the configuration of Headrace is its file: change it there and restart the process; what is in progress "
    "goes on where it was"
)
_NO_DELETING: Final = (
    "Headrace is one connector and lives as long as its process: end the process, or use PUT .../stop"
)


class _Refused(HeadraceError):
    """What is asked for cannot be; it carries the status of the answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A request whose path is known: `names` are what stands for its asterisks, decoded."""

    request: Request
    names: tuple[str, ...]

    def flag(self, name: str) -> bool:
        """Whether a query parameter says true."""
        values = parse_qs(self.request.query).get(name, ["false"])
        return values[0].lower() == "true"

    def json(self) -> Any:
        """The body; 400 when it is no JSON."""
        try:
            return json.loads(self.request.body)
        except ValueError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, "The body of the request is not JSON") from error


_Act = Callable[[_Call], Response]


class Routes:
    """Answers every request; it owns nothing and may be called by many threads at once."""

    def __init__(
        self, identity: Identity, running: Mapping[str, str], connector: Connector, reader: OffsetsReader
    ) -> None:
        self._identity = identity
        self._running = running
        self._connector = connector
        self._reader = reader
        one = "connectors/*"
        self._routes: Mapping[str, Mapping[str, _Act]] = {
            "": {"GET": self._root},
            "health": {"GET": self._health},
            "connectors": {"GET": self._list, "POST": _refusing(_NO_CREATING)},
            one: {"GET": self._info, "DELETE": _refusing(_NO_DELETING)},
            f"{one}/config": {
                "GET": self._config,
                "PUT": _refusing(_NO_CONFIGURING),
                "PATCH": _refusing(_NO_CONFIGURING),
            },
            f"{one}/status": {"GET": self._status},
            f"{one}/tasks": {"GET": self._tasks},
            f"{one}/tasks/*/status": {"GET": self._task_status},
            f"{one}/tasks/*/restart": {"POST": self._restart_task},
            f"{one}/topics": {"GET": self._topics},
            f"{one}/topics/reset": {"PUT": self._reset_topics},
            f"{one}/offsets": {"GET": self._offsets, "PATCH": self._alter, "DELETE": self._reset},
            f"{one}/pause": {"PUT": self._pause},
            f"{one}/resume": {"PUT": self._resume},
            f"{one}/stop": {"PUT": self._stop},
            f"{one}/restart": {"POST": self._restart},
            "connector-plugins": {"GET": self._plugins},
            "connector-plugins/*/config": {"GET": self._definitions},
            "connector-plugins/*/config/validate": {"PUT": self._validate},
        }

    def answer(self, request: Request) -> Response:
        """The answer, errors included: nothing but a bug raises."""
        try:
            _refuse_other_sites(request)
            return self._route(request)
        except _Refused as error:
            return error_response(error.status, str(error))
        except (OffsetsUnfit, ConfigUnfit, NotStopped) as error:
            return error_response(HTTPStatus.BAD_REQUEST, str(error))
        except NotLeading as error:
            return error_response(HTTPStatus.CONFLICT, str(error))
        except HeadraceError as error:
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def _route(self, request: Request) -> Response:
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        for pattern, acts in self._routes.items():
            wanted = pattern.split("/")
            if len(wanted) != len(parts) or any(
                name not in ("*", part) for name, part in zip(wanted, parts, strict=True)
            ):
                continue
            act = acts.get("GET" if request.method == "HEAD" else request.method)
            if act is None:
                return _not_allowed(acts)
            names = tuple(part for name, part in zip(wanted, parts, strict=True) if name == "*")
            return act(_Call(request=request, names=names))
        raise _Refused(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")

    def _require(self, call: _Call, message: str) -> None:
        """404 in these words, with the name for `{}`, unless the connector is ours."""
        if call.names[0] != self._identity.name:
            raise _Refused(HTTPStatus.NOT_FOUND, message.format(call.names[0]))

    # -- the worker ------------------------------------------------------------------------------------------

    def _root(self, _call: _Call) -> Response:
        return Response.of_json(shapes.server_info(self._identity, self._connector.cluster_id))

    def _health(self, _call: _Call) -> Response:
        try:
            self._connector.condition()
        except NotLeading as error:
            # A standby is as healthy as one can be that waits.
            return Response.of_json({"status": "healthy", "message": str(error)})
        except Unanswered as error:
            shape = {"status": "unhealthy", "message": str(error)}
            return Response.of_json(shape, HTTPStatus.INTERNAL_SERVER_ERROR)
        message = "Worker has completed startup and is ready to handle requests."
        return Response.of_json({"status": "healthy", "message": message})

    def _list(self, call: _Call) -> Response:
        wanted = parse_qs(call.request.query, keep_blank_values=True).get("expand")
        if wanted is None:
            return Response.of_json([self._identity.name])
        condition = self._connector.condition()
        expanded: dict[str, Any] = {}
        if "status" in wanted:
            expanded["status"] = shapes.connector_status(self._identity, condition)
        if "info" in wanted:
            expanded["info"] = shapes.connector_info(self._identity, condition)
        return Response.of_json({self._identity.name: expanded})

    # -- the connector ---------------------------------------------------------------------------------------

    def _info(self, call: _Call) -> Response:
        self._require(call, "Connector {} not found")
        try:
            condition = self._connector.condition()
        except NotLeading:
            condition = None
        return Response.of_json(shapes.connector_info(self._identity, condition))

    def _config(self, call: _Call) -> Response:
        self._require(call, "Connector {} not found")
        return Response.of_json(dict(self._identity.config))

    def _status(self, call: _Call) -> Response:
        self._require(call, "No status found for connector {}")
        return Response.of_json(shapes.connector_status(self._identity, self._connector.condition()))

    def _tasks(self, call: _Call) -> Response:
        self._require(call, "Connector {} not found")
        return Response.of_json(shapes.task_infos(self._identity, self._connector.condition()))

    def _task_status(self, call: _Call) -> Response:
        self._require(call, f"No status found for task {{}}-{call.names[1]}")
        condition = self._connector.condition()
        for number, _ in condition.slots:
            if str(number) == call.names[1]:
                return Response.of_json(shapes.task_status(self._identity, condition, number))
        raise _Refused(
            HTTPStatus.NOT_FOUND, f"No status found for task {self._identity.name}-{call.names[1]}"
        )

    def _topics(self, call: _Call) -> Response:
        self._require(call, "Connector {} not found")
        return Response.of_json({self._identity.name: {"topics": list(self._connector.topics())}})

    def _reset_topics(self, call: _Call) -> Response:
        self._require(call, "Connector {} not found")
        raise _Refused(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")

    # -- steering --------------------------------------------------------------------------------------------

    def _pause(self, call: _Call) -> Response:
        self._require(call, "Unknown connector {}")
        self._connector.steer(Target.PAUSED)
        return empty_response(HTTPStatus.ACCEPTED)

    def _resume(self, call: _Call) -> Response:
        self._require(call, "Unknown connector {}")
        self._connector.steer(Target.RUNNING)
        return empty_response(HTTPStatus.ACCEPTED)

    def _stop(self, call: _Call) -> Response:
        self._require(call, "Unknown connector {}")
        self._connector.steer(Target.STOPPED)
        return empty_response(HTTPStatus.NO_CONTENT)

    def _restart(self, call: _Call) -> Response:
        self._require(call, "Unknown connector: {}")
        include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
        condition = self._connector.condition()
        restarting: frozenset[int] = frozenset()
        if not only_failed:
            # What has failed is being recovered already; there is nothing that would wait for a restart.
            if include_tasks:
                restarting = frozenset(number for number, _ in condition.slots)
            self._connector.restart(restarting)
        if not (include_tasks or only_failed):
            return empty_response(HTTPStatus.NO_CONTENT)
        shown = shapes.connector_status(
            self._identity, condition, restarting=None if only_failed else restarting
        )
        return Response.of_json(shown, HTTPStatus.ACCEPTED)

    def _restart_task(self, call: _Call) -> Response:
        self._require(call, "Unknown connector: {}")
        for number, _ in self._connector.condition().slots:
            if str(number) == call.names[1]:
                self._connector.restart_task(number)
                return empty_response(HTTPStatus.NO_CONTENT)
        raise _Refused(HTTPStatus.NOT_FOUND, f"Unknown task: {self._identity.name}-{call.names[1]}")

    # -- offsets ---------------------------------------------------------------------------------------------

    def _offsets(self, call: _Call) -> Response:
        self._require(call, "Connector {} not found")
        items = (as_item(known) for known in self._connector.offsets() if has_offset(known.entry))
        return Response(
            HTTPStatus.OK, "application/json; charset=utf-8", b'{"offsets":[', more=_listed(items)
        )

    def _alter(self, call: _Call) -> Response:
        self._require(call, "Connector {} not found")
        body = call.json()
        items = body.get("offsets") if isinstance(body, dict) else None
        if not isinstance(items, list) or not items:
            raise _Refused(
                HTTPStatus.BAD_REQUEST,
                "Partitions / offsets need to be provided for an alter offsets request",
            )
        if len(items) > MAX_OFFSETS:
            raise _Refused(
                HTTPStatus.BAD_REQUEST,
                f"At most {MAX_OFFSETS:,} offsets can be altered at once: send them in several requests",
            )
        self._require_stopped()
        changes = self._reader.read(items)
        for change in changes:
            check_known(change, self._connector.find(change.object.id))
        self._connector.alter(changes)
        return Response.of_json({"message": "The offsets for this connector have been altered successfully"})

    def _reset(self, call: _Call) -> Response:
        self._require(call, "Connector {} not found")
        self._require_stopped()
        self._connector.reset()
        return Response.of_json({"message": "The offsets for this connector have been reset successfully"})

    def _require_stopped(self) -> None:
        """400 as Connect says it, with the way out."""
        condition = self._connector.condition()
        if condition.target is not Target.STOPPED or condition.slots:
            raise NotStopped(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
                "done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{self._identity.name}/stop' endpoint"
            )

    # -- plugins ---------------------------------------------------------------------------------------------

    def _plugins(self, call: _Call) -> Response:
        del call  # connectorsOnly=false would add converters and transformations, of which there are none
        return Response.of_json(plugins.plugin_infos())

    def _definitions(self, call: _Call) -> Response:
        _require_plugin(call)
        return Response.of_json(plugins.definitions())

    def _validate(self, call: _Call) -> Response:
        _require_plugin(call)
        body = call.json()
        included = body.get("connector.class") if isinstance(body, dict) else None
        if isinstance(included, str) and included.strip() and not plugins.is_plugin(included.strip()):
            raise _Refused(
                HTTPStatus.BAD_REQUEST,
                f"Included connector type {included} does not match request type {call.names[0]}",
            )
        return Response.of_json(plugins.validated(body, self._running))


def _require_plugin(call: _Call) -> None:
    if not plugins.is_plugin(call.names[0]):
        raise _Refused(HTTPStatus.NOT_FOUND, f"Unknown plugin {call.names[0]}.")


def _refusing(reason: str) -> _Act:
    def refuse(_call: _Call) -> Response:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"HTTP 405 Method Not Allowed: {reason}.")

    return refuse


def _not_allowed(acts: Mapping[str, _Act]) -> Response:
    refusal = error_response(HTTPStatus.METHOD_NOT_ALLOWED, "HTTP 405 Method Not Allowed")
    allowed = (("Allow", ", ".join(sorted(acts))),)
    return Response(refusal.status, refusal.content_type, refusal.body, headers=allowed)


def _refuse_other_sites(request: Request) -> None:
    """403 for a page of another site that makes somebody's browser change something here."""
    origin = request.headers.get("Origin")
    if origin is None or request.method in _CHANGES_NOTHING:
        return
    if urlsplit(origin).netloc.lower() != str(request.headers.get("Host", "")).lower():
        raise _Refused(HTTPStatus.FORBIDDEN, f"A page of {origin} may not steer this connector")


def _listed(items: Iterator[Any]) -> Iterator[bytes]:
    """The rest of a JSON list of which `[` is written already, some hundred items at a time, and `}`."""
    gathered: list[str] = []
    separator = ""
    for item in items:
        gathered.append(f"{separator}\n{json_text(item)}")
        separator = ","
        if len(gathered) >= _ITEMS_AT_ONCE:
            yield "".join(gathered).encode()
            gathered.clear()
    yield "".join([*gathered, "\n]}\n"]).encode()
