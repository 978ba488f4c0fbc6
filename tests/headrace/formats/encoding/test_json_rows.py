"""Headrace's own rows of JSON, in JSON Lines and in an array: to the byte back, and exactly as documented."""

import gzip
import json
from typing import Any

import cramjam
import msgspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given

from headrace.conversion.encoders import extension, new_encoder, with_texts
from headrace.conversion.sink_records import RecordConverter
from headrace.formats.encoding import schema_of
from headrace.formats.record_columns import RecordColumns
from headrace.model.columns import (
    NO_TIMESTAMP,
    TIMESTAMP_APPENDED,
    TIMESTAMP_CREATED,
    TIMESTAMP_NONE,
    Column,
    KafkaRecords,
    column_of,
)
from headrace.options.choices import Compression, InputFormat, RestoreOptions
from headrace.options.sink_settings import ConverterKind, NullValues, OutputField, OutputFormat
from headrace.vendors.headrace import rows as own_rows
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.encoding.outputs import bare, converted, converters, encoded, fetched, output
from tests.headrace.formats.encoding.records import RECORDS, kafka_records, parts
from tests.headrace.formats.memory_source import MemorySource, decode_all


def _rows(content: bytes, wanted: OutputFormat) -> Column:
    """The rows as the source's own decoder cuts them out."""
    found = decode_all(MemorySource(content), decode_options(InputFormat(wanted)))
    return column_of(found.values)


def _restored(content: bytes, wanted: OutputFormat) -> RecordColumns:
    rows = _rows(content, wanted)
    return own_rows.reader(RestoreOptions(), rows.get(0))(rows)


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.JSON])
@given(records=RECORDS)
def test_every_byte_comes_back(wanted: OutputFormat, records: KafkaRecords) -> None:
    """The law of the layout: what was in Kafka is restored by the reader that there is."""
    found = _restored(encoded(records, output(wanted)), wanted)

    assert found.faults == ()
    assert parts(found) == kafka_records(records)


def _lines(records: KafkaRecords, **changes: Any) -> list[bytes]:
    return encoded(records, output(**changes)).splitlines()


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (b'{"id": 1.50}', b'"value":{"id": 1.50}'),
        (b'"a"', b'"value":"a"'),
        (None, b'"value":null'),
        (b"null", b'"value_base64":"bnVsbA=="'),
        (b"", b'"value_base64":""'),
        (b" 1", b'"value_base64":"IDE="'),
        (b"[1,\n2]", b'"value_base64":"WzEsCjJd"'),
        (b"1,2", b'"value_base64":"MSwy"'),
        (b"\xff", b'"value_base64":"/w=="'),
        (b'"\xff"', b'"value_base64":"Iv8i"'),
    ],
)
def test_values_are_copied_or_marked(value: bytes | None, member: bytes) -> None:
    """Alone and beside others, so that both the common and the mixed way are met."""
    for values in ([value], [b"{}", value, b"text", None]):
        row = _lines(fetched(values))[values.index(value)]
        assert member + b"}" == row[row.index(b'"value') :]


@pytest.mark.parametrize(
    ("key", "member"),
    [
        (b"k", b'"key":"k"'),
        (b'{"id":1}', b'"key":"{\\"id\\":1}"'),
        (b"", b'"key":""'),
        (None, b'"key":null'),
        (b"\xff", b'"key_base64":"/w=="'),
        (b"a\n\x01", b'"key":"a\\n\\u0001"'),
    ],
)
def test_keys_are_text(key: bytes | None, member: bytes) -> None:
    """Or base64 where they are no text."""
    for keys in ([key], [b"x", key, None, b"\xfe"]):
        row = _lines(fetched([b"1"] * len(keys), keys=keys))[keys.index(key)]
        assert member + b',"value":1}' == row[row.index(b'"key') :]


def test_members_that_a_record_does_not_have_are_not_there() -> None:
    """Times of both kinds, none at all, headers: one row each."""
    records = fetched(
        [b"1", b"2", b"3"],
        timestamps=[5, NO_TIMESTAMP, 6],
        types=[TIMESTAMP_CREATED, TIMESTAMP_NONE, TIMESTAMP_APPENDED],
        headers=[(), (("a", b"x"), ("a", None), ("b", b"\xff")), ()],
        first=9,
    )

    headers = b'{"key":"a","value":"x"},{"key":"a","value":null},{"key":"b","value_base64":"/w=="}'
    assert _lines(records) == [
        b'{"topic":"orders","partition":3,"offset":9,"timestamp":5,"key":"k","value":1}',
        b'{"topic":"orders","partition":3,"offset":10,"key":"k","value":2,"headers":[%s]}' % headers,
        b'{"topic":"orders","partition":3,"offset":11,"timestamp":6,"timestamp_type":"append","key":"k","value":3}',
    ]


