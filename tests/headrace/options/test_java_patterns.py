"""Java's regular expressions: what they match, and what has no counterpart."""

import re

import pytest

from headrace.options.transforms.java_regex import JavaRegexError, java_regex


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
        (r"x\Z", "x", "x\n"),
        (r"x\Z\n", "x\n", "x"),
        (r"\0141[\0142\063]\07", "a3\a", "\x0c13\a"),
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
        (r"\08", "needs an octal number"),
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
