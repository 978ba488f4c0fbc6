"""The text that a value has in a name: of escaped values, and of plain ones as Kafka Connect writes them."""

from datetime import date, datetime, time
from decimal import Decimal
from math import isinf, isnan
from typing import Final
from uuid import UUID

from headrace.formats.converted_records import MISSING

Text = str | bytes | None

# Java writes numbers from here on, and below there, with an exponent.
_LARGE: Final = 1e7
_SMALL: Final = 1e-3


def value_text(value: object) -> Text:
    """The text of a value in a name; ValueError for lists and objects."""
    match value:
        case None | bytes():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float() | str() | Decimal() | UUID():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
    if value is MISSING:
        return None
    raise ValueError


def connect_text(value: object) -> Text:
    """The same with numbers as Java writes them: 1.0E10 and NaN where Python has 10000000000.0 and nan."""
    return java_double(value) if isinstance(value, float) else value_text(value)


def java_double(number: float) -> str:
    """The text of Java's `Double.toString`: the shortest digits, an exponent for what is large or small."""
    if isnan(number):
        return "NaN"
    sign = "-" if str(number).startswith("-") else ""
    if isinf(number):
        return f"{sign}Infinity"
    size = abs(number)
    if not size or _SMALL <= size < _LARGE:
        return f"{sign}{Decimal(repr(size)):f}"
    digits = Decimal(repr(size)).normalize().as_tuple()
    assert isinstance(digits.exponent, int), "neither infinite nor NaN"
    text = "".join(map(str, digits.digits))
    return f"{sign}{text[0]}.{text[1:] or '0'}E{digits.exponent + len(text) - 1}"
