"""JSON of values as the real sinks wrote it: byte for byte with a schema, by content without one."""

import gzip
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.connect import ConnectSchema, Default, InvalidSchema, Type, plain, struct
from headrace.formats.connect.java_text import (
    jackson_column,
    jackson_json,
    jackson_text,
    java_double,
    java_float,
)
from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.payloads import PayloadSchema, UnfitValue, with_defaults
from headrace.formats.connect.schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    schema_of_json,
    unscaled_decimal,
)
from headrace.formats.converted_records import header_reader
from headrace.model.columns import column_of
from headrace.options.schema_settings import Astral, DecimalFormat, JsonStyle
from headrace.options.sink_settings import ConverterKind
from tests.headrace.vendors.archive import Archive, archive

_BASE64: Final = JsonStyle()
_NUMERIC: Final = JsonStyle(decimals=DecimalFormat.NUMERIC)
_RAW: Final = JsonStyle(astral=Astral.RAW)


def _lines(source: Archive) -> list[str]:
    """The rows of the value objects, in no order."""
    found = []
    for key, body in source.objects.items():
        if not key.startswith(".indexes") and not any(word in key for word in (".keys.", ".headers.")):
            text = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
            found += [line.decode() for line in text.split(b"\n") if line]
    return sorted(found)


def _struct_lines(source: Archive, style: JsonStyle) -> list[str]:
    found = []
    for record in source.records:
        if record.value is not None:
            envelope = json.loads(record.value)
            schema = PayloadSchema.of_text(json.dumps(envelope["schema"]).encode())
            array = schema.array([json.dumps(envelope["payload"]).encode()])
            found += connect_json(array, schema.connect, style).to_pylist()
    return sorted(found)


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("confluent-json_struct_numeric", _NUMERIC),
        ("confluent-field_flat", _BASE64),
        ("confluent-kvh_json", _BASE64),
        ("lenses-json_struct", _NUMERIC),
    ],
)
def test_structs_are_written_as_the_sinks_do(name: str, style: JsonStyle) -> None:
    """The very bytes of each row."""
    found = _lines(archive(name))

    assert found
    assert found == _struct_lines(archive(name), style)


@pytest.mark.parametrize("name", ["confluent-json_default", "confluent-time_record"])
def test_schemaless_texts_are_written_as_the_sinks_do(name: str) -> None:
    """The same members and the same spelling of numbers; theirs stand in the order of a hash table."""
    source = archive(name)
    texts = jackson_column(column_of([record.value for record in source.records]))
    ours = [(texts.get(row) or b"null").decode() for row in range(len(texts))]

    assert sorted(map(_canonical, ours)) == sorted(map(_canonical, _lines(source)))


def _canonical(text: str) -> str:
    """The text with members sorted, numbers as they are spelled."""
    return json.dumps(json.loads(text, parse_float=str, parse_int=str), sort_keys=True)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (b"1e3", b"1000.0"),
        (b"-0.0", b"0.0"),
        (b"-0", b"0"),
        (b"5e-324", b"4.9E-324"),
        (b"12345678.5", b"1.23456785E7"),
        (b"0.0009", b"9.0E-4"),
        (b'{"a":  1.50}', b'{"a":1.5}'),
        (b"9223372036854775808", b"9223372036854775808"),
        (b"1e999", b'"Infinity"'),
        (b'"\\u00e9\\/"', '"é/"'.encode()),
        (b'"\\u001f\\u0008"', b'"\\u001F\\b"'),
        ('"😀"'.encode(), b'"\\uD83D\\uDE00"'),
        ('"\u2028"'.encode(), '"\u2028"'.encode()),
    ],
)
def test_numbers_and_escapes_without_schema(text: bytes, written: bytes) -> None:
    """What Jackson makes of them."""
    assert jackson_json(text) == written


def test_characters_beyond_the_plane_stay_where_text_is_written() -> None:
    """As in Lenses' envelope."""
    assert jackson_json('{"a": "😀"}'.encode(), Astral.RAW) == '{"a":"😀"}'.encode()


