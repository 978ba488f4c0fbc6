"""The same route on a standalone cluster: real master and workers, code shipped by the driver."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pyspark import SparkContext

from headrace.model.slot_protocol import BatchOutcome
from localstack.cluster import cluster
from localstack.ports import HOST
from spark.session import build_context, stop_context
from spark.slots import BatchFinished, ContextJobs, SlotEnded, SlotReady
from tests.spark.scripted_driver import ScriptedDriver
from tests.support.kafka import TopicFactory

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def test_two_slots_work_on_two_executors(
    bucket: str,
    topic: TopicFactory,
    kafka_bootstrap: str,
    s3_endpoint: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Lingering tasks over the network, each in an executor of its own; then an executor dies."""
    if SparkContext._active_spark_context is not None:
        # Spark allows one session a process, and other tests have theirs in this one.
        again = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-m", "long", request.node.nodeid]
        done = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return
    with cluster(tmp_path) as found:
        session = build_context({"spark.master": found.master, "spark.driver.host": HOST}, name="cluster")
        driver = ScriptedDriver(
            ContextJobs(session),
            bucket=bucket,
            topic=topic("out"),
            ledger=topic("ledger", config={"cleanup.policy": "compact"}),
            bootstrap=kafka_bootstrap,
            endpoint=s3_endpoint,
            linger_seconds=30,
            options={},
        )
        try:
            with closing(driver):
                _work_and_lose_an_executor(driver)
        finally:
            stop_context(session)


def _work_and_lose_an_executor(driver: ScriptedDriver) -> None:
    works = [driver.split(driver.put(f"object-{n}", b'{"n":1}\n' * 1000)) for n in range(2)]
    driver.slot_pool.start(0)
    driver.slot_pool.start(1)
    driver.expect(SlotReady)
    driver.expect(SlotReady)
    for slot, work in enumerate(works):
        assert driver.slot_pool.grant(slot, driver.batch(work, slot=slot))

    assert [driver.expect(BatchFinished).finished.outcome for _ in works] == [BatchOutcome.CLEAN] * 2

    assert len(driver.records()) == 2000
    os.kill(parent_of(parent_of(driver.worker_pid(1))), signal.SIGKILL)
    ended = driver.expect(SlotEnded)
    assert (ended.slot, ended.clean) == (1, False)
    assert driver.run(driver.split(driver.put("more", b"1\n"))).outcome is BatchOutcome.CLEAN


def parent_of(pid: int) -> int:
    """The process that started this one: a worker's is its daemon, and the daemon's its executor."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
