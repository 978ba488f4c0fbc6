"""No key and no error text can forge a log line or control a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.text_formatting import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain key.txt", "plain key.txt", id="plain"),
        pytest.param("é + % =", "é + % =", id="letters stay readable"),
        pytest.param("a\nb\r\tc", "a\\nb\\r\\tc", id="newlines"),
        pytest.param("\x1b[2J", "\\x1b[2J", id="terminal escape"),
        pytest.param("a\u202eb", "a\\u202eb", id="right-to-left override"),
        pytest.param("\ud800", "\\ud800", id="lone surrogate"),
        pytest.param("a\u2028b", "a\\u2028b", id="line separator"),
    ],
)
def test_unsafe_characters_become_escapes(text: str, expected: str) -> None:
    """Each kind of character that a terminal or a log reader would act on."""
    assert printable(text) == expected


@given(st.text(st.characters(), max_size=200))
def test_any_text_becomes_one_encodable_line(text: str) -> None:
    """Whatever comes in, one line of encodable text goes out."""
    shown = printable(text)

    assert len(shown.splitlines()) <= 1
    assert shown.encode().decode() == shown


def test_a_key_of_full_length_is_not_cut_and_longer_text_is() -> None:
    """S3 allows keys of 1,024 bytes."""
    assert printable("k" * 1024) == "k" * 1024
    assert printable("k" * 5000) == "k" * 1099 + "…"
