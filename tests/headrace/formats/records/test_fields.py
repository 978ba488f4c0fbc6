"""Keys, values, headers and timestamps out of rows, for every format that has fields."""

import datetime as dt
import io
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.formats.records.key_headers_timestamp import PRODUCE_TIME, RecordFault, timestamp
from headrace.model.positions import BytePosition
from headrace.options.choices import (
    Envelope,
    FieldHeaders,
    FieldSource,
    InputFormat,
    JsonFormat,
    ObjectHeaders,
    ValueFormat,
)
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import Decoded, MemorySource, decode_all


def _lines(*rows: bytes) -> MemorySource:
    return MemorySource(b"\n".join(rows) + b"\n")


def _keys(source: MemorySource, options: Any) -> list[bytes | None]:
    return [
        batch.keys.get(index)
        for batch in decode_all(source, options).batches
        for index in range(len(batch))
        if batch.keys is not None
    ]


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (b'{"a":{"b":"x"}}', b"x"),
        (b'{"a":{"b":"\\u00e9\\n"}}', "é\n".encode()),
        (b'{"a":{"b":12345678901234567890}}', b"12345678901234567890"),
        (b'{"a":{"b":1.10}}', b"1.10"),
        (b'{"a":{"b":true}}', b"true"),
        (b'{"a":{"b":null}}', None),
        (b'{"a":{"b":{"c": [1, 2]}}}', b'{"c": [1, 2]}'),
        (b'{"a":{"b":1,"b":2}}', b"2"),
        (b'{"a":{"b":""}}', b""),
    ],
)
def test_a_key_is_what_the_field_says(row: bytes, key: bytes | None) -> None:
    """Text without quotes, null as null, all else as it stands in the row."""
    options = decode_options(InputFormat.JSONL, key_source=FieldSource(("a", "b")))

    assert _keys(_lines(row), options) == [key]
    assert decode_all(_lines(row), options).values == [row]


@pytest.mark.parametrize("row", [b'{"a":1}', b'{"a":{"c":1}}', b"[1]", b'"a"', b"null", b'{"a":null}', b"{}"])
def test_a_missing_key_field_is_a_bad_row(row: bytes) -> None:
    """The row keeps its bytes, and the rows around it stay."""
    options = decode_options(InputFormat.JSONL, key_source=FieldSource(("a", "b")))
    good = b'{"a":{"b":1}}'

    decoded = decode_all(_lines(good, row, b"broken", good), options)

    assert decoded.values == [good, good]
    assert [(each.index, each.reason) for each in decoded.bad] == [(1, "missing_field"), (1, "not_json")]
    assert decoded.bad[0].position == BytePosition(14)
    assert decoded.bad[0].after == decoded.bad[1].position
    assert decoded.bad[0].raw in (row, None if row == b"null" else row)
    assert "a.b" in decoded.bad[0].message


@pytest.mark.parametrize("first", [b"{}", b"null", b"5", b'{"c":1}', b'{"b":"x"}', b'[{"b":1}]'])
def test_of_a_name_that_a_row_has_twice_the_last_one_counts(first: bytes) -> None:
    """As readers of JSON have it, whatever the first one is: also where a type is all that is looked for."""
    path = FieldSource(("a", "b"))
    lacking = b'{"a":{"b":"k"},"a":{}}'
    lines = _lines(b'{"a":%b,"a":{"b":"k"}}' % first, lacking, b'{"a":{"b":%b,"b":"k"}}' % first)

    assert _keys(lines, decode_options(InputFormat.JSONL, key_source=path)) == [b"k", b"k"]
    decoded = decode_all(lines, decode_options(InputFormat.JSONL, value_source=path))
    assert decoded.values == [b"k", b"k"]
    assert [(bad.reason, bad.raw) for bad in decoded.bad] == [("missing_field", lacking)]


