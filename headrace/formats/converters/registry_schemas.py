"""The schemas that a registry knows, by their ids, each asked for once."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol
from uuid import UUID

from headrace.formats.avro_schema import PRIMITIVES
from headrace.formats.records.registry import (
    CircularReference,
    not_a_registry,
    referred,
    referred_files,
    registry_client,
    registry_errors,
)
from headrace.options.registry_settings import GlueSettings, RegistrySettings

# How long an id that the registry does not know is not asked for again.
_UNKNOWN_SECONDS: Final = 30.0
# What registries answer for an id that they do not have; any other 404 is that of a wrong address.
_NO_SCHEMA: Final = frozenset({40400, 40403})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


class SchemaKind(StrEnum):
    """What a schema is written in, as registries call it."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


_CALLED: Final = {
    SchemaKind.AVRO: ("schema_not_avro", "Avro"),
    SchemaKind.JSON: ("schema_not_json", "JSON Schema"),
    SchemaKind.PROTOBUF: ("schema_not_protobuf", "Protobuf"),
}


@dataclass(frozen=True, slots=True)
class NoSchema:
    """There is no schema of an id: `reason` is a word of the metric, `message` for a person."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema, and those that it refers to, however far, by the names of the references; of Avro none."""

    text: str
    files: Mapping[str, str] = field(default_factory=dict)


class SchemaStore(Protocol):
    """Where schemas are."""

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema:
        """The schema of an id, or why there is none.

        Blocks on the registry. Raises SourceUnavailable while the registry does not answer, AccessDenied
        while it refuses the user.
        """


class RegistrySchemas:
    """Schemas of one kind by their ids in a store, each asked for once."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._known: dict[int | UUID, SchemaText | NoSchema] = {}
        self._asked: dict[int | UUID, float] = {}

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema:
        """See `SchemaStore.schema`; blocks where the id is new."""
        known = self._known.get(id_)
        if isinstance(known, SchemaText) or (
            known is not None and time.monotonic() - self._asked[id_] < _UNKNOWN_SECONDS
        ):
            return known
        found = self._known[id_] = self._store.schema(id_)
        self._asked[id_] = time.monotonic()
        return found


class ConfluentStore:
    """See SchemaStore: a registry with Confluent's API."""

    def __init__(self, registry: RegistrySettings, kind: SchemaKind) -> None:
        self._registry = registry
        self._kind = kind

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema:
        """See `SchemaStore.schema`."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        client = registry_client(self._registry)
        with registry_errors("let it read the schemas"):
            try:
                schema = client.get_schema(id_)
                if not isinstance(schema.schema_str, str):
                    # The client would give the same from its cache for ever.
                    client.clear_caches()
                    raise not_a_registry("no schema in the answer")
                if schema.schema_type != self._kind:
                    return other_kind(id_, str(schema.schema_type), self._kind)
                if self._kind is SchemaKind.AVRO:
                    return SchemaText(_self_contained(client, schema, ()))
                return SchemaText(schema.schema_str, referred_files(client, schema))
            except SchemaRegistryError as error:
                if error.error_code not in _NO_SCHEMA:
                    raise
                return NoSchema(
                    "schema_unknown", f"the schema registry has no schema with the id {id_} of the record"
                )
            except CircularReference as error:
                return NoSchema(
                    "schema_unsupported",
                    f"the schema with the id {id_} refers to itself through the subject {error}",
                )


GlueVersions = Callable[[GlueSettings], Callable[[str], tuple[str, str] | None]]
"""What gives the type and text of a schema version of AWS Glue's by its id; see `headrace.aws.glue`."""


class GlueStore:
    """See SchemaStore: AWS Glue's registry."""

    def __init__(self, settings: GlueSettings, kind: SchemaKind, versions: GlueVersions) -> None:
        self._settings = settings
        self._kind = kind
        self._versions = versions
        self._version: Callable[[str], tuple[str, str] | None] | None = None

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema:
        """See `SchemaStore.schema`."""
        # A client is made where there are values: it takes a second.
        if self._version is None:
            self._version = self._versions(self._settings)
        found = self._version(str(id_))
        if found is None:
            return NoSchema(
                "schema_unknown", f"AWS Glue's schema registry has no schema with the id {id_} of the record"
            )
        kind, text = found
        return SchemaText(text) if kind == self._kind else other_kind(id_, kind, self._kind)


def other_kind(id_: int | UUID, found: str, wanted: SchemaKind) -> NoSchema:
    """A schema is written in something else than the converter reads."""
    reason, name = _CALLED[wanted]
    return NoSchema(reason, f"the schema with the id {id_} is of the type {found}, not {name}")


def _self_contained(client: Any, schema: Any, path: tuple[Any, ...]) -> str:
    """The schema's text, in which each type of another subject is defined where it is first used."""
    types = {
        name: json.loads(_self_contained(client, inner, below))
        for name, inner, below in referred(client, schema, path)
    }
    if not types:
        return str(schema.schema_str)
    return json.dumps(_Inliner(types).of(json.loads(schema.schema_str), ""))


class _Inliner:
    """Puts the definitions of named types in the place of their first names."""

    def __init__(self, types: dict[str, Any]) -> None:
        self._types = types
        self._defined: set[str] = set()

    def of(self, shape: Any, namespace: str) -> Any:
        if isinstance(shape, list):
            return [self.of(each, namespace) for each in shape]
        if isinstance(shape, str):
            return self._named(shape, namespace)
        kind = shape["type"]
        if kind in _NAMED:
            return self._definition(shape, namespace)
        if kind == "array":
            return {**shape, "items": self.of(shape["items"], namespace)}
        if kind == "map":
            return {**shape, "values": self.of(shape["values"], namespace)}
        return {**shape, "type": self.of(kind, namespace)} if kind not in PRIMITIVES else shape

    def _named(self, name: str, namespace: str) -> Any:
        if name in PRIMITIVES:
            return name
        for full in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if full in self._defined:
                return full
            if full in self._types:
                return self.of(self._types[full], "")
        return name

    def _definition(self, shape: dict[str, Any], namespace: str) -> Any:
        name = shape["name"]
        space = name.rpartition(".")[0] if "." in name else shape.get("namespace", namespace)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self._defined:
            return full
        self._defined.add(full)
        whole = {**shape, "name": full.rpartition(".")[2], "namespace": space}
        if "fields" in shape:
            whole["fields"] = [{**each, "type": self.of(each["type"], space)} for each in shape["fields"]]
        return whole
