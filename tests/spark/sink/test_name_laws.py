"""Laws of names: different objects have different keys, and a value in a name can be read back."""

from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from headrace.names.name_ambiguity import is_ambiguous
from headrace.names.name_template import (
    EMPTY,
    NULL,
    NameField,
    NameTemplate,
    escape,
    read_name_template,
    unescape,
)
from headrace.options.choices import NameOptions
from headrace.vendors.headrace.names import read_name
from spark.sink.object_keys import KEY_MAX_BYTES, ObjectFacts
from tests.spark.sink.grouped import names_of
from tests.support.examples import max_examples

_VALUES = st.one_of(
    st.none(), st.binary(max_size=6), st.text(max_size=4), st.sampled_from([NULL, EMPTY, "."])
)
_TOPICS = st.text("ab1._-", min_size=1, max_size=4).filter(lambda topic: topic not in {".", ".."})
_PIECES = st.sampled_from(
    [
        *("{{topic}}", "{{partition}}", "{{partition:padding=true}}", "{{start_offset}}", "{{end_offset}}"),
        *("{{start_offset:padding=true}}", "{{key}}", "{{value:a}}", "{{header:h}}", "{{date:yyyy-MM}}"),
        *("{{extension}}", "-", "/", "a", "1", "%", ".", "_", "=", "x="),
    ]
)


def _octets(value: str | bytes | None) -> bytes | None:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


@given(_VALUES)
@example("__HIVE_DEFAULT_PARTITION__")
@example("\ud800")
@example("..")
def test_a_value_is_read_back(value: str | bytes | None) -> None:
    """So different values have different texts."""
    assert unescape(escape(value)) == _octets(value)


@given(_VALUES)
def test_a_text_of_a_name_is_one_directory(value: str | bytes | None) -> None:
    """Nothing that a path, a shell or XML would read otherwise."""
    text = escape(value)

    assert text
    assert text not in {".", ".."}
    assert all(char.isalnum() or char in "%_.-" for char in text)


def _named(template: NameTemplate, facts: tuple[Any, ...]) -> tuple[object, ...]:
    """What the template shows of an object."""
    topic, partition, first, last, key, value, header, month = facts
    shown = {
        NameField.TOPIC: topic,
        NameField.PARTITION: partition,
        NameField.START_OFFSET: first,
        NameField.END_OFFSET: last,
        NameField.KEY: _octets(key),
        NameField.VALUE: _octets(value),
        NameField.HEADER: _octets(header),
        NameField.DATE: month,
    }
    return tuple(shown[field] for field in sorted(template.fields - {NameField.EXTENSION}))


def _render(template: NameTemplate, facts: tuple[Any, ...]) -> str:
    topic, partition, first, last, key, value, header, month = facts
    texts = []
    for token in template.tokens:
        if isinstance(token, str):
            texts.append(token)
            continue
        texts.append(
            {
                NameField.TOPIC: topic,
                NameField.PARTITION: token.padding.text(partition),
                NameField.START_OFFSET: token.padding.text(first),
                NameField.END_OFFSET: token.padding.text(last),
                NameField.KEY: escape(key),
                NameField.VALUE: escape(value),
                NameField.HEADER: escape(header),
                NameField.DATE: f"2026-{month:02}",
                NameField.EXTENSION: ".x",
            }[token.field]
        )
    return "".join(texts)


_SMALL = st.sampled_from([0, 1, 2, 10, 11, 12, 21, 111])
_FACTS = st.tuples(_TOPICS, _SMALL, _SMALL, _SMALL, _VALUES, _VALUES, _VALUES, st.integers(1, 12))


@settings(max_examples=3 * max_examples())
@given(pieces=st.lists(_PIECES, min_size=1, max_size=8), objects=st.lists(_FACTS, min_size=2, max_size=12))
def test_what_is_not_ambiguous_gives_different_keys(
    pieces: list[str], objects: list[tuple[Any, ...]]
) -> None:
    """For all templates that are taken, whatever topics, offsets and values are."""
    source = "".join(pieces)
    assume(not any(segment in {".", ".."} for segment in source.split("/")))
    template = read_name_template(source)
    assume(not is_ambiguous(template, ".x"))

    by_key: dict[str, tuple[object, ...]] = {}
    for facts in objects:
        shown = _named(template, facts)
        assert by_key.setdefault(_render(template, facts), shown) == shown


@given(facts=_FACTS, other=_FACTS)
def test_keys_of_different_objects_differ(facts: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """As ObjectNames makes them: by topic, partition, group and first offset."""
    names = names_of(
        "{{key}}/{{value:a}}/{{header:h}}/{{date:yyyy-MM}}/{{topic}}-{{partition}}-{{start_offset}}{{extension}}"
    )

    def key(of: tuple[Any, ...]) -> str:
        topic, partition, first, _, *values, month = of
        group = names.group((*values, f"2026-{month:02}"))
        found = names.key(
            ObjectFacts(topic=topic, partition=partition, group=group, first_offset=first, opened_ms=0)
        )
        assert len(found.encode()) <= KEY_MAX_BYTES
        return found

    def identity(of: tuple[Any, ...]) -> tuple[object, ...]:
        return (*of[:3], *map(_octets, of[4:7]), of[7])

    assert (key(facts) == key(other)) == (identity(facts) == identity(other))


@given(topic=_TOPICS, partition=_SMALL, first=st.integers(0, 2**63 - 1), prefix=st.sampled_from(["", "a/b-"]))
def test_the_layouts_own_reader_reads_the_default_name(
    topic: str, partition: int, first: int, prefix: str
) -> None:
    """Write, then restore: topic, partition and offset come back, also of a topic that was made again."""
    names = names_of(
        "{{topic}}/{{partition}}/{{start_offset:padding=true}}.headrace{{extension}}", aws_s3_prefix=prefix
    )
    for topic_id in (None, "kYq3T-_x0000000000000A"):
        key = names.key(
            ObjectFacts(
                topic=topic, partition=partition, group="", first_offset=first, opened_ms=0, topic_id=topic_id
            )
        )
        found = read_name(key, NameOptions(prefix=prefix))

        assert found is not None
        assert (found.topic, found.partition, found.start_offset) == (topic, partition, first)