@pytest.mark.parametrize("name", ['size"', "a\\b", "a\tb"])
def test_a_field_may_have_a_name_that_json_escapes(name: str) -> None:
    """It is found as others are, and missing as others are."""
    options = decode_options(InputFormat.JSONL, key_source=FieldSource(("a", name)))
    rows = [json.dumps(each).encode() for each in ({"a": {name: "x"}}, {"a": {"b": 1}}, {"a": {name: 1.5}})]

    assert _keys(_lines(*rows), options) == [b"x", b"1.5"]
    assert [each.reason for each in decode_all(_lines(*rows), options).bad] == ["missing_field"]


@pytest.mark.parametrize(
    ("key_format", "key"), [(ValueFormat.AUTO, b"x"), (ValueFormat.RAW, b"x"), (ValueFormat.JSON, b'"x"')]
)
def test_key_converters(key_format: ValueFormat, key: bytes) -> None:
    """JsonConverter keeps the quotes."""
    options = decode_options(InputFormat.JSONL, key_source=FieldSource(("k",)), key_format=key_format)

    assert _keys(_lines(b'{"k":"x"}'), options) == [key]


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (b'{"f":"caf\xe9"}', {"key_source": FieldSource(("f",))}),
        (b'{"f":"caf\xe9"}', {"value_source": FieldSource(("f",))}),
        (b'{"f":{"a":"caf\xe9"}}', {"headers": FieldHeaders(("f",))}),
        (b'{"f":{"caf\xe9":"a"}}', {"headers": FieldHeaders(("f",))}),
        (b'{"f":[{"key":"caf\xe9"}]}', {"headers": FieldHeaders(("f",))}),
        (b'{"caf\xe9":1,"f":{}}', {"headers": FieldHeaders(("f",))}),
        (b'{"key":"caf\xe9"}', {"envelope": Envelope.AIVEN}),
        (b'{"value":"caf\xe9"}', {"envelope": Envelope.AIVEN}),
        (b'{"headers":{"a":"caf\xe9"}}', {"envelope": Envelope.AIVEN}),
        (b'{"caf\xe9":"x"}', {"envelope": Envelope.AIVEN}),
        (b'{"offset":"caf\xe9"}', {"envelope": Envelope.AIVEN}),
    ],
)
def test_a_field_of_a_line_of_text_that_is_not_utf_8(row: bytes, changes: dict[str, Any]) -> None:
    """Lines that `auto` takes for text are not checked, and a bad one is a bad row among good ones."""
    good = b'{"f":{},"key":"k"}'
    source = MemorySource(b"\n".join([good, row, good]), name="s3://bucket/app.log")
    decoded = decode_all(source, decode_options(InputFormat.AUTO, **changes))

    assert len(decoded.rows) == 2
    assert [(bad.reason, bad.raw, bad.index) for bad in decoded.bad] == [("not_utf8", row, 1)]


def test_a_value_field_replaces_the_row() -> None:
    """`value.source=field:PATH`; null is a null value, absence a bad row; JSON keeps quotes."""
    rows = [b'{"v":{"a": 1}}', b'{"v":null}', b'{"v":"text"}', b"{}"]

    decoded = decode_all(_lines(*rows), decode_options(InputFormat.JSONL, value_source=FieldSource(("v",))))
    assert decoded.values == [b'{"a": 1}', None, b"text"]
    assert [row.reason for row in decoded.bad] == ["missing_field"]

    as_json = decode_options(
        InputFormat.JSONL, value_source=FieldSource(("v",)), value_format=ValueFormat.JSON
    )
    assert decode_all(_lines(*rows), as_json).values == [b'{"a": 1}', None, b'"text"']


