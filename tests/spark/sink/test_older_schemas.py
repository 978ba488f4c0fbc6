"""`schema.compatibility=backward`: a record of the older schema after one of the newer, in every layout."""

import io
import json
from decimal import Decimal
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.headrace.formats.encoding.registry import framed, framed_as, registry
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import written

_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_JSON_SCHEMA: Final = "io.confluent.connect.json.JsonSchemaConverter"
_OWN: Final = {
    "connector.class": "HeadraceSink",
    "aws.s3.bucket.name": "bucket",
    "output.envelope": "false",
    "output.fields": "value",
    "schema.compatibility": "backward",
    "file.compression.type": "none",
}


def _confluent(form: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "s3.bucket.name": "bucket",
        "s3.region": "us-east-1",
        "flush.size": "2",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": f"io.confluent.connect.s3.format.{form.lower()}.{form}Format",
        "schema.compatibility": "BACKWARD",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }


def _rows(body: bytes) -> list[Any]:
    if body.startswith(b"Obj\x01"):
        return list(fastavro.reader(io.BytesIO(body)))
    if body.startswith(b"PAR1"):
        found: list[Any] = pq.read_table(io.BytesIO(body)).to_pylist()
        return found
    if body.startswith(b"{"):
        return [json.loads(line) for line in body.splitlines()]
    return body.decode().split()


def _objects(config: dict[str, str], values: list[bytes]) -> list[list[Any]]:
    """The rows of each object; no record is refused."""
    records = [Record("t", 0, number, 1000, b"k", value, ()) for number, value in enumerate(values)]
    found = written({"topics": "t", **config}, records, stops=True)
    assert (found.stops, found.dead_letters) == ({}, ())
    return [_rows(one.body) for _, one in sorted(found.objects.items())]


def _record(*fields: dict[str, Any], name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _avro(config: dict[str, str], kind: Any, default: Any, value: Any) -> list[list[Any]]:
    one = registry()
    a = {"name": "a", "type": "int"}
    old = framed(one, _record(a), {"a": 1})
    new = framed(one, _record(a, {"name": "n", "type": kind, "default": default}), {"a": 2, "n": value})
    more = {"value.converter": _AVRO, "value.converter.schema.registry.url": one.urls[0]}
    return _objects({**config, **more}, [new, old])


_DECIMAL: Final = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
_FIXED: Final = {"type": "fixed", "name": "fx", "size": 2}
_BYTES: Final = {"type": "array", "items": "bytes"}
_INNER: Final = _record(
    {"name": "b", "type": "int"}, {"name": "c", "type": "bytes", "default": "\u00ff"}, name="inner"
)
_UNION: Final = ["int", "string"]
_DAY: Final = {"type": "int", "logicalType": "date"}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize(
    ("kind", "default", "value", "filled"),
    [
        (_DECIMAL, "\u0001", Decimal("7.00"), Decimal("0.01")),
        (_FIXED, "\u00ff\u0001", b"ab", b"\xff\x01"),
        (_BYTES, ["\u00ff"], [b"x"], [b"\xff"]),
        ({"type": "map", "values": "bytes"}, {"k": "\u00ff"}, {}, {"k": b"\xff"}),
        (_INNER, {"b": 1}, {"b": 7, "c": b"7"}, {"b": 1, "c": b"\xff"}),
        (["null", "int"], None, 5, None),
    ],
)
def test_a_missing_field_has_the_default_of_avro(
    form: str, kind: Any, default: Any, value: Any, filled: Any
) -> None:
    """By its type, however deep; in the object that is open."""
    (rows,) = _avro({**_OWN, "output.format": form}, kind, default, value)

    inside = dict(rows[1]["n"]) if form == "parquet" and isinstance(filled, dict) else rows[1]["n"]
    assert (rows[1]["a"], inside) == (1, filled)


@pytest.mark.parametrize("form", ["Avro", "Parquet", "Json"])
@pytest.mark.parametrize(
    ("kind", "default", "value", "filled", "shown"),
    [
        (_DECIMAL, "\u0001", Decimal("7.00"), Decimal("0.01"), "AQ=="),
        (_BYTES, ["\u00ff"], [b"x"], [b"\xff"], ["/w=="]),
        (_UNION, 3, "x", 3, {"int": 3, "string": None}),
    ],
)
def test_a_missing_field_has_the_default_in_the_layout_of_confluent(
    form: str, kind: Any, default: Any, value: Any, filled: Any, shown: Any
) -> None:
    """Its sink projects a record before any format sees it, JSON's too."""
    (rows,) = _avro(_confluent(form), kind, default, value)

    if form == "Json":
        assert rows[1] == {"a": 1, "n": shown}
    elif not isinstance(filled, int) or form == "Avro":
        assert rows[1] == {"a": 1, "n": filled}
    else:
        assert rows[1] == {"a": 1, "n": {"member0": filled, "member1": None}}


_KAFKA: Final = "org.apache.kafka.connect.transforms."
_STEPS: Final = {
    "inserted": {"type": "InsertField", "static.field": "s", "static.value": "x"},
    "renamed": {"type": "ReplaceField", "renames": "a:b"},
    "flattened": {"type": "Flatten"},
    "cast": {"type": "Cast", "spec": "a:string"},
    "moved": {"type": "HeaderFrom", "fields": "a", "headers": "h", "operation": "move"},
    "named": {"type": "SetSchemaMetadata", "schema.name": "other"},
    "of another version": {"type": "SetSchemaMetadata", "schema.version": "4"},
}


@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize("step", _STEPS.values(), ids=_STEPS.keys())
def test_a_changed_schema_keeps_its_version(form: str, step: dict[str, str]) -> None:
    """As in Kafka, so that the older record comes into the object of the newer, with the default."""
    chain = {f"transforms.t.{name}": text for name, text in step.items()}
    chain |= {"transforms": "t", "transforms.t.type": f"{_KAFKA}{step['type']}$Value"}

    (rows,) = _avro({**_OWN, "output.format": form, **chain}, "int", 5, 7)

    assert [row["n"] for row in rows] == [7, 5]


def _envelope(version: int, fields: list[Any], payload: Any) -> bytes:
    schema = {"type": "struct", "optional": False, "version": version, "fields": fields}
    return json.dumps({"schema": schema, "payload": payload}).encode()


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        ({**_OWN, "output.format": "parquet"}, [{"a": 2, "n": 7}, {"a": 1, "n": 5}]),
        ({**_OWN, "output.format": "avro"}, [{"a": 2, "n": 7}, {"a": 1, "n": 5}]),
        ({**_OWN, "output.format": "csv"}, ["a,n", "2,7", "1,5"]),
        (_confluent("Parquet"), [{"a": 2, "n": 7}, {"a": 1, "n": 5}]),
        (_confluent("Json"), [{"a": 2, "n": 7}, {"a": 1, "n": 5}]),
    ],
)
@pytest.mark.parametrize("converter", [_JSON, _JSON_SCHEMA])
def test_a_missing_field_has_the_default_of_connect(
    converter: str, config: dict[str, str], rows: list[Any]
) -> None:
    """A record of the newer schema without the field gets it as well."""
    one = registry()
    if converter == _JSON:
        a, n = {"field": "a", "type": "int32"}, {"field": "n", "type": "int32", "default": 5}
        values = [_envelope(2, [a, n], {"a": 2, "n": 7}), _envelope(1, [a], {"a": 1})]
        more = {"value.converter.schemas.enable": "true"}
    else:
        old: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
        new = {**old, "properties": {**old["properties"], "n": {"type": "integer", "default": 5}}}
        first = framed_as(one, "JSON", json.dumps(old), b'{"a":1}')
        values = [framed_as(one, "JSON", json.dumps(new), b'{"a":2,"n":7}'), first]
        more = {"value.converter.schema.registry.url": one.urls[0]}

    assert _objects({**config, **more, "value.converter": converter}, values) == [rows]


