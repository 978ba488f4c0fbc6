"""Java's date patterns (DateTimeFormatter's and SimpleDateFormat's, in English): times to text and back."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final
from zoneinfo import ZoneInfo

_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT: Final = 3
_NOON: Final = 12
_NANO_DIGITS: Final = 9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class JavaDatesError(ValueError):
    """A pattern that cannot be written here; the text says which part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaDates:
    """A pattern's parts in order, each a text and whether it is letters of the pattern.

    `is_simple`: SimpleDateFormat's, in which S counts milliseconds instead of digits of a fraction.
    """

    source: str
    parts: tuple[tuple[str, bool], ...]
    is_simple: bool = False

    def text(self, moment_ms: int, zone: ZoneInfo) -> str:
        """The time as text; ValueError where Python has no such date."""
        try:
            moment = (_EPOCH + timedelta(milliseconds=moment_ms)).astimezone(zone)
        except OverflowError:
            raise ValueError("the time is beyond the year 9999") from None
        return "".join(self._written(text, moment) if is_letters else text for text, is_letters in self.parts)

    def moment_ms(self, text: str) -> int:
        """The time that a text says, in UTC where it names no zone; ValueError where it is no such text."""
        pattern = "".join(
            _readable(part, is_simple=self.is_simple) if is_letters else re.escape(part)
            for part, is_letters in self.parts
        )
        found = re.fullmatch(pattern, text)
        if found is None:
            raise ValueError("the text does not match the pattern")
        return _moment(found.groupdict())

    def _written(self, letters: str, moment: datetime) -> str:
        if letters[0] == "S":
            if self.is_simple:
                return str(moment.microsecond // 1000).zfill(len(letters))
            return f"{moment.microsecond * 1000:09}"[: len(letters)]
        return _WRITERS[letters[0]](moment, len(letters))


def read_java_dates(pattern: str, *, is_simple: bool = False, is_read: bool = False) -> JavaDates:
    """The pattern read; JavaDatesError for what has no counterpart. `is_read`: texts are read by it."""
    parts: list[tuple[str, bool]] = []
    at = 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            raise JavaDatesError("a quotation mark (') is not closed")
        at = found.end()
        if found[2] is None:
            quoted = found[1]
            parts.append(
                (found[3] if quoted is None else "'" if not quoted else quoted.replace("''", "'"), False)
            )
            continue
        _check(found[0], is_read=is_read)
        parts.append((found[0], True))
    return JavaDates(source=pattern, parts=tuple(parts), is_simple=is_simple)


def _check(letters: str, *, is_read: bool) -> None:
    known = set(_WRITERS) | {"S"}
    if letters[0] not in known:
        raise JavaDatesError(f"{letters!r} is not known; known are {' '.join(sorted(known))}, text in '..'")
    if letters[0] == "S" and len(letters) > _NANO_DIGITS:
        raise JavaDatesError(f"{letters!r} has more than 9 digits")
    if is_read and letters[0] not in _READERS:
        raise JavaDatesError(f"{letters!r} cannot be read, only written")


def _number(of: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda moment, width: str(of(moment)).zfill(width)


def _year(moment: datetime, width: int) -> str:
    return f"{moment.year % 100:02}" if width == 2 else str(moment.year).zfill(width)  # noqa: PLR2004  # Java's rule for `yy`


def _week_year(moment: datetime, width: int) -> str:
    """The year of the week, which begins on Sunday; 1 January is in the first one."""
    saturday = moment + timedelta(days=(5 - moment.weekday()) % 7)
    return _year(saturday, width)


def _month(moment: datetime, width: int) -> str:
    if width < _SHORT:
        return str(moment.month).zfill(width)
    name = _MONTHS[moment.month - 1]
    return name[:3] if width == _SHORT else name


def _weekday(moment: datetime, width: int) -> str:
    name = _DAYS[moment.weekday()]
    return name[:3] if width <= _SHORT else name


def _offset(moment: datetime, width: int, *, zero: str | None, colon: bool) -> str:
    minutes = round((moment.utcoffset() or timedelta()).total_seconds() / 60)
    if not minutes and zero is not None:
        return zero
    hours, rest = divmod(abs(minutes), 60)
    sign = "-" if minutes < 0 else "+"
    if width == 1 and zero is not None:
        return f"{sign}{hours:02}" + (f"{rest:02}" if rest else "")
    return f"{sign}{hours:02}{':' if colon else ''}{rest:02}"


_WRITERS: Final[dict[str, Callable[[datetime, int], str]]] = {
    "y": _year,
    "u": _year,
    "Y": _week_year,
    "M": _month,
    "L": _month,
    "d": _number(lambda moment: moment.day),
    "D": _number(lambda moment: moment.timetuple().tm_yday),
    "H": _number(lambda moment: moment.hour),
    "k": _number(lambda moment: moment.hour or 24),
    "K": _number(lambda moment: moment.hour % _NOON),
    "h": _number(lambda moment: moment.hour % _NOON or _NOON),
    "m": _number(lambda moment: moment.minute),
    "s": _number(lambda moment: moment.second),
    "a": lambda moment, _: "AM" if moment.hour < _NOON else "PM",
    "E": _weekday,
    "Z": lambda moment, width: _offset(moment, width, zero=None, colon=False),
    "x": lambda moment, width: _offset(moment, width, zero=None, colon=width == _SHORT),
    "X": lambda moment, width: _offset(moment, width, zero="Z", colon=width == _SHORT),
}


def _readable(letters: str, *, is_simple: bool) -> str:
    width = len(letters)
    if letters[0] in "yu":
        return r"(?P<short>\d{2})" if width == 2 else rf"(?P<year>\d{{{width},{max(width, 4)}}})"  # noqa: PLR2004  # Java's rule for `yy`
    if letters[0] == "M" and width >= _SHORT:
        names = [name[:3] if width == _SHORT else name for name in _MONTHS]
        return f"(?P<name>{'|'.join(names)})"
    if letters[0] == "S":
        return rf"(?P<{'millis' if is_simple else 'fraction'}>\d{{{width}}})"
    if letters[0] == "a":
        return r"(?P<half>AM|PM|am|pm)"
    if letters[0] in "ZXx":
        return r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)"
    digits = r"\d{1,2}" if width == 1 else rf"\d{{{width}}}"
    return f"(?P<{_READERS[letters[0]]}>{digits})"


_READERS: Final = {
    "y": "year",
    "u": "year",
    "M": "month",
    "d": "day",
    "H": "hour",
    "h": "twelve",
    "m": "minute",
    "s": "second",
    "S": "fraction",
    "a": "half",
    "Z": "zone",
    "X": "zone",
    "x": "zone",
}


def _moment(found: dict[str, str | None]) -> int:
    """Ms since 1970 of what a text said; what it did not say is that of 1970-01-01."""

    def number(name: str, otherwise: int) -> int:
        text = found.get(name)
        return otherwise if text is None else int(text)

    year = 2000 + number("short", 0) if found.get("short") else number("year", 1970)
    name = found.get("name")
    month = number("month", 1)
    if name is not None:
        month = next(index for index, each in enumerate(_MONTHS, 1) if each.startswith(name))
    hour = number("hour", 0)
    if found.get("twelve"):
        hour = number("twelve", 0) % _NOON + (_NOON if (found.get("half") or "").upper() == "PM" else 0)
    fraction = found.get("fraction")
    millis = int(f"{fraction:0<3}"[:3]) if fraction else number("millis", 0)
    moment = datetime(
        year,
        month,
        number("day", 1),
        hour,
        number("minute", 0),
        number("second", 0),
        tzinfo=_zone(found.get("zone")),
    )
    return round((moment - _EPOCH) / timedelta(milliseconds=1)) + millis


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
