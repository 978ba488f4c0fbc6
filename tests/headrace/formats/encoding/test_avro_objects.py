"""Objects in Avro, read by fastavro: equal to what was produced, whether copied or encoded from columns."""

import io
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.conversion.encoders import new_encoder, with_texts
from headrace.conversion.sink_records import RecordConverter
from headrace.formats.avro_schema import parse_schema
from headrace.formats.encoding import Projected, next_schema, schema_of
from headrace.formats.encoding.avro_binary import encoded as avro_encoded
from headrace.formats.encoding.avro_binary import varints
from headrace.formats.records.registry import varint
from headrace.model.columns import NO_TIMESTAMP, TIMESTAMP_APPENDED, TIMESTAMP_NONE
from headrace.options.choices import Compression
from headrace.options.sink_settings import ConverterKind, OutputField, OutputFormat, SchemaCompatibility
from tests.headrace.formats.encoding.outputs import bare, converted, converters, encoded, fetched, output
from tests.headrace.formats.encoding.registry import avro, datum, framed, registry
from tests.support.examples import examples

_DECIMAL: Final = {"logicalType": "decimal"}
_LOGICAL: Final = {
    "day": {"type": "int", "logicalType": "date"},
    "clock": {"type": "int", "logicalType": "time-millis"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-millis"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    "exact": {"type": "fixed", "name": "F12", "size": 12},
    "wide": {
        "type": "fixed",
        "name": "F20",
        "size": 20,
        "logicalType": "decimal",
        "precision": 30,
        "scale": 2,
    },
    "narrow": {
        "type": "fixed",
        "name": "F4",
        "size": 4,
        "logicalType": "decimal",
        "precision": 8,
        "scale": 0,
    },
    "id": {"type": "string", "logicalType": "uuid"},
}
_INNER: Final = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "E"}]}
RICH: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Rich",
    "namespace": "org.example",
    "fields": [
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": ["int", "null"]},
        {"name": "l", "type": "long"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": ["null", "double"]},
        {"name": "s", "type": ["null", "string"]},
        {"name": "y", "type": "bytes"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}},
        {"name": "a", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "m", "type": ["null", {"type": "map", "values": {"type": "array", "items": "string"}}]},
        {
            "name": "r",
            "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "E"}]}],
        },
        *({"name": name, "type": shape} for name, shape in _LOGICAL.items()),
    ],
}
_LONGS: Final = st.integers(-(2**63), 2**63 - 1)
_TEXTS: Final = st.text(max_size=5)
_SYMBOLS: Final = st.sampled_from("ABC")


def _moment(ms: int) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).replace(tzinfo=None)


RICH_VALUES: Final = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "l": _LONGS,
        "f": st.floats(width=32, allow_nan=False),
        "d": st.none() | st.floats(allow_nan=False),
        "s": st.none() | _TEXTS,
        "y": st.binary(max_size=5),
        "e": _SYMBOLS,
        "a": st.lists(st.none() | _LONGS, max_size=3),
        "m": st.none() | st.dictionaries(_TEXTS, st.lists(_TEXTS, max_size=2), max_size=2),
        "r": st.none() | st.fixed_dictionaries({"x": _SYMBOLS}),
        "day": st.dates(date(1, 1, 1), date(9999, 12, 31)),
        "clock": st.integers(0, 86_399_999).map(lambda ms: _moment(ms).time()),
        "at": st.datetimes(_moment(-(2**41)), _moment(2**42), timezones=st.just(UTC)),
        "local": st.integers(0, 2**40).map(_moment),
        "price": st.decimals(-999_999, 999_999, places=3),
        "exact": st.binary(min_size=12, max_size=12),
        "wide": st.decimals(-(10**20), 10**20, places=2),
        "narrow": st.integers(-(10**8) + 1, 10**8 - 1).map(Decimal),
        "id": st.uuids(),
    }
)


def _read(content: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(content)))


def _read_parquet(content: bytes) -> list[Any]:
    rows: list[Any] = pq.read_table(pa.BufferReader(content)).to_pylist()
    return rows


