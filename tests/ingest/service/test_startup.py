"""What a start finds, as far as it is pure."""

import time
from dataclasses import replace
from typing import Any

import msgspec
import structlog.testing

from headrace.process.threads import ThreadFailures
from ingest.http.metrics import Metrics
from ingest.http.snapshot import Snapshot, SnapshotHolder
from ingest.service.startup import Startup
from ingest.service.statistics import Statistics
from ingest.service.stop import Stop
from ingest.source.first_starts import newest_uploads


def test_all_uploads_that_fit_are_remembered() -> None:
    """A warning is for what does not."""
    begun = {f"key-{number}": number for number in range(1000)}
    with structlog.testing.capture_logs() as logged:
        assert newest_uploads([begun]) == [begun]
    assert logged == []


def test_of_too_many_uploads_the_newest_are_remembered() -> None:
    """One record of the ledger holds them, keys of any length; what is left out is said."""
    begun = {"é" * 500 + f"{number:04}": number for number in range(1000)}
    with structlog.testing.capture_logs() as logged:
        (kept,) = newest_uploads([begun])
    assert set(kept.values()) == set(range(1000 - len(kept), 1000))
    assert 300_000 < len(msgspec.json.encode(kept)) <= 500_000
    assert [(entry["event"], entry["uploads"]) for entry in logged] == [
        ("uploads_left_out", 1000 - len(kept))
    ]


def test_status_names_what_a_start_waits_for_until_it_is_over() -> None:
    """Spark's start, which follows, takes long. What else is a problem stays."""
    holder, statistics = SnapshotHolder(Snapshot(name="x", version="1")), Statistics(Metrics(dict))
    unused: Any = None
    startup = Startup(
        unused,
        unused,
        accept_new_ledger=False,
        deadline=time.monotonic() + 600,
        stop=Stop(),
        snapshot_holder=holder,
        statistics=statistics,
        failures=ThreadFailures(),
    )
    statistics.trouble("other", "It fails.")
    startup._show_trouble("Kafka does not answer.")
    assert dict(holder.snapshot.problems) == {"other": "It fails.", "start": "Kafka does not answer."}
    startup._show_trouble(None)
    assert dict(holder.snapshot.problems) == {"other": "It fails."}
    assert holder.snapshot.last_error == "Kafka does not answer."

    by_leader = replace(holder.snapshot, problems={"objects": "They may not be read."})
    holder.show(by_leader)
    startup._show_trouble(None)
    assert holder.snapshot is by_leader
