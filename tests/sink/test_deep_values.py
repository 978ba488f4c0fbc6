"""Values of many levels in Parquet: what is written can be read, and what cannot be is a bad record."""

import io
import json
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import Written, written

_LAYOUTS: Final = {
    "headrace": {"output.layout": "headrace"},
    "headrace-value": {"output.layout": "headrace", "output.envelope": "false", "output.fields": "value"},
    "aiven": {"output.layout": "aiven", "output.fields": "key,value,offset"},
    "confluent": {"output.layout": "confluent"},
    "lenses": {"output.layout": "lenses", "output.envelope": "false", "output.fields": "value"},
    "lenses-envelope": {"output.layout": "lenses"},
    "quix": {"output.layout": "quix"},
}
# Of those whose rows are the members of a value.
_BARE: Final = frozenset({"headrace-value", "confluent", "lenses", "quix"})
_MOST: Final = 100


def _written(layout: str, values: list[bytes], *, schemas: bool) -> Written:
    config = {
        "connector.class": "HeadraceSink",
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true" if schemas else "false",
        "output.format": "parquet",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "bad",
        **_LAYOUTS[layout],
    }
    records = [Record("t", 0, offset, 1000, b"k", value, ()) for offset, value in enumerate(values)]
    return written(config, records, stops=True, batch=2)


def _rows(found: Written) -> int:
    """How many can be read."""
    bodies = (each.body for each in found.objects.values())
    return sum(pq.ParquetFile(io.BytesIO(body)).read().num_rows for body in bodies)


def _nested(kind: str, levels: int) -> tuple[Any, Any]:
    """A schema of so many levels in Parquet, and a value of it; a list or a map has two."""
    schema: dict[str, Any] = {"type": "int32", "optional": True}
    value: Any = 1
    if kind != "struct":
        levels, odd = divmod(levels - 1, 2)
    else:
        levels, odd = 0, levels - 1
    for _ in range(levels):
        if kind == "array":
            schema, value = {"type": "array", "items": schema, "optional": True}, [value]
        else:
            keys = {"type": "string", "optional": False}
            schema = {"type": "map", "keys": keys, "values": schema, "optional": True}
            value = {"m": value}
    for _ in range(odd):
        schema = {"type": "struct", "fields": [{"field": "m", **schema}], "optional": True}
        value = {"m": value}
    return schema, value


def _envelope(schema: dict[str, Any], value: Any) -> bytes:
    record = {"type": "struct", "optional": False, "fields": [{"field": "a", **schema}]}
    return json.dumps({"schema": record, "payload": {"a": value}}).encode()


@pytest.mark.parametrize("layout", [layout for layout in _LAYOUTS if layout != "quix"])
@pytest.mark.parametrize("kind", ["struct", "array", "map"])
def test_a_declared_schema_of_too_many_levels_is_refused(layout: str, kind: str) -> None:
    """And the one of a level less is written."""
    # Of the file, of the value where it is a column, and of its member's own.
    most = _MOST - (1 if layout in _BARE else 2)
    values = [_envelope(*_nested(kind, levels)) for levels in (1, most, most + 1, 1)]
    found = _written(layout, values, schemas=True)

    assert (_rows(found), found.unwritten, found.stops) == (3, 0, {})
    assert [(each.reason, each.value) for each in found.dead_letters] == [("schema_unfit", values[2])]


@pytest.mark.parametrize("layout", list(_LAYOUTS))
@pytest.mark.parametrize("kind", ["struct", "array"])
def test_found_columns_of_too_many_levels_are_refused(layout: str, kind: str) -> None:
    """And those after them have columns as if it had not been there."""
    most = _MOST - (1 if layout in _BARE else 2)
    deep = [_nested(kind, levels)[1] for levels in (most, most + 1, most + 1)]
    values = [json.dumps({"a": each, "b": "x"}).encode() for each in (None, *deep, None, None)]
    found = _written(layout, values, schemas=False)

    assert (_rows(found), found.unwritten, found.stops) == (4, 0, {})
    assert [(each.reason, each.value) for each in found.dead_letters] == [
        ("schema_unfit", value) for value in values[2:4]
    ]
