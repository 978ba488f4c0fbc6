"""A source whose transforms give records another topic: every command means that one, as `run` does."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from headrace.kafka.admin import KafkaAdmin
from headrace.model.objects import ObjectId, S3Object
from headrace.options import Settings
from ingest.checks.findings.bucket_findings import TopicSample
from ingest.checks.findings.finding import Cause, Finding, Refused, Verdict
from ingest.checks.findings.kafka_findings import KafkaFacts, TopicFacts, wanted_topics
from ingest.checks.probes.preview import Preview
from ingest.cli.app import app
from ingest.cli.check import kafka_findings
from ingest.cli.setup import topic_steps
from ingest.source.object_selection import object_filters_of
from tests.ingest.checks.findings.configured import configured

_KAFKA = "org.apache.kafka.connect.transforms."
_DEAD_LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
_ROUTED = {
    "transforms": "r",
    "transforms.r.type": f"{_KAFKA}RegexRouter",
    "transforms.r.regex": "(.*)",
    "transforms.r.replacement": "new-$1",
}
_SOME_ROUTED = {
    **_ROUTED,
    "transforms.r.predicate": "p",
    "predicates": "p",
    "predicates.p.type": f"{_KAFKA}predicates.RecordIsTombstone",
}
_BY_TIME = {"transforms": "r", "transforms.r.type": f"{_KAFKA}TimestampRouter"}
_BY_KEY: dict[str, str | None] = {"topic": None, "file.name.template": "in/{{topic}}-{{partition}}"}


def _settings(options: dict[str, Any]) -> Settings:
    return configured({"topic": "orders", "sqs.queue.url": None, **options})


class _Cluster:
    """The topics of a cluster, and those that were made there."""

    def __init__(self, *topics: str) -> None:
        self.topics = list(topics)

    def has_topic(self, topic: str) -> bool:
        """Whether it is there."""
        return topic in self.topics

    def create_topic(self, topic: str, **_: object) -> None:
        """It is there from now on."""
        self.topics.append(topic)


@pytest.mark.parametrize(
    ("options", "there", "made"),
    [
        ({}, [], ["orders"]),
        (_ROUTED, [], ["new-orders"]),
        (_ROUTED, ["orders"], ["new-orders"]),
        (_ROUTED, ["new-orders"], []),
        (_ROUTED | _DEAD_LETTERS, [], ["new-orders", "bad"]),
        (_SOME_ROUTED, [], ["new-orders", "orders"]),
        (_BY_TIME | _DEAD_LETTERS, [], ["bad"]),
        (_ROUTED | _BY_KEY, [], []),
    ],
)
def test_setup_makes_what_run_requires(options: dict[str, Any], there: list[str], made: list[str]) -> None:
    """And nothing that no record comes to."""
    cluster = _Cluster(*there)
    for step in topic_steps(_settings(options), cast("KafkaAdmin", cluster)):
        step.apply()

    assert cluster.topics == [*there, *made]


@pytest.mark.parametrize(("partitions", "words"), [("1", "1 partition"), ("4", "4 partitions")])
def test_setup_counts_partitions(partitions: str, words: str) -> None:
    """In the words of one, too."""
    creation = {
        "topic.creation.default.partitions": partitions,
        "topic.creation.default.replication.factor": "1",
    }

    (step,) = topic_steps(_settings(creation), cast("KafkaAdmin", _Cluster()))

    assert step.sentence == f"create topic 'orders' with {words}"


_LOW, _HIGH = TopicSample(partition=1, key="a"), TopicSample(partition=7, key="b")


@pytest.mark.parametrize(
    ("options", "samples", "wanted"),
    [
        ({}, {}, {"orders": None}),
        (_ROUTED, {}, {"new-orders": None}),
        (_ROUTED, {"orders": _HIGH}, {"new-orders": _HIGH}),
        (_ROUTED | _DEAD_LETTERS, {}, {"new-orders": None, "bad": None}),
        (_SOME_ROUTED, {}, {"new-orders": None, "orders": None}),
        (_ROUTED | _BY_KEY, {"eu": _LOW, "us": _HIGH}, {"new-eu": _LOW, "new-us": _HIGH}),
        (
            _ROUTED | _BY_KEY | {"transforms.r.replacement": "all"},
            {"eu": _HIGH, "us": _LOW},
            {"all": _HIGH},
        ),
        (_BY_TIME | _DEAD_LETTERS, {"orders": _HIGH}, {"bad": None}),
    ],
)
def test_check_asks_for_the_topics_of_records(
    options: dict[str, Any],
    samples: dict[str, TopicSample],
    wanted: dict[str, TopicSample | None],
) -> None:
    """Of topics that become one, the key with the highest partition counts."""
    assert wanted_topics(_settings(options), samples) == wanted


_TOPIC = TopicFacts(
    partitions=4, max_message_bytes=1 << 21, cleanup_policy="delete", may_read=True, may_write=True
)


def _topic_finding(options: dict[str, Any], there: set[str]) -> Finding:
    settings = _settings(options)
    wanted = wanted_topics(settings, {})
    missing = Refused(Cause.MISSING, "unknown topic")
    facts = KafkaFacts(
        cluster="id",
        wanted=wanted,
        topics={topic: _TOPIC if topic in there else missing for topic in wanted},
        ledger=_TOPIC,
        memory=None,
        transactions=True,
    )
    (found,) = [each for each in kafka_findings(settings, facts) if each.name == "topic"]
    return found


@pytest.mark.parametrize(
    ("options", "there", "verdict", "words"),
    [
        (_ROUTED, {"orders"}, Verdict.FAIL, "topic 'new-orders' does not exist"),
        (_ROUTED, {"new-orders"}, Verdict.OK, "topic 'new-orders' is there"),
        (_BY_TIME, {"orders"}, Verdict.WARN, "known only with a record"),
    ],
)
def test_check_says_what_run_would(
    options: dict[str, Any], there: set[str], verdict: Verdict, words: str
) -> None:
    """A topic that no record comes to is none of its business."""
    found = _topic_finding(options, there)

    assert found.verdict is verdict
    assert words in found.sentence


def _explained(folder: Path, options: dict[str, Any], key: str) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": "uploads",
        "bootstrap.servers": "127.0.0.1:9092",
        "aws.s3.bucket.name": "bucket",
        "topic": "orders",
        "file.name.template": ".*",
        **options,
    }
    file = folder / "source.json"
    file.write_text(json.dumps({name: text for name, text in given.items() if text is not None}))
    result = CliRunner().invoke(app, ["explain", str(file), key, "--json"])
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("options", "topic", "reason"),
    [
        ({}, "orders", None),
        (_ROUTED, "new-orders", None),
        (_ROUTED | _BY_KEY, "new-eu", None),
        (_SOME_ROUTED, None, "transforms send each record to one of new-orders, orders"),
        (_BY_TIME, None, "transforms name the topic from orders, and it is known only with a record"),
        (
            _BY_TIME | _BY_KEY,
            None,
            "transforms name the topic from eu, and it is known only with a record",
        ),
    ],
)
def test_explain_names_the_topic_of_records(
    tmp_path: Path, options: dict[str, Any], topic: str | None, reason: str | None
) -> None:
    """Or says why it cannot."""
    found = _explained(tmp_path, options, "in/eu-3")

    assert (found["matched"], found["topic"], found["reason"]) == (True, topic, reason)


_RESTORED = {"input.layout": "confluent", "file.name.template": None, "topic": None}
_VALUES = "topics/orders/partition=0/orders+0+0000000000.avro"
_KEYS = "topics/orders/partition=0/orders+0+0000000000.keys.avro"
_TOMBSTONE = "topics/orders/tombstone/orders+0+0000000001.keys.avro"


@pytest.mark.parametrize(
    ("key", "options", "reason"),
    [
        (_VALUES, {"restore.sidecars": "ignore", "restore.tombstones": "ignore"}, None),
        (_KEYS, {"restore.tombstones": "ignore"}, None),
        (_KEYS, {"restore.sidecars": "ignore"}, "hold keys, which restore.sidecars=ignore leaves out"),
        (_TOMBSTONE, {}, None),
        (_TOMBSTONE, {"restore.tombstones": "ignore"}, "tombstones, which restore.tombstones=ignore leaves"),
        (_TOMBSTONE.replace(".keys", ""), {}, "keeps keys and headers of tombstones in such folders"),
    ],
)
def test_explain_leaves_out_what_a_restore_leaves_out(
    tmp_path: Path, key: str, options: dict[str, Any], reason: str | None
) -> None:
    """Side objects and tombstones, by the options; with the sentence that `run` logs."""
    found = _explained(tmp_path, _RESTORED | options, key)

    assert found["matched"] is (reason is None)
    assert (reason or "") in found["reason"]


@pytest.mark.parametrize(
    ("target", "key", "matched"),
    [
        ("in/done/", "in/done/a.jsonl", False),
        ("in/done/", "in/a.jsonl", True),
        ("s3://other/in/done/", "in/done/a.jsonl", True),
    ],
)
def test_explain_leaves_out_what_objects_are_moved_to(
    tmp_path: Path, target: str, key: str, matched: bool
) -> None:
    """As the prefix that they are moved to in their own bucket is not read."""
    found = _explained(tmp_path, {"post.action": f"move:{target}"}, key)

    assert found["matched"] is matched
    assert matched or "post.action=move brings objects there" in found["reason"]


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({}, [("orders", None)]),
        (_ROUTED, [("new-orders", None)]),
        (_ROUTED | _BY_KEY, [("new-eu", 3), ("new-us", 3)]),
        (_SOME_ROUTED, [("orders", None)]),
        (_BY_TIME, [("orders", None)]),
    ],
)
def test_plan_counts_by_the_topic_of_records(
    options: dict[str, Any], places: list[tuple[str, int | None]]
) -> None:
    """Where each record's own is another, by the one that it had before transforms."""
    settings = _settings(options)
    forecast = Preview(object_filters_of(settings, {}), now_ms=1, transforms=settings.transforms)
    keys = ("in/eu-3", "in/us-3")
    forecast.add(
        (S3Object(id=ObjectId("bucket", key, "e"), size=1, last_modified_ms=1), None) for key in keys
    )

    assert forecast.places() == places
    assert forecast.total().pending.objects == len(keys)
