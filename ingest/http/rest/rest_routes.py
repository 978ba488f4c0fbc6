"""Which method of which path does what: Kafka Connect's REST interface over the connectors of a process.

The connectors are the one of `headrace run`, or those of a worker.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import parse_qs

from headrace.kafka.control_records import TargetState
from headrace.model.errors import HeadraceError
from headrace.model.text_formatting import json_text
from headrace.options.given import Problem
from headrace.vendors.class_names import sink_class
from ingest.http.http_server import Request, Response
from ingest.http.requests import ORIGINS, is_of_another_site, site_of
from ingest.http.rest import plugins, router
from ingest.http.rest.plugins import InvalidPluginConfig
from ingest.http.rest.port import (
    AskedCondition,
    ConnectorCondition,
    ConnectorPort,
    InvalidOffsets,
    NotLeading,
    NotStopped,
    OffsetsPort,
    Unanswered,
)
from ingest.http.rest.router import Acts, Call, Identity, Loggers, Refused, Router, error_response


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedConnector:
    """A connector as the interface shows and steers it."""

    identity: Identity
    port: ConnectorPort
    offsets: OffsetsPort


class ConnectorDirectory(Protocol):
    """Called by many threads at once; it may block."""

    @property
    def cluster_id(self) -> str | None:
        """Id of the Kafka cluster; None while it is not known."""

    @property
    def worker_config(self) -> str:
        """What a configuration may leave out because the worker knows it, as `.properties` text."""

    @property
    def origins(self) -> Collection[str]:
        """The sites of others whose pages may change something, as `site_of` names them."""

    def judge(self, config: Mapping[str, str]) -> tuple[Mapping[str, str], Sequence[Problem]]:
        """A configuration with what is hidden in it as it was before, and what is this process's in it."""

    def require_health(self) -> None:
        """NotLeading from a standby, Unanswered when the service does not answer."""

    def names(self) -> Sequence[str]:
        """The connectors' names, sorted."""

    def find(self, name: str) -> ServedConnector | None:
        """The connector of this name."""


