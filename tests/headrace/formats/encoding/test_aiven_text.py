"""Text of Aiven's and Quix's layouts, as tables; archives of the real sinks are in `tests/sink`."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from headrace.conversion.encoders import extension, new_encoder
from headrace.conversion.sink_records import RecordConverter
from headrace.formats.compression.codecs import decompressed
from headrace.formats.compression.magic import Codec
from headrace.formats.encoding import schema_of
from headrace.model.columns import Headers, KafkaRecords
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression, CsvEncoding
from headrace.options.sink_settings import ConverterKind, LayoutRows, OutputField, OutputFormat
from tests.headrace.formats.encoding.outputs import converters, encoded, fetched, output

_KEY, _VALUE, _OFFSET = OutputField.KEY, OutputField.VALUE, OutputField.OFFSET
_TIME, _HEADERS = OutputField.TIMESTAMP, OutputField.HEADERS
_ALL: Final = (_KEY, _VALUE, _OFFSET, _TIME, _HEADERS)


def _aiven(wanted: OutputFormat, *fields: OutputField, **changes: Any) -> Any:
    return output(wanted, layout=LayoutName.AIVEN, fields=fields, **changes)


def _records(headers: Sequence[Headers] | None = None) -> KafkaRecords:
    return fetched([b"v,1", None], keys=[None, b"k"], headers=headers, timestamps=[1_704_067_200_000, -1])


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (_aiven(OutputFormat.CSV, _VALUE), b"diwx\n"),
        (_aiven(OutputFormat.CSV, _VALUE, _KEY, _TIME), b"diwx,,1704067200000\n,aw==,"),
        (
            _aiven(OutputFormat.CSV, _OFFSET, _VALUE, rows=LayoutRows(csv_value=CsvEncoding.NONE)),
            b"0,v,1\n1,",
        ),
        (
            _aiven(OutputFormat.JSONL, *_ALL),
            (
                b'{"headers":[],"offset":0,"value":"diwx","key":null,"timestamp":"2024-01-01T00:00:00Z"}\n'
                b'{"headers":[],"offset":1,"value":null,"key":"aw==","timestamp":null}'
            ),
        ),
        (
            _aiven(OutputFormat.JSON, _VALUE, _KEY),
            b'[\n{"value":"diwx","key":null},\n{"value":null,"key":"aw=="}\n]',
        ),
        (_aiven(OutputFormat.JSON, _VALUE, envelope=False), b'[\n"diwx",\nnull\n]'),
        (_aiven(OutputFormat.JSONL, _KEY, envelope=False), b'null\n"aw=="'),
    ],
)
def test_rows_are_joined_in_configured_order(how: Any, text: bytes) -> None:
    """Nothing stands behind the last row, and members of JSON have Aiven's order."""
    assert encoded(_records(), how) == text


_NAMED: Final[list[Headers]] = [(("a", b"1"), ("ä", b"")), ()]


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        (_aiven(OutputFormat.CSV, _HEADERS), ConverterKind.BYTES, "YQ==:MQ==;w6Q=:;\n"),
        (
            _aiven(OutputFormat.JSONL, _HEADERS),
            ConverterKind.BYTES,
            '{"headers":[{"key":"a","value":"MQ=="},{"key":"ä","value":""}]}\n{"headers":[]}',
        ),
        (
            _aiven(OutputFormat.JSONL, _HEADERS, rows=LayoutRows(headers=ConverterKind.STRING)),
            ConverterKind.STRING,
            '{"headers":[{"key":"a","value":"1"},{"key":"ä","value":""}]}\n{"headers":[]}',
        ),
    ],
)
def test_headers(how: Any, kind: ConverterKind, text: str) -> None:
    """Names and values are both base64 in csv; JSON has a list."""
    assert encoded(_records(_NAMED), how, converters(header=kind)).decode() == text


