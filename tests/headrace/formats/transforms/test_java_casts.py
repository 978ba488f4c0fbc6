"""Casts by Java's rules: narrowing, parsing and writing of numbers, texts and times; and masks."""

import math
import time
from typing import Any

import msgspec
import pytest

from headrace.formats.connect.values import time_text
from headrace.formats.converted_records import header_reader
from headrace.formats.transforms.step_values import Refused, floating
from headrace.formats.transforms.value_steps import cast_json, masked_json
from headrace.options.sink_settings import ConverterKind
from headrace.options.transforms.chain import CastType
from tests.headrace.formats.transforms.transformed import (
    KAFKA,
    LENSES,
    SCHEMALESS,
    WITH_SCHEMA,
    chain,
    converted,
    plain,
    refusals,
    values,
)


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (300, "int8", 44),
        (-129, "int8", 127),
        (2**40 + 7, "int32", 7),
        (1.9, "int64", 1),
        (-1.9, "int16", -1),
        (1e30, "int64", 2**63 - 1),
        (1e30, "int8", -1),
        (True, "int32", 1),
        ("+7", "int8", 7),
        ("\u0663\uff17", "int8", 37),
        ("42", "float64", 42.0),
        (" 1e3d ", "float64", 1000.0),
        (True, "float32", 1.0),
        (0.1, "float32", 0.1),
        (1e10, "float32", 1e10),
        (0, "boolean", False),
        (0.9, "boolean", False),
        (-3, "boolean", True),
        ("TRUE", "boolean", True),
        ("yes", "boolean", False),
        (42, "string", "42"),
        (False, "string", "false"),
        (1.0, "string", "1.0"),
        (1e10, "string", "1.0E10"),
        (1e-4, "string", "1.0E-4"),
        (123456.789, "string", "123456.789"),
        ("x", "string", "x"),
        (-0.0, "string", "0.0"),
        (5e-324, "string", "4.9E-324"),
        # To 32 bits at once: by way of a double these would be the neighbours.
        (9_007_199_791_611_905, "float32", 9.0072e15),
        (-9_007_199_791_611_905, "float32", -9.0072e15),
        (2**60 + 2**36, "float32", 1.1529215e18),
        ("9007199791611905", "float32", 9.0072e15),
        ("1.0000001788139343", "float32", 1.0000001),
        ("3.4028235677973366e38", "float32", 3.4028235e38),
        ("0x1.00000300000000001p0", "float32", 1.0000002),
        ("-0x1.00000300000000001p0", "float32", -1.0000002),
        ("0x1.8000000000000001p-149", "float32", 2.8e-45),
        ("0x0.80000000000000001p-149", "float32", 1.4e-45),
        ("0x1.8p1f", "float32", 3.0),
        (" 0X.8P-2d", "float64", 0.125),
        ("-0x1.8p-1075", "float64", -5e-324),
        ("\x001\x1f", "float64", 1.0),
    ],
)
def test_json_values(value: Any, target: str, expected: Any) -> None:
    """As `Number`, `Boolean` and the parsers of Java do it."""
    found = msgspec.json.decode(msgspec.json.encode(cast_json(value, CastType(target))))
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("128", "int8"),
        ("1.5", "int64"),
        ("", "int32"),
        (" 1", "int32"),
        ("\U0001d7d9", "int32"),
        ("one", "float64"),
        ("0x1", "float64"),
        ("0x.p1", "float64"),
        ("\xa01", "float64"),
        ([1], "string"),
        (2**70, "int8"),
    ],
)
def test_what_cannot_be_cast_is_refused(value: Any, target: str) -> None:
    """As Kafka's DataException."""
    with pytest.raises(Refused):
        cast_json(value, CastType(target))


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (0, "00:00:00.000Z"),
        (86_399_999, "23:59:59.999Z"),
        (86_400_000, "1970-01-02"),
        (1_577_836_800_001, "2020-01-01T00:00:00.001Z"),
        (253_402_300_800_000, "10000-01-01"),
        (253_402_300_800_001, "10000-01-01T00:00:00.001Z"),
        (2**63 - 1, "292278994-08-17T07:12:55.807Z"),
        (-1, "23:59:59.999Z"),
        (-(2**63), "16:47:04.192Z"),
    ],
)
def test_times_as_text(moment: int, expected: str) -> None:
    """A time of the day, a date, or both, by what it can be, in any year."""
    assert time_text(moment) == expected


