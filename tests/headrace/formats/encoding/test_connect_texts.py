"""Columns as JSON of Kafka Connect, through the converters that a sink of another's layout has."""

import json
from typing import Any

import pytest

from headrace.conversion.record_converter import RecordConverter
from headrace.formats.encoding.connect_texts import connect_texts
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat, OutputSettings
from tests.headrace.formats.encoding.outputs import converters, fetched, output

_CONFLUENT = output(OutputFormat.JSONL, layout=LayoutName.CONFLUENT)
_SCHEMA = {
    "type": "struct",
    "fields": [{"field": "b", "type": "double"}, {"field": "a", "type": "string", "optional": True}],
}


def _texts(kind: ConverterKind, values: list[Any], how: OutputSettings = _CONFLUENT) -> list[tuple[int, Any]]:
    settings = ConverterSettings(kind=kind)
    runs = RecordConverter(converters(settings), how).convert(fetched(values)).runs
    return sorted(
        (offset, text)
        for run in runs
        for offset, text in zip(
            run.records.offsets.tolist(), connect_texts(run.value).to_pylist(), strict=True
        )
    )


def test_values_with_a_schema_are_written_by_it() -> None:
    """Fields in its order, whole numbers as doubles; others as Jackson writes them."""
    beside = json.dumps({"schema": _SCHEMA, "payload": {"a": "x", "b": 3}}).encode()
    found = _texts(ConverterKind.JSON, [beside, b'{"z": 1e3, "a": 1}', None, beside])

    assert found == [(0, '{"b":3.0,"a":"x"}'), (1, '{"z":1000.0,"a":1}'), (2, None), (3, '{"b":3.0,"a":"x"}')]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (ConverterKind.BYTES, b"\x00\xff", '"AP8="'),
        (ConverterKind.STRING, "a😀".encode(), '"a\\uD83D\\uDE00"'),
        (ConverterKind.INTEGER, b"\x00\x00\x00\x05", "5"),
        (ConverterKind.JSON, b"-0.0", "0.0"),
    ],
)
def test_every_converter_has_its_json(kind: ConverterKind, value: bytes, text: str) -> None:
    """And nulls are null."""
    assert _texts(kind, [value, None]) == [(0, text), (1, None)]


def test_inferred_types_are_schemas() -> None:
    """Where columns are wanted: JSON without a schema gets one from its values."""
    parquet = output(OutputFormat.PARQUET, layout=LayoutName.CONFLUENT)

    assert _texts(ConverterKind.JSON, [b'{"a":1}', b'{"a":null}'], parquet) == [
        (0, '{"a":1}'),
        (1, '{"a":null}'),
    ]
