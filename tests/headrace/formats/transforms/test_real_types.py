"""Kafka's transforms beside its Java classes: fields of every type, numbers in every notation, conditions."""

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import pytest

from tests.headrace.formats.transforms.compared import differences, shown
from tests.headrace.formats.transforms.transformed import KAFKA
from tests.support.connect_transforms import Given

pytestmark = pytest.mark.long

_NUMBERS: Final = (
    *(
        "0x1p3",
        "0x1.8p1f",
        " 0X.8P-2d",
        "0x1",
        "0x1p",
        "0x.p1",
        "0x1.p1",
        "0x1P+2F",
        "0x1p-1075",
        "0x1.8p-1075",
    ),
    *(
        "1e",
        "\x001\x1f",
        "\xa01",
        "Infinityf",
        "NaNd",
        "1_0",
        "1dd",
        "5.",
        ".5",
        "",
        "-",
        "+7",
        "-0",
        "128",
        "1.0",
    ),
    *("\u0663", "\uff17", "\U0001d7d9", "9007199791611905", "1.0000001788139343", "3.4028235677973366e38"),
    *("0x1.00000300000000001p0", "0x1.000001p0", "0x1.000003p0", "7e-46", "1e-50", "TRUE", "true "),
    *(
        9_007_199_791_611_905,
        16_777_217,
        16_777_219,
        2**63 - 1,
        2**60 + 2**36 + 1,
        -1,
        1.0000001788139343,
    ),
)
_TARGETS: Final = ("float32", "float64", "int8", "int64", "boolean", "string")


def test_cast_of_numbers_and_texts() -> None:
    """Rounded once, in every notation that Java's parsers read, and no other."""
    given = []
    for value, target in product(_NUMBERS, _TARGETS):
        step = {"type": f"{KAFKA}Cast$Value", "spec": f"a:{target}"}
        # Java 17 writes more digits of a single number than it has; as a double it has all of them.
        to_double = {"type": f"{KAFKA}Cast$Value", "spec": "a:float64"}
        steps = (step, to_double) if target == "float32" else (step,)
        kind = {str: "string", int: "int64", float: "double"}[type(value)]
        schema = {"type": "struct", "fields": [{"field": "a", "type": kind}]}
        given.append(Given(steps=steps, value={"schema": schema, "payload": {"a": value}}, has_schemas=True))
        if target != "float32":
            given.append(Given(steps=steps, value={"a": value}))
    found = differences(given)
    assert not found, shown(found)


_SPACED: Final[tuple[Mapping[str, str], ...]] = (
    {"type": f"{KAFKA}HoistField$Value", "field": " h\t"},
    {"type": f"{KAFKA}Flatten$Value", "delimiter": "  "},
    {"type": f"{KAFKA}Flatten$Value", "delimiter": " \xa0 "},
    {"type": f"{KAFKA}InsertField$Value", "static.field": "w ! ", "static.value": " x "},
    {"type": f"{KAFKA}MaskField$Value", "fields": " a , b", "replacement": " 8 "},
    {"type": f"{KAFKA}MaskField$Value", "fields": "a", "replacement": " 8\xa0"},
    {"type": f"{KAFKA}ExtractField$Value", "field": " b "},
    {"type": f"{KAFKA}InsertHeader", "header": " h ", "value.literal": " x y "},
    {"type": f"{KAFKA}HeaderFrom$Value", "fields": " b ", "headers": " h ", "operation": "copy"},
    {"type": f"{KAFKA}ReplaceField$Value", "renames": " b : q , a: r"},
    {"type": f"{KAFKA}ReplaceField$Value", "renames": "a:r,:q"},
    {"type": f"{KAFKA}RegexRouter", "regex": " or.* ", "replacement": " x "},
    {"type": f"{KAFKA}TimestampRouter", "topic.format": " ${topic}x ", "timestamp.format": " yyyy "},
    {
        "type": f"{KAFKA}TimestampConverter$Value",
        "field": " a ",
        "target.type": "string",
        "format": " yyyy ",
    },
)


def test_blanks_around_options() -> None:
    """Kafka takes them away, and what is left may be empty."""
    value = {"a": 5, "b": "t", "o": {"p": 1}, "b ": 2}
    found = differences([Given(steps=(step,), value=value) for step in _SPACED])
    assert not found, shown(found)


_OF_TOPIC: Final = {"type": f"{KAFKA}predicates.TopicNameMatches", "pattern": "or.*"}
_OF_PART: Final = {"type": f"{KAFKA}predicates.TopicNameMatches", "pattern": "der"}
_OF_HEADER: Final = {"type": f"{KAFKA}predicates.HasHeaderKey", "name": " two "}
_OF_NULLS: Final = {"type": f"{KAFKA}predicates.RecordIsTombstone"}


def test_predicates() -> None:
    """Records are dropped by them, and another step applies to those that remain."""
    given = []
    for predicate, negate in product((_OF_TOPIC, _OF_PART, _OF_HEADER, _OF_NULLS), ("true", "false", None)):
        condition = {"predicate": "p"} | ({} if negate is None else {"negate": negate})
        hoist = {"type": f"{KAFKA}HoistField$Value", "field": "h"}
        insert = {"type": f"{KAFKA}InsertHeader", "header": "h", "value.literal": "1"}
        given += [
            Given(steps=steps, value=value, topic=topic, headers=headers, predicates={"p": predicate})
            for steps in (({"type": f"{KAFKA}Filter", **condition}, hoist), ({**hoist, **condition}, insert))
            for value in ({"a": 1}, None, 5)
            for topic in ("orders", "border")
            for headers in ((), (("one", "1"),), (("two", "x"), ("two", "y")))
        ]
    found = differences(given)
    assert not found, shown(found)


