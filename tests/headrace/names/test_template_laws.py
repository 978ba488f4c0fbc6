import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.names import MAX_OFFSET, MAX_PARTITION, KeyFields, KeyTemplate, TemplateError
from headrace.names.key_template import write_field
from headrace.names.template_source import (
    Placeholder,
    Text,
    compile_pattern,
    match_exactly,
    read_template,
    search,
)

KEY_CHARS = "ab01-._/é "
topics = st.text("abz019._-", min_size=1, max_size=12)
partitions = st.integers(0, MAX_PARTITION)
offsets = st.integers(0, MAX_OFFSET)
keys = st.text(KEY_CHARS, max_size=24)
pieces = st.sampled_from(
    [
        *("{{topic}}", "{{partition}}", "{{start_offset:padding=true}}", "{{timestamp}}"),
        *("{{timestamp:unit=yyyy}}", "{{timestamp:unit=MM}}", "{{any}}", "-", "/", "a", ".", "0", "é"),
    ]
)


def rendered(template: KeyTemplate, fields: KeyFields) -> str:
    """The key of an exact template that says exactly these fields; `{{any}}` becomes nothing.

    ValueError where no key does: one is missing or out of range, or could not be told apart from others.
    """
    key = template.prefix + "".join(
        token.text if isinstance(token, Text) else write_field(token, fields) for token in template._tokens
    )
    if template.match(key) != fields:
        raise ValueError(f"{template.source!r} gives no key that says {fields}; {key!r} says otherwise.")
    return key


class TestRendering:
    """For every value that a template admits, `match(rendered(fields)) == fields`."""

    @given(topic=topics, partition=partitions, offset=offsets)
    def test_fields_apart(self, topic: str, partition: int, offset: int) -> None:
        """Where every placeholder ends at a sign it does not take, every value is admitted."""
        template = KeyTemplate.compile(
            "{{topic}}/{{partition:padding=true}}-{{start_offset:padding=true}}.jsonl",
            match="exact",
            prefix="in/",
        )
        fields = KeyFields(topic=topic, partition=partition, start_offset=offset)
        key = rendered(template, fields)
        assert re.fullmatch(r"in/[^/]+/[0-9]{10}-[0-9]{20}\.jsonl", key)
        assert template.match(key) == fields

    @given(topic=topics, partition=partitions, offset=offsets)
    def test_dashes_in_topics(self, topic: str, partition: int, offset: int) -> None:
        """The layout of the sinks gives any topic back, for the last two dashes are its own."""
        template = KeyTemplate.compile("{{topic}}-{{partition}}-{{start_offset}}.gz", match="exact")
        fields = KeyFields(topic=topic, partition=partition, start_offset=offset)
        assert template.match(rendered(template, fields)) == fields

    @given(milliseconds=st.integers(0, 10**13 - 1))
    def test_whole_times(self, milliseconds: int) -> None:
        """A time without a unit is written as 13 digits."""
        template = KeyTemplate.compile("{{timestamp:unit=yyyy}}/{{timestamp}}", match="exact")
        fields = KeyFields(timestamp_ms=milliseconds)
        assert template.match(rendered(template, fields)) == fields

    @given(hours=st.integers(0, 70_000_000))
    def test_units(self, hours: int) -> None:
        """Units together give the hour back, up to the year 9955."""
        units = "/".join(f"{{{{timestamp:unit={unit}}}}}" for unit in ("yyyy", "MM", "dd", "HH"))
        template = KeyTemplate.compile(units, match="exact")
        fields = KeyFields(timestamp_ms=hours * 3_600_000)
        assert template.match(rendered(template, fields)) == fields

    @given(source=st.lists(pieces, min_size=1, max_size=7).map("".join), key=keys)
    def test_what_a_key_says_is_rendered_or_refused(self, source: str, key: str) -> None:
        """Whatever the template, a rendered key says the same again; what cannot be rendered is refused."""
        try:
            template = KeyTemplate.compile(source, match="exact")
        except TemplateError:
            return
        fields = template.match(key)
        if fields is None:
            return
        try:
            key = rendered(template, fields)
        except ValueError:
            return
        assert template.match(key) == fields

    @pytest.mark.parametrize(
        ("template", "fields", "problem"),
        [
            ("{{topic}}", KeyFields(), "The template needs topic, which these fields lack"),
            ("{{topic}}", KeyFields(topic="a/b"), "'a/b' says otherwise"),
            ("{{topic}}", KeyFields(topic="a", partition=1), "gives no key that says"),
            ("{{topic}}{{partition}}", KeyFields(topic="a", partition=12), "'a12' says otherwise"),
            ("{{partition}}", KeyFields(partition=MAX_PARTITION + 1), "'2147483648' says otherwise"),
            ("{{partition}}", KeyFields(partition=-1), "'-1' says otherwise"),
            ("{{timestamp:unit=yyyy}}", KeyFields(timestamp_ms=1), "'1970' says otherwise"),
            ("{{timestamp:unit=yyyy}}", KeyFields(timestamp_ms=10**18), "beyond the year 9999"),
        ],
    )
    def test_refused(self, template: str, fields: KeyFields, problem: str) -> None:
        """Fields that no key of the template says are refused."""
        with pytest.raises(ValueError, match=re.escape(problem)):
            rendered(KeyTemplate.compile(template, match="exact"), fields)


