"""Values of headers in JSON rows and in Aiven's columns, by each converter: what does not fit is bad."""

import base64
import io
import json
from decimal import Decimal
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest

from headrace.conversion.encoders import new_encoder
from headrace.conversion.sink_records import RecordConverter
from headrace.formats.connect.values import value_json
from headrace.formats.converted_records import header_reader
from headrace.formats.encoding import schema_of
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import (
    OF_REGISTRIES,
    ConverterKind,
    LayoutRows,
    OutputField,
    OutputFormat,
)
from tests.headrace.formats.encoding.outputs import converters, encoded, fetched, output

_LAYOUTS: Final = (LayoutName.AIVEN, LayoutName.LENSES)
_KINDS: Final = tuple(kind for kind in ConverterKind if kind not in OF_REGISTRIES)
_ENVELOPED: Final = b'{"schema":{"type":"int32","optional":false},"payload":7}'
_STRUCT: Final = b'{"schema":{"type":"struct","fields":[{"field":"a","type":"int8"}]},"payload":{"a":5}}'
_MAP: Final = b'{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}},"payload":%b}'
_VALUES: Final = (
    b"",
    b"abc",
    b"5",
    b"1.50",
    b"1e400",
    b"NaN",
    b"null",
    b"\xff\x00",
    b"\x00\x00\x00\x05",
    b"\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b'{"a":\n1}',
    b'"\\ud800"',
    b'[1,\r\n"a"]',
    _ENVELOPED,
    b'{"schema":{"type":"bogus"},"payload":7}',
    b'{"schema":{"type":"int32"},"payload":"x"}',
    b'{"schema":{"type":"boolean"},"payload":1}',
    b'{"schema":{"type":"array","items":{"type":"string"}},"payload":[1]}',
    _STRUCT,
    b'{"schema":{"type":"bytes"},"payload":"not base64"}',
    b"[" * 200 + b"]" * 200,
    b"[" * 400 + b"]" * 400,
    b"[" * 600 + b"]" * 600,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b"1" * 5000,
    b"-%b" % (b"1" * 100_000),
    _MAP % b"[[1]]",
    _MAP % b'[[1,"a","b"]]',
    _MAP % b'[{"a":1}]',
    _MAP % b'["ab"]',
    _MAP % b'[[1,"a"]]',
    b'{"schema":{"type":"float"},"payload":1e39}',
    b'{"schema":{"type":"double"},"payload":true}',
)


# What is unlike its schema, or nested too deep, with JsonConverter.
_UNFIT: Final = (
    b"[" * 400 + b"]" * 400,
    _MAP % b"[[1]]",
    _MAP % b'[[1,"a","b"]]',
    _MAP % b'["ab"]',
    b'{"schema":{"type":"float"},"payload":1e39}',
)


def _how(layout: LayoutName, kind: ConverterKind) -> Any:
    return output(OutputFormat.JSONL, layout=layout, rows=LayoutRows(headers=kind))


def _header(layout: LayoutName, row: bytes) -> Any:
    headers = json.loads(row)["headers"]
    return headers["h"] if layout is LayoutName.LENSES else headers[0]["value"]


def _written_alone(how: Any, kind: ConverterKind, value: bytes | None) -> bytes | None:
    """The object of a record with this header alone; None where the header makes it bad."""
    found = RecordConverter(converters(header=kind), how).convert(fetched([b"1"], headers=[(("h", value),)]))
    if found.faults:
        assert [each.reason for each in found.faults] == ["header_unfit"], value
        return None
    encoder = new_encoder(how, schema_of(how, found.runs[0]))
    encoder.add(found.runs[0])
    return encoder.drain() + encoder.finish()


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("kind", _KINDS)
def test_a_header_is_in_a_line_or_its_record_is_bad(layout: LayoutName, kind: ConverterKind) -> None:
    """Whatever is in it; a record that breaks the writer would stop its partition."""
    how = _how(layout, kind)
    for value in _VALUES:
        row = _written_alone(how, kind, value)
        if row is None:
            continue
        assert b"\n" not in row.removesuffix(b"\n"), value
        # Python reads no whole number of 5000 digits.
        json.loads(row, parse_int=float)


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (ConverterKind.SIMPLE, b"\xff", "\ufffd"),
        (ConverterKind.SIMPLE, b"5", 5),
        (ConverterKind.INTEGER, b"\x00\x00\x00\x05", 5),
        (ConverterKind.BOOLEAN, b"\x01", True),
        (ConverterKind.DOUBLE, b"\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
        (ConverterKind.JSON, b'{"a":\n[1,\r\n2]}', {"a": [1, 2]}),
        (ConverterKind.JSON, _ENVELOPED, 7),
        (ConverterKind.JSON, _STRUCT, {"a": 5}),
        (ConverterKind.JSON, b'{"schema":"v2","payload":7}', {"schema": "v2", "payload": 7}),
        (ConverterKind.JSON, b'{"schema":"v2","payload":null}', {"schema": "v2", "payload": None}),
        (ConverterKind.STRING, b"a\nb", "a\nb"),
        (ConverterKind.BYTES, b"a", "YQ=="),
    ],
)
def test_a_header_is_what_its_converter_reads(
    layout: LayoutName, kind: ConverterKind, value: bytes, expected: Any
) -> None:
    """As Connect gives it to the sink."""
    row = encoded(fetched([b"1"], headers=[(("h", value),)]), _how(layout, kind), converters(header=kind))
    assert _header(layout, row) == expected


