"""The alerts as Prometheus itself raises them, where it is installed (Debian: apt-get install prometheus)."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.alert_rules import RULES, WHILE_IT_RUNS

# It fires where nothing is scraped, so that it is of no job.
JOBLESS = {"HeadraceGone"}


@dataclass(frozen=True, slots=True)
class Case:
    """What is shown over hours, and the alerts that fire at their end."""

    shown: dict[str, str]
    firing: set[str]
    name: str

    @property
    def is_alone(self) -> bool:
        """Whether no other instance is scraped than those it shows."""
        return 'up{job="w",instance="1"}' in self.shown


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
    'headrace_mode{job="a",instance="1",mode="fallback"}': "0",
    'headrace_mode{job="a",instance="1",mode="events"}': "1",
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


def slow(pending: str, due: str | None = "0", le: str = "300") -> dict[str, str]:
    """A source with a queue: objects are committed after up to `le` seconds; how old the oldest is."""
    here = 'job="l",instance="1"'
    found = {
        f'headrace_mode{{{here},mode="events"}}': "1",
        f'headrace_event_to_commit_seconds_bucket{{{here},le="30"}}': "0+1",
        f'headrace_event_to_commit_seconds_bucket{{{here},le="{le}"}}': "0+60",
        f'headrace_event_to_commit_seconds_bucket{{{here},le="+Inf"}}': "0+60",
        f"headrace_oldest_pending_seconds{{{here}}}": pending,
        # Of the standby, which knows of none.
        'headrace_oldest_pending_seconds{job="l",instance="2"}': "0",
        'headrace_oldest_due_seconds{job="l",instance="2"}': "0",
    }
    return found if due is None else {**found, f"headrace_oldest_due_seconds{{{here}}}": due}


def listed(ended: str, *, mode: str = "1", paused: str = "0", job: str = "i") -> dict[str, str]:
    """A source and when its last full listing ended, as each of its processes shows it."""
    here = f'job="{job}",instance="1"'
    return {
        f"headrace_last_full_listing_timestamp_seconds{{{here}}}": ended,
        f'headrace_mode{{{here},mode="listing"}}': mode,
        f'headrace_target{{{here},target="paused"}}': paused,
    }


def worker(instance: int, **shown: str) -> dict[str, str]:
    """What a worker shows: `known` and `running` connectors, `unplaced`, `ready`, `leader`."""
    here = f'job="w",instance="{instance}"'
    defaults = {"ready": "1", "leader": "0", "known": "2", "assigned": "1", "running": "1", "unplaced": "0"}
    found = {f'headrace_build_info{{{here},role="worker"}}': shown.pop("build", "1")}
    for name, value in (defaults | shown).items():
        own = name in {"ready", "leader"}
        series = f"worker_{name}{{{here}}}" if own else f'worker_connectors{{{here},state="{name}"}}'
        found[f"headrace_{series}"] = value
    return found


GONE = dict.fromkeys(("build", "ready", "leader", "known", "assigned", "running", "unplaced"), "1x100 stale")
NOTHING = {"known": "0", "assigned": "0", "running": "0"}
# Not scraped while it waits to be started again.
RESTARTED = " ".join(["0x1 stale _x3"] * 60)


CASES = [
    Case({**LATE, 'headrace_target{job="a",instance="1",target="running"}': "1"}, WHILE_IT_RUNS, name="late"),
    Case(
        {**LATE, 'headrace_target{job="a",instance="1",target="paused"}': "1"},
        {"HeadracePaused"},
        name="paused",
    ),
    Case(
        {**LATE, 'headrace_target{job="a",instance="1",target="stopped"}': "1"},
        {"HeadracePaused"},
        name="stopped",
    ),
    Case(
        {**LATE, 'headrace_target{job="b",instance="1",target="paused"}': "1"},
        WHILE_IT_RUNS | {"HeadracePaused"},
        name="another is paused",
    ),
    Case({'headrace_build_info{job="w",instance="1",role="worker"}': "1"}, set(), name="idle worker"),
    Case({**worker(1, leader="1", **NOTHING), **worker(2, **NOTHING)}, set(), name="idle workers"),
    Case({**worker(1, leader="1"), **worker(2)}, set(), name="workers"),
    Case(
        {**worker(1, leader="1"), **worker(2, ready="1x290 0x10", running="1x290 0x10")},
        {"HeadraceWorkerNotReady", "HeadraceConnectorNowhere"},
        name="a worker is not ready, and runs nothing",
    ),
    Case(
        {**worker(1, leader="1", running="2"), **worker(2, ready=RESTARTED, assigned="0", running="0")},
        {"HeadraceWorkerNotReady"},
        name="a worker is started again and again",
    ),
    Case(
        worker(1, ready="0", **NOTHING),
        {"HeadraceWorkerNotReady", "HeadraceNoWorkerLeads"},
        name="a worker that was never ready",
    ),
    Case(
        {**worker(1), **worker(2, **GONE)},
        {"HeadraceNoWorkerLeads", "HeadraceConnectorNowhere"},
        name="the worker that led is gone, and none leads",
    ),
    Case(
        {**worker(1, leader="1", running="2"), **worker(2, **GONE)},
        set(),
        name="its connectors are taken over",
    ),
    Case(
        {**worker(1, leader="1"), **worker(2, running="0", unplaced="1")},
        {"HeadraceConnectorNowhere"},
        name="given to a worker that does not have it",
    ),
    Case(
        {**worker(1, leader="1", known="1"), **worker(2, known="1", unplaced="1")},
        {"HeadraceConnectorNowhere"},
        name="only a worker that does not lead has it",
    ),
    Case(
        {**worker(1), 'headrace_build_info{job="w",instance="2",role="worker"}': "1"},
        set(),
        name="the worker that leads is of 1.0.0",
    ),
    Case({'up{job="w",instance="1"}': "0"}, {"HeadraceGone"}, name="gone"),
    Case(
        {'headrace_build_info{job="w",instance="1"}': "1x100 stale"},
        {"HeadraceJobGone"},
        name="one of two gone",
    ),
    Case(
        {
            'headrace_build_info{job="w",instance="1"}': "1x100 stale",
            'headrace_until_idle{job="w",instance="1"}': "0x50 1x50 stale",
        },
        set(),
        name="one of two has ended by itself",
    ),
    Case(
        {
            'headrace_build_info{job="w",instance="1"}': "1x100 stale",
            'headrace_until_idle{job="w",instance="1"}': "0x100 stale",
            'headrace_build_info{job="w",instance="2"}': "1x50 stale",
            'headrace_until_idle{job="w",instance="2"}': "1x50 stale",
        },
        {"HeadraceJobGone"},
        name="one is gone, the other has ended by itself",
    ),
    Case(
        {
            'up{job="w",instance="1"}': "0",
            'headrace_build_info{job="w",instance="1"}': "1x100 stale",
            'headrace_until_idle{job="w",instance="1"}': "1x100 stale",
        },
        set(),
        name="the only one has ended by itself",
    ),
    Case(
        {
            'headrace_build_info{job="w",instance="1",version="1"}': "1x100 stale",
            'headrace_build_info{job="w",instance="2",version="2"}': "_x105 1x200",
        },
        set(),
        name="upgraded",
    ),
    Case({**SINK, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "500"}, set(), name="sink keeps up"),
    Case(
        {**SINK, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "700"},
        {"HeadraceSinkBehind"},
        name="sink is an hour back",
    ),
    Case(
        {**SINK, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "100000-300"},
        set(),
        name="sink catches up",
    ),
    Case(
        {**STOPPED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "_x280 1440000-5000x20"},
        set(),
        name="sink catches up after a stop",
    ),
    Case(
        {**STOPPED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "_x280 1440000+500x20"},
        {"HeadraceSinkBehind"},
        name="sink loses ground after a stop",
    ),
    Case(
        {**STARTED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "_x270 1440000x30"},
        {"HeadraceSinkBehind"},
        name="sink is at a stand since its start",
    ),
    Case(
        {**STARTED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "0x270 3000000-30000x30"},
        set(),
        name="sink catches up after a burst",
    ),
    Case(
        {**RESUMED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "0+6000x270 1620000-6000x30"},
        set(),
        name="sink catches up after a pause",
    ),
    Case(
        {**RESUMED, 'headrace_sink_lag{job="s",instance="1",topic="t"}': "0+6000x270 1620000+6000x30"},
        {"HeadraceSinkBehind"},
        name="sink loses ground after a pause",
    ),
    Case(YOUNG, set(), name="too young"),
    Case(
        {**YOUNG, 'headrace_oldest_due_seconds{job="y",instance="1"}': "_x270 0+60x30"},
        {"HeadraceStuck", "HeadraceBehind"},
        name="old enough for half an hour, and not read",
    ),
    Case(slow("5", "5"), {"HeadraceLate"}, name="slow"),
    Case(slow("5", "5", le="60"), set(), name="committed within a minute"),
    Case(slow("65", "5"), set(), name="old enough after a minute"),
    Case(slow(" ".join(["0x58 40"] * 5) + " 0x10", "0"), set(), name="old enough after a minute, rarely"),
    Case(slow("25", "5"), {"HeadraceLate"}, name="slow, and old enough after 20 s"),
    Case(slow("800", "800"), {"HeadraceLate"}, name="slow for a backlog"),
    Case(slow("65", None), {"HeadraceLate"}, name="slow, of 1.0.0"),
    Case(listed("0", mode="0"), set(), name="a sink lists nothing"),
    Case(listed("0"), set(), name="the first listing takes hours"),
    Case(listed("60x280 17000x20"), set(), name="listed after a long time"),
    Case(
        listed("60x100 stale _x2 0x98 stale _x2 0x98"),
        {"HeadraceListingOverdue"},
        name="restarted before a listing ends",
    ),
    Case(listed("60x20 stale _x229 0x50"), set(), name="not listed while it was down, and started again"),
    Case(listed("60", paused="1x270 0x30"), set(), name="not listed while it was paused, and resumed"),
    Case(listed("60", paused="1x20 0x280"), {"HeadraceListingOverdue"}, name="resumed and never listed"),
    Case(
        {'headrace_objects{job="s",instance="1",state="quarantined"}': "1"},
        {"HeadraceQuarantined"},
        name="quarantined",
    ),
    Case(
        {
            'headrace_sink_stopped_partitions{job="s",instance="1"}': "0x290 2x10",
            'headrace_sink_stopped_partitions{job="s",instance="2"}': "0",
        },
        {"HeadracePartitionStopped"},
        name="partitions are stopped",
    ),
    Case(
        {'headrace_sink_stopped_partitions{job="s",instance="1"}': "2x290 0x10"},
        set(),
        name="no partition is stopped any more",
    ),
    Case(
        {'headrace_sink_objects_total{job="s",instance="1",state="unproven"}': "0x295 1"},
        {"HeadraceUnproven"},
        name="unproven",
    ),
    Case(
        {'headrace_sink_objects_total{job="s",instance="1",state="unproven"}': "_x295 1"},
        {"HeadraceUnproven"},
        name="unproven at the start",
    ),
    Case(
        {'headrace_sink_objects_total{job="s",instance="1",state="unproven"}': "1"},
        set(),
        name="unproven long ago",
    ),
    Case(
        {'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "_x295 5000"},
        {"HeadraceOffsetsLost"},
        name="a topic's first loss",
    ),
    Case(
        {'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "7x295 5000"},
        {"HeadraceOffsetsLost"},
        name="another loss of the topic",
    ),
    Case(
        {'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "5000"},
        set(),
        name="a loss long ago",
    ),
    Case(
        {
            'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "5000x200 stale _x90 5000x8",
            'headrace_bad_records_total{job="s",instance="1",reason="r"}': "7x200 stale _x90 7x8",
            'headrace_sqs_messages_total{job="s",instance="1",outcome="left"}': "7x200 stale _x90 7x8",
            'headrace_sink_objects_total{job="s",instance="1",state="unproven"}': "7x200 stale _x90 7x8",
        },
        set(),
        name="long ago, and not scraped since",
    ),
    Case(
        {
            'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "7x200 stale _x90 5x8",
            'headrace_bad_records_total{job="s",instance="1",reason="r"}': "0x200 stale _x90 7x8",
        },
        {"HeadraceOffsetsLost", "HeadraceBadRecords"},
        name="while it was stopped",
    ),
    Case(
        {'headrace_lost_offsets_total{job="s",instance="1",topic="t"}': "7x200 stale _x50 5x50"},
        set(),
        name="while it was stopped, an hour ago",
    ),
    Case(
        {'headrace_sqs_messages_total{job="q",instance="1",outcome="left"}': "_x250 3x50"},
        {"HeadraceMessagesLeft"},
        name="messages left at the start",
    ),
]
NEVER_LISTED = [
    Case(listed("0"), {"HeadraceListingOverdue"}, name="a source"),
    Case(listed(" ".join(["0x118 stale _x1"] * 13)), {"HeadraceListingOverdue"}, name="restarted"),
    Case(listed("0", mode="0"), set(), name="a sink"),
    Case(listed("0", paused="1x1400 0x160"), set(), name="paused"),
]


def test_prometheus_itself_raises_what_it_shall(tmp_path: Path) -> None:
    """Of these alerts; after five hours in which nothing moves. Each case that differs is printed by name."""
    assert "SUCCESS" in _raised(tmp_path, CASES, hours=HOURS)


def test_a_source_that_never_ends_a_listing_is_reported(tmp_path: Path) -> None:
    """Within a day: the first listing of a large bucket takes hours, and is no alert."""
    assert "SUCCESS" in _raised(tmp_path, NEVER_LISTED, hours=26)


def _raised(tmp_path: Path, cases: list[Case], *, hours: int) -> str:
    """What promtool prints of a test that each case's alerts fire at that time, and no others.

    To evaluate all rules each minute of five hours takes a second of CPU, of one case or of sixty: so the
    jobs of all are in one Prometheus. Where no Headrace is scraped at all is a case of its own.
    """
    assert len({case.name for case in cases}) == len(cases)
    together = [case for case in cases if not case.is_alone]
    tests = [
        _test({'headrace_build_info{job="z"}': "1"}, together, hours=hours),
        *(_test({}, [case], hours=hours) for case in cases if case.is_alone),
    ]
    file = tmp_path / "alerts_test.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    return _promtool("test", "rules", str(file))


def _test(series: dict[str, str], cases: list[Case], *, hours: int) -> dict[str, object]:
    """One of promtool's tests, in which the jobs of each case have its name before their own."""
    named = {
        name.replace('job="', f'job="{case.name}: '): value
        for case in cases
        for name, value in case.shown.items()
    }
    fires = 'count by (alertname) (ALERTS{alertstate="firing",job%s})'
    expected: list[tuple[str, set[str]]] = [
        (fires % f'=~"{case.name}: .*"', case.firing - JOBLESS) for case in cases
    ]
    # No alert is of a job that is no case's, and of no job at all are those alone that say so.
    jobless = {name for case in cases for name in case.firing & JOBLESS}
    expected.append((fires % '!~".+: .+"', jobless))
    return {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": value if "x" in value else f"{value}x{hours * 60}"}
            for name, value in {**series, **named}.items()
        ],
        "promql_expr_test": [
            {"expr": expression, "eval_time": f"{hours}h",
             "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)]}
            for expression, firing in expected
        ],
    }  # fmt: skip
