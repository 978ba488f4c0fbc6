"""Rows that are longer as they are stored than their records are in Kafka: base64, escapes, envelopes."""

import base64
import json
import random
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from headrace.conversion.archives import ArchiveDecoder
from headrace.conversion.encoders import extension
from headrace.conversion.joined import JoinedDecoder, ReadObject
from headrace.formats import DecodeOptions
from headrace.model.columns import BadRow, RowBatch
from headrace.model.errors import InvalidObject
from headrace.model.positions import Position
from headrace.options.choices import Envelope, EnvelopeField, FieldSource, InputFormat, ValueFormat
from headrace.options.row_settings import TextSettings
from headrace.options.sink_settings import OutputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.encoding.outputs import encoded, fetched, output
from tests.headrace.formats.endless import Endless
from tests.headrace.formats.measured import measure
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.headrace.options.loading import load_with
from tests.support.batch_records import records_of

# Kafka's own limit of a topic, and a value that such a topic holds.
_TOPIC: Final = 1_048_588
_SIZE: Final = 900_000
_BINARY: Final = b"\xff" + random.Random(1).randbytes(_SIZE)
_ZEROS: Final = bytes(_SIZE)
_ROWS_MOST: Final = 6 * 1_048_576 + 65_536


def _options(layout: str, limit: int | None = _TOPIC, **more: str) -> DecodeOptions:
    given = {name.replace("__", "."): value for name, value in more.items()}
    config = {"topic": None, "file.name.template": None, "input.layout": layout}
    return DecodeOptions(format=load_with({**config, **given}).format, topic="orders", topic_max_bytes=limit)


def _restored(
    key: str, content: bytes, options: DecodeOptions, start: Position | None = None, chunk: int = 1 << 20
) -> list[RowBatch]:
    assert options.format.restore is not None
    source = MemorySource(content, chunk=chunk, name=f"s3://archive/{key}")
    decoder = ArchiveDecoder(options.format.restore)
    return list(decoder.decode(source, start, key=key, options=options, begin=None, end=None))


def _bad(batches: list[RowBatch]) -> list[BadRow]:
    return [bad for batch in batches for bad in batch.bad]


def _values(batches: list[RowBatch]) -> list[Any]:
    return [value for _, value, _, _ in records_of(batches)]


@pytest.mark.parametrize("wanted", [OutputFormat.JSONL, OutputFormat.JSON])
@pytest.mark.parametrize(
    ("key", "value", "header"),
    [
        (b"k", _BINARY, b""),
        (b"k", _ZEROS, b""),
        (_BINARY, b"v", b"h"),
        (b"k", None, _ZEROS),
    ],
    ids=["base64", "escapes", "a key", "a header"],
)
def test_what_a_topic_held_comes_back(
    wanted: OutputFormat, key: bytes, value: bytes | None, header: bytes
) -> None:
    """Our own sink's objects of text, as those of Avro; also after a restart before or after such a row."""
    values, headers = [value, b"1", value], [(("h", header),)] * 3
    records = fetched(values, keys=[key] * 3, headers=headers)
    how = output(wanted)
    name = f"backup/orders/3/{records.first_offset:020}.headrace{extension(how)}"
    content = encoded(records, how)

    batches = _restored(name, content, _options("headrace"))

    assert _bad(batches) == []
    found = records_of(batches)
    assert found == [(key, each, (("h", header),), 1_704_067_200_000) for each in values]
    places = [batch.positions(row) for batch in batches for row in range(len(batch))]
    for row, place in enumerate(places):
        assert records_of(_restored(name, content, _options("headrace"), place)) == found[row:]


def _base64(value: bytes) -> bytes:
    return base64.b64encode(value)


