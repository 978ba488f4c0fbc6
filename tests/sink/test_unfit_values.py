"""Values that their own schema does not allow: bad records with a sentence, in every layout with a schema.

Kafka Connect checks neither the digits of a decimal, nor the length of a fixed, nor the symbols of an enum.
"""

import base64
import io
import json
from collections.abc import Sequence
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.formats.connect import ConnectSchema
from tests.headrace.formats.connect.schemas import schemas_and_payloads
from tests.headrace.formats.encoding.registry import datum, framed_as, registry
from tests.headrace.vendors.archive import Record
from tests.support.connect_schemas import json_of_schema
from tests.support.examples import examples
from tests.support.sink_archives import Written, written

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
_LAYOUTS: Final = {
    "headrace": {"output.layout": "headrace"},
    "aiven": {"output.layout": "aiven", "output.fields": "key,value,offset,timestamp"},
    "confluent": {"output.layout": "confluent"},
    "lenses": {"output.layout": "lenses", "output.envelope": "false", "output.fields": "value"},
    "lenses-envelope": {"output.layout": "lenses"},
}
_TOLERANT: Final = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "bad"}
_PLACES: Final = [(layout, form) for layout in _LAYOUTS for form in ("avro", "parquet")]


def _written(
    layout: str,
    form: str,
    values: Sequence[bytes],
    partitions: str = "",
    avro_registry: str | None = None,
    **options: str,
) -> Written:
    converter: dict[str, str] = {"value.converter": _JSON, "value.converter.schemas.enable": "true"}
    if avro_registry is not None:
        converter = {"value.converter": _AVRO, "value.converter.schema.registry.url": avro_registry}
    config = {
        "connector.class": "HeadraceSink",
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        **converter,
        "output.format": form,
        "file.compression.type": "none",
        **_LAYOUTS[layout],
        **{name.replace("_", "."): text for name, text in options.items()},
    }
    places = partitions or "0" * len(values)
    records = [
        Record("t", int(partition), offset, 1000, b"k", value, ())
        for offset, (partition, value) in enumerate(zip(places, values, strict=True))
    ]
    return written(config, records, stops=True)


def _value(schema: str, payload: Any) -> bytes:
    return b'{"schema":%b,"payload":%b}' % (schema.encode(), json.dumps(payload).encode())


def _struct(field: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "optional": False, "fields": [{"field": "f", **field}]})


def _octets(number: int) -> str:
    return base64.b64encode(number.to_bytes(16, "big", signed=True)).decode()


def _rows(found: Written) -> int:
    count = 0
    for each in found.objects.values():
        body = io.BytesIO(each.body)
        is_avro = each.body.startswith(b"Obj\x01")
        count += len(list(fastavro.reader(body))) if is_avro else len(pq.read_table(body))
    return count


_DECIMAL: Final = _struct(
    {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "4"},
    }
)
_FIXED: Final = _struct({"type": "bytes", "name": "Four", "parameters": {"connect.fixed.size": "4"}})
_ENUM: Final = _struct(
    {
        "type": "string",
        "parameters": {
            "io.confluent.connect.avro.Enum": "Color",
            "io.confluent.connect.avro.Enum.RED": "RED",
        },
    }
)
_CASES: Final = [
    *(
        (layout, "parquet", _DECIMAL, _octets(1234), _octets(123456))
        for layout in _LAYOUTS
        if layout != "headrace"
    ),
    *((layout, form, _FIXED, "AAAAAA==", "AAAA") for layout, form in _PLACES if layout != "headrace"),
    ("confluent", "avro", _ENUM, "RED", "GREEN"),
]


@pytest.mark.parametrize(("layout", "form", "schema", "good", "bad"), _CASES)
def test_a_value_that_its_schema_does_not_allow_is_a_bad_record(
    layout: str, form: str, schema: str, good: str, bad: str
) -> None:
    """The partition stops at it; with errors.tolerance=all it is a dead letter and the others are written."""
    values = [_value(schema, {"f": payload}) for payload in (good, good, bad, good)]

    stopped = _written(layout, form, values)

    stop = stopped.stops["t", 0]
    assert (stop.offset, stop.reason) == (2, "value_unfit")
    assert f"output.format={form} cannot hold the record" in stop.message
    assert _rows(stopped) == 2

    passed = _written(layout, form, values, **_TOLERANT)

    assert not passed.stops
    assert [(each.reason, each.value) for each in passed.dead_letters] == [("value_unfit", values[2])]
    assert _rows(passed) == 3