@settings(max_examples=examples(45))
@given(rows=st.lists(RICH_VALUES, min_size=1, max_size=5), tombstone=st.booleans())
def test_avro_of_a_registry_is_copied(rows: list[Any], tombstone: bool) -> None:
    """In the envelope and alone, digit for digit."""
    one = registry()
    values: list[bytes | None] = [framed(one, RICH, row) for row in rows]

    alone = encoded(fetched(values), bare(OutputFormat.AVRO), converters(avro(one)))
    whole = encoded(fetched([*values, *[None] * tombstone]), output(OutputFormat.AVRO), converters(avro(one)))

    assert _read(alone) == rows
    assert [row["value"] for row in _read(whole)] == [*rows, *[None] * tombstone]


@settings(max_examples=examples(48))
@given(rows=st.lists(RICH_VALUES, min_size=1, max_size=5))
def test_columns_are_encoded_as_fastavro_does(rows: list[Any]) -> None:
    """The data of each row, from its Arrow columns: what a reader sees is the same."""
    one = registry()
    (run,) = converted(
        fetched([framed(one, RICH, row) for row in rows]), output(OutputFormat.AVRO), converters(avro(one))
    )
    schema = fastavro.parse_schema(RICH)

    found = avro_encoded(run.value.arrow(), parse_schema(run.value.schema.avro if run.value.schema else ""))

    data = [io.BytesIO(each) for each in found.to_pylist()]
    assert [fastavro.schemaless_reader(each, schema, None) for each in data] == rows
    assert all(each.read() == b"" for each in data)


@given(numbers=st.lists(_LONGS, min_size=1))
def test_varints(numbers: list[int]) -> None:
    """Many at once, as one by one."""
    assert varints(np.array(numbers, np.int64)).to_pylist() == [varint(number) for number in numbers]


def test_every_field_of_the_envelope() -> None:
    """With and without time, headers, key."""
    records = fetched(
        [b"1", None],
        keys=[None, b"\xff"],
        headers=[(("h", b"\x00"), ("h", None)), ()],
        timestamps=[7, NO_TIMESTAMP],
        types=[TIMESTAMP_APPENDED, TIMESTAMP_NONE],
        first=2**40,
    )

    rows = _read(encoded(records, output(OutputFormat.AVRO)))

    place = {"topic": "orders", "partition": 3}
    assert rows == [
        {
            **place,
            "offset": 2**40,
            "timestamp": 7,
            "timestamp_type": "append",
            "key": None,
            "value": b"1",
            "headers": [{"key": "h", "value": b"\x00"}, {"key": "h", "value": None}],
        },
        {
            **place,
            "offset": 2**40 + 1,
            "timestamp": None,
            "timestamp_type": None,
            "key": b"\xff",
            "value": None,
            "headers": [],
        },
    ]


@pytest.mark.parametrize(
    ("field", "rows"),
    [
        (OutputField.VALUE, [b"a", None]),
        (OutputField.KEY, [b"k", b"k"]),
        (OutputField.OFFSET, [0, 1]),
        (OutputField.PARTITION, [3, 3]),
        (OutputField.TOPIC, ["orders", "orders"]),
        (OutputField.TIMESTAMP, [1_704_067_200_000] * 2),
        (OutputField.HEADERS, [[], []]),
    ],
)
def test_one_field_alone(field: OutputField, rows: list[Any]) -> None:
    """Rows of its own type."""
    assert _read(encoded(fetched([b"a", None]), bare(OutputFormat.AVRO, field))) == rows


def test_text_is_a_string() -> None:
    """StringConverter's values are no bytes."""
    how = bare(OutputFormat.AVRO)

    assert _read(encoded(fetched(["é".encode(), None]), how, converters(ConverterKind.STRING))) == ["é", None]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (["int", "string"], [1, "x", None]),
        (["string", "null", "int"], [1, None, "x"]),
        ("long", [5, None]),
        ({"type": "array", "items": "int"}, [[1], None]),
    ],
)
def test_values_that_are_no_records_may_be_null(schema: Any, values: list[Any]) -> None:
    """A union keeps its branches; a tombstone becomes the null that it has or gets."""
    one = registry()
    records = fetched([None if value is None else framed(one, schema, value) for value in values])
    for how in (output(OutputFormat.AVRO), bare(OutputFormat.AVRO)):
        rows = _read(encoded(records, how, converters(avro(one))))
        assert [row["value"] if how.envelope else row for row in rows] == values


