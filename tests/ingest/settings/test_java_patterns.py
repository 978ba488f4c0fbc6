"""Java's regular expressions and date patterns: what they match and write, and what has no counterpart."""

import re
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.settings.transforms.java_dates import JavaDatesError, read_java_dates
from ingest.settings.transforms.java_regex import JavaRegexError, java_regex

MOMENT = 1_709_213_405_078
"""2024-02-29 13:30:05.078 UTC, a Thursday."""
LAST = 253_402_300_799_999


@pytest.mark.parametrize(
    ("pattern", "matches", "fails"),
    [
        ("foo.*", "foobar", "bar"),
        (r"\p{Alpha}+", "abc", "ab1"),
        (r"[\p{Digit}_]+", "1_2", "a"),
        (r"\P{Upper}", "a", "A"),
        (r"\Qa.b\E.", "a.bc", "axbc"),
        (r"(?<x>a)\k<x>", "aa", "ab"),
        ("(?i)abc", "ABC", "abd"),
        ("a(?:b|c)++d", "abcbd", "ad"),
        (r"\d\w", "1a", "\u0661a"),
        ("[^a-c]", "d", "a"),
        ("[]a]", "]", "b"),
        (r"[|~a-]", "~", "b"),
        (r"x\z", "x", "y"),
    ],
)
def test_regular_expressions(pattern: str, matches: str, fails: str) -> None:
    """Python's pattern matches what Java's does."""
    found = re.compile(java_regex(pattern), re.ASCII)
    assert found.fullmatch(matches)
    assert not found.fullmatch(fails)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"\p{IsGreek}", "has no counterpart"),
        ("[a[b]]", "a class within a class"),
        ("a(?i)b", "write (?i:..)"),
        ("(?x)a", "the flag (?x)"),
        (r"\Ga", "\\G has no counterpart"),
        ("a\\", "single \\"),
        ("[a", "not closed"),
        ("*", "nothing to repeat"),
    ],
)
def test_what_python_cannot_say_is_named(pattern: str, said: str) -> None:
    """With the part that it is."""
    with pytest.raises(JavaRegexError, match=re.escape(said)):
        java_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 13:30:05.078"),
        ("yy.M.d h 'o''clock' a", "24.2.29 1 o'clock PM"),
        ("EEE, dd MMM yyyy", "Thu, 29 Feb 2024"),
        ("EEEE MMMM", "Thursday February"),
        ("yyyyDDD", "2024060"),
        ("HH:mm:ssXXX", "13:30:05Z"),
        ("HHmmssZ", "133005+0000"),
        ("K k", "1 13"),
        ("SSSSSS", "078000"),
        ("YYYY", "2024"),
    ],
)
def test_times_are_written(pattern: str, text: str) -> None:
    """As DateTimeFormatter writes them."""
    assert read_java_dates(pattern).text(MOMENT, ZoneInfo("UTC")) == text


def test_milliseconds_count_in_simple_patterns() -> None:
    """SimpleDateFormat's S is a number of milliseconds."""
    assert read_java_dates("ss SSSS", is_simple=True).text(MOMENT, ZoneInfo("UTC")) == "05 0078"


def test_zones_are_written() -> None:
    """With their offset at that time."""
    dates = read_java_dates("HH:mm XXX Z")
    assert dates.text(MOMENT, ZoneInfo("Asia/Kolkata")) == "19:00 +05:30 +0530"


@given(moment=st.integers(0, LAST))
def test_what_is_written_can_be_read(moment: int) -> None:
    """To the millisecond, and by names of months and halves of the day."""
    for pattern in ("yyyy-MM-dd'T'HH:mm:ss.SSS", "dd MMMM yyyy hh:mm:ss a SSS"):
        dates = read_java_dates(pattern, is_read=True)
        assert dates.moment_ms(dates.text(moment, ZoneInfo("UTC"))) == moment


@pytest.mark.parametrize("text", ["2024-02-30", "2024-2-1", "x", "2024-02-01 "])
def test_what_is_no_date_is_not_read(text: str) -> None:
    """As strict as the pattern."""
    with pytest.raises(ValueError, match=r"."):
        read_java_dates("yyyy-MM-dd", is_read=True).moment_ms(text)


@pytest.mark.parametrize(
    ("pattern", "said"), [("yyyy'T", "not closed"), ("ww", "'ww' is not known"), ("SSSSSSSSSS", "9 digits")]
)
def test_patterns_without_a_counterpart(pattern: str, said: str) -> None:
    """With the letters that they are."""
    with pytest.raises(JavaDatesError, match=re.escape(said)):
        read_java_dates(pattern)


def test_what_cannot_be_read_is_told_at_the_start() -> None:
    """Names of days say no date."""
    with pytest.raises(JavaDatesError, match="cannot be read"):
        read_java_dates("EEE", is_read=True)
