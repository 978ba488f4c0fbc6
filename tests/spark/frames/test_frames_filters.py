"""Filters of a query that leave whole objects out: never one that has a row for it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import LongType, StringType, StructType

from headrace.model.objects import ObjectId, Route, S3Object
from spark.frames.batch_splits import may_hold, shown_values
from spark.frames.inference import METADATA_FIELD
from spark.frames.source import HeadraceReader, HeadraceSource

_PATH = ("_metadata", "x")
_KEY = ("_metadata", "key")
_OPTIONS = {
    "path": "s3://bucket/in/",
    "rows": "columns",
    "input.format": "jsonl",
    "file.name.template": "in/{{topic}}-{{partition}}.*",
    "metadata.column": "true",
}


_SQL: Mapping[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, other: value == other,
    GreaterThan: lambda value, other: value > other,
    GreaterThanOrEqual: lambda value, other: not value < other,
    LessThan: lambda value, other: value < other,
    LessThanOrEqual: lambda value, other: not value > other,
    StringStartsWith: lambda value, other: value[: len(other)] == other,
    StringEndsWith: lambda value, other: value[::-1][: len(other)] == other[::-1],
    StringContains: lambda value, other: len(value.split(other)) > 1 if other else True,
}


def _sql(condition: Filter, value: Any) -> bool | None:
    """What SQL says of the filter for a row with this value: true, false or null."""
    match condition:
        case Not(child=child):
            found = _sql(child, value)
            return None if found is None else not found
        case IsNull() | IsNotNull():
            return (value is None) == isinstance(condition, IsNull)
        case EqualNullSafe(value=other):
            return bool(value == other)
        case In(value=among) if value is not None and None in among:
            return True if value in among else None
        case In(value=among):
            return None if value is None else value in among
    other = getattr(condition, "value", None)
    return None if value is None or other is None else _SQL[type(condition)](value, other)


def _asked(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    """Filters that compare with such values."""
    kinds = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
    return st.one_of(
        *[st.builds(kind, st.just(_PATH), values) for kind in kinds],
        st.builds(In, st.just(_PATH), st.lists(st.none() | values, max_size=3).map(tuple)),
        st.sampled_from([IsNull(_PATH), IsNotNull(_PATH)]),
    )


_TEXTS = st.text("ab", max_size=2)
_TIMES = st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 3)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001  # hypothesis wants them bare
_OF_TEXTS = _asked(_TEXTS) | st.one_of(
    *[st.builds(kind, st.just(_PATH), _TEXTS) for kind in (StringStartsWith, StringEndsWith, StringContains)]
)
_CASES = st.one_of(
    st.tuples(_OF_TEXTS, st.none() | _TEXTS),
    st.tuples(_asked(st.integers(0, 3)), st.none() | st.integers(0, 3)),
    st.tuples(_asked(_TIMES), st.none() | _TIMES),
)


@given(_CASES, st.booleans())
def test_an_object_is_left_out_where_no_row_of_it_is_wanted(
    case: tuple[Filter, Any], is_negated: bool
) -> None:
    """And is there where SQL would take its rows."""
    asked, value = case
    condition = Not(asked) if is_negated else asked
    is_wanted = _sql(condition, value) is True

    assert may_hold(condition, {_PATH: value}) or not is_wanted
    has_null = isinstance(asked, In) and None in asked.value
    if not isinstance(asked, EqualNullSafe) and not has_null:
        assert may_hold(condition, {_PATH: value}) == is_wanted


@pytest.mark.parametrize(
    ("value", "other"),
    [(1, True), (1, 1.0), ("1", 1), (1, "1"), (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1))],  # noqa: DTZ001  # without a zone
)
def test_what_spark_compares_otherwise_is_read(value: Any, other: Any) -> None:
    """Another type, and a time without a zone, which is one of the session's."""
    assert may_hold(EqualTo(_PATH, other), {_PATH: value})
    assert may_hold(Not(EqualTo(_PATH, other)), {_PATH: value})


def test_what_objects_do_not_say_is_read() -> None:
    """Members of rows, and the place of a row."""
    found = S3Object(id=ObjectId("b", "in/k", "e"), size=5, last_modified_ms=1_000)
    values = shown_values(found, Route(topic="t", partition=3), frozenset({"topic"}))

    assert values["_metadata", "last_modified"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert values["topic",] == "t"
    assert not may_hold(EqualTo(("topic",), "u"), values)
    for path in (("partition",), ("n",), ("_metadata", "position"), ("_metadata",)):
        assert may_hold(EqualTo(path, 9), values)


def _reader(schema: StructType, **options: str) -> HeadraceReader:
    return HeadraceSource({**_OPTIONS, **options}).reader(schema)


def _schema(**more: Any) -> StructType:
    found = StructType().add("n", LongType())
    for name, kind in more.items():
        found = found.add(name, kind)
    return found.add(METADATA_FIELD)


def test_variables_of_the_key_are_compared_in_their_own_type_alone() -> None:
    """A schema may give the partition as a long, and a member of rows may have a variable's name."""
    assert _reader(_schema(topic=StringType(), partition=LongType()))._shown == {"topic"}
    assert _reader(_schema(timestamp=StringType()))._shown == frozenset()


def test_keys_that_filters_begin_are_listed_alone() -> None:
    """The longest of them; not what lies elsewhere."""
    reader = _reader(_schema())
    assert reader._prefix() == "in/"
    others = [
        StringStartsWith(_KEY, "elsewhere/2026-01"),
        EqualTo(("_metadata", "etag"), "in/abcdefg"),
        GreaterThan(_KEY, "in/z"),
    ]
    filters = [*others, StringStartsWith(_KEY, "in/2026-"), StringStartsWith(_KEY, "in/2")]

    # All of them are Spark's to apply again.
    assert list(reader.pushFilters(filters)) == filters
    assert reader._prefix() == "in/2026-"


def test_a_directory_bucket_is_listed_by_directories() -> None:
    """It refuses a prefix that ends within a name: a filter broke the read."""
    options = {"path": "s3://logs--use1-az4--x-s3/in/", "poll.listing": "full"}
    for key, listed in (("in/2026-", "in/"), ("in/2026/01-", "in/2026/"), ("in/2026/", "in/2026/")):
        reader = _reader(_schema(), **options)
        reader.pushFilters([StringStartsWith(_KEY, key)])
        assert reader._prefix() == listed


def test_spark_knows_the_reader_as_one_that_needs_no_setting() -> None:
    """PySpark refuses others unless filters are pushed: as `plan_data_source_read` looks."""
    assert getattr(_reader(_schema()).pushFilters, "__func__", None) is DataSourceReader.pushFilters
