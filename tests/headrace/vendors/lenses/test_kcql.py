"""KCQL read: what Lenses' documentation shows, leniency, and mistakes with a caret under them."""

import copy
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.names.archive_names import is_topic_name
from headrace.vendors.lenses.kcql import (
    FieldSource,
    KcqlError,
    PartitionField,
    Property,
    Statement,
    read_kcql,
)

_VALUE, _KEY, _HEADER = FieldSource.VALUE, FieldSource.KEY, FieldSource.HEADER

_START = "INSERT INTO b SELECT * FROM t"


def _one(text: str) -> Statement:
    (statement,) = read_kcql(text)
    return statement


PUBLISHED = {
    "INSERT INTO `bucket-name`:`prefix` SELECT * FROM `kafka-topic` PARTITIONBY `a.b`": Statement(
        bucket="bucket-name",
        prefix="prefix",
        topic="kafka-topic",
        partition_by=(PartitionField(_VALUE, ("a.b",)),),
    ),
    "INSERT INTO testbucket:pathToWriteTo SELECT * FROM topicA;": Statement(
        bucket="testbucket", prefix="pathToWriteTo", topic="topicA"
    ),
    "INSERT INTO testbucket SELECT * FROM topicA;": Statement(bucket="testbucket", prefix="", topic="topicA"),
    "INSERT INTO testbucket:path/To/Write/To SELECT * FROM topicA PARTITIONBY fieldA;": Statement(
        bucket="testbucket",
        prefix="path/To/Write/To",
        topic="topicA",
        partition_by=(PartitionField(_VALUE, ("fieldA",)),),
    ),
    "INSERT INTO bucket:prefix SELECT * FROM `*` STOREAS `AVRO`": Statement(
        bucket="bucket", prefix="prefix", topic="*", store_as="AVRO"
    ),
    "INSERT INTO bucket:prefix SELECT * FROM topicA PARTITIONBY fieldA, _key.fieldB, _headers.fieldC "
    "STOREAS `AVRO` PROPERTIES ('partition.include.keys'=true,)": Statement(
        bucket="bucket",
        prefix="prefix",
        topic="topicA",
        partition_by=(
            PartitionField(_VALUE, ("fieldA",)),
            PartitionField(_KEY, ("fieldB",)),
            PartitionField(_HEADER, ("fieldC",)),
        ),
        store_as="AVRO",
        properties=(Property("partition.include.keys", "true"),),
    ),
    "INSERT INTO lensesioaws:car_speed SELECT * FROM car_speed_events STOREAS `PARQUET`": Statement(
        bucket="lensesioaws", prefix="car_speed", topic="car_speed_events", store_as="PARQUET"
    ),
    "INSERT INTO lensesioaws:car_speed SELECT * FROM car_speed_events STOREAS `JSON` "
    "PROPERTIES('store.envelope'=true)": Statement(
        bucket="lensesioaws",
        prefix="car_speed",
        topic="car_speed_events",
        store_as="JSON",
        properties=(Property("store.envelope", "true"),),
    ),
    "INSERT INTO b SELECT * FROM t NOPARTITION STOREAS `CSV_WITHHEADERS` PROPERTIES ("
    "'padding.type'=RightPad, 'padding.char'='0', 'padding.length.partition'=5, 'key.suffix'='-a', "
    "'flush.count'=1)": Statement(
        bucket="b",
        prefix="",
        topic="t",
        no_partition=True,
        store_as="CSV_WITHHEADERS",
        properties=(
            Property("padding.type", "RightPad"),
            Property("padding.char", "0"),
            Property("padding.length.partition", "5"),
            Property("key.suffix", "-a"),
            Property("flush.count", "1"),
        ),
    ),
    "insert into lensesio:demo select * from demo PARTITIONBY _value.metadata_id, _value.customer_id, "
    "_header.ts, _header.wallclock STOREAS `JSON` PROPERTIES ('flush.size'=1000000, 'flush.interval'=30, "
    "'flush.count'=5000)": Statement(
        bucket="lensesio",
        prefix="demo",
        topic="demo",
        partition_by=(
            PartitionField(_VALUE, ("metadata_id",)),
            PartitionField(_VALUE, ("customer_id",)),
            PartitionField(_HEADER, ("ts",)),
            PartitionField(_HEADER, ("wallclock",)),
        ),
        store_as="JSON",
        properties=(
            Property("flush.size", "1000000"),
            Property("flush.interval", "30"),
            Property("flush.count", "5000"),
        ),
    ),
}


@pytest.mark.parametrize("text", PUBLISHED)
def test_published_statements(text: str) -> None:
    """The statements of Lenses' own documentation."""
    assert _one(text) == PUBLISHED[text]


