"""Requests as Connect's clients send them, one after the other, and what of an answer can be compared."""

import http.client
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final
from urllib.parse import quote

from localstack.ports import HOST
from tests.support.until import until_sync

JSON: Final = "application/json"
_AGAIN_SECONDS: Final = 60.0
# What is the connector's own, whose names are no part of Connect's interface.
_OPEN_MAPS: Final = frozenset({"config", "partition", "offset"})
_ABSENT: Final = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A worker that is asked: `$` in a request stands for `prefix`, `@source` and the like for `values`."""

    port: int
    prefix: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One request. In `body` a mapping with `@` is the named configuration with the rest over it."""

    name: str
    method: str
    path: str
    body: Any = None
    content_type: str | None = JSON
    until: Callable[[Any], bool] | None = field(default=None, kw_only=True)
    """Asked again until this holds for the document."""
    is_map: bool = field(default=False, kw_only=True)
    """The names in the document are the connector's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is compared of an answer: `shape` of a document, or the `message` of an error."""

    status: int
    content_type: str | None
    location: str | None
    allow: str | None
    message: str | None
    shape: Any


def play(side: Side, step: Step) -> Seen:
    """The answer of a side to a step."""
    body = _body(side, step.body)
    path = _filled(side, step.path)
    if step.until is None:
        return _ask(side, step, path, body)[0]
    held = step.until
    found: list[Seen] = []

    def holds() -> bool:
        seen, document = _ask(side, step, path, body)
        found[:] = [seen]
        return held(document if isinstance(document, dict) else {})

    until_sync(holds, seconds=_AGAIN_SECONDS, what=f"{step.name} at port {side.port}")
    return found[0]


def shape_of(value: Any) -> Any:
    """Names and types of a document; a list has one shape for all of its elements, or none."""
    if isinstance(value, dict):
        return {
            name: "map" if name in _OPEN_MAPS and isinstance(one, dict) else shape_of(one)
            for name, one in sorted(value.items())
        }
    if isinstance(value, list):
        return [reduce(_merged, map(shape_of, value))] if value else []
    return "null" if value is None else type(value).__name__


def fits(ours: Any, theirs: Any) -> bool:
    """Whether a reader of their documents can read ours. An empty list says nothing of its elements."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return not ours or not theirs or fits(ours[0], theirs[0])
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(
            fits(ours.get(name, _ABSENT), theirs.get(name, _ABSENT)) for name in ours.keys() | theirs.keys()
        )
    if isinstance(ours, str) and isinstance(theirs, str):
        return set(ours.split("|")) <= set(theirs.split("|"))
    return bool(ours == theirs)


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        return {name: _merged(one.get(name, _ABSENT), other.get(name, _ABSENT)) for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])] if one and other else one or other
    if isinstance(one, str) and isinstance(other, str):
        return "|".join(sorted({*one.split("|"), *other.split("|")}))
    return one if other == _ABSENT else other


def _ask(side: Side, step: Step, path: str, body: bytes | None) -> tuple[Seen, Any]:
    connection = http.client.HTTPConnection(HOST, side.port, timeout=120)
    try:
        headers = {"Accept": JSON}
        if body is not None and step.content_type is not None:
            headers["Content-Type"] = step.content_type
        connection.request(step.method, path, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode().replace(side.prefix, "$")
    finally:
        connection.close()
    for name, value in sorted(side.values.items()):
        if isinstance(value, str):
            text = text.replace(value, f"@{name}")
    document = json.loads(text) if text and _essence(answer.getheader("Content-Type")) == JSON else None
    error = document if isinstance(document, dict) and set(document) == {"error_code", "message"} else None
    location = answer.getheader("Location")
    allow = answer.getheader("Allow")
    return Seen(
        status=answer.status,
        content_type=_essence(answer.getheader("Content-Type")),
        location=None if location is None else _path(location, side),
        allow=None if allow is None else ",".join(sorted(one.strip() for one in allow.split(","))),
        message=None if error is None else error["message"],
        shape="error" if error else "map" if step.is_map else shape_of(document),
    ), document


def _path(location: str, side: Side) -> str:
    return location.removeprefix(f"http://{HOST}:{side.port}").replace(side.prefix, "$")


def _essence(content_type: str | None) -> str | None:
    return None if content_type is None else content_type.partition(";")[0].strip().lower()


def _body(side: Side, body: Any) -> bytes | None:
    if body is None:
        return None
    if isinstance(body, str):
        return _filled(side, body).encode()
    return _filled(side, json.dumps(_expanded(side, body))).encode()


def _expanded(side: Side, body: Any) -> Any:
    if isinstance(body, list):
        return [_expanded(side, one) for one in body]
    if isinstance(body, dict):
        base = dict(side.values[body["@"]]) if "@" in body else {}
        return base | {name: _expanded(side, one) for name, one in body.items() if name != "@"}
    return body


def _filled(side: Side, text: str) -> str:
    for name, value in sorted(side.values.items()):
        if isinstance(value, str):
            text = text.replace(f"@{name}", value if text.startswith(("{", "[")) else quote(value))
    return text.replace("$", side.prefix)
