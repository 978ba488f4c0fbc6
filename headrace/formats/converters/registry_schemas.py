"""Schemas by their ids in a registry, each asked for once; ids that it does not have, at a pace.

A one and sixteen bytes are also what any value has that begins with a one: each such value looks as if it
had a schema of its own.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol
from uuid import UUID

from headrace.formats.avro_schema import PRIMITIVES
from headrace.formats.records.registry import CircularReference, MissingReference, referred_files
from headrace.formats.records.registry_connection import (
    lacks_path,
    not_a_registry,
    registry_client,
    registry_errors,
)
from headrace.options.schema_settings import GlueSettings, RegistrySettings

# How long an id that the registry does not know is not asked for again.
_UNKNOWN_SECONDS: Final = 30.0
_MOST_UNKNOWN: Final = 1000
# How long a registry counts as one that has no UUIDs.
_NO_GUIDS_SECONDS: Final = 30.0
_AS_GUID: Final = "it begins as one that names its schema by the UUID"
_NO_GUIDS: Final = "and the schema registry has no UUIDs (those of Confluent have them from version 8 on)"
# A question for a schema that the registry does not have takes this long, or twice as long as it took, of
# what is spared for such questions: 100 at once, then 20 a second. A registry that is far away is asked for
# few seconds in a row: less than a slot may be silent, and than what it has said is known.
UNKNOWN_A_SECOND: Final = 20
_QUESTION_SECONDS: Final = 1 / UNKNOWN_A_SECOND
_SPARED_SECONDS: Final = 5.0
# What registries answer for an id that they do not have; any other 404 is that of a wrong address.
_NO_SCHEMA: Final = frozenset({40400, 40403})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
# Where in an Avro type that holds others these are.
_HOLDERS: Final = {"array": "items", "map": "values"}


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

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema | None:
        """The schema of an id, or why there is none; None: it is not asked for now, but soon.

        Blocks on the registry. Raises SourceUnavailable while the registry does not answer, AccessDenied
        while it refuses the user.
        """


class RegistrySchemas:
    """Schemas of one kind by their ids in a store, each asked for once. `clock` in seconds."""

    def __init__(self, store: SchemaStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[int | UUID, SchemaText] = {}
        self._unknown: dict[int | UUID, tuple[NoSchema, float]] = {}

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema | None:
        """See `SchemaStore.schema`; blocks where the id is new."""
        known = self._known.get(id_)
        if known is not None:
            return known
        missing, asked = self._unknown.pop(id_, (None, 0.0))
        if missing is None or self._clock() - asked >= _UNKNOWN_SECONDS:
            found = self._store.schema(id_)
            if found is None:
                return None
            if isinstance(found, SchemaText):
                self._known[id_] = found
                return found
            missing, asked = found, self._clock()
        self._unknown[id_] = missing, asked
        if len(self._unknown) > _MOST_UNKNOWN:
            # Values that only look framed have each an id of their own.
            del self._unknown[next(iter(self._unknown))]
        return missing


class _Pace:
    """Questions for schemas that a registry does not have: no more of them than it is to bear.

    A good record may be among many that only look framed, so that none is bad without a question.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._spared = _SPARED_SECONDS
        self._at = clock()

    def ask(self, question: Callable[[], SchemaText | NoSchema]) -> SchemaText | NoSchema | None:
        """The answer; None where it is not asked now."""
        self._pass()
        if self._spared < _QUESTION_SECONDS / 2:
            return None
        began = self._clock()
        found = question()
        if isinstance(found, NoSchema):
            self._pass()
            self._spared = max(0.0, self._spared - max(_QUESTION_SECONDS, 2 * (self._clock() - began)))
        return found

    def _pass(self) -> None:
        now = self._clock()
        self._spared = min(_SPARED_SECONDS, self._spared + now - self._at)
        self._at = now


