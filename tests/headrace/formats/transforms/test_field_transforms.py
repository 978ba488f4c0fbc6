"""Transforms of fields: Kafka's documented examples, with and without a schema, and what they refuse."""

from typing import Any

import pytest

from headrace.conversion.sink_records import sink_records
from headrace.model.columns import Stage
from tests.headrace.formats.transforms.transformed import (
    KAFKA,
    SCHEMALESS,
    WITH_SCHEMA,
    Row,
    chain,
    converted,
    kafka_records,
    refusals,
    sink_of,
    transformed,
    values,
)
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import written


def step(name: str, **options: str) -> dict[str, str]:
    """Options of one transform; `_` in names stands for a dot."""
    return {"type": KAFKA + name, **{key.replace("_", "."): text for key, text in options.items()}}


def struct(payload: Any, **fields: Any) -> dict[str, Any]:
    """A value of Connect's JSON: its payload beside a schema of these fields, types or schemas."""
    described = [
        {"field": name, **(kind if isinstance(kind, dict) else {"type": kind, "optional": True})}
        for name, kind in fields.items()
    ]
    return {
        "schema": {"type": "struct", "optional": True, "fields": described},
        "payload": payload,
    }


EXAMPLES: list[tuple[str, dict[str, str], Any, Any]] = [
    (
        "insert static",
        step("InsertField$Value", static_field="MessageSource", static_value="Kafka Connect framework"),
        {"a": 1},
        {"a": 1, "MessageSource": "Kafka Connect framework"},
    ),
    ("exclude", step("ReplaceField$Value", exclude="c2"), {"c1": "22", "c2": "33"}, {"c1": "22"}),
    ("blacklist", step("ReplaceField$Value", blacklist="c2"), {"c1": "22", "c2": "33"}, {"c1": "22"}),
    (
        "renames",
        step("ReplaceField$Value", renames="foo:c1,bar:c2"),
        {"foo": 1, "bar": 2, "z": 3},
        {"c1": 1, "c2": 2, "z": 3},
    ),
    (
        "include and rename",
        step("ReplaceField$Value", include="abc,xyz", renames="abc:a"),
        {"dont": 1, "abc": 42, "foo": True, "xyz": "x"},
        {"a": 42, "xyz": "x"},
    ),
    ("extract", step("ExtractField$Value", field="id"), {"id": 42, "cost": 4000}, 42),
    ("extract text", step("ExtractField$Value", field="id"), {"id": "a b"}, "a b"),
    ("extract object", step("ExtractField$Value", field="id"), {"id": {"x": [1]}}, {"x": [1]}),
    (
        "extract nested",
        step("ExtractField$Value", field="a.`b.c`", field_syntax_version="V2"),
        {"a": {"b.c": 5}},
        5,
    ),
    (
        "flatten",
        step("Flatten$Value", delimiter="_"),
        {"id": {"b.c": 42, "x": [1]}, "z": "a"},
        {"id_b.c": 42, "id_x": [1], "z": "a"},
    ),
    (
        "time",
        step("TimestampConverter$Value", field="at", target_type="string", format="yyyy-MM-dd'T'HH:mm"),
        {"at": 1_577_934_245_678},
        {"at": "2020-01-02T03:04"},
    ),
    (
        "time of a text",
        step(
            "TimestampConverter$Value",
            field="at",
            target_type="unix",
            format="yyyy-MM-dd HH",
            unix_precision="seconds",
        ),
        {"at": "2020-01-02 03:04:05"},
        {"at": 1_577_934_000},
    ),
    (
        "cast",
        step("Cast$Value", spec="ID:string,score:float64"),
        {"ID": 46290, "score": 4761},
        {"ID": "46290", "score": 4761.0},
    ),
    (
        "mask",
        step("MaskField$Value", fields="string_field"),
        {"n": 22, "string_field": "foo"},
        {"n": 22, "string_field": ""},
    ),
    (
        "mask with a replacement",
        step("MaskField$Value", fields="office_phone", replacement="***-***-****"),
        {"employee": "1", "office_phone": "500-111-1111"},
        {"employee": "1", "office_phone": "***-***-****"},
    ),
]
SCHEMA_OF: dict[type, Any] = {
    str: "string",
    int: "int64",
    bool: "boolean",
    dict: {
        "type": "struct",
        "optional": True,
        "fields": [
            {"field": "x", "type": "array", "optional": True, "items": {"type": "int64"}},
            {"field": "b.c", "type": "int64", "optional": True},
        ],
    },
}


