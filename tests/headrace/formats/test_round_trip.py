"""JSON of Avro and Parquet rows gives back the value that was written: each type, at its edges, nested."""

import base64
import io
import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.options.choices import InputFormat
from tests.headrace.formats.avro_files import container, datum
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.iso_texts import FIRST_SECOND, LAST_SECOND, PER_SECOND, clock, days, moment
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import fewer_examples

Read = Callable[[Any], Any]
Values = st.SearchStrategy[Any]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A type, values as they are stored (a count, an unscaled integer, bytes), and what reads them back.

    `stored` is the type that takes the values, where `kind` is one that stands on it.
    """

    kind: Any
    values: Values
    read: Read
    stored: Any = None


def _whole(bits: int, *, signed: bool = True) -> Values:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high) | st.sampled_from([low, high, 0])


def _moments(unit: str) -> Values:
    """Every year that a calendar has, and that 64 bits hold in this unit."""
    low = max(FIRST_SECOND * PER_SECOND[unit], -(2**63))
    high = min((LAST_SECOND + 1) * PER_SECOND[unit] - 1, 2**63 - 1)
    return st.integers(low, high) | st.sampled_from([low, high, 0, -1])


def _decimals(digits: int, scale: int) -> Values:
    edge = 10**digits - 1
    whole = st.integers(-edge, edge) | st.sampled_from([-edge, edge, 0, 1, -1])
    # From its digits: arithmetic would round to the context's 28.
    return whole.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


def _same(parsed: Any) -> Any:
    return parsed


def _bytes(parsed: str) -> bytes:
    return base64.b64decode(parsed, validate=True)


def _float32(parsed: str) -> Any:
    return struct.unpack("f", struct.pack("f", float(parsed)))[0]


def _uuid(parsed: str) -> bytes:
    return uuid.UUID(parsed).bytes


DAYS: Final = st.integers(-719162, 2932896) | st.sampled_from([-719162, 2932896])
UUIDS: Final = st.uuids().map(lambda each: each.bytes)
FLOATS: Final = st.floats(allow_nan=False, allow_infinity=False)
FLOATS32: Final = st.floats(width=32, allow_nan=False, allow_infinity=False)


def _arrow_moment(unit: str, *, zone: bool) -> Kind:
    # Parquet has no seconds: they become milliseconds.
    times, kept = (1000, "ms") if unit == "s" else (1, unit)
    return Kind(
        kind=pa.timestamp(unit, "Asia/Tokyo" if zone else None),
        stored=pa.int64(),
        values=_moments(unit),
        read=lambda text: moment(text, kept, zone=zone) // times,
    )


def _arrow_clock(unit: str) -> Kind:
    times, kept = (1000, "ms") if unit == "s" else (1, unit)
    is_wide = unit in ("us", "ns")
    return Kind(
        kind=pa.time64(unit) if is_wide else pa.time32(unit),
        stored=pa.int64() if is_wide else pa.int32(),
        values=st.integers(0, 86_400 * PER_SECOND[unit] - 1),
        read=lambda text: clock(text, kept) // times,
    )


ARROW: Final[dict[str, Kind]] = {
    "bool": Kind(kind=pa.bool_(), values=st.booleans(), read=_same),
    "int8": Kind(kind=pa.int8(), values=_whole(8), read=_same),
    "int16": Kind(kind=pa.int16(), values=_whole(16), read=_same),
    "int32": Kind(kind=pa.int32(), values=_whole(32), read=_same),
    "int64": Kind(kind=pa.int64(), values=_whole(64), read=_same),
    "uint8": Kind(kind=pa.uint8(), values=_whole(8, signed=False), read=_same),
    "uint16": Kind(kind=pa.uint16(), values=_whole(16, signed=False), read=_same),
    "uint32": Kind(kind=pa.uint32(), values=_whole(32, signed=False), read=_same),
    "uint64": Kind(kind=pa.uint64(), values=_whole(64, signed=False), read=_same),
    "float": Kind(kind=pa.float32(), values=FLOATS32, read=_float32),
    "double": Kind(kind=pa.float64(), values=FLOATS, read=float),
    "text": Kind(kind=pa.string(), values=st.text(max_size=8), read=_same),
    "bytes": Kind(kind=pa.binary(), values=st.binary(max_size=8), read=_bytes),
    "fixed bytes": Kind(kind=pa.binary(3), values=st.binary(min_size=3, max_size=3), read=_bytes),
    "decimal(9,2)": Kind(kind=pa.decimal128(9, 2), values=_decimals(9, 2), read=Decimal),
    "decimal(18,0)": Kind(kind=pa.decimal128(18, 0), values=_decimals(18, 0), read=Decimal),
    "decimal(38,18)": Kind(kind=pa.decimal128(38, 18), values=_decimals(38, 18), read=Decimal),
    "decimal(76,40)": Kind(kind=pa.decimal256(76, 40), values=_decimals(76, 40), read=Decimal),
    "date": Kind(kind=pa.date32(), stored=pa.int32(), values=DAYS, read=days),
    "uuid": Kind(kind=pa.uuid(), stored=pa.binary(16), values=UUIDS, read=_uuid),
    **{f"time {unit}": _arrow_clock(unit) for unit in PER_SECOND},
    **{f"timestamp {unit}": _arrow_moment(unit, zone=False) for unit in PER_SECOND},
    **{f"timestamp {unit}, zone": _arrow_moment(unit, zone=True) for unit in PER_SECOND},
}


def _column(kind: Kind, values: list[Any]) -> Any:
    made = pa.array(values, kind.kind if kind.stored is None else kind.stored)
    if isinstance(kind.kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind.kind, made)
    return made.cast(kind.kind)


def _parsed(value: bytes | None) -> Any:
    """The JSON of one record, whose numbers are kept as their digits."""
    return json.loads(value or b"null", parse_float=_Digits, parse_int=_Digits)


class _Digits(str):
    """A number as it was spelled."""

    __slots__ = ()


def _assert_back(kind: Kind, parsed: Any, wanted: Any) -> None:
    """What was read is what was written, to the sign of a zero and the trailing zeros of a decimal."""
    if wanted is None:
        assert parsed is None
        return
    is_number = isinstance(parsed, _Digits)
    found = kind.read(int(parsed) if is_number and isinstance(wanted, int) else parsed)
    assert (type(found), found, str(found)) == (type(wanted), wanted, str(wanted))


@pytest.mark.parametrize("name", ARROW)
@settings(max_examples=fewer_examples(6))
@given(data=st.data())
def test_parquet_gives_back_each_type(name: str, data: st.DataObject) -> None:
    """Alone, in a list, as a map's value and in a record that may be null itself."""
    kind = ARROW[name]
    values = data.draw(st.lists(st.none() | kind.values, min_size=1, max_size=6))
    leaf, ends = _column(kind, values), list(range(len(values) + 1))
    is_first = pa.array([index == 0 for index in range(len(values))])
    columns = {
        "alone": leaf,
        "list": pa.ListArray.from_arrays(ends, leaf),
        "map": pa.MapArray.from_arrays(ends, [f"k{index}" for index in range(len(values))], leaf),
        "record": pa.StructArray.from_arrays([leaf], ["x"], mask=is_first),
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=4)

    decoded = decode_all(MemorySource(out.getvalue()), decode_options(InputFormat.PARQUET))

    assert (decoded.error, decoded.bad) == (None, [])
    for index, (value, wanted) in enumerate(zip(decoded.values, values, strict=True)):
        row = _parsed(value)
        _assert_back(kind, row["alone"], wanted)
        (item,), (entry,) = row["list"], row["map"].items()
        _assert_back(kind, item, wanted)
        assert entry[0] == f"k{index}"
        _assert_back(kind, entry[1], wanted)
        if index == 0:
            assert row["record"] is None
        else:
            _assert_back(kind, row["record"]["x"], wanted)


