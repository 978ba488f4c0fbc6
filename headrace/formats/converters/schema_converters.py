"""Readers of the kinds of schemas that registries have, by what the output makes of the values."""

from enum import Enum, auto
from typing import Any, Final
from uuid import UUID

import numpy as np

from headrace.formats.avro_schema import parse_schema
from headrace.formats.connect import ConnectSchema, InvalidSchema
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.from_json_schema import schema_of_json_schema
from headrace.formats.converted_records import ColumnSchema
from headrace.formats.converters.avro_reader import AvroReader
from headrace.formats.converters.framed_converter import FramedConverter, NoColumns, SchemaReader, Unframed
from headrace.formats.converters.framing import NO_SCHEMA, ConfluentFraming, Framing, GlueFraming, SchemaKey
from headrace.formats.converters.json_converter import JsonConverter
from headrace.formats.converters.json_schema_reader import JsonSchemaReader
from headrace.formats.converters.protobuf_reader import ProtobufReader
from headrace.formats.converters.registry_schemas import (
    ConfluentStore,
    GlueStore,
    GlueVersions,
    NoSchema,
    RegistrySchemas,
    SchemaKind,
    SchemaText,
)
from headrace.formats.converters.segments import RowFaults, Segment
from headrace.formats.records.protobuf_schemas import ProtobufSchema
from headrace.model.columns import Column, Numbers
from headrace.options.choices import JsonFormat
from headrace.options.registry_settings import GlueSettings, RegistrySettings

Registry = RegistrySettings | GlueSettings


class SchemaUse(Enum):
    """What the output makes of the values."""

    TEXTS = auto()
    """Their JSON, in Headrace's own form."""
    DATA = auto()
    """Their data, copied; columns where the schema has them."""
    COLUMNS = auto()
    """Columns, which unions of several types and types that refer to themselves do not have."""
    CONNECT = auto()
    """Columns as Kafka Connect has them: a union of several types is a struct with a field for each."""
    CONNECT_TEXTS = auto()
    """The same, to be shown as JSON: what has no columns is as TEXTS."""


_OF_CONNECT: Final = frozenset({SchemaUse.CONNECT, SchemaUse.CONNECT_TEXTS})
_OF_COLUMNS: Final = frozenset({SchemaUse.COLUMNS, SchemaUse.CONNECT})
_OF_TEXTS: Final = frozenset({SchemaUse.TEXTS, SchemaUse.CONNECT_TEXTS})


class _AvroSchemaReader:
    """See SchemaReader: of an Avro schema."""

    def __init__(self, key: SchemaKey, text: str, style: JsonFormat, use: SchemaUse) -> None:
        node, connect = parse_schema(text), _connect_schema(text)
        has_branches = use in _OF_CONNECT
        self.wants_texts = use is SchemaUse.TEXTS
        reader = AvroReader(node, style, wants_texts=self.wants_texts, has_branches=has_branches)
        if use is SchemaUse.CONNECT_TEXTS and not reader.has_columns:
            self.wants_texts = True
            reader = AvroReader(node, style, wants_texts=True)
        if use in _OF_COLUMNS and not reader.has_columns:
            raise NoColumns(reader.lack)
        self._reader = reader
        self.schema = ColumnSchema(arrow=reader.type, avro=text, version=key.version, connect=connect)

    def read(self, data: Column, rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        """See `SchemaReader.read`."""
        return self._reader.read(data, rows, faults)


def _connect_schema(text: str) -> ConnectSchema | None:
    try:
        return schema_of_avro(text)
    except InvalidSchema:
        return None


def avro_converter(
    registry: Registry, what: str, style: JsonFormat, use: SchemaUse, glue: GlueVersions
) -> FramedConverter:
    """Avro by the schemas of a registry, for keys or values (`what`)."""

    def make(key: SchemaKey, text: SchemaText) -> SchemaReader:
        return _AvroSchemaReader(key, text.text, style, use)

    framing, schemas = _place(registry, SchemaKind.AVRO, glue)
    return FramedConverter(framing, schemas, make, what=what, style=style, copies=True)


def protobuf_converter(
    registry: Registry, what: str, style: JsonFormat, use: SchemaUse, glue: GlueVersions
) -> FramedConverter:
    """Protobuf by the schemas of a registry."""

    def make(key: SchemaKey, text: SchemaText) -> SchemaReader:
        if not key.message:
            raise Unframed("no message of the schema is named after its id")
        schema = ProtobufSchema(text.text, text.files)
        is_numbered = isinstance(key.id, UUID)
        message = schema.numbered(key.message[0]) if is_numbered else schema.message(key.message)
        return ProtobufReader(key.version, message, wants_texts=use in _OF_TEXTS)

    framing, schemas = _place(registry, SchemaKind.PROTOBUF, glue)
    return FramedConverter(framing, schemas, make, what=what, style=style)


def json_schema_converter(
    registry: Registry, what: str, style: JsonFormat, use: SchemaUse, glue: GlueVersions
) -> "FramedConverter | JsonTextConverter":
    """JSON in a registry's framing: the texts as they are, or columns by its schemas."""
    framing, schemas = _place(registry, SchemaKind.JSON, glue)
    if use is SchemaUse.TEXTS:
        return JsonTextConverter(framing, schemas, what, style)

    def make(key: SchemaKey, text: SchemaText) -> SchemaReader:
        return JsonSchemaReader(key.version, schema_of_json_schema(text.text, text.files))

    return FramedConverter(framing, schemas, make, what=what, style=style)


class JsonTextConverter:
    """JSON after the id of a JSON Schema, which need not be understood: its text is what is wanted."""

    def __init__(self, framing: Framing, schemas: RegistrySchemas, what: str, style: JsonFormat) -> None:
        self._framing = framing
        self._schemas = schemas
        self._what = what
        self._json = JsonConverter(what, style)

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """See `ColumnConverter.convert`."""
        frames = self._framing.frames(column, self._what, faults)
        for number in dict.fromkeys(frames.owners[frames.owners != NO_SCHEMA].tolist()):
            found = self._schemas.schema(self._framing.key(number).id)
            if isinstance(found, NoSchema):
                for row in np.flatnonzero(frames.owners == number).tolist():
                    faults.add(row, found.reason, f"the {self._what} of topic {topic}: {found.message}")
        return self._json.convert(frames.data, topic, faults)


def _place(registry: Registry, kind: SchemaKind, glue: GlueVersions) -> tuple[Framing, RegistrySchemas]:
    """How values name their schemas, and where these are."""
    if isinstance(registry, GlueSettings):
        framing = GlueFraming(has_messages=kind is SchemaKind.PROTOBUF)
        return framing, RegistrySchemas(GlueStore(registry, kind, glue))
    has_messages = kind is SchemaKind.PROTOBUF
    return ConfluentFraming(has_messages=has_messages), RegistrySchemas(ConfluentStore(registry, kind))
