"""Whether the master of a cluster is there: asked before a JVM is, which takes minutes to say no."""

import socket
from typing import Final
from urllib.parse import urlsplit

from headrace.model.errors import Unavailable

_CONNECT_SECONDS: Final = 3.0
_KUBERNETES: Final = "k8s://"
_STANDALONE: Final = "spark://"
_HTTPS_PORT: Final = 443
_HTTP_PORT: Final = 80


def addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each master that the URL names; none where it names no address, as `local[*]`."""
    if master.startswith(_STANDALONE):
        return [_host_and_port(place) for place in master.removeprefix(_STANDALONE).split(",")]
    if master.startswith(_KUBERNETES):
        place = master.removeprefix(_KUBERNETES)
        # As Spark reads it: without a scheme it is https.
        url = urlsplit(place if "://" in place else f"https://{place}")
        if url.hostname is not None:
            return [(url.hostname, url.port or (_HTTP_PORT if url.scheme == "http" else _HTTPS_PORT))]
    return []


def require_master(master: str) -> None:
    """Return when one of the masters accepts a connection, or none is named. Blocks; Unavailable."""
    refusals = []
    for host, port in addresses(master):
        try:
            with socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
                return
        except OSError as error:
            refusals.append(f"{host}:{port}: {error.strerror or error}")
    if refusals:
        raise Unavailable(f"spark.master = {master!r} cannot be reached ({'; '.join(refusals)}).")


def _host_and_port(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    return host.strip("[]"), int(port)
