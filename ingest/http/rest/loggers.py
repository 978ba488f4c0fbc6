"""Connect's `/admin/loggers`: what this process logs, seen and changed while it runs."""

from http import HTTPStatus
from typing import Any, Final

from headrace.process.log_levels import InvalidLevel, LoggerLevel, LoggerLevels, UnsafeLevel
from ingest.http.http_server import Response
from ingest.http.rest.router import Acts, Call, Refused

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
