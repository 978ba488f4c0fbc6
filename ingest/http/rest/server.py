"""The REST interface on an address, and the one connector that `headrace run` shows on it.

That connector's configuration is a file, so nothing here makes or changes one.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NoReturn, cast

from headrace.options import (
    Settings,
    SettingsError,
    applied,
    changed_options,
    describe,
    is_same,
    unmasked,
    written_options,
)
from headrace.options.describe import options_hash
from headrace.options.given import Problem
from headrace.options.value_types import HostPort
from headrace.options.vendor import WAYS, Direction
from headrace.process.log_levels import LEVELS
from headrace.vendors.class_names import sink_class
from headrace.vendors.load import load, vendor_of
from ingest.http.http_server import RETRY, Answer, HttpServer, Request, Response
from ingest.http.rest import plugins
from ingest.http.rest.auth import INTERNAL, AuthFile
from ingest.http.rest.plugins import default_class
from ingest.http.rest.port import OffsetsPort, SinkPort, SourcePort
from ingest.http.rest.rest_offsets import OffsetsReader, SinkOffsets, SourceOffsets
from ingest.http.rest.rest_routes import READS, RestRoutes, ServedConnector, info_of
from ingest.http.rest.router import Acts, Call, Identity, Loggers, Refused, error_response, refusing

_CLASS: Final = "connector.class"
_NO_CREATING: Final = (
    "`headrace run` is one connector, made by its configuration file: start another one, or a `headrace "
    "worker`, which runs many"
)
_NO_CONFIGURING: Final = (
    "the configuration of `headrace run` is its file: change it there and restart the process; what is in "
    "progress continues where it was"
)
_NO_DELETING: Final = (
    "`headrace run` is one connector and lives as long as its process: end the process, or use PUT .../stop"
)


class OnlyConnector:
    """`ingest.http.rest.rest_routes.ConnectorDirectory` of one connector."""

    def __init__(self, running: Settings, served: ServedConnector) -> None:
        self._running = running
        self._served = served

    @property
    def cluster_id(self) -> str | None:
        """See `ConnectorDirectory.cluster_id`."""
        return self._served.port.cluster_id

    @property
    def worker_config(self) -> str:
        """See `ConnectorDirectory.worker_config`."""
        return f"bootstrap.servers={describe(self._running).get('bootstrap.servers', '')}"

    @property
    def origins(self) -> Collection[str]:
        """See `ConnectorDirectory.origins`: its configuration has no such option."""
        return ()

    def judge(self, config: Mapping[str, str]) -> tuple[Mapping[str, str], Sequence[Problem]]:
        """See `ConnectorDirectory.judge`: its process is its own."""
        own = self._served.identity.name
        return unmasked(self._running, config) if config.get("name") == own else config, ()

    def require_health(self) -> None:
        """See `ConnectorDirectory.require_health`."""
        self._served.port.require_leading()
        self._served.port.condition()

    def names(self) -> Sequence[str]:
        """See `ConnectorDirectory.names`."""
        return [self._served.identity.name]

    def find(self, name: str) -> ServedConnector | None:
        """See `ConnectorDirectory.find`."""
        return self._served if name == self._served.identity.name else None

    def refused(self) -> Mapping[str, Acts]:
        """What is refused, and why; a configuration only unless nothing would change.

        So a tool can apply a configuration again and again.
        """
        one = "connectors/*"
        return {
            "connectors": {"POST": refusing(_NO_CREATING)},
            one: {"DELETE": refusing(_NO_DELETING)},
            f"{one}/config": {"PUT": self._configure, "PATCH": self._configure},
        }

    def _configure(self, call: Call) -> Response:
        name = self._served.identity.name
        if call.names[0] != name:
            raise Refused(HTTPStatus.NOT_FOUND, f"Connector {call.names[0]} not found")
        # As Connect does, the name is taken from the path where the body leaves it out.
        config = {"name": name, **plugins.given(call.json())}
        changed = self._changed(config, is_whole=call.request.method == "PUT")
        if changed:
            raise Refused(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"HTTP 405 Method Not Allowed: this would change {', '.join(changed)}, and "
                f"{_NO_CONFIGURING}.",
            )
        return Response.of_json(info_of(self._served))

    def _changed(self, config: Mapping[str, str | None], *, is_whole: bool) -> list[str]:
        """The options that differ, unless all of it is the same once it is translated."""
        changed = changed_options(self._running, config, is_whole=is_whole)
        if not self._has_class_of(config, is_whole=is_whole):
            return sorted([*changed, _CLASS])
        if not changed:
            return []
        given = applied(self._running, config, is_whole=is_whole)
        given.pop(_CLASS, None)
        if (written := self._written_class) is not None:
            given[_CLASS] = written[1]
        try:
            # Nothing of this machine is read for a client: what is as before is in `given` already.
            other = load(
                json.dumps(given),
                kind="json",
                environment={},
                read_file=_read_nothing,
                worker_config=self.worker_config,
                read_bytes=_read_nothing,
            )
        except SettingsError:
            return changed
        return [] if is_same(self._running, other) else changed

    @property
    def _written_class(self) -> tuple[str, str] | None:
        """The class as it was written, and with its references replaced."""
        found = {name: (raw.reveal(), text.reveal()) for name, raw, text in self._running.written}
        return found.get(_CLASS)

    def _has_class_of(self, config: Mapping[str, str | None], *, is_whole: bool) -> bool:
        """Whether the class stays, or is another name of the same: ours has some."""
        if _CLASS not in config and not is_whole:
            return True
        way = _direction(self._running)
        written, running = self._written_class or (default_class(way), default_class(way))
        named = (config.get(_CLASS) or default_class(way)).strip()
        if named == written.strip():
            return True
        options = {*written_options(self._running), *config}
        known = sink_class(named, options) or plugins.plugin_class(named)
        if known is None or WAYS[known] is not way:
            return False
        whole = sink_class(running.strip(), options) or running
        return vendor_of({_CLASS: known}) is vendor_of({_CLASS: whole})


def _read_nothing(path: str) -> NoReturn:
    raise PermissionError(1, "nothing is read for a client", path)


_MAX_BODY: Final = 2 * 1024 * 1024
# As long as Kafka Connect lets a request wait for its group.
_PATIENCE_SECONDS: Final = 90.0
_PAUSE_SECONDS: Final = 0.2
"""Methods that change nothing."""
FORWARDED: Final = "Headrace-Forwarded"
"""The header of a request that another worker passes on."""
_ANY_ADDRESS: Final = {"0.0.0.0", "::"}  # noqa: S104 - what is listened on says not who we are


def run_server(
    listen: HostPort,
    settings: Settings,
    port: SourcePort | SinkPort,
    *,
    host_name: str,
    version: str,
    auth: AuthFile | None,
) -> HttpServer:
    """A server of `headrace run`'s connector, not started; with `auth` for its users. AddressTaken.

    `host_name` names this machine in `worker_id` when every address is listened on.
    """
    identity = Identity(
        name=settings.name,
        config=_shown(settings),
        worker_id=str(HostPort(own_name(listen, host_name), listen.port)),
        version=version,
        type=_direction(settings),
    )
    only = OnlyConnector(
        settings, ServedConnector(identity=identity, port=port, offsets=offsets_port(settings, port))
    )
    routes = RestRoutes(only, Loggers(LEVELS), version=version, changing={}, refused=only.refused())
    return rest_server(listen, routes.answer, auth, host_name=host_name)


def offsets_port(settings: Settings, port: SourcePort | SinkPort) -> OffsetsPort:
    """The connector's offsets in Connect's JSON."""
    if settings.sink is not None:
        return SinkOffsets(cast(SinkPort, port))
    reader = OffsetsReader(
        buckets=settings.buckets,
        input_format=settings.format.input_format,
        options=options_hash(settings.format, settings.routing, settings.transforms),
        format_settings=settings.format,
    )
    return SourceOffsets(cast(SourcePort, port), reader)


def patiently(
    answer: Answer,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Answer:
    """The same, but what changes something waits for the leader that can do it, as in Kafka Connect.

    Right after a start, or while a leader is replaced, a script would have to repeat what it sends. A request
    that another worker passes on does not wait: that worker does, and looks again for whom to ask.
    """

    def answered(request: Request) -> Response:
        deadline = clock() + _PATIENCE_SECONDS
        while True:
            response = answer(request)
            waits = request.method not in READS and request.headers.get(FORWARDED) is None
            passes = response.status is HTTPStatus.CONFLICT and RETRY[0] in response.headers
            if not (waits and passes) or clock() >= deadline:
                return response
            pause(_PAUSE_SECONDS)

    return answered


def own_name(listen: HostPort, host_name: str) -> str:
    """The host of an address, or this machine's name where every address is listened on."""
    return host_name if listen.host in _ANY_ADDRESS else listen.host


