"""The same route on a Spark Connect server: a real one, whose settings and whose end matter."""

import os
import re
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.model.slot_protocol import BatchOutcome
from localstack.ports import HOST, free_port
from spark.slots import BatchFinished, JobFailed, SlotEnded, SlotReady
from spark.slots.connect import ConnectJobs
from tests.spark.scripted_driver import ScriptedDriver
from tests.support.connect_server import connect_server
from tests.support.kafka import TopicFactory

pytestmark = pytest.mark.parts

Drivers = Callable[..., ScriptedDriver]


@pytest.fixture(scope="module")
def server(spark_session: SparkSession) -> str:
    """The URL of one with two cores, which the JVM of the session is from now on: one more takes 15 s of CPU.

    Its tasks begin as those of any server, whose workers know nothing of Headrace but what a client sends.
    How one is started by itself, and ends, is in the long tests.
    """
    context: Any = spark_session.sparkContext
    context._jsc.sc().conf().set("spark.python.daemon.module", "pyspark.daemon")
    context._jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(context._jsc.sc())
    return f"sc://{HOST}:{context.getConf().get('spark.connect.grpc.binding.port')}"


@pytest.fixture
def remote(
    server: str, bucket: str, topic: TopicFactory, kafka_bootstrap: str, s3_endpoint: str
) -> Iterator[Drivers]:
    """A factory of scripted drivers on the server."""
    with ExitStack() as stack:

        def make(*, linger_seconds: float = 30.0, url: str = server, **options: str) -> ScriptedDriver:
            jobs = ConnectJobs(url, {}, name="connect")
            stack.callback(jobs.close)
            driver = ScriptedDriver(
                jobs,
                bucket=bucket,
                topic=topic("out"),
                ledger=topic("ledger", config={"cleanup.policy": "compact"}),
                bootstrap=kafka_bootstrap,
                endpoint=s3_endpoint,
                linger_seconds=linger_seconds,
                options=options,
            )
            stack.callback(driver.close)
            return driver

        yield make


@pytest.mark.parametrize("linger_seconds", [pytest.param(0.0, marks=pytest.mark.long), 30.0])
def test_two_slots_work_side_by_side(remote: Drivers, linger_seconds: float) -> None:
    """Plans are granted over our own socket, lingering or a job a batch; code is sent by itself."""
    driver = remote(linger_seconds=linger_seconds)
    works = [driver.split(driver.put(f"object-{n}", b'{"n":1}\n' * 1000)) for n in range(2)]
    driver.slot_pool.check_way()
    driver.slot_pool.start(0)
    driver.slot_pool.start(1)
    outcomes: list[BatchOutcome] = []
    while len(outcomes) < len(works):
        match driver.events.get(timeout=60):
            case SlotReady(slot=slot):
                # At once: without lingering a start waits for its batch for a second.
                assert driver.slot_pool.grant(slot, driver.batch(works[slot], slot=slot))
            case BatchFinished(finished=finished):
                outcomes.append(finished.outcome)

    assert outcomes == [BatchOutcome.CLEAN] * 2
    assert len(driver.records()) == 2000


def test_tasks_run_the_code_that_is_sent(server: str) -> None:
    """Not what their machine has, here all of it too: of another version it would be wrong."""
    jobs = ConnectJobs(server, {}, name="n")

    def say(_: Iterable[object]) -> Iterable[str | None]:
        found = import_module("spark.task.entry").__file__
        yield str(found)

    try:
        (found,) = jobs.run(say, group="g", pool="p")
    finally:
        jobs.close()
    assert found.endswith("/headrace.zip/spark/task/entry.py")


def test_a_dead_worker_is_an_unclean_end_and_the_slot_starts_again(remote: Drivers) -> None:
    """Its batch's object is read by the next start."""
    driver = remote()
    work = driver.split(driver.put("object", b'{"n":1}\n' * 1000))
    driver.ready()
    os.kill(driver.worker_pid(0), signal.SIGKILL)

    assert not driver.expect(SlotEnded, seconds=60).clean

    driver.ready()
    assert driver.run(work).outcome is BatchOutcome.CLEAN
    assert len(driver.records()) == 1000


@pytest.mark.long
def test_a_voided_start_is_interrupted(remote: Drivers) -> None:
    """Its core is free for the next start on a server that has no other one."""
    driver = remote()
    for slot in range(2):
        driver.ready(slot)
    for slot in range(2):
        driver.slot_pool.void(slot)

    for slot in range(2):
        driver.ready(slot)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*RETRIES_EXCEEDED:UserWarning")
