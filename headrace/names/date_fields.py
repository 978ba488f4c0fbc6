"""The parts that a date in a name can have, and their texts, in English where they are words."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from headrace.model.clock import moment_at

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS: Final = ("1st", "2nd", "3rd", "4th")
_SHORT: Final = 3
# Before it UTC is in the year 0, which Python does not know, and till the second some zone is in one of three
# digits. From the last on some zone is in the year 10000, which four digits do not show.
FIRST_DATE_MS: Final = -62_135_596_800_000
FIRST_OF_FOUR_DIGITS_MS: Final = -30_610_137_600_000
LAST_DATE_MS: Final = 253_402_214_400_000
# What Joda and Java take for an offset; no zone is farther from UTC than 14 hours.
# As Java's and Joda's: the letters before an offset say nothing more. GMT+0 and GMT-0 are names.
_FIXED: Final = re.compile(
    r"(?:UTC?|GMT(?![+-]0$))?([+-])(?:([0-9]{1,2})(?::([0-5][0-9]))?|([0-9]{2})([0-5][0-9]))"
)
_UTC_NAMES: Final = frozenset({"Z", "utc"})
_FARTHEST: Final = timedelta(hours=14)


class DateKind(StrEnum):
    """What a part shows; the words are those of error texts."""

    ERA = "the era"
    CENTURY = "the century"
    YEAR = "the year"
    ISO_YEAR = "the ISO year of weeks"
    WEEK_YEAR = "the year of weeks"
    QUARTER = "the quarter"
    MONTH = "the month"
    ISO_WEEK = "the ISO week"
    WEEK = "the week of the year"
    WEEK_OF_MONTH = "the week of the month"
    DAY = "the day"
    DAY_OF_YEAR = "the day of the year"
    WEEKDAY_OF_MONTH = "which one of its weekday in the month"
    ISO_WEEKDAY = "the day of the ISO week"
    WEEKDAY = "the day of the week"
    HALF = "AM or PM"
    HOUR = "the hour"
    HOUR_1_24 = "the hour from 1 to 24"
    HOUR_1_12 = "the hour from 1 to 12"
    HOUR_0_11 = "the hour from 0 to 11"
    MINUTE = "the minute"
    SECOND = "the second"
    FRACTION = "the fraction of the second"
    MILLI = "milliseconds of the second"
    MILLI_OF_DAY = "milliseconds of the day"
    NANO = "nanoseconds of the second"
    NANO_OF_DAY = "nanoseconds of the day"
    ZONE_ID = "the zone's id"
    ZONE_NAME = "the zone's name"
    OFFSET = "the zone's offset"


class DateStyle(StrEnum):
    """How a part is written: a number, the last two digits of a year, or words; offsets as Java does."""

    NUMBER = "number"
    TWO_DIGITS = "two digits"
    SHORT = "short"
    LONG = "long"
    NARROW = "narrow"
    QUARTER_SHORT = "Q1"
    HOURS_MINUTES = "+HHmm"
    HOURS_COLON_MINUTES = "+HH:mm"
    HOURS = "+HH[mm]"
    HOURS_ONLY = "+HH"
    GMT_SHORT = "GMT+H"
    GMT_LONG = "GMT+HH:mm"


@dataclass(frozen=True, slots=True)
class DateField:
    """One part. `width` is the least number of digits; `zulu`: an offset of nothing is `Z`."""

    kind: DateKind
    style: DateStyle = DateStyle.NUMBER
    width: int = 1
    zulu: bool = False

    @property
    def is_word(self) -> bool:
        """Whether its text depends on the language or on where weeks begin, which is known for English."""
        return self.kind not in _OFFSETS and (self.kind in _LOCAL or self.style in _WORDS)

    @property
    def digits(self) -> int | None:
        """How many digits it always has; None where that varies, or it is no number."""
        if self.style is DateStyle.TWO_DIGITS:
            return 2
        if self.style is not DateStyle.NUMBER:
            return None
        if self.kind is DateKind.FRACTION:
            return self.width
        if self.kind in YEARS:
            return max(self.width, 4)
        return self.width if self.width >= _MOST_DIGITS.get(self.kind, 99) else None

    @property
    def step_ms(self) -> int:
        """A number of ms in each multiple of which UTC has one text of it, not above a day."""
        return _STEPS.get(self.kind, _DAY_MS)

    def text(self, local: datetime) -> str:
        """Its text at this moment, whose zone is the one that is shown."""
        if self.kind in _OFFSETS:
            return _zone(self, local)
        if self.style in _WORDS:
            return _words(self, local)
        number = _NUMBERS[self.kind](local)
        if self.style is DateStyle.TWO_DIGITS:
            return f"{number % 100:02}"
        if self.kind is DateKind.FRACTION:
            return f"{local.microsecond // 1000:03}".ljust(self.width, "0")[: self.width]
        return f"{number:0{self.width}}"


def is_date(moment_ms: int) -> bool:
    """Whether a time in ms since 1970 is of the years 1 to 9999 of UTC, which four digits show."""
    return FIRST_DATE_MS <= moment_ms < LAST_DATE_MS


def read_zone(name: str) -> tzinfo:
    """Return the zone of a name, or of an offset such as +02:00 or UTC+2; ValueError where there is none.

    Its text is the name, of an offset with hours and minutes; that of +00:00 is UTC.
    """
    fixed = _FIXED.fullmatch(name)
    if fixed is None:
        try:
            return ZoneInfo("UTC" if name in _UTC_NAMES else name)
        except (KeyError, OSError):
            raise ValueError("there is no such time zone") from None
    hours, minutes = fixed[2] or fixed[4], fixed[3] or fixed[5] or "00"
    distance = timedelta(hours=int(hours), minutes=int(minutes))
    if distance > _FARTHEST:
        raise ValueError("no time zone is so far from UTC")
    if not distance:
        return ZoneInfo("UTC")
    return timezone(-distance if fixed[1] == "-" else distance, f"{fixed[1]}{int(hours):02}:{minutes}")


def local_time(moment_ms: int, zone: tzinfo) -> datetime:
    """What clocks of the zone show; ValueError where Python has no such year."""
    try:
        return moment_at(moment_ms).astimezone(zone)
    except OverflowError:
        raise ValueError("the time is beyond the year 9999, or before the year 1") from None


def has_short_name(zone: str) -> bool:
    """Whether the zone's short names are letters, such as CET, in winter and in summer."""
    months = (datetime(2026, month, 1, tzinfo=read_zone(zone)).tzname() or "" for month in (1, 7))
    return all(name.isalpha() for name in months)