@given(source=st.lists(pieces, min_size=1, max_size=7).map("".join), key=keys)
def test_table_and_expression_agree(source: str, key: str) -> None:
    """The two ways of matching exactly give the same text to every placeholder."""
    try:
        tokens = read_template(source, any_is_known=True)
    except TemplateError:
        return
    pattern = compile_pattern(source, tokens, "exact")
    found = pattern.expression.fullmatch(key)
    walked = match_exactly(tokens, key, 0)
    assert (found is None) == (walked is None)
    if found is not None and walked is not None:
        assert pattern.captures(found) == [pair for pair in walked if pair[0].name != "any"]


SEARCH_PIECES = st.sampled_from(
    [
        *("{{topic}}", "{{partition}}", "{{start_offset}}", "{{timestamp}}", "{{timestamp:unit=MM}}"),
        *("-", "/", "a", "0", ".", "-?", r"\.", r"\-*", "é", "|", "+", "{2}"),
    ]
)
PLAIN = {"topic": "[a-zA-Z0-9._-]+", "timestamp": "[0-9]+"}


@example(source="{{topic}}{{partition}}-?0", key="a00")
@example(source="{{topic}}{0}/", key="a/")
@given(source=st.lists(SEARCH_PIECES, min_size=1, max_size=6).map("".join), key=keys)
def test_search_is_the_plain_expression(source: str, key: str) -> None:
    """What keeps a search from backtracking changes no result: it is the obvious greedy expression."""
    try:
        tokens = read_template(source, any_is_known=False)
        pattern = compile_pattern(source, tokens, "search")
    except TemplateError:
        return
    plain = ""
    for token in tokens:
        if isinstance(token, Placeholder):
            plain += f"({PLAIN.get(token.name, '[0-9]+') if token.width is None else '[0-9]{2}'})"
        else:
            plain += token.text
    expected = re.search(plain, key, re.ASCII)
    found = pattern.expression.search(key)
    assert (found and (found.span(), found.groups())) == (expected and (expected.span(), expected.groups()))


@given(key=st.text(max_size=60))
def test_any_key_is_explained(key: str) -> None:
    """No key, whatever its characters, raises; and an explanation agrees with the match."""
    for source, match in [
        ("{{topic}}-{{partition}}-{{start_offset}}", "search"),
        ("{{any}}-{{topic}}/{{timestamp:unit=yyyy}}{{any}}.{{any}}", "exact"),
        (".*", "search"),
    ]:
        template = KeyTemplate.compile(source, match=match)
        assert template.explain(key).matched == (template.match(key) is not None)


HOSTILE = [
    "1" * 1024,
    "a" * 1024,
    "-" * 1024,
    "a-" * 512,
    "1-" * 512,
    "a1" * 512,
    "1-1" * 341,
    "a/" * 512,
    "a-1-" * 256,
]


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("{{topic}}-{{partition}}-{{start_offset}}", "search"),
        ("{{topic}}{{partition}}-{{start_offset}}", "search"),
        ("{{topic}}{{timestamp}}{{partition}}/{{start_offset}}!", "search"),
        ("{{partition}}-{{start_offset}}-{{topic}}!", "search"),
        (r".*{{topic}}-{{partition}}-{{start_offset}}\.gz", "search"),
        ("{{any}}-{{any}}-{{any}}-{{any}}-{{topic}}-{{partition}}!", "exact"),
        ("{{any}}{{topic}}{{partition}}{{start_offset}}!", "exact"),
    ],
)
def test_hostile_keys_are_cheap(source: str, match: str) -> None:
    """Keys of 1,024 bytes made to backtrack take milliseconds; unguarded, some take seconds to years."""
    template = KeyTemplate.compile(source, match=match)
    started = time.process_time()
    for key in HOSTILE:
        template.match(key)
    assert time.process_time() - started < 1


@given(
    st.text("ab1-/\n", max_size=12),
    st.sampled_from([".*", ".*?", ".*+"]),
    st.sampled_from(
        [r"a-1", r"(a|b)-\d", r"(?<=a)b", r"^a", r"\d+-(b)?", r"", r"(?P<one>[ab]+)-(?P=one)", r"a|b-"]
    ),
)
def test_a_search_finds_what_the_expression_finds(key: str, beginning: str, rest: str) -> None:
    """Whatever it begins with, from wherever it is tried."""
    expression = re.compile(beginning + rest)
    found, plainly = search(expression, key), expression.search(key)

    assert (found and (found.span(), found.groups())) == (plainly and (plainly.span(), plainly.groups()))
