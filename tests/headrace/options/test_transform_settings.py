"""Transforms and predicates of a configuration: what is read, and every mistake in one sentence."""

import json
from collections.abc import Mapping

import pytest

from headrace.options import SettingsError
from headrace.options.settings import Settings
from headrace.options.transforms.chain import (
    Condition,
    HasHeaderKey,
    InsertField,
    KeyOrValue,
    NewField,
    RegexRouter,
    TransformChain,
)
from headrace.options.transforms.read_chain import known_topics
from headrace.vendors.load import load

KAFKA = "org.apache.kafka.connect.transforms."
DEBEZIUM = "io.debezium.transforms."
LENSES = "io.lenses.connect.smt.header."
_SINK = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topics": "orders",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


def chain_of(options: Mapping[str, str]) -> TransformChain:
    """The chain of a sink with these options."""
    text = json.dumps({**_SINK, **options})
    return load(text, kind="json", environment={"HOME": "/nowhere"}, read_file=lambda path: path).transforms


def problems_of(options: Mapping[str, str]) -> list[str]:
    """What is said of these options."""
    with pytest.raises(SettingsError) as found:
        chain_of(options)
    return [str(problem) for problem in found.value.problems]


def one(name: str, **options: str) -> dict[str, str]:
    """A chain of one transform `a`; `_` in names stands for a dot."""
    given = {f"transforms.a.{key.replace('_', '.')}": text for key, text in options.items()}
    return {"transforms": "a", "transforms.a.type": name, **given}


def test_a_chain_is_read_in_order_with_its_conditions() -> None:
    """Aliases are names only: the same chain under others has the same text."""
    options = {
        "transforms": "route, insert",
        "transforms.route.type": KAFKA + "RegexRouter",
        "transforms.route.regex": "(?<env>.*)-(.*)",
        "transforms.route.replacement": r"$2.${env}\$",
        "transforms.insert.type": KAFKA + "InsertField$Key",
        "transforms.insert.static.field": "f!",
        "transforms.insert.static.value": "x",
        "transforms.insert.predicate": "has",
        "transforms.insert.negate": "TRUE",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "predicates": "has",
        "predicates.has.type": KAFKA + "predicates.HasHeaderKey",
        "predicates.has.name": "h",
    }
    chain = chain_of(options)
    route, insert = chain.steps
    assert route.transform == RegexRouter(pattern="(?P<env>.*)-(.*)", replacement=r"\g<2>.\g<env>$")
    assert insert.condition == Condition(predicate=HasHeaderKey(name="h"), negate=True)
    assert isinstance(insert.transform, InsertField)
    assert insert.transform.static == (NewField(name="f", is_required=True), "x")
    assert chain.looks_into == {KeyOrValue.KEY}
    assert (chain.routes, chain.is_deterministic) == (True, True)
    renamed = {
        name.replace("insert", "other").replace("has", "p"): text.replace("insert", "other").replace(
            "has", "p"
        )
        for name, text in options.items()
    }
    assert chain_of(renamed).text == chain.text
    assert chain_of({**options, "transforms.insert.static.value": "y"}).text != chain.text


def test_none_is_none() -> None:
    """User interfaces write an empty list."""
    assert not chain_of({"transforms": " ", "predicates": ""})
    assert chain_of({}).text == ""


def test_the_wall_clock_is_not_deterministic() -> None:
    """A record that is read again is another one then."""
    assert not chain_of(one(LENSES + "InsertWallclock", header_name="h")).is_deterministic


