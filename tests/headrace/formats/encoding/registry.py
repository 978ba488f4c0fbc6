"""A registry in memory, one over HTTP with the answers of a test, and records in its framing."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaReference

from headrace.formats.records.registry import frame
from headrace.formats.records.registry_connection import registry_client
from headrace.options.choices import SubjectNameStrategy
from headrace.options.schema_settings import RegistrySettings
from headrace.options.sink_settings import ConverterKind, ConverterSettings
from tests.support.http_serving import QuietHandler, serving

# Status and body that the registry answers for a path: JSON, or bytes that something else answers.
Answers = Mapping[str, tuple[int, Any]]


def registry(url: str | None = None) -> RegistrySettings:
    """Settings of a registry; one of its own in memory without an address."""
    return RegistrySettings(
        urls=(url or f"mock://r{uuid4().hex}",),
        properties=(),
        auto_register=True,
        subject_name_strategy=SubjectNameStrategy.TOPIC,
    )


def avro(settings: RegistrySettings) -> ConverterSettings:
    """The Avro converter of a registry."""
    return ConverterSettings(kind=ConverterKind.AVRO, registry=settings)


def datum(schema: Any, value: Any) -> bytes:
    """One value in Avro's encoding, as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed(settings: RegistrySettings, schema: Any, value: Any, subject: str = "orders-value") -> bytes:
    """One value as Confluent's serialiser writes it."""
    return frame(settings, subject, json.dumps(schema)) + datum(schema, value)


def framed_as(
    settings: RegistrySettings,
    kind: str,
    schema: str,
    content: bytes,
    subject: str = "orders-value",
    references: Sequence[tuple[str, str]] = (),
) -> bytes:
    """Content behind the id of a schema of this kind; `references` are names and their subjects, at 1."""
    found = [SchemaReference(name, where, 1) for name, where in references]
    number: int = registry_client(settings).register_schema(subject, Schema(schema, kind, found))
    return b"\x00" + number.to_bytes(4, "big") + content


@contextmanager
def http_registry(answers: Answers) -> Iterator[tuple[RegistrySettings, list[str]]]:
    """A registry over HTTP, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self.body()
            self._answer()

        def _answer(self) -> None:
            path = self.path.partition("?")[0]
            asked.append(path)
            status, shape = answers.get(path, (404, {"error_code": 40403, "message": "Schema not found"}))
            body = shape if isinstance(shape, bytes) else json.dumps(shape).encode()
            self.answer(status, body, {"Content-Type": "application/vnd.schemaregistry.v1+json"})

    with serving(Handler) as url:
        yield registry(url), asked
