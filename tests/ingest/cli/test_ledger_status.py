"""What `headrace status` reads in a ledger, while no service answers."""

import json
from collections.abc import Iterator

import pytest

from headrace.kafka.cache_files import collect_rows, find_cache_directory
from headrace.kafka.control_records import PAUSE, Pause, TargetState, encode_control
from headrace.kafka.ledger_cache import LedgerCache, open_cache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.ledger_entry import encode_key
from headrace.options import Settings
from headrace.vendors.load import load
from ingest.checks.probes.status_reader import ledger_shape, why_ledger
from ingest.cli.status import lines_of

COMMON = {"name": "orders", "bootstrap.servers": "b:1", "aws.s3.bucket.name": "uploads"}
OF = {
    "source": {**COMMON, "topic": "orders", "file.name.template": ".*", "input.format": "jsonl"},
    "sink": {**COMMON, "topics": "orders"},
}


def settings_of(direction: str) -> Settings:
    """Of a source or a sink."""
    return load(json.dumps(OF[direction]), kind="json", environment={}, read_file=lambda _path: "")


@pytest.fixture
def cache() -> Iterator[LedgerCache]:
    """Of an empty ledger."""
    identity = LedgerIdentity(cluster_id="cluster", topic="orders-offsets", topic_id="topic")
    made = open_cache(find_cache_directory(None, "status"), identity, ends=(0, 0), delete_retention_ms=1)
    yield made
    made.close()


@pytest.mark.parametrize("direction", OF)
@pytest.mark.parametrize("state", TargetState)
def test_a_ledger_tells_what_was_asked_last(cache: LedgerCache, direction: str, state: TargetState) -> None:
    """A deploy script reads it where the service is down: the next leader begins with it."""
    pause = encode_control(Pause(state=state, at_ms=1))
    cache.apply(collect_rows([(encode_key(PAUSE), pause)]), 1)

    assert ledger_shape(settings_of(direction), "stopped", cache)["target"] == state


def test_what_only_brokers_know_of_a_sink_is_null(cache: LedgerCache) -> None:
    """A lag of 0 would be an answer: that all is archived."""
    for known in (cache, None):
        shape = ledger_shape(settings_of("sink"), "stopped", known)
        assert (shape["sink"]["lag"], shape["sink"]["missing_topics"]) == (None, None)
        assert "sealed    0 objects not visible yet" in lines_of({"source": "ledger", "why": "no", **shape})


@pytest.mark.parametrize("direction", OF)
def test_nothing_was_asked_of_one_that_shall_run(cache: LedgerCache, direction: str) -> None:
    """Nor of one without a ledger."""
    for known in (cache, None):
        assert ledger_shape(settings_of(direction), "stopped", known)["target"] == "running"


def test_a_ledger_that_is_not_there_is_named() -> None:
    """A name with a slip of the pen has none, and nothing of it is done: as of an ingester that never ran."""
    settings = settings_of("source")
    assert why_ledger(settings, "http.listen is off", is_missing=False) == "http.listen is off"
    why = why_ledger(settings, "http.listen is off", is_missing=True)
    assert why == "http.listen is off; the ledger 'orders-offsets' is not there yet"