_KNOWN = "known are org.apache.kafka.connect.transforms.{DropHeaders, Filter, InsertHeader, RegexRouter"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transforms": "a"}, "transforms.a.type: is missing; expected the name of a class: org.apache"),
        (
            one("com.example.Mine"),
            f"transforms.a.type = 'com.example.Mine': this class does not run here; {_KNOWN}",
        ),
        (
            one(KAFKA + "TimestampConverter$Value", target_type="string"),
            "transforms.a.format: is missing; target.type=string needs a date pattern",
        ),
        (
            one(KAFKA + "SetSchemaMetadata$Value"),
            "transforms.a.schema.name: is missing: nothing is set",
        ),
        (
            one(KAFKA + "SetSchemaMetadata$Value", schema_name="org.apache.kafka.connect.data.Date"),
            "is that of a type of times or decimals, which objects are not",
        ),
        (
            one(KAFKA + "SetSchemaMetadata$Value", schema_version="1.5"),
            "transforms.a.schema.version = '1.5': expected a whole number of 32 bits",
        ),
        (
            one(DEBEZIUM + "ExtractNewRecordState", add_fields="a.b.c"),
            "transforms.a.add.fields = 'a.b.c': expected fields such as op,source.ts_ms,table:name",
        ),
        (
            {
                **one(DEBEZIUM + "ExtractNewRecordState", drop_tombstones="true"),
                "transforms.a.delete.tombstone.handling.mode": "drop",
            },
            "means nothing next to delete.tombstone.handling.mode; remove it",
        ),
        (
            one(
                DEBEZIUM + "ByLogicalTableRouter", topic_regex="a", topic_replacement="b", key_field_regex="c"
            ),
            "transforms.a.key.field.replacement: is missing next to key.field.regex",
        ),
        (one(KAFKA + "Cast"), "did you mean org.apache.kafka.connect.transforms.Cast$"),
        (
            one(KAFKA + "RegexRouter", regex="a", replacement="b", regexp="x"),
            "did you mean transforms.a.regex?",
        ),
        (
            one(KAFKA + "RegexRouter", regex="a"),
            "transforms.a.replacement: is missing; expected the new topic",
        ),
        (one(KAFKA + "RegexRouter", regex="(a", replacement="b"), "it is no regular expression: missing )"),
        (one(KAFKA + "RegexRouter", regex=r"\p{Lu}", replacement="b"), r"\p{Lu} has no counterpart here"),
        (
            one(KAFKA + "RegexRouter", regex="[a-z&&[^b]]", replacement="b"),
            "&& within [..] has no counterpart",
        ),
        (
            one(KAFKA + "RegexRouter", regex="a", replacement="$1"),
            "names the group 1, which the regex does not have",
        ),
        (one(KAFKA + "RegexRouter", regex="a", replacement="$x"), r"write \$ for the sign itself"),
        (
            one(KAFKA + "TimestampRouter", timestamp_format="yyyy-nn"),
            "'nn' is no part of a date (SimpleDateFormat)",
        ),
        (one(KAFKA + "InsertField$Value"), "transforms.a.static.field: is missing: nothing is inserted"),
        (one(KAFKA + "InsertField$Value", static_field="f"), "static.value: is missing next to static.field"),
        (one(KAFKA + "ReplaceField$Value", renames="a"), "expected pairs such as old:new,other:another"),
        (
            one(KAFKA + "ExtractField$Value", field="a.", field_syntax_version="V2"),
            "a part of the path is empty",
        ),
        (one(KAFKA + "ExtractField$Value"), "transforms.a.field: is missing; expected the name of a field"),
        (
            one(KAFKA + "Cast$Value", spec="a:int31"),
            "expected field:type,other:type or one type alone; types are",
        ),
        (one(KAFKA + "Cast$Value", spec="int8,a:int8"), "casts the whole and fields of it"),
        (
            one(KAFKA + "MaskField$Value", fields=" "),
            "transforms.a.fields = ' ': is missing; expected a comma",
        ),
        (
            one(KAFKA + "HeaderFrom$Value", fields="a,b", headers="c", operation="copy"),
            "has 1 names, and fields 2; name one for each field",
        ),
        (
            one(KAFKA + "HeaderFrom$Value", fields="a", headers="c", operation="x"),
            "expected one of move, copy",
        ),
        (
            one(KAFKA + "Filter"),
            "transforms.a.predicate: is missing: without one Filter would drop every record",
        ),
        (
            one(KAFKA + "Filter", predicate="p"),
            "is not an alias that predicates lists; add it there, with its type",
        ),
        (
            one(KAFKA + "Filter", negate="true"),
            "transforms.a.negate = 'true': means nothing without predicate",
        ),
        (
            one(LENSES + "InsertWallclock"),
            "transforms.a.header.name: is missing; expected the name of the header",
        ),
        (
            one(LENSES + "InsertRecordTimestampHeaders", locale="de", date_format="EEE"),
            "is of words that are not known here, and date.format shows some; set en",
        ),
        (
            one(LENSES + "InsertRecordTimestampHeaders", rolling_window_size="5"),
            "is not an option of InsertRecordTimestampHeaders; remove it",
        ),
        (
            one(LENSES + "InsertRollingRecordTimestampHeaders", rolling_window_size="61"),
            "transforms.a.rolling.window.size = '61': expected a whole number from 1 to 60",
        ),
        (
            one(LENSES + "InsertRollingRecordTimestampHeaders", rolling_window_type="none"),
            "transforms.a.rolling.window.type = 'none': expected one of hours, minutes, seconds",
        ),
        (
            one(LENSES + "InsertFieldTimestampHeaders", field="_value.ts"),
            "this class does not run here; TimestampConverter writes one header of a field's time. Known",
        ),
        (
            one(LENSES + "InsertWallclock", header_name="h", timezone="Mars"),
            "expected a time zone such as UTC, Europe/Berlin or +02:00",
        ),
        (
            one(LENSES + "TimestampConverter", header_name="h", target_type="string"),
            "target.type=string needs a date pattern",
        ),
        (
            one(
                LENSES + "TimestampConverter",
                header_name="h",
                target_type="unix",
                rolling_window_type="hours",
            ),
            "rolling.window.size: expected a whole number from 1 to 24",
        ),
        ({"transforms": "a b"}, "transforms = 'a b': expected a comma-separated list of aliases"),
        (
            {"transforms.route.type": "x"},
            "belongs to no alias that transforms lists; add route to transforms",
        ),
        (
            {"predicates": "p", "predicates.p.type": "x"},
            "known are org.apache.kafka.connect.transforms.predicates.TopicNameMatches, org",
        ),
        (
            {
                **one(KAFKA + "MaskField$Value", fields="x"),
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            },
            "a needs fields of the value, which is read as text: set value.converter to",
        ),
        (
            one(KAFKA + "ReplaceField$Key", exclude="x"),
            "a needs fields of the key, which is read as bytes: set key.converter to",
        ),
    ],
)
def test_mistakes_are_told(options: dict[str, str], said: str) -> None:
    """Each in one sentence, with the option and the remedy."""
    found = problems_of(options)
    assert any(said in problem for problem in found), found
    assert len(found) == 1 or "transforms lists" not in said