@pytest.mark.parametrize(
    ("options", "before", "after"), [row[1:] for row in EXAMPLES], ids=[row[0] for row in EXAMPLES]
)
class TestDocumentedExamples:
    """Each of them twice."""

    def test_without_a_schema(self, options: dict[str, str], before: Any, after: Any) -> None:
        """Values that are maps."""
        assert values({**SCHEMALESS, **chain(options)}, [before]) == [after]

    def test_with_a_schema(self, options: dict[str, str], before: dict[str, Any], after: Any) -> None:
        """Values that are structs."""
        value = struct(before, **{name: SCHEMA_OF[type(each)] for name, each in before.items()})
        (found,) = values({**WITH_SCHEMA, **chain(options)}, [value])
        assert _without_nulls(found) == after


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def test_a_text_becomes_the_field_of_a_struct() -> None:
    """HoistField's example: the text foo becomes {"line": "foo"}."""
    options = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    assert values({**options, **chain(step("HoistField$Value", field="line"))}, [b"foo"]) == [{"line": "foo"}]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Cast", {"spec": "string"}),
        ("TimestampConverter", {"target.type": "string", "format": "yyyy-MM"}),
    ],
)
@pytest.mark.parametrize("which", ["Key", "Value"])
@pytest.mark.parametrize("form", ["text", "csv"])
def test_a_text_that_stays_a_text_gets_no_quotes(
    form: str, which: str, name: str, options: dict[str, str]
) -> None:
    """Also next to records that the step does not apply to: they are in one object in one form."""
    text = "org.apache.kafka.connect.storage.StringConverter"
    one = {"type": f"{KAFKA}{name}${which}", "predicate": "has", **options}
    sink = {
        "connector.class": "HeadraceSink",
        "topics": "t",
        "aws.s3.bucket.name": "bucket",
        "output.format": form,
        "output.fields": which.lower(),
        "file.compression.type": "none",
        "key.converter": text,
        "value.converter": text,
        **chain(one, predicates={"has": {"type": KAFKA + "predicates.HasHeaderKey", "name": "h"}}),
    }
    each = b"2020-01"
    rows = [Record("t", 0, 0, 1, each, each, ()), Record("t", 0, 1, 1, each, each, (("h", b"1"),))]
    ((_, found),) = written(sink, rows).objects.items()
    assert found.body.split()[-2:] == [each, each]


def test_fields_of_the_value_become_the_key() -> None:
    """ValueToKey and ExtractField one after the other, as the field's tutorials have them."""
    rows = [{"userId": 1, "city": "x", "z": 2}]
    to_key = step("ValueToKey", fields="userId,city")
    (found,) = transformed({**SCHEMALESS, **chain(to_key)}, rows)
    assert (found.key, found.value) == ({"userId": 1, "city": "x"}, rows[0])
    (found,) = transformed({**SCHEMALESS, **chain(to_key, step("ExtractField$Key", field="city"))}, rows)
    assert found.key == "x"


def test_what_is_known_of_a_record_is_inserted() -> None:
    """Offset and time are numbers without a schema, and the time is one of Connect's with one."""
    insert = step(
        "InsertField$Value", topic_field="t", partition_field="p", offset_field="o!", timestamp_field="at"
    )
    known = {"t": "orders", "p": 3, "o": 10, "at": 1_577_836_800_000}
    assert values({**SCHEMALESS, **chain(insert)}, [{"a": 1}]) == [{"a": 1, **known}]
    assert values({**WITH_SCHEMA, **chain(insert)}, [struct({"a": 1}, a="int64")]) == [{"a": 1, **known}]


