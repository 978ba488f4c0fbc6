"""Aiven's bare values whose members have the names of an envelope's."""

import io
import json
from collections.abc import Sequence
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.restore.one_object import decoded, values_of

_AIVEN: Final = {"input.layout": "aiven"}
_READING: Final = {"timestamp": 1_700_000_000_000, "value": 21.5}
_FIELDS: Final = [{"name": "timestamp", "type": "long"}, {"name": "value", "type": "double"}]


def _schema(name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": _FIELDS}


def _avro(name: str) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, _schema(name), [_READING])
    return out.getvalue()


def _parquet(name: str | None) -> bytes:
    out = io.BytesIO()
    table = pa.table({field: [value] for field, value in _READING.items()})
    if name is not None:
        table = table.replace_schema_metadata({"parquet.avro.schema": json.dumps(_schema(name))})
    pq.write_table(table, out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "is_enveloped"),
    [
        (_avro("com.acme.Reading"), False),
        (_avro("io.aiven.avro.output.schema.connector_records"), True),
        (_parquet("com.acme.Reading"), False),
        (_parquet("io.aiven.parquet.output.schema.connector_records"), True),
        (_parquet(None), True),
    ],
    ids=["Avro", "Avro's envelope", "Parquet", "Parquet's envelope", "Parquet without a name"],
)
def test_the_name_of_a_schema_says_whether_rows_are_envelopes(content: bytes, is_enveloped: bool) -> None:
    """Whatever members the value has; where there is no name these decide."""
    (found,) = decoded(_AIVEN, "t-0-0.avro", content)

    if is_enveloped:
        assert values_of([found]) == [b"21.5"]
        assert found.timestamps_ms is not None
        assert found.timestamps_ms.tolist() == [_READING["timestamp"]]
    else:
        assert values_of([found]) == [b'{"timestamp":1700000000000,"value":21.5}']
        assert found.timestamps_ms is None


_ROW: Final = {"key": "k", "offset": 4, "timestamp": 1_700_000_000_000, "value": "v", "headers": {"a": "b"}}
_TYPES: Final = {
    "key": "string",
    "offset": "long",
    "timestamp": "long",
    "value": "string",
    "headers": {"type": "map", "values": "string"},
}


@pytest.mark.parametrize(
    ("members", "told", "is_enveloped"),
    [
        (("key", "offset", "timestamp", "value"), {}, True),
        (("key", "value"), {}, True),
        (("offset", "value"), {}, True),
        (("value", "headers"), {}, True),
        (("timestamp", "value"), {}, False),
        (("timestamp", "value"), {"format.output.fields": "value,timestamp"}, True),
        (("value",), {}, False),
        (("value",), {"format.output.envelope": "true"}, True),
        (("key", "value"), {"format.output.envelope": "false"}, False),
        (("key", "other"), {}, False),
    ],
)
@pytest.mark.parametrize("form", ["Avro", "Parquet"])
def test_another_name_hides_no_envelope(
    members: Sequence[str], told: dict[str, str], is_enveloped: bool, form: str
) -> None:
    """Spark gives an archive that it rewrites its own: keys were lost. Time and value alone are a reading."""
    fields = [{"name": name, "type": _TYPES.get(name, "string")} for name in members]
    schema = {"type": "record", "name": "topLevelRecord", "fields": fields}
    row = {name: _ROW.get(name, "x") for name in members}
    out = io.BytesIO()
    if form == "Avro":
        fastavro.writer(out, schema, [row])
    else:
        table = pa.Table.from_pylist([row]).replace_schema_metadata(
            {"parquet.avro.schema": json.dumps(schema)}
        )
        pq.write_table(table, out)

    (found,) = decoded({**_AIVEN, **told}, "t-0-0", out.getvalue())

    assert (values_of([found]) == [b"v"]) == is_enveloped
    if is_enveloped and "key" in members:
        assert found.keys is not None
        assert found.keys.get(0) == b"k"


@pytest.mark.parametrize(
    "row",
    [
        b'{"timestamp":1704067200000,"value":21.5}',
        b'{"timestamp":20240101,"value":21.5}',
    ],
)
def test_a_time_that_is_no_text_is_a_values(row: bytes) -> None:
    """The sink writes times as texts."""
    found = decoded(_AIVEN, "t-0-0", row)

    assert values_of(found) == [row]
    assert [bad for batch in found for bad in batch.bad] == []


@pytest.mark.parametrize("told", [{}, {"format.output.fields": "key,value,timestamp,offset,headers"}])
@pytest.mark.parametrize(
    "more", [b'"headers":{"a":"b"}', b'"offset":"5"', b'"offset":5,"timestamp":1700000000000,"headers":[]']
)
def test_keys_of_envelopes_of_other_types_are_not_lost(more: bytes, told: dict[str, str]) -> None:
    """What rewrote an archive may have written members otherwise: its rows are envelopes, or bad ones."""
    found = decoded(_AIVEN | told, "t-0-0", b'{"key":"k","value":1,%b}' % more)

    bad = [each for batch in found for each in batch.bad]
    assert values_of(found) == ([] if bad else [b"1"])
    assert len(bad) == (0 if b'{"a"' in more else 1)


@pytest.mark.parametrize("more", [b"", b',"timestamp":null,"headers":null', b',"offset":4,"headers":[]'])
def test_an_envelope_stays_one(more: bytes) -> None:
    """Its members may be null."""
    assert values_of(decoded(_AIVEN, "t-0-0", b'{"key":"k","value":1%b}' % more)) == [b"1"]