@pytest.mark.parametrize("value", _UNFIT)
def test_a_header_that_cannot_be_read_is_bad(value: bytes) -> None:
    """By a sentence, in whatever layout."""
    how = output(OutputFormat.JSONL)

    found = RecordConverter(converters(header=ConverterKind.JSON), how).convert(
        fetched([b"1"], headers=[(("h", value),)])
    )

    assert [each.reason for each in found.faults] == ["header_unfit"]


def test_a_number_of_many_digits_is_a_decimal() -> None:
    """As Connect has it: base64 of its two's complement."""
    found = value_json(header_reader(ConverterKind.SIMPLE)(b"-" + b"7" * 5000))

    octets = base64.b64decode(json.loads(found))
    assert Decimal(int.from_bytes(octets, "big", signed=True)) == Decimal("-" + "7" * 5000)


_OF_COLUMNS: Final = (OutputFormat.AVRO, OutputFormat.PARQUET)


def _columns_of(wanted: OutputFormat, kind: ConverterKind) -> Any:
    fields = (OutputField.HEADERS,)
    return output(wanted, layout=LayoutName.AIVEN, fields=fields, rows=LayoutRows(headers=kind))


def _map(wanted: OutputFormat, body: bytes) -> dict[str, Any]:
    is_avro = wanted is OutputFormat.AVRO
    rows: list[Any] = (
        list(fastavro.reader(io.BytesIO(body))) if is_avro else pq.read_table(io.BytesIO(body)).to_pylist()
    )
    return dict(rows[0]["headers"])


@pytest.mark.parametrize("wanted", _OF_COLUMNS)
@pytest.mark.parametrize("kind", _KINDS)
def test_a_header_is_in_a_map_or_its_record_is_bad(wanted: OutputFormat, kind: ConverterKind) -> None:
    """Whatever is in it: in Aiven's Avro and Parquet, where each value is bytes or text."""
    how = _columns_of(wanted, kind)
    for value in _VALUES:
        body = _written_alone(how, kind, value)
        assert body is None or _map(wanted, body).keys() == {"h"}, value


@pytest.mark.parametrize("wanted", _OF_COLUMNS)
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (ConverterKind.SIMPLE, b"\xff\x01", "\ufffd\x01"),
        (ConverterKind.SIMPLE, b"5", "5"),
        (ConverterKind.SIMPLE, b"null", "null"),
        (ConverterKind.SIMPLE, b"1.50", "1.50"),
        (ConverterKind.LONG, b"\x00\x00\x00\x00\x00\x00\x00\x05", "5"),
        (ConverterKind.SHORT, b"\x00\xff", "255"),
        (ConverterKind.BOOLEAN, b"\x01", "true"),
        (ConverterKind.DOUBLE, b"\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"),
        (ConverterKind.JSON, _ENVELOPED, "7"),
        (ConverterKind.JSON, b'"abc"', "abc"),
        (ConverterKind.JSON, b"null", None),
        (ConverterKind.JSON_PLAIN, b'["a", 1]', '["a",1]'),
        (ConverterKind.JSON_ENVELOPE, _ENVELOPED, "7"),
        (ConverterKind.STRING, b"5", "5"),
        (ConverterKind.BYTES, b"\xff", b"\xff"),
        *((kind, None, None) for kind in _KINDS),
    ],
)
def test_a_map_has_what_the_converter_reads(
    wanted: OutputFormat, kind: ConverterKind, value: bytes | None, expected: Any
) -> None:
    """As text, but bytes of ByteArrayConverter; text of SimpleHeaderConverter as it is in Kafka."""
    records = fetched([b"1"], headers=[(("h", value),)])
    body = encoded(records, _columns_of(wanted, kind), converters(header=kind))
    assert _map(wanted, body) == {"h": expected}
