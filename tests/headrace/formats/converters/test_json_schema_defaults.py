"""What JSON Schema allows next to types, in columns: defaults, nulls among symbols, integers as 1.0."""

import json
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.connect.payloads import PayloadSchema, UnfitValue
from headrace.formats.connect.schema import DECIMAL
from headrace.formats.connect.schema_documents import ONE_OF, schema_of_json_schema
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat
from tests.headrace.formats.encoding.outputs import bare, converters, encoded, fetched
from tests.headrace.formats.encoding.registry import framed_as, registry

_INNER: Final = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_DECIMAL: Final = {
    "type": "number",
    "title": DECIMAL,
    "connect.type": "bytes",
    "connect.parameters": {"scale": "2"},
}
_BYTES: Final = {"type": "string", "connect.type": "bytes"}
_SINGLE: Final = {"type": "number", "connect.type": "float32"}
_FIELDS: Final = [f"{ONE_OF}.field.{number}" for number in (0, 1)]


def _read(shape: Any, *values: bytes) -> Any:
    """The members `n` of values of an object with `n` of this schema and `id`, and the faults."""
    one = registry()
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "n": shape}}
    kinds = converters(ConverterSettings(kind=ConverterKind.JSON_SCHEMA, registry=one))
    records = fetched([framed_as(one, "JSON", json.dumps(schema), each) for each in values])
    how = bare(OutputFormat.PARQUET)
    faults = RecordConverter(kinds, how).convert(records).faults
    if faults:
        return [each.reason for each in faults]
    return pq.read_table(pa.BufferReader(encoded(records, how, kinds)))["n"].to_pylist()


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ({"type": "integer", "default": 5}, 5),
        ({"type": "integer", "default": ""}, None),
        ({"type": "integer", "default": 1.5}, None),
        ({"type": "integer", "connect.type": "int8", "default": 300}, None),
        ({"type": "string", "default": 0}, None),
        ({"type": "boolean", "default": "true"}, None),
        ({**_INNER, "default": {}}, None),
        ({**_INNER, "default": {"q": "x"}}, {"q": "x"}),
        ({**_TEXTS, "default": "abc"}, None),
        ({**_TEXTS, "default": []}, []),
        ({**_BYTES, "default": "%"}, None),
        ({**_BYTES, "default": "AQ=="}, b"\x01"),
        ({**_DECIMAL, "default": 1.25}, Decimal("1.25")),
        ({**_DECIMAL, "default": 1.255}, None),
        ({**_SINGLE, "default": 1e39}, None),
        ({"type": ["integer", "null"], "default": "x"}, None),
    ],
)
def test_a_default_that_is_no_value_of_its_type_is_left_out(shape: Any, found: Any) -> None:
    """In JSON Schema it is a remark; the others stand for what is missing."""
    assert _read(shape, b'{"id":"x"}') == [found]


@pytest.mark.parametrize("optional", [True, False])
def test_the_schema_of_connect_has_no_such_default(optional: bool) -> None:
    """Encoders of vendors' layouts would write it."""
    required = [] if optional else ["n"]
    shape = {"type": "object", "properties": {"n": {"type": "integer", "default": ""}}, "required": required}

    (field,) = schema_of_json_schema(json.dumps(shape), {}).fields

    assert field.schema.default is None


_SYMBOLS: Final = ["A", "B", None]


@pytest.mark.parametrize(
    ("shape", "values", "found"),
    [
        ({"type": ["string", "null"], "enum": _SYMBOLS}, [b'"A"', b"null"], ["A", None]),
        ({"enum": _SYMBOLS}, [b'"B"', b"null"], ["B", None]),
        ({"enum": _SYMBOLS, "default": "A"}, [b"null"], ["A"]),
        ({"oneOf": [{"type": "null"}, {"enum": _SYMBOLS}]}, [b'"A"', b"null"], ["A", None]),
        ({"type": "string", "enum": ["A", 1, None]}, [b'"A"'], ["A"]),
        ({"type": ["integer", "null"], "enum": [1, None]}, [b"1", b"null"], [1, None]),
        ({"enum": [None]}, [b"null"], ["schema_unsupported"]),
        ({"enum": [1, "A"]}, [b'"A"'], ["schema_unsupported"]),
    ],
)
def test_an_enum_with_null_is_a_text_that_may_be_null(shape: Any, values: list[bytes], found: Any) -> None:
    """Next to several types it says nothing."""
    assert _read(shape, *(b'{"id":"x","n":%b}' % value for value in values)) == found