_PLAIN: Final = {
    "int8": 1,
    "int32": 3,
    "float": 0.1,
    "double": 1e10,
    "boolean": True,
    "bytes": "AAE=",
    "string": "t",
}
_CONNECT: Final = "org.apache.kafka.connect.data."
_NAMED: Final[tuple[tuple[dict[str, Any], Any], ...]] = (
    ({"type": "int64", "name": "com.acme.Id", "version": 2, "doc": "an id", "parameters": {"p": "q"}}, 7),
    ({"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": "t,u"}}, "t"),
    ({"type": "bytes", "name": f"{_CONNECT}Decimal", "version": 1, "parameters": {"scale": "0"}}, "Bw=="),
    ({"type": "int32", "name": f"{_CONNECT}Date", "version": 1}, 18_262),
    ({"type": "int64", "name": f"{_CONNECT}Timestamp", "version": 1}, 1_577_836_800_001),
    ({"type": "array", "items": {"type": "int32"}, "default": [1]}, [2]),
    ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}, "default": {"k": 1}}, {"z": 2}),
)
_OF_A: Final[tuple[Mapping[str, str], ...]] = (
    *(
        {"type": f"{KAFKA}Cast$Value", "spec": f"a:{kind}"}
        for kind in ("int8", "float64", "string", "boolean")
    ),
    *(
        {"type": f"{KAFKA}MaskField$Value", "fields": "a", **({"replacement": text} if text else {})}
        for text in ("", "300", "7.9", "5.", "NaN", "1f", "x")
    ),
    {"type": f"{KAFKA}HeaderFrom$Value", "fields": "a", "headers": "h", "operation": "move"},
    {"type": f"{KAFKA}ExtractField$Value", "field": "a"},
    {"type": f"{KAFKA}ValueToKey", "fields": "a"},
    {"type": f"{KAFKA}ValueToKey", "fields": "a,a"},
    {"type": f"{KAFKA}ReplaceField$Value", "renames": "a:q"},
    {"type": f"{KAFKA}Flatten$Value"},
    {"type": f"{KAFKA}TimestampConverter$Value", "field": "a", "target.type": "unix"},
)


def test_a_field_of_each_type() -> None:
    """Filled and null, with a name or a default."""
    kinds = [*(({"type": kind}, value) for kind, value in _PLAIN.items()), *_NAMED]
    given = []
    for step, (kind, payload) in product(_OF_A, kinds):
        fields = [{"field": "b", "type": "string", "default": "d"}, {**kind, "optional": True, "field": "a"}]
        schema = {"type": "struct", "fields": fields, "name": "com.acme.Row", "version": 4, "doc": "a row"}
        given += [
            Given(
                steps=(step,), value={"schema": schema, "payload": {"a": value, "b": "x"}}, has_schemas=True
            )
            for value in (payload, None)
        ]
    found = differences(given)
    assert not found, shown(found)


def test_cast_of_the_whole_keeps_the_name() -> None:
    """And the version, the text and the parameters, of a type that is no time and no decimal."""
    kinds = [*_NAMED[:1], ({"type": "string", "name": "com.acme.Code", "default": "1"}, "7")]
    hoist = {"type": f"{KAFKA}HoistField$Value", "field": "h"}
    given = []
    for (schema, payload), kind in product(kinds, ("int8", "int64", "float64", "string")):
        cast = {"type": f"{KAFKA}Cast$Value", "spec": kind}
        given += [
            Given(steps=steps, value={"schema": schema, "payload": payload}, has_schemas=True)
            for steps in ((cast,), (cast, hoist))
        ]
    found = differences(given)
    assert not found, shown(found)


def test_decimals_within_a_header() -> None:
    """In a struct, a list, a map, and nulls of these."""
    name, scale = "org.apache.kafka.connect.data.Decimal", {"scale": "8"}
    decimal = {"type": "bytes", "name": name, "version": 1, "parameters": scale, "optional": True}
    nested: tuple[tuple[dict[str, Any], Any], ...] = (
        ({"type": "struct", "fields": [{**decimal, "field": "x", "default": "AQ=="}]}, {"x": "/w=="}),
        ({"type": "struct", "fields": [{**decimal, "field": "x", "default": "AQ=="}]}, {"x": None}),
        ({"type": "array", "items": decimal}, ["Z4y3", None]),
        ({"type": "map", "keys": {"type": "string"}, "values": decimal}, {"k": "AA=="}),
    )
    given = []
    for (kind, payload), keeps in product(nested, ("true", "false")):
        step = {"type": f"{KAFKA}HeaderFrom$Value", "fields": "a", "headers": "h", "operation": "copy"}
        schema = {"type": "struct", "fields": [{**kind, "optional": True, "field": "a"}]}
        given += [
            Given(
                steps=({**step, "replace.null.with.default": keeps},),
                value={"schema": schema, "payload": {"a": value}},
                has_schemas=True,
            )
            for value in (payload, None)
        ]
    found = differences(given)
    assert not found, shown(found)
