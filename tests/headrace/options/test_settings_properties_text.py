"""Java's `.properties` text is read as java.util.Properties.load reads it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.options.configuration_text import PropertiesError, parse_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        pytest.param("a=1", [("a", "1")], id="equals"),
        pytest.param("a:1", [("a", "1")], id="colon"),
        pytest.param("a 1", [("a", "1")], id="blank"),
        pytest.param("  a\t=\f 1 ", [("a", "1 ")], id="white space"),
        pytest.param("a = = b", [("a", "= b")], id="second separator"),
        pytest.param("a", [("a", "")], id="name alone"),
        pytest.param("=1", [("", "1")], id="no name"),
        pytest.param("# c\n ! d\n\na=1", [("a", "1")], id="comments"),
        pytest.param("a=1 # not a comment", [("a", "1 # not a comment")], id="comment sign in a value"),
        pytest.param("a=1,\\\n   2,\\\r\n\t3", [("a", "1,2,3")], id="continued"),
        pytest.param("a=1\\\n# 2", [("a", "1# 2")], id="no comment in a continued line"),
        pytest.param("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")], id="escaped backslash at the end"),
        pytest.param("a=1\\", [("a", "1")], id="backslash at the very end"),
        pytest.param("a\\ b\\:c\\=d=e", [("a b:c=d", "e")], id="escaped separators"),
        pytest.param("a=\\t\\n\\r\\f\\z", [("a", "\t\n\r\fz")], id="letters"),
        pytest.param("a=\\u00e9\\uD83D\\uDE00", [("a", "é😀")], id="unicode"),
        pytest.param("a=é", [("a", "é")], id="plain unicode"),
        pytest.param("a=1\rb=2\r\nc=3", [("a", "1"), ("b", "2"), ("c", "3")], id="line ends"),
        pytest.param("a=1\na=2", [("a", "1"), ("a", "2")], id="twice"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_properties_text(text: str, pairs: list[tuple[str, str]]) -> None:
    """Each rule of the format."""
    assert parse_properties(text) == pairs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a=1\nb=\\u12", r"line 2: expected four hexadecimal digits after \u", id="short"),
        pytest.param("a=\\uD83D", "line 1: half of a surrogate pair is no character", id="half"),
    ],
)
def test_what_java_would_refuse(text: str, message: str) -> None:
    """A bad escape names its line."""
    with pytest.raises(PropertiesError) as caught:
        parse_properties(text)

    assert str(caught.value) == message


def escaped(text: str) -> str:
    """Write a text so that every rule of the format is of no account: all of it as escapes."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))


def lightly_escaped(text: str) -> str:
    """Write a text as java.util.Properties.store does: escapes only where they are needed."""
    short = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", " ": "\\ "}
    return "".join(short.get(char, f"\\{char}" if char in "\\=:#!" else char) for char in text)


characters = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(characters, characters)), st.sampled_from([escaped, lightly_escaped]))
def test_what_is_written_is_read_back(pairs: list[tuple[str, str]], write: object) -> None:
    """What is written is read back."""
    assert callable(write)
    text = "".join(f"{write(name)}={write(value)}\n" for name, value in pairs)

    assert parse_properties(text) == pairs


@given(st.text())
def test_any_text_gives_pairs_or_a_properties_error(text: str) -> None:
    """Any text gives pairs or a properties error, and half of a text never gives more names than lines."""
    with contextlib.suppress(PropertiesError):
        assert len(parse_properties(text)) <= len(text.splitlines()) + text.count("\r")
