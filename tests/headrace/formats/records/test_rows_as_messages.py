"""Rows that bring a schema as messages of Protobuf: what decimals and times become by it."""

import io
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.options.choices import InputFormat, ValueFormat
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.encoding.registry import registry
from tests.headrace.formats.records.framed_values import decoded, latest, read_back

_PRICE: Final[dict[str, Any]] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
_PRICES: Final = pa.decimal128(9, 2)


def _avro(kind: Any, value: Any) -> bytes:
    """An object of one row, whose member `x` that is."""
    return file_of({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}, [{"x": value}])


def _parquet(kind: Any, value: Any) -> bytes:
    """The same as Parquet."""
    out = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array([value], kind)}), out)
    return out.getvalue()


def _item(kind: Any, name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "p", "type": kind}]}


@pytest.mark.parametrize("form", [ValueFormat.JSON_SCHEMA, ValueFormat.PROTOBUF])
@pytest.mark.parametrize(
    ("avro", "parquet", "value"),
    [
        (_PRICE, _PRICES, Decimal("12.50")),
        (["null", _PRICE], _PRICES, Decimal("12.50")),
        ({"type": "array", "items": _PRICE}, pa.list_(_PRICES), [Decimal("12.50")]),
        ({"type": "map", "values": _PRICE}, pa.map_(pa.string(), _PRICES), {"a": Decimal("12.50")}),
        (
            {"type": "map", "values": _item({"type": "map", "values": _PRICE}, "I")},
            pa.map_(pa.string(), pa.struct({"p": pa.map_(pa.string(), _PRICES)})),
            {"a": {"p": {"b": Decimal("-0.01")}}},
        ),
        (
            {"type": "array", "items": _item({"type": "map", "values": _PRICE}, "I")},
            pa.list_(pa.struct({"p": pa.map_(pa.string(), _PRICES)})),
            [{"p": {"b": Decimal("12.50")}}],
        ),
    ],
    ids=["field", "optional", "item", "of a map", "of a map in a map", "of a map in a list"],
)
def test_decimals_come_back_wherever_they_are(form: ValueFormat, avro: Any, parquet: Any, value: Any) -> None:
    """A map's values have no scale in the schema that is registered: each message says its own."""
    one, other = registry(), registry()

    of_avro = decoded(_avro(avro, value), one, form, InputFormat.AVRO)
    of_parquet = decoded(_parquet(parquet, value), other, form, InputFormat.PARQUET)

    assert read_back(of_avro.values, one, form) == [{"x": value}]
    assert read_back(of_parquet.values, other, form) == [{"x": value}]


_ENTRY: Final[dict[str, Any]] = {
    "type": "record",
    "name": "MapEntry",
    "namespace": "io.confluent.connect.avro",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "string"}],
}


def test_a_map_is_made_of_its_entries_alone() -> None:
    """Of a list of anything that has two members the library made one, of their names, or of letters."""
    one = latest(registry(), "PROTOBUF", 'syntax = "proto3"; message R { map<string, string> x = 1; }')
    good = (b'{"a":"b"}', b'[["a","b"]]', b'[{"key":"a","value":"b"}]')
    bad = (b'["ab"]', b'[{"k":"a","v":"b"}]', b'[["a","b","c"]]', b'"ab"', b'""', b"[[]]")
    lines = b"".join(b'{"x":%s}\n' % value for value in (*good, *bad))

    found = decoded(lines, one, ValueFormat.PROTOBUF, InputFormat.JSONL)

    assert read_back(found.values, one, ValueFormat.PROTOBUF) == [{"x": {"a": "b"}}] * 3
    assert [row.reason for row in found.bad] == ["not_protobuf"] * len(bad)


def test_entries_of_avro_are_those_of_the_map_that_is_registered() -> None:
    """Connect's own records of key and value, whose keys are texts."""
    one = registry()
    content = _avro({"type": "array", "items": _ENTRY}, [{"key": "a", "value": "b"}])

    found = decoded(content, one, ValueFormat.PROTOBUF, InputFormat.AVRO)

    assert read_back(found.values, one, ValueFormat.PROTOBUF) == [{"x": {"a": "b"}}]
