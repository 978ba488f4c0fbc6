"""The Java process of a worker is killed: the worker ends by itself, and when it is back all goes on."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.errors import Exit
from tests.faults.processes import descendants, kill
from tests.ingest.connect.both_ways import BothWays
from tests.support import aws, kafka
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(900)]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker, not started; killed at the end if it still runs."""
    made = WorkerProcess(folder=tmp_path, group=aws.unique("group"))
    yield made
    made.kill()


def test_a_worker_ends_with_its_jvm_and_goes_on_when_it_is_started_again(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    """Whoever runs it starts it again: nothing is lost, nothing comes twice."""
    source, sink = aws.unique("source"), aws.unique("sink")
    way = BothWays(tmp_path)
    worker.start()
    worker.await_ready(240)
    assert worker.ask("PUT", f"/connectors/{source}/config", way.source)[0] == 201
    assert worker.ask("PUT", f"/connectors/{sink}/config", way.sink)[0] == 201
    way.upload("a")
    way.await_archived()

    assert worker.process is not None
    way.upload("b")
    kill(jvms(worker.process.pid))
    code = worker.process.wait(60)
    assert code == Exit.UNUSABLE, signal.strsignal(-code)
    assert "Spark's JVM has ended" in worker.log.read_text()

    worker.start()
    worker.await_ready(240)
    way.await_archived()
    assert Counter(record.value or b"" for record in kafka.committed(way.topic)) == way.uploaded
    assert way.archive.account() == (0, 0)
    assert worker.stop() == Exit.DONE


def jvms(pid: int) -> list[int]:
    """The Java processes below a worker."""
    return [one for one, command in descendants(pid).items() if "deploy.SparkSubmit" in command]
