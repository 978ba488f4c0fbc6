"""The Grafana dashboard and the alert rules: every metric, label and value in them exists."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase

from ingest.connect.worker_view import CONNECTORS
from ingest.http.metrics import (
    MESSAGES,
    MODES,
    OUTCOMES,
    SINK_ENDS,
    STATES,
    TARGETS,
    Metrics,
    ProcessMetrics,
)
from tests.deploy.alert_rules import RULES, WHILE_IT_RUNS, rules
from tests.deploy.promql import Malformed, Use, parse

TOP = Path(__file__).parents[2]
DASHBOARD: Any = json.loads((TOP / "deploy" / "grafana" / "headrace.json").read_text())
# What Prometheus adds to every series, and what no label of ours limits.
SCRAPE = {"job", "instance"}
# What a worker adds to every series of a connector, and shows of its own.
WORKER = {"connector"}
WORKER_SERIES: dict[str, set[str]] = {
    "headrace_connector_failed": {"connector"},
    "headrace_worker_ready": set(),
    "headrace_worker_leader": set(),
    "headrace_worker_connectors": {"state"},
}
# What every process shows of itself, whatever runs in it.
PROCESS_SERIES: dict[str, set[str]] = {"headrace_build_info": {"role"}, "headrace_until_idle": set()}
OF_PROCESSES = {"HeadraceGone", "HeadraceJobGone"}
OF_WORKERS = {"HeadraceWorkerNotReady", "HeadraceNoWorkerLeads", "HeadraceConnectorNowhere"}
VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    "headrace_build_info": {"role": ("source", "sink", "worker")},
    "headrace_worker_connectors": {"state": CONNECTORS},
    "headrace_objects": {"state": STATES},
    "headrace_objects_total": {"state": (*STATES, "ignored")},
    "headrace_mode": {"mode": MODES},
    "headrace_target": {"target": TARGETS},
    "headrace_transactions_total": {"outcome": OUTCOMES},
    "headrace_sqs_messages_total": {"outcome": MESSAGES},
    "headrace_sink_objects_total": {"state": SINK_ENDS},
}


def series() -> dict[str, set[str]]:
    """The names that a query can use, each with its labels."""
    found: dict[str, set[str]] = {"headrace_objects": {"state"}, **WORKER_SERIES}
    for metric in vars(Metrics(dict)).values():
        if not isinstance(metric, MetricWrapperBase):
            continue
        names = set(metric._labelnames)
        if metric._type == "histogram":
            found[f"{metric._name}_bucket"] = {*names, "le"}
            found[f"{metric._name}_count"] = found[f"{metric._name}_sum"] = names
        else:
            found[metric._name + ("_total" if metric._type == "counter" else "")] = names
    return found


def panels() -> list[Any]:
    """Every panel with queries."""
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


EXPRESSIONS = [
    *(
        (f"{panel['title']}-{query['refId']}", query["expr"])
        for panel in panels()
        for query in panel["targets"]
    ),
    *rules(),
]


@pytest.mark.parametrize("expression", [pytest.param(text, id=name) for name, text in EXPRESSIONS])
def test_an_expression_uses_what_there_is(expression: str) -> None:
    """A name that is not there is no error to Prometheus: the panel stays empty, the alert silent."""
    known = series() | PROCESS_SERIES
    found = parse(expression)

    assert found.uses
    for use in found.uses:
        assert use.metric in known, f"there is no metric {use.metric}"
        for label, value in use.matchers:
            assert label in known[use.metric] | SCRAPE | WORKER, f"{use.metric} has no label {label}"
            if label not in SCRAPE | WORKER:
                allowed = VALUES[use.metric][label]
                assert set(value.split("|")) <= set(allowed), f"{use.metric} never has {label}={value!r}"
    grouped = (SCRAPE | WORKER).union(*(known[use.metric] for use in found.uses))
    assert found.labels <= grouped


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("sum by (job (headrace_leader)", "never closed"),
        ("sum(headrace_leader))", "closes nothing"),
        ("summ(headrace_leader)", "no function"),
        ('headrace_mode{mode="events" job="x"}', "no matcher"),
        ("headrace_leader & 1", "no token"),
    ],
)
def test_a_slip_is_found(expression: str, problem: str) -> None:
    """The check can fail."""
    with pytest.raises(Malformed, match=problem):
        parse(expression)


def test_every_alert_was_looked_at() -> None:
    """The reading of the file above misses none, and each says what to do."""
    text = RULES.read_text()
    names = re.findall(r"- alert: (\w+)", text)

    assert [name for name, _ in rules()] == names
    assert len(set(names)) == len(names) >= 10
    for part in ("severity: ", "summary: ", "action: "):
        assert text.count(part) == len(names), part


def test_every_metric_is_on_the_dashboard() -> None:
    """What nobody can see need not be counted."""
    used = {
        use.metric for panel in panels() for query in panel["targets"] for use in parse(query["expr"]).uses
    }
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in used}
    all_names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in series()}

    assert all_names == shown


def test_every_panel_can_be_limited_to_a_connector() -> None:
    """Of a `headrace run`, whose series have no such label, the choice of all takes everything."""
    (chosen,) = (one for one in DASHBOARD["templating"]["list"] if one["name"] == "connector")

    assert chosen["allValue"] == ".*"
    for panel in panels():
        for query in panel["targets"]:
            # Those of a worker, which count its connectors.
            per_worker = "count by (job, instance)" in query["expr"] or "headrace_worker_" in query["expr"]
            assert per_worker or 'connector=~"$connector"' in query["expr"], panel["title"]


def test_every_alert_tells_connectors_apart() -> None:
    """But for those of a process, and of workers."""
    for name, expression in rules():
        assert name in OF_PROCESSES | OF_WORKERS or "by (job, connector" in expression, name


@pytest.mark.parametrize("role", ["source", "sink", "worker"])
@pytest.mark.parametrize("alert", sorted(OF_PROCESSES))
def test_a_process_is_missed_by_what_each_of_them_shows(alert: str, role: str) -> None:
    """A worker without connectors has no series of a leader, and is scraped all the same."""
    metrics = {use.metric for use in parse(dict(rules())[alert]).uses}

    assert metrics == PROCESS_SERIES.keys()
    shown = ProcessMetrics(role).exposition().decode()
    assert "\nheadrace_build_info{" in shown
    assert "\nheadrace_until_idle 0.0" in shown


def test_work_that_waits_is_no_news_of_a_paused_ingester() -> None:
    """`HeadracePaused` is, and it has other words."""
    paused = Use("headrace_target", (("target", "paused|stopped"),))
    looking = {name for name, expression in rules() if paused in parse(expression).uses}

    assert looking == WHILE_IT_RUNS | {"HeadracePaused"}


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """No data source of ours is named in it, panels do not overlap, and each says what it shows."""
    assert DASHBOARD["uid"] == "headrace"
    assert "id" not in DASHBOARD
    assert {panel["datasource"]["uid"] for panel in panels()} == {"${datasource}"}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == [
        "datasource",
        "job",
        "connector",
    ]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert all(panel["description"].endswith(".") for panel in panels())
    for one, other in combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or apart, (one, other)
        assert one["x"] + one["w"] <= 24
