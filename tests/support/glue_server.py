"""AWS Glue's schema registry, as far as converters call it: LocalStack has none."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from tests.support.http_serving import QuietHandler, serving

_Answer = tuple[int, dict[str, Any]]
_ABSENT: _Answer = 400, {"__type": "EntityNotFoundException", "Message": "Schema is not found."}


@dataclass(slots=True)
class Version:
    """A version of a schema; `schema` is where it is, as `registry/name`."""

    kind: str
    text: str
    schema: str = ""
    statuses: list[str] = field(default_factory=list)
    """Those before it is available."""

    def status(self) -> str:
        """What it is, and the next time the next one."""
        return self.statuses.pop(0) if self.statuses else "AVAILABLE"


class Glue:
    """Versions by their ids; `refuse` is what it answers instead, and `asked` what it was asked."""

    def __init__(self) -> None:
        self.versions: dict[str, Version] = {}
        self.registries = {"default-registry"}
        self.schemas: dict[str, str] = {}
        self.statuses: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.calls: list[str] = []
        self.refuse: tuple[int, str] | None = None

    def add(self, kind: str, schema: Any, *, name: str = "") -> UUID:
        """A version, and its id."""
        made = uuid4()
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.versions[str(made)] = Version(kind, text, name, list(self.statuses))
        if name:
            self.schemas[name] = kind
        return made

    def answer(self, operation: str, request: dict[str, Any], authorization: str) -> _Answer:
        """What an operation answers."""
        self.calls.append(operation)
        if "SchemaVersionId" in request:
            self.asked.append((request["SchemaVersionId"], authorization))
        if self.refuse is not None:
            return self.refuse[0], {"__type": self.refuse[1], "Message": "no"}
        match operation:
            case "GetSchemaVersion":
                return self._version(request)
            case "GetSchemaByDefinition":
                return self._found(_place(request["SchemaId"]), request["SchemaDefinition"])
            case "RegisterSchemaVersion":
                return self._registered(_place(request["SchemaId"]), request["SchemaDefinition"])
            case _:
                return self._created(request)

    def _version(self, request: dict[str, Any]) -> _Answer:
        number = request.get("SchemaVersionId")
        if number is None:
            assert request["SchemaVersionNumber"] == {"LatestVersion": True}
            place = _place(request["SchemaId"])
            number = next((key for key, each in reversed(self.versions.items()) if each.schema == place), "")
        if number not in self.versions:
            return _ABSENT
        version = self.versions[number]
        return 200, {
            "SchemaVersionId": number,
            "DataFormat": version.kind,
            "SchemaDefinition": version.text,
            "Status": version.status(),
        }

    def _found(self, place: str, text: str) -> _Answer:
        for number, version in self.versions.items():
            if version.schema == place and version.text == text:
                return 200, {"SchemaVersionId": number, "Status": version.status()}
        return _ABSENT

    def _registered(self, place: str, text: str) -> _Answer:
        if place not in self.schemas:
            return _ABSENT
        known = self._found(place, text)
        if known is not _ABSENT:
            return known
        number = str(self.add(self.schemas[place], text, name=place))
        return 200, {"SchemaVersionId": number, "Status": self.versions[number].status()}

    def _created(self, request: dict[str, Any]) -> _Answer:
        place = _place({**request["RegistryId"], "SchemaName": request["SchemaName"]})
        if request["RegistryId"]["RegistryName"] not in self.registries:
            return _ABSENT
        assert request["Compatibility"] == "FULL_ALL"
        if place in self.schemas:
            return 400, {"__type": "AlreadyExistsException", "Message": "Schema already exists."}
        number = str(self.add(request["DataFormat"], request["SchemaDefinition"], name=place))
        return 200, {"SchemaVersionId": number, "SchemaVersionStatus": self.versions[number].status()}


def _place(schema: dict[str, str]) -> str:
    return f"{schema['RegistryName']}/{schema['SchemaName']}"


@contextmanager
def served() -> Iterator[tuple[Glue, str]]:
    """The registry, and its address."""
    glue = Glue()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            operation = str(self.headers["X-Amz-Target"]).removeprefix("AWSGlue.")
            request = json.loads(self.body())
            status, shape = glue.answer(operation, request, str(self.headers["Authorization"]))
            self.answer(status, json.dumps(shape).encode(), {"Content-Type": "application/x-amz-json-1.1"})

    with serving(Handler) as url:
        yield glue, url
