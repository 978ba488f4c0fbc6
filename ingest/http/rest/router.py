"""Requests to the functions that answer them, by path and method; what there is not is refused."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from headrace.model.errors import HeadraceError
from ingest.http.http_server import Request, Response
from ingest.http.rest.shapes import error_response


class Refused(HeadraceError):
    """What is asked for cannot be; it carries the status of the answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request whose path is known: `names` are the values of its asterisks, decoded."""

    request: Request
    names: tuple[str, ...]

    def flag(self, name: str) -> bool:
        """Whether a query parameter says true."""
        return self.parameter(name, "false").lower() == "true"

    def parameter(self, name: str, default: str) -> str:
        """The first value of a query parameter."""
        return parse_qs(self.request.query).get(name, [default])[0]

    def json(self) -> Any:
        """The body; 415 when it is not sent as JSON, 400 when it is not JSON."""
        if not self.request.body.strip():
            raise Refused(HTTPStatus.BAD_REQUEST, "The request has no body: a JSON document is needed")
        content_type = str(self.request.headers.get("Content-Type", ""))
        if content_type.partition(";")[0].strip().lower() != _JSON:
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"HTTP 415 Unsupported Media Type: send the body with Content-Type: {_JSON}",
            )
        try:
            return json.loads(self.request.body)
        except ValueError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "The body of the request is not JSON") from error


_JSON: Final = "application/json"

Act = Callable[[Call], Response]
Acts = Mapping[str, Act]
"""What answers, by method."""

_NOT_ALLOWED: Final = "HTTP 405 Method Not Allowed"


class Router:
    """Calls the function of a path and method, or raises Refused.

    `refused` are functions of methods that are there only to say why they are refused: no `Allow` lists them.
    """

    def __init__(self, served: Mapping[str, Acts], refused: Mapping[str, Acts]) -> None:
        self._served = served
        self._refused = refused

    def route(self, request: Request) -> Response:
        """The answer of the function; Refused with 404 where no path fits."""
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        for pattern, acts in self._served.items():
            wanted = pattern.split("/")
            if len(wanted) != len(parts) or any(
                name not in ("*", part) for name, part in zip(wanted, parts, strict=True)
            ):
                continue
            names = tuple(part for name, part in zip(wanted, parts, strict=True) if name == "*")
            return self._answer(pattern, acts, Call(request=request, names=names))
        raise Refused(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")

    def _answer(self, pattern: str, acts: Acts, call: Call) -> Response:
        method = "GET" if call.request.method == "HEAD" else call.request.method
        allowed = _allowed(acts)
        if method == "OPTIONS":
            text = "text/plain; charset=utf-8"
            return Response(HTTPStatus.OK, text, allowed.encode(), headers=(("Allow", allowed),))
        act = acts.get(method) or self._refused.get(pattern, {}).get(method) or _refuse
        try:
            return act(call)
        except Refused as error:
            if error.status is not HTTPStatus.METHOD_NOT_ALLOWED:
                raise
            shown = error_response(error.status, str(error))
            return Response(shown.status, shown.content_type, shown.body, headers=(("Allow", allowed),))


def refusing(reason: str) -> Act:
    """A function that refuses its method with 405 and this reason."""

    def refuse(_call: Call) -> Response:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{_NOT_ALLOWED}: {reason}.")

    return refuse


def _refuse(_call: Call) -> Response:
    raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, _NOT_ALLOWED)


def _allowed(acts: Acts) -> str:
    methods = {*acts, "OPTIONS", *(["HEAD"] if "GET" in acts else [])}
    return ", ".join(sorted(methods))
