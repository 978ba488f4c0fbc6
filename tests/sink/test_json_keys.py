"""Keys of JsonConverter with a schema next to them, in objects of Avro, Parquet and JSON.

Confluent's objects of keys have them by it, Aiven's rows their JSON. A name shows their JSON, which is what
earlier versions grouped records by.
"""

import io
import json
from collections.abc import Mapping
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest

from headrace.names.archive_names import LayoutName
from headrace.options.choices import RestoreOptions
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputField, OutputFormat
from tests.headrace.formats.encoding.outputs import converted, converters, fetched, output
from tests.headrace.vendors.archive import Archive, Record
from tests.headrace.vendors.decoding import read, records
from tests.headrace.vendors.test_archive_names import name_of
from tests.support.sink_archives import Written, written

_CONNECT: Final = "org.apache.kafka.connect."
_JSON: Final = f"{_CONNECT}json.JsonConverter"
_TEXT: Final = f"{_CONNECT}storage.StringConverter"
_STRUCT: Final[dict[str, Any]] = {
    "type": "struct",
    "optional": False,
    "name": "dbz.Key",
    "fields": [{"field": "id", "type": "int32", "optional": False}],
}
_DATE: Final = {"type": "int32", "name": f"{_CONNECT}data.Date", "version": 1}
_DAY: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"field": "day", **_DATE},
        {"field": "b", "type": "bytes"},
    ],
}
_NAMELESS: Final[dict[str, Any]] = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
_REGION: Final = {
    "type": "struct",
    "fields": [{"field": "region", "type": "string", "optional": True, "default": "eu"}],
}
_FORMATS: Final = ("avro", "parquet")


def _confluent(keys: str, **options: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": "t",
        "s3.bucket.name": "bucket",
        "s3.region": "us-east-1",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "flush.size": "1000",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "store.kafka.keys": "true",
        "keys.format.class": f"io.confluent.connect.s3.format.{keys}.{keys.title()}Format",
        "value.converter": _TEXT,
        "key.converter": _JSON,
        **options,
    }


def _aiven(wanted: str, **options: str) -> dict[str, str]:
    return {
        "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "topics": "t",
        "aws.s3.bucket.name": "bucket",
        "aws.s3.region": "us-east-1",
        "format.output.type": wanted,
        "format.output.fields": "key,value",
        "file.compression.type": "none",
        "value.converter": _TEXT,
        "key.converter": _JSON,
        **options,
    }


