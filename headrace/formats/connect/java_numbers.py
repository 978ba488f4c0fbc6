"""Numbers as Java writes them: the text of `Double.toString` and `Float.toString` since JDK 19.

Older JDKs sometimes write more digits than are needed; what they write is the same number.
"""

import math
from collections.abc import Callable
from typing import Final

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
    if sum(digit not in "-.0" for digit in shortest.partition("e")[0]) == 1:
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