_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES, st.sampled_from(list(Astral)))
def test_what_is_left_unchanged_needs_no_change(value: Any, astral: Astral) -> None:
    """The quick way and the long way agree, and the second time nothing changes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    once = jackson_json(text, astral)

    assert once == jackson_text(json.loads(text, parse_float=lambda each: float(each) + 0.0), astral).encode()
    assert jackson_json(once, astral) == once
    assert json.loads(once) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (5e-324, "4.9E-324"),
        (2e23, "2.0E23"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (-123456.789, "-123456.789"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_in_javas_spelling(value: float, text: str) -> None:
    """`Double.toString`."""
    assert java_double(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (2.0**-149, "1.4E-45"),
        (2.0**-96, "1.2621775E-29"),
        (3.4028234663852886e38, "3.4028235E38"),
    ],
)
def test_floats_in_javas_spelling(value: float, text: str) -> None:
    """`Float.toString`."""
    assert java_float(value) == text


@given(st.floats())
def test_doubles_come_back(value: float) -> None:
    """The text is that of the same number, and has a point."""
    text = java_double(value)

    assert float(text.replace("Infinity", "inf")) == value or value != value  # noqa: PLR0124  # NaN is not equal to itself
    assert "." in text or text.lstrip("-") in {"NaN", "Infinity"}


def _logical(name: str, kind: Type, *parameters: tuple[str, str]) -> ConnectSchema:
    return ConnectSchema(type=kind, name=name, version=1, optional=True, parameters=parameters)


@pytest.mark.parametrize(
    ("schema", "payload", "style", "text"),
    [
        (_logical(DATE, Type.INT32), 19723, _BASE64, "19723"),
        (_logical(TIME, Type.INT32), 3600000, _BASE64, "3600000"),
        (_logical(TIMESTAMP, Type.INT64), -1, _BASE64, "-1"),
        (_logical(DECIMAL, Type.BYTES, (SCALE, "2")), "MDk=", _BASE64, '"MDk="'),
        (_logical(DECIMAL, Type.BYTES, (SCALE, "2")), "/w==", _NUMERIC, "-0.01"),
        (_logical(DECIMAL, Type.BYTES, (SCALE, "9")), "AQ==", _NUMERIC, "1E-9"),
        (_logical(TIMESTAMP, Type.INT64), 253_402_300_800_000, _BASE64, "253402300800000"),
        (_logical(TIMESTAMP, Type.INT64), 2**63 - 1, _BASE64, "9223372036854775807"),
        (_logical(DATE, Type.INT32), 2**31 - 1, _BASE64, "2147483647"),
        (plain(Type.BYTES), "AP8=", _BASE64, '"AP8="'),
        (plain(Type.FLOAT64), 1e10, _BASE64, "1.0E10"),
        (plain(Type.FLOAT64), 3, _BASE64, "3.0"),
        (plain(Type.INT8), -5, _BASE64, "-5"),
        (plain(Type.BOOLEAN), True, _BASE64, "true"),
        (plain(Type.STRING), 'a"\x1f😀', _BASE64, '"a\\"\\u001F\\uD83D\\uDE00"'),
        (plain(Type.STRING), "😀", _RAW, '"😀"'),
        (plain(Type.STRING, optional=True), None, _BASE64, "null"),
    ],
)
def test_values_with_a_schema(schema: ConnectSchema, payload: Any, style: JsonStyle, text: str) -> None:
    """As JsonConverter writes them without schemas."""
    assert _written(schema, payload, style) == text


_LISTS: Final = ConnectSchema(type=Type.ARRAY, items=plain(Type.STRING))
_PAIRS: Final = ConnectSchema(type=Type.MAP, key=plain(Type.INT32), value=plain(Type.STRING))
_UNFIT: Final = [
    (_logical(TIME, Type.INT32), b"-1"),
    (_logical(TIME, Type.INT32), b"86400000"),
    (_logical(TIMESTAMP, Type.INT64), b"1.0"),
    (_logical(DATE, Type.INT32), b'"1"'),
    (_logical(DECIMAL, Type.BYTES, (SCALE, "1")), b"1.25"),
    (_logical(DECIMAL, Type.BYTES, (SCALE, "1")), b"1e-999999999"),
    (_logical(DECIMAL, Type.BYTES, (SCALE, "1")), b"1e999999999"),
    (_logical(DECIMAL, Type.BYTES, (SCALE, "1")), b"true"),
    (plain(Type.FLOAT64), b"1e999"),
    (_LISTS, b'"abc"'),
    (_LISTS, b'{"a":1}'),
    (_PAIRS, b"[[1]]"),
    (_PAIRS, b'[[1,"a","b"]]'),
    (_PAIRS, b'["ab"]'),
    (_PAIRS, b'[{"a":1}]'),
    (replace(_PAIRS, default=Default("[[1]]")), b"null"),
]


@pytest.mark.parametrize(("schema", "payload"), _UNFIT)
def test_what_is_no_value_of_its_schema_is_refused(schema: ConnectSchema, payload: bytes) -> None:
    """A time of the day wraps round otherwise, and Arrow does not survive some decimals."""
    with pytest.raises(UnfitValue):
        PayloadSchema(schema).array([payload])


@pytest.mark.parametrize(
    "digits", ["1.23456789012345678901", "-98765432109876543.5e-3", "123456789012345678"]
)
def test_a_decimal_that_is_a_number_keeps_its_digits(digits: str) -> None:
    """In values, in defaults, and in headers: Kafka's converter reads it so."""
    schema = _logical(DECIMAL, Type.BYTES, (SCALE, "20"))
    (found,) = PayloadSchema(schema).array([digits.encode()]).to_pylist()
    assert found == Decimal(digits)

    shape = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "20"}, "optional": True}
    text = json.dumps(shape | {"default": "@"}).replace('"@"', digits)
    (filled,) = with_defaults(
        pa.array([{"f": None}], pa.struct([("f", pa.decimal128(38, 20))])),
        struct(("f", PayloadSchema.of_text(text.encode()).connect)),
    ).to_pylist()
    assert filled == {"f": Decimal(digits)}

    header = header_reader(ConverterKind.JSON)(
        b'{"schema":%b,"payload":%b}' % (json.dumps(shape).encode(), digits.encode())
    )
    assert header.value == Decimal(digits)


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"type": "int32", "name": TIME}, "-1"),
        ({"type": "bytes", "name": DECIMAL}, "1e999999999"),
    ],
)
def test_such_a_header_is_refused(schema: dict[str, str], payload: str) -> None:
    """With its record."""
    with pytest.raises(ValueError, match="no value of the schema"):
        header_reader(ConverterKind.JSON)(f'{{"schema":{json.dumps(schema)},"payload":{payload}}}'.encode())


