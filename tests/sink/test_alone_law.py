"""The law of alone: what is fetched together decides nothing.

Any two cuts of the same records give the same objects, with the same rows under the same names, and the same
dead letters: whatever the format, the layout, the grouping, and whoever a record's neighbours are.
"""

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.headrace.formats.encoding.registry import datum, framed_as, registry
from tests.headrace.vendors.archive import Record
from tests.support.examples import max_examples
from tests.support.sink_archives import Written, written

_CLASS: Final = "org.apache.kafka.connect"
_JSON: Final = {"value.converter": f"{_CLASS}.json.JsonConverter", "value.converter.schemas.enable": "false"}
_EITHER: Final = {"value.converter": f"{_CLASS}.json.JsonConverter"}
_KEYS: Final = {"key.converter": f"{_CLASS}.storage.StringConverter"}
_BARE: Final = {"output.envelope": "false", "output.fields": "value"}

_OUTPUTS: Final[dict[str, dict[str, str]]] = {
    "jsonl": {"output.format": "jsonl", **_JSON},
    "jsonl of bytes": {"output.format": "jsonl"},
    "json bare": {"output.format": "json", **_BARE},
    "csv": {"output.format": "csv", **_JSON},
    "csv bare": {"output.format": "csv", **_JSON, **_BARE},
    "text": {"output.format": "text", **_BARE},
    "avro": {"output.format": "avro", **_JSON},
    "avro of either": {"output.format": "avro", **_EITHER},
    "avro bare": {"output.format": "avro", **_JSON, **_BARE},
    "parquet": {"output.format": "parquet", **_JSON},
    "parquet of either": {"output.format": "parquet", **_EITHER},
    "parquet bare": {"output.format": "parquet", **_JSON, **_BARE},
    "aiven avro": {"output.layout": "aiven", "output.format": "avro", "output.fields": "key,value", **_JSON},
    "aiven parquet": {
        "output.layout": "aiven",
        "output.format": "parquet",
        "output.fields": "value",
        **_JSON,
    },
    "aiven jsonl": {"output.layout": "aiven", "output.format": "jsonl", "output.fields": "value", **_EITHER},
    "confluent avro": {"output.layout": "confluent", "output.format": "avro", **_JSON},
    "confluent parquet": {"output.layout": "confluent", "output.format": "parquet", **_EITHER},
    "confluent json": {"output.layout": "confluent", "output.format": "jsonl", **_JSON},
    "lenses avro": {
        "output.layout": "lenses",
        "output.format": "avro",
        "output.fields": "value",
        **_BARE,
        **_JSON,
    },
    "lenses envelope": {"output.layout": "lenses", "output.format": "parquet", **_EITHER},
    "lenses csv": {"output.layout": "lenses", "output.format": "csv", **_BARE, **_JSON},
    "quix parquet": {"output.layout": "quix", "output.format": "parquet", **_JSON},
    "quix json": {"output.layout": "quix", "output.format": "jsonl", **_JSON},
    "masked parquet": {
        "output.format": "parquet",
        **_JSON,
        "transforms": "m",
        "transforms.m.type": f"{_CLASS}.transforms.ReplaceField$Value",
        "transforms.m.exclude": "gone",
    },
}
_TAIL: Final = "{{topic}}/{{partition}}/{{start_offset}}{{extension}}"
_GROUPINGS: Final[dict[str, dict[str, str]]] = {
    "none": {},
    "a field": {"file.name.template": "{{value:a}}/" + _TAIL},
    "a plain field": {"file.name.template": "{{value:a}}/" + _TAIL, "file.name.values": "plain"},
    "a nested field and the key": {"file.name.template": "{{value:o.x}}/{{key}}/" + _TAIL},
    "a time in the value": {
        "file.name.template": "{{date:yyyy-MM-dd}}/" + _TAIL,
        "file.name.timestamp.source": "value:ts",
    },
    "its end": {"file.name.template": "{{topic}}/{{partition}}/{{start_offset}}-{{end_offset}}{{extension}}"},
}
_ROTATIONS: Final[dict[str, dict[str, str]]] = {
    "at the end": {},
    "two records": {"rotate.records": "2"},
    "three in all": {"rotate.records": "3", "rotate.together": "total"},
    "two together": {"rotate.records": "2", "rotate.together": "first"},
    "groups": {"rotate.on.group.change": "true", "rotate.together": "first"},
    "span": {"rotate.span.ms": "1000"},
}

