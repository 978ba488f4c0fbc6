"""The Java process of a worker is killed: the worker ends by itself, and when it is back all goes on."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.exits import Exit
from tests.faults.processes import descendants, kill
from tests.sink.archive_account import Archive
from tests.support import aws, kafka
from tests.support.service import rows
from tests.support.until import until_sync
from tests.worker.worker_process import WorkerProcess, sink_config, source_config

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
    bucket, topic = aws.new_bucket(), kafka.new_topic("worker", partitions=2)
    archive = Archive(folder=tmp_path, bucket=aws.new_bucket(), topic=topic)
    uploaded: Counter[bytes] = Counter()

    def upload(stem: str) -> None:
        lines = rows(stem, 300)
        aws.s3().put_object(Bucket=bucket, Key=f"{stem}.jsonl", Body=b"".join(one + b"\n" for one in lines))
        uploaded.update(lines)

    def is_archived() -> bool:
        return sum(archive.archived().values()) >= sum(uploaded.values())

    worker.start()
    worker.await_ready(240)
    assert worker.ask("PUT", f"/connectors/{source}/config", source_config(bucket, topic))[0] == 201
    assert worker.ask("PUT", f"/connectors/{sink}/config", sink_config(archive.bucket, topic))[0] == 201
    upload("a")
    until_sync(is_archived, seconds=120, what="what was uploaded, archived")

    assert worker.process is not None
    upload("b")
    kill(jvms(worker.process.pid))
    code = worker.process.wait(60)
    assert code == Exit.UNUSABLE, signal.strsignal(-code)
    assert "Spark's JVM has ended" in worker.log.read_text()

    worker.start()
    worker.await_ready(240)
    until_sync(is_archived, seconds=120, what="what was uploaded, archived")
    assert Counter(record.value or b"" for record in kafka.committed(topic)) == uploaded
    assert archive.account() == (0, 0)
    assert worker.stop() == Exit.DONE


def jvms(pid: int) -> list[int]:
    """The Java processes below a worker."""
    return [one for one, command in descendants(pid).items() if "deploy.SparkSubmit" in command]
