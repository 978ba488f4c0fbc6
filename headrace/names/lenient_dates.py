"""Texts as times as SimpleDateFormat reads and writes them: leniently, by Julius' calendar before 1582."""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from headrace.names.date_fields import MONTHS, WEEKDAYS, DateField, DateKind, DateStyle
from headrace.names.date_pattern import DatePattern

_UTC: Final = ZoneInfo("UTC")
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_SHORT: Final = 3
_NOON: Final = 12
_EPOCH_JULIAN_DAY: Final = 2_440_588
_CUTOVER_YEAR: Final = 1582
_CUTOVER_DAY: Final = -141_427
_CENTURY: Final = 100
_BACK_YEARS: Final = 80
_COLONS: Final = 3
_NUMBER: Final = re.compile(r"-?[0-9]+")
_SIGNED_ZONE: Final = {
    1: re.compile(r"([+-])([0-9]{2})()"),
    2: re.compile(r"([+-])([0-9]{2})([0-9]{2})"),
    3: re.compile(r"([+-])([0-9]{2}):([0-9]{2})"),
}
_GMT_ZONE: Final = re.compile(r"(?:GMT|UTC)(?:([+-])([0-9]{1,2}):([0-9]{2}))?", re.IGNORECASE)
_NUMBERS: Final = {
    DateKind.YEAR: "year",
    DateKind.DAY: "day",
    DateKind.DAY_OF_YEAR: "day_of_year",
    DateKind.HOUR: "hour",
    DateKind.HOUR_1_24: "hour",
    DateKind.HOUR_0_11: "half_hour",
    DateKind.HOUR_1_12: "half_hour",
    DateKind.MINUTE: "minute",
    DateKind.SECOND: "second",
    DateKind.MILLI: "milli",
    DateKind.MONTH: "month",
}
_WORDS: Final = {
    DateKind.MONTH: ("month", MONTHS),
    DateKind.WEEKDAY: ("weekday", WEEKDAYS),
    DateKind.HALF: ("half", ("AM", "PM")),
    DateKind.ERA: ("era", ("BC", "AD")),
}


def lenient_moment_ms(pattern: DatePattern, text: str, *, now_ms: int) -> int:
    """The time that a text says, in UTC where it names no zone; what follows the last part is ignored.

    A year of two digits is of the last eighty years or of the next twenty, from `now_ms` on. ValueError where
    it is no such text, or the pattern has a part that is only written.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    found = _Reading(text, now.year - _BACK_YEARS)
    elements = pattern.elements
    for place, element in enumerate(elements):
        if isinstance(element, str):
            found.literal(element)
        else:
            is_abutting = place + 1 < len(elements) and isinstance(elements[place + 1], DateField)
            found.element(element, is_abutting=is_abutting)
    moment = _moment(found.values)
    if found.is_first_year:
        earliest = _days(now.year - _BACK_YEARS, now.month) + now.day - 1
        if moment < earliest * _DAY_MS + now_ms % _DAY_MS:
            return _moment({**found.values, "year": found.values["year"] + _CENTURY})
    return moment


def julian_text(pattern: DatePattern, moment_ms: int) -> str:
    """The date in UTC; ValueError for a year before 1 or beyond 9999, and what only Julius' calendar has."""
    days, rest = divmod(moment_ms, _DAY_MS)
    is_old = days < _CUTOVER_DAY
    has_weekday = any(element.kind is DateKind.WEEKDAY for element in pattern.fields)
    with suppress(ValueError, OverflowError):
        if not is_old:
            return pattern.text(moment_ms, _UTC)
        if not has_weekday:
            days = (date(*_julian_date(days)) - date(1970, 1, 1)).days
            return pattern.text(days * _DAY_MS + rest, _UTC)
    raise ValueError(
        "the date cannot be written: its year is not from 1 to 9999, or it is a leap day or has a day of the "
        "week before 1582"
    )