@pytest.mark.parametrize(
    ("row", "headers"),
    [
        (
            b'{"h":{"a":"x","b":1.50,"c":null,"d":[1]}}',
            (("a", b"x"), ("b", b"1.50"), ("c", None), ("d", b"[1]")),
        ),
        (
            b'{"h":[{"key":"a","value":"x"},{"key":"a","value":null},{"key":"b"}]}',
            (("a", b"x"), ("a", None), ("b", None)),
        ),
        (b'{"h":null}', ()),
        (b"{}", ()),
        (b"[]", ()),
    ],
)
def test_headers_are_the_entries_of_an_object(row: bytes, headers: Any) -> None:
    """Or of a list of key and value, which may repeat."""
    options = decode_options(InputFormat.JSONL, headers=FieldHeaders(("h",)))

    (batch,) = decode_all(_lines(row), options).batches

    assert batch.headers == (headers,)


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (b'{"a":1}', b'{"a":1,"year":"2026"}'),
        (b' {"a":"{" } ', b'{"a":"{","year":"2026"}'),
        (b"{}", b'{"year":"2026"}'),
        (b"{ }", b'{"year":"2026"}'),
        (b"null", None),
    ],
)
def test_fields_are_added_to_objects(row: bytes, value: bytes | None) -> None:
    """At their end; a null stays one. Keys and times are taken from the row as it was."""
    options = replace(decode_options(InputFormat.JSONL), members=b'"year":"2026"')
    decoded = decode_all(_lines(b'{"x":[]}', row), options)

    assert decoded.values == [b'{"x":[],"year":"2026"}', value]
    assert decoded.bad == []


def test_what_is_no_object_gets_no_fields() -> None:
    """It is a bad row as it stands, and one that grows beyond the limit is too large."""
    options = replace(decode_options(InputFormat.JSONL, record_max_bytes=24), members=b'"year":"2026"')
    decoded = decode_all(_lines(b'{"a":1}', b"[1]", b'{"a":"xxxxxxxxxx"}', b"2", b'{"b":1}'), options)

    assert decoded.values == [b'{"a":1,"year":"2026"}', b'{"b":1,"year":"2026"}']
    assert [(row.reason, row.raw) for row in decoded.bad] == [
        ("not_an_object", b"[1]"),
        ("too_large", None),
        ("not_an_object", b"2"),
    ]


@pytest.mark.parametrize("row", [b'{"h":1}', b'{"h":"x"}', b'{"h":[1]}', b'{"h":[{"value":"x"}]}'])
def test_headers_of_another_shape_are_bad(row: bytes) -> None:
    """Rather than lost."""
    options = decode_options(InputFormat.JSONL, headers=FieldHeaders(("h",)))

    assert [each.reason for each in decode_all(_lines(row), options).bad] == ["not_headers"]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("1700000000123.9", 1_700_000_000_123),
        ("null", PRODUCE_TIME),
        ('"1700000000123"', 1_700_000_000_123),
        ('"2023-11-14T22:13:20Z"', 1_700_000_000_000),
        ('"2023-11-14T22:13:20"', 1_700_000_000_000),
        ('"2023-11-14 23:13:20.123456789+01:00"', 1_700_000_000_123),
        ('"2023-11-14T22:13:20.1Z"', 1_700_000_000_100),
        ('"2023-11-14"', 1_699_920_000_000),
        ('"20231114"', 1_699_920_000_000),
        ('"20231114T221320Z"', 1_700_000_000_000),
        ('"0"', 0),
    ],
)
def test_timestamps(text: str, milliseconds: int) -> None:
    """Milliseconds, or ISO 8601 in any zone and precision."""
    assert timestamp(text.encode()) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "-1",
        "-0.5",
        '"2026"',
        '"20261331"',
        "1e30",
        "true",
        "[1]",
        '"soon"',
        '""',
        '"1969-12-31T23:59:59Z"',
        '"2023-13-01"',
    ],
)
def test_what_is_no_timestamp(text: str) -> None:
    """A bad record, not a wrong time."""
    with pytest.raises(RecordFault) as caught:
        timestamp(text.encode())
    assert caught.value.reason == "not_a_timestamp"


def test_timestamps_of_rows() -> None:
    """Each row has its own; a missing field is a bad row."""
    options = decode_options(InputFormat.JSONL, timestamp=FieldSource(("t",)))

    decoded = decode_all(_lines(b'{"t":5}', b'{"t":null}', b'{"t":"x"}', b"{}"), options)

    assert decoded.batches[0].timestamps_ms is not None
    assert decoded.batches[0].timestamps_ms.tolist() == [5, PRODUCE_TIME]
    assert [row.reason for row in decoded.bad] == ["not_a_timestamp", "missing_field"]


