"""Which method of which path does what: Kafka Connect's REST interface for one connector."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from ingest.errors import HeadraceError
from ingest.http import Request, Response
from ingest.kafka.control_records import TargetState
from ingest.rest import plugins, shapes
from ingest.rest.loggers import Loggers
from ingest.rest.plugins import InvalidPluginConfig
from ingest.rest.port import ConnectorPort, NotLeading, NotStopped, Unanswered
from ingest.rest.rest_offsets import InvalidOffsets, OffsetsReader, as_item, check_known, has_offset
from ingest.rest.router import Acts, Call, Refused, Router, refusing
from ingest.rest.shapes import Identity, error_response
from ingest.sanitize import json_text
from ingest.settings import Settings, changed_options, describe

# One transaction of the driver each; more are sent in several requests.
MAX_OFFSETS: Final = 5_000
_ITEMS_AT_ONCE: Final = 500
_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD", "OPTIONS"})

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


class RestRoutes:
    """Answers every request; it owns nothing and may be called by many threads at once."""

    def __init__(
        self,
        identity: Identity,
        running: Settings,
        connector: ConnectorPort,
        reader: OffsetsReader,
        loggers: Loggers,
    ) -> None:
        self._identity = identity
        self._running = running
        self._connector = connector
        self._reader = reader
        one = "connectors/*"
        served: dict[str, Acts] = {
            "": {"GET": self._root},
            "health": {"GET": self._health},
            "connectors": {"GET": self._list},
            one: {"GET": self._info},
            f"{one}/config": {"GET": self._config},
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
        refused: dict[str, Acts] = {
            "connectors": {"POST": refusing(_NO_CREATING)},
            one: {"DELETE": refusing(_NO_DELETING)},
            # Refused unless nothing would change, so that a tool can apply a configuration again and again.
            f"{one}/config": {"PUT": self._configure, "PATCH": self._configure},
        }
        self._router = Router(served | loggers.routes(), refused)

    def answer(self, request: Request) -> Response:
        """The answer, errors included: nothing but a bug raises."""
        try:
            _refuse_other_sites(request)
            return self._router.route(request)
        except Refused as error:
            return error_response(error.status, str(error))
        except (InvalidOffsets, InvalidPluginConfig, NotStopped) as error:
            return error_response(HTTPStatus.BAD_REQUEST, str(error))
        except NotLeading as error:
            return error_response(HTTPStatus.CONFLICT, str(error))
        except HeadraceError as error:
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def _require(self, call: Call, message: str) -> None:
        """404 in these words, with the name for `{}`, unless the connector is ours."""
        if call.names[0] != self._identity.name:
            raise Refused(HTTPStatus.NOT_FOUND, message.format(call.names[0]))

    # -- the worker ------------------------------------------------------------------------------------------

    def _root(self, _call: Call) -> Response:
        return Response.of_json(shapes.server_info(self._identity, self._connector.cluster_id))

    def _health(self, _call: Call) -> Response:
        try:
            self._connector.require_leading()
            self._connector.condition()
        except NotLeading as error:
            # A standby is as healthy as one can be that waits.
            return Response.of_json({"status": "healthy", "message": str(error)})
        except Unanswered as error:
            shape = {"status": "unhealthy", "message": str(error)}
            return Response.of_json(shape, HTTPStatus.INTERNAL_SERVER_ERROR)
        message = "Worker has completed startup and is ready to handle requests."
        return Response.of_json({"status": "healthy", "message": message})

    def _list(self, call: Call) -> Response:
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

    def _info(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        try:
            condition = self._connector.condition()
        except NotLeading:
            condition = None
        return Response.of_json(shapes.connector_info(self._identity, condition))

    def _config(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        return Response.of_json(dict(self._identity.config))

    def _configure(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        # As Connect does, the name is taken from the path where the body leaves it out.
        config = {"name": self._identity.name, **plugins.given(call.json())}
        has_class = plugins.is_plugin(str(config.get("connector.class", plugins.PLUGIN_CLASS)).strip())
        changed = [
            name
            for name in changed_options(self._running, config, is_whole=call.request.method == "PUT")
            if name != "connector.class" or not has_class
        ]
        if changed:
            raise Refused(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"HTTP 405 Method Not Allowed: this would change {', '.join(changed)}, and "
                f"{_NO_CONFIGURING}.",
            )
        return self._info(call)

    def _status(self, call: Call) -> Response:
        self._require(call, "No status found for connector {}")
        return Response.of_json(shapes.connector_status(self._identity, self._connector.condition()))

    def _tasks(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        return Response.of_json(shapes.task_infos(self._identity, self._connector.condition()))

    def _task_status(self, call: Call) -> Response:
        self._require(call, f"No status found for task {{}}-{call.names[1]}")
        condition = self._connector.condition()
        for number, _ in condition.slots:
            if str(number) == call.names[1]:
                return Response.of_json(shapes.task_status(self._identity, condition, number))
        raise Refused(HTTPStatus.NOT_FOUND, f"No status found for task {self._identity.name}-{call.names[1]}")

    def _topics(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        return Response.of_json({self._identity.name: {"topics": list(self._connector.topics())}})

    def _reset_topics(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        raise Refused(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")

    # -- steering --------------------------------------------------------------------------------------------

    def _pause(self, call: Call) -> Response:
        self._require(call, "Unknown connector {}")
        self._connector.steer(TargetState.PAUSED)
        return Response.empty(HTTPStatus.ACCEPTED)

    def _resume(self, call: Call) -> Response:
        self._require(call, "Unknown connector {}")
        self._connector.steer(TargetState.RUNNING)
        return Response.empty(HTTPStatus.ACCEPTED)

    def _stop(self, call: Call) -> Response:
        self._require(call, "Unknown connector {}")
        self._connector.steer(TargetState.STOPPED)
        return Response.empty(HTTPStatus.NO_CONTENT)

    def _restart(self, call: Call) -> Response:
        self._require(call, "Unknown connector: {}")
        self._connector.require_leading()
        include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
        condition = self._connector.condition()
        restarting: frozenset[int] = frozenset()
        if not only_failed:
            # What has failed is being recovered already; there is nothing that would wait for a restart.
            if include_tasks:
                restarting = frozenset(number for number, _ in condition.slots)
            self._connector.restart(restarting)
        if not (include_tasks or only_failed):
            return Response.empty(HTTPStatus.NO_CONTENT)
        shown = shapes.connector_status(
            self._identity, condition, restarting=None if only_failed else restarting
        )
        return Response.of_json(shown, HTTPStatus.ACCEPTED)

    def _restart_task(self, call: Call) -> Response:
        self._require(call, "Unknown connector: {}")
        self._connector.require_leading()
        for number, _ in self._connector.condition().slots:
            if str(number) == call.names[1]:
                self._connector.restart_task(number)
                return Response.empty(HTTPStatus.NO_CONTENT)
        raise Refused(HTTPStatus.NOT_FOUND, f"Unknown task: {self._identity.name}-{call.names[1]}")

    # -- offsets ---------------------------------------------------------------------------------------------

    def _offsets(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        items = (as_item(known) for known in self._connector.offsets() if has_offset(known.entry))
        return Response(
            HTTPStatus.OK, "application/json; charset=utf-8", b'{"offsets":[', more=_listed(items)
        )

    def _alter(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        body = call.json()
        items = body.get("offsets") if isinstance(body, dict) else None
        if not isinstance(items, list) or not items:
            raise Refused(
                HTTPStatus.BAD_REQUEST,
                "Partitions / offsets need to be provided for an alter offsets request",
            )
        if len(items) > MAX_OFFSETS:
            raise Refused(
                HTTPStatus.BAD_REQUEST,
                f"At most {MAX_OFFSETS:,} offsets can be altered at once: send them in several requests",
            )
        self._require_stopped()
        changes = self._reader.read(items)
        for change in changes:
            check_known(change, self._connector.find(change.object.id))
        self._connector.alter(changes)
        return Response.of_json({"message": "The offsets for this connector have been altered successfully"})

    def _reset(self, call: Call) -> Response:
        self._require(call, "Connector {} not found")
        self._require_stopped()
        self._connector.reset()
        return Response.of_json({"message": "The offsets for this connector have been reset successfully"})

    def _require_stopped(self) -> None:
        """400 as Connect says it, with the way out; 409 on a standby."""
        self._connector.require_leading()
        condition = self._connector.condition()
        if condition.target is not TargetState.STOPPED or condition.slots:
            raise NotStopped(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
                "done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{self._identity.name}/stop' endpoint"
            )

    # -- plugins ---------------------------------------------------------------------------------------------

    def _plugins(self, call: Call) -> Response:
        del call  # connectorsOnly=false would add converters and transformations, of which there are none
        return Response.of_json(plugins.plugin_infos())

    def _definitions(self, call: Call) -> Response:
        _require_plugin(call)
        return Response.of_json(plugins.definitions())

    def _validate(self, call: Call) -> Response:
        _require_plugin(call)
        body = call.json()
        included = body.get("connector.class") if isinstance(body, dict) else None
        if isinstance(included, str) and included.strip() and not plugins.is_plugin(included.strip()):
            raise Refused(
                HTTPStatus.BAD_REQUEST,
                f"Included connector type {included} does not match request type {call.names[0]}",
            )
        return Response.of_json(plugins.validated(body, describe(self._running)))


def _require_plugin(call: Call) -> None:
    if not plugins.is_plugin(call.names[0]):
        raise Refused(HTTPStatus.NOT_FOUND, f"Unknown plugin {call.names[0]}.")


def _refuse_other_sites(request: Request) -> None:
    """403 for a page of another site that makes somebody's browser change something here."""
    origin = request.headers.get("Origin")
    if origin is None or request.method in _CHANGES_NOTHING:
        return
    if urlsplit(origin).netloc.lower() != str(request.headers.get("Host", "")).lower():
        raise Refused(HTTPStatus.FORBIDDEN, f"A page of {origin} may not steer this connector")


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