def _written(schema: ConnectSchema, payload: Any, style: JsonStyle = _BASE64) -> str:
    array = PayloadSchema(schema).array([json.dumps(payload).encode()])
    (text,) = connect_json(array, schema, style).to_pylist()
    return str(text)


def test_maps_are_objects_only_where_keys_are_text() -> None:
    """Else they are lists of pairs."""
    number, word = plain(Type.INT32), plain(Type.STRING)
    named = ConnectSchema(type=Type.MAP, key=word, value=number)
    counted = ConnectSchema(type=Type.MAP, key=number, value=word)

    assert _written(named, {"a": 1, "b": 2}) == '{"a":1,"b":2}'
    assert _written(counted, [[1, "a"], [2, "b"]]) == '[[1,"a"],[2,"b"]]'


_DAY: Final = _logical(DATE, Type.INT32)
_CENTS: Final = _logical(DECIMAL, Type.BYTES, (SCALE, "2"))


def _keyed(key: ConnectSchema, value: ConnectSchema = _DAY) -> ConnectSchema:
    return ConnectSchema(type=Type.MAP, key=key, value=value)


@pytest.mark.parametrize(
    ("schema", "payload", "text"),
    [
        (_DAY, 19844, "1714521600000"),
        (replace(_DAY, optional=True, default=Default("5")), None, "432000000"),
        (_logical(TIME, Type.INT32), 36000000, "36000000"),
        (_CENTS, "BNI=", "12.34"),
        (plain(Type.BYTES), "AQ==", '"AQ=="'),
        (plain(Type.STRING), "a", '"a"'),
        (ConnectSchema(type=Type.ARRAY, items=_CENTS), ["BNI="], "[12.34]"),
        (_keyed(plain(Type.STRING)), {'a"': 1}, '{"a\\"":86400000}'),
        (_keyed(plain(Type.INT32), plain(Type.STRING)), [[1, "a"]], '{"1":"a"}'),
        (_keyed(plain(Type.INT32)), [], "{}"),
        (_keyed(plain(Type.BOOLEAN)), [[True, 1]], '{"true":86400000}'),
        (
            _keyed(plain(Type.FLOAT64), _CENTS),
            [[1.5, "BNI="], [1e10, "BNI="]],
            '{"1.5":12.34,"1.0E10":12.34}',
        ),
        (_keyed(_DAY, plain(Type.STRING)), [[1, "a"]], '{"1970-01-02T00:00:00.000+00:00":"a"}'),
        (_keyed(_CENTS, plain(Type.BYTES)), [["BNI=", "AQ=="]], '{"12.34":"AQ=="}'),
        (_keyed(plain(Type.BYTES)), [["AQ==", 1]], '{"AQ==":86400000}'),
        (
            struct(("d", _DAY), ("m", _keyed(plain(Type.INT32))), ("c", _CENTS)),
            {"d": 1, "m": [[1, 1]], "c": "BNI="},
            '{"d":1,"m":[[1,1]],"c":"BNI="}',
        ),
    ],
)
def test_objects_of_java(schema: ConnectSchema, payload: Any, text: str) -> None:
    """As Jackson writes what JsonConverter has read (Kafka 3.9); structs are JsonConverter's."""
    assert _written(schema, payload, JsonStyle(of_java=True)) == text


