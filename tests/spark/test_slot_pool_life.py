"""The life of a slot's attempt, in the events of the slot pool: on real Spark, with a real task."""

import socket
import sys
from collections.abc import Callable, Iterable, Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.model.slot_protocol import BatchOutcome, Hello
from spark.slots import BatchFinished, SlotEnded, SlotReady
from spark.socket_protocol import Disconnected, connect
from tests.spark.scripted_driver import ScriptedDriver
from tests.support.proxy import Proxy, Slow
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

Drivers = Callable[..., ScriptedDriver]


def test_a_task_that_finds_no_work_lingers_and_ends(driver: Drivers) -> None:
    """The core is free again, and the end is clean."""
    one = driver(linger_seconds=0.3)
    one.ready()

    assert one.expect(SlotEnded, seconds=60).clean

    assert not one.slot_pool.grant(0, one.batch())


def test_without_lingering_a_job_is_one_batch(driver: Drivers) -> None:
    """The second batch needs a second start."""
    one = driver(linger_seconds=0.0)
    for number in range(2):
        # Before: a start waits for its batch for a second.
        found = one.put(f"object-{number}", b'{"n":1}\n')
        one.ready()
        assert one.run(one.split(found)).outcome is BatchOutcome.CLEAN
        assert one.expect(SlotEnded, seconds=60).clean

    assert len(one.records()) == 2


def test_a_plan_number_is_granted_once(driver: Drivers) -> None:
    """Not again, not a lower one, and not to another slot."""
    one = driver()
    one.ready()
    batch = one.batch(one.split(one.put("object", b"1\n")))
    assert one.slot_pool.grant(0, batch)
    one.expect(BatchFinished)

    with pytest.raises(ValueError, match="granted before"):
        one.slot_pool.grant(0, batch)
    with pytest.raises(ValueError, match="slot 0"):
        one.slot_pool.grant(0, one.batch(slot=1))


def test_a_second_task_of_a_start_is_refused(driver: Drivers) -> None:
    """Spark ran the plan twice: only the first one is heard."""
    one = driver()
    one.ready()
    start = one.slot_pool._starts[0]
    second = connect(socket.create_connection(one.slot_pool._listener.address), start.start_id, start.token)

    second.send(Hello(slot=0, worker="another"))

    with pytest.raises(Disconnected):
        second.receive()
    second.close()
    assert one.run(one.split(one.put("object", b"1\n"))).outcome is BatchOutcome.CLEAN


def test_a_late_task_of_a_voided_slot_is_refused(driver: Drivers) -> None:
    """It proves itself with a token that nobody knows any more."""
    one = driver()
    one.ready()
    start = one.slot_pool._starts[0]
    one.slot_pool.void(0)

    with pytest.raises(Disconnected):
        connect(
            socket.create_connection(one.slot_pool._listener.address), start.start_id, start.token
        ).receive()

    assert not one.slot_pool.grant(0, one.batch())
    one.ready()


def test_a_task_of_another_slot_is_refused(driver: Drivers) -> None:
    """A token speaks for one slot."""
    one = driver()
    number = one.slot_pool.start(0)
    start = one.slot_pool._starts[0]
    stranger = connect(socket.create_connection(one.slot_pool._listener.address), start.start_id, start.token)
    stranger.send(Hello(slot=1, worker="another"))

    with pytest.raises(Disconnected):
        stranger.receive()
    stranger.close()

    assert one.expect(SlotReady).start == number


@pytest.mark.long
def test_a_broker_that_is_not_there_ends_the_start_with_a_sentence(driver: Drivers) -> None:
    """Not with a stack trace, and not with a lost worker."""
    one = driver()
    one.break_tasks_broker()
    one.slot_pool.start(0)

    ended = one.expect(SlotEnded, seconds=100)

    assert not ended.clean
    assert ended.error is not None
    assert "Traceback" not in ended.error
    assert "initialised" in ended.error


def test_closing_ends_all_slots(driver: Drivers) -> None:
    """Idle ones at once; starts after it are a mistake."""
    one = driver()
    one.slot_pool.start(0)
    one.slot_pool.start(1)
    one.expect(SlotReady)
    one.expect(SlotReady)

    one.slot_pool.close(60)

    assert [one.expect(SlotEnded).clean for _ in range(2)] == [True, True]
    with pytest.raises(RuntimeError, match="closed"):
        one.slot_pool.start(0)


def test_a_task_that_works_says_so(driver: Drivers, s3_endpoint: str) -> None:
    """Also while nothing comes that it could commit: only a task that hangs is silent."""
    with Proxy(s3_endpoint.removeprefix("http://")) as proxy:
        one = driver(aws_s3_endpoint=proxy.url)
        found = one.put("slow", b'{"n":1}\n' * 200_000)
        one.ready()
        proxy.on(Slow(seconds=100), when=lambda request: request.method == "GET")
        assert one.slot_pool.grant(0, one.batch(one.split(found)))
        heard = {one.slot_pool._starts[0].heard_at}

        def beats() -> bool:
            heard.add(one.slot_pool._starts[0].heard_at)
            return len(heard) > 3

        until_sync(beats, seconds=180, what="three signs of life")
        one.slot_pool.void(0)


def test_workers_import_what_is_installed_rather_than_sparks_archives(spark_session: SparkSession) -> None:
    """From an archive each process compiles all of PySpark again, before the first task of every start."""

    def run(given: Iterable[object]) -> Iterator[list[str]]:
        for _ in given:
            pass
        files = (str(getattr(module, "__file__", "")) for module in list(sys.modules.values()))
        looked_into = [place for place in sys.path_importer_cache if "/pyspark/" in place]
        yield [file for file in files if ".zip/" in file] + [
            place for place in looked_into if place.endswith((".zip", ".jar"))
        ]

    (found,) = spark_session.sparkContext.parallelize(range(1), 1).mapPartitions(run).collect()

    assert found == []
