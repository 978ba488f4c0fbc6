"""Dates in object names: Java's patterns, as far as every part of them has a fixed width."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

_UNITS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}
_WIDTHS: Final = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2}
_MILLISECONDS: Final = {"mm": 60_000, "HH": 3_600_000}
_DAY: Final = 86_400_000
# Zones differ from UTC by whole quarters of an hour since 1972, and before that by any second.
_QUARTER: Final = 900_000
_QUARTERS_SINCE_MS: Final = 73_483_200_000
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z]+)|([^A-Za-z']+)")
_LAST_MS: Final = 253_402_214_400_000
"""The last day of the year 9999, in which no zone is in the year 10000 yet."""


class DatePatternError(ValueError):
    """A pattern that cannot be written; the text says which part, and what to write."""


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A date's parts in order: a unit (`yyyy`, `MM`, `dd`, `HH`, `mm`), or literal text."""

    parts: tuple[tuple[str, bool], ...]
    """Pairs of text and whether it is a unit."""

    @property
    def shape(self) -> tuple[str | int, ...]:
        """Literal texts, and widths in digits, in order."""
        return tuple(_WIDTHS[text] if is_unit else text for text, is_unit in self.parts)

    @property
    def unit_ms(self) -> int:
        """The finest unit in ms, not above a day."""
        return min((_MILLISECONDS.get(text, _DAY) for text, is_unit in self.parts if is_unit), default=_DAY)

    def text(self, moment_ms: int, zone: ZoneInfo) -> str:
        """The date at a moment that `is_date` holds for."""
        local = datetime.fromtimestamp(moment_ms // 1000, UTC).astimezone(zone)
        # strftime writes years below 1000 without their zeros on some systems.
        return "".join(
            (f"{local.year:04}" if text == "yyyy" else local.strftime(_UNITS[text])) if is_unit else text
            for text, is_unit in self.parts
        )


def is_date(moment_ms: int) -> bool:
    """Whether a time in ms since 1970 is one that a record can have, and that four digits of a year show."""
    return 0 <= moment_ms < _LAST_MS


def step_ms(unit_ms: int, zone: ZoneInfo, earliest_ms: int) -> int:
    """A number of ms such that moments in one multiple of it have one date, from `earliest_ms` on."""
    if zone.key == "UTC":
        return unit_ms
    return min(unit_ms, _QUARTER) if earliest_ms >= _QUARTERS_SINCE_MS else 1000


def read_date_pattern(pattern: str) -> DatePattern:
    """The pattern read; DatePatternError for what has no fixed width, or is no date."""
    parts: list[tuple[str, bool]] = []
    position = 0
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        if found is None:
            raise DatePatternError("a quotation mark (') is not closed")
        quoted, letters, other = found.groups()
        if letters is not None:
            parts += ((unit, True) for unit in _units(letters))
        else:
            parts.append((("'" if quoted == "" else (quoted or "").replace("''", "'")) or other, False))
        position = found.end()
    if not any(is_unit for _, is_unit in parts):
        raise DatePatternError("it has no part of a date; write for example yyyy-MM-dd/HH")
    return DatePattern(tuple(parts))


def _units(letters: str) -> list[str]:
    found = [run[0] for run in re.finditer(r"(.)\1*", letters)]
    for run in found:
        if run not in _UNITS:
            units = [*(unit for unit in _UNITS if unit[0] == run[0]), *_UNITS]
            close = next((unit for unit in units if unit[0].lower() == run[0].lower()), None)
            hint = f"write {close}" if close else f"known are {', '.join(_UNITS)}; put text in '..'"
            raise DatePatternError(f"{run!r} is no part of a date in names: {hint}")
    return found
