"""Rows in a registry's framing, and what the sink's converters read of them."""

from dataclasses import replace
from typing import Any, Final

from confluent_kafka.schema_registry import Schema

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.records.registry_connection import registry_client
from headrace.options.choices import InputFormat, JsonFormat, ValueFormat
from headrace.options.schema_settings import RegistrySettings
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.memory_source import MemorySource, decode_all

_KINDS: Final = {
    ValueFormat.JSON_SCHEMA: ConverterKind.JSON_SCHEMA,
    ValueFormat.PROTOBUF: ConverterKind.PROTOBUF,
}


def decoded(
    content: bytes, one: RegistrySettings, form: ValueFormat, kind: InputFormat, **changes: Any
) -> Any:
    """What the rows of an object become, and what becomes of the bad ones."""
    options = decode_options(kind, value_format=form, registry=one, json_format=JsonFormat.CONNECT, **changes)
    return decode_all(MemorySource(content), options)


def read_back(values: Any, one: RegistrySettings, form: ValueFormat) -> list[Any]:
    """The values as a sink's converter reads them."""
    settings = ConverterSettings(kind=_KINDS[form], registry=one)
    converter = RecordConverter(converters(settings), output(OutputFormat.PARQUET))
    found = converter.convert(fetched(list(values)))
    assert found.faults == ()
    return [row for run in found.runs for row in run.value.arrow().to_pylist(maps_as_pydicts="strict")]


def latest(one: RegistrySettings, kind: str, text: str) -> RegistrySettings:
    """The registry with a schema for the topic's values, by which they are to be written."""
    # The registry in memory is its client's, and a client that of these settings.
    found = replace(one, use_latest=True)
    registry_client(found).register_schema("orders-value", Schema(text, kind))
    return found