# One transaction of the driver each; more are sent in several requests.
MAX_OFFSETS: Final = 5_000
_ITEMS_AT_ONCE: Final = 500
LIST_SECONDS: Final = 5.0
"""How long a list of all connectors waits for what each says of itself."""
_NO_ANSWER: Final = (
    f"it has not answered for {LIST_SECONDS:.0f} s: it is very busy, or hangs; look at its own status, and "
    "restart the process if it stays so"
)
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class RestRoutes:
    """Answers every request; it owns nothing and may be called by many threads at once.

    `changing` has what creates, configures and deletes connectors, `refused` what says why it cannot be done.
    """

    def __init__(
        self,
        directory: ConnectorDirectory,
        loggers: Loggers,
        *,
        version: str,
        changing: Mapping[str, Acts],
        refused: Mapping[str, Acts],
    ) -> None:
        self._directory = directory
        self._version = version
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
        for path, acts in {**changing, **loggers.routes()}.items():
            served[path] = {**served.get(path, {}), **acts}
        self._router = Router(served, refused)

    def answer(self, request: Request) -> Response:
        """The answer, errors included: nothing but a bug raises."""
        try:
            self.refuse_other_sites(request)
            return self._router.route(request)
        except Refused as error:
            return error_response(error.status, str(error))
        except (InvalidOffsets, InvalidPluginConfig, NotStopped) as error:
            return error_response(HTTPStatus.BAD_REQUEST, str(error))
        except NotLeading as error:
            return router.conflict(str(error), passes=error.passes)
        except HeadraceError as error:
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def refuse_other_sites(self, request: Request) -> None:
        """Refused, 403, for a page of another site that makes a visitor's browser change something here."""
        origin, host = request.headers.get("Origin"), str(request.headers.get("Host", ""))
        if origin is None or request.method in READS:
            return
        if is_of_another_site(str(origin), host, self._directory.origins):
            site = site_of(str(origin))
            listed = "" if site is None else f"; or, of a worker, list {site} in {ORIGINS} of its file"
            raise Refused(
                HTTPStatus.FORBIDDEN,
                f"A page of {origin} may not steer this connector, which was asked as {host}: let the proxy "
                f"between them keep Host{listed}",
            )

    def _find(self, call: Call, message: str) -> ServedConnector:
        """The connector; 404 in these words, with the name for `{}`, when there is none."""
        found = self._directory.find(call.names[0])
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, message.format(call.names[0]))
        return found

    # -- the worker ------------------------------------------------------------------------------------------

    def _root(self, _call: Call) -> Response:
        return Response.of_json(router.server_info(self._version, self._directory.cluster_id))

    def _health(self, _call: Call) -> Response:
        try:
            self._directory.require_health()
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
        names = self._directory.names()
        if wanted is None:
            return Response.of_json(list(names))
        shown = [one for one in map(self._directory.find, names) if one is not None]
        # All are asked before any is waited for: one that hangs keeps no other from being shown.
        asked = [(one, one.port.ask_condition()) for one in shown]
        deadline = time.monotonic() + LIST_SECONDS
        return Response.of_json(
            {one.identity.name: _expanded(one, wanted, _answered(answer, deadline)) for one, answer in asked}
        )

    # -- the connector ---------------------------------------------------------------------------------------

    def _info(self, call: Call) -> Response:
        one = self._find(call, "Connector {} not found")
        return Response.of_json(info_of(one))

    def _config(self, call: Call) -> Response:
        one = self._find(call, "Connector {} not found")
        return Response.of_json(dict(one.identity.config))

    def _status(self, call: Call) -> Response:
        one = self._find(call, "No status found for connector {}")
        return Response.of_json(router.connector_status(one.identity, one.port.condition()))

    def _tasks(self, call: Call) -> Response:
        one = self._find(call, "Connector {} not found")
        return Response.of_json(router.task_infos(one.identity, one.port.condition()))

    def _task_status(self, call: Call) -> Response:
        one = self._find(call, f"No status found for task {{}}-{call.names[1]}")
        condition = one.port.condition()
        for number, _ in condition.slots:
            if str(number) == call.names[1]:
                return Response.of_json(router.task_status(one.identity, condition, number))
        raise Refused(HTTPStatus.NOT_FOUND, f"No status found for task {one.identity.name}-{call.names[1]}")

    def _topics(self, call: Call) -> Response:
        one = self._find(call, "Connector {} not found")
        return Response.of_json({one.identity.name: {"topics": list(one.port.topics())}})

    def _reset_topics(self, call: Call) -> Response:
        one = self._find(call, "Connector {} not found")
        one.port.reset_topics()
        return Response.empty(HTTPStatus.ACCEPTED)

    # -- steering --------------------------------------------------------------------------------------------

    def _pause(self, call: Call) -> Response:
        one = self._find(call, "Unknown connector {}")
        one.port.steer(TargetState.PAUSED)
        return Response.empty(HTTPStatus.ACCEPTED)

    def _resume(self, call: Call) -> Response:
        one = self._find(call, "Unknown connector {}")
        one.port.steer(TargetState.RUNNING)
        return Response.empty(HTTPStatus.ACCEPTED)

    def _stop(self, call: Call) -> Response:
        one = self._find(call, "Unknown connector {}")
        one.port.steer(TargetState.STOPPED)
        return Response.empty(HTTPStatus.NO_CONTENT)

    def _restart(self, call: Call) -> Response:
        one = self._find(call, "Unknown connector: {}")
        include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
        # What works is not what `onlyFailed` means, whatever its references lead to by now.
        if (not only_failed or one.port.condition().problems) and one.port.revive():
            if not (include_tasks or only_failed):
                return Response.empty(HTTPStatus.NO_CONTENT)
            shown = router.connector_status(one.identity, one.port.condition(), restarting=frozenset())
            return Response.of_json(shown, HTTPStatus.ACCEPTED)
        one.port.require_leading()
        condition = one.port.condition()
        restarting: frozenset[int] = frozenset()
        if not only_failed:
            # What has failed is being recovered already; there is nothing that would wait for a restart.
            if include_tasks:
                restarting = frozenset(number for number, _ in condition.slots)
            one.port.restart(restarting)
        if not (include_tasks or only_failed):
            return Response.empty(HTTPStatus.NO_CONTENT)
        shown = router.connector_status(
            one.identity, condition, restarting=None if only_failed else restarting
        )
        return Response.of_json(shown, HTTPStatus.ACCEPTED)

    def _restart_task(self, call: Call) -> Response:
        one = self._find(call, "Unknown connector: {}")
        one.port.require_leading()
        for number, _ in one.port.condition().slots:
            if str(number) == call.names[1]:
                one.port.restart_task(number)
                return Response.empty(HTTPStatus.NO_CONTENT)
        raise Refused(HTTPStatus.NOT_FOUND, f"Unknown task: {one.identity.name}-{call.names[1]}")

    # -- offsets ---------------------------------------------------------------------------------------------

    def _offsets(self, call: Call) -> Response:
        one = self._find(call, "Connector {} not found")
        return Response(
            HTTPStatus.OK,
            "application/json; charset=utf-8",
            b'{"offsets":[',
            more=_listed(one.offsets.items()),
        )

    def _alter(self, call: Call) -> Response:
        one = self._find(call, "Connector {} not found")
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
        _require_stopped(one)
        one.offsets.alter(items)
        return Response.of_json({"message": "The offsets for this connector have been altered successfully"})

    def _reset(self, call: Call) -> Response:
        one = self._find(call, "Connector {} not found")
        _require_stopped(one)
        one.offsets.reset()
        return Response.of_json({"message": "The offsets for this connector have been reset successfully"})

    # -- plugins ---------------------------------------------------------------------------------------------

    def _plugins(self, call: Call) -> Response:
        del call  # connectorsOnly=false would add converters and transformations, of which there are none
        return Response.of_json(plugins.plugin_infos())

    def _definitions(self, call: Call) -> Response:
        return Response.of_json(plugins.definitions(_plugin(call)))

    def _validate(self, call: Call) -> Response:
        plugin = _plugin(call)
        body = call.json()
        if isinstance(body, dict):
            # Two makers call their sinks S3SinkConnector: the options decide.
            plugin = sink_class(call.names[0], body) or plugin
        included = body.get("connector.class") if isinstance(body, dict) else None
        # What a reference leads to is not looked at: the path has said which class is meant.
        if isinstance(included, str) and "${" not in included and included.strip() not in {"", plugin}:
            # Short names are as good as whole ones, and some classes share one.
            asked = plugins.plugin_class(included.strip())
            if asked is None or asked.rpartition(".")[2] != plugin.rpartition(".")[2]:
                raise Refused(
                    HTTPStatus.BAD_REQUEST,
                    f"Included connector type {included} does not match request type {call.names[0]}",
                )
        config, problems = self._directory.judge(plugins.texts_of(body))
        return Response.of_json(plugins.validated(plugin, config, self._directory.worker_config, problems))


