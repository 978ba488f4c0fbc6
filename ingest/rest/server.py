"""The REST interface on an address."""

from http import HTTPStatus
from typing import Final, cast

from ingest.http import Answer, HttpServer, Response
from ingest.log_levels import LEVELS
from ingest.options_hash import options_hash
from ingest.rest.auth import read_accounts
from ingest.rest.directory import ServedConnector
from ingest.rest.loggers import Loggers
from ingest.rest.only_connector import OnlyConnector
from ingest.rest.plugins import default_class
from ingest.rest.port import OffsetsPort, SinkPort, SourcePort
from ingest.rest.rest_offsets import OffsetsReader, SourceOffsets
from ingest.rest.rest_routes import RestRoutes
from ingest.rest.shapes import Identity, error_response
from ingest.rest.sink_offsets import SinkOffsets
from ingest.settings import Settings, describe
from ingest.settings.direction_forms import Direction
from ingest.settings.value_types import HostPort

_MAX_BODY: Final = 2 * 1024 * 1024
_ANY_ADDRESS: Final = {"0.0.0.0", "::"}  # noqa: S104 - what is listened on says not who we are


def run_server(
    listen: HostPort, settings: Settings, port: SourcePort | SinkPort, *, host_name: str, version: str
) -> HttpServer:
    """A server of `headrace run`'s connector, not started. AddressTaken, InvalidAuthFile.

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
    return rest_server(listen, routes.answer, settings.http.rest_auth_file, host_name=host_name)


def offsets_port(settings: Settings, port: SourcePort | SinkPort) -> OffsetsPort:
    """The connector's offsets in Connect's JSON."""
    if settings.sink is not None:
        return SinkOffsets(cast(SinkPort, port))
    reader = OffsetsReader(
        bucket=settings.s3.bucket,
        input_format=settings.format.input_format,
        options=options_hash(settings.format, settings.routing, settings.transforms),
    )
    return SourceOffsets(cast(SourcePort, port), reader)


def own_name(listen: HostPort, host_name: str) -> str:
    """The host of an address, or this machine's name where every address is listened on."""
    return host_name if listen.host in _ANY_ADDRESS else listen.host


def rest_server(listen: HostPort, answer: Answer, auth_file: str | None, *, host_name: str) -> HttpServer:
    """The interface on an address, not started. AddressTaken, InvalidAuthFile."""
    return HttpServer(
        listen.host,
        listen.port,
        answer,
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
    return {"connector.class": default_class(_direction(settings)), **given, "name": settings.name}


def _direction(settings: Settings) -> Direction:
    return Direction.SOURCE if settings.sink is None else Direction.SINK


def _refuse(status: HTTPStatus, text: str) -> Response:
    return error_response(status, text)


def _everybody(_headers: object) -> None:
    """Loopback without a password file: whoever is on this machine."""
