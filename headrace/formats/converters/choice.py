"""Which converter a part of the record has, by its settings and by what the output makes of it."""

from typing import Final

from headrace.formats.converters.json_converter import JsonConverter
from headrace.formats.converters.plain_converters import BytesConverter, NumberConverter, TextConverter
from headrace.formats.converters.registry_schemas import GlueVersions
from headrace.formats.converters.schema_converters import (
    SchemaUse,
    avro_converter,
    json_schema_converter,
    protobuf_converter,
)
from headrace.formats.converters.segments import ColumnConverter
from headrace.formats.encoding.row_schema import has_typed_envelope
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import (
    ConverterKind,
    ConverterSettings,
    OutputField,
    OutputFormat,
    OutputSettings,
)

# Their rows have a form of bytes.
_OF_BYTES: Final = frozenset({LayoutName.AIVEN, LayoutName.CONFLUENT, LayoutName.LENSES})
_TYPED: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})
_JSON: Final = frozenset({OutputFormat.JSON, OutputFormat.JSONL})


def column_converter(
    settings: ConverterSettings,
    part: OutputField,
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
            return BytesConverter() if is_transformed else _of_bytes(part, output)
        case ConverterKind.STRING:
            return TextConverter(part, settings.encoding)
        case ConverterKind.AVRO | ConverterKind.JSON_SCHEMA | ConverterKind.PROTOBUF:
            return _of_registry(settings, part, output, glue, is_transformed=is_transformed)
        case ConverterKind.JSON:
            wants_columns = part is OutputField.VALUE and part in output.fields and makes_columns(output)
            has_schema = part is OutputField.VALUE or has_typed_envelope(output)
            by_schema = has_schema and _writes_by_schema(output)
            return JsonConverter(
                part,
                output.json_format,
                schemas=settings.schemas_enable,
                wants_columns=wants_columns or is_transformed or by_schema,
                infers=wants_columns and not is_transformed,
            )
        case _:
            return NumberConverter(part, settings.kind)


def _of_bytes(part: OutputField, output: OutputSettings) -> ColumnConverter:
    """Bytes as they are, and checked where a row of the format can only hold text or JSON."""
    if part not in output.fields or output.layout in _OF_BYTES:
        return BytesConverter()
    if output.layout is LayoutName.QUIX:
        return _of_quix(part, output)
    if output.format is OutputFormat.CSV:
        return TextConverter(part)
    if output.format in _JSON and not output.envelope:
        return JsonConverter(part, output.json_format) if part is OutputField.VALUE else TextConverter(part)
    return BytesConverter()


def _of_quix(part: OutputField, output: OutputSettings) -> ColumnConverter:
    """Keys as text and values as JSON, which is what Quix's rows have."""
    if part is OutputField.KEY:
        return TextConverter(part)
    return JsonConverter(part, output.json_format, wants_columns=makes_columns(output))


_OF_REGISTRY: Final = {
    ConverterKind.AVRO: avro_converter,
    ConverterKind.JSON_SCHEMA: json_schema_converter,
    ConverterKind.PROTOBUF: protobuf_converter,
}


def _of_registry(
    settings: ConverterSettings,
    part: OutputField,
    output: OutputSettings,
    glue: GlueVersions,
    *,
    is_transformed: bool,
) -> ColumnConverter:
    assert settings.registry is not None, "settings are checked: such a converter has a registry"
    use = _schema_use(output, is_written=part in output.fields, is_transformed=is_transformed)
    return _OF_REGISTRY[settings.kind](settings.registry, part, output.json_format, use, glue)


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
