"""JSON text as the Java library Jackson writes it, of values and of JSON without a schema.

Numbers are the text of `Double.toString` and `Float.toString` since JDK 19; older JDKs sometimes write more
digits than are needed, of the same number. JsonConverter and Jackson write members in the order of a hash
table; ours keeps the record's order. Whole numbers beyond 64 bits stay as they are, where JsonConverter cuts
them to 64 bits.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

from headrace.model.columns import Column, column_of
from headrace.options.schema_settings import Astral

# Java writes numbers from 0.001 to below 10,000,000 without an exponent.
_PLAIN_FROM: Final = -3
_PLAIN_TO: Final = 7


def java_double(value: float) -> str:
    """The text of a double: `1000.0`, `1.0E10`, `4.9E-324`, `NaN`, `-Infinity`."""
    if not math.isfinite(value):
        return _special(value)
    return _spelled(_of_two_digits(repr(value), value, float))


def java_float(value: float) -> str:
    """The text of a single precision number: `0.1`, `3.4028235E38`, `1.4E-45`."""
    if not math.isfinite(value):
        return _special(value)
    # Settings have the style of JSON, and are read by commands that write none: 0.1 s for each of them.
    import numpy as np

    shortest = np.format_float_scientific(np.float32(value), unique=True, trim="0")
    return _spelled(_of_two_digits(shortest, value, lambda text: float(np.float32(text))))


def _of_two_digits(shortest: str, value: float, read: Callable[[str], float]) -> str:
    """The digits, or the nearest number of two where one would do: Java always writes two (4.9E-324)."""
    if len(shortest.partition("e")[0].strip("-.0")) == 1:
        nearest = f"{value:.1e}"
        if read(nearest) == value:
            return nearest
    return shortest


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _spelled(text: str) -> str:
    """A number as Python spells it with as many digits as are wanted, as Java would spell it."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, power = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits.strip("0"):
        return f"{sign}0.0"
    # The place of the point, counted from the first digit that is not a zero.
    exponent = len(whole) + int(power or "0") - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if _PLAIN_FROM <= exponent < _PLAIN_TO:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        padded = digits.ljust(exponent + 1, "0")
        return f"{sign}{padded[: exponent + 1]}.{padded[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_NEEDS: Final = re.compile(r'["\\\x00-\x1f]')
_NEEDS_ASTRAL: Final = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_BEYOND_PLANE: Final = 0x10000


def jackson_string(text: str, astral: Astral = Astral.RAW) -> str:
    """A JSON string with its quotes."""
    pattern = _NEEDS if astral is Astral.RAW else _NEEDS_ASTRAL
    return f'"{pattern.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    known = _ESCAPES.get(character)
    if known is not None:
        return known
    code = ord(character)
    if code < _BEYOND_PLANE:
        return f"\\u{code:04X}"
    high, low = divmod(code - _BEYOND_PLANE, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def jackson_double(value: float) -> str:
    """A double; what JSON has no number for is text, as Jackson does by default."""
    return quoted(java_double(value))


def quoted(number: str) -> str:
    """A number in Java's spelling, in quotes where it is not finite."""
    return number if number[-1].isdigit() else f'"{number}"'


def jackson_text(value: Any, astral: Astral = Astral.RAW) -> str:
    """The JSON of Python values: dictionaries with string keys, lists, numbers, strings, None.

    RecursionError where it is nested too deep.
    """
    parts: list[str] = []
    _write(value, parts.append, astral)
    return "".join(parts)


def _write(value: Any, put: Callable[[str], None], astral: Astral) -> None:
    match value:
        case str():
            put(jackson_string(value, astral))
        case float():
            put(jackson_double(value))
        case dict():
            put("{")
            for index, (name, inner) in enumerate(value.items()):
                put(f"{',' if index else ''}{jackson_string(name, astral)}:")
                _write(inner, put, astral)
            put("}")
        case list() | tuple():
            put("[")
            for index, inner in enumerate(value):
                if index:
                    put(",")
                _write(inner, put, astral)
            put("]")
        case _:
            is_literal = value is None or type(value) is bool
            put(_LITERALS[value] if is_literal else str(value))


_LITERALS: Final = {None: "null", True: "true", False: "false"}


# A number that Java writes just so, and what may not follow it.
_NUMBER: Final = (
    rb"(?:-?[1-9]\d{0,6}\.(?:0|\d{0,8}[1-9])|0\.0|-?0\.0{0,2}[1-9](?:\d{0,8}[1-9])?|0|-?[1-9]\d*)(?![\d.eE])"
)
_STRING: Final = rb'"[^"\\%b]*+(?>(?:\\["\\bfnrt][^"\\%b]*+)*)"'
_MARK: Final = rb"[{}\[\],:]"
_WORD: Final = rb"true|false|null"


def _unchanged(besides: bytes) -> re.Pattern[bytes]:
    """What fits whole texts of which nothing changes; strings may not hold the bytes `besides`."""
    return re.compile(rb"(?>(?:%b|%b|%b|%b)*)" % (_STRING % (besides, besides), _MARK, _NUMBER, _WORD))


_UNCHANGED: Final = {Astral.RAW: _unchanged(b""), Astral.ESCAPED: _unchanged(rb"\xf0-\xf4")}


def jackson_json(text: bytes, astral: Astral = Astral.ESCAPED) -> bytes:
    """A JSON text as JsonConverter and Jackson write it again. ValueError where it is not JSON."""
    if _UNCHANGED[astral].fullmatch(text) is not None:
        return text
    return jackson_text(_read(text), astral).encode()


def jackson_column(texts: Column, astral: Astral = Astral.ESCAPED) -> Column:
    """The same for each JSON text of a column; nulls are nulls."""
    values = texts.each(0, len(texts))
    return column_of([None if text is None else jackson_json(text, astral) for text in values])


def _read(text: bytes) -> Any:
    try:
        return json.loads(text, parse_float=_double)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python reads no whole number of more than 4,300 digits: for larger ones it would take too long.
        return json.loads(text, parse_float=_double, parse_int=_Digits)


class _Digits:
    """A whole number as its text, which is what is written of it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return "0" if self._text == "-0" else self._text


def _double(text: str) -> float:
    # Jackson reads a BigDecimal, which has no negative zero.
    return float(text) + 0.0