@pytest.mark.parametrize("symbols", [["A"], ["A", None]])
def test_connect_has_no_enum_next_to_a_list_of_types(symbols: list[Any]) -> None:
    """Its converter gives the parameters of an enum to one of a single type, or of none."""
    listed = schema_of_json_schema(json.dumps({"type": ["string", "null"], "enum": symbols}), {})
    alone = schema_of_json_schema(json.dumps({"enum": symbols}), {})

    assert (listed.optional, listed.parameters) == (True, ())
    assert [name for name, _ in alone.parameters] == [
        "io.confluent.connect.json.Enum",
        "io.confluent.connect.json.Enum.A",
    ]


_WHOLE: Final = {"type": "integer"}
_EITHER: Final = {"oneOf": [_WHOLE, {"type": "number"}]}


@pytest.mark.parametrize(
    ("shape", "value", "found"),
    [
        (_WHOLE, b"1.0", [1]),
        (_WHOLE, b"-1e3", [-1000]),
        (_WHOLE, b"-0.0", [0]),
        (_WHOLE, b"9223372036854775807", [2**63 - 1]),
        (_WHOLE, b"1.5", ["not_json"]),
        (_WHOLE, b"1e400", ["not_json"]),
        # No double has its digits.
        (_WHOLE, b"9007199254740993.0", ["not_json"]),
        (_WHOLE, b'"1"', ["not_json"]),
        ({**_WHOLE, "connect.type": "int8"}, b"300.0", ["not_json"]),
        ({"type": "array", "items": {"type": ["integer", "null"]}}, b"[1,2.0,null]", [[1, 2, None]]),
        ({"type": "object", "additionalProperties": _WHOLE}, b'{"k":2.0}', [[("k", 2)]]),
        # Of several types it is a number still, as in Kafka Connect.
        (_EITHER, b"1.0", [dict(zip(_FIELDS, (None, 1.0), strict=True))]),
        (_EITHER, b"1", [dict(zip(_FIELDS, (1, None), strict=True))]),
    ],
)
def test_an_integer_may_have_a_fraction_of_zeros(shape: Any, value: bytes, found: Any) -> None:
    """To JSON Schema 1.0 is one; what is none is a bad record."""
    assert _read(shape, b'{"id":"x","n":%b}' % value) == found


_GREATEST: Final = b"3.4028235e38"


def test_a_number_that_no_float_holds_is_refused_in_json_schema() -> None:
    """It would be infinite."""
    assert _read(_SINGLE, b'{"id":"x","n":1e39}') == ["not_json"]
    assert _read(_SINGLE, b'{"id":"x","n":%b}' % _GREATEST) == [pytest.approx(float(_GREATEST))]


def test_a_number_that_no_float_holds_is_refused_in_kafka_connects_json() -> None:
    """The same of a payload next to its schema."""
    schema = PayloadSchema.of_text(b'{"type":"float"}')

    assert schema.array([_GREATEST]).to_pylist() == [pytest.approx(float(_GREATEST))]
    for number in (b"1e39", b"-1e39", b"3.4028236e38"):
        with pytest.raises(UnfitValue):
            schema.array([number])


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    """In a sentence, where reading it would end in an error of Python's."""
    shape: Any = {"type": "integer"}
    for _ in range(450):
        shape = {"type": "array", "items": shape}

    assert _read(shape, b'{"id":"x"}') == ["schema_unsupported"]