_NUMBERS: Final = st.sampled_from(
    re.findall(
        r"\S+",
        "1 -0 0 9007199254740993 -9007199254740993 9223372036854775807 9223372036854775808 "
        "18446744073709551615 18446744073709549568 1000000000000000000 1.0 1.5 -0.0 1e2 1e999 0.1 "
        "123456789.123456789",
    )
)
_LEAVES: Final = st.one_of(
    _NUMBERS,
    st.sampled_from(
        [
            "null",
            "true",
            '"x"',
            '""',
            '"1"',
            '"2026-01-01"',
            '"2026-01-01T00:00:00Z"',
            '"\\u00e9\\n,"',
            "{}",
            "[]",
        ]
    ),
    st.just("[" * 120 + "]" * 120),
)
_VALUES: Final = st.recursive(
    _LEAVES,
    lambda below: st.one_of(
        st.lists(below, max_size=2).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(st.sampled_from("abox"), below), max_size=3).map(
            lambda members: "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"
        ),
    ),
    max_leaves=4,
)
_TIMES: Final = st.sampled_from(
    ["1800000000000", "1800100000000", "1.5", '"2027-01-15T12:00:00Z"', '"soon"', "null", "1800000000000.0"]
)
_OBJECTS: Final = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), _LEAVES),
        st.tuples(st.just("o"), _VALUES),
        st.tuples(st.just("ts"), _TIMES),
        st.tuples(st.sampled_from(["gone", "_key", "n m"]), _LEAVES),
    ),
    max_size=4,
    unique_by=lambda member: member[0],
).map(lambda members: "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}")
_SCHEMA: Final = '{"type":"struct","optional":true,"fields":[{"field":"a","type":"int64","optional":true}]}'
_ENVELOPES: Final = st.sampled_from(["1", "null", '"x"']).map(
    lambda value: f'{{"schema":{_SCHEMA},"payload":{{"a":{value}}}}}'
)
_TEXTS: Final = st.one_of(
    _OBJECTS.map(str.encode),
    _OBJECTS.map(str.encode),
    _OBJECTS.map(str.encode),
    _VALUES.map(str.encode),
    _ENVELOPES.map(str.encode),
    st.sampled_from([None, b"", b"null", b" 5 ", b'{"a":\n1}', b"\xff", b"{", b'{"a":1,"a":2}', b"1\n2"]),
)
_RECORDS: Final = st.lists(
    st.tuples(st.sampled_from([b"k", b"l", None, b"\xff"]), _TEXTS), min_size=2, max_size=7
)


def _written(
    options: Mapping[str, str], records: Sequence[tuple[bytes | None, bytes | None]], cuts: Any
) -> Written:
    config = {
        "connector.class": "HeadraceSink",
        "aws.s3.bucket.name": "bucket",
        "topics": "t",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "file.compression.type": "none",
        "rotate.bytes": "0",
        **options,
    }
    given_records = [
        Record("t", 0, offset, 1_800_000_000_000 + 400 * offset, key, value, ())
        for offset, (key, value) in enumerate(records)
    ]
    return written(config, given_records, stops=True, batch=cuts)


def _account(found: Written) -> dict[str, Any]:
    """What there is to see: objects by what they say, dead letters, and where reading goes on."""
    return {
        "objects": {key: _content(each.body) for key, each in found.objects.items()},
        "dead letters": sorted(repr((one.key, one.value, one.headers)) for one in found.dead_letters),
        "stops": found.stops,
        "committed": found.committed,
    }


