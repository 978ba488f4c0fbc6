"""What transforms work on: objects without a schema, Java's numbers, texts and times, refused records.

Members are copied where nothing changes them. A record that a step refuses is noted by its offset, with a
sentence, and the others continue.
"""

import math
import re
from collections.abc import Callable, Sequence
from ctypes import c_float
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.connect.java_text import java_double, java_float
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.converters.typed_columns import PlainColumn
from headrace.model.columns import Numbers, column_of
from headrace.options.transforms.alias_options import BLANKS


class Refused(ValueError):
    """A value cannot be transformed; the text says why and never holds the value."""


@dataclass(slots=True)
class RefusedRows:
    """Collects them; the first sentence of a record is kept."""

    found: dict[int, str] = field(default_factory=dict)

    def add(self, offset: int, message: str) -> None:
        """Notes that the record is refused."""
        self.found.setdefault(int(offset), message)

    def add_all(self, records: ConvertedRecords, message: str) -> None:
        """Notes it of each of these records."""
        for offset in records.records.offsets.tolist():
            self.add(offset, message)

    def without(self, records: ConvertedRecords) -> ConvertedRecords:
        """Those of the records that are not refused."""
        if not self.found:
            return records
        offsets = records.records.offsets
        good = ~np.isin(offsets, np.fromiter(self.found, np.int64, len(self.found)))
        return records if good.all() else records.take(np.flatnonzero(good))


NULL: Final = msgspec.Raw(b"null")
Members = dict[str, msgspec.Raw]


def is_null(text: bytes) -> bool:
    """Whether it is JSON's null, perhaps with blanks around, which steps take for a null."""
    return text.strip() == bytes(NULL)


_MEMBERS: Final = msgspec.json.Decoder(Members)
_NO_OBJECT: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def members_of(text: bytes | msgspec.Raw) -> Members:
    """The members of a JSON object; Refused for any other JSON."""
    try:
        return _MEMBERS.decode(text)
    except _NO_OBJECT:
        raise Refused("it is no JSON object") from None


class JsonObjects:
    """One object for each row, None for a null."""

    def __init__(self, rows: list[Members | None]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def renamed(self, name_of: Callable[[str], str | None]) -> "JsonObjects":
        """The members under other names; those for which the name is None are left out."""
        names: dict[str, str | None] = {}
        found: list[Members | None] = []
        for row in self.rows:
            if row is None:
                found.append(None)
                continue
            members: Members = {}
            for name, member in row.items():
                if name not in names:
                    names[name] = name_of(name)
                new = names[name]
                if new is not None:
                    members[new] = member
            found.append(members)
        return JsonObjects(found)

    def put(self, name: str, texts: Sequence[bytes | None]) -> None:
        """Give each object a member of this JSON; None leaves the object as it is."""
        for row, text in zip(self.rows, texts, strict=True):
            if row is not None and text is not None:
                row[name] = msgspec.Raw(text)

    def members(self, name: str) -> list[bytes | None]:
        """The JSON of a member of each object; None where it is null or missing, and for a null."""
        found = (None if row is None else row.get(name) for row in self.rows)
        return [None if member is None or bytes(member) == b"null" else bytes(member) for member in found]

    def column(self) -> PlainColumn:
        """The objects as JSON texts."""
        return json_column([None if row is None else msgspec.json.encode(row) for row in self.rows])


def json_column(texts: Sequence[bytes | None]) -> PlainColumn:
    """A column of JSON texts."""
    return PlainColumn(column_of(texts), Form.JSON)


# What is beyond a double is infinite, as for Java.
_LOOSE: Final = msgspec.json.Decoder(float_hook=float)


def value_of(text: bytes) -> Any:
    """The value of a JSON text, numbers with a fraction or exponent as floats; Refused for what has none."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise Refused("it is nested too deep") from None
    except msgspec.ValidationError:
        pass
    try:
        return _LOOSE.decode(text)
    except msgspec.ValidationError:
        raise Refused("a whole number has too many digits") from None


def loosened(texts: Sequence[bytes | None]) -> list[tuple[Numbers, ConvertedColumn]]:
    """JSON texts as columns with the rows of each: JSON strings are text from here on, others stay JSON.

    A null stays JSON's whatever its neighbours are: what becomes of it depends on its record alone.
    """
    strings = np.array([text is not None and text[:1] == b'"' for text in texts], np.bool_)
    parts: list[tuple[Numbers, ConvertedColumn]] = []
    for chosen, form in ((strings, Form.TEXT), (~strings, Form.JSON)):
        rows = np.flatnonzero(chosen)
        if len(rows):
            found = [texts[row] for row in rows.tolist()]
            if form is Form.TEXT:
                found = [msgspec.json.decode(text, type=str).encode() for text in found if text is not None]
            parts.append((rows, PlainColumn(column_of(found), form)))
    return parts


def numbered(array: Any) -> list[Any]:
    """An Arrow array's values, days, times and moments as numbers of their unit."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.cast(pa.int32())
    values: list[Any] = array.to_pylist()
    return values


DAY_MS: Final = 86_400_000
# More than Python reads as a number: only zeros could be in front of so many.
_DIGITS: Final = 4000
# Java takes the digits of all alphabets, those of one UTF-16 unit.
_INTEGER: Final = re.compile(r"[+-]?(?:(?![\U00010000-\U0010ffff])\d)+")
# A run of digits can be matched in one way only: a text of a megabyte that is no number is refused at once.
_FLOAT: Final = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
)
_HEX_FLOAT: Final = re.compile(
    r"(?P<sign>[+-]?)0[xX](?P<digits>[0-9A-Fa-f]+(\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)"
    r"[pP](?P<power>[+-]?[0-9]+)[fFdD]?",
    re.ASCII,
)
_INT_BITS: Final = 32
_LONG_BITS: Final = 64