def test_all_mistakes_are_told_at_once() -> None:
    """A chain is not mended one run at a time."""
    options = {
        **one(KAFKA + "Cast$Value", spec="a:x", speck="y"),
        "transforms": "a,a,b",
        "transforms.b.type": "nope",
    }
    assert len(problems_of(options)) == 4


_ONE_NAME = one(KAFKA + "RegexRouter", regex="orders-(eu|us|old)", replacement="orders")


@pytest.mark.parametrize(
    ("topics", "options", "is_refused"),
    [
        ("orders-eu,orders-us", _ONE_NAME, True),
        ("orders-eu,orders", _ONE_NAME, True),
        ("orders-eu,other", _ONE_NAME, False),
        ("orders-eu", _ONE_NAME, False),
        ("orders-eu,orders-us", one(KAFKA + "TimestampRouter"), False),
        ("orders-eu,orders-us", one(KAFKA + "TimestampRouter", topic_format="x-${timestamp}"), True),
        (
            "orders-eu,orders-us",
            {
                **_ONE_NAME,
                "transforms.a.predicate": "p",
                "predicates": "p",
                "predicates.p.type": KAFKA + "predicates.TopicNameMatches",
                "predicates.p.pattern": ".*-eu",
            },
            False,
        ),
        (
            "orders-eu,orders",
            {
                **_ONE_NAME,
                "transforms.a.predicate": "p",
                "predicates": "p",
                "predicates.p.type": KAFKA + "predicates.HasHeaderKey",
                "predicates.p.name": "h",
            },
            True,
        ),
    ],
)
def test_two_topics_do_not_become_one(topics: str, options: dict[str, str], *, is_refused: bool) -> None:
    """Their offsets are the same, so the names of their objects would be."""
    given = {**options, "topics": topics}
    if is_refused:
        (problem,) = problems_of(given)
        assert "could not be told apart" in problem
    else:
        assert chain_of(given)