def _logical(kind: str, logical: str, values: Values, read: Read, **more: Any) -> Kind:
    return Kind(kind={"type": kind, "logicalType": logical, **more}, stored=kind, values=values, read=read)


def _unscaled(text: str, scale: int) -> bytes:
    """The least bytes of a decimal's unscaled integer, which is what Avro keeps."""
    whole, point, fraction = text.partition(".")
    assert len(fraction) == scale
    assert bool(point) == bool(scale)
    return _octets(int(whole + fraction))


def _octets(number: int) -> bytes:
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _avro_decimal(digits: int, scale: int) -> Kind:
    edge = 10**digits - 1
    numbers = st.integers(-edge, edge) | st.sampled_from([-edge, edge, 0, -1])
    values = numbers.map(
        lambda n: n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True)
    )
    read = partial(_unscaled, scale=scale)
    return _logical("bytes", "decimal", values, read, precision=digits, scale=scale)


def _avro_moment(logical: str, unit: str) -> Kind:
    zone = not logical.startswith("local-")
    return _logical("long", logical, _moments(unit), lambda text: moment(text, unit, zone=zone))


SYMBOLS: Final = ["A", "B_2", "C"]
AVRO: Final[dict[str, Kind]] = {
    "boolean": Kind(kind="boolean", values=st.booleans(), read=_same),
    "int": Kind(kind="int", values=_whole(32), read=_same),
    "long": Kind(kind="long", values=_whole(64), read=_same),
    "float": Kind(kind="float", values=FLOATS32, read=_float32),
    "double": Kind(kind="double", values=FLOATS, read=float),
    "string": Kind(kind="string", values=st.text(max_size=8), read=_same),
    "bytes": Kind(kind="bytes", values=st.binary(max_size=8), read=_bytes),
    "fixed": Kind(
        kind={"type": "fixed", "name": "F", "size": 3},
        values=st.binary(min_size=3, max_size=3),
        read=_bytes,
    ),
    "enum": Kind(
        kind={"type": "enum", "name": "E", "symbols": SYMBOLS}, values=st.sampled_from(SYMBOLS), read=_same
    ),
    "decimal(9,2)": _avro_decimal(9, 2),
    "decimal(38,18)": _avro_decimal(38, 18),
    "decimal(60,0)": _avro_decimal(60, 0),
    "uuid": _logical("string", "uuid", st.uuids().map(str), _same),
    "date": _logical("int", "date", DAYS, days),
    "time-millis": _logical(
        "int", "time-millis", st.integers(0, 86_400_000 - 1), lambda text: clock(text, "ms")
    ),
    "time-micros": _logical(
        "long", "time-micros", st.integers(0, 86_400_000_000 - 1), lambda text: clock(text, "us")
    ),
    **{
        logical: _avro_moment(logical, unit)
        for prefix in ("", "local-")
        for logical, unit in (
            (f"{prefix}timestamp-millis", "ms"),
            (f"{prefix}timestamp-micros", "us"),
            (f"{prefix}timestamp-nanos", "ns"),
        )
    },
}


