"""Expressions of topics' names mean what they mean to Python's `re`, and no name takes one of them long."""

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.options.sink_forms import topic_pattern
from headrace.options.topic_expressions import TopicSelection, matches, replaced
from headrace.options.transforms.java_regex import JavaRegexError, java_regex, java_replacement
from headrace.options.value_types import FormError

NAMES = st.text(alphabet="ab_.-A0", min_size=1, max_size=9)
_ATOMS = st.sampled_from(
    ["a", "b", r"\.", ".", "-", r"\w", r"\W", r"\d", r"\S", r"\b", r"\B", "^", "$", r"\Z", r"\A", "[a-b.]"]
) | st.sampled_from(
    ["[^a_]", r"[\w-]", r"[^\W_]", r"[]a]", "(?!a)", "(?=.*b)", "(?<!a)", r"\1", "", r"\x61", "A", "_"]
)
_REPEATS = st.sampled_from(
    ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,}", "{,2}", "*+", "{a}"]
)


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=3).map("".join)
    chosen = st.lists(several, min_size=1, max_size=3).map("|".join)
    grouped = st.tuples(st.sampled_from(["({})", "(?:{})", "(?P<n>{})", "(?i:{})"]), chosen)
    return st.tuples(grouped.map(lambda pair: pair[0].format(pair[1])) | several, _REPEATS).map("".join)


EXPRESSIONS = st.tuples(
    st.sampled_from(["", "", "(?i)", "(?s)", "(?m)", "^", "(?!a)", "(?=.*b)", "^(?!a|b)(?=..)", "(?i)(?!A)"]),
    _more(_ATOMS | _more(_ATOMS)),
    st.sampled_from(["", "|a.*", "(a|_)*", "(.+-?)+"]),
).map("".join)


def compiled(pattern: str) -> re.Pattern[str] | None:
    """The expression, if it is one."""
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, FutureWarning):
        return None


@given(EXPRESSIONS, NAMES)
def test_names_match_as_they_do_for_python(pattern: str, name: str) -> None:
    """Whichever of both is asked."""
    expected = compiled(pattern)
    if expected is not None:
        assert matches(pattern, name, is_ascii=True) == (expected.fullmatch(name) is not None)
        assert matches(pattern, name) == (re.fullmatch(pattern, name) is not None)


def by_expression(pattern: str, replacement: str, text: str) -> str | None:
    """What became of a text."""
    expression = re.compile(pattern, re.ASCII)
    found = expression.search(text)
    if found is None or expression.fullmatch(text) is None:
        return None
    return text[: found.start()] + found.expand(replacement) + text[found.end() :]


@given(EXPRESSIONS, NAMES, st.sampled_from(["x", "$0-$1", "$1", r"\\$1\$", "${n}.", "$2"]))
def test_names_become_what_they_do_by_python(java: str, name: str, written: str) -> None:
    """As routers write them, in Java's words."""
    try:
        pattern = java_regex(java.replace("(?P<n>", "(?<n>"))
        replacement = java_replacement(written, pattern)
    except (JavaRegexError, FutureWarning):
        return
    assert replaced(pattern, replacement, name) == by_expression(pattern, replacement, name)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\w+-?)+\.events",
        r"(a+)+b",
        r"((a|a)*)*b",
        r"(?:a|aa|\w)*=",
        r"(?i)(?!__)(?!.*\.dlq$)(?:[\w.-]+\.?)+=",
        r"^(?=\w)(\w+)*\Z.",
        r"(a?){80}a{80}=",
        r"(?:(a+)+b|x).*",
        java_regex(r"(\p{Alpha}+-?)+\Z="),
        r".*.*.*.*.*.*=",
    ],
)
@pytest.mark.parametrize(
    "ask",
    [
        matches,
        lambda pattern, name: replaced(pattern, "x", name),
        lambda pattern, name: TopicSelection(names=(), pattern=pattern).matches(name),
    ],
)
def test_no_name_takes_long(pattern: str, ask: Callable[[str, str], object]) -> None:
    """Python takes hours for each."""
    begin = time.process_time()
    assert not ask(pattern, "a" * 100 + "-changelog")
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (r"([a-z]*\.?)*", "a.b", "<>"),
        (r"(?:([a-z]*)(\d*)[.-]?)*", "prod.orders1", "<>"),
        (r"(\w*|-)*", "a-b", "<>-b"),
    ],
)
def test_groups_that_repeat_are_pythons(pattern: str, name: str, expected: str) -> None:
    """RE2 leaves out a last turn that is empty, and routed topics had other names."""
    assert replaced(pattern, r"<\g<1>>", name) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        r"orders\..*",
        r"(?!__)(\w+\.)+events",
        r"(\w+)\.(?!internal)(\w+)",
        r"(?<!a)(b|c)+",
        r"([a-z]{2}-)+\w*(?<!x)",
        r"(?:[a-z]+\.)*[a-z]+(?<!\.dlq)",
        r"(?:\w++\.)*events",
        r"(?>\w+\.)+events",
        r"((a+)b*)+\1",
    ],
)
def test_what_re2_does_not_know_is_taken(pattern: str) -> None:
    """Python is asked of these, as it always was."""
    assert topic_pattern(pattern) == pattern


def test_a_class_in_a_class_is_found_at_once() -> None:
    """Whether there is an && in a class was asked from every [."""
    begin = time.process_time()
    with pytest.raises(FormError):
        topic_pattern("[" * 400_000)
    with pytest.raises(FormError, match="&&"):
        topic_pattern("[a&&b]")
    assert topic_pattern(r"a\[&\]") == r"a\[&\]"
    assert time.process_time() - begin < 5
