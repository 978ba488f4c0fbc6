"""The REST interface on an address."""

from http import HTTPStatus
from typing import Final

from ingest.http import HttpServer, Response
from ingest.log_levels import LEVELS
from ingest.options_hash import options_hash
from ingest.rest.auth import read_accounts
from ingest.rest.loggers import Loggers
from ingest.rest.plugins import PLUGIN_CLASS
from ingest.rest.port import ConnectorPort
from ingest.rest.rest_offsets import OffsetsReader
from ingest.rest.rest_routes import RestRoutes
from ingest.rest.shapes import Identity, error_response
from ingest.settings import Settings, describe
from ingest.settings.direction_forms import SINK_CLASS, Direction
from ingest.settings.value_types import HostPort

_MAX_BODY: Final = 2 * 1024 * 1024
_ANY_ADDRESS: Final = {"0.0.0.0", "::"}  # noqa: S104 - what is listened on says not who we are


def rest_server(
    listen: HostPort, settings: Settings, connector: ConnectorPort, *, host_name: str, version: str
) -> HttpServer:
    """A server of the interface, not started. AddressTaken, InvalidAuthFile.

    `host_name` names this machine in `worker_id` when every address is listened on.
    """
    host = host_name if listen.host in _ANY_ADDRESS else listen.host
    identity = Identity(
        name=settings.name,
        config=_shown(settings),
        worker_id=str(HostPort(host, listen.port)),
        version=version,
        type=_direction(settings),
    )
    reader = OffsetsReader(
        bucket=settings.s3.bucket,
        input_format=settings.format.input_format,
        options=options_hash(settings.format, settings.routing),
    )
    routes = RestRoutes(identity, settings, connector, reader, Loggers(LEVELS))
    auth_file = settings.http.rest_auth_file
    return HttpServer(
        listen.host,
        listen.port,
        routes.answer,
        option="rest.listen",
        methods=None,
        max_body=_MAX_BODY,
        refuse=_refuse,
        admit=_everybody if auth_file is None else read_accounts(auth_file).admit,
        # Who has a password may come through a proxy under the proxy's name; no other site knows one.
        host_names=None if auth_file is not None else frozenset({host_name}),
    )


def _shown(settings: Settings) -> dict[str, str]:
    """The options that were given, as Connect shows a connector's: secrets masked, references as written.

    Tools look for the class and the name.
    """
    described = describe(settings)
    given = {name: text for name, text in described.items() if name in settings.given}
    plugin = PLUGIN_CLASS if settings.sink is None else SINK_CLASS
    return {"connector.class": plugin, **given, "name": settings.name}


def _direction(settings: Settings) -> Direction:
    return Direction.SOURCE if settings.sink is None else Direction.SINK


def _refuse(status: HTTPStatus, text: str) -> Response:
    return error_response(status, text)


def _everybody(_headers: object) -> None:
    """Loopback without a password file: whoever is on this machine."""