def _record(leaf: Any, *, mixed: bool) -> dict[str, Any]:
    """A record of the leaf in every place; `mixed` adds a union that columns cannot hold."""
    # A named type is defined where it stands first, and only named from there on.
    again = leaf["name"] if isinstance(leaf, dict) and "name" in leaf else leaf
    fields = [
        {"name": "alone", "type": ["null", leaf]},
        {"name": "list", "type": {"type": "array", "items": ["null", again]}},
        {"name": "map", "type": {"type": "map", "values": ["null", again]}},
        {
            "name": "record",
            "type": [
                {"type": "record", "name": "In", "fields": [{"name": "x", "type": ["null", again]}]},
                "null",
            ],
        },
    ]
    if mixed:
        fields.append({"name": "mixed", "type": ["null", "boolean", "string"]})
    return {"type": "record", "name": "Top", "fields": fields}


@pytest.mark.parametrize("mixed", [False, True], ids=["columns", "data"])
@pytest.mark.parametrize("name", AVRO)
@settings(max_examples=fewer_examples(6))
@given(data=st.data())
def test_avro_gives_back_each_type(name: str, mixed: bool, data: st.DataObject) -> None:
    """The same by both readers."""
    kind = AVRO[name]
    values = data.draw(st.lists(st.none() | kind.values, min_size=1, max_size=6))
    plain = _record(kind.kind if kind.stored is None else kind.stored, mixed=mixed)
    written = [
        datum(
            plain,
            {
                "alone": value,
                "list": [value, None],
                "map": {f"k{index}": value},
                "record": None if index == 0 else {"x": value},
                "mixed": "m",
            },
        )
        for index, value in enumerate(values)
    ]
    content = container(_record(kind.kind, mixed=mixed), [(len(values), b"".join(written))])

    decoded = decode_all(MemorySource(content), decode_options(InputFormat.AVRO))

    assert (decoded.error, decoded.bad) == (None, [])
    for index, (value, wanted) in enumerate(zip(decoded.values, values, strict=True)):
        row = _parsed(value)
        _assert_back(kind, row["alone"], wanted)
        _assert_back(kind, row["list"][0], wanted)
        assert row["list"][1:] == [None]
        assert list(row["map"]) == [f"k{index}"]
        _assert_back(kind, row["map"][f"k{index}"], wanted)
        if index == 0:
            assert row["record"] is None
        else:
            _assert_back(kind, row["record"]["x"], wanted)
        assert row.get("mixed") == ("m" if mixed else None)