def test_the_type_of_a_struct_field_changes() -> None:
    """Logical types go by the numbers that they stand for."""
    timestamp = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "optional": True}
    value = {
        "schema": {
            "type": "struct",
            "fields": [
                {"field": "at", **timestamp},
                {"field": "raw", "type": "bytes", "optional": True},
                {"field": "n", "type": "string"},
            ],
        },
        "payload": {"at": 1_577_836_800_001, "raw": "AAE=", "n": "300"},
    }
    to_numbers = {"type": KAFKA + "Cast$Value", "spec": "at:int64,raw:string,n:int16"}
    assert values({**WITH_SCHEMA, **chain(to_numbers)}, [value]) == [
        {"at": 1_577_836_800_001, "raw": "AAE=", "n": 300}
    ]
    to_text = {"type": KAFKA + "Cast$Value", "spec": "at:string"}
    (found,) = values({**WITH_SCHEMA, **chain(to_text)}, [value])
    assert found["at"] == "2020-01-01T00:00:00.001Z"
    to_byte = {"type": KAFKA + "Cast$Value", "spec": "n:int8"}
    assert refusals({**WITH_SCHEMA, **chain(to_byte)}, [value]) == [
        "transform t0: a text is no integer of 8 bits"
    ]


@pytest.mark.parametrize(
    ("value", "replacement", "expected"),
    [
        (5, None, 0),
        (5.5, None, 0.0),
        ("x", None, ""),
        (True, None, False),
        ([1], None, []),
        ({"a": 1}, None, {}),
        (5, "7", 7),
        (5.5, "7", 7.0),
        ("x", "7", "7"),
    ],
)
def test_masks(value: Any, replacement: str | None, expected: Any) -> None:
    """The empty value of the type, or the replacement as one of it."""
    found = masked_json(value, replacement)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "replacement"),
    [(True, "1"), ([1], "x"), (5, "x"), (5.5, "NaN"), (5.5, "1f"), (5.5, "0x1p3"), (5, "1_0")],
)
def test_masks_that_there_are_not(value: Any, replacement: str) -> None:
    """A replacement is for numbers and texts."""
    with pytest.raises(Refused):
        masked_json(value, replacement)


_LONG = b"1" * 5000
_HEADER = {"type": KAFKA + "HeaderFrom$Value", "fields": "a", "headers": "h", "operation": "move"}


@pytest.mark.parametrize(
    ("step", "value", "expected"),
    [
        ({"type": KAFKA + "Cast$Value", "spec": "a:float32"}, b"1e39", None),
        ({"type": KAFKA + "Cast$Value", "spec": "a:float64"}, b"-1e400", None),
        ({"type": KAFKA + "Cast$Value", "spec": "a:string"}, b"1e400", "Infinity"),
        ({"type": KAFKA + "Cast$Value", "spec": "a:string"}, b"[1]", "a list, an object, or a number"),
        ({"type": KAFKA + "Cast$Value", "spec": "a:string"}, _LONG, "a whole number has too many digits"),
        ({"type": KAFKA + "Cast$Value", "spec": "a:int8"}, b'"%s"' % _LONG, "a text is no integer"),
        ({"type": KAFKA + "MaskField$Value", "fields": "a"}, b"1e400", 0.0),
        ({"type": KAFKA + "MaskField$Value", "fields": "a"}, _LONG, "a whole number has too many digits"),
        ({"type": KAFKA + "MaskField$Value", "fields": "a", "replacement": "NaN"}, b"1", "no number"),
        ({"type": KAFKA + "MaskField$Value", "fields": "a", "replacement": "1e99999999"}, b"1", 0),
        ({"type": KAFKA + "MaskField$Value", "fields": "a", "replacement": "1e63"}, b"1", -(2**63)),
        (
            {"type": KAFKA + "TimestampConverter$Value", "field": "a", "target.type": "unix"},
            b"1e400",
            "neither a whole number nor a text",
        ),
        (
            {"type": LENSES + "TimestampConverter", "field": "a", "header.name": "h", "target.type": "unix"},
            b"1e400",
            "neither a whole number nor a text",
        ),
        (
            {"type": LENSES + "TimestampConverter", "field": "a", "header.name": "h", "target.type": "unix"},
            b'"%s"' % _LONG,
            "format.from.pattern does not say",
        ),
        (_HEADER, _LONG, "a number too long"),
        (_HEADER, b"[" * 200 + b"]" * 200, "more than 100 levels"),
    ],
)
def test_numbers_of_any_size_end_nothing(step: dict[str, str], value: bytes, expected: Any) -> None:
    """They have a result, infinite ones none in JSON, or their record is refused."""
    found = converted({**SCHEMALESS, **chain(step)}, [b'{"a":%s}' % value])
    if found.faults:
        (fault,) = found.faults
        assert fault.reason == "transform_refused"
        assert str(expected) in fault.message
    else:
        assert plain(found.runs[0].value) == [{"a": expected}]


