"""The types of columns: found in rows of JSON, widened so that all that was found fits; pure.

Types are Arrow's. `merged` is a join: in any order, and however often, the same types give the same one. A
text takes every value, as the JSON that it is.
"""

import base64
import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RESCUED: Final = "_rescued_data"
METADATA: Final = "_metadata"
RESERVED: Final = frozenset({RESCUED, METADATA})
"""Columns of ours. Members of rows with their names are rescued, and are no new columns."""


def spelled_otherwise(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names that are a known one, or one before them, but for case; of those the first has the column.

    Spark has them for one name, unless spark.sql.caseSensitive is set, which a source is not told.
    """
    first = {name.lower(): name for name in known}
    return [name for name in names if first.setdefault(name.lower(), name) != name]


LEVELS: Final = 62
"""So many lists and structs within one another, and the one around a row, Arrow hands to Spark: no more."""
_LONG: Final = 2**63
_DIGITS: Final = 38
_FLOAT_BITS: Final = 32
_BEYOND_FLOAT: Final = 2.0**128 - 2.0**103
"""From here on the nearest float is infinity."""
_WHOLE_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
_UNSIGNED_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}


def type_of(value: Any, levels: int = LEVELS) -> Any:  # noqa: PLR0911  # one case a kind of value
    """The narrowest type of a value that msgspec has read from JSON; a text for what is too deep within."""
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        if -_LONG <= value < _LONG:
            return pa.int64()
        digits = len(str(abs(value)))
        return pa.decimal128(_DIGITS, 0) if digits <= _DIGITS else pa.string()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, dict) and levels:
        return pa.struct([(name, type_of(each, levels - 1)) for name, each in sorted(value.items())])
    if isinstance(value, list) and levels:
        return pa.list_(merged_all(type_of(each, levels - 1) for each in value))
    return pa.string()


def merged_all(types: Iterable[Any]) -> Any:
    """The type that takes the values of all of these."""
    found = pa.null()
    for kind in types:
        found = merged(found, kind)
    return found


def merged(one: Any, other: Any) -> Any:  # noqa: PLR0911  # one case a kind of type
    """The narrowest type that takes the values of both."""
    if one.equals(other) or pa.types.is_null(other):
        return _plain(one)
    if pa.types.is_null(one):
        return _plain(other)
    one, other = _plain(one), _plain(other)
    if one.equals(other):
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _merged_structs(one, other)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(merged(one.value_type, other.value_type))
    if pa.types.is_map(one) and pa.types.is_map(other):
        keys = merged(one.key_type, other.key_type)
        return pa.map_(keys, merged(one.item_type, other.item_type))
    if is_number(one) and is_number(other):
        return _merged_numbers(one, other)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and one.tz == other.tz:
        return pa.timestamp("us", one.tz)
    return pa.string()


def _plain(kind: Any) -> Any:  # noqa: C901, PLR0911, PLR0912  # one case a kind of type
    """The type among those that Spark has: widths, units and encodings that it does not know are widened."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return pa.string()
    if pa.types.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}.get(kind.bit_width, pa.decimal128(20, 0))
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind):
        if kind.precision > _DIGITS:
            return pa.float64()
        return pa.decimal128(kind.precision, kind.scale)
    known = (
        pa.types.is_null(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_date32(kind)
    )
    return kind if known else pa.string()


def is_number(kind: Any) -> bool:
    """Whether its values are integers, doubles or decimals."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _merged_numbers(one: Any, other: Any) -> Any:
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return one if one.bit_width > other.bit_width else other
    if pa.types.is_floating(one) or pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return one if one.bit_width > other.bit_width else other
    (digits, scale), (others, other_scale) = _digits(one), _digits(other)
    scale = max(scale, other_scale)
    whole = max(digits, others)
    return pa.decimal128(whole + scale, scale) if whole + scale <= _DIGITS else pa.float64()


def _digits(kind: Any) -> tuple[int, int]:
    """Digits before and after the point."""
    if pa.types.is_integer(kind):
        return _WHOLE_DIGITS[kind.bit_width], 0
    return kind.precision - kind.scale, kind.scale


def _merged_structs(one: Any, other: Any) -> Any:
    types = {field.name: field.type for field in one}
    for field in other:
        types[field.name] = merged(types.get(field.name, pa.null()), field.type)
    return pa.struct(sorted(types.items()))


def merged_schema(
    known: Sequence[tuple[str, Any]], found: Iterable[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """The columns of both: those that are known in their order, new ones at the end."""
    types = dict(known)
    for name, kind in found:
        types[name] = merged(types.get(name, pa.null()), kind)
    return list(types.items())


# A number that no double holds is one all the same: its column has doubles, which it does not fit.
_ANY_DECODER: Final = msgspec.json.Decoder(float_hook=float)


def type_of_json(raw: bytes) -> Any:
    """The narrowest type of a JSON value."""
    try:
        return type_of(_ANY_DECODER.decode(raw))
    except RecursionError:
        return pa.string()


def columns_of_rows(rows: Iterable[bytes]) -> list[tuple[str, Any]]:
    """The columns of rows of JSON in the order in which they appear; what is no object has none."""
    found: dict[str, Any] = {}
    # A type that is in a column's already changes nothing, and nearly all values have one of these.
    known: set[tuple[str, str]] = set()
    for row in rows:
        try:
            value = _ANY_DECODER.decode(row)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(value, dict):
            for name, each in value.items():
                kind = _scalar_kind(each)
                if kind is None or (name, kind) not in known:
                    found[name] = merged(found.get(name, pa.null()), type_of(each))
                    if kind is not None:
                        known.add((name, kind))
    return list(found.items())


def _scalar_kind(value: Any) -> str | None:
    """A name for values of which `type_of` gives one type; None where it needs a look at the value."""
    if isinstance(value, dict | list) or (isinstance(value, int) and not -_LONG <= value < _LONG):
        return None
    return type(value).__name__


def finished(kind: Any, levels: int = LEVELS) -> Any:
    """The type as a column has it: a text takes all of what is not known, always null or too deep within."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_map(kind):
        # A list of structs.
        below = levels - 2
        return pa.string() if below < 0 else pa.map_(_plain(kind.key_type), finished(kind.item_type, below))
    if pa.types.is_struct(kind):
        fields = [(field.name, finished(field.type, levels - 1)) for field in kind] if levels else []
        return pa.struct(fields) if fields else pa.string()
    if pa.types.is_list(kind):
        return pa.list_(finished(kind.value_type, levels - 1)) if levels else pa.string()
    return _plain(kind)


class Unfit(ValueError):
    """A value is not one of its column's type."""


_DECODER: Final = msgspec.json.Decoder()
MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""The members of an object as they were written."""
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NULL: Final = msgspec.Raw(b"null")
_LOW: Final = {bits: -(2 ** (bits - 1)) for bits in (8, 16, 32, 64)}


def fitted(raw: bytes, kind: Any, *, is_text: bool = False, is_pruned: bool = False) -> Any:
    """The Python value of a JSON value for a column of this type; Unfit where it is not one.

    `is_text`: numbers and booleans may be JSON texts, as CSV has them. `is_pruned`: members that a struct
    does not have are left out.
    """
    if raw == b"null":
        return None
    if pa.types.is_string(kind):
        return _DECODER.decode(raw) if raw.startswith(b'"') else raw.decode()
    if pa.types.is_nested(kind):
        return _fitted_members(raw, kind, is_pruned=is_pruned)
    if is_text and not pa.types.is_binary(kind) and _is_blank(raw):
        return None
    if pa.types.is_decimal(kind):
        return _decimal(raw.strip(b'"'), kind)
    try:
        value = _DECODER.decode(raw)
    except msgspec.ValidationError as error:
        # A number that no double holds.
        raise Unfit from error
    return _fitted_scalar(value, kind, is_text=is_text)


def _is_blank(raw: bytes) -> bool:
    """Whether it is a text of nothing, as an empty field of CSV is; `csv.types` makes others of fields."""
    return raw.startswith(b'"') and not _DECODER.decode(raw).strip()


def _fitted_members(raw: bytes, kind: Any, *, is_pruned: bool) -> Any:
    """A struct, list or map, whose members are read as they were written: a double would cut their digits."""
    within = partial(fitted, is_pruned=is_pruned)
    try:
        if pa.types.is_list(kind):
            return [within(bytes(each), kind.value_type) for each in _ITEMS.decode(raw)]
        members = MEMBERS.decode(raw)
    except msgspec.ValidationError as error:
        raise Unfit from error
    if pa.types.is_map(kind):
        # Members of JSON have texts for names.
        _if(pa.types.is_string(kind.key_type), members)
        return [(name, within(bytes(each), kind.item_type)) for name, each in members.items()]
    _if(is_pruned or {field.name for field in kind} >= members.keys(), members)
    return {field.name: within(bytes(members.get(field.name, _NULL)), field.type) for field in kind}


def _fitted_scalar(value: Any, kind: Any, *, is_text: bool) -> Any:
    if is_text and isinstance(value, str) and (is_number(kind) or pa.types.is_boolean(kind)):
        value = _number_of(value.strip())
    if pa.types.is_boolean(kind):
        return _if(isinstance(value, bool), value)
    if pa.types.is_integer(kind):
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        low = _LOW[kind.bit_width]
        return _if(is_whole and low <= value < -low, value)
    if pa.types.is_floating(kind):
        return _floating(value, kind)
    if not isinstance(value, str):
        raise Unfit
    return _of_text(value, kind)


# What is finer than a microsecond.
_IS_FINER: Final = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def _of_text(value: str, kind: Any) -> Any:
    """A time, date or bytes of a JSON text."""
    try:
        if pa.types.is_timestamp(kind):
            if ("." in value or "," in value) and _IS_FINER.search(value):
                # Python would cut it.
                raise Unfit
            found = datetime.fromisoformat(value)
            if kind.tz is None:
                return _if(found.tzinfo is None, found)
            return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        if pa.types.is_date(kind):
            return date.fromisoformat(value)
        if pa.types.is_binary(kind):
            return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise Unfit from error
    raise Unfit


def _if(is_right: bool, value: Any) -> Any:  # noqa: FBT001  # read as `value if it is right`
    if not is_right:
        raise Unfit
    return value


def _floating(value: Any, kind: Any) -> float:
    """A fraction as near as the type has it; an integer, which may be an id, only where it has that one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit
    try:
        found = float(value)
    except OverflowError as error:
        raise Unfit from error
    is_narrow = kind.bit_width == _FLOAT_BITS
    if is_narrow and abs(found) >= _BEYOND_FLOAT:
        # It would be infinite.
        raise Unfit
    if isinstance(value, int) and (float(np.float32(found)) if is_narrow else found) != value:
        raise Unfit
    return found


# From here on an integer may be one that the type does not have, and has that many digits.
_YEAR_1_US: Final = -62_135_596_800_000_000
_INEXACT: Final = {_FLOAT_BITS: (2**24, 8), 64: (2**53, 16)}
_INTEGERS: Final = {
    bits: re.compile(rb"[:\[,]\s*-?[0-9]{%d,}\s*[,\]}]" % digits) for bits, (_, digits) in _INEXACT.items()
}


def unrounded(arrays: list[Any], rows: bytes | memoryview) -> list[Any] | None:
    """The arrays of these JSON rows; None where one may have other numbers than the rows.

    Arrow's parser rounds integers to doubles, and takes more digits than a decimal has.
    """
    return None if any(_may_differ(array, rows) for array in arrays) else arrays


def _may_differ(array: Any, rows: bytes | memoryview) -> bool:  # noqa: PLR0911  # one case a kind of type
    if pa.types.is_floating(array.type):
        size, bits = pc.max(pc.abs(array)).as_py(), array.type.bit_width
        if size is None or size < _INEXACT[bits][0]:
            return False
        return size == math.inf or _INTEGERS[bits].search(rows) is not None
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        # Arrow's parser knows the year 0, which Python and Spark's frames in it do not.
        first = pc.min(array.cast(pa.timestamp("us"))).cast(pa.int64()).as_py()
        return first is not None and first < _YEAR_1_US
    if pa.types.is_decimal(array.type):
        size = pc.max(pc.abs(array)).as_py()
        return size is not None and size >= Decimal(10) ** (array.type.precision - array.type.scale)
    if pa.types.is_list(array.type):
        return _may_differ(array.values, rows)
    if pa.types.is_struct(array.type):
        return any(_may_differ(each, rows) for each in array.flatten())
    return False


# Python takes more for numbers: 1_000, and the digits of other scripts.
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def _number_of(text: str) -> Any:
    if text in {"true", "false"}:
        return text == "true"
    if _NO_NUMBER.fullmatch(text):
        return float(text)
    if not _NUMBER.fullmatch(text):
        raise Unfit
    try:
        return int(text)
    except ValueError:
        found = float(text)
    if math.isinf(found):
        raise Unfit
    return found


def _decimal(text: bytes, kind: Any) -> Decimal:
    try:
        spelled = text.decode().strip()
        value = Decimal(spelled)
    except (InvalidOperation, UnicodeDecodeError) as error:
        raise Unfit from error
    if not _NUMBER.fullmatch(spelled):
        raise Unfit
    if not value:
        return Decimal(0)
    _, digits, exponent = value.as_tuple()
    whole = max(0, len(digits) + int(exponent))
    scale = max(0, -int(exponent))
    if scale > kind.scale:
        # Zeros at the end are no digits that the column would lack.
        scale -= len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if scale > kind.scale or whole > kind.precision - kind.scale:
        raise Unfit
    return value
