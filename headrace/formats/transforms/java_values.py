"""Numbers, texts and times as Java's classes write and read them, which Kafka's transforms rely on."""

import math
import re
from decimal import Decimal
from typing import Any, Final

import numpy as np

from headrace.formats.transforms.refused_rows import Refused

DAY_MS: Final = 86_400_000
_PLAIN_FROM: Final = 1e-3
_PLAIN_TO: Final = 1e7
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT: Final = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
)
_INT_BITS: Final = 32
_LONG_BITS: Final = 64


def integer(value: Any, bits: int) -> int:
    """A number, flag or text as an integer of so many bits; Refused for a text of another width."""
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) is None or not -(1 << bits - 1) <= int(value) < 1 << bits - 1:
            raise Refused(f"a text is no integer of {bits} bits")
        return int(value)
    if isinstance(value, float):
        # From floating point Java goes by way of int or long, which hold the nearest they can.
        by_way_of = _LONG_BITS if bits == _LONG_BITS else _INT_BITS
        low, high = -(1 << by_way_of - 1), (1 << by_way_of - 1) - 1
        value = 0 if math.isnan(value) else low if value <= low else high if value >= high else int(value)
    wrapped = int(value) & (1 << bits) - 1
    return wrapped - (1 << bits) if wrapped >> bits - 1 else wrapped


def floating(value: Any) -> float:
    """A number, flag or text as a double; Refused for a text that is no number."""
    if not isinstance(value, str):
        return _double(value)
    text = value.strip(" \t\n\r\x0b\f")
    if _FLOAT.fullmatch(text) is None:
        raise Refused("a text is no number")
    return float(text if text[-1] in "NnyY" else text.rstrip("fFdD"))


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


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
        return _float_text(value, is_single=is_single)
    if isinstance(value, Decimal):
        return str(value)
    return str(value)


def _float_text(value: float, *, is_single: bool) -> str:
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = np.format_float_scientific(np.float32(value) if is_single else np.float64(value), trim="0")
    mantissa, _, exponent = shortest.partition("e")
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        plain = format(Decimal(mantissa).scaleb(int(exponent)), "f")
        return _with_point(plain)
    return f"{_with_point(mantissa)}E{int(exponent)}"


def _with_point(digits: str) -> str:
    whole, point, fraction = digits.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}" if point else f"{whole}.0"