def _content(body: bytes) -> Any:
    if body.startswith(b"Obj\x01"):
        reader = fastavro.reader(io.BytesIO(body))
        return json.dumps(reader.writer_schema), repr(list(reader))
    if body.startswith(b"PAR1"):
        table = pq.read_table(io.BytesIO(body))
        return str(table.schema), repr(table.to_pylist())
    return body


_FRACTION: Final = [(b"k", b'{"a":1,"ts":1800000000000}'), (b"k", b'{"a":1.5,"ts":1.5}'), (b"l", b'{"a":1}')]
_LARGE: Final = [
    (b"k", b'{"a":9007199254740993}'),
    (b"k", b'{"a":1.5}'),
    (b"l", b'{"a":18446744073709551615}'),
]
_CONFLICT: Final = [
    (b"k", b'{"id":18446744073709551615}'),
    (b"k", b'{"id":"x"}'),
    (b"k", b'{"deep":' + b"[" * 500 + b"]" * 500 + b"}"),
    (b"k", b'{"id":1}'),
]
# The second batch closes the group of the first, and has other members behind that.
_CLOSED: Final = [(b"k", b"{}"), (b"k", b'{"a":1}'), (b"k", b'{"b":1}')]
_GROUPED: Final = {"grouping": "a field", "rotation": "at the end", "cuts": [2]}