@pytest.mark.parametrize(("layout", "form"), [place for place in _PLACES if place[0] != "headrace"])
@pytest.mark.parametrize("partitions", ["000", "011"])
def test_a_refused_value_leaves_those_after_it_alone(layout: str, form: str, partitions: str) -> None:
    """They were read as what it was, and refused as it: in its partition, and in others."""
    values = [b'{"n":1,"b":{"c":2}}', b'{"n":2}', b'{"n":3}']
    options = {
        "value.converter.schemas.enable": "false",
        "transforms": "flat",
        "transforms.flat.type": "org.apache.kafka.connect.transforms.Flatten$Value",
    }
    found = _written(layout, form, values, partitions, **_TOLERANT, **options)

    assert [(each.reason, each.value) for each in found.dead_letters] == [("schema_unfit", values[0])]
    assert _rows(found) == 2


@pytest.mark.parametrize(("layout", "form"), _PLACES)
def test_values_without_a_schema_are_tried_with_those_of_their_kind(layout: str, form: str) -> None:
    """Of one fetch, kinds in turn: no object has two of them, and none is refused for its neighbour's."""
    values = [b'{"n":1}', b'{"n":"x"}', b'{"n":{"m":2}}', b'{"n":2}', b'{"n":[true]}', b'{"n":"y"}']
    options = {
        "value.converter.schemas.enable": "false",
        "transforms": "add",
        "transforms.add.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.add.static.field": "from",
        "transforms.add.static.value": "here",
    }
    found = _written(layout, form, values, **_TOLERANT, **options)

    assert not found.dead_letters
    assert _rows(found) == len(values)


@pytest.mark.parametrize("value", [b"[6,2]", b'"text"', b"6", b"{}", b'[{"n":6}]'])
@pytest.mark.parametrize("head", ["true", "false"])
def test_a_value_without_columns_is_no_empty_line(value: bytes, head: str) -> None:
    """Lenses' CSV has the members of records: what has none was written as a line that is no row."""
    values = [b'{"n":1}', value, b'{"n":3}']
    options = {"csv_header": head, "value_converter_schemas_enable": "false"}

    stopped = _written("lenses", "csv", values, **options)

    stop = stopped.stops["t", 0]
    assert (stop.offset, stop.reason) == (1, "schema_unfit")
    assert stop.message.startswith("output.format=csv cannot hold the values of topic t: a ")

    passed = _written("lenses", "csv", values, **options, **_TOLERANT)

    assert [each.value for each in passed.dead_letters] == [value]
    lines = b"".join(each.body for each in passed.objects.values())
    assert lines.replace(b'"n"\n', b"") == b'"1"\n"3"\n'


_KINDS: Final = st.sampled_from(
    [
        (_DECIMAL, st.integers(-(2**126), 2**126).map(_octets)),
        (_FIXED, st.binary(max_size=8).map(lambda octets: base64.b64encode(octets).decode())),
        (_ENUM, st.sampled_from(["RED", "GREEN", ""])),
    ]
)


@st.composite
def _wild(draw: st.DrawFn) -> list[bytes]:
    schema, payloads = draw(_KINDS)
    found = draw(st.lists(st.none() | payloads, min_size=1, max_size=5))
    return [_value(schema, {"f": payload}) for payload in found]


@st.composite
def _of_schema(draw: st.DrawFn) -> list[bytes]:
    pair: tuple[ConnectSchema, list[Any]] = draw(schemas_and_payloads())
    schema, payloads = pair
    return [_value(json.dumps(json_of_schema(schema)), payload) for payload in payloads]


