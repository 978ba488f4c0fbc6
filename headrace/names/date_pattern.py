"""Dates by a pattern, in names of objects and in transforms: times to text, and texts to times.

The patterns are those of three libraries of Java: which letters mean what is in `date_letters`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import groupby
from math import gcd
from typing import Final

from headrace.model.clock import ms_since_1970
from headrace.names.date_fields import MONTHS, YEARS, DateField, DateKind, DateStyle, local_time
from headrace.names.date_letters import DateDialect, UnknownLetter, date_field

_DAY: Final = 86_400_000
# Zones differ from UTC by whole minutes, and change at them, since May 1972; before that by any second.
_MINUTE: Final = 60_000
_MINUTES_SINCE_MS: Final = 73_483_200_000
# Most differ by quarters of an hour, and change at them. Those that change in 2040 have rules for all years.
_QUARTER: Final = 900_000
_RULES_FROM_MS: Final = 2_208_988_800_000
_WEEK: Final = 7 * _DAY
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z]+)|([^A-Za-z']+)")
_RESERVED: Final = frozenset("{}#")
_BRACKETS: Final = re.compile(r"([\[\]])")
_NOON: Final = 12
_YEAR_DIGITS: Final = 4
_SHORT: Final = 3


class DatePatternError(ValueError):
    """A pattern that cannot be written; the text says which part, and what to write."""


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A date's parts in order: fields, and literal text.

    `optional` are ranges of parts (from, up to) that a text need not have; they are always written.
    """

    elements: tuple[DateField | str, ...]
    optional: tuple[tuple[int, int], ...] = ()

    @property
    def fields(self) -> tuple[DateField, ...]:
        """The parts that are of the date."""
        return tuple(element for element in self.elements if isinstance(element, DateField))

    @property
    def step_ms(self) -> int:
        """The finest of its fields in ms, not above a day."""
        return min((field.step_ms for field in self.fields), default=_DAY)

    @property
    def has_full_years(self) -> bool:
        """Whether its years have four digits at least, so that `digits` holds for the year 965, too."""
        return all(field.kind not in YEARS or field.width >= _YEAR_DIGITS for field in self.fields)

    def text(self, moment_ms: int, zone: tzinfo, round_ms: int = 0) -> str:
        """The date at a moment, or at the multiple of `round_ms` before it there.

        ValueError where Python has no such year, also where that multiple is in none; none for what `is_date`
        holds for since 1970.
        """
        local = local_time(moment_ms, zone)
        if round_ms:
            local = _rounded(local, round_ms)
        return "".join(each if isinstance(each, str) else each.text(local) for each in self.elements)

    def moment_ms(self, text: str) -> int:
        """The time that a text says, in UTC where it names no zone; ValueError where it is no such text."""
        found = _reader(self).fullmatch(text)
        if found is None:
            raise ValueError("the text does not match the pattern")
        return _moment({name: each for name, each in found.groupdict().items() if each is not None})