@pytest.mark.parametrize(
    ("layout", "key", "content", "more", "value"),
    [
        pytest.param(
            "aiven",
            "orders-3-0",
            b'{"key":null,"value":"%s","offset":0}' % _base64(_BINARY),
            {"restore__value": "base64"},
            _BINARY,
            id="Aiven, base64",
        ),
        pytest.param(
            "aiven",
            "orders-3-0",
            b'[\n{"value":"%s"}\n]' % _base64(_BINARY),
            {"restore__value": "base64"},
            _BINARY,
            id="Aiven, an array",
        ),
        pytest.param("aiven", "orders-3-0", _base64(_BINARY), {}, _BINARY, id="Aiven, csv"),
        pytest.param(
            "lenses",
            "backups/orders/3/000000000001_1_2.json",
            json.dumps(_ZEROS.decode()).encode() + b"\n",
            {},
            _ZEROS,
            id="Lenses, a text",
        ),
        pytest.param(
            "lenses",
            "backups/orders/3/000000000001_1_2.json",
            b'{"value":"%s","metadata":{"topic":"orders","partition":3,"offset":1,"timestamp":0}}\n'
            % _base64(_BINARY),
            {"store__envelope": "true", "restore__value": "base64"},
            _BINARY,
            id="Lenses, an envelope",
        ),
        pytest.param(
            "lenses",
            "backups/orders/3/000000000001_1_2.bytes",
            _base64(_BINARY),
            {"restore__value": "base64"},
            _BINARY,
            id="Lenses, base64",
        ),
        pytest.param(
            "confluent",
            "topics/orders/partition=3/orders+3+0000000000.json",
            json.dumps(_ZEROS.decode()).encode() + b"\n",
            {},
            _ZEROS,
            id="Confluent, a text",
        ),
    ],
)
def test_what_other_sinks_wrote_comes_back(
    layout: str, key: str, content: bytes, more: dict[str, str], value: bytes
) -> None:
    """Of each layout the rows that are longer than their records."""
    batches = _restored(key, content, _options(layout, _TOPIC, **more), chunk=1 << 18)

    assert (_values(batches), _bad(batches)) == ([value], [])


@pytest.mark.parametrize(("key", "header"), [(_ZEROS, b"h"), (b"k", _ZEROS)], ids=["keys", "headers"])
def test_side_objects_have_long_rows(key: bytes, header: bytes) -> None:
    """Confluent's keys and headers of JSON, joined with their values; the record counts as a whole."""
    stem = "topics/orders/partition=3/orders+3+0000000000"
    rows = {
        "json": {"n": 1},
        "keys.json": key.decode(),
        "headers.json": {"headers": [{"key": "h", "value": header.decode()}]},
    }
    own, *sides = (
        ReadObject(f"{stem}.{end}", MemorySource(json.dumps(row, separators=(",", ":")).encode() + b"\n"))
        for end, row in rows.items()
    )
    options = _options("confluent", restore__key="string", restore__header="string")
    assert options.format.restore is not None

    batches = list(
        JoinedDecoder(ArchiveDecoder(options.format.restore), options).decode(own, sides, [], None)
    )

    assert _bad(batches) == []
    assert records_of(batches) == [(key, b'{"n":1}', (("h", header),), -1)]


_LONG: Final = b"x" * 2_000_000
_FIELD: Final[dict[str, Any]] = {
    "value_source": FieldSource(("v",)), "topic_max_bytes": 1000, "record_max_bytes": 4 << 20
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "content"),
    [
        (decode_options(InputFormat.JSONL, **_FIELD), b'{"v":"a","rest":"%s"}\n{"v":"b"}\n' % _LONG),
        (decode_options(InputFormat.JSON, **_FIELD), b'[{"v":"a","rest":"%s"},{"v":"b"}]' % _LONG),
        (decode_options(InputFormat.JSON, **_FIELD), b'{"v":"a","rest":"%s"}{"v":"b"}' % _LONG),
        (decode_options(InputFormat.CSV, **_FIELD), b"v,rest\na,%s\nb,\n" % _LONG),
        (
            decode_options(InputFormat.TEXT, text=TextSettings(pattern="(?P<v>.) (?P<rest>.*)"), **_FIELD),
            b"a %s\nb \n" % _LONG,
        ),
    ],
    ids=["jsonl", "an array", "objects", "csv", "text"],
)
def test_the_topics_limit_is_for_the_record(options: DecodeOptions, content: bytes) -> None:
    """A field of a long row is a small record; the row has to fit `record.max.bytes` alone."""
    decoded = decode_all(MemorySource(content), options)

    assert (decoded.values, decoded.bad) == ([b"a", b"b"], [])

    small = replace(options, format=replace(options.format, record_max_bytes=1000))
    decoded = decode_all(MemorySource(content), small)
    assert decoded.values == [b"b"]
    (bad,) = decoded.bad
    assert bad.reason == "too_large"
    assert bad.message == f"the row of {bad.size} bytes exceeds record.max.bytes (1000)"


def test_quotes_of_csv_do_not_count() -> None:
    """Rows of our own sink's csv, which doubles them, that are read by a field."""
    value = b'"' * 400_000
    content = encoded(fetched([value, b"1"]), output(OutputFormat.CSV))
    options = decode_options(InputFormat.CSV, topic_max_bytes=500_000, value_source=FieldSource(("value",)))

    decoded = decode_all(MemorySource(content, chunk=1 << 16), options)

    assert (decoded.values, decoded.bad) == ([value, b"1"], [])


