"""Transforms of topics and headers, conditions, and records that are dropped: Kafka's documented examples."""

import numpy as np
import pytest

from tests.headrace.formats.transforms.transformed import (
    JSON,
    KAFKA,
    LENSES,
    SCHEMALESS,
    Row,
    chain,
    converted,
    refusals,
    transformed,
)

IS_FOO = {"isFoo": {"type": KAFKA + "predicates.TopicNameMatches", "pattern": "foo|orders"}}
TOMBSTONE = {"isNull": {"type": KAFKA + "predicates.RecordIsTombstone"}}
HAS_HEADER = {"has": {"type": KAFKA + "predicates.HasHeaderKey", "name": "h"}}


@pytest.mark.parametrize(
    ("regex", "replacement", "topic"),
    [
        ("(.*)", "acme_$1", "acme_orders"),
        ("or(.*)", "$1", "ders"),
        ("(?<all>.*)ers", "${all}-new", "ord-new"),
        ("xyz(.*)", "$1", "orders"),
        ("ord", "never", "orders"),
        (r"\Qorders\E", r"a\$b".replace("\\$", "-"), "a-b"),
        ("([a-z]+?)(s)", "$2$1", "sorder"),
    ],
)
def test_topics_by_a_regular_expression(regex: str, replacement: str, topic: str) -> None:
    """One that does not match as a whole stays."""
    step = {"type": KAFKA + "RegexRouter", "regex": regex, "replacement": replacement}
    (found,) = transformed(chain(step), [Row(b"x")])
    assert found.topic == topic


def test_topics_by_time() -> None:
    """The documented formats; each day's records are a run of their own."""
    step = {"type": KAFKA + "TimestampRouter"}
    day = 86_400_000
    rows = [Row(b"a", time=0), Row(b"b", time=day), Row(b"c", time=1)]
    assert [row.topic for row in transformed(chain(step), rows)] == [
        "orders-19700101",
        "orders-19700102",
        "orders-19700101",
    ]
    assert len(converted(chain(step), rows).runs) == 2
    documented = {**step, "topic.format": "foo-${topic}-${timestamp}", "timestamp.format": "YYYYMM"}
    (found,) = transformed(chain(documented), [Row(b"a", time=1_557_000_000_000)])
    assert found.topic == "foo-orders-201905"
    weekday = {**step, "timestamp.format": "u-EEEEE-MMMMM-S-ww"}
    (found,) = transformed(chain(weekday), [Row(b"a", time=1_557_000_000_007)])
    assert found.topic == "orders-6-Saturday-May-7-18"
    assert refusals(chain(step), [Row(b"a", time=-1)]) == ["transform t0: it has no timestamp"]


def test_a_topic_that_kafka_does_not_allow_is_refused() -> None:
    """It could not be told from a directory in a name."""
    step = {"type": KAFKA + "RegexRouter", "regex": "(.*)", "replacement": "a/$1"}
    assert refusals(chain(step), [Row(b"x")]) == [
        "transform t0: the topic that it would go to has a name that Kafka does not allow"
    ]


def test_headers_are_inserted_and_dropped() -> None:
    """As many as there are of a name."""
    insert = {"type": KAFKA + "InsertHeader", "header": "app.id", "value.literal": "abc"}
    drop = {"type": KAFKA + "DropHeaders", "headers": "h,other"}
    (found,) = transformed(chain(insert, drop), [Row(b"x", headers=(("h", b"1"), ("k", b"2"), ("h", None)))])
    assert found.headers == (("k", b"2"), ("app.id", b"abc"))


def test_fields_move_into_headers() -> None:
    """HeaderFrom's example, with a header that is null where there is no such field."""
    step = {
        "type": KAFKA + "HeaderFrom$Value",
        "fields": "id,last_login_timestamp,none",
        "headers": "id,last_login_timestamp,none",
        "operation": "move",
    }
    value = {"id": 11, "name": "Harry Wilson", "last_login_timestamp": "2020-05-02"}
    (found,) = transformed({**SCHEMALESS, **chain(step)}, [value])
    assert found.value == {"name": "Harry Wilson"}
    assert found.headers == (("id", b"11"), ("last_login_timestamp", b"2020-05-02"), ("none", None))


