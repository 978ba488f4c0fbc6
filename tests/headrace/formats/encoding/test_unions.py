"""Avro's unions of several types in each layout: as Kafka Connect's AvroData has them, or a sentence."""

import io
import json
from collections.abc import Mapping
from datetime import date
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.headrace.formats.encoding.registry import framed, registry
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import Written, written

_A: Final = {"type": "record", "name": "A", "namespace": "x", "fields": [{"name": "a", "type": "int"}]}
_B: Final = {
    "type": "record",
    "name": "B",
    "namespace": "x",
    "fields": [{"name": "b", "type": ["null", "string", "long"]}],
}
_DAY: Final = {"type": "int", "logicalType": "date"}
_COLOUR: Final = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
_PRICE: Final = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
_PAIR: Final = {"type": "fixed", "name": "Pair", "size": 2}


class _Case(NamedTuple):
    """Values of a field `u` of this type, and what stands for them in Connect's JSON and in Parquet."""

    type: Any
    values: list[Any]
    connect: list[Any]
    parquet: list[Any]
    avro: list[Any] | None = None
    """As Avro's readers give them back, where that is not `values`."""


_CASES: Final = {
    "two": _Case(
        ["int", "string"],
        [5, "t"],
        [{"int": 5, "string": None}, {"int": None, "string": "t"}],
        [{"member0": 5, "member1": None}, {"member0": None, "member1": "t"}],
    ),
    "null_between": _Case(
        ["string", "null", "boolean"],
        [True, None, ""],
        [{"string": None, "boolean": True}, None, {"string": "", "boolean": None}],
        [{"member0": None, "member1": True}, None, {"member0": "", "member1": None}],
    ),
    "alone": _Case(["string"], ["t"], [{"string": "t"}], [{"member0": "t"}]),
    "records": _Case(
        [_A, _B],
        [("x.A", {"a": 1}), ("x.B", {"b": "q"}), ("x.B", {"b": None}), ("x.B", {"b": 7})],
        [
            {"A": {"a": 1}, "B": None},
            {"A": None, "B": {"b": {"string": "q", "long": None}}},
            {"A": None, "B": {"b": None}},
            {"A": None, "B": {"b": {"string": None, "long": 7}}},
        ],
        [
            {"member0": {"a": 1}, "member1": None},
            {"member0": None, "member1": {"b": {"member0": "q", "member1": None}}},
            {"member0": None, "member1": {"b": None}},
            {"member0": None, "member1": {"b": {"member0": None, "member1": 7}}},
        ],
        [{"a": 1}, {"b": "q"}, {"b": None}, {"b": 7}],
    ),
    "array": _Case(
        {"type": "array", "items": ["null", "int", "string"]},
        [[1, None, "t"], []],
        [[{"int": 1, "string": None}, None, {"int": None, "string": "t"}], []],
        [[{"member0": 1, "member1": None}, None, {"member0": None, "member1": "t"}], []],
    ),
    "map": _Case(
        ["null", {"type": "map", "values": ["int", "string"]}],
        [{"k": 1, "l": "t"}, None],
        [{"k": {"int": 1, "string": None}, "l": {"int": None, "string": "t"}}, None],
        [[("k", {"member0": 1, "member1": None}), ("l", {"member0": None, "member1": "t"})], None],
    ),
    "array_map_int": _Case(
        [{"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "int"],
        [[1], {"k": 2}, 3],
        [
            {"array": [1], "map": None, "int": None},
            {"array": None, "map": {"k": 2}, "int": None},
            {"array": None, "map": None, "int": 3},
        ],
        [
            {"member0": [1], "member1": None, "member2": None},
            {"member0": None, "member1": [("k", 2)], "member2": None},
            {"member0": None, "member1": None, "member2": 3},
        ],
    ),
    "named": _Case(
        ["null", _COLOUR, _PAIR, _PRICE, "double"],
        ["BLUE", b"xy", 1.5, None],
        [
            {"Colour": "BLUE", "Pair": None, "bytes": None, "double": None},
            {"Colour": None, "Pair": "eHk=", "bytes": None, "double": None},
            {"Colour": None, "Pair": None, "bytes": None, "double": 1.5},
            None,
        ],
        [
            {"member0": "BLUE", "member1": None, "member2": None, "member3": None},
            {"member0": None, "member1": b"xy", "member2": None, "member3": None},
            {"member0": None, "member1": None, "member2": None, "member3": 1.5},
            None,
        ],
    ),
    "day": _Case(
        [_DAY, "boolean"],
        [date(2019, 4, 14), True],
        [{"int": 18000, "boolean": None}, {"int": None, "boolean": True}],
        [{"member0": date(2019, 4, 14), "member1": None}, {"member0": None, "member1": True}],
    ),
}
_ROWS: Final = max(len(each.values) for each in _CASES.values())
_AIVEN: Final = {
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "aws.s3.bucket.name": "archive",
    "file.compression.type": "none",
    "format.output.fields": "value",
}
_CONFLUENT: Final = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "s3.bucket.name": "archive",
    "s3.region": "us-east-1",
    "flush.size": "1000",
    "rotate.schedule.interval.ms": "1000",
    "timezone": "UTC",
}
_LENSES: Final = {"connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector"}
_HEADRACE: Final = {
    "connector.class": "HeadraceSink",
    "aws.s3.bucket.name": "archive",
    "file.compression.type": "none",
}


def _aiven(form: str) -> dict[str, str]:
    return {**_AIVEN, "format.output.type": form}


def _confluent(form: str) -> dict[str, str]:
    return {**_CONFLUENT, "format.class": f"io.confluent.connect.s3.format.{form.lower()}.{form}Format"}


_SELECT: Final = "INSERT INTO archive SELECT * FROM orders"


def _lenses(form: str, properties: str = "") -> dict[str, str]:
    kcql = f"STOREAS `{form}` PROPERTIES('flush.count'=1000{properties})"
    return {**_LENSES, "connect.s3.kcql": f"{_SELECT} {kcql}"}


_ENVELOPE: Final = ",'store.envelope'=true"
# What writes values as Kafka Connect has them, with where a row has the value.
_CONNECT: Final[dict[str, tuple[dict[str, str], bool]]] = {
    "aiven-jsonl": (_aiven("jsonl"), True),
    "aiven-avro": (_aiven("avro"), True),
    "aiven-parquet": (_aiven("parquet"), True),
    "confluent-json": (_confluent("Json"), False),
    "confluent-avro": (_confluent("Avro"), False),
    "confluent-parquet": (_confluent("Parquet"), False),
    "lenses-json": (_lenses("JSON"), False),
    "lenses-avro": (_lenses("AVRO"), False),
    "lenses-parquet": (_lenses("PARQUET"), False),
    "lenses-envelope-json": (_lenses("JSON", _ENVELOPE), True),
    "lenses-envelope-avro": (_lenses("AVRO", _ENVELOPE), True),
    "lenses-envelope-parquet": (_lenses("PARQUET", _ENVELOPE), True),
}


def _record(**fields: Any) -> dict[str, Any]:
    shapes = [{"name": name, "type": shape} for name, shape in fields.items()]
    return {"type": "record", "name": "Row", "namespace": "x", "fields": shapes}


def _written(config: Mapping[str, str], schema: Any, values: list[Any], **options: str) -> Written:
    one = registry()
    records = [
        Record(
            topic="orders",
            partition=0,
            offset=offset,
            timestamp=1_700_000_000_000 + offset,
            key=b"k",
            value=framed(one, schema, value),
            headers=(),
        )
        for offset, value in enumerate(values)
    ]
    given = {
        "topics": "orders",
        "aws.s3.region": "us-east-1",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": one.urls[0],
        **config,
        **options,
    }
    if "Lenses" in given["connector.class"] or "lenses" in given["connector.class"]:
        given["connect.s3.aws.region"] = given.pop("aws.s3.region")
    if "confluent" in given["connector.class"]:
        given.pop("aws.s3.region")
    return written(given, records)


def _rows(found: Written, *, is_enveloped: bool) -> tuple[str, list[Any]]:
    """Which format the one object has, and its rows' values."""
    rows: list[Any]
    (object_,) = found.objects.values()
    if object_.body.startswith(b"Obj\x01"):
        kind, rows = "avro", list(fastavro.reader(io.BytesIO(object_.body)))
    elif object_.body.startswith(b"PAR1"):
        kind, rows = "parquet", pq.read_table(io.BytesIO(object_.body)).to_pylist()
    else:
        kind, rows = "json", [json.loads(line) for line in object_.body.splitlines()]
    return kind, ([row["value"] for row in rows] if is_enveloped else rows)


@pytest.mark.parametrize("layout", _CONNECT)
def test_a_union_is_what_connect_makes_of_it(layout: str) -> None:
    """JSON has a member for each type, of which one is filled; Avro the union again; Parquet a group."""
    config, is_enveloped = _CONNECT[layout]
    schema = _record(**{name: case.type for name, case in _CASES.items()})
    values = [
        {name: case.values[row % len(case.values)] for name, case in _CASES.items()} for row in range(_ROWS)
    ]

    found = _written(config, schema, values)

    assert found.stops == {}
    kind, rows = _rows(found, is_enveloped=is_enveloped)
    assert len(rows) == _ROWS
    for name, case in _CASES.items():
        wanted = {"json": case.connect, "parquet": case.parquet, "avro": case.avro or case.values}[kind]
        assert [row[name] for row in rows] == [wanted[row % len(wanted)] for row in range(_ROWS)], name


_LINK: Final = {
    "type": "record",
    "name": "Link",
    "namespace": "x",
    "fields": [{"name": "next", "type": ["null", "Link"]}, {"name": "v", "type": ["int", "string"]}],
}
_WRAPPED: Final = {
    "type": "record",
    "name": "W",
    "namespace": "x",
    "fields": [{"name": "u", "type": ["int", "string"]}],
}
_TWO_RED: Final = [{**_A, "namespace": "y"}, _A]
_OTHER: Final = "value.converter=org.apache.kafka.connect.converters.ByteArrayConverter"
# Configuration, schema, a value; which field the sentence names, and the remedy.
_REFUSED: Final[dict[str, tuple[dict[str, str], Any, Any, str, str]]] = {
    "refers to itself": (
        _confluent("Avro"),
        _record(w=_LINK),
        {"w": {"next": None, "v": 1}},
        "the field w.next refers to itself",
        _OTHER,
    ),
    "branches of one name": (
        _lenses("JSON"),
        _record(w=_TWO_RED),
        {"w": ("x.A", {"a": 1})},
        "the field w is a union of two types with the name A",
        _OTHER,
    ),
    "text and enum in Aiven's Avro": (
        _aiven("avro"),
        _record(w=_record(u=["string", _COLOUR]) | {"name": "V"}),
        {"w": {"u": "t"}},
        "the field w.u is a union with two types that both are string",
        "output.format=jsonl",
    ),
    "row of Confluent's Parquet": (
        _confluent("Parquet"),
        [_A, _B],
        ("x.A", {"a": 1}),
        "a row of Parquet is a record, and the value is a union of several types",
        "output.format=avro",
    ),
    "Lenses' csv": (_lenses("CSV"), _record(w=_WRAPPED), {"w": {"u": 1}}, "the field w.u is a union", _OTHER),
    "Headrace's Parquet": (
        {**_HEADRACE, "output.format": "parquet"},
        _record(w={"type": "array", "items": _WRAPPED}),
        {"w": [{"u": 1}]},
        "the field w.u is a union of several types",
        _OTHER,
    ),
    "Quix's Parquet": (
        {**_HEADRACE, "output.format": "parquet", "output.layout": "quix"},
        _record(w=["int", "string"]),
        {"w": 1},
        "the field w is a union of several types",
        _OTHER,
    ),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_what_has_no_place_is_refused_by_a_sentence(case: str) -> None:
    """It names the topic, the field and the remedy."""
    config, schema, value, place, remedy = _REFUSED[case]

    found = _written(config, schema, [value])

    (stop,) = found.stops.values()
    assert found.objects == {}
    for part in ("topic orders", place, remedy):
        assert part in stop.message
