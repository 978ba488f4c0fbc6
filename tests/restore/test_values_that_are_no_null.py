"""What was no null in Kafka does not become one: NaN and the infinities, which JSON has no number for."""

import io
import math
from collections.abc import Mapping
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.options.choices import InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.restore.one_object import decoded, values_of

_NAN: Final = math.nan
_CONFLUENT: Final = "topics/t/partition=0/t+0+0000000000.avro"
_LENSES: Final = "t/0/000000000001_1_1.avro"
# Nothing lies next to these objects.
_ALONE: Final = {each: {"restore.sidecars": "ignore"} for each in ("confluent", "headrace")}
_OWN: Final = "t/0/00000000000000000000.headrace.avro"


def _avro(schema: Any, rows: list[Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows)
    return out.getvalue()


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": kind} for each, kind in fields.items()],
    }


_AIVEN: Final = "io.aiven.avro.output.schema.connector_records"
_METADATA: Final = _record("m", timestamp="long", topic="string", partition="int", offset="long")


def _at(offset: int) -> dict[str, Any]:
    return {"timestamp": 1, "topic": "t", "partition": 0, "offset": offset}


@pytest.mark.parametrize(
    ("config", "key", "content"),
    [
        ({"input.layout": "confluent"}, _CONFLUENT, _avro("double", [1.5, _NAN, math.inf])),
        ({"input.layout": "confluent"}, _CONFLUENT, _avro(["null", "double"], [1.5, _NAN])),
        ({"input.layout": "confluent"}, _CONFLUENT, _avro(["null", "string", "double"], [1.5, _NAN])),
        (
            {"input.layout": "confluent", "restore.value": "string"},
            _CONFLUENT,
            _avro("double", [1.5, _NAN]),
        ),
        (
            {"input.layout": "aiven"},
            "t-0-0.avro",
            _avro(
                _record(_AIVEN, key="string", value="double"),
                [{"key": "k", "value": 1.5}, {"key": "k", "value": _NAN}],
            ),
        ),
        ({"input.layout": "aiven"}, "t-0-0", _parquet({"key": ["k", "k"], "value": [1.5, -math.inf]})),
        (
            {"input.layout": "lenses", "restore.value": "json"},
            _LENSES,
            _avro(
                _record("x.E", key="string", value="float", metadata=_METADATA),
                [
                    {"key": "k", "value": 1.5, "metadata": _at(0)},
                    {"key": "k", "value": _NAN, "metadata": _at(1)},
                ],
            ),
        ),
        (
            {"input.layout": "headrace"},
            _OWN,
            _avro(
                _record("headrace.Record", offset="long", value=["null", "double"]),
                [{"offset": row, "value": value} for row, value in enumerate([1.5, _NAN])],
            ),
        ),
    ],
)
def test_a_value_that_is_nan_is_no_tombstone(config: Mapping[str, str], key: str, content: bytes) -> None:
    """It is a bad record: what would be produced deletes its key."""
    found = decoded({**_ALONE.get(config["input.layout"], {}), **config}, key, content)

    assert values_of(found) == [b"1.5"]
    assert {bad.reason for batch in found for bad in batch.bad} == {"not_a_number"}


def test_a_key_or_a_header_that_is_nan_is_no_null() -> None:
    """A record with a null in its place would be another one."""
    schema = _record(_AIVEN, key="double", value="string", headers={"type": "map", "values": "double"})
    rows = [
        {"key": 1.5, "value": "a", "headers": {"h": 2.5}},
        {"key": _NAN, "value": "b", "headers": {}},
        {"key": 1.5, "value": "c", "headers": {"h": _NAN}},
    ]

    found = decoded({"input.layout": "aiven"}, "t-0-0.avro", _avro(schema, rows))

    assert values_of(found) == [b"a"]
    assert [bad.message for batch in found for bad in batch.bad] == [
        f"the {what} is NaN or infinite, which JSON has no number for" for what in ("key", "header")
    ]


@pytest.mark.parametrize("schema", ["double", ["null", "float"], ["null", "string", "double"]])
def test_a_datum_that_is_nan_is_the_null_of_json(schema: Any) -> None:
    """Of a source: text, as within records, and no tombstone; a datum that is null is one."""
    data = [1.5, _NAN, -math.inf, *([] if schema == "double" else [None])]

    found = decode_all(MemorySource(_avro(schema, data)), decode_options(InputFormat.AVRO))

    assert found.values == [b"1.5", b"null", b"null", *([] if schema == "double" else [None])]
    assert found.bad == []


_ROW: Final = b'{"key":"k","metadata":{"timestamp":1,"topic":"t","partition":0,"offset":%d}%s}\n'
_OWN_ROW: Final = b'{"topic":"t","partition":0,"offset":%d,"timestamp":1,"key":"k"%s}\n'
_AIVEN_ROW: Final = b'{"key":"k","offset":%d%s}\n'
_WRITTEN: Final = (b',"value":1', b"", b',"value":null')
"""A value, none, and a tombstone."""