_INTEGER: Final = {"type": "int32", "optional": False}
_ENTRIES_OF_TWO_TYPES: Final = {
    "type": "map",
    "optional": False,
    "keys": _INTEGER,
    "values": {"type": "map", "optional": False, "keys": _INTEGER, "values": _INTEGER},
}


@pytest.mark.parametrize(("layout", "form"), _PLACES)
@example(values=[_value(json.dumps(_ENTRIES_OF_TWO_TYPES), [])])
@settings(max_examples=examples(30), deadline=None)
@given(values=st.one_of(_wild(), _of_schema()))
def test_every_record_is_written_or_a_dead_letter(layout: str, form: str, values: list[bytes]) -> None:
    """Whatever the schema and the value: nothing raises, and what is written can be read."""
    found = _written(layout, form, values, errors_tolerance="all", errors_deadletterqueue_topic_name="bad")

    assert not found.stops
    assert not found.unwritten
    assert _rows(found) + len(found.dead_letters) == len(values)


# Which scales and digits there are, and whether Avro and Parquet have such a decimal. Connect checks neither.
_DECIMALS: Final = [
    ({"scale": "-2"}, False),
    ({"scale": "38"}, True),
    ({"scale": "39"}, True),
    ({"scale": "64"}, True),
    ({"scale": "65"}, False),
    ({"scale": "1000"}, False),
    ({"scale": "77", "connect.decimal.precision": "80"}, False),
    ({"scale": "2", "connect.decimal.precision": "0"}, True),
    # Oracle has such numbers, of which 0.09 is the largest.
    ({"scale": "2", "connect.decimal.precision": "1"}, True),
]


@pytest.mark.parametrize(("layout", "form"), _PLACES)
@pytest.mark.parametrize(("parameters", "is_held"), _DECIMALS)
def test_decimals_of_any_scale_and_digits(
    layout: str, form: str, parameters: dict[str, str], *, is_held: bool
) -> None:
    """Written, or bad records: no error of a library ends the slot, and other records are written."""
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}
    values = [_value(_struct(decimal), {"f": _octets(9)}), _value(_DECIMAL, {"f": _octets(9)})]
    found = _written(layout, form, values, **_TOLERANT)

    assert (_rows(found), len(found.dead_letters)) == ((2, 0) if is_held else (1, 1))


@pytest.mark.parametrize("layout", [layout for layout in _LAYOUTS if layout != "headrace"])
def test_more_digits_than_any_decimal_of_parquet(layout: str) -> None:
    """A bad record; in Avro it is written."""
    parameters = {"scale": "2", "connect.decimal.precision": "1000"}
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}
    values = [_value(_struct(decimal), {"f": _octets(9)})]

    assert _rows(_written(layout, "avro", values, **_TOLERANT)) == 1
    assert len(_written(layout, "parquet", values, **_TOLERANT).dead_letters) == 1


# What is no decimal by Avro's rules, has more digits than Arrow's, or has the name alone.
_NO_DECIMALS: Final[list[dict[str, Any]]] = [
    {"logicalType": "decimal", "precision": 1, "scale": 2},
    {"logicalType": "decimal", "precision": 5, "scale": -2},
    {"logicalType": "decimal", "precision": 100, "scale": 50},
    {"logicalType": "decimal", "scale": 2},
    {"logicalType": "Decimal", "precision": 4, "scale": 2},
    {"connect.name": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}},
]


@pytest.mark.parametrize("layout", [layout for layout in _LAYOUTS if layout != "headrace"])
@pytest.mark.parametrize("form", ["jsonl", "avro", "parquet"])
@pytest.mark.parametrize("logical", _NO_DECIMALS)
def test_avros_decimals_that_nobody_reads_are_bytes(layout: str, form: str, logical: dict[str, Any]) -> None:
    """Whatever the bytes are: those of a text's digits became that number, and all others ended the slot."""
    settings = registry()
    field = {"name": "f", "type": {"type": "bytes", **logical}}
    schema = {"type": "record", "name": "R", "fields": [field]}
    plain = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "bytes"}]}
    data = [datum(plain, {"f": octets}) for octets in (b"12", b"\x09\xff", b"")]
    values = [framed_as(settings, "AVRO", json.dumps(schema), each) for each in data]
    found = _written(layout, form, values, avro_registry=settings.urls[0])

    assert not found.stops
    bodies = b"".join(each.body for each in found.objects.values())
    assert (base64.b64encode(b"12") if form == "jsonl" else b"12") in bodies


