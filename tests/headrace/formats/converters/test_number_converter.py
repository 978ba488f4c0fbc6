"""Numbers as Kafka's serializers write them, as keys, values and headers."""

import struct
from typing import Any, Final

import pyarrow as pa
import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.connect import Type, plain
from headrace.formats.converted_records import Conversion, header_json, header_reader, header_text
from headrace.options.sink_settings import (
    NUMBER_KINDS,
    OF_REGISTRIES,
    ConverterKind,
    ConverterSettings,
    OutputFormat,
    OutputSettings,
)
from tests.headrace.formats.encoding.outputs import converters, fetched, output

_FORMS: Final[dict[ConverterKind, tuple[str, list[Any], Any]]] = {
    ConverterKind.SHORT: (">h", [-2, 32767], pa.int16()),
    ConverterKind.INTEGER: (">i", [-2, 2**31 - 1], pa.int32()),
    ConverterKind.LONG: (">q", [-2, 2**63 - 1], pa.int64()),
    ConverterKind.FLOAT: (">f", [0.5, -1e30], pa.float32()),
    ConverterKind.DOUBLE: (">d", [0.1, -1e300], pa.float64()),
    ConverterKind.BOOLEAN: (">?", [True, False], pa.bool_()),
}


def _convert(kind: ConverterKind, values: list[bytes | None], how: OutputSettings) -> Conversion:
    return RecordConverter(converters(ConverterSettings(kind=kind)), how).convert(fetched(values))


@pytest.mark.parametrize("kind", sorted(NUMBER_KINDS))
@pytest.mark.parametrize("form", [OutputFormat.JSONL, OutputFormat.PARQUET])
def test_numbers_are_read(kind: ConverterKind, form: OutputFormat) -> None:
    """With nulls between them, which are nulls; what has another length is a fault of its record."""
    shape, numbers, arrow = _FORMS[kind]
    first, last = (struct.pack(shape, number) for number in numbers)
    found = _convert(kind, [first, None, b"", b"\x00" * 9, last], output(form))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [
        (2, "not_a_number"),
        (3, "not_a_number"),
    ]
    (run,) = found.runs
    assert run.records.offsets.tolist() == [0, 1, 4]
    wanted = pa.array([numbers[0], None, numbers[1]], arrow)
    assert run.value.arrow() == wanted
    assert run.value.connect is not None
    assert run.value.connect.optional
    assert run.value.texts().get(1) is None


def test_a_boolean_is_zero_or_one() -> None:
    """As Kafka's deserializer has it."""
    found = _convert(ConverterKind.BOOLEAN, [b"\x02", b"\x01"], output())

    assert [fault.message for fault in found.faults] == ["the value is not the 1 bytes of a boolean"]
    assert found.runs[0].value.texts().get(0) == b"true"


@pytest.mark.parametrize(
    ("kind", "value", "json_text", "text"),
    [
        (ConverterKind.BYTES, b"\x00\xff", '"AP8="', "AP8="),
        (ConverterKind.STRING, b"42", '"42"', "42"),
        (ConverterKind.SIMPLE, b"42", "42", "42"),
        (ConverterKind.SIMPLE, b"1.50", "1.5", "1.5"),
        (ConverterKind.SIMPLE, b"\xff", '"\ufffd"', "\ufffd"),
        (ConverterKind.SIMPLE, b'{"a":1}', '{"a":1}', '{"a":1}'),
        (ConverterKind.JSON, b'{"a":[1,2.5,null]}', '{"a":[1,2.5,null]}', '{"a":[1,2.5,null]}'),
        (ConverterKind.JSON, b'{"schema":{"type":"bytes"},"payload":"AP8="}', '"AP8="', "AP8="),
        (ConverterKind.JSON, b'{"schema":null,"payload":"x"}', '"x"', "x"),
        (ConverterKind.JSON_PLAIN, b'{"a":1}', '{"a":1}', '{"a":1}'),
        (
            ConverterKind.JSON_PLAIN,
            b'{"schema":null,"payload":"x"}',
            '{"schema":null,"payload":"x"}',
            '{"schema":null,"payload":"x"}',
        ),
        (ConverterKind.JSON_ENVELOPE, b'{"schema":{"type":"bytes"},"payload":"AP8="}', '"AP8="', "AP8="),
        (ConverterKind.JSON_ENVELOPE, b'{"schema":null,"payload":{"a":1}}', '{"a":1}', '{"a":1}'),
        (ConverterKind.LONG, struct.pack(">q", 5), "5", "5"),
        (ConverterKind.FLOAT, struct.pack(">f", 0.1), "0.1", "0.1"),
        (ConverterKind.BOOLEAN, b"\x01", "true", "true"),
    ],
)
def test_headers_are_read(kind: ConverterKind, value: bytes, json_text: str, text: str) -> None:
    """As values with schemas; their JSON, and their text."""
    assert header_json(kind)(value) == json_text
    assert header_text(kind)(value) == text


@pytest.mark.parametrize("kind", sorted(ConverterKind))
def test_a_null_header_is_null(kind: ConverterKind) -> None:
    """Whatever reads it."""
    if kind not in OF_REGISTRIES:
        assert header_reader(kind)(None).value is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ConverterKind.LONG, b"1"),
        (ConverterKind.JSON, b"{"),
        (ConverterKind.JSON, b"\xff"),
        (ConverterKind.JSON_PLAIN, b"{"),
        (ConverterKind.JSON_ENVELOPE, b'{"a":1}'),
        (ConverterKind.JSON_ENVELOPE, b"1"),
    ],
)
def test_a_header_that_cannot_be_read_is_told(kind: ConverterKind, value: bytes) -> None:
    """By a sentence."""
    with pytest.raises(ValueError, match="a header's value is "):
        header_reader(kind)(value)


def _schemas(values: list[Any], how: OutputSettings) -> list[Any]:
    kind = ConverterSettings(kind=ConverterKind.STRING)
    return [run.value.connect for run in RecordConverter(converters(kind), how).convert(fetched(values)).runs]


def test_text_has_connects_schema() -> None:
    """An optional string, as StringConverter says."""
    assert _schemas([b"a"], output()) == [plain(Type.STRING, optional=True)]
