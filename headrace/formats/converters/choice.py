"""Which converter a part of the record has, and which reader a schema, by what the output needs."""

from enum import Enum, auto
from typing import Any, Final

import numpy as np

from headrace.formats.arrow import column_of_arrow
from headrace.formats.avro_schema import parse_schema, readable_schema
from headrace.formats.connect import ConnectSchema, InvalidSchema
from headrace.formats.connect.arrow_types import with_defaults_of_fields
from headrace.formats.connect.from_avro import schema_of_avro
from headrace.formats.connect.schema_documents import schema_of_json_schema
from headrace.formats.converted_records import ColumnSchema
from headrace.formats.converters.avro_reader import AvroReader
from headrace.formats.converters.framed_converter import (
    FramedConverter,
    NoColumns,
    SchemaReader,
    Unframed,
    unread_rows,
)
from headrace.formats.converters.framing import NO_SCHEMA, ConfluentFraming, Framing, GlueFraming, SchemaKey
from headrace.formats.converters.json_converter import JsonConverter
from headrace.formats.converters.json_schema_reader import JsonSchemaReader
from headrace.formats.converters.plain_converters import BytesConverter, NumberConverter, TextConverter
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
from headrace.formats.converters.typed_columns import ColumnConverter, RowFaults, Segment
from headrace.formats.encoding.row_schema import has_typed_envelope
from headrace.formats.records.protobuf_schemas import ProtobufSchema
from headrace.model.columns import NULL_LENGTH, Column, Numbers, picked
from headrace.names.archive_names import LayoutName
from headrace.options.choices import JsonFormat
from headrace.options.schema_settings import GlueSettings, RegistrySettings
from headrace.options.sink_settings import (
    ConverterKind,
    ConverterSettings,
    OutputField,
    OutputFormat,
    OutputSettings,
)

Registry = RegistrySettings | GlueSettings


class SchemaUse(Enum):
    """What the output makes of the values."""

    TEXTS = auto()
    """Their JSON, in Headrace's own form."""
    DATA = auto()
    """Their data, copied; columns where the schema has them, else texts where they are asked for."""
    COLUMNS = auto()
    """Columns, which unions of several types and types that refer to themselves do not have."""
    CONNECT = auto()
    """Columns as Kafka Connect has them: a union of several types is a struct with a field for each."""
    CONNECT_TEXTS = auto()
    """The same, to be shown as JSON: what has no columns is as TEXTS."""


class FieldDefaults(Enum):
    """What transforms make of the default that a field which may be null has in Avro."""

    UNREAD = auto()
    """Nothing, as AvroData."""
    AFTER_OWN = auto()
    """The field's, where its type has none of Connect's."""
    ALONE = auto()
    """The field's, and those of Connect's do not count."""


_OF_CONNECT: Final = frozenset({SchemaUse.CONNECT, SchemaUse.CONNECT_TEXTS})
_OF_COLUMNS: Final = frozenset({SchemaUse.COLUMNS, SchemaUse.CONNECT})
_OF_TEXTS: Final = frozenset({SchemaUse.TEXTS, SchemaUse.CONNECT_TEXTS})