def test_commas_where_the_first_members_are_missing() -> None:
    """Only what may be absent is asked for."""
    records = fetched(
        [b"1"] * 4,
        timestamps=[5, NO_TIMESTAMP, NO_TIMESTAMP, 7],
        types=[TIMESTAMP_APPENDED, TIMESTAMP_NONE, TIMESTAMP_NONE, TIMESTAMP_CREATED],
        headers=[(("a", b"x"),), (("a", b"x"),), (), ()],
    )
    header = b'"headers":[{"key":"a","value":"x"}]'

    rows = _lines(records, fields=(OutputField.TIMESTAMP, OutputField.HEADERS))

    assert rows == [
        b'{"timestamp":5,"timestamp_type":"append",' + header + b"}",
        b"{" + header + b"}",
        b"{}",
        b'{"timestamp":7}',
    ]


@pytest.mark.parametrize(
    ("field", "rows"),
    [
        (OutputField.VALUE, [b'{"a": 1}', b"null", b'{"b":[1,2.50]}']),
        (OutputField.KEY, [b'"k\\""', b"null", b'""']),
        (OutputField.OFFSET, [b"0", b"1", b"2"]),
        (OutputField.TIMESTAMP, [b"5", b"null", b"6"]),
        (OutputField.TOPIC, [b'"orders"'] * 3),
        (OutputField.PARTITION, [b"3"] * 3),
        (OutputField.HEADERS, [b"[]", b'[{"key":"h","value":"v"}]', b"[]"]),
    ],
)
def test_one_field_alone(field: OutputField, rows: list[bytes]) -> None:
    """As it is, values that span lines in one."""
    records = fetched(
        [b'{"a": 1}', None, b'\n{"b": [1,\n2.50]} '],
        keys=[b'k"', None, b""],
        timestamps=[5, NO_TIMESTAMP, 6],
        headers=[(), (("h", b"v"),), ()],
    )

    assert encoded(records, bare(field=field)) == b"".join(row + b"\n" for row in rows)
    assert encoded(records, bare(OutputFormat.JSON, field)) == b"[\n" + b",\n".join(rows) + b"\n]\n"


@pytest.mark.parametrize("values", [[b'{"a":\n1}'], [b'{"a":\n1}'] * 3, [b"{}", b'{"a":\n1}']])
def test_a_value_is_one_line(values: list[bytes]) -> None:
    """Where all span lines as well as where some do."""
    rows = encoded(fetched(values), bare()).splitlines()

    assert rows == [value.replace(b"\n", b"") for value in values]


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.JSON])
def test_bare_values_that_are_no_json_are_faults(wanted: OutputFormat) -> None:
    """Named by their offsets; the others are written, and the sentence holds no content."""
    found = RecordConverter(converters(), bare(wanted)).convert(fetched([b"1", b"secret", b"2"], first=7))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(8, "not_json")]
    assert "secret" not in found.faults[0].message
    (run,) = found.runs
    assert run.records.offsets.tolist() == [7, 9]
    assert [run.value.texts().get(row) for row in range(2)] == [b"1", b"2"]


def test_no_records_are_an_empty_array() -> None:
    """Which is one JSON text too."""
    (run,) = converted(fetched([b"1"]), output(OutputFormat.JSON))
    encoder = new_encoder(output(OutputFormat.JSON), schema_of(output(OutputFormat.JSON), run))

    assert json.loads(encoder.finish()) == []


def test_string_values_are_json_texts() -> None:
    """StringConverter says that they are text, whatever they look like."""
    rows = encoded(
        fetched([b'{"a":1}', None, b"", "é\n".encode()]), output(), converters(ConverterKind.STRING)
    )

    assert [msgspec.json.decode(row)["value"] for row in rows.splitlines()] == ['{"a":1}', None, "", "é\n"]


def _unpacked(content: bytes, compression: Compression) -> bytes:
    match compression:
        case Compression.GZIP:
            return gzip.decompress(content)
        case Compression.ZSTD:
            reader = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
            return bytes(reader.readall())
        case Compression.LZ4:
            stream: Any = pa.CompressedInputStream(pa.BufferReader(content), "lz4")
            return bytes(stream.read())
        case Compression.SNAPPY:
            return bytes(cramjam.snappy.decompress(content))
        case _:
            return content


@pytest.mark.parametrize("level", [None, 1, 9])
@pytest.mark.parametrize(
    "compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD, Compression.LZ4, Compression.SNAPPY]
)
def test_blocks_are_one_stream(compression: Compression, level: int | None) -> None:
    """Every end of a block frees what was held, and other readers see one text; so does our own."""
    how = output(compression=compression, compression_level=level)
    values = [b'{"id":%d}' % number for number in range(3000)]
    (run,) = converted(fetched(values), how)
    encoder = new_encoder(how, schema_of(how, run))
    parts = []
    for first in range(0, 3000, 1000):
        encoder.add(run.slice(first, first + 1000))
        assert encoder.buffered > 0
        parts.append(encoder.drain(end_block=True))
        assert encoder.buffered == 0
    content = b"".join(parts) + encoder.finish()

    assert all(parts)
    assert _unpacked(content, compression) == encoded(fetched(values), output())
    assert len(decode_all(MemorySource(content), decode_options(InputFormat.JSONL)).values) == 3000


