"""What a running service says of itself on `http.listen`; nothing when it does not answer."""

import http.client
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from headrace.options.value_types import HostPort

_SECONDS: Final = 2.0
# Every snapshot is far smaller; whatever else listens there must not fill our memory.
_MAX_BYTES: Final = 8 * 1024 * 1024
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - listened on, and asked at home


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer, or none of this ingester's, and why."""

    why: str


def read_running_status(
    listen: HostPort | None, *, name: str, seconds: float = _SECONDS
) -> dict[str, Any] | NoAnswer:
    """The answer of `/status` (docs/commands.md). Blocks for a few `seconds` at most."""
    answer = _ask(listen, seconds)
    if isinstance(answer, NoAnswer):
        return answer
    if not {"name", "role"} <= answer.keys():
        return NoAnswer(f"{listen} answers, but not as Headrace does")
    if answer["name"] != name:
        return NoAnswer(f"{listen} is the ingester {answer['name']!r}")
    return answer


def read_running_worker(listen: HostPort | None, *, seconds: float = _SECONDS) -> dict[str, Any] | NoAnswer:
    """The answer of a worker's `/status` (docs/worker.md). Blocks for a few `seconds` at most."""
    answer = _ask(listen, seconds)
    if isinstance(answer, NoAnswer) or {"worker", "connectors"} <= answer.keys():
        return answer
    return NoAnswer(f"{listen} answers, but not as a worker of Headrace does")


def read_running_connector(
    listen: HostPort | None, name: str, *, seconds: float = _SECONDS
) -> dict[str, Any] | NoAnswer:
    """What a worker answers for one of its connectors. Blocks for a few `seconds` at most."""
    answer = _ask(listen, seconds, f"/connectors/{quote(name, safe='')}/status")
    if isinstance(answer, NoAnswer) or {"name", "role"} <= answer.keys():
        return answer
    return NoAnswer(f"{listen} answers, but not as a worker of Headrace does")


def _ask(listen: HostPort | None, seconds: float, path: str = "/status") -> dict[str, Any] | NoAnswer:
    """The JSON object that is answered."""
    if listen is None:
        return NoAnswer("http.listen is off")
    host = _ANY_ADDRESS.get(listen.host, listen.host)
    connection = http.client.HTTPConnection(host, listen.port, timeout=seconds)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        body = answer.read(_MAX_BYTES)
    except (OSError, http.client.HTTPException) as error:
        return NoAnswer(f"{listen} does not answer ({str(error) or type(error).__name__})")
    finally:
        connection.close()
    if answer.status == HTTPStatus.NOT_FOUND and answer.getheader("Content-Type", "").startswith(
        "text/plain"
    ):
        # A worker says where the connector is.
        return NoAnswer(body.decode("utf-8", "replace").strip().removesuffix("."))
    if answer.status != HTTPStatus.OK:
        return NoAnswer(f"{listen} answers {answer.status}")
    try:
        shape = json.loads(body)
    except ValueError:
        shape = None
    if not isinstance(shape, dict):
        return NoAnswer(f"{listen} answers, but not as Headrace does")
    return shape
