"""The letters of date patterns: of java.time's DateTimeFormatter, of Joda-Time, and of SimpleDateFormat."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

from headrace.names.date_fields import DateField, DateKind, DateStyle

_TWO: Final = 2
_WORDS_FROM: Final = 3
_LONG: Final = 4
_NARROW: Final = 5
_MOST_LETTERS: Final = 19


class DateDialect(StrEnum):
    """Whose letters a pattern is made of."""

    JAVA = "java.time"
    JODA = "Joda-Time"
    SIMPLE = "SimpleDateFormat"


class UnknownLetter(ValueError):
    """Not a letter of the dialect, or not in this number; the text says which."""


_Make = Callable[[int], DateField]


def date_field(letters: str, dialect: DateDialect) -> DateField:
    """The part that a run of one letter stands for; UnknownLetter where it stands for none."""
    make = _DIALECTS[dialect].get(letters[0])
    if make is None:
        raise UnknownLetter(
            f"{letters!r} is no part of a date ({dialect}): known are "
            f"{' '.join(_DIALECTS[dialect])}; put text in '..'"
        )
    if len(letters) > _MOST_LETTERS:
        raise UnknownLetter(f"{letters[0]!r} is there {len(letters)} times")
    return make(len(letters))


def _few(most: int, kind: DateKind, count: int) -> DateField:
    """A number with at most so many letters."""
    if count > most:
        raise UnknownLetter(f"{kind} takes at most {most} letters, not {count}")
    return DateField(kind, width=count)


def _number(kind: DateKind, count: int) -> DateField:
    return DateField(kind, width=count)


def _year(kind: DateKind, count: int) -> DateField:
    return DateField(kind, DateStyle.TWO_DIGITS) if count == _TWO else DateField(kind, width=count)


def _word(kind: DateKind, count: int) -> DateField:
    """A word whatever the count: short, long from four letters on, one letter with five."""
    if count > _NARROW:
        raise UnknownLetter(f"{kind} takes at most {_NARROW} letters, not {count}")
    style = {_LONG: DateStyle.LONG, _NARROW: DateStyle.NARROW}.get(count, DateStyle.SHORT)
    return DateField(kind, style)


def _number_or_word(kind: DateKind, count: int) -> DateField:
    return DateField(kind, width=count) if count < _WORDS_FROM else _word(kind, count)


def _quarter(count: int) -> DateField:
    if count == _NARROW:
        return DateField(DateKind.QUARTER)
    return _number_or_word(DateKind.QUARTER, count)


def _exactly(wanted: int, field: DateField, count: int) -> DateField:
    if count != wanted:
        raise UnknownLetter(f"{field.kind} takes {wanted} letter{'s' if wanted > 1 else ''}, not {count}")
    return field


def _offset_x(count: int, *, zulu: bool) -> DateField:
    styles = {1: DateStyle.HOURS, 2: DateStyle.HOURS_MINUTES, 3: DateStyle.HOURS_COLON_MINUTES}
    styles |= {4: DateStyle.HOURS_MINUTES, 5: DateStyle.HOURS_COLON_MINUTES}
    if count not in styles:
        raise UnknownLetter(f"{DateKind.OFFSET} takes at most {_NARROW} letters, not {count}")
    return DateField(DateKind.OFFSET, styles[count], zulu=zulu)


def _offset_z(count: int) -> DateField:
    if count == _LONG:
        return DateField(DateKind.OFFSET, DateStyle.GMT_LONG)
    if count == _NARROW:
        return DateField(DateKind.OFFSET, DateStyle.HOURS_COLON_MINUTES, zulu=True)
    return _offset_x(2 if count <= _WORDS_FROM else count, zulu=False)


def _gmt(count: int) -> DateField:
    if count not in {1, _LONG}:
        raise UnknownLetter(f"{DateKind.OFFSET} takes O or OOOO")
    return DateField(DateKind.OFFSET, DateStyle.GMT_SHORT if count == 1 else DateStyle.GMT_LONG)


def _zone_name(count: int) -> DateField:
    if count >= _LONG:
        raise UnknownLetter("the zone's full name is not known here; write z, or VV for its id")
    return DateField(DateKind.ZONE_NAME, DateStyle.SHORT)


def _joda_word(kind: DateKind, count: int) -> DateField:
    return DateField(kind, DateStyle.LONG if count >= _LONG else DateStyle.SHORT)


def _joda_month(count: int) -> DateField:
    return _number(DateKind.MONTH, count) if count < _WORDS_FROM else _joda_word(DateKind.MONTH, count)


def _joda_offset(count: int) -> DateField:
    if count > _TWO:
        return DateField(DateKind.ZONE_ID, DateStyle.LONG)
    return DateField(
        DateKind.OFFSET, DateStyle.HOURS_MINUTES if count == 1 else DateStyle.HOURS_COLON_MINUTES
    )


def _joda_zone_name(count: int) -> DateField:
    if count >= _LONG:
        raise UnknownLetter("the zone's full name is not known here; write z, or ZZZ for its id")
    return DateField(DateKind.ZONE_NAME, DateStyle.SHORT)


def _simple_zone_name(count: int) -> DateField:
    if count >= _LONG:
        raise UnknownLetter("the zone's full name is not known here; write z, or XXX for its offset")
    return DateField(DateKind.ZONE_NAME, DateStyle.SHORT)


def _simple_offset(count: int) -> DateField:
    styles = {1: DateStyle.HOURS_ONLY, 2: DateStyle.HOURS_MINUTES, 3: DateStyle.HOURS_COLON_MINUTES}
    if count not in styles:
        raise UnknownLetter(f"{DateKind.OFFSET} takes at most {_WORDS_FROM} letters, not {count}")
    return DateField(DateKind.OFFSET, styles[count], zulu=True)


_JAVA: Final[Mapping[str, _Make]] = {
    "G": partial(_word, DateKind.ERA),
    "u": partial(_year, DateKind.YEAR),
    "y": partial(_year, DateKind.YEAR),
    "Y": partial(_year, DateKind.WEEK_YEAR),
    "Q": _quarter,
    "q": _quarter,
    "M": partial(_number_or_word, DateKind.MONTH),
    "L": partial(_number_or_word, DateKind.MONTH),
    "w": partial(_few, 2, DateKind.WEEK),
    "W": partial(_few, 1, DateKind.WEEK_OF_MONTH),
    "D": partial(_few, 3, DateKind.DAY_OF_YEAR),
    "d": partial(_few, 2, DateKind.DAY),
    "E": partial(_word, DateKind.WEEKDAY),
    "e": partial(_number_or_word, DateKind.WEEKDAY),
    "c": partial(_number_or_word, DateKind.WEEKDAY),
    "a": partial(_exactly, 1, DateField(DateKind.HALF, DateStyle.SHORT)),
    "h": partial(_few, 2, DateKind.HOUR_1_12),
    "K": partial(_few, 2, DateKind.HOUR_0_11),
    "k": partial(_few, 2, DateKind.HOUR_1_24),
    "H": partial(_few, 2, DateKind.HOUR),
    "m": partial(_few, 2, DateKind.MINUTE),
    "s": partial(_few, 2, DateKind.SECOND),
    "S": partial(_few, 9, DateKind.FRACTION),
    "A": partial(_number, DateKind.MILLI_OF_DAY),
    "n": partial(_number, DateKind.NANO),
    "N": partial(_number, DateKind.NANO_OF_DAY),
    "V": partial(_exactly, 2, DateField(DateKind.ZONE_ID, DateStyle.LONG)),
    "z": _zone_name,
    "O": _gmt,
    "X": partial(_offset_x, zulu=True),
    "x": partial(_offset_x, zulu=False),
    "Z": _offset_z,
}

_JODA: Final[Mapping[str, _Make]] = {
    "G": lambda _: DateField(DateKind.ERA, DateStyle.SHORT),
    "C": partial(_number, DateKind.CENTURY),
    "Y": partial(_year, DateKind.YEAR),
    "y": partial(_year, DateKind.YEAR),
    "x": partial(_year, DateKind.ISO_YEAR),
    "w": partial(_number, DateKind.ISO_WEEK),
    "e": partial(_number, DateKind.ISO_WEEKDAY),
    "E": partial(_joda_word, DateKind.WEEKDAY),
    "D": partial(_number, DateKind.DAY_OF_YEAR),
    "M": _joda_month,
    "d": partial(_number, DateKind.DAY),
    "a": lambda _: DateField(DateKind.HALF, DateStyle.SHORT),
    "K": partial(_number, DateKind.HOUR_0_11),
    "h": partial(_number, DateKind.HOUR_1_12),
    "H": partial(_number, DateKind.HOUR),
    "k": partial(_number, DateKind.HOUR_1_24),
    "m": partial(_number, DateKind.MINUTE),
    "s": partial(_number, DateKind.SECOND),
    "S": partial(_number, DateKind.FRACTION),
    "z": _joda_zone_name,
    "Z": _joda_offset,
}
_SIMPLE: Final[Mapping[str, _Make]] = {
    "G": lambda _: DateField(DateKind.ERA, DateStyle.SHORT),
    "y": partial(_year, DateKind.YEAR),
    "Y": partial(_year, DateKind.WEEK_YEAR),
    "M": _joda_month,
    "L": _joda_month,
    "w": partial(_number, DateKind.WEEK),
    "W": partial(_number, DateKind.WEEK_OF_MONTH),
    "D": partial(_number, DateKind.DAY_OF_YEAR),
    "d": partial(_number, DateKind.DAY),
    "F": partial(_number, DateKind.WEEKDAY_OF_MONTH),
    "E": partial(_joda_word, DateKind.WEEKDAY),
    "u": partial(_number, DateKind.ISO_WEEKDAY),
    "a": lambda _: DateField(DateKind.HALF, DateStyle.SHORT),
    "H": partial(_number, DateKind.HOUR),
    "k": partial(_number, DateKind.HOUR_1_24),
    "K": partial(_number, DateKind.HOUR_0_11),
    "h": partial(_number, DateKind.HOUR_1_12),
    "m": partial(_number, DateKind.MINUTE),
    "s": partial(_number, DateKind.SECOND),
    "S": partial(_number, DateKind.MILLI),
    "z": _simple_zone_name,
    "Z": lambda _: DateField(DateKind.OFFSET, DateStyle.HOURS_MINUTES),
    "X": _simple_offset,
}
_DIALECTS: Final = {DateDialect.JAVA: _JAVA, DateDialect.JODA: _JODA, DateDialect.SIMPLE: _SIMPLE}
