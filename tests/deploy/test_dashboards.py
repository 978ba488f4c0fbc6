"""The Grafana dashboard and the alert rules: every metric, label and value in them exists."""

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase

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
from tests.deploy.promql import Malformed, Use, parse

TOP = Path(__file__).parents[2]
RULES = TOP / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD: Any = json.loads((TOP / "deploy" / "grafana" / "headrace.json").read_text())
# What Prometheus adds to every series, and what no label of ours limits.
SCRAPE = {"job", "instance"}
# What a worker adds to every series of a connector, and shows of its own.
WORKER = {"connector"}
WORKER_SERIES = {"headrace_connector_failed": {"connector"}}
# What every process shows of itself, whatever runs in it.
PROCESS_SERIES: dict[str, set[str]] = {"headrace_build_info": set()}
OF_PROCESSES = {"HeadraceGone", "HeadraceJobGone"}
# What of waiting work is no news while nothing is meant to be done.
WHILE_IT_RUNS = {"HeadraceBehind", "HeadraceSinkBehind", "HeadraceStuck", "HeadraceListingOverdue"}
VALUES: dict[str, dict[str, tuple[str, ...]]] = {
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


def rules() -> list[tuple[str, str]]:
    """Name and expression of each alert; folded lines are one."""
    text = RULES.read_text()
    found = re.findall(r"- alert: (\w+)\n(?:\s+#.*\n)*\s+expr: (?:>-\n)?((?:.+\n)+?)\s+(?:for|labels):", text)
    return [(name, " ".join(expression.split())) for name, expression in found]


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
            per_worker = query["expr"].startswith("count by (job, instance)")
            assert per_worker or 'connector=~"$connector"' in query["expr"], panel["title"]


def test_every_alert_tells_connectors_apart() -> None:
    """But for those of a process."""
    for name, expression in rules():
        assert name in OF_PROCESSES or "by (job, connector" in expression, name


@pytest.mark.parametrize("role", ["source", "sink", "worker"])
@pytest.mark.parametrize("alert", sorted(OF_PROCESSES))
def test_a_process_is_missed_by_what_each_of_them_shows(alert: str, role: str) -> None:
    """A worker without connectors has no series of a leader, and is scraped all the same."""
    (metric,) = {use.metric for use in parse(dict(rules())[alert]).uses}

    assert metric in PROCESS_SERIES
    assert f"\n{metric}{{" in ProcessMetrics(role).exposition().decode()


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


def _promtool(*arguments: str) -> str:
    """What Prometheus's own tool prints; it has to agree."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH: the rules were NOT read by Prometheus's own parser")
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_itself_takes_the_rules() -> None:
    """Its own parser, where it is installed (Debian: apt-get install prometheus)."""
    assert "SUCCESS" in _promtool("check", "rules", str(RULES))


HOURS = 5
# A backlog, and a listing long ago, that nothing moves; the second instance is the standby. Their version is
# 1.0.0, without the time since they were old enough to be read.
LATE = {
    'headrace_pending_objects{job="a",instance="1"}': "3",
    'headrace_pending_objects{job="a",instance="2"}': "0",
    'headrace_oldest_pending_seconds{job="a",instance="1"}': "8000",
    'headrace_transactions_total{job="a",instance="1",outcome="committed"}': "7",
    'headrace_last_full_listing_timestamp_seconds{job="a",instance="1"}': "60",
    'headrace_sink_lag{job="a",instance="1",topic="t"}': "9",
    'headrace_sink_records_total{job="a",instance="1",topic="t"}': "7",
}
# A sink that takes ten records a minute from two topics, one of which stays back by so many.
SINK = {
    'headrace_target{job="s",instance="1",target="running"}': "1",
    'headrace_sink_records_total{job="s",instance="1",topic="t"}': "0+10",
    'headrace_sink_records_total{job="s",instance="2",topic="t"}': "7",
    'headrace_sink_lag{job="s",instance="1",topic="u"}': "0",
}


# Each half hour begins with objects that are read once they are half an hour old; the last are just that.
YOUNG = {
    'headrace_target{job="y",instance="1",target="running"}': "1",
    'headrace_pending_objects{job="y",instance="1"}': "3",
    'headrace_oldest_pending_seconds{job="y",instance="1"}': " ".join(["0+60x29"] * 10) + " 1740",
    'headrace_oldest_due_seconds{job="y",instance="1"}': "0",
    'headrace_oldest_due_seconds{job="y",instance="2"}': "0",
    'headrace_transactions_total{job="y",instance="1",outcome="committed"}': "7",
}
# A sink that was stopped for hours, and has led for twenty minutes.
STOPPED = {
    'headrace_target{job="s",instance="1",target="running"}': "_x280 1x20",
    'headrace_sink_records_total{job="s",instance="1",topic="t"}': "_x280 0+6000x20",
}
# One that has led for half an hour.
STARTED = {
    'headrace_target{job="s",instance="1",target="running"}': "_x270 1x30",
    'headrace_sink_records_total{job="s",instance="1",topic="t"}': "_x270 0x30",
}
RESUMED = {
    'headrace_target{job="s",instance="1",target="paused"}': "1x270 0x30",
    'headrace_target{job="s",instance="1",target="running"}': "0x270 1x30",
    'headrace_sink_records_total{job="s",instance="1",topic="t"}': "7x270 7+3000x30",
}


@pytest.mark.parametrize(
    ("shown", "firing"),
    [
        pytest.param(
            {**LATE, 'headrace_target{job="a",instance="1",target="running"}': "1"}, WHILE_IT_RUNS, id="late"
        ),
        pytest.param(
            {**LATE, 'headrace_target{job="a",instance="1",target="paused"}': "1"},
            {"HeadracePaused"},
            id="paused",
        ),
        pytest.param(
            {**LATE, 'headrace_target{job="a",instance="1",target="stopped"}': "1"},
            {"HeadracePaused"},
            id="stopped",
        ),
        pytest.param(
            {**LATE, 'headrace_target{job="b",instance="1",target="paused"}': "1"},
            WHILE_IT_RUNS | {"HeadracePaused"},
            id="another is paused",
        ),
        pytest.param(
            {'headrace_build_info{job="w",instance="1",role="worker"}': "1"}, set(), id="idle worker"
        ),
        pytest.param({'up{job="w",instance="1"}': "0"}, {"HeadraceGone"}, id="gone"),
        pytest.param(
            {'headrace_build_info{job="w",instance="1"}': "1x100 stale"},
            {"HeadraceJobGone"},
            id="one of two gone",
        ),
        pytest.param(
            {
                'headrace_build_info{job="w",instance="1",version="1"}': "1x100 stale",
                'headrace_build_info{job="w",instance="2",version="2"}': "_x105 1x200",
            },
            set(),
            id="upgraded",
        ),
        pytest.param(
            {**SINK, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "500"}, set(), id="sink keeps up"
        ),
        pytest.param(
            {**SINK, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "700"},
            {"HeadraceSinkBehind"},
            id="sink is an hour back",
        ),
        pytest.param(
            {**SINK, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "100000-300"},
            set(),
            id="sink catches up",
        ),
        pytest.param(
            {**STOPPED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "_x280 1440000-5000x20"},
            set(),
            id="sink catches up after a stop",
        ),
        pytest.param(
            {**STOPPED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "_x280 1440000+500x20"},
            {"HeadraceSinkBehind"},
            id="sink loses ground after a stop",
        ),
        pytest.param(
            {**STARTED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "_x270 1440000x30"},
            {"HeadraceSinkBehind"},
            id="sink is at a stand since its start",
        ),
        pytest.param(
            {**STARTED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "0x270 3000000-30000x30"},
            set(),
            id="sink catches up after a burst",
        ),
        pytest.param(
            {**RESUMED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "0+6000x270 1620000-6000x30"},
            set(),
            id="sink catches up after a pause",
        ),
        pytest.param(
            {**RESUMED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "0+6000x270 1620000+6000x30"},
            {"HeadraceSinkBehind"},
            id="sink loses ground after a pause",
        ),
        pytest.param(YOUNG, set(), id="too young"),
        pytest.param(
            {**YOUNG, 'headrace_oldest_due_seconds{job="y",instance="1"}': "_x270 0+60x30"},
            {"HeadraceStuck", "HeadraceBehind"},
            id="old enough for half an hour, and not read",
        ),
        pytest.param(
            {'headrace_objects{job="s",instance="1",state="quarantined"}': "1"},
            {"HeadraceQuarantined"},
            id="quarantined",
        ),
        pytest.param(
            {'headrace_sink_objects_total{job="s",instance="1",state="unproven"}': "0x295 1"},
            {"HeadraceUnproven"},
            id="unproven",
        ),
        pytest.param(
            {'headrace_sink_objects_total{job="s",instance="1",state="unproven"}': "_x295 1"},
            {"HeadraceUnproven"},
            id="unproven at the start",
        ),
        pytest.param(
            {'headrace_sink_objects_total{job="s",instance="1",state="unproven"}': "1"},
            set(),
            id="unproven long ago",
        ),
        pytest.param(
            {'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "_x295 5000"},
            {"HeadraceOffsetsLost"},
            id="a topic's first loss",
        ),
        pytest.param(
            {'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "7x295 5000"},
            {"HeadraceOffsetsLost"},
            id="another loss of the topic",
        ),
        pytest.param(
            {'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "5000"},
            set(),
            id="a loss long ago",
        ),
        pytest.param(
            {
                'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "5000x200 stale _x90 5000x8",
                'headrace_bad_records_total{job="s",instance="1",reason="r"}': "7x200 stale _x90 7x8",
                'headrace_sqs_messages_total{job="s",instance="1",outcome="left"}': "7x200 stale _x90 7x8",
                'headrace_sink_objects_total{job="s",instance="1",state="unproven"}': "7x200 stale _x90 7x8",
            },
            set(),
            id="long ago, and not scraped since",
        ),
        pytest.param(
            {
                'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "7x200 stale _x90 5x8",
                'headrace_bad_records_total{job="s",instance="1",reason="r"}': "0x200 stale _x90 7x8",
            },
            {"HeadraceOffsetsLost", "HeadraceBadRecords"},
            id="while it was stopped",
        ),
        pytest.param(
            {'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "7x200 stale _x50 5x50"},
            set(),
            id="while it was stopped, an hour ago",
        ),
        pytest.param(
            {'headrace_sqs_messages_total{job="q",instance="1",outcome="left"}': "_x250 3x50"},
            {"HeadraceMessagesLeft"},
            id="messages left at the start",
        ),
    ],
)
def test_prometheus_itself_raises_what_it_shall(
    tmp_path: Path, shown: dict[str, str], firing: set[str]
) -> None:
    """Of these alerts; after five hours in which nothing moves."""
    names = {name for name, _ in rules()}
    build = {} if shown.keys() & {'up{job="w",instance="1"}'} else {'headrace_build_info{job="z"}': "1"}
    series = [
        {"series": name, "values": value if "x" in value else f"{value}x{HOURS * 60}"}
        for name, value in {**build, **shown}.items()
    ]
    counted = [
        {"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)',
         "eval_time": f"{HOURS}h", "exp_samples": [{"labels": "{}", "value": int(name in firing)}]}
        for name in sorted(names)
    ]  # fmt: skip
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": counted}],
    }
    file = tmp_path / "alerts_test.yaml"
    file.write_text(json.dumps(tests))

    assert "SUCCESS" in _promtool("test", "rules", str(file))