def step_ms(finest_ms: int, zone: tzinfo, earliest_ms: int, round_ms: int = 0) -> int:
    """A number of ms such that moments in one multiple of it have one date, from `earliest_ms` on."""
    # What is rounded to seven minutes changes its hour at any minute.
    step = gcd(finest_ms, round_ms)
    if str(zone) == "UTC":
        return step
    if isinstance(zone, timezone):
        return gcd(step, zone.utcoffset(None) // timedelta(milliseconds=1))
    if earliest_ms < _MINUTES_SINCE_MS:
        return gcd(step, 1000)
    return gcd(step, _QUARTER if earliest_ms >= _quarters_since_ms(zone) else _MINUTE)


def _rounded(local: datetime, round_ms: int) -> datetime:
    try:
        return local - timedelta(milliseconds=ms_since_1970(local.replace(tzinfo=UTC)) % round_ms)
    except OverflowError:
        raise ValueError("the multiple is before the year 1") from None


@lru_cache(maxsize=64)
def _quarters_since_ms(zone: tzinfo) -> int:
    """From when on clocks of the zone are changed at full quarters of an hour only, and by such.

    St. John's changed them at one past midnight until 2011, Casey in 2020. They never change twice a week.
    """

    def offset(at_ms: int) -> timedelta:
        return local_time(at_ms, zone).utcoffset() or timedelta()

    def is_even(begin: int, end: int) -> bool:
        if offset(begin) == offset(end):
            return not offset(begin) % timedelta(milliseconds=_QUARTER)
        if end - begin == _QUARTER:
            return offset(begin) == offset(end - 1)
        middle = begin + (end - begin) // _QUARTER // 2 * _QUARTER
        return is_even(begin, middle) and is_even(middle, end)

    weeks = range(_RULES_FROM_MS - _WEEK, _MINUTES_SINCE_MS - _WEEK, -_WEEK)
    return next((begin + _WEEK for begin in weeks if not is_even(begin, begin + _WEEK)), _MINUTES_SINCE_MS)


def read_date_pattern(
    pattern: str, dialect: DateDialect = DateDialect.JAVA, *, is_name: bool = True, is_read: bool = False
) -> DatePattern:
    """The pattern read; DatePatternError for what is no part of a date.

    `is_name`: of names, in which `Y` without a week is a mistake. `is_read`: texts are read by it.
    """
    elements, optional = _optional(_elements(pattern, dialect))
    date = DatePattern(tuple(elements), tuple(optional))
    if is_name and not date.fields:
        raise DatePatternError("it has no part of a date; write for example yyyy-MM-dd/HH")
    if is_name and dialect is DateDialect.JAVA:
        _check_years(date)
    if is_read:
        _reader(date)
    return date


class _Bracket(str):
    """A [ or ] around what a text need not have."""

    __slots__ = ()


def _elements(pattern: str, dialect: DateDialect) -> Iterator[DateField | str]:
    position = 0
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        if found is None:
            raise DatePatternError("a quotation mark (') is not closed")
        quoted, letters, other = found.groups()
        if letters is not None:
            yield from _fields(letters, dialect)
        elif quoted is not None:
            yield quoted.replace("''", "'") or "'"
        elif dialect is DateDialect.JAVA:
            yield from _others(other)
        else:
            yield other
        position = found.end()


def _others(text: str) -> Iterator[str]:
    """Text without letters, of java.time."""
    if reserved := _RESERVED.intersection(text):
        raise DatePatternError(f"{min(reserved)!r} is reserved in it; put it in '..'")
    for each in _BRACKETS.split(text):
        if each:
            yield _Bracket(each) if each in "[]" else each


def _optional(found: Iterable[DateField | str]) -> tuple[list[DateField | str], list[tuple[int, int]]]:
    """The parts without brackets, and the ranges of those in brackets."""
    elements: list[DateField | str] = []
    opened: list[int] = []
    optional: list[tuple[int, int]] = []
    for element in found:
        if not isinstance(element, _Bracket):
            elements.append(element)
        elif element == "[":
            opened.append(len(elements))
        elif opened:
            optional.append((opened.pop(), len(elements)))
        else:
            raise DatePatternError("a ] has no [ before it; put it in '..'")
    # As in Java, what is not closed ends with the pattern.
    optional += [(first, len(elements)) for first in opened]
    return elements, [each for each in optional if each[0] < each[1]]


def _fields(letters: str, dialect: DateDialect) -> list[DateField | str]:
    try:
        return [date_field("".join(run), dialect) for _, run in groupby(letters)]
    except UnknownLetter as error:
        raise DatePatternError(str(error)) from None


def _check_years(date: DatePattern) -> None:
    """Refuse the year of weeks without its week: it was meant to be the year, and differs around New Year."""
    kinds = {field.kind for field in date.fields}
    if DateKind.WEEK_YEAR in kinds and DateKind.WEEK not in kinds:
        raise DatePatternError(
            "'Y' is the year of weeks, which is another one around New Year: write yyyy (or ww next to it)"
        )


# -- reading -------------------------------------------------------------------------------------------------

# What numbers are read as, and their most digits where one letter asks for no width.
_READ: Final = {
    DateKind.YEAR: ("year", 4),
    DateKind.MONTH: ("month", 2),
    DateKind.DAY: ("day", 2),
    DateKind.HOUR: ("hour", 2),
    DateKind.HOUR_1_12: ("twelve", 2),
    DateKind.MINUTE: ("minute", 2),
    DateKind.SECOND: ("second", 2),
    DateKind.FRACTION: ("fraction", 1),
}
_SIGNED: Final = r"[+-]\d\d"
_ZONES: Final = {
    DateStyle.HOURS: rf"{_SIGNED}(?:\d\d)?",
    DateStyle.HOURS_MINUTES: rf"{_SIGNED}\d\d",
    DateStyle.HOURS_COLON_MINUTES: rf"{_SIGNED}:\d\d",
    DateStyle.GMT_LONG: rf"GMT(?:{_SIGNED}:\d\d)?",
}


@lru_cache(maxsize=256)
def _reader(date: DatePattern) -> re.Pattern[str]:
    """What texts of the pattern match; DatePatternError for a part that is only written."""
    text, names = "", set[str]()
    for place, element in enumerate((*date.elements, "")):
        text += ")?" * sum(end == place for _, end in date.optional)
        text += "(?:" * sum(first == place for first, _ in date.optional)
        if isinstance(element, str):
            text += re.escape(element)
            continue
        name, readable = _readable(element)
        if name in names:
            raise DatePatternError(f"it has {element.kind} twice, which cannot be read")
        names.add(name)
        text += f"(?P<{name}>{readable})"
    return re.compile(text)


def _readable(field: DateField) -> tuple[str, str]:
    """The name of a part, and the expression of its texts."""
    words = {
        (DateKind.YEAR, DateStyle.TWO_DIGITS): ("short", r"\d{2}"),
        (DateKind.MONTH, DateStyle.SHORT): ("name", "|".join(each[:_SHORT] for each in MONTHS)),
        (DateKind.MONTH, DateStyle.LONG): ("name", "|".join(MONTHS)),
        (DateKind.HALF, DateStyle.SHORT): ("half", "AM|PM|am|pm"),
    }
    found = words.get((field.kind, field.style))
    if field.kind is DateKind.OFFSET and field.style in _ZONES:
        found = "zone", _ZONES[field.style] + ("|Z" if field.zulu else "")
    elif field.kind in _READ and field.style is DateStyle.NUMBER:
        name, most = _READ[field.kind]
        has_width = field.width > 1 and field.kind is not DateKind.YEAR
        found = name, rf"\d{{{field.width},{field.width if has_width else max(field.width, most)}}}"
    if found is None:
        raise DatePatternError(f"{field.kind} ({field.style}) cannot be read, only written")
    return found


def _moment(found: Mapping[str, str]) -> int:
    """Ms since 1970 of what a text said; what it did not say is that of 1970-01-01."""

    def number(name: str, otherwise: int) -> int:
        return int(found.get(name, otherwise))

    month, hour = number("month", 1), number("hour", 0)
    if name := found.get("name"):
        month = next(index for index, each in enumerate(MONTHS, 1) if each.startswith(name))
    if "twelve" in found:
        hour = number("twelve", 0) % _NOON + (_NOON if found.get("half", "").upper() == "PM" else 0)
    moment = datetime(
        2000 + number("short", 0) if "short" in found else number("year", 1970),
        month,
        number("day", 1),
        hour,
        number("minute", 0),
        number("second", 0),
        tzinfo=_zone(found.get("zone", "Z")),
    )
    return ms_since_1970(moment) + int(f"{found.get('fraction', ''):0<3}"[:3])


def _zone(text: str) -> timezone:
    digits = re.sub(r"\D", "", text).ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if "-" in text else offset)
