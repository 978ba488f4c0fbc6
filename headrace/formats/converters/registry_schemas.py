"""Keys and values that name their schema in a registry: the schema asked for once, a segment for each one."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np
import pyarrow as pa

from headrace.formats.arrow import column_of_arrow
from headrace.formats.avro_schema import PRIMITIVES, SchemaError
from headrace.formats.connect import InvalidSchema
from headrace.formats.converted_records import ColumnSchema, ConvertedColumn
from headrace.formats.converters.framing import NO_SCHEMA, Framing, SchemaKey
from headrace.formats.converters.schema_guids import AS_GUID, NO_GUIDS, GuidQuestions
from headrace.formats.converters.typed_columns import RowFaults, Segment, TypedColumn
from headrace.formats.records.registry import CircularReference, MissingReference, referred_files
from headrace.formats.records.registry_connection import (
    lacks_path,
    not_a_registry,
    registry_client,
    registry_errors,
)
from headrace.model.columns import NULL_LENGTH, Column, Numbers, column_of, picked
from headrace.model.text_formatting import printable
from headrace.options.choices import JsonFormat
from headrace.options.schema_settings import GlueSettings, RegistrySettings

# How long an id that the registry does not know is not asked for again.
_UNKNOWN_SECONDS: Final = 30.0
_MOST_UNKNOWN: Final = 1000
# What registries answer for an id that they do not have; any other 404 is that of a wrong address.
_NO_SCHEMA: Final = frozenset({40400, 40403})
_WORDS: Final = 600
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

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema:
        """The schema of an id, or why there is none.

        Blocks on the registry. Raises SourceUnavailable while the registry does not answer, AccessDenied
        while it refuses the user.
        """


class RegistrySchemas:
    """Schemas of one kind by their ids in a store, each asked for once."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._known: dict[int | UUID, SchemaText] = {}
        self._unknown: dict[int | UUID, tuple[NoSchema, float]] = {}

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema:
        """See `SchemaStore.schema`; blocks where the id is new."""
        known = self._known.get(id_)
        if known is not None:
            return known
        missing, asked = self._unknown.pop(id_, (None, 0.0))
        if missing is None or time.monotonic() - asked >= _UNKNOWN_SECONDS:
            found = self._store.schema(id_)
            if isinstance(found, SchemaText):
                self._known[id_] = found
                return found
            missing, asked = found, time.monotonic()
        self._unknown[id_] = missing, asked
        if len(self._unknown) > _MOST_UNKNOWN:
            # Values that only look framed have each an id of their own.
            del self._unknown[next(iter(self._unknown))]
        return missing


