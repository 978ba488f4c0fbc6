"""The schemas that a registry knows, by their ids, each asked for once."""

import json
import time
from dataclasses import dataclass
from typing import Any, Final

from ingest.settings.registry_settings import RegistrySettings
from spark.formats.avro_schema import PRIMITIVES
from spark.records.registry import not_a_registry, registry_client, registry_errors

# How long an id that the registry does not know is not asked for again.
_UNKNOWN_SECONDS: Final = 30.0
# What registries answer for an id that they do not have; any other 404 is that of a wrong address.
_NO_SCHEMA: Final = frozenset({40400, 40403})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


@dataclass(frozen=True, slots=True)
class NoSchema:
    """There is no Avro schema of an id: `reason` is a word of the metric, `message` for a person."""

    reason: str
    message: str


class RegistrySchemas:
    """Avro schemas as JSON text by the ids of one registry."""

    def __init__(self, registry: RegistrySettings) -> None:
        self._registry = registry
        self._known: dict[int, str | NoSchema] = {}
        self._asked: dict[int, float] = {}

    def text(self, number: int) -> str | NoSchema:
        """The schema with the types that it refers to put in, or why there is none.

        Blocks on the registry where the id is new. Raises SourceUnavailable while the registry does not
        answer, AccessDenied while it refuses the user.
        """
        known = self._known.get(number)
        if isinstance(known, str) or (
            known is not None and time.monotonic() - self._asked[number] < _UNKNOWN_SECONDS
        ):
            return known
        found = self._known[number] = self._fetched(number)
        self._asked[number] = time.monotonic()
        return found

    def _fetched(self, number: int) -> str | NoSchema:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        client = registry_client(self._registry)
        with registry_errors("let it read the schemas"):
            try:
                schema = client.get_schema(number)
                if not isinstance(schema.schema_str, str):
                    # The client would give the same from its cache for ever.
                    client.clear_caches()
                    raise not_a_registry("no schema in the answer")
                if schema.schema_type != "AVRO":
                    return NoSchema(
                        "schema_not_avro",
                        f"the schema with the id {number} is of the type {schema.schema_type}, not Avro",
                    )
                return _self_contained(client, schema)
            except SchemaRegistryError as error:
                if error.error_code not in _NO_SCHEMA:
                    raise
                return NoSchema(
                    "schema_unknown", f"the schema registry has no schema with the id {number} of the record"
                )


def _self_contained(client: Any, schema: Any) -> str:
    """The schema's text, in which each type of another subject is defined where it is first used."""
    references = getattr(schema, "references", None) or []
    if not references:
        return str(schema.schema_str)
    types: dict[str, Any] = {}
    for reference in references:
        version = client.get_version(reference.subject, reference.version)
        types[reference.name] = json.loads(_self_contained(client, version.schema))
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
