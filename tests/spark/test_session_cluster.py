"""The same road on a standalone cluster: real master and workers, code shipped by the driver."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ingest.work import Outcome
from localstack.ports import free_port
from spark.lanes import BatchFinished, SessionJobs, SlotEnded, SlotReady
from spark.session import build_session, stop_session
from tests.spark.scripted_driver import ScriptedDriver
from tests.support.kafka import TopicFactory
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkSession]:
    """A session on a cluster of two workers with one core each."""
    if SparkContext._active_spark_context is not None:
        pytest.fail("run this test in a process of its own: Spark allows one session at a time")
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Path:
            log = tmp_path / name
            out = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(
                [SPARK_CLASS, *arguments], stdout=out, stderr=subprocess.STDOUT, cwd=tmp_path
            )
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
            return log

        log = start(
            "master",
            f"{DEPLOY}.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            "0",
        )
        for number in range(2):
            start(
                f"worker-{number}",
                *(f"{DEPLOY}.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"),
                *("--work-dir", str(tmp_path / f"work-{number}"), master),
            )
        until_sync(
            lambda: log.read_text().count("Registering worker") == 2, seconds=60, what="both workers joined"
        )
        session = build_session({"spark.master": master, "spark.driver.host": "127.0.0.1"}, name="cluster")
        stack.callback(stop_session, session)
        yield session


@pytest.mark.timeout(300)
def test_two_slots_work_on_two_executors(
    cluster: SparkSession, bucket: str, topic: TopicFactory, kafka_bootstrap: str, s3_endpoint: str
) -> None:
    """Lingering tasks over the network, each in an executor of its own; then an executor dies."""
    driver = ScriptedDriver(
        SessionJobs(cluster),
        bucket=bucket,
        topic=topic("out"),
        ledger=topic("ledger", config={"cleanup.policy": "compact"}),
        bootstrap=kafka_bootstrap,
        endpoint=s3_endpoint,
        linger_seconds=30,
        options={},
    )
    works = [driver.work(driver.put(f"object-{n}", b'{"n":1}\n' * 1000)) for n in range(2)]
    driver.lanes.start(0)
    driver.lanes.start(1)
    driver.expect(SlotReady)
    driver.expect(SlotReady)
    for slot, work in enumerate(works):
        assert driver.lanes.grant(slot, driver.batch(work, slot=slot))

    assert [driver.expect(BatchFinished).finished.outcome for _ in works] == [Outcome.CLEAN] * 2

    assert len(driver.records()) == 2000
    os.kill(parent_of(parent_of(driver.worker_pid(1))), signal.SIGKILL)
    ended = driver.expect(SlotEnded)
    assert (ended.slot, ended.clean) == (1, False)
    assert driver.run(driver.work(driver.put("more", b"1\n"))).outcome is Outcome.CLEAN
    driver.close()


def parent_of(pid: int) -> int:
    """The process that started this one: a worker's is its daemon, and the daemon's its executor."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
