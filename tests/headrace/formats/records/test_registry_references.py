"""Schemas that refer to a schema of another subject, which may have been deleted."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from headrace.formats.converters.registry_schemas import ConfluentStore, NoSchema, SchemaKind, SchemaText
from headrace.formats.records.registry import latest
from headrace.model.errors import InvalidObject, SourceUnavailable
from headrace.options.schema_settings import RegistrySettings
from tests.headrace.formats.encoding.registry import http_registry, registry
from tests.support.http_serving import QuietHandler, serving

_CITY: Final = {"type": "record", "name": "City", "namespace": "geo", "fields": []}
_HOME: Final = {"name": "geo.City", "subject": "city", "version": 1}
_PERSON: Final = {
    "AVRO": {"type": "record", "name": "P", "fields": [{"name": "home", "type": "geo.City"}]},
    "JSON": {"$ref": "geo.City"},
}


def _person(kind: str) -> dict[str, Any]:
    return {"schemaType": kind, "schema": json.dumps(_PERSON[kind]), "references": [_HOME], "id": 1}


@contextmanager
def _with_a_deleted_subject(kind: str) -> Iterator[RegistrySettings]:
    """A registry whose subject `city` was deleted softly: it is there for who asks for deleted ones."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            status, found = 200, _person(kind)
            if url.path == "/subjects/city/versions/1":
                found = {"subject": "city", "version": 1, "id": 2, "schema": json.dumps(_CITY)}
                if parse_qs(url.query).get("deleted") != ["true"]:
                    status, found = 404, {"error_code": 40401, "message": "Subject 'city' not found."}
            headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
            self.answer(status, json.dumps(found).encode(), headers)

    with serving(Handler) as url:
        yield registry(url)


@pytest.mark.parametrize("kind", list(_PERSON))
def test_a_subject_that_was_deleted_is_read_by_those_that_refer_to_it(kind: str) -> None:
    """As Java's clients do, which ask for deleted ones: the registry was said to be away, for ever."""
    with _with_a_deleted_subject(kind) as one:
        found = ConfluentStore(one, SchemaKind(kind)).schema(1)
        newest = latest(one, "person-value")

    assert isinstance(found, SchemaText)
    assert "geo" in found.text
    assert newest.files == (("geo.City", json.dumps(_CITY)),)


def _answers(code: int) -> dict[str, tuple[int, Any]]:
    return {
        "/schemas/ids/1": (200, _person("AVRO")),
        "/subjects/person-value/versions/latest": (200, _person("AVRO")),
        "/subjects/city/versions/1": (404, {"error_code": code, "message": "not found"}),
    }


@pytest.mark.parametrize("code", [40401, 40402, 40403])
def test_a_subject_that_was_deleted_for_good_makes_the_schema_unknown(code: int) -> None:
    """It is no fault of the registry, and does not pass by itself: the records are bad, or the object is."""
    with http_registry(_answers(code)) as (one, _):
        found = ConfluentStore(one, SchemaKind.AVRO).schema(1)
        with pytest.raises(InvalidObject, match="version 1 of the subject city") as caught:
            latest(one, "person-value")

    assert isinstance(found, NoSchema)
    assert (found.reason, caught.value.reason) == ("schema_unknown", "schema_refused")
    assert "the schema with the id 1 refers to version 1 of the subject city" in found.message


@pytest.mark.parametrize(
    "ask",
    [lambda one: ConfluentStore(one, SchemaKind.AVRO).schema(1), lambda one: latest(one, "person-value")],
)
def test_what_a_proxy_answers_for_a_reference_is_waited_for(ask: Callable[[RegistrySettings], Any]) -> None:
    """A 404 without the registry's own code says nothing of the subject."""
    with http_registry(_answers(404)) as (one, _), pytest.raises(SourceUnavailable):
        ask(one)