def test_records_are_dropped_by_a_predicate() -> None:
    """Filter's example, and the same negated."""
    step = {"type": KAFKA + "Filter", "predicate": "isNull"}
    rows = [Row(b"1"), Row(None), Row(b"2"), Row(None)]
    kept = transformed(chain(step, predicates=TOMBSTONE), rows)
    assert [row.value for row in kept] == [b"1", b"2"]
    kept = transformed(chain({**step, "negate": "true"}, predicates=TOMBSTONE), rows)
    assert [row.value for row in kept] == [None, None]


def test_a_step_applies_to_the_records_of_its_predicate() -> None:
    """What it makes of them and the others are one run again, in the order of offsets."""
    step = {"type": KAFKA + "ReplaceField$Value", "exclude": "a", "predicate": "has"}
    rows = [Row({"a": 1, "n": n}, headers=(("h", b""),) if n % 2 else ()) for n in range(6)]
    options = {**SCHEMALESS, **chain(step, predicates=HAS_HEADER)}
    (run,) = converted(options, rows).runs
    assert run.records.offsets.tolist() == list(range(10, 16))
    assert [row.value for row in transformed(options, rows)] == [
        {"n": n} if n % 2 else {"a": 1, "n": n} for n in range(6)
    ]


def test_a_topic_is_matched_as_a_whole() -> None:
    """Behind a step that routes, by its new name."""
    drop = {"type": KAFKA + "Filter", "predicate": "isFoo"}
    assert transformed(chain(drop, predicates=IS_FOO), [Row(b"x")]) == []
    route = {"type": KAFKA + "RegexRouter", "regex": "orders", "replacement": "orders2"}
    assert len(transformed(chain(route, drop, predicates=IS_FOO), [Row(b"x")])) == 1


def test_refused_records_leave_the_others() -> None:
    """Their offsets are told, and later steps do not see them."""
    mask = {"type": KAFKA + "MaskField$Value", "fields": "a"}
    insert = {"type": KAFKA + "InsertField$Value", "static.field": "s", "static.value": "x"}
    conversion = converted({**SCHEMALESS, **chain(mask, insert)}, [{"a": 1}, [1], {"a": "2"}])
    assert [fault.offset for fault in conversion.faults] == [11]
    (run,) = conversion.runs
    assert run.records.offsets.tolist() == [10, 12]


def test_values_that_become_columns_get_their_schema_behind_the_chain() -> None:
    """An object in Parquet has the fields that the transforms made."""
    step = {"type": KAFKA + "ReplaceField$Value", "renames": "a:b"}
    options = {**SCHEMALESS, "output.format": "parquet", "output.fields": "value", **chain(step)}
    (run,) = converted(options, [{"a": 1}, {"a": 2}]).runs
    assert run.value.arrow().to_pylist() == [{"b": 1}, {"b": 2}]
    assert run.value.schema is not None
    assert run.value.schema.is_inferred


def test_nulls_are_judged_behind_the_chain() -> None:
    """A tombstone that a transform drops is no fault."""
    step = {"type": KAFKA + "Filter", "predicate": "isNull"}
    options = {"output.format": "text", **chain(step, predicates=TOMBSTONE)}
    conversion = converted(options, [Row(b"1"), Row(None)])
    assert conversion.faults == ()
    kept = {**options, **chain({**step, "negate": "true"}, predicates=TOMBSTONE)}
    assert [fault.reason for fault in converted(kept, [Row(None)]).faults] == ["null_value"]