def test_an_object_of_one_tombstone_is_empty_and_readable() -> None:
    """One empty line is a row: the body is empty, the stream around it is whole."""
    for compression, codec in (
        (Compression.GZIP, Codec.GZIP),
        (Compression.ZSTD, Codec.ZSTD),
        (Compression.SNAPPY, Codec.SNAPPY_XERIAL),
    ):
        stored = encoded(fetched([None]), _aiven(OutputFormat.CSV, _VALUE, compression=compression))
        assert stored
        assert b"".join(decompressed(codec, iter([stored]), name="x")) == b""
    assert encoded(fetched([None]), _aiven(OutputFormat.CSV, _VALUE)) == b""


def test_snappy_is_one_stream_of_javas() -> None:
    """With one header, however many blocks there are."""
    how = _aiven(OutputFormat.CSV, _VALUE, compression=Compression.SNAPPY)
    encoder = None
    stored = b""
    for first in range(3):
        (run,) = RecordConverter(converters(), how).convert(fetched([b"x" * 100_000], first=first)).runs
        encoder = encoder or new_encoder(how, schema_of(how, run))
        encoder.add(run)
        stored += encoder.drain(end_block=True)
    assert encoder is not None
    stored += encoder.finish()

    assert stored.startswith(b"\x82SNAPPY\x00")
    assert stored.count(b"\x82SNAPPY\x00") == 1
    plain = b"".join(decompressed(Codec.SNAPPY_XERIAL, iter([stored]), name="x"))
    assert plain.count(b"\n") == 2


@pytest.mark.parametrize(
    ("headers", "kind", "reason"),
    [
        ((("a", None),), ConverterKind.BYTES, "null_header"),
        ((("a", b"1"),), ConverterKind.STRING, "header_unfit"),
    ],
)
def test_headers_that_csv_cannot_hold_are_bad_records(
    headers: Headers, kind: ConverterKind, reason: str
) -> None:
    """Where Aiven's sink tries for ever, and leaves objects that are cut short."""
    how = _aiven(OutputFormat.CSV, _VALUE, _HEADERS, rows=LayoutRows(headers=kind))
    found = RecordConverter(converters(header=kind), how).convert(_records([headers, ()]))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(0, reason)]


@pytest.mark.parametrize(
    ("wanted", "compression", "name"),
    [
        (OutputFormat.CSV, Compression.GZIP, ".gz"),
        (OutputFormat.JSONL, Compression.NONE, ""),
        (OutputFormat.JSON, Compression.ZSTD, ".zst"),
        (OutputFormat.JSON, Compression.SNAPPY, ".snappy"),
    ],
)
def test_extensions_of_aiven_are_those_of_the_codec(
    wanted: OutputFormat, compression: Compression, name: str
) -> None:
    """No format but Avro shows in a name."""
    assert extension(_aiven(wanted, _VALUE, compression=compression)) == name


def test_lines_of_quix() -> None:
    """Keys are text, values JSON, and a null key is null."""
    how = output(OutputFormat.JSONL, layout=LayoutName.QUIX, fields=(_TIME, _KEY, _VALUE))
    records = fetched([b'{"a": [1]}', b"null", b'"t"'], keys=[b"k\xc3\xa9", None, b""], timestamps=[1, 2, 3])

    assert encoded(records, how).decode() == (
        '{"_timestamp":1,"_key":"ké","_value":{"a": [1]}}\n'
        '{"_timestamp":2,"_key":null,"_value":null}\n'
        '{"_timestamp":3,"_key":"","_value":"t"}\n'
    )


def test_a_key_of_quix_that_is_no_text_is_a_bad_record() -> None:
    """Where its own sink ends with an error."""
    how = output(OutputFormat.JSONL, layout=LayoutName.QUIX, fields=(_TIME, _KEY, _VALUE))
    found = RecordConverter(converters(), how).convert(fetched([b"1", b"2"], keys=[b"\xff", b"k"]))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(0, "not_utf8")]
