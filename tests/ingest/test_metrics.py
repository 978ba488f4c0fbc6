"""The metrics carry the contract's names."""

from ingest.metrics import Metrics

NAMES = {
    "headrace_objects", "headrace_objects_total", "headrace_records_total", "headrace_read_bytes_total",
    "headrace_bad_records_total", "headrace_pending_objects", "headrace_oldest_pending_seconds",
    "headrace_event_to_commit_seconds", "headrace_batch_seconds", "headrace_transactions_total",
    "headrace_sqs_messages_total", "headrace_sqs_heartbeats_total", "headrace_list_requests_total",
    "headrace_mode", "headrace_leader",
}  # fmt: skip


def families(text: str) -> set[str]:
    """Names in the TYPE lines of an exposition."""
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}


def test_every_metric_of_the_contract_is_shown_and_no_other() -> None:
    """Dashboards and alerts are built on these names."""
    assert families(Metrics(dict).exposition().decode()) == NAMES


def test_objects_by_state_are_asked_for_at_the_scrape() -> None:
    """A gauge beside the catalogue would drift from it."""
    metrics = Metrics(lambda: {"quarantined": 3})
    metrics.objects.labels("done", "").inc()

    text = metrics.exposition().decode()

    assert 'headrace_objects{state="quarantined"} 3.0' in text
    assert 'headrace_objects_total{reason="",state="done"} 1.0' in text


def test_exactly_one_mode_is_on() -> None:
    """A change of mode leaves no second one behind."""
    metrics = Metrics(dict)
    metrics.set_mode("events")
    metrics.set_mode("fallback")

    text = metrics.exposition().decode()

    assert 'headrace_mode{mode="fallback"} 1.0' in text
    assert 'headrace_mode{mode="events"} 0.0' in text