@pytest.mark.parametrize(
    ("options", "is_refused"),
    [
        ({"route.r.topics": "orders-eu,orders-us", "route.r.aws.s3.prefix": "r/"}, True),
        ({"route.r.topics": "orders-eu", "route.r.rotate.records": "5"}, True),
        ({"route.r.topics": "orders-eu", "route.s.topics": "orders-us"}, True),
        ({"route.r.topics": "orders-eu", "route.r.aws.s3.prefix": "r/"}, False),
        ({"route.r.topics": "orders-eu", "route.r.aws.s3.bucket.name": "other"}, False),
        ({"route.r.topics": "orders-eu", "route.r.output.format": "parquet"}, False),
        (
            {
                "route.r.topics": "orders-eu",
                "route.r.output.format": "parquet",
                "file.name.template": "{{topic}}/{{partition}}/{{start_offset}}",
            },
            True,
        ),
        (
            {
                "route.r.topics": "orders-eu",
                "route.r.aws.s3.prefix": "r/",
                "route.s.topics": "orders-us",
                "route.s.file.name.template": "r/{{topic}}/{{partition}}/{{start_offset:padding=true}}"
                ".headrace{{extension}}",
            },
            True,
        ),
        (
            {
                "route.r.topics": "orders-eu",
                "route.r.aws.s3.prefix": "r/",
                "route.s.topics": "orders-us",
                "route.s.aws.s3.prefix": "s/",
            },
            False,
        ),
    ],
)
def test_two_topics_of_routes_do_not_become_one(options: dict[str, str], *, is_refused: bool) -> None:
    """What keeps them apart is where their objects are, not that a route has them."""
    given = {**_ONE_NAME, "topics": "orders-eu,orders-us", **options}
    if is_refused:
        (problem,) = problems_of(given)
        assert "could not be told apart" in problem
    else:
        assert chain_of(given)


def _by_pattern(**options: str) -> Settings:
    """The settings of a sink of `topics.regex`."""
    given = {name: text for name, text in _SINK.items() if name != "topics"}
    text = json.dumps({**given, **_ONE_NAME, "topics.regex": "orders-.*", **options})
    return load(text, kind="json", environment={"HOME": "/nowhere"}, read_file=lambda path: path)


def test_topics_that_are_not_known_yet_are_warned_of() -> None:
    """What may happen there is said at the start; the topics of routes are known."""
    for route in ({}, {"route.r.topics": "orders-eu"}):
        assert any("name_taken" in warning for warning in _by_pattern(**route).warnings)
    with pytest.raises(SettingsError, match="could not be told apart"):
        _by_pattern(**{"route.r.topics": "orders-eu,orders-us"})


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({}, {"orders-eu"}),
        (_ONE_NAME, {"orders"}),
        (one(KAFKA + "TimestampRouter"), set()),
        (
            {
                **_ONE_NAME,
                "transforms.a.predicate": "p",
                "predicates": "p",
                "predicates.p.type": KAFKA + "predicates.RecordIsTombstone",
            },
            {"orders", "orders-eu"},
        ),
    ],
)
def test_topics_that_have_to_be_there(options: dict[str, str], topics: set[str]) -> None:
    """What a source asks for, or makes, before it has read a record."""
    assert known_topics(chain_of(options), "orders-eu") == topics


def test_versions_of_plugins_decide_nothing() -> None:
    """Kafka 4.1's option (KIP-891): the chain is the same one, of which the groups of open objects depend."""
    options = {
        **one(KAFKA + "Filter", predicate="p"),
        "predicates": "p",
        "predicates.p.type": KAFKA + "predicates.RecordIsTombstone",
    }
    versions = {"transforms.a.plugin.version": "[4.1.0,)", "predicates.p.plugin.version": "4.1.0"}
    assert chain_of({**options, **versions}) == chain_of(options)
    (problem,) = problems_of({**options, "transforms.a.plugin.versions": "4"})
    assert problem.startswith("transforms.a.plugin.versions")


@pytest.mark.parametrize(
    ("options", "name", "expected"),
    [
        (one(f"{KAFKA}InsertHeader", header=" h\t", value_literal="1"), "name", "h"),
        (
            one(f"{LENSES}InsertWallclock", header_name=" h ", value_type="epoch"),
            "header",
            "h",
        ),
        # Debezium's classes read their options themselves.
        (
            one(
                f"{DEBEZIUM}ByLogicalTableRouter",
                topic_regex="a",
                topic_replacement="b",
                key_field_name=" t ",
            ),
            "key_field",
            " t ",
        ),
    ],
)
def test_blanks_around_an_option(options: dict[str, str], name: str, expected: str) -> None:
    """Kafka's ConfigDef takes them away."""
    (step,) = chain_of({**options, "key.converter": _SINK["value.converter"]}).steps
    assert getattr(step.transform, name) == expected
