"""Rows of our own sink that may be envelopes or values: only what a value cannot be expected to say tells."""

import io
import json
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.model.errors import InvalidObject
from tests.headrace.vendors.archive import Record
from tests.restore.one_object import decoded, values_of
from tests.support.sink_archives import written

_JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_STEM: Final = "t/0/00000000000000000042.headrace."
_LAYOUTS: Final = pytest.mark.parametrize("layout", ["headrace", "auto"])


def _avro(name: str, **values: Any) -> bytes:
    """A row of these members, each a text or a number."""
    kinds = {str: "string", int: "long", bytes: "bytes"}
    fields = [{"name": each, "type": kinds[type(value)]} for each, value in values.items()]
    out = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": name, "fields": fields})
    fastavro.writer(out, schema, [values])
    return out.getvalue()


def _parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


_UNDECIDED: Final = {
    "a measurement": ("jsonl", b'{"timestamp":1704067200,"value":21.5}\n'),
    "a pair": ("jsonl", b'{"key":"color","value":"red"}\n'),
    "a value alone": ("jsonl", b'{"value":{"id":1}}\n'),
    "half a place": ("jsonl", b'{"partition":0,"offset":42,"value":1}\n'),
    "headers": ("jsonl", b'{"headers":[]}\n'),
    "an array": ("json", b'[\n{"timestamp":1704067200,"value":21.5}\n]\n'),
    "Avro": ("avro", _avro("row_value", timestamp=1704067200, value="a")),
    "Parquet": ("parquet", _parquet(key=["color"], value=["red"])),
}


@pytest.mark.parametrize(("extension", "content"), _UNDECIDED.values(), ids=_UNDECIDED.keys())
@_LAYOUTS
def test_members_of_an_envelope_alone_make_none(layout: str, extension: str, content: bytes) -> None:
    """`output.envelope=false` writes such values as they are; nothing is decided, until told."""
    given = {"input.layout": layout}
    with pytest.raises(InvalidObject, match=r"Set restore\.envelope to yes .* or to no") as raised:
        decoded(given, _STEM + extension, content)
    assert raised.value.reason == "envelope_undecided"

    (value,) = values_of(decoded({**given, "restore.envelope": "no"}, _STEM + extension, content))
    assert value is not None
    assert value.startswith(b"{")


_TELLING: Final = {
    "the place": ("jsonl", b'{"topic":"t","partition":0,"offset":42,"value":1}\n'),
    "a value in base64": ("jsonl", b'{"value_base64":"MQ=="}\n'),
    "a key in base64": ("jsonl", b'{"key_base64":"gA==","value":1}\n'),
    "the kind of time": ("jsonl", b'{"timestamp":1,"timestamp_type":"append","value":1}\n'),
    "a column for it": ("parquet", _parquet(timestamp=[1], timestamp_type=["append"], value=[b"1"])),
    "the record's name": ("avro", _avro("headrace.Record", value=b"1")),
}


@pytest.mark.parametrize(("extension", "content"), _TELLING.values(), ids=_TELLING.keys())
@_LAYOUTS
def test_what_only_an_envelope_has_tells(layout: str, extension: str, content: bytes) -> None:
    """As the sink writes it."""
    assert values_of(decoded({"input.layout": layout}, _STEM + extension, content)) == [b"1"]


_RECORD: Final = Record("t", 0, 42, 1_704_067_200_000, b"k", b'{"id":1}', ())
_SOME: Final = [("value",), ("key", "value"), ("timestamp", "value"), ("offset", "key", "value")]