def info_of(one: ServedConnector) -> dict[str, Any]:
    """`GET /connectors/{name}`, at any time."""
    try:
        condition = one.port.condition()
    except NotLeading:
        condition = None
    return router.connector_info(one.identity, condition)


def _answered(asked: AskedCondition, deadline: float) -> ConnectorCondition:
    """How a connector is; of one that has not answered until then, that it has not."""
    try:
        return asked(max(0.0, deadline - time.monotonic()))
    except Unanswered:
        return ConnectorCondition(target=TargetState.RUNNING, problems=(_NO_ANSWER,), slots=())


def _expanded(one: ServedConnector, wanted: Collection[str], condition: ConnectorCondition) -> dict[str, Any]:
    """One connector of `GET /connectors?expand=..`."""
    expanded: dict[str, Any] = {}
    if "status" in wanted:
        expanded["status"] = router.connector_status(one.identity, condition)
    if "info" in wanted:
        expanded["info"] = router.connector_info(one.identity, condition)
    return expanded


def _require_stopped(one: ServedConnector) -> None:
    """400 as Connect says it, with the way out; 409 on a standby."""
    one.port.require_leading()
    condition = one.port.condition()
    if condition.target is not TargetState.STOPPED or condition.slots:
        raise NotStopped(
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
            "done for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{one.identity.name}/stop' endpoint"
        )


def _plugin(call: Call) -> str:
    """The class that the path names, else 404."""
    found = plugins.plugin_class(call.names[0])
    if found is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Unknown plugin {call.names[0]}.")
    return found


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