class _AvroSchemaReader:
    """See SchemaReader: of an Avro schema."""

    def __init__(
        self, key: SchemaKey, text: str, style: JsonFormat, use: SchemaUse, defaults: FieldDefaults
    ) -> None:
        node, text = parse_schema(text), readable_schema(text)
        connect = _connect_schema(text)
        has_branches = use in _OF_CONNECT
        self.wants_texts = use is SchemaUse.TEXTS
        reader = AvroReader(node, style, wants_texts=self.wants_texts, has_branches=has_branches)
        if use is SchemaUse.CONNECT_TEXTS and not reader.has_columns:
            self.wants_texts = True
            reader = AvroReader(node, style, wants_texts=True)
        if use in _OF_COLUMNS and not reader.has_columns:
            raise NoColumns(reader.lack)
        self._reader = reader
        self._shown = AvroReader(node, style, wants_texts=True) if use is SchemaUse.DATA else None
        if connect is not None and defaults is not FieldDefaults.UNREAD:
            keeps_own = defaults is FieldDefaults.AFTER_OWN
            connect = with_defaults_of_fields(connect, reader.type, keeps_own=keeps_own)
        self.schema = ColumnSchema(arrow=reader.type, avro=text, version=key.version, connect=connect)

    def read(self, data: Column, rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        """See `SchemaReader.read`."""
        good, found = self._reader.read(data, rows, faults)
        return good, self._texts if found is None else found

    def _texts(self, data: Column) -> Column:
        """The JSON of data, which has no bytes where a value cannot be shown."""
        assert self._shown is not None, "only data that are copied have neither texts nor columns"
        filled = np.flatnonzero(data.lengths != NULL_LENGTH)
        good, found = self._shown.read(picked(data, filled), filled, RowFaults())
        texts = column_of_arrow(found)
        starts, lengths = np.zeros(len(data), np.int64), np.where(data.lengths == NULL_LENGTH, NULL_LENGTH, 0)
        starts[good], lengths[good] = texts.starts, texts.lengths
        return Column(buffer=texts.buffer, starts=starts, lengths=lengths)


def _connect_schema(text: str) -> ConnectSchema | None:
    try:
        return schema_of_avro(text)
    except InvalidSchema:
        return None


def avro_converter(
    registry: Registry,
    what: str,
    style: JsonFormat,
    use: SchemaUse,
    glue: GlueVersions,
    *,
    defaults: FieldDefaults = FieldDefaults.UNREAD,
) -> FramedConverter:
    """Avro by the schemas of a registry, for keys or values (`what`)."""

    def make(key: SchemaKey, text: SchemaText) -> SchemaReader:
        return _AvroSchemaReader(key, text.text, style, use, defaults)

    framing, schemas = _place(registry, SchemaKind.AVRO, glue)
    return FramedConverter(framing, schemas, make, what=what, style=style, copies=True)


def protobuf_converter(
    registry: Registry,
    what: str,
    style: JsonFormat,
    use: SchemaUse,
    glue: GlueVersions,
    *,
    keeps_messages: bool = False,
) -> FramedConverter:
    """Protobuf by the schemas of a registry; `keeps_messages` as in ConverterSettings."""

    def make(key: SchemaKey, text: SchemaText) -> SchemaReader:
        if not key.message:
            raise Unframed("no message of the schema is named after its id")
        schema = ProtobufSchema(text.text, text.files)
        is_numbered = isinstance(registry, GlueSettings)
        message = schema.numbered(key.message[0]) if is_numbered else schema.message(key.message)
        return ProtobufReader(
            key.version,
            message,
            wants_texts=use in _OF_TEXTS,
            # AWS Glue's converter has wrappers as messages.
            keeps_wrappers=is_numbered or keeps_messages,
            scales_of_fields=keeps_messages,
        )

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
            key, rows = frames.keys.key(number), np.flatnonzero(frames.owners == number).tolist()
            found = self._schemas.schema(key.id)
            if found is None:
                raise unread_rows(rows[0], self._what, topic, key)
            if isinstance(found, NoSchema):
                for row in rows:
                    faults.add(row, found.reason, f"the {self._what} of topic {topic}: {found.message}")
        return self._json.convert(frames.data, topic, faults)


def _place(registry: Registry, kind: SchemaKind, glue: GlueVersions) -> tuple[Framing, RegistrySchemas]:
    """How values name their schemas, and where these are."""
    if isinstance(registry, GlueSettings):
        framing = GlueFraming(has_messages=kind is SchemaKind.PROTOBUF)
        return framing, RegistrySchemas(GlueStore(registry, kind, glue))
    has_messages = kind is SchemaKind.PROTOBUF
    return ConfluentFraming(has_messages=has_messages), RegistrySchemas(ConfluentStore(registry, kind))


# Their rows have a form of bytes.
_OF_BYTES: Final = frozenset({LayoutName.AIVEN, LayoutName.CONFLUENT, LayoutName.LENSES})
_TYPED: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})
_JSON: Final = frozenset({OutputFormat.JSON, OutputFormat.JSONL})


def column_converter(
    settings: ConverterSettings,
    field: OutputField,
    output: OutputSettings,
    *,
    is_transformed: bool = False,
    glue: GlueVersions,
) -> ColumnConverter:
    """The converter of keys or values; with `is_transformed` fields are looked into after it.

    `glue` is what gives schemas of AWS Glue's.
    """
    match settings.kind:
        case ConverterKind.BYTES:
            return BytesConverter() if is_transformed else _of_bytes(field, output)
        case ConverterKind.STRING:
            return TextConverter(field, settings.encoding)
        case ConverterKind.AVRO | ConverterKind.JSON_SCHEMA | ConverterKind.PROTOBUF:
            return _of_registry(settings, field, output, glue, is_transformed=is_transformed)
        case ConverterKind.JSON:
            is_opened = is_transformed or _json_has_columns(field, output)
            return JsonConverter(
                field,
                output.json_format,
                schemas=settings.schemas_enable,
                opens_all=settings.opens_all,
                keeps_nulls=settings.keeps_nulls,
                wants_columns=is_opened or _writes_keys_by_schema(field, output),
                shows_texts=not is_opened,
                keeps_texts=not is_transformed,
                infers=_infers(field, output) and not is_transformed,
            )
        case _:
            return NumberConverter(field, settings.kind)


def member_form(
    settings: ConverterSettings, field: OutputField, output: OutputSettings, *, is_transformed: bool = False
) -> str | None:
    """How members of keys or values look by options of the output; None where those have no say in it.

    A date that becomes a column is 2024-01-15 or 19737, as `json.format` has it; in JSON it is its text.
    """
    match settings.kind:
        case ConverterKind.JSON if settings.schemas_enable is not False:
            is_text = not fills_defaults(settings, field, output, is_transformed=is_transformed)
            form = "columns"
        case ConverterKind.AVRO | ConverterKind.JSON_SCHEMA | ConverterKind.PROTOBUF:
            use = _schema_use(output, is_written=field in output.fields, is_transformed=is_transformed)
            is_text = use is SchemaUse.TEXTS and settings.kind is ConverterKind.JSON_SCHEMA
            # The same reader.
            form = (SchemaUse.COLUMNS if use is SchemaUse.DATA else use).name.lower()
        case _:
            return None
    return "text" if is_text else f"{form}:{output.json_format}"


