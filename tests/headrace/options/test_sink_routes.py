"""Routes of a sink: what is in force for which topic, and what is refused."""

from collections.abc import Mapping

import pytest

from headrace.model.sink_entries import GroupingOptions
from headrace.options import Settings
from headrace.options.sink_settings import OutputFormat
from ingest.checks.findings.iam_policy import policies
from spark.sink.grouping_options import grouping_for_topic, grouping_hash, grouping_options, route_name
from spark.sink.sink_work import (
    for_topic as task_for_topic,
)
from spark.sink.sink_work import sink_task_settings
from tests.headrace.options.loading import load_with, problems_with

ROUTED: Mapping[str, str | None] = {
    "topic": None,
    "file.name.template": None,
    "sqs.queue.url": None,
    "topics": "orders,payments,returns",
    "aws.s3.prefix": "all/",
    "rotate.records": "7",
    "route.money.topics": "payments, returns",
    "route.money.aws.s3.bucket.name": "vault",
    "route.money.aws.s3.prefix": "money/",
    "route.money.output.format": "parquet",
    "route.money.timezone": "UTC",
}


def _routed(changes: Mapping[str, str | None] | None = None) -> Settings:
    return load_with({**ROUTED, **(changes or {})})


def test_a_route_has_its_own_and_the_sinks_other_options() -> None:
    """What it does not say is the sink's."""
    settings = _routed()
    money, orders = settings.for_topic("returns"), settings.for_topic("orders")

    assert orders is settings
    assert (money.s3.bucket, money.s3.prefix) == ("vault", "money/")
    assert settings.sink is not None
    assert money.sink is not None
    assert (money.sink.output.format, settings.sink.output.format) == (
        OutputFormat.PARQUET,
        OutputFormat.JSONL,
    )
    assert money.sink.rotation.records == 7
    assert money.sink.names.prefix == "money/"


def test_what_means_nothing_in_a_route_is_the_other_topics() -> None:
    """A route cannot take it away."""
    settings = _routed({"sidecars": "keys", "sidecars.keys.format": "jsonl", "route.money.sidecars": "none"})
    assert settings.sink is not None
    (route,) = settings.sink.routes
    assert settings.sink.output.sidecars.keys is not None
    assert route.sink.output.sidecars.keys is None


def test_tasks_have_the_routes_bucket() -> None:
    """The hash of what groups stays that of the whole sink."""
    settings = _routed()
    assert settings.sink is not None
    task = sink_task_settings(settings, settings.sink)
    money = task_for_topic(task, "payments")

    assert (money.s3.bucket, money.sink.output.format) == ("vault", OutputFormat.PARQUET)
    assert money.options == task.options
    assert task_for_topic(task, "orders") is task


def test_what_groups_by_a_route_is_remembered() -> None:
    """A later sink finds the template that a topic had."""
    settings = _routed({"route.money.file.name.template": "{{topic}}/{{key}}/{{partition}}/{{start_offset}}"})
    assert settings.sink is not None
    options = GroupingOptions(hash=grouping_hash(settings.sink), options=grouping_options(settings.sink))

    assert (route_name(options, "payments"), route_name(options, "orders")) == ("money", None)
    money, orders = (grouping_for_topic(options, topic).options for topic in ("payments", "orders"))
    assert money["file.name.template"].startswith("{{topic}}/{{key}}/")
    assert orders["file.name.template"] == settings.sink.names.template
    assert set(money) - {"topics"} == set(orders)


def test_a_route_has_nothing_of_the_sinks_own_groups() -> None:
    """How values look is noted where names show them, and a route's may not."""
    by_a = "{{topic}}/{{partition}}/{{value:a}}/{{start_offset}}"
    changes = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "file.name.template": by_a,
        "route.money.file.name.template": "{{topic}}/{{partition}}/{{start_offset}}",
    }
    settings = _routed(changes)
    assert settings.sink is not None
    options = GroupingOptions(hash=grouping_hash(settings.sink), options=grouping_options(settings.sink))

    assert "value.form" in grouping_for_topic(options, "orders").options
    assert "value.form" not in grouping_for_topic(options, "payments").options


def test_a_changed_route_changes_the_hash() -> None:
    """Its records may come into other groups."""
    sinks = [
        _routed(changes).sink
        for changes in (
            {},
            {"route.money.topics": "payments"},
            {"route.money.file.name.timestamp.timezone": "Europe/Berlin", "route.money.timezone": None},
        )
    ]
    assert len({grouping_hash(sink) for sink in sinks if sink is not None}) == 3


def test_a_topic_of_a_pattern_may_be_routed() -> None:
    """A route names topics, also beside topics.regex."""
    settings = _routed({"topics": None, "topics.regex": "(orders|payments|returns)"})
    assert settings.for_topic("payments").s3.bucket == "vault"


def test_policies_have_every_bucket() -> None:
    """The least policy names both places."""
    found = policies(_routed())
    uploads = next(each for each in found["run"]["Statement"] if each["Sid"] == "uploads")

    assert uploads["Resource"] == ["arn:aws:s3:::bucket/all/*", "arn:aws:s3:::vault/money/*"]
    assert [rule["Filter"]["Prefix"] for rule in found["lifecycle"]["Rules"]] == ["all/", "money/"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"route.money.topics": None}, "route.money.topics: is missing; a route is for topics"),
        ({"route.money.topics": "a b"}, "route.money.topics = 'a b': expected a comma-separated list"),
        ({"route.money.topics": "other"}, "other is not one of the sink's topics"),
        (
            {"topics": None, "topics.regex": "orders"},
            "payments is not one of the sink's topics",
        ),
        (
            {"route.second.topics": "payments"},
            "route.second.topics: payments is in route.money.topics as well",
        ),
        (
            {"route.money.key.converter": "x"},
            "route.money.key.converter: key.converter is for the whole sink",
        ),
        ({"route.money.unheard.of": "x"}, "route.money.unheard.of: unheard.of is not an option of Headrace"),
        ({"route.a b.topics": "orders"}, "route.a b.topics: names no route"),
        (
            {"route.money.rotate.records": "-1"},
            "route.money.rotate.records = '-1': expected a whole number",
        ),
        (
            {"route.money.file.name.template": "{{topic}}"},
            "route.money.file.name.template (here file.name.template) = '{{topic}}': needs {{partition}}",
        ),
        (
            {"route.money.output.format": "csv", "route.money.file.compression.type": "xz"},
            "cannot be written",
        ),
    ],
)
def test_what_is_refused(changes: Mapping[str, str | None], problem: str) -> None:
    """Each with the option that it is about."""
    found = list(map(str, problems_with({**ROUTED, **changes})))
    assert any(problem in each for each in found), found


def test_a_problem_of_the_sink_is_told_once() -> None:
    """Routes have the sink's options, too."""
    found = problems_with({**ROUTED, "file.name.template": "{{topic}}"})
    assert [problem.option for problem in found] == ["file.name.template"]


def test_a_source_has_no_routes() -> None:
    """They would do nothing."""
    (problem,) = problems_with({"route.a.topics": "b"})
    assert str(problem).startswith("route.a.topics: is an option of a sink")