def test_null_records_cannot_stand_alone() -> None:
    """A row is the record; there is no place for nothing."""
    one = registry()
    records = fetched([framed(one, _ROW, {"id": 1}), None])

    found = RecordConverter(converters(avro(one)), bare(OutputFormat.AVRO)).convert(records)

    assert [(fault.offset, fault.reason) for fault in found.faults] == [(1, "null_value")]


_ROW: Final = {"type": "record", "name": "Row", "namespace": "x", "fields": [{"name": "id", "type": "int"}]}
_COST: Final = {"type": "record", "name": "C", "fields": [{"name": "n", "type": "int"}]}
_NEWER: Final = {
    **_ROW,
    "fields": [
        {"name": "more", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "id", "type": "long"},
        {"name": "flag", "type": ["null", "boolean"], "default": None},
        {"name": "text", "type": "string", "default": "é"},
        {"name": "octets", "type": "bytes", "default": "\u00ff"},
        {"name": "cost", "type": ["null", _COST], "default": None},
    ],
}


def test_keys_and_values_may_have_types_of_one_name() -> None:
    """Avro knows a name once; the keys' types get another namespace."""
    one = registry()
    key_schema = {**_ROW, "fields": [{"name": "k", "type": ["null", {**_ROW, "name": "Inner"}]}]}
    key, value = {"k": {"id": 7}}, {"id": 1}
    records = fetched([framed(one, _ROW, value)], keys=[framed(one, key_schema, key, "orders-key")])

    (row,) = _read(encoded(records, output(OutputFormat.AVRO), converters(avro(one), avro(one))))

    assert (row["key"], row["value"]) == (key, value)


@pytest.mark.parametrize("is_shared", [False, True], ids=["", "written before"])
@pytest.mark.parametrize("wanted", [OutputFormat.AVRO, OutputFormat.PARQUET])
def test_an_older_record_is_projected_to_the_open_schema(
    wanted: OutputFormat,
    is_shared: bool,
) -> None:
    """As Avro resolves schemas: members by name, wider numbers, defaults for what is absent."""
    one = registry()
    new_value = {"more": ["a"], "id": 2, "flag": True, "text": "t", "octets": b"o", "cost": {"n": 1}}
    old = framed(one, _ROW, {"id": 1})
    new = framed(one, _NEWER, new_value)
    how = bare(wanted, schema_compatibility=SchemaCompatibility.BACKWARD)
    newer, older = converted(fetched([new, old]), how, converters(avro(one)))
    if is_shared:
        newer, older = with_texts(how, newer), with_texts(how, older)
    schema = schema_of(how, newer)

    assert next_schema(how, schema, schema_of(how, older)) == Projected()
    encoder = new_encoder(how, schema)
    encoder.add(newer)
    encoder.add(older)
    content = encoder.finish()

    resolved: Any = fastavro.schemaless_reader(
        io.BytesIO(datum(_ROW, {"id": 1})), fastavro.parse_schema(_ROW), fastavro.parse_schema(_NEWER)
    )
    read = _read if wanted is OutputFormat.AVRO else _read_parquet
    # fastavro gives the default of bytes as the text that stands in the schema.
    assert read(content) == [new_value, {**resolved, "octets": b"\xff"}]


@pytest.mark.parametrize("is_enveloped", [False, True], ids=["values", "envelope"])
def test_rows_that_were_encoded_before_are_the_same(
    is_enveloped: bool,
) -> None:
    """Encoded for all records at once and shared out to groups, in any order of them."""
    how = (output if is_enveloped else bare)(OutputFormat.AVRO)
    one = registry()
    records = fetched([framed(one, _ROW, {"id": number}) for number in range(50)])
    (run,) = converted(records, how, converters(avro(one)))
    shared = with_texts(how, run)
    assert shared.texts is not None
    for rows in (np.arange(0, 50, 7), np.array([3]), np.arange(50)):
        found = []
        for each in (run, shared):
            encoder = new_encoder(how, schema_of(how, each))
            encoder.add(each.take(rows))
            encoder.add(each.take(rows[::-1]).take(np.array([0])))
            encoder.add(each.slice(4, 9))
            found.append(_read(encoder.drain() + encoder.finish()))
        assert found[0] == found[1]
        if not is_enveloped:
            assert [row["id"] for row in found[0]] == [*rows.tolist(), int(rows[-1]), *range(4, 9)]