def test_a_header_of_csv_is_no_record() -> None:
    """The columns' names may be longer than the topic's records."""
    options = decode_options(
        InputFormat.CSV, topic_max_bytes=1000, record_max_bytes=4 << 20, value_format=ValueFormat.RAW
    )

    decoded = decode_all(MemorySource(b"a,%s\n1,2\n" % _LONG), options)

    assert decoded.values == [b"1,2"]


_ENVELOPE: Final[dict[str, Any]] = {"envelope": Envelope.AIVEN, "envelope_base64": (EnvelopeField.VALUE,)}


@pytest.mark.parametrize(
    ("input_format", "begin", "between", "end"),
    [
        (InputFormat.JSONL, b"", b"\n", b"\n"),
        (InputFormat.JSON, b"[", b",", b"]"),
        (InputFormat.JSON, b"", b"\n", b""),
    ],
    ids=["jsonl", "an array", "objects"],
)
@pytest.mark.parametrize("chunk", [1 << 16, 16 << 20])
def test_envelopes_are_measured_by_what_is_in_them(
    input_format: InputFormat, begin: bytes, between: bytes, end: bytes, chunk: int
) -> None:
    """Good ones come, a record above the topic's limit is bad as a record, a longer row as a row."""
    large, filling = bytes(1_100_000), b'{"value":"","headers":null,"offset":1%s}'
    rows = [
        b'{"value":"%s"}' % _base64(_BINARY),
        b'{"value":"%s"}' % _base64(large),
        filling % (b" " * (_ROWS_MOST - len(filling) + 2)),
        filling % (b" " * (_ROWS_MOST - len(filling) + 3)),
        b'{"value":"YQ=="}',
    ]
    assert [len(row) - _ROWS_MOST for row in rows[2:4]] == [0, 1]
    options = decode_options(input_format, topic_max_bytes=_TOPIC, record_max_bytes=1 << 20, **_ENVELOPE)
    source = MemorySource(begin + between.join(rows) + end, chunk=chunk)

    decoded = decode_all(source, options)

    assert decoded.values == [_BINARY, b"", b"a"]
    assert [(bad.reason, bad.message, bad.raw) for bad in decoded.bad] == [
        ("too_large", "the record of 1100000 bytes exceeds record.max.bytes (1048576)", None),
        (
            "too_large",
            f"the row of {_ROWS_MOST + 1} bytes exceeds six times record.max.bytes (1048576) and 64 KiB",
            None,
        ),
    ]
    for row, (place, _) in enumerate(decoded.rows):
        assert decode_all(source, options, start=place).values == decoded.values[row:]


def test_the_topic_is_named_where_it_is_the_limit() -> None:
    """What is said of a record has the record's size."""
    options = decode_options(InputFormat.JSONL, topic_max_bytes=1000, record_max_bytes=1 << 20, **_ENVELOPE)

    decoded = decode_all(MemorySource(b'{"value":"%s"}\n' % _base64(bytes(1001))), options)

    (bad,) = decoded.bad
    assert (bad.size, bad.message) == (
        1001, "the record of 1001 bytes exceeds the topic's max.message.bytes (1000)"
    )  # fmt: skip


@pytest.mark.parametrize("row", [_ZEROS, _BINARY[1:] * 2], ids=["above the topic's", "above both"])
def test_a_whole_object_is_measured_as_it_is(row: bytes) -> None:
    """A bad record for its topic's limit; one above `record.max.bytes` is refused before it is read whole."""
    key = "backups/orders/3/000000000001_1_2.bytes"
    options = _options("lenses", limit=1000)

    if row == _ZEROS:
        (bad,) = _bad(_restored(key, row, options))
        assert bad.message == f"the record of {_SIZE} bytes exceeds the topic's max.message.bytes (1000)"
        return
    with pytest.raises(InvalidObject, match=r"larger than record.max.bytes \(1048576\)\.") as caught:
        _restored(key, row, options, chunk=1000)
    assert caught.value.reason == "too_large"


def _unended(first: bytes, filling: bytes) -> Endless:
    return Endless(first + filling * (1 << 20), 64)


@pytest.mark.parametrize("input_format", [InputFormat.JSONL, InputFormat.JSON])
@pytest.mark.parametrize("first", [b"", b"["], ids=["objects", "array"])
def test_an_envelope_that_never_ends_stays_out_of_memory(input_format: InputFormat, first: bytes) -> None:
    """Of a row of 64 MiB, full of marks, no more is held than a row may have, and what is noted of it."""
    make = partial(_unended, first + b'{"value":"', b"[")

    found = measure(make, decode_options(input_format, **_ENVELOPE), enough_mib=120)

    is_line = input_format is InputFormat.JSONL
    assert (found.rows, found.bad) == (0, {"too_large": 1} if is_line else {})
    assert found.error == (None if is_line else "ObjectCorrupt")
    assert found.grown_mib < 120