def test_tombstones_pass_where_kafka_lets_them() -> None:
    """And are refused where it does not."""
    rows = [Row(None, {"k": 1})]
    for passing in (
        step("InsertField$Value", static_field="f", static_value="x"),
        step("ReplaceField$Value", exclude="x"),
        step("ExtractField$Value", field="x"),
        step("Cast$Value", spec="x:int8"),
    ):
        assert values({**SCHEMALESS, **chain(passing)}, rows) == [None]
    for refusing in (
        step("MaskField$Value", fields="x"),
        step("ValueToKey", fields="x"),
        step("HeaderFrom$Value", fields="x", headers="x", operation="copy"),
    ):
        assert refusals({**SCHEMALESS, **chain(refusing)}, rows) == [
            "transform t0: the value is null, and no object"
        ]


def test_a_null_is_hoisted() -> None:
    """As Kafka does it."""
    assert values({**SCHEMALESS, **chain(step("HoistField$Value", field="f"))}, [None]) == [{"f": None}]


def test_values_that_are_no_objects_are_refused_one_by_one() -> None:
    """The others pass."""
    options = {**SCHEMALESS, **chain(step("ReplaceField$Value", exclude="x"))}
    assert (
        refusals(options, [{"a": 1}, [1], "text", 5])
        == ["transform t0: the value is JSON, but no object"] * 3
    )


def test_a_path_through_what_is_no_object_is_refused() -> None:
    """As in Kafka: a null in its place would delete the key. What is null or missing on the way is a null."""
    options = {**SCHEMALESS, **chain(step("ExtractField$Value", field="a.b.c", field_syntax_version="V2"))}

    assert refusals(options, [{"a": [1]}, {"a": {"b": "x"}}, {"a": 5}]) == [
        "transform t0: the field a of the value is no object",
        "transform t0: the field a.b of the value is no object",
        "transform t0: the field a of the value is no object",
    ]
    assert values(options, [{"a": None}, {}, {"a": {}}, {"a": {"b": {"c": 1}}}]) == [None, None, None, 1]


def test_missing_fields() -> None:
    """Without a schema they are null, where Kafka makes them so; with one they are a fault of the record."""
    assert values({**SCHEMALESS, **chain(step("Cast$Value", spec="b:int32"))}, [{"a": 1}]) == [
        {"a": 1, "b": None}
    ]
    assert values({**SCHEMALESS, **chain(step("ExtractField$Value", field="b"))}, [{"a": 1}]) == [None]
    for missing in (step("ExtractField$Value", field="b"), step("ValueToKey", fields="b")):
        options = {**WITH_SCHEMA, **chain(missing)}
        assert refusals(options, [struct({"a": 1}, a="int64")]) == ["transform t0: there is no field b"]


def test_members_that_nothing_changes_are_copied() -> None:
    """Digits, order and escapes stay as they stood."""
    text = rb'{"big":123456789012345678901234567890,"f":1.50,"x":0,"e":"\u00e9"}'
    options = {**SCHEMALESS, **chain(step("ReplaceField$Value", exclude="x"))}
    (run,) = converted(options, [Row(text)]).runs
    assert run.value.texts().get(0) == rb'{"big":123456789012345678901234567890,"f":1.50,"e":"\u00e9"}'


def test_an_inserted_field_that_is_there() -> None:
    """Without a schema it is overwritten; with one the record is refused."""
    insert = chain(step("InsertField$Value", static_field="a", static_value="x"))
    assert values({**SCHEMALESS, **insert}, [{"a": 1}]) == [{"a": "x"}]
    assert refusals({**WITH_SCHEMA, **insert}, [struct({"a": 1}, a="int64")]) == [
        "transform t0: there is a field a already"
    ]