def test_the_position_header_tells_where_a_row_stood() -> None:
    """The good rows' own positions, with bad ones between."""
    options = decode_options(InputFormat.JSONL, headers=ObjectHeaders())

    (batch,) = decode_all(_lines(b"1", b"bad", b"2"), options).batches

    assert batch.headers == ((("headrace.position", b'{"byte":0}'),), (("headrace.position", b'{"byte":6}'),))


def test_key_headers_and_value_count_together() -> None:
    """A record is measured whole; the row that fits alone does not with its key and headers."""
    options = decode_options(
        InputFormat.JSONL, key_source=FieldSource(("k",)), headers=FieldHeaders(("h",)), record_max_bytes=40
    )
    fits, large = b'{"k":"1234","h":{"n":"v"}}', b'{"k":"123456","h":{"n":"vvvvvv"}}'
    assert len(fits) + 4 + 2 <= 40 < len(large) + 6 + 7

    decoded = decode_all(_lines(fits, large, fits), options)

    assert decoded.values == [fits, fits]
    assert _keys(_lines(fits, large, fits), options) == [b"1234", b"1234"]
    assert [(row.index, row.reason, row.size, row.raw) for row in decoded.bad] == [(1, "too_large", 46, None)]


def _parquet(rows: list[dict[str, Any]]) -> MemorySource:
    out = io.BytesIO()
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("data", pa.binary()),
            ("at", pa.timestamp("ms", "UTC")),
            ("h", pa.map_(pa.string(), pa.string())),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema), out)
    return MemorySource(out.getvalue())


AVRO_ROW = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "data", "type": ["null", "bytes"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "h", "type": {"type": "map", "values": "string"}},
    ],
}


@pytest.mark.parametrize("input_format", [InputFormat.PARQUET, InputFormat.AVRO])
def test_fields_of_columns(input_format: InputFormat) -> None:
    """Bytes come as bytes, not as the base64 that JSON shows; times as JSON shows them."""
    rows: list[dict[str, Any]] = [
        {"id": 1, "data": b"\x00\xff", "at": 1_700_000_000_123, "h": {"n": "v"}},
        {"id": 2, "data": None, "at": 0, "h": {}},
    ]
    source = _parquet(rows) if input_format is InputFormat.PARQUET else MemorySource(file_of(AVRO_ROW, rows))
    options = decode_options(
        input_format,
        key_source=FieldSource(("id",)),
        value_source=FieldSource(("data",)),
        timestamp=FieldSource(("at",)),
        headers=FieldHeaders(("h",)),
    )

    (batch,) = decode_all(source, options).batches

    assert [batch.values.get(index) for index in range(2)] == [b"\x00\xff", None]
    assert _keys(source, options) == [b"1", b"2"]
    assert batch.headers == ((("n", b"v"),), ())
    assert batch.timestamps_ms is not None
    assert batch.timestamps_ms.tolist() == [1_700_000_000_123, 0]


@pytest.mark.parametrize("input_format", [InputFormat.PARQUET, InputFormat.AVRO])
@pytest.mark.parametrize("style", list(JsonFormat))
def test_a_date_is_its_first_moment_and_a_time_of_day_none(
    style: JsonFormat, input_format: InputFormat
) -> None:
    """And a time of day is no moment; in Connect's JSON both are numbers, not of milliseconds since 1970."""
    row = {"day": dt.date(2026, 1, 31), "clock": dt.time(1, 2, 3)}
    day = {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]}
    clock = {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}}
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row]), out)
    avro = file_of({"type": "record", "name": "R", "fields": [day, clock]}, [row])
    source = MemorySource(out.getvalue() if input_format is InputFormat.PARQUET else avro)

    def decoded(name: str) -> Decoded:
        moment = FieldSource((name,))
        return decode_all(source, decode_options(input_format, timestamp=moment, json_format=style))

    (batch,) = decoded("day").batches
    assert batch.timestamps_ms is not None
    assert batch.timestamps_ms.tolist() == [1_769_817_600_000]
    assert [bad.reason for bad in decoded("clock").bad] == ["not_a_timestamp"]