def test_a_default_that_is_no_value_refuses_nothing_that_is_alone() -> None:
    """What cannot be projected begins an object: the verdict is the same whatever is open."""
    symbols = {"type": "enum", "name": "E", "symbols": ["A"]}

    first, second = _avro({**_OWN, "output.format": "avro"}, symbols, "B", "A")

    assert (first, second) == ([{"a": 2, "n": "A"}], [{"a": 1}])


def _vendor(layout: str) -> dict[str, str]:
    own = {} if layout == "confluent" else {"output.fields": "value", "output.envelope": "false"}
    return {
        **{name: text for name, text in _OWN.items() if not name.startswith("output.")},
        **own,
        "output.layout": layout,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }


_DATE: Final = {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1}
_INT: Final = {"type": "int32"}
# A type of the older schema, its value, the type of the newer one and a value of that.
_WITH_NULLS: Final[list[tuple[Any, Any, Any, Any]]] = [
    ({**_INT, "optional": True}, None, _INT, 5),
    ({**_DATE, "optional": True}, None, _DATE, 5),
    (None, None, {"type": "string"}, "x"),
    (
        {"type": "array", "items": {**_INT, "optional": True}},
        [1, None],
        {"type": "array", "items": _INT},
        [1],
    ),
    (
        {"type": "map", "keys": {"type": "string"}, "values": {**_INT, "optional": True}},
        {"k": None},
        {"type": "map", "keys": {"type": "string"}, "values": _INT},
        {"k": 1},
    ),
    (
        {"type": "struct", "fields": [{"field": "b", **_INT, "optional": True}]},
        {"b": None},
        {"type": "struct", "fields": [{"field": "b", **_INT}]},
        {"b": 1},
    ),
]


@pytest.mark.parametrize("layout", ["confluent", "aiven", "lenses"])
@pytest.mark.parametrize("form", ["avro", "parquet"])
@pytest.mark.parametrize(("older", "null", "newer", "value"), _WITH_NULLS)
def test_a_null_that_the_open_object_cannot_hold_begins_another(
    layout: str, form: str, older: Any, null: Any, newer: Any, value: Any
) -> None:
    """No value is made up for it."""
    key = {"field": "k", "type": "string"}
    more = {"field": "more", "type": "int32", "optional": True}
    first = _envelope(2, [key, {"field": "a", **newer}, more], {"k": "new", "a": value, "more": 1})
    fields = [key] if older is None else [key, {"field": "a", **older}]
    config = {
        **_vendor(layout),
        "output.format": form,
        "value.converter": _JSON,
        "value.converter.schemas.enable": "true",
    }

    found = _objects(config, [first, _envelope(1, fields, {"k": "old", "a": null}), first])

    assert [len(rows) for rows in found] == [1, 1, 1]
    assert [row.get("value", row)["k"] for (row,) in found] == ["new", "old", "new"]