@dataclass(slots=True)
class _Reading:
    """A text that is read from the left; `values` keep the order in which they were found.

    Two digits of a year are of the hundred years from `first_year` on; `is_first_year`: they are of this one.
    """

    text: str
    first_year: int
    is_first_year: bool = False
    at: int = 0
    values: dict[str, int] = field(default_factory=dict)

    def literal(self, wanted: str) -> None:
        """Passes over text of the pattern."""
        if not self.text.startswith(wanted, self.at):
            raise ValueError("the text does not match the pattern")
        self.at += len(wanted)

    def element(self, element: DateField, *, is_abutting: bool) -> None:
        """Reads one part of the date, with blanks before it."""
        start = self.at
        while self.text[self.at : self.at + 1] in {" ", "\t"}:
            self.at += 1
        if element.kind in {DateKind.OFFSET, DateKind.ZONE_NAME}:
            self._zone(element)
        elif element.kind in _WORDS and element.style is not DateStyle.NUMBER:
            self._word(*_WORDS[element.kind], has_short=element.kind in {DateKind.MONTH, DateKind.WEEKDAY})
        elif element.kind in _NUMBERS:
            # Of numbers without anything between them each has so many characters, with the blanks.
            self._number(element, start if is_abutting else None)
        else:
            raise ValueError(f"{element.kind} cannot be read, only written")

    def _set(self, name: str, value: int) -> None:
        self.values.pop(name, None)
        self.values[name] = value

    def _number(self, element: DateField, bounded_from: int | None) -> None:
        width = 2 if element.style is DateStyle.TWO_DIGITS else element.width
        end = len(self.text) if bounded_from is None else bounded_from + width
        found = _NUMBER.match(self.text, self.at, end)
        if found is None or end > len(self.text):
            raise ValueError("the text does not match the pattern")
        self.at = found.end()
        value = _number_of(element, found[0])
        if element.kind is DateKind.YEAR:
            has_two_digits = width <= 2 and len(found[0]) == 2 and found[0].isdecimal()  # noqa: PLR2004
            self.is_first_year = has_two_digits and value == self.first_year % _CENTURY
            if has_two_digits:
                value = self.first_year + (value - self.first_year) % _CENTURY
        self._set(_NUMBERS[element.kind], value)

    def _word(self, name: str, words: tuple[str, ...], *, has_short: bool) -> None:
        rest = self.text[self.at :].lower()
        spelled = [(word.lower(), number) for number, word in enumerate(words)]
        if has_short:
            spelled += [(word[:_SHORT], number) for word, number in spelled]
        fitting = [each for each in spelled if rest.startswith(each[0])]
        if not fitting:
            raise ValueError("the text does not match the pattern")
        word, number = max(fitting, key=lambda each: len(each[0]))
        self.at += len(word)
        self._set(name, number)

    def _zone(self, element: DateField) -> None:
        is_iso = element.kind is DateKind.OFFSET and element.zulu
        if is_iso and self.text.startswith("Z", self.at):
            self.at += 1
            self._set("zone", 0)
            return
        styles = {DateStyle.HOURS_ONLY: 1, DateStyle.HOURS_COLON_MINUTES: _COLONS}
        found = _SIGNED_ZONE[styles.get(element.style, 2) if is_iso else 2].match(self.text, self.at)
        if found is None and not is_iso:
            found = _GMT_ZONE.match(self.text, self.at)
        if found is None:
            raise ValueError("the text does not match the pattern, or its zone is not one of UTC, GMT, +hhmm")
        sign, hours, minutes = found[1], int(found[2] or 0), int(found[3] or 0)
        if hours >= 24 or minutes >= 60:  # noqa: PLR2004  # of a clock
            raise ValueError("the text's zone is not one")
        self.at = found.end()
        offset = hours * _HOUR_MS + minutes * _MINUTE_MS
        self._set("zone", -offset if sign == "-" else offset)


def _number_of(element: DateField, text: str) -> int:
    """What a number means in the calendar."""
    value = int(text)
    match element.kind:
        case DateKind.MONTH:
            return value - 1
        case DateKind.HOUR_1_24 if value == 24:  # noqa: PLR2004  # midnight
            return 0
        case DateKind.HOUR_1_12 if value == _NOON:
            return 0
        case _:
            return value


def _moment(found: dict[str, int]) -> int:
    order = list(found)
    year = found.get("year", 1970)
    if found.get("era") == 0:
        year = 1 - year
    if "weekday" in found and not {"day", "day_of_year"} & found.keys():
        raise ValueError("a day of the week without a day cannot be read")
    month, day = found.get("month", 0), found.get("day", 1)
    if "day_of_year" in found and not ("day" in found and order.index("day") > order.index("day_of_year")):
        month, day = 0, found["day_of_year"]
    days = _days(year + month // _NOON, month % _NOON + 1) + day - 1
    seconds = (_hour(found, order) * 60 + found.get("minute", 0)) * 60 + found.get("second", 0)
    return days * _DAY_MS + seconds * 1000 + found.get("milli", 0) - found.get("zone", 0)


def _hour(found: dict[str, int], order: list[str]) -> int:
    """The hour of the day; of two the later one counts."""
    has_half = "half" in found and "half_hour" in found
    later = max(order.index("half"), order.index("half_hour")) if has_half else -1
    if "hour" in found and order.index("hour") > later:
        return found["hour"]
    return found.get("half_hour", 0) + _NOON * found.get("half", 0)


def _days(year: int, month: int) -> int:
    """The days from 1970 to the first of a month."""
    before = (14 - month) // _NOON
    years, months = year + 4800 - before, month + _NOON * before - 3
    julian = 1 + (153 * months + 2) // 5 + 365 * years + years // 4 - 32083 - _EPOCH_JULIAN_DAY
    gregorian = julian - years // 100 + years // 400 + 38
    is_gregorian = year > _CUTOVER_YEAR or (year == _CUTOVER_YEAR and gregorian >= _CUTOVER_DAY)
    return gregorian if is_gregorian else julian


def _julian_date(days: int) -> tuple[int, int, int]:
    shifted = days + _EPOCH_JULIAN_DAY + 32082
    years = (4 * shifted + 3) // 1461
    rest = shifted - 1461 * years // 4
    months = (5 * rest + 2) // 153
    return (
        years - 4800 + months // 10,
        months + 3 - _NOON * (months // 10),
        rest - (153 * months + 2) // 5 + 1,
    )
