"""The metrics carry the contract's names, and docs/metrics.md says what they are."""

import re
from pathlib import Path

import pytest
from prometheus_client import Gauge
from prometheus_client.metrics import MetricWrapperBase

from ingest.http.metrics import MODES, TARGETS, Metrics
from ingest.http.snapshot import SinkStatus, Snapshot

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"

CONTRACT = {
    "headrace_objects", "headrace_objects_total", "headrace_records_total", "headrace_read_bytes_total",
    "headrace_bad_records_total", "headrace_pending_objects", "headrace_oldest_pending_seconds",
    "headrace_event_to_commit_seconds", "headrace_batch_seconds", "headrace_transactions_total",
    "headrace_sqs_messages_total", "headrace_sqs_heartbeats_total", "headrace_list_requests_total",
    "headrace_mode", "headrace_leader",
}  # fmt: skip
BESIDE = {
    "headrace_pending_bytes", "headrace_oldest_due_seconds",
    "headrace_ready", "headrace_slots", "headrace_target",
    "headrace_post_actions_total", "headrace_trace_spans_total", "headrace_inventory_rows_total",
    "headrace_last_full_listing_timestamp_seconds", "headrace_restore_inexact_total",
    "headrace_sink_records_total", "headrace_sink_bytes_total", "headrace_sink_objects_total",
    "headrace_sink_lag", "headrace_sink_open_objects", "headrace_sink_pending_objects",
    "headrace_sink_buffered_bytes", "headrace_sink_oldest_open_seconds", "headrace_lost_offsets_total",
    "headrace_sink_stopped_partitions",
}  # fmt: skip

# Gauges of a process, whether it leads or not: set at each scrape, and a moment that stays true.
NOT_A_LEADERS = {
    "headrace_ready",
    "headrace_last_full_listing_timestamp_seconds",
}


def families(text: str) -> dict[str, str]:
    """Name and type from the TYPE lines of an exposition."""
    return dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))


def labels(metrics: Metrics) -> dict[str, tuple[str, ...]]:
    """The label names of each metric, by its name in an exposition."""
    found: dict[str, tuple[str, ...]] = {"headrace_objects": ("state",)}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            name = metric._name + ("_total" if metric._type == "counter" else "")
            found[name] = tuple(metric._labelnames)
    return found


def test_every_metric_of_the_contract_is_shown_and_few_others() -> None:
    """Dashboards and alerts are built on these names."""
    assert set(families(Metrics(dict).exposition().decode())) == CONTRACT | BESIDE


def test_the_document_has_every_metric_with_its_type_and_labels() -> None:
    """And no other; those of the process have a table and a test of their own."""
    text = DOCUMENT.read_text().partition("\n## The process\n")[0]
    rows = re.findall(r"^\| `(headrace_\w+)` \| (\w+) \| ([^|]*)\|", text, re.MULTILINE)
    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", names))) for name, kind, names in rows}
    metrics = Metrics(dict)
    kinds = families(metrics.exposition().decode())

    assert documented == {name: (kinds[name], names) for name, names in labels(metrics).items()}


def test_each_metric_has_a_sentence_of_help() -> None:
    """What a scraper shows beside it."""
    helps = [line for line in Metrics(dict).exposition().decode().splitlines() if line.startswith("# HELP")]

    assert len(helps) == len(CONTRACT | BESIDE)
    assert all(re.match(r"# HELP \S+ \S.*\.$", line) for line in helps), helps


def test_no_label_could_hold_an_object() -> None:
    """A label's values live as long as the process, and buckets hold millions of keys."""
    names = {name for found in labels(Metrics(dict)).values() for name in found}

    assert names == {"state", "reason", "topic", "outcome", "mode", "target", "what", "where"}


def test_objects_by_state_are_asked_for_at_the_scrape() -> None:
    """A gauge beside the catalogue would drift from it."""
    metrics = Metrics(lambda: {"quarantined": 3})
    metrics.objects.labels("done", "").inc()

    text = metrics.exposition().decode()

    assert 'headrace_objects{state="quarantined"} 3.0' in text
    assert 'headrace_objects_total{reason="",state="done"} 1.0' in text


@pytest.mark.parametrize(
    ("snapshot", "quarantined"),
    [
        pytest.param(Snapshot(name="a", version="1", objects={"quarantined": 2}), 2.0, id="source"),
        pytest.param(Snapshot(name="a", version="1", sink=SinkStatus(quarantined_objects=3)), 3.0, id="sink"),
        pytest.param(Snapshot(name="a", version="1", sink=SinkStatus()), 0.0, id="sink without"),
    ],
)
def test_what_is_quarantined_is_one_gauge(snapshot: Snapshot, quarantined: float) -> None:
    """One alert is for both; a sink counts its objects apart from `objects`, which it has none of."""
    text = Metrics(lambda: snapshot.counted_objects).exposition().decode()

    assert f'headrace_objects{{state="quarantined"}} {quarantined}' in text


def test_exactly_one_mode_is_on() -> None:
    """A change of mode leaves no second one behind."""
    metrics = Metrics(dict)
    metrics.set_mode("events")
    metrics.set_mode("fallback")

    text = metrics.exposition().decode()

    assert 'headrace_mode{mode="fallback"} 1.0' in text
    assert 'headrace_mode{mode="events"} 0.0' in text


@pytest.mark.parametrize(
    "series",
    [
        'headrace_post_actions_total{outcome="failed"}',
        'headrace_restore_inexact_total{what="side_object_missing"}',
        'headrace_trace_spans_total{outcome="dropped"}',
        'headrace_lost_offsets_total{topic="t"}',
    ],
)
def test_what_has_few_labels_is_shown_before_it_happens(series: str) -> None:
    """As of the transactions below; a topic's losses from when its lag is shown."""
    metrics = Metrics(dict)
    metrics.set_sink_lag("t", 5)

    assert f"{series} 0.0" in metrics.exposition().decode()


@pytest.mark.parametrize("outcome", ["committed", "aborted", "fenced", "unknown"])
def test_the_first_of_its_kind_is_an_increase(outcome: str) -> None:
    """Prometheus sees a series that begins at 1 as one that has always been 1."""
    assert f'headrace_transactions_total{{outcome="{outcome}"}} 0.0' in Metrics(dict).exposition().decode()


@pytest.mark.parametrize("state", ["complete", "quarantined", "unproven"])
def test_the_first_end_of_a_sinks_object_is_an_increase(state: str) -> None:
    """And so it is of these: the alert for what is unproven looks at nothing else."""
    assert f'headrace_sink_objects_total{{state="{state}"}} 0.0' in Metrics(dict).exposition().decode()


def test_a_process_that_does_not_lead_shows_no_figure_of_a_leader() -> None:
    """Each gauge that a leader moves is 0 or gone: next to the next leader's it would be counted for ever."""
    metrics = Metrics(dict)
    gauges = [metric for metric in vars(metrics).values() if isinstance(metric, Gauge)]
    real = {"mode": MODES[0], "target": TARGETS[1]}
    for gauge in gauges:
        labelled = [real.get(name, "one") for name in gauge._labelnames]
        (gauge.labels(*labelled) if labelled else gauge).set(7)

    metrics.stand_by()

    left = {
        sample.name for gauge in gauges for one in gauge.collect() for sample in one.samples if sample.value
    }
    assert left == NOT_A_LEADERS