class ConfluentStore:
    """See SchemaStore: a registry with Confluent's API. `clock` in seconds."""

    def __init__(
        self, registry: RegistrySettings, kind: SchemaKind, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self._kind = kind
        self._clock = clock
        self._pace = _Pace(clock)
        self._has_no_guids_until: float | None = None
        self._known: int | None = None

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema | None:
        """See `SchemaStore.schema`."""
        until = self._has_no_guids_until
        if isinstance(id_, UUID) and until is not None and self._clock() < until:
            return _no_guids(id_)
        return self._pace.ask(lambda: self._asked(id_))

    def _asked(self, id_: int | UUID) -> SchemaText | NoSchema:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        client = registry_client(self._registry)
        with registry_errors("let it read the schemas"):
            try:
                return self._found(client, id_)
            except SchemaRegistryError as error:
                if error.error_code not in _NO_SCHEMA:
                    if not (isinstance(id_, UUID) and lacks_path(error, client, self._known)):
                        raise
                    self._has_no_guids_until = self._clock() + _NO_GUIDS_SECONDS
                    return _no_guids(id_)
                return NoSchema(
                    "schema_unknown", f"the schema registry has no schema with the id {id_} of the record"
                )
            except MissingReference as error:
                return NoSchema(
                    "schema_unknown",
                    f"the schema with the id {id_} refers to {error}, which the registry does not have",
                )
            except CircularReference as error:
                return NoSchema(
                    "schema_unsupported",
                    f"the schema with the id {id_} refers to itself through the subject {error}",
                )

    def _found(self, client: Any, id_: int | UUID) -> SchemaText | NoSchema:
        schema = client.get_schema(id_) if isinstance(id_, int) else client.get_schema_by_guid(str(id_))
        if not isinstance(schema.schema_str, str):
            # The client would give the same from its cache for ever.
            client.clear_caches()
            raise not_a_registry("no schema in the answer")
        if isinstance(id_, int):
            self._known = id_
        if schema.schema_type != self._kind:
            return other_kind(id_, str(schema.schema_type), self._kind)
        if self._kind is SchemaKind.AVRO:
            return SchemaText(_self_contained(client, schema))
        return SchemaText(schema.schema_str, referred_files(client, schema))


GlueVersions = Callable[[GlueSettings], Callable[[str], tuple[str, str] | None]]
"""What gives the type and text of a schema version of AWS Glue's by its id; see `headrace.aws.glue`."""


class GlueStore:
    """See SchemaStore: AWS Glue's registry. `clock` in seconds."""

    def __init__(
        self,
        settings: GlueSettings,
        kind: SchemaKind,
        versions: GlueVersions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._kind = kind
        self._versions = versions
        self._version: Callable[[str], tuple[str, str] | None] | None = None
        self._pace = _Pace(clock)

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema | None:
        """See `SchemaStore.schema`."""
        return self._pace.ask(lambda: self._asked(id_))

    def _asked(self, id_: int | UUID) -> SchemaText | NoSchema:
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


def _no_guids(id_: int | UUID) -> NoSchema:
    return NoSchema("schema_unknown", f"{_AS_GUID} {id_}, {_NO_GUIDS}")


def other_kind(id_: int | UUID, found: str, wanted: SchemaKind) -> NoSchema:
    """A schema is written in something else than the converter reads."""
    reason, name = _CALLED[wanted]
    return NoSchema(reason, f"the schema with the id {id_} is of the type {found}, not {name}")


def _self_contained(client: Any, schema: Any) -> str:
    """The schema's text, in which each type of another subject is defined where it is first used.

    As in Java, a type is known however far away it is referred to, and within which other one it is defined.
    """
    files = referred_files(client, schema)
    if not files:
        return str(schema.schema_str)
    try:
        types: dict[str, Any] = {}
        for text in files.values():
            _collect(json.loads(text), "", types)
        return json.dumps(_Inliner(types).of(json.loads(schema.schema_str), ""))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        # What is no schema is found where it is read: it does not tell of the registry.
        return str(schema.schema_str)


def _collect(shape: Any, namespace: str, types: dict[str, Any]) -> None:
    """Put all named types that a schema defines into `types`, with their namespaces."""
    if isinstance(shape, list):
        for each in shape:
            _collect(each, namespace, types)
    elif isinstance(shape, dict):
        kind = shape["type"]
        if not isinstance(kind, str):
            _collect(kind, namespace, types)
        elif kind in _NAMED:
            full, namespace = _full_name(shape, namespace)
            types.setdefault(full, {**shape, "name": full.rpartition(".")[2], "namespace": namespace})
            _collect([each["type"] for each in shape.get("fields", ())], namespace, types)
        elif kind in _HOLDERS:
            _collect(shape[_HOLDERS[kind]], namespace, types)


def _full_name(shape: dict[str, Any], namespace: str) -> tuple[str, str]:
    """The name of a named type with its namespace, and that, within the `namespace` around it."""
    name = shape["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    space = shape.get("namespace", namespace)
    return (f"{space}.{name}" if space else name), space


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
        is_name = isinstance(kind, str)
        if is_name and kind in _NAMED:
            return self._definition(shape, namespace)
        if is_name and kind in _HOLDERS:
            below = _HOLDERS[kind]
            return {**shape, below: self.of(shape[below], namespace)}
        return shape if is_name and kind in PRIMITIVES else {**shape, "type": self.of(kind, namespace)}

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
        full, space = _full_name(shape, namespace)
        if full in self._defined:
            return full
        self._defined.add(full)
        whole = {**shape, "name": full.rpartition(".")[2], "namespace": space}
        if "fields" in shape:
            whole["fields"] = [{**each, "type": self.of(each["type"], space)} for each in shape["fields"]]
        return whole
