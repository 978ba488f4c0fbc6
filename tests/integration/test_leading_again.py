"""A lead that is lost is no end: the process stands by and leads again, and nothing is there twice."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.stage import Service
from localstack.broker import Broker
from tests.support import aws, kafka
from tests.support.discovery import log_lines
from tests.support.service import Route, new_route, rows
from tests.support.silence import silent
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]

_SESSION: dict[str, object] = {"lead__session__timeout__ms": 6000}
_SLOWLY: dict[str, object] = {"max__bytes__per__second": 100_000}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Undone at the end."""
    with ExitStack() as made:
        yield made


@pytest.fixture
def route(tmp_path: Path) -> Route:
    """An empty route."""
    return new_route(tmp_path)


def load(route: Route, stem: str, objects: int = 30) -> None:
    """Upload objects of 500 rows each."""
    for number in range(objects):
        route.upload(f"{stem}/{number:02}.jsonl", rows(f"{stem}-{number}", 500))


def started(stack: ExitStack, service: Service, *arguments: str) -> Service:
    """The service, ready, and stopped at the end."""
    stack.callback(service.stop)
    service.start(*arguments, ready_seconds=300)
    return service


@contextmanager
def paused(service: Service) -> Iterator[None]:
    """SIGSTOP as long as the block lasts."""
    service.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        service.signal(signal.SIGCONT)


def role(service: Service) -> str:
    """As `/status` has it, which a standby answers too."""
    return str(service.status()["role"])


def done(service: Service) -> int:
    """How many objects are done."""
    return int(service.status()["objects"].get("done", 0))


def await_done(service: Service, count: int) -> None:
    """Wait until so many objects are done."""
    until_sync(lambda: done(service) >= count, seconds=120, what=f"{count} objects done")


def each_row_is_there_once(route: Route, broker: Broker) -> None:
    """All that was uploaded, and nothing twice."""
    read = Counter(
        record.value or b"" for record in kafka.committed(route.topic, bootstrap=broker.bootstrap, seconds=60)
    )
    assert read == route.uploaded


@pytest.mark.parametrize("instance", [{}, {"instance__id": "one"}], ids=["a member as usual", "a static one"])
def test_a_broker_that_is_silent_for_longer_than_the_session(
    route: Route, stack: ExitStack, own_broker: kafka.BrokerFactory, instance: dict[str, object]
) -> None:
    """Twice: the process is a standby meanwhile, which says why it is not ready, and then leads again."""
    broker = own_broker()
    route.topic = kafka.new_topic("route", partitions=2, bootstrap=broker.bootstrap)
    options = {"bootstrap__servers": broker.bootstrap, **_SESSION, **_SLOWLY, **instance}
    service = started(stack, route.service(aws.unique("silent"), **options))
    pid = service.pid
    for round_ in (1, 2):
        load(route, f"round-{round_}")
        wanted = 30 * (round_ - 1) + 3
        await_done(service, wanted)
        with silent(broker):
            until_sync(lambda: role(service) == "standby", seconds=60, what="a standby")
            until_sync(lambda: not service.is_ready() and "lead" in service.status()["problems"])
        until_sync(lambda: role(service) == "leader", seconds=180, what="the leader again")
        await_done(service, 30 * round_)
        until_sync(service.is_ready, seconds=60, what="a service that is ready")
    # Once more where a broker that was stopped needs long until it answers all.
    assert len(log_lines(service, "leadership_taken")) >= 3
    assert service.pid == pid
    assert service.stop() == 0
    each_row_is_there_once(route, broker)


def test_a_paused_leader_stands_by_and_commits_nothing(route: Route, stack: ExitStack) -> None:
    """SIGSTOP for longer than the session: the other leads, and the first is its standby, ready to follow."""
    name = aws.unique("paused")
    first = started(stack, route.service(name, **_SESSION, **_SLOWLY))
    second = started(stack, route.service(name, state__dir=str(route.folder / "second"), **_SESSION))
    load(route, "load", 40)
    until_sync(lambda: done(first) >= 1, seconds=60, what="some objects done")
    with paused(first):
        until_sync(lambda: role(second) == "leader", seconds=60, what="the second leading")
    until_sync(lambda: role(first) == "standby", seconds=60, what="the first standing by")
    until_sync(first.is_ready, seconds=60, what="a standby that is ready")
    assert role(second) == "leader"
    route.await_rows(seconds=120)
    assert route.account() == (0, 0)

    second.kill()
    route.upload("after.jsonl", rows("after", 100))
    until_sync(lambda: role(first) == "leader", seconds=60, what="the first leading again")
    route.await_rows(seconds=180)
    assert route.account() == (0, 0)
    assert first.stop() == 0


def test_a_stop_while_the_broker_is_silent(
    route: Route, stack: ExitStack, own_broker: kafka.BrokerFactory
) -> None:
    """The lead is lost, and nobody answers: it ends in its time, and the next start has everything."""
    broker = own_broker()
    route.topic = kafka.new_topic("route", partitions=2, bootstrap=broker.bootstrap)
    options = {"bootstrap__servers": broker.bootstrap, **_SESSION, **_SLOWLY}
    service = started(stack, route.service(aws.unique("silent"), **options))
    load(route, "load")
    await_done(service, 3)
    with silent(broker):
        until_sync(lambda: role(service) == "standby", seconds=60, what="a standby")
        before = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - before <= 60
    service.start(ready_seconds=300)
    await_done(service, 30)
    assert service.stop() == 0
    each_row_is_there_once(route, broker)


def test_until_idle_ends_with_4_when_another_instance_took_over(route: Route, stack: ExitStack) -> None:
    """It is not waited for: whoever leads now continues with what is left."""
    name = aws.unique("idle")
    load(route, "load", 40)
    first = route.service(name, **_SESSION, max__bytes__per__second=20_000)
    started(stack, first, "--until-idle")
    started(stack, route.service(name, state__dir=str(route.folder / "second"), **_SESSION))
    until_sync(lambda: done(first) >= 1, seconds=60, what="some objects done")
    with paused(first):
        route.await_rows(seconds=120)
    assert first.wait(120) == 4, first.tail()
    assert "another instance" in first.tail(3)
    assert route.account() == (0, 0)


def test_until_idle_goes_on_after_a_broker_that_was_silent(
    route: Route, stack: ExitStack, own_broker: kafka.BrokerFactory
) -> None:
    """Nobody else leads: it leads again, has everything done, and ends with 0."""
    broker = own_broker()
    route.topic = kafka.new_topic("route", partitions=2, bootstrap=broker.bootstrap)
    load(route, "load")
    options = {"bootstrap__servers": broker.bootstrap, **_SESSION, **_SLOWLY}
    service = started(stack, route.service(aws.unique("silent"), **options), "--until-idle")
    until_sync(lambda: done(service) >= 3, seconds=180, what="some objects done")
    with silent(broker):
        until_sync(lambda: role(service) == "standby", seconds=60, what="a standby")
    assert service.wait(120) == 0, service.tail()
    each_row_is_there_once(route, broker)