def integer(value: Any, bits: int) -> int:
    """A number, flag or text as an integer of so many bits; Refused for a text of another width."""
    if isinstance(value, str):
        is_integer = len(value) <= _DIGITS and _INTEGER.fullmatch(value) is not None
        if not is_integer or not -(1 << bits - 1) <= int(value) < 1 << bits - 1:
            raise Refused(f"a text is no integer of {bits} bits")
        return int(value)
    if isinstance(value, float):
        # From floating point Java goes by way of int or long, which hold the nearest they can.
        by_way_of = _LONG_BITS if bits == _LONG_BITS else _INT_BITS
        low, high = -(1 << by_way_of - 1), (1 << by_way_of - 1) - 1
        value = 0 if math.isnan(value) else low if value <= low else high if value >= high else int(value)
    wrapped = int(value) & (1 << bits) - 1
    return wrapped - (1 << bits) if wrapped >> bits - 1 else wrapped


def floating(value: Any, *, is_single: bool = False) -> float:
    """A number, flag or text as a double; Refused for a text that is no number.

    `is_single`: a double whose nearest number of 32 bits is that of the value, which Java rounds once.
    """
    if isinstance(value, str):
        value = value.strip(BLANKS)
        nearest, is_exact = _read_float(value), False
    else:
        nearest = _double(value)
        is_exact = nearest == value
    is_between = is_single and not is_exact and _is_between_singles(nearest)
    return _towards(value, nearest) if is_between else nearest


def _read_float(text: str) -> float:
    if _FLOAT.fullmatch(text) is not None:
        return float(text if text[-1] in "NnyY" else text.rstrip("fFdD"))
    hexadecimal = _HEX_FLOAT.fullmatch(text)
    if hexadecimal is None:
        raise Refused("a text is no number")
    try:
        return float.fromhex(text.rstrip("fFdD"))
    except OverflowError:
        return -math.inf if hexadecimal["sign"] == "-" else math.inf


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _is_between_singles(value: float) -> bool:
    """Whether two numbers of 32 bits are equally near."""
    if not math.isfinite(value):
        return False
    exponent = max(math.frexp(value)[1] - 24, -149)
    return math.ldexp(abs(value), 1 - exponent) % 2 == 1


def _towards(value: Any, nearest: float) -> float:
    """The double next to the nearest, on the side of the value; the nearest where it is the value."""
    if isinstance(value, str):
        hexadecimal = _HEX_FLOAT.fullmatch(value)
        if hexadecimal is not None:
            return math.copysign(_towards_hex(hexadecimal, abs(nearest)), nearest)
        # Decimals are compared digit by digit, where a fraction of a long text would take minutes.
        value = Decimal(value.rstrip("fFdD"))
    return math.nextafter(nearest, math.inf if value > nearest else -math.inf if value < nearest else nearest)


def _towards_hex(number: re.Match[str], nearest: float) -> float:
    """The same of a hexadecimal number without its sign, as whole numbers that shifts give one size."""
    whole, _, fraction = number["digits"].partition(".")
    # The power may have more digits than Python makes an int of: zeros in front.
    power = int(Decimal(number["power"])) - 4 * len(fraction)
    above, below = nearest.as_integer_ratio()
    shift = power + below.bit_length() - 1
    digits, same = int(whole + fraction, 16) << max(shift, 0), above << max(-shift, 0)
    return math.nextafter(nearest, math.inf if digits > same else 0.0 if digits < same else nearest)


def boolean(value: Any) -> bool:
    """A number other than 0 (its fraction left out), or the text `true`."""
    if isinstance(value, str):
        return value.lower() == "true"
    return value if isinstance(value, bool) else integer(value, _LONG_BITS) != 0


def text(value: Any, *, is_single: bool = False) -> str:
    """A number, flag or text as Java writes it; `is_single`: a float of 32 bits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # Ten times as fast as numpy, which also warns of what is beyond 32 bits.
        return java_float(c_float(value).value) if is_single else java_double(value)
    return str(value)
