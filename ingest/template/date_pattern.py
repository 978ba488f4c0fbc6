"""Dates in object names: patterns of java.time or of Joda-Time, read and written."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from math import gcd
from typing import Final
from zoneinfo import ZoneInfo

from ingest.template.date_fields import DateField, DateKind, local_time
from ingest.template.date_letters import DateDialect, UnknownLetter, date_field

_DAY: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
# Zones differ from UTC by whole quarters of an hour since 1972, and before that by any second.
_QUARTER: Final = 900_000
_QUARTERS_SINCE_MS: Final = 73_483_200_000
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z]+)|([^A-Za-z']+)")
_RESERVED: Final = frozenset("{}#")


class DatePatternError(ValueError):
    """A pattern that cannot be written; the text says which part, and what to write."""


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A date's parts in order: fields, and literal text."""

    parts: tuple[DateField | str, ...]

    @property
    def fields(self) -> tuple[DateField, ...]:
        """The parts that are of the date."""
        return tuple(part for part in self.parts if isinstance(part, DateField))

    @property
    def step_ms(self) -> int:
        """The finest of its fields in ms, not above a day."""
        return min((field.step_ms for field in self.fields), default=_DAY)

    def text(self, moment_ms: int, zone: ZoneInfo, round_ms: int = 0) -> str:
        """The date at a moment that `is_date` holds for, or at the multiple of `round_ms` before it there."""
        local = local_time(moment_ms, zone)
        if round_ms:
            since_1970 = (local.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
            local -= timedelta(milliseconds=since_1970 % round_ms)
        return "".join(part if isinstance(part, str) else part.text(local) for part in self.parts)


def step_ms(finest_ms: int, zone: ZoneInfo, earliest_ms: int, round_ms: int = 0) -> int:
    """A number of ms such that moments in one multiple of it have one date, from `earliest_ms` on."""
    # What is rounded to seven minutes changes its hour at any minute.
    step = gcd(finest_ms, round_ms)
    if zone.key == "UTC":
        return step
    return gcd(step, _QUARTER if earliest_ms >= _QUARTERS_SINCE_MS else 1000)


def read_date_pattern(pattern: str, dialect: DateDialect = DateDialect.JAVA) -> DatePattern:
    """The pattern read; DatePatternError for what is no part of a date."""
    parts: list[DateField | str] = []
    position = 0
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        if found is None:
            raise DatePatternError("a quotation mark (') is not closed")
        quoted, letters, other = found.groups()
        if letters is not None:
            parts += _fields(letters, dialect)
        elif quoted is not None:
            parts.append(quoted.replace("''", "'") or "'")
        else:
            parts += _other(other, dialect)
        position = found.end()
    date = DatePattern(tuple(parts))
    if not date.fields:
        raise DatePatternError("it has no part of a date; write for example yyyy-MM-dd/HH")
    if dialect is DateDialect.JAVA:
        _check_years(date)
    return date


def _fields(letters: str, dialect: DateDialect) -> list[DateField | str]:
    try:
        return [date_field("".join(run), dialect) for _, run in groupby(letters)]
    except UnknownLetter as error:
        raise DatePatternError(str(error)) from None


def _other(text: str, dialect: DateDialect) -> list[DateField | str]:
    """Text without letters. Java prints what stands in [..] wherever it can, which is always here."""
    if dialect is DateDialect.JODA:
        return [text]
    if reserved := _RESERVED.intersection(text):
        raise DatePatternError(f"{min(reserved)!r} is reserved in it; put it in '..'")
    plain = text.translate({ord("["): None, ord("]"): None})
    return [plain] if plain else []


def _check_years(date: DatePattern) -> None:
    """Refuse the year of weeks without its week: it was meant to be the year, and differs around New Year."""
    kinds = {field.kind for field in date.fields}
    if DateKind.WEEK_YEAR in kinds and DateKind.WEEK not in kinds:
        raise DatePatternError(
            "'Y' is the year of weeks, which is another one around New Year: write yyyy (or ww beside it)"
        )