def _envelope(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def _archived(
    config: Mapping[str, str], keys: list[bytes], *, value: bytes = b"v", **options: Any
) -> Written:
    given = [Record("t", 0, offset, 1000 + offset, key, value, ()) for offset, key in enumerate(keys)]
    return written({**config, "rotate.on.stop": "true"}, given, stops=True, **options)


def _rows(body: bytes) -> tuple[list[Any], Any]:
    """The rows of an object, and their schema where it is of Avro."""
    if body.startswith(b"PAR1"):
        return pq.read_table(io.BytesIO(body)).to_pylist(), None
    reader = fastavro.reader(io.BytesIO(body))
    return list(reader), reader.writer_schema


def _keys(found: Written) -> list[Any]:
    """The key of each row, in the order of objects: of objects of keys where there are any."""
    chosen = [key for key in found.objects if ".keys." in key] or list(found.objects)
    rows = [row for key in sorted(chosen) for row in _rows(found.objects[key].body)[0]]
    return [row["key"] if isinstance(row, dict) and "key" in row else row for row in rows]


def _restored_keys(config: dict[str, str], found: Written) -> list[bytes | None]:
    """What a restore makes of the keys, where no option says what they are."""
    whole = Archive("confluent-keys", config, {}, {}, ())
    rows = []
    for key, each in found.objects.items():
        if ".keys." in key:
            name = name_of(whole, key)
            assert name is not None
            rows += records(read(name, each.body, RestoreOptions()))
    return [row.key for row in rows]


@pytest.mark.parametrize("wanted", _FORMATS)
@pytest.mark.parametrize(
    ("schema", "payload", "key", "restored"),
    [
        (_STRUCT, {"id": 1}, {"id": 1}, b'{"id":1}'),
        ({"type": "int64", "optional": False}, 5, 5, b"5"),
        ({"type": "string", "optional": True}, "abc", "abc", b"abc"),
        ({"type": "bytes", "optional": False}, "AQI=", b"\x01\x02", b"\x01\x02"),
        (None, {"id": 1}, '{"id": 1}', b'{"id": 1}'),
    ],
)
def test_a_key_has_the_schema_next_to_it(
    wanted: str, schema: Any, payload: Any, key: Any, restored: bytes
) -> None:
    """In Confluent's objects of keys, and comes back; one without a schema is a text."""
    config = _confluent(wanted)
    found = _archived(config, [_envelope(schema, payload)] * 2)
    assert not found.stops
    assert _keys(found) == [key, key]
    assert _restored_keys(config, found) == [restored, restored]


@pytest.mark.parametrize("wanted", _FORMATS)
@pytest.mark.parametrize(
    ("key_schema", "key"),
    [
        (_NAMELESS, {"id": 7}),
        ({**_NAMELESS, "name": "a.Value"}, {"id": 7}),
        ({"type": "struct", "fields": [{"field": "of", **_NAMELESS}]}, {"of": {"id": 7}}),
        ({"type": "struct", "fields": [{"field": "a-b", "type": "int64"}]}, {"a-b": 7}),
        (_NAMELESS, {"id": "x"}),
        (_DATE, 19738),
    ],
)
@pytest.mark.parametrize("name", [{}, {"name": "a.Value"}])
@pytest.mark.parametrize("has_schema", [True, False])
def test_rows_of_aivens_have_the_json_of_a_key(
    wanted: str, key_schema: Any, key: Any, name: dict[str, str], *, has_schema: bool
) -> None:
    """Next to any value: by its schema a key could have the name of the value's, which Avro cannot hold."""
    value_schema = {"type": "struct", "fields": [{"field": "name", "type": "string"}], **name}
    value = _envelope(value_schema, {"name": "x"}) if has_schema else b'{"name":"x"}'
    enabled = {
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": str(has_schema).lower(),
    }

    config = _aiven(wanted, **enabled, **{"value.converter": _JSON})
    found = _archived(config, [_envelope(key_schema, key)], value=value)

    assert not found.stops
    assert [json.loads(each) for each in _keys(found)] == [key]


def test_keys_in_avro_have_their_own_name() -> None:
    """As the schema in the registry would be, were it of AvroConverter."""
    found = _archived(_confluent("avro"), [_envelope(_STRUCT, {"id": 1})])
    (body,) = (each.body for key, each in found.objects.items() if ".keys." in key)
    schema = _rows(body)[1]
    assert (schema["name"], [each["name"] for each in schema["fields"]]) == ("dbz.Key", ["id"])


@pytest.mark.parametrize("wanted", _FORMATS)
@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_a_key_of_another_schema_begins_an_object(wanted: str, batch: int) -> None:
    """Whatever is read at once, as after a restart, which reads again what is not committed."""
    other = {**_STRUCT, "fields": [{"field": "no", "type": "string", "optional": False}]}
    given = [(_STRUCT, {"id": 1}), (_STRUCT, {"id": 2}), (other, {"no": "x"}), (_STRUCT, {"id": 3})]
    found = _archived(_confluent(wanted), [_envelope(*each) for each in given], batch=batch)
    assert not found.stops
    assert _keys(found) == [payload for _, payload in given]
    values = [key for key in found.objects if ".keys." not in key]
    assert len(values) == len({schema["fields"][0]["field"] for schema, _ in given}) + 1


@pytest.mark.parametrize("wanted", _FORMATS)
@pytest.mark.parametrize("values", ["escaped", "plain", "lenses"])
@pytest.mark.parametrize("enabled", [{}, {"key.converter.schemas.enable": "true"}])
@pytest.mark.parametrize(
    ("template", "schema", "payloads"),
    [
        ("{{key}}", {"type": "bytes"}, ["AQI=", "AQM="]),
        ("{{key}}", {"type": "float"}, [1.50, 2]),
        ("{{key:day}}/{{key:b}}", _DAY, [{"day": number, "b": "AQI="} for number in (19738, 19739)]),
    ],
)
def test_names_show_the_json_of_a_key(
    wanted: str, values: str, enabled: dict[str, str], template: str, schema: Any, payloads: list[Any]
) -> None:
    """As in text formats, and as earlier versions named them, whose open objects continue."""
    own = {
        "connector.class": "HeadraceSink",
        "topics": "t",
        "aws.s3.bucket.name": "bucket",
        "output.layout": "confluent",
        "sidecars": "keys",
        "file.compression.type": "none",
        "file.name.template": f"{template}/{{{{partition}}}}-{{{{start_offset}}}}",
        "file.name.values": values,
        "value.converter": _JSON,
        "key.converter": _JSON,
        **enabled,
    }
    keys = [_envelope(schema, payload) for payload in payloads]

    found, of_json = (
        _archived({**own, "output.format": form}, keys, value=b'{"a":1}') for form in (wanted, "jsonl")
    )

    names = {key for key in found.objects if ".keys." not in key}
    assert len(names) == len(keys)
    assert names == {key for key in of_json.objects if ".keys." not in key}
    assert not any(isinstance(key, str) for key in _keys(found))


@pytest.mark.parametrize("wanted", [*_FORMATS, "jsonl"])
@pytest.mark.parametrize("batch", [1, 2, 1000])
@pytest.mark.parametrize(
    ("layout", "template", "schema", "payload", "shown"),
    [
        ("confluent", "{{key:day}}", _DAY, {"day": 19738, "b": "AQI="}, "19738"),
        ("confluent", "{{key:region}}", _REGION, {"region": None}, "__HIVE_DEFAULT_PARTITION__"),
        ("confluent", "{{key}}", _DATE, 19738, "19738"),
        ("lenses", "{{key}}", _DATE, 19738, "19738"),
    ],
)
def test_names_are_the_same_whatever_is_fetched_together(
    wanted: str, batch: int, layout: str, template: str, schema: Any, payload: Any, shown: str
) -> None:
    """A transform of values with a predicate takes the records apart, and they are put together again."""
    chain = {
        "transforms": "m",
        "transforms.m.type": f"{_CONNECT}transforms.MaskField$Value",
        "transforms.m.fields": "a",
        "transforms.m.predicate": "h",
        "predicates": "h",
        "predicates.h.type": f"{_CONNECT}transforms.predicates.HasHeaderKey",
        "predicates.h.name": "x",
    }
    sides = {
        "confluent": {"sidecars": "keys"},
        "lenses": {"output.envelope": "true", "output.fields": "key,value"},
    }
    config = {
        "connector.class": "HeadraceSink",
        "topics": "t",
        "aws.s3.bucket.name": "bucket",
        "output.layout": layout,
        "output.format": wanted,
        "file.compression.type": "none",
        "file.name.template": f"{template}/{{{{topic}}}}/{{{{partition}}}}/{{{{start_offset}}}}",
        "value.converter": _JSON,
        "key.converter": _JSON,
        "rotate.on.stop": "true",
        **sides[layout],
        **chain,
    }
    key = _envelope(schema, payload)
    given = [
        Record("t", 0, offset, 1000, key, b'{"a":1}', ((name, b""),)) for offset, name in enumerate("yxyx")
    ]

    found = written(config, given, stops=True, batch=batch)

    assert not found.stops
    assert {name.split("/")[0] for name in found.objects} == {shown}


@pytest.mark.parametrize("wanted", ["avro", "json"])
def test_a_payload_that_is_not_of_its_schema_is_bad(wanted: str) -> None:
    """As Kafka Connect's converter fails there, before the sink."""
    (stop,) = _archived(_confluent(wanted), [_envelope(_STRUCT, {"id": "x"})]).stops.values()
    assert stop.reason == "schema_unfit"


_PRICE: Final = {
    "type": "struct",
    "fields": [
        {
            "field": "price",
            "type": "bytes",
            "name": f"{_CONNECT}data.Decimal",
            "version": 1,
            "parameters": {"scale": "2"},
        },
        {"field": "kind", "type": "string", "optional": True, "default": "std"},
        {"field": "big", "type": "int64"},
    ],
}


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize(
    ("options", "price"),
    [
        ({}, '"BNI="'),
        ({"json.decimal.format": "NUMERIC"}, "12.34"),
    ],
)
def test_keys_in_json_are_as_values_are(options: dict[str, str], price: str, batch: int) -> None:
    """By their schema, whichever of them there are in one object; without a schema as Jackson has them."""
    keys = [
        _envelope(_PRICE, {"price": "BNI=", "kind": None, "big": 7, "more": 1}),
        _envelope(None, {"a": 1.10}),
        _envelope({"type": "int64"}, 5),
        _envelope({"type": "string"}, "x"),
        b'{"b": 1}' if batch == 1 else _envelope(None, {"b": 1}),
    ]
    enabled = {} if batch == 1 else {"key.converter.schemas.enable": "true"}

    found = _archived(_confluent("json", **options, **enabled), keys, batch=batch)

    assert not found.stops
    (body,) = (each.body for key, each in found.objects.items() if ".keys." in key)
    assert body.decode().splitlines() == [
        f'{{"price":{price},"kind":"std","big":7}}',
        '{"a":1.1}',
        "5",
        '"x"',
        '{"b":1}',
    ]


def test_what_version_1_0_0_opened_is_opened() -> None:
    """What groups by its reading has keys whose `schema` is none of Connect's as it had them."""
    earlier = ConverterSettings(kind=ConverterKind.JSON, schemas_enable=None, opens_all=True)
    how = output(OutputFormat.AVRO, layout=LayoutName.CONFLUENT, fields=(OutputField.KEY,))
    keys = [b'{"schema":"v2","payload":7}', _envelope(_STRUCT, {"id": 1})]
    (opened, typed) = converted(fetched([b"v", b"v"], keys=keys), how, converters(key=earlier))
    assert opened.key.field([]) == [7]
    assert typed.key.field(["id"]) == [1]