_DATE: Final = "org.apache.kafka.connect.data.Date"
_UNION: Final = "io.confluent.connect.avro.Union"
_STRANGE: Final[list[tuple[dict[str, Any], Any]]] = [
    *(
        ({"type": "bytes", "name": "Four", "parameters": {"connect.fixed.size": size}}, "AAAAAA==")
        for size in ("x", "", "-1", "0", "4294967296")
    ),
    ({"type": "int8", "name": _DATE}, 5),
    ({"type": "int16", "name": _DATE, "optional": True}, None),
    ({"type": "struct", "name": _UNION, "fields": []}, {}),
]


@pytest.mark.parametrize(("layout", "form"), _PLACES)
@pytest.mark.parametrize(("field", "payload"), _STRANGE)
def test_schemas_that_nobody_means(layout: str, form: str, field: dict[str, Any], payload: Any) -> None:
    """Connect lets a producer write them: written or bad, they do not end the slot for all records."""
    values = [_value(_struct(field), {"f": payload}), _value(_DECIMAL, {"f": _octets(9)})]
    found = _written(layout, form, values, **_TOLERANT)

    assert not found.stops
    assert _rows(found) + len(found.dead_letters) == len(values)


def _entries(*fields: str) -> dict[str, Any]:
    kinds = {"key": ["null", "int"], "value": "int"}
    members = [{"name": name, "type": kinds[name]} for name in fields]
    entry = {"type": "record", "name": "MapEntry", "namespace": "io.confluent.connect.avro"}
    return {"type": "array", "items": {**entry, "fields": members}}


# Fields of Avro, with how many of their values a layout of others has no row for, by its format.
_NARROWER: Final[list[tuple[Any, list[Any], dict[str, int]]]] = [
    ({"type": "int", "connect.type": "int8"}, [1, 300, -128], {"jsonl": 1, "avro": 1, "parquet": 1}),
    (["null", {"type": "int", "connect.type": "int16"}], [None, 7**6], {"jsonl": 1, "avro": 1, "parquet": 1}),
    (
        _entries("key", "value"),
        [[{"key": 1, "value": 1}], [{"key": None, "value": 1}], []],
        {"jsonl": 1, "avro": 1, "parquet": 1},
    ),
    # A list of records, which Connect's converter takes for a map and fails at.
    (_entries("key"), [[{"key": 1}]], {}),
    ({"type": "fixed", "name": "Nothing", "size": 0}, [b""], {"parquet": 1}),
]


@pytest.mark.parametrize("layout", list(_LAYOUTS))
@pytest.mark.parametrize("form", ["jsonl", "avro", "parquet"])
@pytest.mark.parametrize(("shape", "payloads", "bad"), _NARROWER)
def test_values_of_avro_that_connect_has_not(
    layout: str, form: str, shape: Any, payloads: list[Any], bad: dict[str, int]
) -> None:
    """Bad records that are said to be so, in JSON as well; a library's error passed for a defect of ours."""
    settings = registry()
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": shape}]}
    values = [
        framed_as(settings, "AVRO", json.dumps(schema), datum(schema, {"f": payload})) for payload in payloads
    ]
    found = _written(layout, form, values, avro_registry=settings.urls[0], **_TOLERANT)

    # Our own layout has the values as they are.
    wanted = 0 if layout == "headrace" else bad.get(form, 0)
    reasons = [each.reason for each in found.dead_letters]
    assert (len(reasons), set(reasons) <= {"value_unfit", "schema_unfit"}) == (wanted, True)
    rows = _rows(found) if form != "jsonl" else _lines(found)
    assert rows == len(values) - wanted


def _lines(found: Written) -> int:
    return sum(len(each.body.splitlines()) for each in found.objects.values())
