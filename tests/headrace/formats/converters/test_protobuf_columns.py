"""Columns of many messages at once are what parsing each one gives, or are left to the parser."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import message_factory
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.converters.protobuf_columns import Unread, message_reader
from headrace.formats.converters.protobuf_reader import ProtobufReader
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.records.protobuf_schemas import ProtobufSchema, connect_schema
from headrace.model.columns import column_of

_SCHEMA: Final = ProtobufSchema(
    """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message All {
  double f1 = 1; float f2 = 2; int64 f3 = 3; uint64 f4 = 4; int32 f5 = 5; fixed64 f6 = 6; fixed32 f7 = 7;
  bool f8 = 8; string f9 = 9; bytes f10 = 10; uint32 f11 = 11; sfixed32 f12 = 12; sfixed64 f13 = 13;
  sint32 f14 = 14; sint64 f15 = 15; Color f16 = 16; google.protobuf.Timestamp f17 = 17; Inner f18 = 18;
  optional int32 o1 = 21; optional string o2 = 22; optional Color o3 = 23;
  repeated int32 r1 = 31; repeated sint64 r2 = 32; repeated double r3 = 33; repeated string r4 = 34;
  repeated Inner r5 = 35; repeated Color r6 = 36; repeated fixed32 r7 = 37;
  repeated bool r8 = 38 [packed = false];
  map<string, int32> m1 = 2001; map<int32, Inner> m2 = 2002; map<bool, Color> m3 = 2003;
  int32 early = 41;
  enum Color { RED = 0; GREEN = 5; BLUE = -1; }
  message Inner { string a = 1; sint32 b = 2; Deep deep = 3; repeated Deep more = 4; }
  message Deep { bytes c = 1; map<string, google.protobuf.Timestamp> at = 2; }
}
message Small { string a = 1; sint32 b = 2; repeated int32 c = 3; map<string, int32> d = 4; }
""",
    {},
)
_ALL: Final = _SCHEMA.message((0,))
_SMALL: Final = _SCHEMA.message((1,))


def _class(message: Any) -> Any:
    return message_factory.GetMessageClass(message)


def _shown(array: Any) -> list[Any]:
    """The rows, with maps in the order of their keys, which is no part of them."""

    def ordered(value: Any) -> Any:
        if isinstance(value, list):
            items = [ordered(each) for each in value]
            return sorted(items, key=repr) if items and isinstance(value[0], tuple) else items
        if isinstance(value, tuple):
            return tuple(ordered(each) for each in value)
        if isinstance(value, dict):
            return {name: ordered(each) for name, each in value.items()}
        return repr(value)

    return [ordered(row) for row in array.to_pylist()]


def _check(message: Any, texts: list[bytes]) -> bool:
    """Whether they were read at once; they are then what the parser gives."""
    read = message_reader(message, connect_schema(message))
    assert read is not None
    data = column_of([b"before", *texts, b"behind"])
    data = type(data)(buffer=data.buffer, starts=data.starts[1:-1], lengths=data.lengths[1:-1])
    try:
        found = read(data)
    except Unread:
        return False
    # So few are parsed one by one, and every one that is no message is a fault.
    faults = RowFaults()
    arrays = []
    for text in texts:
        reader = ProtobufReader(1, message, wants_texts=False)
        rows, array = reader.read(column_of([text]), np.zeros(1, np.int64), faults)
        arrays.append(array)
        assert len(rows) == 1
    found.validate(full=True)
    assert faults.found == {}
    assert found.type == arrow_type(connect_schema(message))
    assert _shown(found) == _shown(pa.concat_arrays(arrays))
    return True


_INT32: Final = st.integers(-(2**31), 2**31 - 1)
_INT64: Final = st.integers(-(2**63), 2**63 - 1)
_TEXT: Final = st.text(max_size=4)
_COLOR: Final = st.sampled_from([0, 5, -1, 7])
_MOMENT: Final = st.fixed_dictionaries(
    {},
    optional={"seconds": st.integers(-62_135_596_800, 253_402_300_799), "nanos": st.integers(0, 999_999_999)},
)
_DEEP: Final = st.fixed_dictionaries(
    {}, optional={"c": st.binary(max_size=3), "at": st.dictionaries(_TEXT, _MOMENT, max_size=2)}
)
_INNER: Final = st.fixed_dictionaries(
    {}, optional={"a": _TEXT, "b": _INT32, "deep": _DEEP, "more": st.lists(_DEEP, max_size=2)}
)
_ROWS: Final = st.fixed_dictionaries(
    {},
    optional={
        "f1": st.floats(),
        "f2": st.floats(width=32),
        "f3": _INT64,
        "f4": st.integers(0, 2**63 - 1),
        "f5": _INT32,
        "f6": st.integers(0, 2**63 - 1),
        "f7": st.integers(0, 2**32 - 1),
        "f8": st.booleans(),
        "f9": _TEXT,
        "f10": st.binary(max_size=200),
        "f11": st.integers(0, 2**32 - 1),
        "f12": _INT32,
        "f13": _INT64,
        "f14": _INT32,
        "f15": _INT64,
        "f16": _COLOR,
        "f17": _MOMENT,
        "f18": _INNER,
        "o1": _INT32,
        "o2": _TEXT,
        "o3": _COLOR,
        "r1": st.lists(_INT32, max_size=3),
        "r2": st.lists(_INT64, max_size=3),
        "r3": st.lists(st.floats(), max_size=3),
        "r4": st.lists(_TEXT, max_size=3),
        "r5": st.lists(_INNER, max_size=2),
        "r6": st.lists(_COLOR, max_size=3),
        "r7": st.lists(st.integers(0, 2**32 - 1), max_size=3),
        "r8": st.lists(st.booleans(), max_size=3),
        "m1": st.dictionaries(_TEXT, _INT32, max_size=2),
        "m2": st.dictionaries(_INT32, _INNER, max_size=2),
        "m3": st.dictionaries(st.booleans(), _COLOR, max_size=2),
        "early": _INT32,
    },
)


@given(rows=st.lists(_ROWS, min_size=1, max_size=4))
def test_messages_as_writers_write_them_are_read_at_once(rows: list[dict[str, Any]]) -> None:
    """Of every type, there or not, in messages, lists and maps."""
    assert _check(_ALL, [_class(_ALL)(**row).SerializeToString(deterministic=True) for row in rows])


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """A message with octets changed, left out, put in or twice; or the rest of another behind it."""
    made = [_class(_SMALL)(**draw(_SMALLS)).SerializeToString() for _ in range(draw(st.integers(1, 2)))]
    found = bytearray(b"".join(made))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(found)))
        octets = draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"\x80", b"\xff" * 9, b"\x08", b"\x0a"]))
        )
        found[at : at + draw(st.integers(0, 2))] = octets
    return bytes(found)


_SMALLS: Final = st.fixed_dictionaries(
    {},
    optional={
        "a": _TEXT,
        "b": _INT32,
        "c": st.lists(_INT32, max_size=3),
        "d": st.dictionaries(_TEXT, _INT32, max_size=2),
    },
)


@given(text=_damaged())
def test_what_is_read_at_once_is_what_the_parser_reads(text: bytes) -> None:
    """Whatever the octets are: no message is read that the parser refuses, or reads otherwise."""
    whole = _class(_SMALL)(a="x", b=1).SerializeToString()
    _check(_SMALL, [whole, text, whole])


@pytest.mark.parametrize(
    "text",
    [
        b"\x10\x02\x0a\x01x",  # fields in another order
        b"\x0a\x01x\x0a\x01y",  # one twice
        b"\x0a\x01x\x50\x01",  # one that the schema does not have
        b"\x18\x01\x18\x02",  # a list that is not packed
        b"\x22\x05\x0a\x01k\x10\x01\x22\x05\x0a\x01k\x10\x02",  # a key twice
        b"\x0a\x01\xff",  # no UTF-8
        b"\x0a\x05x",  # an end in the middle
        b"\x10" + b"\xff" * 10 + b"\x01",  # a number without end
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length beyond all
        b"\x1a\x01\x80",  # a list that ends within a number
        b"\x1a\x0b" + b"\xff" * 10 + b"\x01",  # or has one without end
        b"\x0b",
    ],
)
def test_what_writers_do_not_write_is_for_the_parser(text: bytes) -> None:
    """All messages beside it are, too; the parser knows what is a fault of them."""
    assert not _check(_SMALL, [b"\x0a\x01x", text])


def test_damage_is_a_fault_of_its_row_alone() -> None:
    """Among many."""
    good = _class(_SMALL)(a="x", c=[1, 300]).SerializeToString()
    faults = RowFaults()
    reader = ProtobufReader(1, _SMALL, wants_texts=False)
    rows, array = reader.read(column_of([good] * 200 + [b"\x0a\x05x"]), np.arange(201), faults)

    assert rows.tolist() == list(range(200))
    assert array.to_pylist() == [{"a": "x", "b": 0, "c": [1, 300], "d": []}] * 200
    assert list(faults.found) == [200]
    with pytest.raises(DecodeError):
        _class(_SMALL).FromString(b"\x0a\x05x")


@pytest.mark.parametrize(
    "fields",
    [
        "oneof x { int32 a = 1; string b = 2; }",
        "google.type.Date a = 1;",
        "confluent.type.Decimal a = 1;",
        "Empty a = 1; message Empty {}",
    ],
)
def test_what_is_seldom_is_for_the_parser(fields: str) -> None:
    """Unions, days and decimals, and messages without fields."""
    imports = 'import "google/type/date.proto"; import "confluent/type/decimal.proto";'
    message = ProtobufSchema(f'syntax = "proto3"; {imports} message R {{ {fields} }}', {}).message((0,))
    assert message_reader(message, connect_schema(message)) is None


@pytest.mark.parametrize("field", ["required int32 a = 1;", "optional E a = 1; enum E { A = 0; }"])
def test_what_only_proto2_has_is_for_the_parser(field: str) -> None:
    """Fields that have to be there, and enumerations that take no other number."""
    message = ProtobufSchema(f'syntax = "proto2"; message R {{ {field} }}', {}).message((0,))
    assert message_reader(message, connect_schema(message)) is None