class ConfluentStore:
    """See SchemaStore: a registry with Confluent's API."""

    def __init__(
        self, registry: RegistrySettings, kind: SchemaKind, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self._kind = kind
        self._guids = GuidQuestions(clock)
        self._known: int | None = None

    def schema(self, id_: int | UUID) -> SchemaText | NoSchema:
        """See `SchemaStore.schema`."""
        if not isinstance(id_, UUID):
            return self._asked(id_)
        why = self._guids.needless
        if why is not None:
            return NoSchema("schema_unknown", f"{AS_GUID} {id_}, {why}")
        found = self._asked(id_)
        if isinstance(found, NoSchema) and found.reason == "schema_unknown":
            self._guids.note_unknown()
        return found

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
                    self._guids.note_no_path()
                    return NoSchema("schema_unknown", f"{AS_GUID} {id_}, {NO_GUIDS}")
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


_NULLS: Final = ColumnSchema(arrow=pa.null(), avro='"null"')


class SchemaReader(Protocol):
    """Reads values of one schema; `wants_texts`: as their JSON, else as columns."""

    schema: ColumnSchema
    wants_texts: bool

    def read(self, data: Column, rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        """The numbers of those `rows` whose data (one each, no nulls) are good, and what they hold.

        That is an array of strings, their JSON, or an array of the schema's type; where the data
        themselves are wanted, what gives their JSON (`TypedColumn`'s `shown`).
        """


class NoColumns(ValueError):
    """A schema that can be read has no columns, which the output needs; the message says why."""


class Unframed(ValueError):
    """Values do not say what of the schema they are; the message says how."""


class FramedConverter:
    """Values by the schemas of a registry, for keys or values (`what`).

    `make` gives the reader of a schema; SchemaError, InvalidSchema, NoColumns or Unframed where there is
    none.
    `copies`: readers leave the data as they are, to be copied.
    """

    def __init__(
        self,
        framing: Framing,
        schemas: RegistrySchemas,
        make: Callable[[SchemaKey, SchemaText], SchemaReader],
        *,
        what: str,
        style: JsonFormat,
        copies: bool = False,
    ) -> None:
        self._framing = framing
        self._schemas = schemas
        self._make = make
        self._what = what
        self._style = style
        self._copies = copies
        self._readers: dict[SchemaKey, SchemaReader | NoSchema] = {}
        self._last: dict[str, SchemaKey] = {}

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """A segment for each schema; nulls are with the schema of the record before them."""
        frames = self._framing.frames(column, self._what, faults)
        is_null = column.lengths == NULL_LENGTH
        framed = np.flatnonzero(frames.owners != NO_SCHEMA)
        last = self._last.get(topic)
        before = NO_SCHEMA if last is None else frames.keys.number(last)
        owners = _with_nulls(frames.owners, is_null, before)
        if len(framed):
            self._last[topic] = frames.keys.key(int(frames.owners[framed[-1]]))
        segments = []
        for number in dict.fromkeys(owners[owners != NO_SCHEMA].tolist()):
            rows = np.flatnonzero(owners == number)
            key = frames.keys.key(number)
            segments += self._segment(key, frames.data, topic, rows, is_null, faults)
        unowned = np.flatnonzero(is_null & (owners == NO_SCHEMA))
        if len(unowned):
            segments.append(Segment(unowned, _nulls(len(unowned))))
        return segments

    def _segment(
        self, key: SchemaKey, data: Column, topic: str, rows: Numbers, is_null: np.ndarray, faults: RowFaults
    ) -> list[Segment]:
        reader = self._reader(key)
        filled = rows[~is_null[rows]]
        if isinstance(reader, NoSchema):
            for row in filled.tolist():
                faults.add(row, reader.reason, f"the {self._what} of topic {topic}: {reader.message}")
            nulls = rows[is_null[rows]]
            return [Segment(nulls, _nulls(len(nulls)))] if len(nulls) else []
        good, found = reader.read(picked(data, filled), filled, faults)
        kept = np.sort(np.concatenate([good, rows[is_null[rows]]]))
        if not len(kept):
            return []
        return [Segment(kept, self._typed(reader, found, good, kept, picked(data, kept)))]

    def _typed(
        self, reader: SchemaReader, found: Any, good: Numbers, kept: Numbers, data: Column
    ) -> ConvertedColumn:
        """The values of the rows `kept`: what was `found` of the rows `good`, and nulls."""
        nulls = data.lengths == NULL_LENGTH
        copied = data if self._copies else None
        if callable(found):
            return TypedColumn(reader.schema, shown=found, data=copied, style=self._style)
        if nulls.any():
            places = np.where(nulls, 0, np.searchsorted(good, kept))
            found = found.take(pa.array(places, mask=nulls))
        if reader.wants_texts:
            texts = column_of_arrow(found)
            return TypedColumn(reader.schema, texts=texts, data=copied, style=self._style)
        return TypedColumn(reader.schema, array=found, data=copied, style=self._style)

    def _reader(self, key: SchemaKey) -> SchemaReader | NoSchema:
        reader = self._readers.get(key)
        if reader is not None and not isinstance(reader, NoSchema):
            return reader
        text = self._schemas.schema(key.id)
        if isinstance(text, NoSchema):
            return text
        if reader is None:
            reader = self._readers[key] = self._made(key, text)
        return reader

    def _made(self, key: SchemaKey, text: SchemaText) -> SchemaReader | NoSchema:
        try:
            return self._make(key, text)
        except (SchemaError, InvalidSchema) as error:
            # The words may quote the schema, of any length and in characters that no dead letter has.
            why = printable(str(error), limit=_WORDS)
            return NoSchema("schema_unsupported", f"the schema with the id {key} cannot be read: {why}")
        except RecursionError:
            return NoSchema(
                "schema_unsupported", f"the schema with the id {key} cannot be read: it is nested too deep"
            )
        except Unframed as error:
            return NoSchema("not_framed", str(error))
        except NoColumns as error:
            return NoSchema(
                "schema_unsupported",
                f"in the schema with the id {key} {error}, which the output has no columns "
                f"for; change the type, or archive the bytes as they are with {self._what}.converter="
                "org.apache.kafka.connect.converters.ByteArrayConverter",
            )


def _with_nulls(ids: Numbers, is_null: np.ndarray, last: int) -> Numbers:
    """The ids, in which a null has the id of the nearest value before it, else after it, else `last`."""
    if not is_null.any():
        return ids
    framed = np.flatnonzero(ids != NO_SCHEMA)
    if not len(framed):
        return np.where(is_null, last, ids)
    before = np.maximum(np.searchsorted(framed, np.arange(len(ids)), side="right") - 1, 0)
    return np.where(is_null, ids[framed[before]], ids)


def _nulls(count: int) -> TypedColumn:
    """Nulls of no schema."""
    return TypedColumn(_NULLS, array=pa.nulls(count), texts=column_of([None] * count))
