"""The one connector of `headrace run`: its configuration is a file, so nothing here makes or changes one."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from headrace.options import Settings, changed_options, describe
from headrace.options.direction_forms import Direction
from ingest.http.http_server import Response
from ingest.http.rest import plugins
from ingest.http.rest.directory import ServedConnector
from ingest.http.rest.rest_routes import info_of
from ingest.http.rest.router import Acts, Call, Refused, refusing

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
    """`ingest.http.rest.directory.ConnectorDirectory` of one connector."""

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
        way = Direction(self._served.identity.type)
        named = plugins.plugin_class(str(config.get("connector.class") or plugins.default_class(way)).strip())
        same_class = named is not None and plugins.direction_of(named) is way
        changed = [
            option
            for option in changed_options(self._running, config, is_whole=call.request.method == "PUT")
            if option != "connector.class" or not same_class
        ]
        if changed:
            raise Refused(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"HTTP 405 Method Not Allowed: this would change {', '.join(changed)}, and "
                f"{_NO_CONFIGURING}.",
            )
        return Response.of_json(info_of(self._served))