def test_a_full_block_is_compressed_without_being_asked() -> None:
    """So that at most about a mebibyte of text is held, and nothing where it is not compressed."""
    how = output(compression=Compression.GZIP)
    (run,) = converted(fetched([b'{"a":"%s"}' % (b"x" * 5 * 1024 * 1024)]), how)
    encoder = new_encoder(how, schema_of(how, run))

    encoder.add(run)

    assert encoder.buffered < 100_000
    assert len(gzip.decompress(encoder.drain())) > 5 * 1024 * 1024
    assert encoder.buffered == 0


@pytest.mark.parametrize(
    "wanted", [OutputFormat.JSONL, OutputFormat.CSV, OutputFormat.AVRO, OutputFormat.PARQUET]
)
def test_many_open_objects_hold_what_they_say(wanted: OutputFormat) -> None:
    """Once they are spilled, next to nothing: no state of a compressor stays."""
    how = output(wanted, compression=Compression.ZSTD)
    (run,) = converted(fetched([b'{"id":1}'] * 10), how)
    encoders = [new_encoder(how, schema_of(how, run)) for _ in range(100)]
    for encoder in encoders:
        encoder.add(run)

    assert sum(encoder.buffered for encoder in encoders) < 500_000
    assert all(encoder.drain(end_block=True) for encoder in encoders)
    assert sum(encoder.buffered for encoder in encoders) == 0


@pytest.mark.parametrize(
    ("wanted", "compression", "name"),
    [
        (OutputFormat.JSONL, Compression.GZIP, ".jsonl.gz"),
        (OutputFormat.JSON, Compression.ZSTD, ".json.zst"),
        (OutputFormat.CSV, Compression.NONE, ".csv"),
        (OutputFormat.BYTES, Compression.SNAPPY, ".bin.snappy"),
        (OutputFormat.TEXT, Compression.LZ4, ".txt.lz4"),
        (OutputFormat.AVRO, Compression.ZSTD, ".avro"),
        (OutputFormat.PARQUET, Compression.SNAPPY, ".parquet"),
    ],
)
def test_extensions(wanted: OutputFormat, compression: Compression, name: str) -> None:
    """What compresses inside has no second one."""
    assert extension(output(wanted, compression=compression)) == name


@pytest.mark.parametrize("separator", [b"\n", b"", b"--\x00"])
@pytest.mark.parametrize("wanted", [OutputFormat.BYTES, OutputFormat.TEXT])
def test_bytes_with_a_separator(wanted: OutputFormat, separator: bytes) -> None:
    """Each value as it is."""
    how = bare(wanted, separator=separator)

    assert encoded(fetched([b"a\xff", b"", b"c"]), how) == b"a\xff" + separator + separator + b"c" + separator


@pytest.mark.parametrize("wanted", [OutputFormat.BYTES, OutputFormat.TEXT])
def test_a_null_that_cannot_be_held_is_a_fault(wanted: OutputFormat) -> None:
    """It would come back as an empty value."""
    found = RecordConverter(converters(), bare(wanted)).convert(fetched([b"a", None, b"b"]))

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(1, "null_value")]
    assert [len(run) for run in found.runs] == [2]


@pytest.mark.parametrize(
    ("behaviour", "written", "faults", "ignored"),
    [
        (NullValues.WRITE, [0, 1, 2], [], 0),
        (NullValues.IGNORE, [0, 2], [], 1),
        (NullValues.FAIL, [0, 2], [(1, "null_value")], 0),
    ],
)
def test_behaviour_on_null_values(
    behaviour: NullValues, written: list[int], faults: list[tuple[int, str]], ignored: int
) -> None:
    """Written, passed over and counted, or a fault."""
    how = output(null_values=behaviour)

    found = RecordConverter(converters(), how).convert(fetched([b"1", None, b"3"]))

    assert [offset for run in found.runs for offset in run.records.offsets.tolist()] == written
    assert [(fault.offset, fault.reason) for fault in found.faults] == faults
    assert found.ignored == ignored


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.BYTES, OutputFormat.TEXT])
def test_rows_that_were_written_before_are_the_same(wanted: OutputFormat) -> None:
    """Written for all records at once and shared out, in any order of groups."""
    values = [b'{"a":%d}' % number for number in range(50)]
    records = fetched(values, headers=[(("h", b"1"),) if number % 3 else () for number in range(50)])
    how = output(wanted) if wanted is OutputFormat.JSONL else bare(wanted)
    (run,) = converted(records, how)
    for rows in (np.arange(0, 50, 7), np.array([3]), np.arange(50)):
        found = []
        for each in (run, with_texts(how, run)):
            encoder = new_encoder(how, schema_of(how, each))
            encoder.add(each.take(rows))
            encoder.add(each.slice(4, 9))
            found.append(encoder.drain() + encoder.finish())
        assert found[0] == found[1]
    assert with_texts(how, run).texts is not None
