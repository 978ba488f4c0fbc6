"""A record has the statement of the topic that transforms have given it, as in Lenses' sink."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.options import SettingsError
from tests.headrace.options.loading import own_options
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import sink_settings, written

_SMT: Final = "org.apache.kafka.connect.transforms."
_GIVEN: Final = {
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "topics": "v1.orders",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_ROUTER: Final = {
    "transforms": "r",
    "transforms.r.type": f"{_SMT}RegexRouter",
    "transforms.r.regex": r"v\d\.(.*)",
    "transforms.r.replacement": "$1",
}
_TIMED: Final = {"transforms": "r", "transforms.r.type": f"{_SMT}TimestampRouter"}
_OF_TOMBSTONES: Final = {
    **_ROUTER,
    "transforms.r.predicate": "p",
    "predicates": "p",
    "predicates.p.type": f"{_SMT}predicates.RecordIsTombstone",
}
_OF_THESE: Final = {
    **_OF_TOMBSTONES,
    "predicates.p.type": f"{_SMT}predicates.TopicNameMatches",
    "predicates.p.pattern": "v1.*",
}
_ALL: Final = "SELECT * FROM"
_EACH: Final = "PROPERTIES('flush.count'=1)"
_REGEX: Final = {"topics": "", "topics.regex": r"v1\..*"}


def _statements(*topics: str) -> dict[str, str]:
    """One of each, whose bucket has the topic's place."""
    texts = (f"INTO bkt{place}:p {_ALL} `{topic}` {_EACH}" for place, topic in enumerate(topics))
    return {"connect.s3.kcql": "; ".join(f"INSERT {text}" for text in texts)}


def _records(*topics: str) -> list[Record]:
    return [
        Record(topic=topic, partition=0, offset=0, timestamp=0, key=b"k", value=b'{"a":1}', headers=())
        for topic in topics
    ]


@pytest.mark.parametrize(
    ("changes", "statements", "buckets"),
    [
        (_ROUTER, ("orders",), {"v1.orders": "bkt0"}),
        (_ROUTER, ("*", "orders"), {"v1.orders": "bkt1"}),
        (_ROUTER, ("orders", "*"), {"v1.orders": "bkt0"}),
        (
            _ROUTER | {"topics": "v1.orders,v2.paid"},
            ("orders", "paid"),
            {"v1.orders": "bkt0", "v2.paid": "bkt1"},
        ),
        (_ROUTER | {"topics": "v1.orders,paid"}, ("*", "orders"), {"v1.orders": "bkt1", "paid": "bkt0"}),
        (_OF_THESE | {"topics": "v1.a,v2.b"}, ("a", "v2.b"), {"v1.a": "bkt0", "v2.b": "bkt1"}),
        (_TIMED, ("*",), {"v1.orders": "bkt0"}),
        (_OF_TOMBSTONES, ("*",), {"v1.orders": "bkt0"}),
        ({}, ("*", "v1.orders"), {"v1.orders": "bkt1"}),
    ],
)
def test_the_topic_after_the_transforms_has_the_statement(
    changes: Mapping[str, str], statements: tuple[str, ...], buckets: Mapping[str, str]
) -> None:
    """Its records go into that one's bucket; what is read are Kafka's topics."""
    settings = sink_settings({**_GIVEN, **changes, **_statements(*statements)})
    assert settings.sink is not None
    routes = {topic: settings.sink.route(topic) for topic in buckets}
    found = {topic: settings.s3.bucket if route is None else route.bucket for topic, route in routes.items()}
    assert found == buckets
    assert set(settings.sink.topics.names) == buckets.keys()


def test_objects_have_the_name_that_the_router_gave() -> None:
    """The way that works with Lenses' sink was refused."""
    found = written({**_GIVEN, **_ROUTER, **_statements("orders")}, _records("v1.orders"))
    assert list(found.objects) == ["p/orders/0/000000000000_0_0.json"]


def test_a_pattern_with_one_statement_of_all_needs_no_names() -> None:
    """Whatever transforms call the topics."""
    own = own_options(sink_settings({**_GIVEN, **_ROUTER, **_REGEX, **_statements("*")}))
    assert own["topics.regex"] == r"v1\..*"


def test_a_statement_of_the_name_before_is_taken_where_nothing_else_could_be() -> None:
    """So earlier versions had it; Lenses' task fails, and a warning says what to write."""
    settings = sink_settings({**_GIVEN, **_ROUTER, **_statements("v1.orders")})
    assert any("write FROM orders" in each for each in settings.warnings)


@pytest.mark.parametrize(
    ("changes", "statements"),
    [
        (_ROUTER | _REGEX, ("*", "v1.orders")),
        (_ROUTER | _REGEX, ("v1.orders",)),
        (_TIMED, ("v1.orders",)),
        (_TIMED, ("*", "v1.orders")),
        (_OF_TOMBSTONES, ("v1.orders",)),
    ],
)
def test_where_only_a_record_shows_the_topic_that_of_kafka_decides(
    changes: Mapping[str, str], statements: tuple[str, ...]
) -> None:
    """As earlier versions had it, with a warning."""
    settings = sink_settings({**_GIVEN, **changes, **_statements(*statements)})
    assert settings.sink is not None
    route = settings.sink.route("v1.orders")
    bucket = settings.s3.bucket if route is None else route.bucket
    assert bucket == f"bkt{statements.index('v1.orders')}"
    assert any("chosen by the topic in Kafka" in each for each in settings.warnings)


@pytest.mark.parametrize(
    ("changes", "statements", "problem"),
    [
        # Lenses takes `*`; the other statement decided here, without a word.
        (_ROUTER, ("v1.orders", "*"), "v1.orders: is no topic's name after transforms; write FROM orders"),
        (_ROUTER, ("paid",), "v1.orders (orders after transforms): has no statement"),
        (_ROUTER, ("orders", "paid"), "paid: is not among topics"),
        (_TIMED, ("*", "orders"), "orders: is not among topics"),
        (_OF_TOMBSTONES, ("orders",), "v1.orders: has no statement"),
    ],
)
def test_what_cannot_be_chosen_is_refused(
    changes: Mapping[str, str], statements: tuple[str, ...], problem: str
) -> None:
    """Before a record lies where Lenses would not have put it."""
    with pytest.raises(SettingsError) as caught:
        sink_settings({**_GIVEN, **changes, **_statements(*statements)})
    found = list(map(str, caught.value.problems))
    assert any(problem in each for each in found), found