class TestLenses:
    """The two of the published configuration."""

    CONFIG = chain(
        {
            "type": LENSES + "TimestampConverter",
            "header.name": "ts",
            "field": "timestamp",
            "target.type": "string",
            "format.to.pattern": "yyyy-MM-dd-HH",
        },
        {
            "type": LENSES + "InsertWallclock",
            "header.name": "wallclock",
            "value.type": "format",
            "format": "yyyy-MM-dd-HH",
        },
    )

    def test_the_published_configuration(self) -> None:
        """A field's time and the clock's as headers."""
        (found,) = transformed({**SCHEMALESS, **self.CONFIG}, [{"timestamp": 1_577_840_400_000}])
        assert found.headers == (("ts", b"2020-01-01-01"), ("wallclock", b"2023-11-14-22"))

    @pytest.mark.parametrize(
        ("value", "options", "expected"),
        [
            ("1577840400000", {}, b"2020-01-01 01:00"),
            (1_577_840_400, {"unix.precision": "seconds"}, b"2020-01-01 01:00"),
            (1_577_840_400_000_000, {"unix.precision": "microseconds"}, b"2020-01-01 01:00"),
            ("2020-01-01T01:07", {"format.from.pattern": "yyyy,yyyy-MM-dd'T'HH:mm"}, b"2020-01-01 01:07"),
            (
                1_577_840_400_000 + 16 * 60_000,
                {"rolling.window.type": "minutes", "rolling.window.size": "15"},
                b"2020-01-01 01:15",
            ),
            (1_577_840_400_000, {"target.timezone": "Asia/Tokyo"}, b"2020-01-01 10:00"),
            (None, {}, None),
        ],
    )
    def test_times(self, value: object, options: dict[str, str], expected: bytes | None) -> None:
        """Units, patterns, windows and zones; null stays null."""
        step = {
            "type": LENSES + "TimestampConverter",
            "header.name": "ts",
            "field": "_value.a.at",
            "target.type": "string",
            "format.to.pattern": "yyyy-MM-dd HH:mm",
            **options,
        }
        (found,) = transformed({**SCHEMALESS, **chain(step)}, [{"a": {"at": value}}])
        assert found.headers == (("ts", expected),)

    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            ("unix", b"1577840400123"),
            ("Date", b"2020-01-01"),
            ("Time", b"01:00:00.123Z"),
            ("Timestamp", b"2020-01-01T01:00:00.123Z"),
        ],
    )
    def test_the_records_own_time(self, target: str, expected: bytes) -> None:
        """In every form that a header may have."""
        step = {
            "type": LENSES + "TimestampConverter",
            "header.name": "ts",
            "field": "_timestamp",
            "target.type": target,
        }
        (found,) = transformed(chain(step), [Row(b"x", time=1_577_840_400_123)])
        assert found.headers == (("ts", expected),)

    def test_a_value_that_is_no_time_is_refused(self) -> None:
        """With what is missing."""
        options = {"value.converter": JSON, "value.converter.schemas.enable": "false", **self.CONFIG}
        assert (
            refusals(options, [{"timestamp": "noon"}, {"timestamp": 1.5}])
            == [
                "transform t0: the field is neither a whole number nor a text, and no time",
                "transform t0: the field is a text, and format.from.pattern does not say how to read it",
            ][::-1]
        )


def test_no_transforms_no_cost() -> None:
    """The converter is the plain one, whose run is over the very memory that was fetched."""
    conversion = converted({}, [Row(b"x")])
    assert isinstance(conversion.runs[0].records.offsets, np.ndarray)
    assert type(conversion.runs[0].value).__name__ == "PlainColumn"


def test_what_quix_parquet_has_no_place_for_is_bad_behind_transforms_too() -> None:
    """Values are columns there, and a null has none: such a value stopped its partition."""
    options = {
        **SCHEMALESS,
        "output.layout": "quix",
        "output.format": "parquet",
        "errors.tolerance": "all",
        **chain({"type": f"{KAFKA}InsertField$Value", "offset.field": "inserted"}),
    }
    found = converted(options, [Row({"n": 1}), Row(None), Row({"n": 2})])
    assert [(fault.offset, fault.reason) for fault in found.faults] == [(11, "null_value")]
    assert sum(map(len, found.runs)) == 2