def fills_defaults(
    settings: ConverterSettings, field: OutputField, output: OutputSettings, *, is_transformed: bool = False
) -> bool:
    """Whether JSON becomes columns by the schema next to it, whose defaults are in the place of nulls."""
    has_schema = settings.kind is ConverterKind.JSON and settings.schemas_enable is not False
    return has_schema and (is_transformed or _json_has_columns(field, output))


def copies_data(
    settings: ConverterSettings, field: OutputField, output: OutputSettings, *, is_transformed: bool = False
) -> bool:
    """Whether objects get the Avro data of keys or values as they are."""
    use = _schema_use(output, is_written=field in output.fields, is_transformed=is_transformed)
    return settings.kind is ConverterKind.AVRO and use is SchemaUse.DATA


def _infers(field: OutputField, output: OutputSettings) -> bool:
    """Whether JSON without a schema becomes columns."""
    return field is OutputField.VALUE and field in output.fields and makes_columns(output)


def _json_has_columns(field: OutputField, output: OutputSettings) -> bool:
    """Whether JSON with a schema becomes columns."""
    has_schema = field is OutputField.VALUE or has_typed_envelope(output)
    return _infers(field, output) or (has_schema and _writes_by_schema(output))


def _writes_keys_by_schema(field: OutputField, output: OutputSettings) -> bool:
    """Whether JSON keys with a schema are columns of objects, while names show their JSON.

    Names are what they were when these keys were JSON in objects too: groups that are open have no others.
    Aiven's rows keep the JSON: by its schema a key would be refused next to a value whose record has its
    name, and structs without a name all have one.
    """
    is_key = field is OutputField.KEY and field in output.fields
    is_bytes = output.format is OutputFormat.BYTES
    return is_key and not is_bytes and output.layout is LayoutName.CONFLUENT


def _of_bytes(field: OutputField, output: OutputSettings) -> ColumnConverter:
    """Bytes as they are, and checked where a row of the format can only hold text or JSON."""
    if field not in output.fields or output.layout in _OF_BYTES:
        return BytesConverter()
    if output.layout is LayoutName.QUIX:
        return _of_quix(field, output)
    if output.format is OutputFormat.CSV:
        return TextConverter(field)
    if output.format in _JSON and not output.envelope:
        return (
            JsonConverter(field, output.json_format) if field is OutputField.VALUE else TextConverter(field)
        )
    return BytesConverter()


def _of_quix(field: OutputField, output: OutputSettings) -> ColumnConverter:
    """Keys as text and values as JSON, which is what Quix's rows have."""
    if field is OutputField.KEY:
        return TextConverter(field)
    return JsonConverter(field, output.json_format, wants_columns=makes_columns(output))


_OF_REGISTRY: Final = {
    ConverterKind.AVRO: avro_converter,
    ConverterKind.JSON_SCHEMA: json_schema_converter,
}


def _of_registry(
    settings: ConverterSettings,
    field: OutputField,
    output: OutputSettings,
    glue: GlueVersions,
    *,
    is_transformed: bool,
) -> ColumnConverter:
    assert settings.registry is not None, "settings are checked: such a converter has a registry"
    use = _schema_use(output, is_written=field in output.fields, is_transformed=is_transformed)
    how = settings.registry, field, output.json_format, use, glue
    if settings.kind is ConverterKind.AVRO and settings.fills_fields:
        defaults = FieldDefaults.ALONE if settings.keeps_nulls else FieldDefaults.AFTER_OWN
        return avro_converter(*how, defaults=defaults)
    if settings.kind is ConverterKind.PROTOBUF:
        return protobuf_converter(*how, keeps_messages=settings.keeps_messages)
    return _OF_REGISTRY[settings.kind](*how)


def _schema_use(output: OutputSettings, *, is_written: bool, is_transformed: bool) -> SchemaUse:
    if not (is_written or is_transformed):
        return SchemaUse.TEXTS
    if output.layout in _OF_BYTES and output.format in _JSON | _TYPED:
        is_shown = output.layout is LayoutName.AIVEN and output.format in _JSON
        return SchemaUse.CONNECT_TEXTS if is_shown and not is_transformed else SchemaUse.CONNECT
    if is_transformed:
        return SchemaUse.COLUMNS
    if not makes_columns(output):
        return SchemaUse.TEXTS
    return SchemaUse.DATA if output.format is OutputFormat.AVRO else SchemaUse.COLUMNS


def _writes_by_schema(output: OutputSettings) -> bool:
    """True where values with a schema are written by it, whatever their own text or data were."""
    if output.layout is LayoutName.LENSES:
        return output.format in _JSON | _TYPED
    return output.layout is LayoutName.CONFLUENT and output.format is not OutputFormat.BYTES


def makes_columns(output: OutputSettings) -> bool:
    """True where the members of keys and values become columns or fields of their own."""
    return output.format in _TYPED or (output.format is OutputFormat.CSV and not output.envelope)
