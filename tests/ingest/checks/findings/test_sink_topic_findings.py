"""What `check` says of a sink's topics, each with what to do."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.model.errors import Exit
from headrace.options import Settings
from ingest.checks.findings.finding import BROKERS_FIX, Cause, Refused, Verdict
from ingest.checks.findings.sink_findings import ReadFacts, TopicsFacts, may_outlive, topics_findings
from tests.ingest.checks.findings.configured import configured

_DENIED = Refused(Cause.DENIED, "no")


def _settings(**changes: str | None) -> Settings:
    sink: dict[str, str | None] = {"topic": None, "sqs.queue.url": None, "file.name.template": None}
    return configured({**sink, "topics": "orders,lost", **changes})


def _topics(**changes: Any) -> list[tuple[str, Verdict, str]]:
    facts = TopicsFacts(
        missing=(),
        partitions=[ReadFacts(topic="orders", partition=0, begin=5, end=9, archived=6)],
        members=(),
    )
    findings = topics_findings(_settings(), replace(facts, **changes))
    return [(finding.name, finding.verdict, finding.sentence) for finding in findings]


def test_topics_that_are_there_are_well() -> None:
    """One line for all."""
    assert _topics() == [("topic", Verdict.OK, "1 topic with 1 partition to read: orders")]


def test_a_topic_that_is_not_there_yet_is_a_warning() -> None:
    """New topics are found while running."""
    assert _topics(missing=["lost"])[0][:2] == ("topic", Verdict.WARN)


def test_another_consumer_in_the_group_is_an_error() -> None:
    """Both would commit offsets."""
    (finding,) = [
        finding
        for finding in topics_findings(_settings(), TopicsFacts(missing=(), partitions=(), members=["m"]))
        if finding.name == "group"
    ]

    assert (finding.verdict, finding.exit) == (Verdict.FAIL, Exit.CONFIGURATION)
    assert "'uploads'" in finding.sentence


@pytest.mark.parametrize(
    ("archived", "verdict"), [(4, Verdict.WARN), (5, None), (9, None), (10, Verdict.FAIL), (None, None)]
)
def test_offsets_that_kafka_does_not_have(archived: int | None, verdict: Verdict | None) -> None:
    """Deleted ones are lost, ones above the end are of another cluster."""
    found = _topics(partitions=[ReadFacts(topic="orders", partition=0, begin=5, end=9, archived=archived)])

    assert [each[1] for each in found if each[0] == "offsets"] == ([] if verdict is None else [verdict])


@pytest.mark.parametrize(
    ("mark", "is_foreign"),
    [("", False), ("headrace uploads-offsets id", False), ("headrace other id", True), ("else", False)],
)
def test_offsets_of_another_headrace_are_an_error(mark: str, *, is_foreign: bool) -> None:
    """`run` would stop at them; those of another tool are where it goes on."""
    part = ReadFacts(topic="orders", partition=0, begin=0, end=9, archived=6, mark=mark, topic_id="id")

    found = [each[1] for each in _topics(partitions=[part]) if each[0] == "offsets"]

    assert found == ([Verdict.FAIL] if is_foreign else [])


@pytest.mark.parametrize(("topic_id", "is_other"), [("id", False), ("id2", True)])
def test_offsets_of_another_topic_of_this_name_are_a_warning(topic_id: str, *, is_other: bool) -> None:
    """As after a group was copied to another cluster."""
    mark = "headrace uploads-offsets id"
    one = ReadFacts(topic="orders", partition=0, begin=0, end=9, archived=6, mark=mark, topic_id=topic_id)

    found = [each[1:] for each in _topics(partitions=[one]) if each[0] == "offsets"]

    assert [each[0] for each in found] == ([Verdict.WARN] if is_other else [])
    assert all("or this is another cluster" in each[1] for each in found)


def test_topics_that_cannot_be_described_are_unusable() -> None:
    """With what to allow, and where nobody answered with what to look at."""
    (finding,) = topics_findings(_settings(), _DENIED)
    (away,) = topics_findings(_settings(), Refused(Cause.UNREACHED, "Local: Timed out"))

    assert (finding.verdict, finding.exit) == (Verdict.FAIL, Exit.UNUSABLE)
    assert "Allow Describe and Read" in (finding.remedy or "")
    assert (away.verdict, away.exit) == (Verdict.FAIL, Exit.UNUSABLE)
    assert away.remedy == BROKERS_FIX


def test_a_pattern_that_matches_nothing_is_a_warning() -> None:
    """It may later."""
    settings = _settings(**{"topics": None, "topics.regex": "x.*"})

    (finding,) = topics_findings(settings, TopicsFacts(missing=(), partitions=(), members=()))

    assert finding.verdict is Verdict.WARN
    assert "x.*" in finding.sentence


_WEEK_MS = 604_800_000


@pytest.mark.parametrize(
    ("options", "kept_ms", "is_warned"),
    [
        ({}, _WEEK_MS, False),
        ({}, 3_000_000, False),
        ({"rotate.age.ms": "0", "open.object.max.age.ms": "0"}, _WEEK_MS, True),
        ({"rotate.age.ms": "0", "open.object.max.age.ms": "0"}, None, False),
        ({"rotate.age.ms": "0", "open.object.max.age.ms": str(_WEEK_MS)}, _WEEK_MS, True),
        ({"rotate.age.ms": "0", "open.object.max.age.ms": str(_WEEK_MS - 1)}, _WEEK_MS, False),
        ({"rotate.age.ms": "0", "open.object.max.age.ms": "0", "rotate.span.ms": "1000"}, _WEEK_MS, True),
        (
            {"rotate.age.ms": "0", "open.object.max.age.ms": "0", "rotate.schedule.ms": "86400000"},
            _WEEK_MS,
            False,
        ),
    ],
)
def test_objects_that_outlive_their_records_in_kafka(
    options: dict[str, str], kept_ms: int | None, *, is_warned: bool
) -> None:
    """What an open object has is read again after a restart, if Kafka still has it."""
    kept = {} if kept_ms is None else {"orders": kept_ms}
    facts = TopicsFacts(missing=(), partitions=(), members=(), retention_ms=kept)

    found = [each for each in topics_findings(_settings(**options), facts) if each.name == "record retention"]

    assert [each.verdict for each in found] == ([Verdict.WARN] if is_warned else [])
    assert all("'orders' (7 days)" in each.sentence for each in found)


def test_a_route_that_closes_by_time_is_no_warning() -> None:
    """Each topic by what closes its own objects."""
    settings = _settings(
        **{
            "rotate.age.ms": "0",
            "open.object.max.age.ms": "0",
            "route.late.topics": "lost",
            "route.late.aws.s3.prefix": "late/",
            "route.late.open.object.max.age.ms": "60000",
        }
    )
    assert settings.sink is not None

    assert may_outlive(settings.sink, "orders")
    assert not may_outlive(settings.sink, "lost")
