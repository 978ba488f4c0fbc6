"""Stopped, killed or paused at any moment: after the next start every row is there, once."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.lines import lines
from bench.stage import Service
from tests.support import aws, kafka
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_BIG_ROWS = 2_000_000


@pytest.fixture
def route(tmp_path: Path) -> Route:
    """An empty route."""
    return new_route(tmp_path)


@pytest.fixture
def services() -> Iterator[list[Service]]:
    """Services of a test, stopped afterwards if they still run."""
    made: list[Service] = []
    yield made
    for service in made:
        if service.is_running:
            service.signal(signal.SIGCONT)
        service.stop()


@pytest.mark.parametrize(
    "linger_ms",
    [pytest.param(0, id="linger 0", marks=pytest.mark.long), pytest.param(120_000, id="linger on")],
)
def test_a_stop_in_the_middle_of_the_load_and_a_restart(
    route: Route, services: list[Service], linger_ms: int
) -> None:
    """SIGTERM ends it cleanly, within its time; the next start goes on where it was."""
    for number in range(120):
        route.upload(f"load/{number}.jsonl", rows(f"load-{number}", 2000))
    name = aws.unique("stop")
    service = route.service(name, job__linger__ms=linger_ms, max__bytes__per__second=500_000)
    services.append(service)
    service.start()
    until_sync(lambda: service.status()["objects"]["done"] >= 3, seconds=60, what="some objects done")
    began = time.monotonic()
    assert service.stop() == 0
    # Well before a slot's wait for its next batch is over.
    assert time.monotonic() - began < 60
    assert route.account()[0] > 0, "it was over before it was stopped"

    again = route.service(name, job__linger__ms=linger_ms)
    services.append(again)
    again.start()
    route.await_rows(seconds=180)

    assert route.account() == (0, 0)
    assert again.stop() == 0


# `make test` kills worker, broker and driver in tests/faults/test_short_campaign.py.
@pytest.mark.long
@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_kill_9_in_the_middle_of_an_object(route: Route, services: list[Service], victim: str) -> None:
    """Two million lines in one object, and the process that reads or the one that decides is killed."""
    body = lines(0, _BIG_ROWS)
    aws.s3().put_object(Bucket=route.bucket, Key="big.jsonl", Body=body)
    service = route.service(aws.unique("kill"))
    services.append(service)
    service.start()
    until_sync(lambda: 0 < service.status()["records_total"] < _BIG_ROWS, seconds=60, what="the middle")
    if victim == "driver":
        service.kill()
        service.start()
    else:
        kill_workers(service.pid)
    until_sync(lambda: service.status()["objects"]["done"] == 1, seconds=120, what="the end of the object")
    assert service.stop() == 0
    assert values_once(route) == (_BIG_ROWS, _BIG_ROWS)


@pytest.mark.long
def test_a_second_instance_waits_and_takes_over(route: Route, services: list[Service]) -> None:
    """Of two instances with one name one leads; when it is killed the other does."""
    name = aws.unique("pair")
    first = route.service(name)
    second = route.service(name, state__dir=str(route.folder / "second"))
    services += [first, second]
    first.start()
    second.start()
    assert (first.status()["role"], second.status()["role"]) == ("leader", "standby")
    route.upload("first.jsonl", rows("first", 100))
    route.await_rows()

    first.kill()
    route.upload("second.jsonl", rows("second", 100))
    route.await_rows(seconds=60)

    assert second.status()["role"] == "leader"
    assert route.account() == (0, 0)


def kill_workers(driver: int) -> None:
    """Kill -9 every Python worker below the driver's JVM (the daemon's children)."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], check=True, capture_output=True, text=True)
    parents: dict[int, int] = {}
    daemons = set()
    for line in listing.stdout.splitlines():
        pid, parent, command = line.split(None, 2)
        parents[int(pid)] = int(parent)
        if "spark.daemon" in command:
            daemons.add(int(pid))

    def is_below(pid: int) -> bool:
        while pid > 1:
            if pid == driver:
                return True
            pid = parents.get(pid, 0)
        return False

    workers = [pid for pid, parent in parents.items() if parent in daemons and is_below(pid)]
    assert workers, "no Python worker runs"
    subprocess.run(["kill", "-9", *map(str, workers)], check=False)


def values_once(route: Route) -> tuple[int, int]:
    """Committed records of the route's topic, and how many of them differ."""
    count, values = 0, set()
    for record in kafka.committed(route.topic, seconds=120):
        count += 1
        values.add(record.value)
    return count, len(values)
