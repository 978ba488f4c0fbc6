"""A worker's connectors under load: configured while they run, led elsewhere in the middle of a commit."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sink.archive_account import Archive
from tests.support import aws, kafka
from tests.support.run import descendants
from tests.support.service import rows
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess, sink_config, source_config

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_BY_REGION = "region={{value:region}}/{{topic}}/{{partition}}/{{start_offset}}{{extension}}"
_REGIONS = ("eu", "us", "ap")


@contextmanager
def repeated(act: Callable[[int], None], *, pause: float) -> Iterator[None]:
    """Do it again and again, with the number of the turn, as long as the block lasts."""
    over = threading.Event()
    failed: list[Exception] = []

    def run() -> None:
        turn = 0
        try:
            while not over.wait(pause):
                act(turn)
                turn += 1
        except Exception as error:  # noqa: BLE001  # told to the test's own thread
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failed, failed


def test_a_sink_is_configured_while_its_groups_are_open(workers: list[WorkerProcess], tmp_path: Path) -> None:
    """Another rotation, then another grouping: each record once. What is refused changes nothing."""
    worker, name = workers[0], aws.unique("sink")
    archive = Archive(
        folder=tmp_path, bucket=aws.new_bucket(), topic=kafka.new_topic("configured", partitions=2)
    )
    config = sink_config(
        archive.bucket,
        archive.topic,
        file__name__template=_BY_REGION,
        value__converter="org.apache.kafka.connect.json.JsonConverter",
        value__converter__schemas__enable="false",
        rotate__age__ms="60000",
    )

    def produce(turn: int) -> None:
        archive.produce(
            {"value": b'{"region":"%s","n":%d}' % (_REGIONS[number % 3].encode(), turn)}
            for number in range(30)
        )

    def open_objects() -> int:
        status, shown = worker.ask("GET", f"/connectors/{name}/config")
        assert (status, shown["topics"]) == (200, archive.topic)
        samples = [line for line in worker.metrics().splitlines() if f'connector="{name}"' in line]
        return int(
            sum(float(line.split()[-1]) for line in samples if line.startswith("headrace_sink_open_objects{"))
        )

    worker.start()
    worker.await_ready()
    assert worker.ask("PUT", f"/connectors/{name}/config", config)[0] == 201
    with repeated(produce, pause=0.05):
        until_sync(lambda: open_objects() >= 3, seconds=120, what="open groups")

        for refused in (
            {"offsets.storage.topic": "another-ledger"},
            {"connector.class": "HeadraceSource", "topic": "t"},
            {"rotate.age.ms": "soon"},
        ):
            assert worker.ask("PUT", f"/connectors/{name}/config", config | refused)[0] == 400
        assert worker.ask("GET", f"/connectors/{name}/config")[1]["rotate.age.ms"] == "60000"
        assert not archive.keys()

        faster = config | {"rotate.age.ms": "700"}
        assert worker.ask("PUT", f"/connectors/{name}/config", faster)[0] == 200
        until_sync(lambda: len(archive.keys()) >= 9, seconds=60, what="objects of the other rotation")

        ungrouped = {option: text for option, text in faster.items() if option != "file.name.template"}
        assert worker.ask("PUT", f"/connectors/{name}/config", ungrouped)[0] == 200
        until_sync(
            lambda: [key for key in iter(archive.keys()) if not key.startswith("region=")],
            seconds=60,
            what="objects of the other grouping",
        )
        assert worker.ask("PATCH", f"/connectors/{name}/config", {"rotate.age.ms": "400"})[0] == 200
    until_sync(lambda: archive.archived().keys() >= archive.in_kafka(), seconds=180, what="all in objects")
    assert archive.account() == (0, 0)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_lead_is_handed_over_in_the_middle_of_commits(
    workers: list[WorkerProcess], tmp_path: Path
) -> None:
    """The processes of a worker stand still, others lead, and it goes on: none lost, none twice."""
    first, second = workers
    source, sink = aws.unique("source"), aws.unique("sink")
    bucket, topic = aws.new_bucket(), kafka.new_topic("handed", partitions=2)
    archive = Archive(folder=tmp_path, bucket=aws.new_bucket(), topic=topic)
    uploaded: Counter[bytes] = Counter()

    def upload(turn: int) -> None:
        lines = rows(f"turn-{turn}", 40)
        aws.s3().put_object(Bucket=bucket, Key=f"{turn}.jsonl", Body=b"".join(one + b"\n" for one in lines))
        uploaded.update(lines)

    def objects() -> int:
        return len(archive.keys())

    def hand_over(standing: WorkerProcess, leading: WorkerProcess) -> None:
        def leads_both() -> bool:
            # Not asked by REST: a question that is passed to a worker that stands still waits for it.
            return _leads(leading, source) and _leads(leading, sink)

        with _still(standing):
            until_sync(leads_both, seconds=180, what="the other worker's leads")
            before = objects()
            until_sync(lambda: objects() >= before + 10, seconds=180, what="more objects")

    for one in (first, second):
        one.start()
    for one in (first, second):
        one.await_ready(240)

    level = {"level": "DEBUG"}
    assert second.ask("PUT", "/admin/loggers/ingest.worker?scope=cluster", level) == (204, None)
    for one in (first, second):
        assert one.ask("GET", "/admin/loggers/ingest.worker")[1]["level"] == "DEBUG"

    # A commit for every object or two, and for every 20 records: one is nearly always under way.
    assert first.ask("PUT", f"/connectors/{source}/config", source_config(bucket, topic))[0] == 201
    config = sink_config(archive.bucket, topic, rotate__records="20")
    assert first.ask("PUT", f"/connectors/{sink}/config", config)[0] == 201
    with repeated(upload, pause=0.5):
        until_sync(lambda: objects() >= 10, seconds=120, what="the first objects")
        hand_over(first, second)
        hand_over(second, first)
    until_sync(
        lambda: sum(1 for _ in kafka.committed(topic)) >= sum(uploaded.values()),
        seconds=120,
        what="all in Kafka",
    )
    until_sync(
        lambda: sum(archive.archived().values()) >= sum(uploaded.values()), seconds=120, what="all in objects"
    )
    assert Counter(record.value or b"" for record in kafka.committed(topic)) == uploaded
    assert archive.account() == (0, 0)


def _leads(worker: WorkerProcess, name: str) -> bool:
    return f'headrace_leader{{connector="{name}"}} 1.0' in worker.metrics()


@contextmanager
def _still(worker: WorkerProcess) -> Iterator[None]:
    """No process of the worker runs, wherever it stood, until the block ends."""
    assert worker.process is not None
    pids = [worker.process.pid, *descendants(worker.process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