@pytest.mark.parametrize("input_format", [InputFormat.PARQUET, InputFormat.AVRO])
def test_lists_of_bytes_are_lists(input_format: InputFormat) -> None:
    """Of which no key is made but their JSON."""
    out = io.BytesIO()
    pq.write_table(pa.table({"k": [[b"\xff", None]]}), out)
    shape = {"name": "k", "type": {"type": "array", "items": ["null", "bytes"]}}
    avro = file_of({"type": "record", "name": "R", "fields": [shape]}, [{"k": [b"\xff", None]}])
    source = MemorySource(out.getvalue() if input_format is InputFormat.PARQUET else avro)

    assert _keys(source, decode_options(input_format, key_source=FieldSource(("k",)))) == [b'["/w==",null]']


@pytest.mark.parametrize("input_format", [InputFormat.AVRO, InputFormat.PARQUET])
@pytest.mark.parametrize(
    "changes",
    [{"headers": FieldHeaders(("headers",))}, {"envelope": Envelope.AIVEN}],
    ids=["fields", "aiven"],
)
def test_headers_of_a_record_are_of_their_own_types(
    input_format: InputFormat, changes: dict[str, Any]
) -> None:
    """Whatever a neighbour is called; those of a list of keys and values are of the type of the value."""
    named = {"a": b"\0\1", "value": b"\0\2", "b": "text", "n": 7, "o": None}
    fields = [
        {"name": name, "type": kind}
        for name, kind in zip(named, ("bytes", "bytes", "string", "int"), strict=False)
    ]
    record = {"type": "record", "name": "H", "fields": [*fields, {"name": "o", "type": ["null", "bytes"]}]}
    content = file_of(
        {"type": "record", "name": "R", "fields": [{"name": "headers", "type": ["null", record]}]},
        [{"headers": named}],
    )
    if input_format is InputFormat.PARQUET:
        kinds = {"a": pa.binary(), "value": pa.binary(), "b": pa.string(), "n": pa.int32(), "o": pa.binary()}
        out = io.BytesIO()
        pq.write_table(pa.table({"headers": pa.array([named], pa.struct(list(kinds.items())))}), out)
        content = out.getvalue()

    (batch,) = decode_all(MemorySource(content), decode_options(input_format, **changes)).batches

    assert batch.headers == ((("a", b"\0\1"), ("value", b"\0\2"), ("b", b"text"), ("n", b"7"), ("o", None)),)


def test_raw_avro_with_a_key_from_a_field() -> None:
    """The value stays the datum's bytes while the key comes from its content."""
    rows: list[dict[str, Any]] = [{"id": n, "data": None, "at": 0, "h": {}} for n in range(3)]
    raw = decode_options(InputFormat.AVRO, value_format=ValueFormat.RAW)
    keyed = decode_options(InputFormat.AVRO, value_format=ValueFormat.RAW, key_source=FieldSource(("id",)))
    source = MemorySource(file_of(AVRO_ROW, rows))

    assert decode_all(source, keyed).values == decode_all(source, raw).values
    assert _keys(source, keyed) == [b"0", b"1", b"2"]


def test_resuming_among_bad_and_good_rows_repeats_and_loses_nothing() -> None:
    """Positions of rows that became bad while records were made are resumable too."""
    options = decode_options(InputFormat.JSONL, key_source=FieldSource(("k",)), record_max_bytes=30)
    rows = [b'{"k":1}', b"{}", b"broken", b'{"k":"' + b"x" * 40 + b'"}', b'{"k":2}', b"", b"null", b'{"k":3}']
    whole = decode_all(_lines(*rows), options)
    assert [json.loads(value or b"")["k"] for value in whole.values] == [1, 2, 3]

    for index, position in enumerate(whole.order):
        assert decode_all(_lines(*rows), options, start=position).order == whole.order[index:]
    for bad in whole.bad:
        after = decode_all(_lines(*rows), options, start=bad.after)
        assert after.order == whole.order[whole.order.index(bad.position) + 1 :]