@pytest.mark.parametrize("output", _OUTPUTS)
@settings(max_examples=min(max_examples() // 4, 12))
@given(
    records=_RECORDS,
    grouping=st.sampled_from(sorted(_GROUPINGS)),
    rotation=st.sampled_from(sorted(_ROTATIONS)),
    cuts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
@example(records=_FRACTION, **_GROUPED)
@example(records=_FRACTION, **(_GROUPED | {"grouping": "a time in the value"}))
@example(records=_LARGE, **(_GROUPED | {"grouping": "none"}))
@example(records=_CONFLICT, **(_GROUPED | {"grouping": "none"}))
@example(records=_CLOSED, **(_GROUPED | {"rotation": "groups", "cuts": [1, 2]}))
def test_any_cut_gives_the_same_archive(
    output: str,
    records: list[tuple[bytes | None, bytes | None]],
    grouping: str,
    rotation: str,
    cuts: list[int],
) -> None:
    """Each record alone, all at once, and anything between."""
    assume("value.converter" in _OUTPUTS[output] or "value" not in str(_GROUPINGS[grouping]))
    options = {**_KEYS, **_OUTPUTS[output], **_GROUPINGS[grouping], **_ROTATIONS[rotation]}
    if "quix" in output:
        records = [(key if key != b"\xff" else b"q", value) for key, value in records]
    alone = _account(_written(options, records, 1))

    assert _account(_written(options, records, 1000)) == alone
    assert _account(_written(options, records, cuts)) == alone


@pytest.mark.parametrize("output", ["parquet", "avro", "csv bare"])
def test_digits_are_those_of_the_record(output: str) -> None:
    """A neighbour with a fraction makes no other number of an integer, nor does an id without a sign."""
    texts = ["9007199254740993", "1.5", "9007199254740993", "18446744073709551615", "7"]
    records = [(b"k", b'{"a":%b}' % text.encode()) for text in texts]

    found = _written({**_KEYS, **_OUTPUTS[output]}, records, 1000)
    numbers = [number for _, each in sorted(found.objects.items()) for number in _numbers(each.body)]
    bad = [dict(one.headers)["__connect.errors.offset"] for one in found.dead_letters]

    assert numbers == [9007199254740993, 1.5, 9007199254740993, 7]
    assert bad == [b"3"]


def _numbers(body: bytes) -> list[float | None]:
    if body.startswith(b"Obj\x01"):
        rows: Any = fastavro.reader(io.BytesIO(body))
        return [row["value"]["a"] for row in rows]
    if body.startswith(b"PAR1"):
        return [row["value"].get("a") for row in pq.read_table(io.BytesIO(body)).to_pylist()]
    return [json.loads(line) for line in body.splitlines()[1:]]


def test_records_that_no_type_holds_are_dead_letters() -> None:
    """In one fetch, where they ended the slot again and again."""
    found = _written({**_KEYS, **_OUTPUTS["parquet"]}, _CONFLICT, 1000)
    reasons = {
        dict(one.headers)["__connect.errors.offset"]: dict(one.headers)[
            "__connect.errors.exception.class.name"
        ]
        for one in found.dead_letters
    }

    assert reasons == {b"0": b"number_not_exact", b"2": b"nested_too_deeply"}
    rows = [pq.read_table(io.BytesIO(each.body)).num_rows for each in found.objects.values()]
    assert rows == [1, 1], "of two types, in an object each"


def test_the_first_records_of_an_object_make_its_columns() -> None:
    """Members that come and go do not split it; what comes after a thousand records does."""
    values = [b'{"a":%d}' % number if number % 2 else b'{"b":"x"}' for number in range(1500)]
    values += [b'{"c":1}', *values[:3]]

    found = _written({**_KEYS, **_OUTPUTS["parquet"]}, [(b"k", value) for value in values], [400, 90])

    assert [len(pq.read_table(io.BytesIO(each.body))) for _, each in sorted(found.objects.items())] == [
        1500,
        4,
    ]


_DAY: Final = {"type": "int32", "name": f"{_CLASS}.data.Date", "field": "day"}
_REGION: Final = {"type": "string", "optional": True, "default": "eu", "field": "region"}
_SCHEMA_OF_DAYS: Final = {"type": "struct", "fields": [{"type": "int32", "field": "a"}, _DAY, _REGION]}


@pytest.mark.parametrize("output", ["jsonl", "csv", "aiven jsonl", "confluent json", "avro"])
@pytest.mark.parametrize("of_keys", [False, True])
def test_what_a_predicate_leaves_alone_is_written_alike(output: str, *, of_keys: bool) -> None:
    """By itself, and next to a record that the transform changes: its payload is read by its schema."""
    which = "Key" if of_keys else "Value"
    chain = {
        "transforms": "m",
        "transforms.m.type": f"{_CLASS}.transforms.MaskField${which}",
        "transforms.m.fields": "a",
        "transforms.m.predicate": "h",
        "predicates": "h",
        "predicates.h.type": f"{_CLASS}.transforms.predicates.HasHeaderKey",
        "predicates.h.name": "x",
    }
    config = {
        "connector.class": "HeadraceSink",
        "topics": "t",
        "aws.s3.bucket.name": "bucket",
        "file.compression.type": "none",
        **_OUTPUTS[output],
        **_EITHER,
        "key.converter": _EITHER["value.converter"],
        "value.converter.schemas.enable": "true",
        **chain,
    }
    text = json.dumps({"schema": _SCHEMA_OF_DAYS, "payload": {"a": 1, "day": 19738, "region": None}}).encode()
    records = [Record("t", 0, offset, 1000, text, text, ((name, b""),)) for offset, name in enumerate("yxyx")]

    alone, together = (_account(written(config, records, stops=True, batch=batch)) for batch in (1, 1000))
    assert alone == together


_REGISTRY: Final = registry()


def _framed(name: str) -> bytes:
    schema = {"type": "record", "name": name, "fields": [{"name": "a", "type": ["null", "int"]}]}
    return _framed_avro(schema, {"a": 1}, f"t-{name}")


def _framed_avro(schema: Any, value: Any, subject: str) -> bytes:
    """Its schema is registered each time: other tests' registries make this one forgotten."""
    return framed_as(_REGISTRY, "AVRO", json.dumps(schema), datum(schema, value), subject)


def _framed_json(name: str) -> bytes:
    schema = json.dumps({"type": "object", "title": name, "properties": {"a": {"type": "integer"}}})
    return framed_as(_REGISTRY, "JSON", schema, b'{"a":1}', f"json-{name}")


def _framed_protobuf(name: str) -> bytes:
    schema = f'syntax="proto3"; message {name} {{ int32 a = 1; }}'
    return framed_as(_REGISTRY, "PROTOBUF", schema, b"\x00\x08\x01", f"protobuf-{name}")


def _framed_null(converter: str) -> bytes:
    """A null that its schema has, next to an object; Protobuf has none."""
    if converter == "avro":
        schema = {"type": "record", "name": "C", "fields": [{"name": "a", "type": "int"}]}
        return _framed_avro(["null", schema], None, "t-C")
    if converter == "json":
        of_either = json.dumps({"title": "C", "oneOf": [{"type": "null"}, {"type": "object"}]})
        return framed_as(_REGISTRY, "JSON", of_either, b"null", "json-C")
    return _framed_protobuf("C")


_CONFLUENTS: Final = "io.confluent.connect"
_FRAMED: Final = {
    "avro": (f"{_CONFLUENTS}.avro.AvroConverter", _framed),
    "json": (f"{_CONFLUENTS}.json.JsonSchemaConverter", _framed_json),
    "protobuf": (f"{_CONFLUENTS}.protobuf.ProtobufConverter", _framed_protobuf),
}
_BY_SCHEMA: Final = {"file.name.template": "{{schema_name}}/" + _TAIL}
_OF_REGISTRIES: Final[dict[str, dict[str, str]]] = {
    "jsonl": {"output.format": "jsonl"},
    "json bare": {"output.format": "json", **_BARE},
    "csv": {"output.format": "csv"},
    "aiven jsonl": {"output.layout": "aiven", "output.format": "jsonl", "output.fields": "value"},
    "masked jsonl": {
        "output.format": "jsonl",
        "transforms": "m",
        "transforms.m.type": f"{_CLASS}.transforms.InsertField$Value",
        "transforms.m.partition.field": "p",
    },
}
_FIRST: Final = {"names": "by schema", "rotation": "two records"}


@pytest.mark.parametrize("output", _OF_REGISTRIES)
@pytest.mark.parametrize("converter", _FRAMED)
@settings(max_examples=min(max_examples() // 4, 12))
@given(
    kinds=st.lists(st.sampled_from(["A", "B", None, "null", "junk"]), min_size=2, max_size=6),
    names=st.sampled_from(["by schema", "plain", "none"]),
    rotation=st.sampled_from(sorted(_ROTATIONS)),
    cuts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
@example(kinds=[None, "A", "A"], cuts=[1, 2], **_FIRST)
@example(kinds=["A", None, "B", "B", "B"], cuts=[1, 4], **_FIRST)
@example(kinds=["A", "null", None, "B", "null"], cuts=[1, 4], **_FIRST)
def test_any_cut_of_a_registrys_values_gives_the_same_archive(
    output: str, converter: str, kinds: list[str | None], names: str, rotation: str, cuts: list[int]
) -> None:
    """A null, which names no schema, is taken for itself, too."""
    kind, framed_of = _FRAMED[converter]
    own = {"by schema": _BY_SCHEMA, "plain": _BY_SCHEMA | {"file.name.values": "plain"}, "none": {}}[names]
    options = {
        **_KEYS,
        "value.converter": kind,
        "value.converter.schema.registry.url": _REGISTRY.urls[0],
        **_OF_REGISTRIES[output],
        **own,
        **_ROTATIONS[rotation],
    }
    others = {None: None, "junk": b"not framed", "null": _framed_null(converter)}
    records = [(b"k", others[each] if each in others else framed_of(str(each))) for each in kinds]
    alone = _account(_written(options, records, 1))

    assert _account(_written(options, records, 1000)) == alone
    assert _account(_written(options, records, cuts)) == alone
