"""A process that is stopped with a request of its transaction on the way, and resumes after a takeover."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from bench.stage import Service
from tests.faults.processes import descendants
from tests.sink.archive_account import Archive
from tests.support import aws, kafka
from tests.support.kafka_gate import END_TXN, TXN_OFFSET_COMMIT, KafkaGate, gated_broker
from tests.support.service import new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]

_SESSION: dict[str, object] = {"lead__session__timeout__ms": 6000, "tasks__max": 1}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Undone at the end."""
    with ExitStack() as made:
        yield made


@pytest.fixture
def gate(stack: ExitStack, own_broker: kafka.BrokerFactory) -> KafkaGate:
    """Before a broker of the test's own."""
    return stack.enter_context(gated_broker(own_broker))


def started(stack: ExitStack, service: Service) -> Service:
    """The service, ready, and stopped at the end."""
    stack.callback(service.stop)
    service.start(ready_seconds=300)
    return service


@contextmanager
def frozen(service: Service) -> Iterator[None]:
    """All of its processes are stopped as long as the block lasts."""
    pids = [service.pid, *descendants(service.pid)]
    for pid in pids:
        _send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            _send(pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> None:

    with suppress(ProcessLookupError):
        os.kill(pid, number)


def role(service: Service) -> str:
    """As `/status` has it, which a standby answers too."""
    return str(service.status()["role"])


@pytest.mark.parametrize(
    "request_kind",
    [pytest.param(TXN_OFFSET_COMMIT, id="the proof"), pytest.param(END_TXN, id="the commit")],
)
def test_a_source(tmp_path: Path, stack: ExitStack, gate: KafkaGate, request_kind: int) -> None:
    """What the stopped one has sent is refused when it arrives; each row is there once."""
    bootstrap = gate.broker.bootstrap
    route = new_route(tmp_path)
    route.topic = kafka.new_topic("route", partitions=2, bootstrap=bootstrap)
    name = aws.unique("stopped")
    first = started(stack, route.service(name, bootstrap__servers=gate.address, **_SESSION))
    second = started(
        stack,
        route.service(name, bootstrap__servers=bootstrap, state__dir=str(tmp_path / "second"), **_SESSION),
    )

    def read() -> Counter[bytes]:
        found = kafka.committed(route.topic, bootstrap=bootstrap, seconds=180)
        return Counter(record.value or b"" for record in found)

    route.upload("before.jsonl", rows("before", 100))
    until_sync(lambda: read() == route.uploaded, seconds=60, what="the first rows")
    assert role(first) == "leader"
    gate.hold(request_kind)
    for number in range(20):
        route.upload(f"during-{number}.jsonl", rows(f"during-{number}", 100))
    until_sync(lambda: gate.held, seconds=60, what="the request on its way")
    with frozen(first):
        until_sync(lambda: role(second) == "leader", seconds=60, what="the second leading")
        until_sync(lambda: read() == route.uploaded, seconds=180, what="each row once")
        gate.open()
    until_sync(lambda: role(first) == "standby", seconds=60, what="the first standing by")
    route.upload("after.jsonl", rows("after", 100))
    until_sync(lambda: second.status()["objects"]["done"] == 22, seconds=60, what="all done")
    assert read() == route.uploaded

    second.kill()
    route.upload("last.jsonl", rows("last", 100))
    until_sync(lambda: read() == route.uploaded, seconds=180, what="the first leading again")


@pytest.mark.parametrize(
    ("support", "request_kind"),
    [
        pytest.param("required", END_TXN, id="exactly once, the commit"),
        pytest.param("disabled", TXN_OFFSET_COMMIT, id="at least once, the proof"),
    ],
)
def test_a_sink(tmp_path: Path, stack: ExitStack, gate: KafkaGate, support: str, request_kind: int) -> None:
    """Exactly once each record is in one object; at least once a shorter object never replaces a longer."""
    bootstrap = gate.broker.bootstrap
    archive = Archive(
        folder=tmp_path,
        bucket=aws.new_bucket(),
        topic=kafka.new_topic("archived", bootstrap=bootstrap),
        bootstrap=bootstrap,
    )

    def produce(first: int, count: int) -> None:
        archive.produce({"value": b'{"n":%d}' % number} for number in range(first, first + count))

    def archived() -> set[int]:
        return {offset for _, offset in archive.archived()}

    options: dict[str, object] = {
        "exactly__once__support": support,
        "rotate__records": 1000,
        "rotate__age__ms": 2000,
        **_SESSION,
    }
    name = aws.unique("stopped")
    first = started(stack, archive.service(name, bootstrap__servers=gate.address, **options))
    second = started(
        stack,
        archive.service(name, state__dir=str(tmp_path / "second"), **options),
    )
    produce(0, 10)
    until_sync(lambda: archived() == set(range(10)), seconds=60, what="the first object")
    assert role(first) == "leader"
    until_sync(lambda: first.status()["sink"]["partitions"][0]["offset"] == 10, seconds=60, what="its commit")
    taken = f"{archive.topic}/0/{10:020}.headrace.jsonl.gz"
    if support == "disabled":
        # So that the slot has to prove that it may replace what has the name.
        aws.s3().put_object(Bucket=archive.bucket, Key=taken, Body=b"")
    gate.hold(request_kind)
    produce(10, 10)
    until_sync(lambda: gate.held, seconds=60, what="the request on its way")
    with frozen(first):
        produce(20, 30)
        until_sync(lambda: role(second) == "leader", seconds=60, what="the second leading")
        until_sync(lambda: archived() == set(range(50)), seconds=180, what="all records")
        gate.open()
    until_sync(lambda: role(first) == "standby", seconds=60, what="the first standing by")
    produce(50, 10)
    until_sync(lambda: archived() == set(range(60)), seconds=60, what="what came later")
    second.kill()
    produce(60, 10)
    until_sync(lambda: archived() == set(range(70)), seconds=180, what="the first leading again")
    if support == "required":
        assert set(archive.archived().values()) == {1}