def test_several_statements() -> None:
    """Statements stand behind semicolons, of which there may be too many."""
    found = read_kcql(";INSERT INTO a SELECT * FROM t;; insert into `b:p/q` select * from `u.v-w` ;")

    assert [(one.bucket, one.prefix, one.topic) for one in found] == [("a", "", "t"), ("b", "p/q", "u.v-w")]


@pytest.mark.parametrize(
    ("clause", "fields"),
    [
        ("(a, b)", [(_VALUE, "a"), (_VALUE, "b")]),
        ("(a, b,)", [(_VALUE, "a"), (_VALUE, "b")]),
        ("a.b.c", [(_VALUE, "a", "b", "c")]),
        ("_value.`a.b`.c", [(_VALUE, "a.b", "c")]),
        ("_key", [(_KEY,)]),
        ("_key.`x y`", [(_KEY, "x y")]),
        ("_header.h-1", [(_HEADER, "h-1")]),
        ("_headers.h", [(_HEADER, "h")]),
        ("_topic,_partition", [(FieldSource.TOPIC,), (FieldSource.PARTITION,)]),
        ("_date.yyyy, _date.MM", [(FieldSource.DATE, "yyyy"), (FieldSource.DATE, "MM")]),
        ("_date.`yyyy-MM-dd`", [(FieldSource.DATE, "yyyy-MM-dd")]),
        ("`_value.x`", [(_VALUE, "_value.x")]),
        ("a, STOREAS JSON", [(_VALUE, "a")]),
    ],
)
def test_partition_by(clause: str, fields: list[tuple[FieldSource, ...]]) -> None:
    """Fields, with escapes, parentheses, and commas too many."""
    statement = _one(f"{_START} PARTITIONBY {clause}")

    assert statement.partition_by == tuple(
        PartitionField(part, path) for part, *path_ in fields for path in [tuple(path_)]
    )


@pytest.mark.parametrize(
    ("text", "wrong", "problem"),
    [
        ("", " ", "Expected INSERT INTO bucket:prefix SELECT * FROM topic, not the end"),
        ("SELECT * FROM t", "SELECT", "Expected INSERT, not SELECT"),
        ("UPSERT INTO b SELECT * FROM t", "UPSERT", "Expected INSERT"),
        ("INSERT INTO SELECT * FROM t", "*", "Expected SELECT, not *"),
        ("INSERT INTO $target SELECT * FROM t", "$target", "has not been filled in"),
        ("INSERT INTO b SELECT * FROM $topic", "$topic", "has not been filled in"),
        ("INSERT INTO a:b:c SELECT * FROM t", "a:b:c", "no bucket:prefix"),
        ("INSERT INTO b SELECT a FROM t", "a", "ReplaceField$Value"),
        ("INSERT INTO b SELECT *, a FROM t", ",", "InsertField$Value"),
        ("INSERT INTO b SELECT * FROM `a b`", "`a b`", "is no topic's name"),
        ("INSERT INTO b SELECT * FROM `..`", "`..`", "is no topic's name"),
        ("INSERT INTO b SELECT * FROM `orders.*`", "`orders.*`", "set topics.regex"),
        ("INSERT INTO b SELECT * FROM t STOREAS `XML`", "`XML`", "expected one of JSON, AVRO"),
        ("INSERT INTO b SELECT * FROM t STOREAS", " ", "Expected a format"),
        ("INSERT INTO b SELECT * FROM t LIMIT ten", "ten", "Expected a number"),
        ("INSERT INTO b SELECT * FROM t WHERE a", "WHERE", "Expected ; or one of PARTITIONBY"),
        ("INSERT INTO b SELECT * FROM t PARTITIONBY", " ", "Expected a field"),
        ("INSERT INTO b SELECT * FROM t PARTITIONBY (a", " ", "Expected ), not the end"),
        ("INSERT INTO b SELECT * FROM t PARTITIONBY a..b", "a..b", "part of this field's name is missing"),
        ("INSERT INTO b SELECT * FROM t PARTITIONBY _date", "_date", "needs a pattern"),
        ("INSERT INTO b SELECT * FROM t PARTITIONBY _header", "_header", "needs a header's name"),
        ("INSERT INTO b SELECT * FROM t PARTITIONBY _topic.x", "_topic.x", "_topic has no fields"),
        ("INSERT INTO b SELECT * FROM t PARTITIONBY _date.a.b", "_date.a.b", "takes one pattern"),
        ("INSERT INTO b SELECT * FROM t PARTITIONBY a NOPARTITION", "NOPARTITION", "keep one of them"),
        ("INSERT INTO b SELECT * FROM t STOREAS CSV STOREAS CSV", "STOREAS", "STOREAS is here already"),
        ("INSERT INTO b SELECT * FROM t PROPERTIES 'a'=1", "'a'", "Expected (, not 'a'"),
        ("INSERT INTO b SELECT * FROM t PROPERTIES('a' 1)", "1", "Expected =, not 1"),
        ("INSERT INTO b SELECT * FROM t PROPERTIES('a'=1 'b'=2)", "'b'", "Expected , or )"),
        ("INSERT INTO b SELECT * FROM t PROPERTIES('a'=1,'a'=2)", "'a'", "'a' appears twice"),
        ("INSERT INTO b SELECT * FROM t WITH_FLUSH_COUNT = 5", "WITH_FLUSH_COUNT", "'flush.count'=5"),
        ("INSERT INTO b SELECT * FROM t WITH_FLUSH_COUNT", "WITH_FLUSH_COUNT", "'flush.count'=.."),
        (
            "INSERT INTO b SELECT * FROM t WITHPARTITIONER=Values WITH_FLUSH_SIZE=7 WITH_FLUSH_COUNT=1",
            "WITHPARTITIONER",
            "PROPERTIES('partition.include.keys'=false, 'flush.size'=7, 'flush.count'=1)",
        ),
        ("INSERT INTO b SELECT * FROM t WITHPARTITIONER=Values", "WITHPARTITIONER", "partition.include.keys"),
        ("INSERT INTO `b SELECT", "`b SELECT", "is not closed"),
        ('INSERT INTO b" SELECT * FROM t', '"', "between backticks"),
    ],
)
def test_mistakes(text: str, wrong: str, problem: str) -> None:
    """One sentence, and a caret under the part that is wrong."""
    with pytest.raises(KcqlError) as caught:
        read_kcql(text)

    error = caught.value
    assert problem in error.problem
    shown, underline = str(error).split("\n")[1:]
    marked = [shown[at] for at in range(len(underline)) if underline[at] == "^" and at < len(shown)]
    assert "".join(marked) == wrong.strip()
    assert copy.copy(error).problem == error.problem


