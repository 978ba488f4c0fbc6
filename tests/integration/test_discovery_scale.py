"""What the benchmarks of discovery promise, at a size that a test can afford; on parts of their own."""

import pytest

from bench import idle, million
from bench.fresh import Fresh
from bench.stage import stage

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_restart_with_finished_objects_reads_none_of_them() -> None:
    """No GET, and as many LIST requests as one listing needs; with a cache of the ledger or without."""
    pages = 20
    with stage("million") as on_stage:
        found = million.measure(on_stage, pages=pages)

    for start in (found["without_cache"], found["with_cache"]):
        # One key is listed at start, to learn S3's time and that the bucket may be listed.
        assert start["requests"] == {"list of one key": 1, "list": pages}
        assert start["records"] == 0
        assert start["peak_mib"]["driver"] < 1024


def test_fresh_objects_do_not_wait_for_the_backlog_of_the_first_listing() -> None:
    """p99 is a small part of the time in which thousands of older objects are worked off.

    In turn with these, the last of which has to be over before, a fresh one would wait for half of it.
    """
    backlog = 3_000
    with stage("fresh") as on_stage:
        fresh = Fresh(on_stage, "headrace-fresh")
        service = fresh.prepare(backlog)
        try:
            found = fresh.measure(service, backlog=backlog, pause_seconds=0.1)
        finally:
            service.stop()

    assert found["fresh"] >= 20
    # However busy the machine is: three seconds where the backlog takes ten (`bench.fresh`).
    assert found["p99_s"] < found["seconds"] / 3, found


def test_an_idle_service_asks_for_little() -> None:
    """Long polls and heartbeats, no listing, and less than 2 % of a core."""
    with stage("idle") as on_stage:
        found = idle.measure(on_stage, seconds=60)

    assert found["cpu_percent_of_a_core"]["all"] < 2
    # Two receivers that wait 20 seconds each.
    assert found["requests_an_hour"]["AmazonSQS.ReceiveMessage"] <= 480
    assert "S3 LIST" not in found["requests_an_hour"]
    assert found["kafka_requests_an_hour"]["all"] < 20_000