def test_times_that_cannot_be_made() -> None:
    """Each is one sentence."""
    convert = step("TimestampConverter$Value", field="t", target_type="Date", format="yyyy-MM-dd")
    without = "without a schema there is no Date: set target.type to unix or string"
    assert refusals({**SCHEMALESS, **chain(convert)}, [{"t": 5}]) == [f"transform t0: {without}"]
    convert["target.type"] = "unix"
    assert refusals({**SCHEMALESS, **chain(convert)}, [{"t": "x"}, {"t": 1.5}]) == [
        "transform t0: format does not read it: the text does not match the pattern",
        "transform t0: the field is neither a whole number nor a text, and no time",
    ]
    convert["target.type"] = "string"
    assert refusals({**SCHEMALESS, **chain(convert)}, [{"t": 2**60}])[0].startswith(
        "transform t0: the date cannot be written: its year is not from 1 to 9999"
    )
    assert refusals({**WITH_SCHEMA, **chain(convert)}, [struct({"t": True}, t="boolean")]) == [
        "transform t0: the field t is of a type that is no time"
    ]


def test_what_cannot_be_flattened_or_named() -> None:
    """Maps of a schema, two fields that become one, values without a schema."""
    flatten, name = step("Flatten$Value"), step("SetSchemaMetadata$Value", schema_name="n")
    a_map = {"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}}
    assert refusals({**WITH_SCHEMA, **chain(flatten)}, [struct({"m": {"x": 1}}, m=a_map)]) == [
        "transform t0: the field m is a map, which has no fields to flatten"
    ]
    inner = {"type": "struct", "fields": [{"field": "b", "type": "int64"}]}
    twice = struct({"a": {"b": 1}, "a.b": 2}, **{"a": inner, "a.b": "int64"})
    assert refusals({**WITH_SCHEMA, **chain(flatten)}, [twice]) == ["transform t0: two fields become a.b"]
    assert refusals({**SCHEMALESS, **chain(name)}, [{"a": 1}]) == [
        "transform t0: the value has no schema to be named"
    ]


def test_a_fault_has_the_stage_that_it_is_of() -> None:
    """The key's converter, a transform, the value's converter: dead letters say which."""
    options = {**SCHEMALESS, **chain(step("Cast$Value", spec="n:int32")), "output.fields": "key,value"}
    records = kafka_records(
        [
            (b'{"n":"no"}', b'"k"', (), 1),
            (b'{"n":"1"}', b"{bad", (), 1),
            (b"{bad", b'"k"', (), 1),
            (b"{bad", b"{bad", (), 1),
        ]
    )
    found = sink_records(sink_of(options)).convert(records)
    assert [fault.stage for fault in found.faults] == [
        Stage.TRANSFORMATION,
        Stage.KEY_CONVERTER,
        Stage.VALUE_CONVERTER,
        Stage.KEY_CONVERTER,
    ]


def test_a_null_key_is_refused_at_its_stage_with_transforms_too() -> None:
    """Where each record has a row of its key; next to what others are refused for."""
    sides = {"sidecars": "keys,headers", "output.format": "jsonl", "output.envelope": "false"}
    options = {**SCHEMALESS, **chain(step("Cast$Value", spec="n:int32")), **sides, "output.fields": "value"}
    records = kafka_records(
        [(b'{"n":"1"}', None, (("h", b"1"),), 1), (b'{"n":"1"}', b'"k"', (), 1)],
    )
    found = sink_records(sink_of(options)).convert(records)
    assert [(fault.reason, fault.stage) for fault in found.faults] == [
        ("null_key", Stage.KEY_CONVERTER),
        ("no_headers", Stage.VALUE_CONVERTER),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (step("HoistField$Value", field=" h\t"), {"h": {"a": 5, "b": {"c": 1}}}),
        (step("Flatten$Value", delimiter=" "), {"a": 5, "bc": 1}),
        (step("Flatten$Value", delimiter=" \xa0 "), {"a": 5, "b\xa0c": 1}),
        (
            step("InsertField$Value", static_field=" w ", static_value=" x "),
            {"a": 5, "b": {"c": 1}, "w": "x"},
        ),
        (step("MaskField$Value", fields=" a ", replacement=" 7 "), {"a": 7, "b": {"c": 1}}),
        (step("ExtractField$Value", field=" a "), 5),
        (step("ReplaceField$Value", renames=" a: q , b :r "), {" q": 5, "b": {"c": 1}}),
        (step("ReplaceField$Value", renames="a:q,:r"), {"q": 5, "b": {"c": 1}}),
    ],
    ids=lambda value: " ".join(list(value.values())[1:]) if "type" in str(value) else None,
)
def test_blanks_around_options(options: dict[str, str], expected: Any) -> None:
    """They are no part of them, as of Kafka's; but those around the colon of a pair are of its names."""
    assert values({**SCHEMALESS, **chain(options)}, [{"a": 5, "b": {"c": 1}}]) == [expected]


