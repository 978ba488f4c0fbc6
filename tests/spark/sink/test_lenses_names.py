"""Names by PARTITIONBY as Lenses' sink gives them, and the locks that it keeps of their groups."""

import json
from typing import Any

import numpy as np
import pytest

from headrace.conversion.sink_records import sink_records
from headrace.model.columns import TIMESTAMP_CREATED, Headers, KafkaRecords, column_of
from headrace.options.sink_settings import SinkSettings
from headrace.vendors.lenses.names import values_of
from spark.sink.grouping_options import grouping_hash
from spark.sink.object_keys import lenses_group
from spark.sink.object_shape import ObjectShapes
from tests.support.sink_archives import sink_settings

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_ENVELOPES = {"value.converter.schemas.enable": "true"}
_INT32 = {"type": "int32"}
_OCTETS = {"type": "bytes"}
_DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "version": 1,
    "parameters": {"scale": "2", "connect.decimal.precision": "9"},
}


def _sink(partition_by: str, **options: str) -> SinkSettings:
    kcql = f"INSERT INTO bucket:p SELECT * FROM t PARTITIONBY {partition_by} STOREAS `JSON`"  # noqa: S608  # KCQL of a test
    settings = sink_settings(
        {
            "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
            "connect.s3.kcql": kcql,
            "topics": "t",
            "key.converter": _STRING,
            "value.converter": _JSON,
            "value.converter.schemas.enable": "false",
        }
        | options
    )
    assert settings.sink is not None
    return settings.sink


def _groups(
    sink: SinkSettings, value: bytes, *, key: bytes | None = None, headers: Headers = ()
) -> list[str | None]:
    """The group of the one record; None where it has none."""
    records = KafkaRecords(
        topic="t",
        partition=3,
        offsets=np.zeros(1, np.int64),
        timestamps_ms=np.zeros(1, np.int64),
        timestamp_types=np.full(1, TIMESTAMP_CREATED, np.int64),
        keys=column_of([key]),
        values=column_of([value]),
        headers=[headers],
    )
    shapes = ObjectShapes(sink)
    (run,) = sink_records(sink).convert(records).runs
    return [one.group for one in shapes.split(run).parts] or [None]


def _lock_group(sink: SinkSettings, lock: str) -> str | None:
    values = values_of(f".indexes/l/.locks/Topic(t)/3/{lock}.lock")
    assert values is not None
    return lenses_group(ObjectShapes(sink).values.names, values)


def _envelope(payload: Any, **fields: Any) -> bytes:
    """Values of Connect's JSON: a struct of these fields next to what they hold."""
    members = [{**kind, "field": name, "optional": True} for name, kind in fields.items()]
    schema = {"type": "struct", "optional": False, "fields": members}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("partition_by", "value", "lock"),
    [
        pytest.param("a", b'{"a":"x/y"}', "a=x%2Fy", id="slash"),
        pytest.param("a", b'{"a":null}', "a=%5Bmissing%5D", id="null"),
        pytest.param("tags.0", b'{"tags":["b"]}', "tags.0=b", id="element"),
        pytest.param("tags.1", b'{"tags":["b"]}', "tags.1=%5Bmissing%5D", id="after the last element"),
        pytest.param("tags.x", b'{"tags":["b"]}', "tags.x=%5Bmissing%5D", id="no number"),
        pytest.param("tags.0", b'{"tags":{"0":"b"}}', "tags.0=b", id="member with a number's name"),
        pytest.param("_value.users.1.id", b'{"users":[{"id":1},{"id":2}]}', "users.1.id=2", id="within"),
        pytest.param("m.1.0", b'{"m":[[1],[2.50]]}', "m.1.0=2.5", id="list in a list"),
        pytest.param("a.b", b'{"a.b":"whole","a":{"b":"inside"}}', "a.b=inside", id="no whole names"),
        pytest.param("_value.`a.b`", b'{"a.b":"whole","a":{"b":"inside"}}', "a.b=whole", id="backticks"),
    ],
)
def test_a_value_is_named_as_lenses_names_it(partition_by: str, value: bytes, lock: str) -> None:
    """In another group, what Lenses has archived past the partition's lock would be archived again."""
    sink = _sink(partition_by)
    assert _groups(sink, value) == [_lock_group(sink, lock)]