def test_a_server_that_died_and_is_back_gets_a_new_session(remote: Drivers, tmp_path: Path) -> None:
    """Nothing has to be started anew here."""
    with connect_server(tmp_path) as first:
        driver = remote(url=first.url)
        work = driver.split(driver.put("object", b'{"n":1}\n' * 1000))
        driver.ready()
        first.process.send_signal(signal.SIGKILL)
        assert not driver.expect(SlotEnded, seconds=60).clean
        first.process.wait(60)
        with connect_server(tmp_path, port=first.port):
            # A job or two find out that the session is gone.
            driver.slot_pool.start(0)
            while not isinstance(event := driver.events.get(timeout=60), SlotReady):
                assert isinstance(event, SlotEnded)
                # Or that nobody listens yet: the first is tried while the server starts.
                assert "SESSION" in str(event.error) or "UNAVAILABLE" in str(event.error)
                driver.slot_pool.start(0)
            assert driver.run(work).outcome is BatchOutcome.CLEAN
            assert len(driver.records()) == 1000
            driver.slot_pool.void(0)


def test_a_server_that_is_not_there_is_a_sentence() -> None:
    """At once, not after Spark's ten minutes."""
    with pytest.raises(Unavailable, match=r"at 127\.0\.0\.1:\d+ does not answer \(Connection refused\)"):
        ConnectJobs(f"sc://{HOST}:{free_port()}", {}, name="n")


@pytest.mark.long
def test_a_server_that_says_nothing_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections, and no more."""
    monkeypatch.setattr("spark.slots.connect._START_SECONDS", 2.0)
    with (
        socket.create_server((HOST, 0)) as silent,
        pytest.raises(
            Unavailable, match=r"does not answer: it was asked to open a session; check spark\.remote"
        ),
    ):
        ConnectJobs(f"sc://{HOST}:{silent.getsockname()[1]}", {}, name="n")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"spark.executor.memory": "1g"}, r"spark\.executor\.memory cannot be set by a client"),
        ({"spark.sql.session.timeZone": "UTC", "spark.driver.host": HOST}, None),
    ],
)
def test_options_of_the_server(server: str, given: Mapping[str, str], sentence: str | None) -> None:
    """What a client may set is set; anything else is refused rather than left out."""
    if sentence is None:
        jobs = ConnectJobs(server, given, name="n")
        assert jobs._session.conf.get("spark.sql.session.timeZone") == "UTC"
        assert (jobs.advertise, jobs.bind, jobs.slots) == (HOST, HOST, 2)
        jobs.close()
        return

    with pytest.raises(InvalidConfiguration, match=sentence):
        ConnectJobs(server, given, name="n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("master", "conf", "sentence"),
    [
        ("local[2]", {"spark.speculation": "true"}, r"runs with spark\.speculation=true"),
        ("local[2,3]", {}, r"runs with spark\.task\.maxFailures=its default, so Spark may repeat a task"),
    ],
)
def test_a_server_that_repeats_tasks_is_refused(
    tmp_path: Path, master: str, conf: Mapping[str, str], sentence: str
) -> None:
    """With what to start it with."""
    with (
        connect_server(tmp_path, master=master, conf=conf) as unfit,
        pytest.raises(InvalidConfiguration, match=sentence),
    ):
        ConnectJobs(unfit.url, {}, name="n")


@pytest.mark.long
def test_tasks_that_do_not_reach_us_are_a_sentence(remote: Drivers) -> None:
    """Before anything is planned."""
    driver = remote()
    driver.slot_pool._listener.address = (HOST, free_port())

    with pytest.raises(Unavailable, match=r"do not reach this process at .*spark\.driver\.host"):
        driver.slot_pool.check_way()


@pytest.mark.long
def test_a_job_that_fails_says_why_without_a_stack(server: str) -> None:
    """As a session of our own says it."""
    jobs = ConnectJobs(server, {}, name="n")

    def fail(given: Iterable[object]) -> Iterable[str | None]:
        raise ValueError(f"no luck with {given}")

    with pytest.raises(JobFailed) as failure:
        jobs.run(fail, group="g", pool="p")
    jobs.close()
    assert re.fullmatch("ValueError: no luck with <.*>", str(failure.value))
