"""Which converter a part of the record has, by its settings and by what the output makes of it."""

from typing import Final

from ingest.settings.sink_settings import (
    ConverterKind,
    ConverterSettings,
    OutputField,
    OutputFormat,
    OutputSettings,
)
from spark.converters.json_converter import JsonConverter
from spark.converters.plain_converters import BytesConverter, TextConverter
from spark.converters.segments import ColumnConverter

_JSON: Final = frozenset({OutputFormat.JSON, OutputFormat.JSONL})


def column_converter(
    settings: ConverterSettings, part: OutputField, output: OutputSettings
) -> ColumnConverter:
    """The converter of keys or values."""
    match settings.kind:
        case ConverterKind.BYTES:
            return _of_bytes(part, output)
        case ConverterKind.STRING:
            return TextConverter(part, settings.encoding)
        case _:
            return JsonConverter(part)


def _of_bytes(part: OutputField, output: OutputSettings) -> ColumnConverter:
    """Bytes as they are, and checked where a row of the format can only hold text or JSON."""
    if part not in output.fields:
        return BytesConverter()
    if output.format is OutputFormat.CSV:
        return TextConverter(part)
    if output.format in _JSON and not output.envelope:
        return JsonConverter(part) if part is OutputField.VALUE else TextConverter(part)
    return BytesConverter()
