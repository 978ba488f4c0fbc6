"""Texts as SimpleHeaderConverter reads them, their JSON, and the text that Confluent's sink makes of them."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.connect import ConnectSchema, Type, plain
from headrace.formats.connect.parsed_text import parsed
from headrace.formats.connect.schema import DATE, DECIMAL, SCALE, TIME, TIMESTAMP
from headrace.formats.connect.values import NULL, ConnectValue, value_json, value_text


@pytest.mark.parametrize(
    ("text", "kind", "value", "json_text"),
    [
        ("", Type.STRING, "", '""'),
        ("abc", Type.STRING, "abc", '"abc"'),
        ("  ", Type.STRING, "  ", '"  "'),
        (' "a"', Type.STRING, ' "a"', '" \\"a\\""'),
        (" {a:1}", Type.STRING, " {a:1}", '" {a:1}"'),
        ("\t: 5", Type.STRING, "\t: 5", '"\\t: 5"'),
        ("42", Type.INT8, 42, "42"),
        (" 42 ", Type.INT8, 42, "42"),
        ("-129", Type.INT16, -129, "-129"),
        ("1e3", Type.INT16, 1000, "1000"),
        ("70000", Type.INT32, 70000, "70000"),
        ("9223372036854775807", Type.INT64, 2**63 - 1, str(2**63 - 1)),
        ("1.0", Type.INT8, 1, "1"),
        ("-0.0", Type.INT8, 0, "0"),
        ("1.5", Type.FLOAT32, 1.5, "1.5"),
        ("1e30", Type.FLOAT32, float.fromhex("0x1.93e594p+99"), "1.0E30"),
        ("1e300", Type.FLOAT64, 1e300, "1.0E300"),
        ("true", Type.BOOLEAN, True, "true"),
        (" false ", Type.BOOLEAN, False, "false"),
        ("True", Type.STRING, "True", '"True"'),
        ("true}", Type.STRING, "true}", '"true}"'),
        ("00-4bf92f35-01", Type.STRING, "00-4bf92f35-01", '"00-4bf92f35-01"'),
        ("2024-01-01T00:00:00Z", Type.STRING, "2024-01-01T00:00:00Z", '"2024-01-01T00:00:00Z"'),
        ("e,f;g:h\n", Type.STRING, "e,f;g:h\n", '"e,f;g:h\\n"'),
        ("[a]", Type.STRING, "[a]", '"[a]"'),
        ("[1,", Type.STRING, "[1,", '"[1,"'),
        ("{", Type.STRING, "{", '"{"'),
        ("\\", Type.STRING, "\\", '"\\\\"'),
        ("[1,2.5]", Type.ARRAY, [1.0, 2.5], "[1.0,2.5]"),
        ("[]", Type.ARRAY, [], "[]"),
        ('["a", "b c"]', Type.ARRAY, ["a", "b c"], '["a","b c"]'),
        ('[1,"a",null,true]', Type.ARRAY, [1, "a", None, True], '[1,"a",null,true]'),
        ("[[1],[2]]", Type.ARRAY, [[1], [2]], "[[1],[2]]"),
        ('{"a":1}', Type.MAP, (("a", 1),), '{"a":1}'),
        ('{"a":{"b":[300,1]}, "c":{"d":[]}}', Type.MAP, None, '{"a":{"b":[300,1]},"c":{"d":[]}}'),
        ("{1:2,3:4}", Type.MAP, ((1, 2), (3, 4)), "[[1,2],[3,4]]"),
        ("{}", Type.MAP, (), "{}"),
        ("42,43", Type.INT8, 42, "42"),
    ],
)
def test_texts_become_values(text: str, kind: Type, value: Any, json_text: str) -> None:
    """The least type that holds a number; what cannot be read as more is a string."""
    found = parsed(text)

    assert found.schema is not None
    assert found.schema.type is kind
    assert value is None or found.value == value
    assert value_json(found) == json_text


def test_null_is_null() -> None:
    """And has no schema."""
    assert parsed("null") == NULL
    assert value_json(NULL) == "null"
    assert value_text(NULL) is None


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("2024-01-01", DATE, 19723),
        ("01:00:00.001Z", TIME, 3_600_001),
        ("2024-01-01T00:00:00.005Z", TIMESTAMP, 1_704_067_200_005),
    ],
)
def test_dates_and_times_in_connects_own_form(text: str, name: str, value: int) -> None:
    """Alone, and as members in quotes; their text is the same again."""
    found = parsed(text)

    assert found.schema is not None
    assert (found.schema.name, found.value) == (name, value)
    assert value_text(found) == text
    assert parsed(f'["{text}"]').value == [value]


def test_a_number_beyond_all_is_a_decimal() -> None:
    """With the digits it has."""
    found = parsed("123456789012345678901")

    assert found == ConnectValue(
        ConnectSchema(type=Type.BYTES, name=DECIMAL, version=1, parameters=((SCALE, "0"),)),
        Decimal(123456789012345678901),
    )
    assert value_text(found) == "123456789012345678901"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (parsed("42"), "42"),
        (parsed("0.1"), "0.1"),
        (parsed("true"), "true"),
        (parsed('{"a":[1,2]}'), '{"a":[1,2]}'),
        (ConnectValue(plain(Type.BYTES), b"\x00\xff"), "AP8="),
        (ConnectValue(plain(Type.STRING), 'a"b'), 'a"b'),
        (ConnectValue(ConnectSchema(type=Type.ARRAY), ['a"b', None]), '["a\\"b",null]'),
        (ConnectValue(plain(Type.FLOAT64), 1e10), "1.0E10"),
    ],
    ids=str,
)
def test_values_as_text(found: ConnectValue, text: str) -> None:
    """As `Values.convertToString` makes it."""
    assert value_text(found) == text


@given(st.text(st.sampled_from('[]{}:," \\ntrue0129.eE-+aZ') | st.characters(), max_size=30))
def test_any_text_is_some_value(text: str) -> None:
    """Nothing fails."""
    value_json(parsed(text))
    value_text(parsed(text))