def test_a_default_stands_for_null_unless_it_is_told_not_to() -> None:
    """`replace.null.with.default`."""
    member = ConnectSchema(type=Type.STRING, optional=True, default=Default('"none"'))
    schema = struct(("a", member), ("b", plain(Type.INT64, optional=True)))
    array = pa.array([{"a": None, "b": None}, {"a": "x", "b": 1}])

    assert connect_json(array, schema).to_pylist() == ['{"a":"none","b":null}', '{"a":"x","b":1}']
    kept = connect_json(array, schema, JsonStyle(fill_defaults=False)).to_pylist()
    assert kept[0] == '{"a":null,"b":null}'


def test_a_schema_that_names_a_field_twice_is_refused() -> None:
    """As Kafka Connect refuses it; one of the values would be lost."""
    field = {"field": "a", "type": "int32"}
    shape = {"type": "struct", "fields": [field, field]}

    with pytest.raises(InvalidSchema, match="twice"):
        schema_of_json(json.dumps(shape))


@pytest.mark.parametrize("sign", [b"", b"-"])
def test_a_whole_number_of_any_size_stays_as_it_is(sign: bytes) -> None:
    """Also where something else of the text is written another way, and beyond what Python reads."""
    digits = sign + b"1" * 5000

    assert jackson_json(b'{"a": %b, "b": [-0, 1.50]}' % digits) == b'{"a":%b,"b":[0,1.5]}' % digits


@pytest.mark.parametrize("sign", [1, -1])
def test_a_decimal_has_a_thousand_digits_at_most(sign: int) -> None:
    """More are refused before they are counted, which would take minutes for what a record may hold."""

    def octets(number: int) -> bytes:
        return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)

    assert unscaled_decimal(octets(sign * (10**1000 - 1)), 2) == Decimal(f"{sign * (10**1000 - 1)}e-2")
    assert unscaled_decimal(bytes(2_000_000) + b"\x07", 2) == Decimal("0.07")
    for digits in (1001, 1030, 2_000_000):
        with pytest.raises(ArithmeticError):
            unscaled_decimal(octets(sign * (1 << digits * 10 // 3)), 2)