_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_OFFSETS: Final = frozenset({DateKind.ZONE_ID, DateKind.ZONE_NAME, DateKind.OFFSET})
_WORDS: Final = frozenset({DateStyle.SHORT, DateStyle.LONG, DateStyle.NARROW, DateStyle.QUARTER_SHORT})
# Weeks begin on Sunday in the language's own country, and the first of a year may have one day.
_LOCAL: Final = frozenset({DateKind.WEEK, DateKind.WEEK_YEAR, DateKind.WEEK_OF_MONTH, DateKind.WEEKDAY})
YEARS: Final = frozenset({DateKind.YEAR, DateKind.ISO_YEAR, DateKind.WEEK_YEAR})
"""What shows a year as a number."""
_MOST_DIGITS: Final = {
    DateKind.DAY_OF_YEAR: 3,
    DateKind.MILLI: 3,
    **dict.fromkeys((DateKind.CENTURY, DateKind.MONTH, DateKind.DAY, DateKind.ISO_WEEK, DateKind.WEEK), 2),
    **dict.fromkeys((DateKind.HOUR, DateKind.HOUR_1_24, DateKind.HOUR_1_12, DateKind.HOUR_0_11), 2),
    **dict.fromkeys((DateKind.MINUTE, DateKind.SECOND), 2),
    **dict.fromkeys(
        (DateKind.QUARTER, DateKind.ISO_WEEKDAY, DateKind.WEEKDAY, DateKind.WEEK_OF_MONTH, DateKind.ERA), 1
    ),
    DateKind.WEEKDAY_OF_MONTH: 1,
}
_STEPS: Final = {
    **dict.fromkeys(
        (DateKind.HALF, DateKind.HOUR, DateKind.HOUR_1_24, DateKind.HOUR_1_12, DateKind.HOUR_0_11), _HOUR_MS
    ),
    DateKind.MINUTE: 60_000,
    DateKind.SECOND: 1000,
    **dict.fromkeys((DateKind.FRACTION, DateKind.MILLI, DateKind.MILLI_OF_DAY), 1),
    **dict.fromkeys((DateKind.NANO, DateKind.NANO_OF_DAY), 1),
    # Most clocks are put forward or back at a full quarter of an hour; `date_pattern.step_ms` knows others.
    **dict.fromkeys(_OFFSETS, 900_000),
}


def _sunday_first(local: datetime) -> int:
    """1 on a Sunday, 7 on a Saturday."""
    return local.isoweekday() % 7 + 1