def test_a_key_has_each_field_once() -> None:
    """Of a schema, which has no two fields of one name; without one the second takes the first's place."""
    twice = step("ValueToKey", fields="a,a")
    assert refusals({**WITH_SCHEMA, **chain(twice)}, [struct({"a": 1}, a="int32")]) == [
        "transform t0: two fields become a"
    ]
    (found,) = transformed({**SCHEMALESS, **chain(twice)}, [{"a": 1}])
    assert found.key == {"a": 1}


@pytest.mark.parametrize("style", ["connect", "iso"])
def test_a_decimal_becomes_a_header_of_its_digits(style: str) -> None:
    """As BigDecimal writes it, and not what Connect's JSON has of it."""
    name = "org.apache.kafka.connect.data.Decimal"
    decimal = {"type": "bytes", "name": name, "version": 1, "parameters": {"scale": "8"}, "optional": True}
    move = step("HeaderFrom$Value", fields="a,b,c", headers="a,b,c", operation="copy")
    value = struct({"a": "Z4y3", "b": "/w==", "c": None}, a=decimal, b=decimal, c=decimal)
    (found,) = transformed({**WITH_SCHEMA, **chain(move), "json.format": style}, [value])
    assert found.headers == (("a", b"0.06786231"), ("b", b"-1E-8"), ("c", None))


@pytest.mark.parametrize("default", [5, [1], {"x": "no", "y": 3}])
def test_a_default_that_is_no_value_of_its_struct_counts_as_none(default: Any) -> None:
    """As those of other fields: the records that have a value need none."""
    optional = {"type": "int32", "optional": True}
    fields = [{**optional, "field": "x"}, {**optional, "field": "y"}]
    inner = {"type": "struct", "fields": fields, "optional": True, "default": default}
    value = struct({"f": {"x": 2, "y": None}}, f=inner)
    assert values({**WITH_SCHEMA, **chain(step("Flatten$Value"))}, [value]) == [{"f.x": 2, "f.y": None}]


@pytest.mark.parametrize(
    ("style", "least", "at"),
    [("connect", b"-1E-8", b"1577836800123"), ("iso", b"-0.00000001", b'"2020-01-01T00:00:00.123Z"')],
)
def test_decimals_in_a_header_of_fields_or_a_list_are_digits(style: str, least: bytes, at: bytes) -> None:
    """As those that are a header themselves; all else is as `json.format` has it."""
    name = "org.apache.kafka.connect.data."
    parameters = {"parameters": {"scale": "8"}, "optional": True}
    decimal = {"type": "bytes", "name": f"{name}Decimal", "version": 1, **parameters}
    moment = {"type": "int64", "name": f"{name}Timestamp", "version": 1}
    amounts = {"type": "array", "items": decimal, "optional": True}
    fields: list[dict[str, Any]] = [{**decimal, "field": "d"}, {**decimal, "field": "n"}]
    fields += [{**moment, "field": "at"}, {"type": "string", "field": "s"}]
    inner = {"type": "struct", "fields": fields}
    copy = step("HeaderFrom$Value", fields="a,b,c", headers="a,b,c", operation="copy")
    row = {"d": "/w==", "n": None, "at": 1_577_836_800_123, "s": "\U0001f600"}
    value = struct({"a": row, "b": ["Z4y3", None], "c": None}, a=inner, b=amounts, c=amounts)
    (found,) = transformed({**WITH_SCHEMA, **chain(copy), "json.format": style}, [value])
    assert found.headers == (
        ("a", b'{"d":%b,"n":null,"at":%b,"s":"\xf0\x9f\x98\x80"}' % (least, at)),
        ("b", b"[0.06786231,null]"),
        ("c", None),
    )
