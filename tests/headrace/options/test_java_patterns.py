"""Java's regular expressions: what they match, and what has no counterpart."""

import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.options.sink_forms import topic_pattern
from headrace.options.transforms.java_regex import JavaRegexError, java_regex, without_possessive_groups
from tests.support.examples import examples


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


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("(?:a|ab)*+c", "(?>(?:a|ab)*)c"),
        ("x(a(?:b)?+)++", "x(?>(a(?>(?:b)?))+)"),
        ("(?:a){2,3}+", "(?>(?>(?:a)){2,3})"),
        ("(a){,2}+", "(?>(?>(a)){,2})"),
        (r"\(a\)*+[)(]++()*[])]*+", r"\(a\)*+[)(]++()*[])]*+"),
        ("(a)+(b)?{c}+", "(a)+(b)?{c}+"),
        ("a*+b{2}+", "a*+b{2}+"),
        (r"(?:\)*+)\\(b)?+", r"(?:\)*+)\\(?>(b)?)"),
        ("(?#()(a)*+", "(?#()(?>(a)*)"),
        ("(?x) # )\n(a)*+", "(?x) # )\n(a)*+"),
    ],
)
def test_a_possessive_group_becomes_an_atomic_one(pattern: str, written: str) -> None:
    """What is none of a group, or no repeat, stays as it is."""
    assert without_possessive_groups(pattern) == written


def test_only_a_python_that_gets_them_wrong_is_given_others() -> None:
    """Hashes of what positions mean have the expressions of a source's templates and lines."""
    is_right = sys.version_info >= (3, 11, 5)
    for found in (java_regex("(?:[a-z]+-)*+x"), topic_pattern("(?:[a-z]+-)*+x")):
        assert found == ("(?:[a-z]+-)*+x" if is_right else "(?>(?:[a-z]+-)*)x")


_GROUPS = st.recursive(
    st.sampled_from(["a", "b", "ab", "a?", "b*", "[)(]", r"\)", "(?:a|ab)"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(
            st.sampled_from(["(", "(?:"]),
            inner,
            st.sampled_from([")", ")*", ")*+", ")++", ")?+", "){2}+", "){1,2}+"]),
        ).map("".join),
    ),
    max_leaves=6,
)


@pytest.mark.skipif(sys.version_info < (3, 11, 5), reason="this Python matches possessive groups wrongly")
@settings(max_examples=examples(300))
@given(_GROUPS, st.text("ab)(", max_size=6))
def test_atomic_groups_match_what_possessive_ones_do(pattern: str, text: str) -> None:
    """The same of a text, and the same groups of it."""
    found = [re.search(each, text) for each in (pattern, without_possessive_groups(pattern))]
    spans = [None if each is None else each.regs for each in found]
    assert spans[0] == spans[1]