def _week_year(local: datetime) -> tuple[int, int]:
    """Year and week: week 1 is the one of January 1st, from its Sunday on."""
    weekday = _sunday_first(local)
    last_day = local.date() + timedelta(days=7 - weekday)
    if last_day.year > local.year:
        return last_day.year, 1
    # Days of the week of January 1st that lie before it.
    lead = datetime(local.year, 1, 1, tzinfo=UTC).isoweekday() % 7
    return local.year, (local.timetuple().tm_yday + lead - 1) // 7 + 1


def _week_of_month(local: datetime) -> int:
    lead = local.replace(day=1).isoweekday() % 7
    return (local.day + lead - 1) // 7 + 1


def _milli_of_day(local: datetime) -> int:
    return ((local.hour * 60 + local.minute) * 60 + local.second) * 1000 + local.microsecond // 1000


_NUMBERS: Final[dict[DateKind, Callable[[datetime], int]]] = {
    DateKind.CENTURY: lambda local: local.year // 100,
    DateKind.YEAR: lambda local: local.year,
    DateKind.ISO_YEAR: lambda local: local.isocalendar().year,
    DateKind.WEEK_YEAR: lambda local: _week_year(local)[0],
    DateKind.QUARTER: lambda local: (local.month + 2) // 3,
    DateKind.MONTH: lambda local: local.month,
    DateKind.ISO_WEEK: lambda local: local.isocalendar().week,
    DateKind.WEEK: lambda local: _week_year(local)[1],
    DateKind.WEEK_OF_MONTH: _week_of_month,
    DateKind.DAY: lambda local: local.day,
    DateKind.DAY_OF_YEAR: lambda local: local.timetuple().tm_yday,
    DateKind.WEEKDAY_OF_MONTH: lambda local: (local.day - 1) // 7 + 1,
    DateKind.ISO_WEEKDAY: lambda local: local.isoweekday(),
    DateKind.WEEKDAY: _sunday_first,
    DateKind.HOUR: lambda local: local.hour,
    DateKind.HOUR_1_24: lambda local: local.hour or 24,
    DateKind.HOUR_1_12: lambda local: local.hour % 12 or 12,
    DateKind.HOUR_0_11: lambda local: local.hour % 12,
    DateKind.MINUTE: lambda local: local.minute,
    DateKind.SECOND: lambda local: local.second,
    DateKind.FRACTION: lambda local: local.microsecond // 1000,
    DateKind.MILLI: lambda local: local.microsecond // 1000,
    DateKind.MILLI_OF_DAY: _milli_of_day,
    DateKind.NANO: lambda local: local.microsecond * 1000,
    DateKind.NANO_OF_DAY: lambda local: _milli_of_day(local) * 1_000_000,
}


def _words(field: DateField, local: datetime) -> str:
    is_long, is_narrow = field.style is DateStyle.LONG, field.style is DateStyle.NARROW
    match field.kind:
        case DateKind.ERA:
            return "Anno Domini" if is_long else "A" if is_narrow else "AD"
        case DateKind.HALF:
            return "AM" if local.hour < 12 else "PM"  # noqa: PLR2004 - noon
        case DateKind.QUARTER:
            number = (local.month + 2) // 3
            return f"{_ORDINALS[number - 1]} quarter" if is_long else f"Q{number}"
        case DateKind.MONTH:
            word = MONTHS[local.month - 1]
        case _:
            word = WEEKDAYS[local.weekday()]
    return word if is_long else word[: 1 if is_narrow else _SHORT]


def _zone(field: DateField, local: datetime) -> str:
    if field.kind is DateKind.ZONE_ID:
        return str(local.tzinfo)
    return local.tzname() or "" if field.kind is DateKind.ZONE_NAME else _offset(field, local)


def _offset(field: DateField, local: datetime) -> str:
    # Without the seconds that zones had before 1972, which Java shows for four letters and more alone.
    minutes = int((local.utcoffset() or timedelta()).total_seconds() / 60)
    if not minutes and field.zulu:
        return "Z"
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    has_colon = field.style in {DateStyle.HOURS_COLON_MINUTES, DateStyle.GMT_LONG}
    colon = ":" if has_colon or field.style is DateStyle.GMT_SHORT else ""
    is_short = field.style in {DateStyle.HOURS, DateStyle.GMT_SHORT}
    has_no_minutes = field.style is DateStyle.HOURS_ONLY or (is_short and not rest)
    ending = "" if has_no_minutes else f"{colon}{rest:02}"
    if field.style in {DateStyle.GMT_SHORT, DateStyle.GMT_LONG}:
        width = 1 if field.style is DateStyle.GMT_SHORT else 2
        return f"GMT{sign}{hours:0{width}}{ending}" if minutes else "GMT"
    return f"{sign}{hours:02}{ending}"
