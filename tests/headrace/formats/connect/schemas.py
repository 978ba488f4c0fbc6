"""Schemas of Kafka Connect with payloads of theirs, for laws."""

import base64
import json
from typing import Any, Final

from hypothesis import strategies as st

from headrace.formats.connect import ConnectField, ConnectSchema, Default, Type
from headrace.formats.connect.schema import DATE, DECIMAL, PRECISION, SCALE, TIME, TIMESTAMP

_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_OCTETS: Final = st.binary(max_size=4).map(lambda octets: base64.b64encode(octets).decode())
_FLOATS: Final = st.floats(allow_nan=False, allow_infinity=False)
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}

# A schema with what makes payloads of it.
Pair = tuple[ConnectSchema, st.SearchStrategy[Any]]


def _whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimal_text(number: int) -> str:
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


def _logical(name: str, kind: Type, *parameters: tuple[str, str]) -> ConnectSchema:
    return ConnectSchema(type=kind, name=name, version=1, parameters=parameters)


_SCALARS: Final[list[Pair]] = [
    *((ConnectSchema(type=kind), _whole(bits)) for kind, bits in _BITS.items()),
    (ConnectSchema(type=Type.FLOAT64), _FLOATS),
    (ConnectSchema(type=Type.FLOAT32), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (ConnectSchema(type=Type.BOOLEAN), st.booleans()),
    (ConnectSchema(type=Type.STRING), _TEXT),
    (ConnectSchema(type=Type.BYTES), _OCTETS),
    (_logical(DATE, Type.INT32), st.integers(-700_000, 2_900_000)),
    (_logical(TIME, Type.INT32), st.integers(0, 86_399_999)),
    (_logical(TIMESTAMP, Type.INT64), st.integers(-(10**13), 10**14)),
    (_logical(DECIMAL, Type.BYTES, (SCALE, "2")), st.integers(-(10**9), 10**9).map(_decimal_text)),
    (
        _logical(DECIMAL, Type.BYTES, (SCALE, "3"), (PRECISION, "12")),
        st.integers(-(10**11), 10**11).map(_decimal_text),
    ),
]


@st.composite
def _decorated(draw: st.DrawFn, inner: Pair, *, named: bool) -> Pair:
    """The same, perhaps optional, with documentation, parameters or a default."""
    schema, payloads = inner
    optional = draw(st.booleans())
    decorations: dict[str, Any] = {"optional": optional}
    if schema.name is None and draw(st.booleans()):
        decorations["doc"] = draw(_TEXT)
        decorations["parameters"] = tuple(
            draw(st.dictionaries(_TEXT.map("p{}".format), _TEXT, max_size=2)).items()
        )
    if named and draw(st.booleans()):
        decorations["version"] = draw(st.integers(1, 9))
    if schema.type not in {Type.STRUCT, Type.MAP, Type.ARRAY} and draw(st.booleans()):
        decorations["default"] = Default(
            json.dumps(draw(payloads), ensure_ascii=False, separators=(",", ":"))
        )
    fields = {name: getattr(schema, name) for name in ConnectSchema.__slots__}
    found = ConnectSchema(**(fields | decorations))
    return found, st.none() | payloads if optional else payloads


@st.composite
def _struct(draw: st.DrawFn, members: list[Pair]) -> Pair:
    names = [f"f{index}" for index in range(len(members))]
    parts = dict(zip(names, members, strict=True))
    fields = tuple(ConnectField(name, schema) for name, (schema, _) in parts.items())
    payloads = st.fixed_dictionaries({name: payload for name, (_, payload) in parts.items()})
    # Every name once, as Avro has one type for a name.
    number = draw(st.uuids()).hex
    name = draw(st.sampled_from([None, f"N{number}", f"com.example.N{number}"]))
    return ConnectSchema(type=Type.STRUCT, name=name, fields=fields), payloads


def _map(key: ConnectSchema, value: Pair) -> Pair:
    schema, payloads = value
    found = ConnectSchema(type=Type.MAP, key=key, value=schema)
    if key.type is Type.STRING:
        return found, st.dictionaries(_TEXT, payloads, max_size=2)
    pairs = st.dictionaries(st.integers(0, 9), payloads, max_size=2)
    return found, pairs.map(lambda each: [list(pair) for pair in each.items()])


def _array(item: Pair) -> Pair:
    return ConnectSchema(type=Type.ARRAY, items=item[0]), st.lists(item[1], max_size=2)


_KEYS: Final = st.sampled_from([ConnectSchema(type=Type.STRING), ConnectSchema(type=Type.INT32)])


def _nested(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    named = st.lists(inner, min_size=1, max_size=3).flatmap(_struct)
    return st.one_of(
        named.flatmap(lambda pair: _decorated(pair, named=True)),
        inner.map(_array).flatmap(lambda pair: _decorated(pair, named=False)),
        st.tuples(_KEYS, inner)
        .map(lambda pair: _map(*pair))
        .flatmap(lambda pair: _decorated(pair, named=False)),
    )


PAIRS: Final = st.recursive(
    st.sampled_from(_SCALARS).flatmap(lambda pair: _decorated(pair, named=False)), _nested, max_leaves=6
)
"""A schema, and a strategy of payloads that JsonConverter would put beside it."""


@st.composite
def schemas_and_payloads(draw: st.DrawFn) -> tuple[ConnectSchema, list[Any]]:
    """A schema and some payloads of it."""
    schema, payloads = draw(PAIRS)
    return schema, draw(st.lists(payloads, min_size=1, max_size=4))