@pytest.mark.parametrize(
    ("layout", "key", "row"),
    [
        ("lenses", "t/0/000000000009_0_1.json", _ROW),
        ("aiven", "t-0-0", _AIVEN_ROW),
        ("headrace", "t/0/00000000000000000000.headrace.jsonl", _OWN_ROW),
    ],
)
@pytest.mark.parametrize("members", [(b"", b""), _WRITTEN])
def test_a_row_without_a_value_is_no_tombstone(
    layout: str, key: str, row: bytes, members: tuple[bytes, ...]
) -> None:
    """A tombstone is a value that is null; what left values out wrote none."""
    content = b"".join(row % (offset, member) for offset, member in enumerate(members))

    found = decoded(
        {**_ALONE.get(layout, {}), "input.layout": layout},
        key,
        content.removesuffix(b"\n" * (layout == "aiven")),
    )

    assert values_of(found) == ([b"1", None] if members is _WRITTEN else [])
    bad = [each for batch in found for each in batch.bad]
    assert {each.reason for each in bad} == {"no_value"}
    assert all("restore.envelope=no" in each.message for each in bad)
    assert len(bad) == members.count(b"")


@pytest.mark.parametrize(
    ("config", "key", "content"),
    [
        ({"input.layout": "aiven", "format.output.fields": "key,offset"}, "t-0-0", b"azE=,0\nazI=,1"),
        (
            {"input.layout": "aiven"},
            "t-0-0.avro",
            _avro(
                _record(_AIVEN, key="string", offset="long"), [{"key": "k", "offset": row} for row in (0, 1)]
            ),
        ),
        ({"input.layout": "aiven"}, "t-0-0", _parquet({"key": ["k", "k"], "offset": [0, 1]})),
        (
            {"input.layout": "headrace"},
            _OWN,
            _avro(_record("headrace.Record", key="bytes", offset="long"), [{"key": b"k", "offset": 0}] * 2),
        ),
        (
            {"input.layout": "confluent", "restore.envelope": "yes"},
            "topics/t/partition=0/t+0+0000000000.json",
            b"".join(_OWN_ROW % (offset, b"") for offset in (0, 1)),
        ),
        (
            {"input.layout": "confluent"},
            "topics/t/partition=0/t+0+0000000000.json",
            b"".join(_OWN_ROW % (offset, b"") for offset in (0, 1)),
        ),
    ],
)
def test_objects_without_values_give_no_tombstones(
    config: Mapping[str, str], key: str, content: bytes
) -> None:
    """Each of their rows is a bad record, with what to do."""
    found = decoded({**_ALONE.get(config["input.layout"], {}), **config}, key, content)

    assert values_of(found) == []
    bad = [each for batch in found for each in batch.bad]
    assert [each.reason for each in bad] == ["no_value"] * 2
    assert "key.source=field:key" in bad[0].message


def test_lenses_objects_of_tombstones_have_no_column_of_values() -> None:
    """As those of a sink that left values out, so that they are counted."""
    schema = _record("x.E", key="string", metadata=_METADATA)

    found = decoded(
        {"input.layout": "lenses"},
        _LENSES,
        _avro(schema, [{"key": "k", "metadata": _at(each)} for each in (0, 1)]),
    )

    assert values_of(found) == [None, None]
    assert [dict(batch.inexact) for batch in found] == [{"no_column_of_values": 2}]


def test_bytes_of_a_union_are_bytes() -> None:
    """Next to texts and numbers, in values, keys and headers; `null` where a record of headers is."""
    union = ["null", "bytes", "string", "long"]
    schema = _record(_AIVEN, key=union, value=union, headers=["null", {"type": "map", "values": union}])
    data = [b"\xff", "a", 5, b"", "eA=="]
    rows: list[Any] = [{"key": each, "value": each, "headers": {"h": each}} for each in data]

    found = decoded({"input.layout": "aiven"}, "t-0-0.avro", _avro(schema, [*rows, dict.fromkeys(rows[0])]))

    wanted = [b"\xff", b"a", b"5", b"", b"eA=="]
    assert values_of(found) == [*wanted, None]
    assert [batch.keys.get(row) for batch in found if batch.keys for row in range(len(batch))] == [
        *wanted,
        None,
    ]
    headers = [each for batch in found for each in batch.headers or ()]
    assert headers == [*((("h", each),) for each in wanted), ()]


@pytest.mark.parametrize(("form", "wanted"), [("json", b'"/w=="'), ("base64", b"\xff")])
def test_bytes_of_a_union_in_the_other_forms(form: str, wanted: bytes) -> None:
    """As of bytes alone: JSON has base64 for them, and texts of base64 are what these stand for."""
    config = {"input.layout": "confluent", "restore.sidecars": "ignore", "restore.value": form}

    found = decoded(config, _CONFLUENT, _avro(["bytes", "string", "long"], [b"\xff", "/w=="]))

    assert values_of(found) == [wanted, wanted]


def test_headers_of_a_record_that_is_null_are_none() -> None:
    """Whatever is within it."""
    inner = _record("h", a=["null", "bytes", "string"])
    schema = _record("x.E", key="string", value="string", headers=["null", inner], metadata=_METADATA)
    rows = [
        {"key": "k", "value": "v", "headers": headers, "metadata": _at(offset)}
        for offset, headers in enumerate([{"a": b"\xff"}, None])
    ]

    found = decoded({"input.layout": "lenses"}, _LENSES, _avro(schema, rows))

    assert [each for batch in found for each in batch.headers or ()] == [(("a", b"\xff"),), ()]
