"""Two digits of a year, as SimpleDateFormat understands them on a given day."""

from datetime import UTC, datetime

import pytest

from headrace.names.date_letters import DateDialect
from headrace.names.date_pattern import read_date_pattern
from headrace.names.lenient_dates import lenient_moment_ms


def _ms(year: int, month: int, day: int) -> int:
    return round(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "today", "expected"),
    [
        ("01/01/45", (2026, 7, 1), (2045, 1, 1)),
        ("01/01/47", (2026, 7, 1), (1947, 1, 1)),
        # Of the year of eighty years ago only what is younger than that.
        ("30/06/46", (2026, 7, 1), (2046, 6, 30)),
        ("01/07/46", (2026, 7, 1), (1946, 7, 1)),
        ("01/01/99", (2026, 7, 1), (1999, 1, 1)),
        ("01/01/99", (2080, 7, 1), (2099, 1, 1)),
        ("01/01/00", (2080, 7, 1), (2100, 1, 1)),
        ("01/07/00", (2080, 7, 1), (2000, 7, 1)),
        ("01/01/2046", (1900, 7, 1), (2046, 1, 1)),
    ],
)
def test_two_digits_are_of_the_last_eighty_years_or_the_next_twenty(
    text: str, today: tuple[int, int, int], expected: tuple[int, int, int]
) -> None:
    """Counted from the clock that is given, not from that of the machine."""
    pattern = read_date_pattern("dd/MM/yy", DateDialect.SIMPLE, is_read=True)
    assert lenient_moment_ms(pattern, text, now_ms=_ms(*today)) == _ms(*expected)
