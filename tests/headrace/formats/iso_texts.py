"""ISO 8601 texts back to the counts that they came from, digit for digit and in every year."""

import datetime as dt
import re
from typing import Final

PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST_SECOND: Final = -62135596800  # 0001-01-01T00:00:00
LAST_SECOND: Final = 253402300799  # 9999-12-31T23:59:59

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EPOCH: Final = dt.date(1970, 1, 1)
_CLOCK: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?")


def days(text: str) -> int:
    """Days since 1970 of a date."""
    return (dt.date.fromisoformat(text) - _EPOCH).days


def clock(text: str, unit: str) -> int:
    """A time of day as a count of the unit; the fraction must have just its digits."""
    found = _CLOCK.fullmatch(text)
    assert found is not None, text
    hours, minutes, seconds, fraction = found.groups()
    assert len(fraction or "") == _DIGITS[unit]
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * PER_SECOND[unit] + int(fraction or 0)


def moment(text: str, unit: str, *, zone: bool) -> int:
    """A timestamp as a count of the unit since 1970; it must end in Z just when it is of a zone."""
    assert text.endswith("Z") == zone
    day, between, rest = text.removesuffix("Z").partition("T")
    assert between
    return days(day) * 86_400 * PER_SECOND[unit] + clock(rest, unit)
