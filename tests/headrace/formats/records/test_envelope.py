"""Envelope rows as the Aiven sink writes them, back into records."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.formats.records.key_headers_timestamp import PRODUCE_TIME
from headrace.options.choices import Envelope, EnvelopeField, InputFormat, ValueFormat
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all

KEY, VALUE, HEADERS = EnvelopeField.KEY, EnvelopeField.VALUE, EnvelopeField.HEADERS


def _record(source: MemorySource, input_format: InputFormat = InputFormat.JSONL, **changes: Any) -> Any:
    options = decode_options(input_format, envelope=Envelope.AIVEN, **changes)
    decoded = decode_all(source, options)
    assert decoded.bad == []
    (batch,) = decoded.batches
    assert batch.keys is not None
    assert batch.headers is not None
    assert batch.timestamps_ms is not None
    return batch.keys.get(0), batch.values.get(0), batch.headers[0], int(batch.timestamps_ms[0])


@pytest.mark.parametrize("input_format", [InputFormat.PARQUET, InputFormat.AVRO])
def test_headers_that_are_a_map_of_bytes(input_format: InputFormat) -> None:
    """They are those bytes, as they are in a list of keys and values."""
    row: dict[str, Any] = {"key": "k", "headers": {"h": b"\x00\xff"}}
    kind = pa.schema({"key": pa.string(), "headers": pa.map_(pa.string(), pa.binary())})
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row], kind), out)
    fields = [
        {"name": "key", "type": "string"},
        {"name": "headers", "type": ["null", {"type": "map", "values": "bytes"}]},
    ]
    avro = file_of({"type": "record", "name": "R", "fields": fields}, [row])
    source = MemorySource(out.getvalue() if input_format is InputFormat.PARQUET else avro)

    assert _record(source, input_format) == (b"k", None, (("h", b"\x00\xff"),), PRODUCE_TIME)


@pytest.mark.parametrize(
    ("row", "base64", "record"),
    [
        pytest.param(
            b'{"key":"k","value":{"a": 1.10},"offset":12,"timestamp":"2023-11-14T22:13:20.123Z",'
            b'"headers":[{"key":"h","value":"x"}]}',
            (),
            (b"k", b'{"a":1.10}', (("h", b"x"), ("headrace.source_offset", b"12")), 1_700_000_000_123),
            id="everything",
        ),
        pytest.param(b"{}", (), (None, None, (), PRODUCE_TIME), id="nothing"),
        pytest.param(
            b'{"key":null,"value":null,"headers":null,"timestamp":null,"offset":null}',
            (),
            (None, None, (), PRODUCE_TIME),
            id="nulls",
        ),
        pytest.param(
            b'{"key":[1, 2],"value":17,"timestamp":5}',
            (),
            (b"[1,2]", b"17", (), 5),
            id="JSON key, number value",
        ),
        pytest.param(
            b'{"key":"aw==","value":"AP8="}', (KEY, VALUE), (b"k", b"\x00\xff", (), PRODUCE_TIME), id="base64"
        ),
        pytest.param(
            b'{"key":"aw==","value":"AP8="}',
            (VALUE,),
            (b"aw==", b"\x00\xff", (), PRODUCE_TIME),
            id="base64 of one",
        ),
        pytest.param(
            b'{"headers":[{"key":"h","value":"AP8="},{"key":"n"}]}',
            (HEADERS,),
            (None, None, (("h", b"\x00\xff"), ("n", None)), PRODUCE_TIME),
            id="base64 headers",
        ),
        pytest.param(
            b'{"headers":{"h":"x"}}',
            (),
            (None, None, (("h", b"x"),), PRODUCE_TIME),
            id="headers as an object",
        ),
    ],
)
def test_a_row_becomes_the_record_that_it_was(row: bytes, base64: Any, record: Any) -> None:
    """Fields are optional; JSON is compact, strings are text."""
    assert _record(MemorySource(row), envelope_base64=base64) == record


def test_json_converters_keep_quotes() -> None:
    """`value.format=json` writes strings as JSON."""
    found = _record(
        MemorySource(b'{"key":"k","value":"v"}'), key_format=ValueFormat.JSON, value_format=ValueFormat.JSON
    )

    assert found[:2] == (b'"k"', b'"v"')


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"[1]", "not_an_envelope"),
        (b"null", "not_an_envelope"),
        (b'{"headers":5}', "not_an_envelope"),
        (b'{"headers":[{"value":"x"}]}', "not_an_envelope"),
        (b'{"timestamp":"soon"}', "not_a_timestamp"),
        (b'{"value":"no base64!"}', "not_base64"),
    ],
)
def test_what_is_no_envelope_is_a_bad_row(row: bytes, reason: str) -> None:
    """With its bytes, for the dead letter topic."""
    options = decode_options(InputFormat.JSONL, envelope=Envelope.AIVEN, envelope_base64=(VALUE,))

    assert [bad.reason for bad in decode_all(MemorySource(row), options).bad] == [reason]


ENTRY = pa.struct([("key", pa.string()), ("value", pa.string())])
INNER = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
AVRO_INNER = {
    "type": "record",
    "name": "V",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": {"type": "array", "items": "string"}}],
}
AVRO_ENTRY = {
    "type": "record",
    "name": "H",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "string"]}],
}


@pytest.mark.parametrize(
    ("row", "types", "base64", "record"),
    [
        pytest.param(
            {
                "key": "k",
                "value": {"a": 2**63 - 1, "b": ["x", "é"]},
                "offset": 7,
                "timestamp": "2023-11-14T22:13:20.123Z",
                "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
            },
            {
                "key": (pa.string(), "string"),
                "value": (INNER, AVRO_INNER),
                "offset": (pa.int64(), "long"),
                "timestamp": (pa.string(), "string"),
                "headers": (pa.list_(ENTRY), {"type": "array", "items": AVRO_ENTRY}),
            },
            (),
            (
                b"k",
                '{"a":9223372036854775807,"b":["x","é"]}'.encode(),
                (("h", b"1"), ("n", None), ("headrace.source_offset", b"7")),
                1_700_000_000_123,
            ),
            id="everything",
        ),
        pytest.param(
            {"value": "text"},
            {"value": (pa.string(), "string")},
            (),
            (None, b"text", (), PRODUCE_TIME),
            id="a value alone",
        ),
        pytest.param(
            {"key": "aw==", "value": "AP8="},
            {"key": (pa.string(), "string"), "value": (pa.string(), "string")},
            (KEY, VALUE),
            (b"k", b"\x00\xff", (), PRODUCE_TIME),
            id="base64",
        ),
        pytest.param(
            {"key": 5, "value": None},
            {"key": (pa.int32(), "int"), "value": (pa.string(), ["null", "string"])},
            (),
            (b"5", None, (), PRODUCE_TIME),
            id="a number and a null",
        ),
        pytest.param(
            {"headers": {"h": "x"}},
            {"headers": (pa.map_(pa.string(), pa.string()), {"type": "map", "values": "string"})},
            (),
            (None, None, (("h", b"x"),), PRODUCE_TIME),
            id="headers as a map",
        ),
    ],
)
@pytest.mark.parametrize("input_format", [InputFormat.AVRO, InputFormat.PARQUET])
def test_rows_with_types_become_the_records_that_they_were(
    input_format: InputFormat, row: dict[str, Any], types: dict[str, Any], base64: Any, record: Any
) -> None:
    """The same as from JSON Lines, whatever of the fields a schema has."""
    if input_format is InputFormat.AVRO:
        fields = [{"name": name, "type": types[name][1]} for name in row]
        content = file_of({"type": "record", "name": "R", "fields": fields}, [row])
    else:
        out = io.BytesIO()
        schema = pa.schema([(name, types[name][0]) for name in row])
        shaped = {
            name: list(each.items()) if pa.types.is_map(schema.field(name).type) else each
            for name, each in row.items()
        }
        pq.write_table(pa.Table.from_pylist([shaped], schema), out)
        content = out.getvalue()

    assert _record(MemorySource(content), input_format, envelope_base64=base64) == record


def test_parquet_and_avro_envelopes_hold_bytes() -> None:
    """Columns of bytes are the bytes, without a word about base64."""
    row = {
        "key": b"k",
        "value": b"\x00\xff",
        "offset": 3,
        "timestamp": 5,
        "headers": [{"key": "h", "value": b"\x01"}],
    }
    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("headers", pa.list_(entry)),
        ]
    )
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row], schema), out)
    avro = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "key", "type": ["null", "bytes"]},
            {"name": "value", "type": "bytes"},
            {"name": "offset", "type": "long"},
            {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "headers",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "H",
                        "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "bytes"}],
                    },
                },
            },
        ],
    }
    expected = (b"k", b"\x00\xff", (("h", b"\x01"), ("headrace.source_offset", b"3")), 5)

    assert _record(MemorySource(out.getvalue()), InputFormat.PARQUET) == expected
    assert _record(MemorySource(file_of(avro, [row])), InputFormat.AVRO) == expected