@pytest.mark.parametrize("fields", _SOME, ids=",".join)
@pytest.mark.parametrize("output", ["jsonl", "json", "avro", "parquet"])
def test_some_fields_in_an_envelope_come_back_when_told(output: str, fields: tuple[str, ...]) -> None:
    """Of Avro always: its record has a name."""
    options = {"output.format": output, "output.fields": ",".join(fields)}
    ((key, content),) = _objects(options).items()
    given = {"input.layout": "headrace", "aws.s3.prefix": "backup/"}
    told = {} if output == "avro" else {"restore.envelope": "yes"}

    (batch,) = decoded({**given, **told}, key, content)

    assert values_of([batch]) == [_RECORD.value]
    key_of_row = None if batch.keys is None else batch.keys.get(0)
    assert key_of_row == (_RECORD.key if "key" in fields else None)


_POINTER: Final = [("topic", "string"), ("partition", "int"), ("offset", "long"), ("value", "string")]
_POINTERS: Final = {
    "others": [("payments", 5, 7, "x"), ("payments", 0, 8, "y")],
    "nulls": [(None, None, 99, "x"), ("t", 0, None, None)],
}


def _pointers(output: str, rows: list[tuple[Any, ...]]) -> bytes:
    """Values of these members as Confluent's sink writes them."""
    members = [dict(zip((name for name, _ in _POINTER), row, strict=True)) for row in rows]
    if output == "json":
        return b"".join(json.dumps(each).encode() + b"\n" for each in members)
    out = io.BytesIO()
    if output == "avro":
        fields = [{"name": name, "type": ["null", kind]} for name, kind in _POINTER]
        schema = {"type": "record", "name": "Pointer", "namespace": "com.acme", "fields": fields}
        fastavro.writer(out, fastavro.parse_schema(schema), members)
    else:
        pq.write_table(pa.Table.from_pylist(members), out)
    return out.getvalue()


@pytest.mark.parametrize("rows", _POINTERS.values(), ids=_POINTERS.keys())
@pytest.mark.parametrize("output", ["json", "avro", "snappy.parquet"])
def test_values_with_a_place_of_their_own_are_values(output: str, rows: list[tuple[Any, ...]]) -> None:
    """Under Confluent's names, whose sink knows no envelope of ours."""
    given = {"input.layout": "confluent", "restore.sidecars": "ignore"}
    batches = decoded(given, f"topics/t/partition=0/t+0+42.{output}", _pointers(output, rows))

    assert all(batch.bad == () and batch.offsets is None for batch in batches)
    found = [json.loads(value or b"null") for value in values_of(batches)]
    assert [tuple(each.values()) for each in found] == rows


@pytest.mark.parametrize("output", ["jsonl", "avro", "parquet"])
def test_envelopes_in_the_names_of_confluent_come_back(output: str) -> None:
    """As our sink writes them there."""
    template = "{{topic}}/partition={{partition}}/{{topic}}+{{partition}}+{{start_offset}}{{extension}}"
    fields = "topic,partition,offset,key,value"
    options = {"output.format": output, "output.fields": fields, "file.name.template": template}
    ((key, content),) = _objects(options).items()
    given = {"input.layout": "confluent", "aws.s3.prefix": "backup/", "restore.sidecars": "ignore"}

    (batch,) = decoded(given, key, content)

    assert batch.bad == ()
    assert batch.keys is not None
    assert (batch.keys.get(0), batch.values.get(0)) == (_RECORD.key, _RECORD.value)


def _objects(options: dict[str, str]) -> dict[str, bytes]:
    config = {"aws.s3.bucket.name": "bucket", "topics": "t", "aws.s3.prefix": "backup/", **options}
    return {key: each.body for key, each in written(config, [_RECORD]).objects.items()}


@pytest.mark.parametrize("output", ["jsonl", "avro", "parquet"])
def test_bare_values_with_members_of_their_own_are_values(output: str) -> None:
    """No option is needed where nothing looks like an envelope."""
    options = {"output.format": output, "output.fields": "value", "output.envelope": "false", **_JSON}
    ((key, content),) = _objects(options).items()

    found = decoded({"input.layout": "headrace", "aws.s3.prefix": "backup/"}, key, content)

    assert values_of(found) == [_RECORD.value]