def test_a_long_text_is_shown_around_its_mistake() -> None:
    """Nobody has to count characters in a line of a thousand."""
    text = f"{';'.join([_START] * 50)} STOREAS XML"

    with pytest.raises(KcqlError) as caught:
        read_kcql(text)
    shown, underline = str(caught.value).split("\n")[1:]
    assert shown.startswith("    .. ")
    assert len(shown) < 200
    assert shown[underline.index("^") :] == "XML"


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="`'$:;\r\n"), min_size=1, max_size=8)
_TOPIC = st.from_regex(r"[A-Za-z0-9._-]{1,10}", fullmatch=True).filter(is_topic_name) | st.just("*")
_FIELD = st.one_of(
    st.builds(PartitionField, st.sampled_from([_VALUE, _HEADER]), st.tuples(_TEXT) | st.tuples(_TEXT, _TEXT)),
    st.builds(PartitionField, st.just(_KEY), st.just(()) | st.tuples(_TEXT)),
    st.builds(PartitionField, st.sampled_from([FieldSource.TOPIC, FieldSource.PARTITION])),
    st.builds(PartitionField, st.just(FieldSource.DATE), st.tuples(_TEXT)),
)
_PROPERTIES = st.lists(
    st.builds(Property, _TEXT, st.just("") | _TEXT), max_size=3, unique_by=lambda each: each.name
)


@st.composite
def _statements(draw: st.DrawFn) -> Statement:
    fields = draw(st.lists(_FIELD, max_size=3))
    return Statement(
        bucket=draw(_TEXT),
        prefix=draw(st.just("") | _TEXT),
        topic=draw(_TOPIC),
        partition_by=tuple(fields),
        no_partition=not fields and draw(st.booleans()),
        store_as=draw(st.sampled_from([None, "JSON", "CSV_WITHHEADERS"])),
        limit=draw(st.none() | st.integers(0, 2**63)),
        properties=tuple(draw(_PROPERTIES)),
    )


@given(st.lists(_statements(), min_size=1, max_size=3))
def test_what_is_printed_reads_as_the_same(statements: list[Statement]) -> None:
    """The canonical text of statements is KCQL."""
    assert list(read_kcql("; ".join(map(str, statements)))) == statements


@given(st.text(st.sampled_from("INSERT TO FROM*`'$(),=;:._ab1 "), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but the one error comes out."""
    with suppress(KcqlError):
        assert read_kcql(text)