@pytest.mark.parametrize(
    ("partition_by", "value", "lock"),
    [
        pytest.param("d", _envelope({"d": "ZXUvMQ=="}, d=_OCTETS), "d=eu%2F1", id="bytes"),
        pytest.param("d", _envelope({"d": "AMg="}, d=_DECIMAL), "d=2.00", id="decimal"),
        pytest.param("d", _envelope({"d": None}, d=_OCTETS), "d=%5Bmissing%5D", id="no bytes"),
        pytest.param("d", _envelope({"d": "/w=="}, d=_OCTETS), "d=%EF%BF%BD", id="bytes that are no text"),
        pytest.param("d", _envelope({"d": "ZXU="}, d={"type": "string"}), "d=ZXU%3D", id="text"),
        pytest.param("l.0", _envelope({"l": ["ZXU="]}, l=_list_of(_OCTETS)), "l.0=eu", id="bytes of a list"),
        pytest.param(
            "m.k",
            _envelope({"m": {"k": "ZXU="}}, m={"type": "map", "keys": {"type": "string"}, "values": _OCTETS}),
            "m.k=eu",
            id="bytes of a map",
        ),
        pytest.param(
            "m.0",
            _envelope({"m": [[7, 8]]}, m={"type": "map", "keys": _INT32, "values": _INT32}),
            "m.0=%5Bmissing%5D",
            id="pairs are no list",
        ),
        pytest.param("l.1", _envelope({"l": [7, 8]}, l=_list_of(_INT32)), "l.1=8", id="element"),
        pytest.param(
            "l.0.id",
            _envelope(
                {"l": [{"id": 7}]},
                l=_list_of({"type": "struct", "fields": [{"field": "id", **_INT32}]}),
            ),
            "l.0.id=7",
            id="struct of a list",
        ),
    ],
)
@pytest.mark.parametrize("store_as", ["`JSON`", "`AVRO`", "`PARQUET`"])
def test_a_value_with_a_schema_is_named_as_lenses_names_it(
    partition_by: str, value: bytes, lock: str, store_as: str
) -> None:
    """Bytes are text there, which JSON does not have."""
    kcql = f"INSERT INTO bucket:p SELECT * FROM t PARTITIONBY {partition_by} STOREAS {store_as}"  # noqa: S608  # KCQL of a test
    sink = _sink(partition_by, **_ENVELOPES, **{"connect.s3.kcql": kcql})
    assert _groups(sink, value) == [_lock_group(sink, lock)]


@pytest.mark.parametrize(
    ("converter", "header", "lock"),
    [
        pytest.param(None, b"007", "h=7", id="whole number"),
        pytest.param(None, b"1.50", "h=1.5", id="fraction"),
        pytest.param(None, b"eu/w", "h=eu%2Fw", id="text"),
        pytest.param(None, b"true", "h=true", id="truth"),
        pytest.param(None, b"null", "h=%5Bmissing%5D", id="null"),
        pytest.param(None, b"[1,2]", None, id="list"),
        pytest.param(_STRING, b"007", "h=007", id="StringConverter"),
        pytest.param(_JSON, b'{"schema":{"type":"bytes"},"payload":"ZXU="}', "h=eu", id="bytes by a schema"),
        pytest.param(_BYTES, b"eu\xff", "h=eu%EF%BF%BD", id="bytes"),
    ],
)
def test_a_header_is_named_by_its_value(converter: str | None, header: bytes, lock: str | None) -> None:
    """As its converter reads it, the last of its name; a list is no single value."""
    options = {} if converter is None else {"header.converter": converter}
    sink = _sink("_header.h", **options)
    expected = None if lock is None else _lock_group(sink, lock)
    assert _groups(sink, b"{}", headers=(("h", b"1"), ("h", header))) == [expected]


@pytest.mark.parametrize(
    ("converter", "key", "lock"),
    [
        (_STRING, b"eu/1", "key=eu%2F1"),
        (_BYTES, b"eu\\1", "key=eu%5C1"),
        (_BYTES, b"\xff", "key=%EF%BF%BD"),
        (_JSON, b'{"schema":{"type":"string"},"payload":"eu/1"}', "key=eu%2F1"),
    ],
)
def test_a_whole_key_is_its_text(converter: str, key: bytes, lock: str) -> None:
    """Whatever reads it; what is no text in it is U+FFFD, as Java has it."""
    sink = _sink("_key", **{"key.converter": converter})
    assert _groups(sink, b"{}", key=key) == [_lock_group(sink, lock)]


@pytest.mark.parametrize(
    ("partition_by", "of_1_0_0", "is_kept"),
    [
        ("", "170243778beb6d63", True),
        ("PARTITIONBY _date.`yyyy/MM`", "ef8214e0f1983bf3", True),
        ("PARTITIONBY a", "b2d3a64db9747c78", False),
    ],
)
def test_groups_that_show_no_values_are_those_of_1_0_0(
    partition_by: str, of_1_0_0: str, *, is_kept: bool
) -> None:
    """By the hash that it gave them; others are read as it read them, once."""
    kcql = f"INSERT INTO bucket:p SELECT * FROM t {partition_by}"  # noqa: S608  # KCQL of a test
    assert (grouping_hash(_sink("", **{"connect.s3.kcql": kcql})) == of_1_0_0) is is_kept


def test_names_of_our_own_keep_values_as_they_are() -> None:
    """Without the option that Lenses' class sets."""
    sink = _sink("_header.h, _value.l.0", **{"file.name.values": "plain"})
    (group,) = _groups(sink, b'{"l":["b"]}', headers=(("h", b"007"),))
    assert group is not None
    assert "h=007/l.0=[missing]/" in group