def test_rows_with_nulls_are_not_encoded_before() -> None:
    """They may be for objects of keys alone, and the schema need not allow them."""
    how, one = bare(OutputFormat.AVRO), registry()
    records = fetched([None, framed(one, ["null", "string"], "a")])
    (run,) = converted(records, how, converters(avro(one)))

    assert with_texts(how, run).texts is None
    assert with_texts(how, run.slice(1, 2)).texts is not None


@pytest.mark.parametrize(
    "compression",
    [
        Compression.NONE,
        Compression.GZIP,
        Compression.SNAPPY,
        Compression.BZIP2,
        Compression.XZ,
    ],
)
def test_codecs_and_blocks(compression: Compression) -> None:
    """Blocks that end when the object spills, and blocks that are full; fastavro reads all of these."""
    how = bare(OutputFormat.AVRO, compression=compression, compression_level=None)
    values = [b"%d" % number * 50 for number in range(3_000)]
    (run,) = converted(fetched(values), how)
    encoder = new_encoder(how, schema_of(how, run))
    parts = []
    for first in range(0, 3_000, 1_000):
        encoder.add(run.slice(first, first + 1_000))
        parts.append(encoder.drain(end_block=first == 0))
    content = b"".join(parts) + encoder.finish()

    assert parts[0]
    assert encoder.buffered == 0
    assert _read(content) == values


def test_moments_keep_their_kind() -> None:
    """Days and times of day are what readers see."""
    one = registry()
    fields = [{"name": name, "type": _LOGICAL[name]} for name in ("day", "clock")]
    schema = {"type": "record", "name": "T", "fields": fields}
    row = {"day": date(2024, 2, 29), "clock": time(23, 59, 59, 999_000)}

    assert _read(
        encoded(fetched([framed(one, schema, row)]), bare(OutputFormat.AVRO), converters(avro(one)))
    ) == [row]


def _of(name: str, **fields: Any) -> dict[str, Any]:
    shown = [{"name": each, "type": kind} for each, kind in fields.items()]
    return {"type": "record", "name": name, "fields": shown}


@pytest.mark.parametrize(
    ("schema", "value", "names"),
    [
        (_of("Order", header=_of("Header", id="string")), {"header": {"id": "1"}}, ["Order", "Header"]),
        (_of("Record", id="string"), {"id": "1"}, ["Record"]),
        (["null", {"type": "array", "items": _of("Header", id="string")}], [{"id": "1"}], ["Header"]),
        (
            {**_of("Record", inner=_of("Header", id="string")), "namespace": "headrace"},
            {"inner": {"id": "1"}},
            ["headrace.Record", "headrace.Header"],
        ),
        (_of("Row", a=_of("x.E", id="int"), b="x.E"), {"a": {"id": 1}, "b": {"id": 2}}, ["Row", "x.E"]),
        (
            [_of("A", id="int"), {"type": "array", "items": "A"}],
            [{"id": 1}],
            # Nothing within a namespace can name a type without one.
            ["headrace.A"],
        ),
    ],
)
@pytest.mark.parametrize("is_key", [False, True])
def test_types_of_a_value_keep_their_names_in_the_envelope(
    is_key: bool, schema: Any, value: Any, names: list[str]
) -> None:
    """Whatever they are called: the envelope's own types are where there are none of the same names."""
    one = registry()
    text = framed(one, schema, value)
    records = fetched([text], keys=[text] if is_key else [b"k"], headers=[(("h", b"v"),)])
    kinds = converters(avro(one), avro(one) if is_key else ConverterKind.BYTES)

    content = encoded(records, output(OutputFormat.AVRO), kinds)

    (row,) = _read(content)
    assert row["value"] == value
    assert row["headers"] == [{"key": "h", "value": b"v"}]
    assert not is_key or row["key"] == value
    shape: Any = fastavro.reader(io.BytesIO(content)).writer_schema
    (member,) = (each["type"] for each in shape["fields"] if each["name"] == "value")
    assert _defined(member) == names


def _defined(shape: Any) -> list[str]:
    """The full names of the types that are defined in a schema of fastavro's, in order."""
    if isinstance(shape, list):
        return [name for each in shape for name in _defined(each)]
    if not isinstance(shape, dict):
        return []
    own = [shape["name"]] if "name" in shape else []
    below = [each["type"] for each in shape.get("fields", ())] + [shape.get("items"), shape["type"]]
    return own + [name for each in below for name in _defined(each)]
