"""Text in a sink's names and dates: refused at the start where S3 or what reads names would alter it."""

import pytest

from headrace.options.given import SettingsError
from tests.spark.sink.grouped import names_of

_TAIL = "{{topic}}/{{partition}}/{{start_offset}}"


@pytest.mark.parametrize("source", ["event", "wallclock"])
@pytest.mark.parametrize(
    ("beginning", "problem"),
    [
        ("{{date:yyyy/'..'/MM}}/", "a directory '.' or '..'"),
        ("{{date:'.'/yyyy}}/", "a directory '.' or '..'"),
        ("a/.{{date:'./'yyyy}}/", "a directory '.' or '..'"),
        ("{{date:yyyy'\n'MM}}/", "a control character in a date"),
    ],
)
def test_text_of_a_date_that_would_be_lost_is_refused(source: str, beginning: str, problem: str) -> None:
    """Each record would be bad, or have a key that tools cannot show."""
    with pytest.raises(SettingsError, match=problem):
        names_of(beginning + _TAIL, file_name_timestamp_source=source)


@pytest.mark.parametrize("end", ["/", "/{{date:yyyy'/'}}", "/{{key}}//"])
def test_a_name_that_would_end_with_a_slash_is_refused(end: str) -> None:
    """It passes for a directory."""
    with pytest.raises(SettingsError, match="a slash at its end"):
        names_of(_TAIL + end)


@pytest.mark.parametrize(
    "beginning", ["{{date:yyyy.MM}}/", "{{date:yyyy/'..a'/MM}}/", "..{{date:yyyy}}/", "{{date:'at' HH}}/"]
)
def test_other_text_of_a_date_is_taken(beginning: str) -> None:
    """Dots with something next to them are no such directory."""
    assert names_of(beginning + _TAIL).grouping