def rest_server(listen: HostPort, answer: Answer, auth: AuthFile | None, *, host_name: str) -> HttpServer:
    """The interface on an address, not started. AddressTaken."""
    return HttpServer(
        listen.host,
        listen.port,
        patiently(answer),
        option="rest.listen",
        methods=None,
        max_body=_MAX_BODY,
        refuse=_refuse,
        admit=_everybody if auth is None else auth.admit,
        is_vital=_is_vital,
        # Who has a password may come through a proxy under the proxy's name; no other site knows one.
        host_names=None if auth is not None else frozenset({host_name}),
    )


def _shown(settings: Settings) -> dict[str, str]:
    """The options that were given, as Connect shows a connector's: secrets masked, references as written.

    Tools look for the class and the name.
    """
    return {_CLASS: default_class(_direction(settings)), **written_options(settings), "name": settings.name}


def _direction(settings: Settings) -> Direction:
    return Direction.SOURCE if settings.sink is None else Direction.SINK


def _refuse(status: HTTPStatus, text: str) -> Response:
    return error_response(status, text)


def _is_vital(path: str) -> bool:
    """Heartbeats of other workers, probes, and the plain question whether this process answers at all."""
    return path in {"/", "/health"} or path.startswith(INTERNAL)


def _everybody(_path: str, _headers: object) -> None:
    """Loopback without a password file: every user of this machine."""