def test_a_hexadecimal_number_beyond_doubles_is_infinite() -> None:
    """With its sign."""
    assert [floating("0x1p1024"), floating("-0x1p1024")] == [math.inf, -math.inf]


_SECONDS = 5
_BETWEEN_SINGLES = "1.000000059604644775390625"
_FIT = 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{_BETWEEN_SINGLES}{'0' * _FIT}1", 1.0000001),
        (f"0x1000001{'0' * _FIT}1p-{4 * _FIT + 28}", 1.0000001),
        (f"0x0.{'0' * _FIT}10000010p{4 * _FIT + 4}", 1.0),
        (f"-{'0' * _FIT}{_BETWEEN_SINGLES}f", -1.0),
        # More digits than Python makes a whole number of.
        (f"0x1.00000101p{'0' * 5000}", 1.0000001),
        (f"0x1.00000300p-{'0' * 5000}1", 0.5000001),
        (f"{_BETWEEN_SINGLES}1e{'0' * 5000}", 1.0000001),
        (f"0x1p{'9' * 5000}", None),
        (f"-1e{'9' * 5000}", None),
        (f"{'1' * _FIT}x", "refused"),
        (f"0x{'1' * _FIT}x", "refused"),
        (f"1.{'1' * _FIT}e{'1' * _FIT}x", "refused"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)
def test_a_text_of_a_megabyte_is_read_at_once(text: str, expected: Any) -> None:
    """By steps as many as it has characters: with their square a record would hold its partition."""
    before = time.process_time()
    if expected == "refused":
        with pytest.raises(Refused):
            cast_json(text, CastType.FLOAT32)
    else:
        assert msgspec.json.decode(cast_json(text, CastType.FLOAT32)) == expected
    # Measured at 0.02 s; at a minute and more where digits meet digits.
    assert time.process_time() - before < _SECONDS


def test_numbers_of_a_schema_become_single_ones_at_once() -> None:
    """Also decimals, as BigDecimal does it."""
    fields = [{"field": "n", "type": "int64"}, {"field": "s", "type": "string"}]
    number = 9_007_199_791_611_905
    value = {"schema": {"type": "struct", "fields": fields}, "payload": {"n": number, "s": f"{number}"}}
    step = {"type": KAFKA + "Cast$Value", "spec": "n:float32,s:float32"}
    assert values({**WITH_SCHEMA, **chain(step)}, [value]) == [{"n": 9.0072e15, "s": 9.0072e15}]


def test_a_replacement_has_no_more_digits_than_the_decimals() -> None:
    """Arrow keeps all of them or none."""
    kind = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1}
    schema = {"type": "struct", "fields": [{**kind, "parameters": {"scale": "2"}, "field": "a"}]}
    value = {"schema": schema, "payload": {"a": "AAEC"}}
    mask = {"type": KAFKA + "MaskField$Value", "fields": "a"}
    assert refusals({**WITH_SCHEMA, **chain({**mask, "replacement": "0.001"})}, [value]) == [
        "transform t0: the replacement has more digits than the field's decimals"
    ]
    # By which Arrow would end the process.
    for replacement in ("1e-999999999", "1e999999999"):
        (refusal,) = refusals({**WITH_SCHEMA, **chain({**mask, "replacement": replacement})}, [value])
        assert refusal == "transform t0: the replacement has more digits than the field's decimals"
    assert refusals({**WITH_SCHEMA, **chain({**mask, "replacement": "0.1"})}, [value]) == []


def test_an_exponent_without_end_in_a_header() -> None:
    """Which no decimal has, either."""
    read = header_reader(ConverterKind.JSON_PLAIN)
    assert read(b"1e99999999999999999999").value == math.inf
