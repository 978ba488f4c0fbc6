"""Brokers that have lost the end of the ledger while a process was down that has a copy of it."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.kafka.driver_ledger import DriverLedger
from headrace.model.errors import InvalidLedger, LeadershipLost, Unavailable
from headrace.model.ledger_entry import State
from headrace.model.objects import ObjectId
from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import free_port
from tests.headrace.kafka.ingester import DONE, Ingester, object_id, taken_over
from tests.support.kafka import new_topic
from tests.support.kafka_logs import cut_off
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long]  # a broker of its own

KEPT, LOST, NEW, NEWER = range(5), range(5, 20), range(100, 140), range(200, 260)


def test_a_copy_of_records_that_brokers_have_lost_is_not_read_on(tmp_path: Path) -> None:
    """What another machine has committed at the offsets that the copy knows would be missing: read twice.

    While it is read too: it ends, and the next start reads the ledger whole.
    Mutation tried: assigned without the epoch, lost entries are there and others are not.
    """
    broker = Broker(folder=tmp_path / "broker", jar_folder=JAR_FOLDER, port=free_port())
    broker.start()
    try:
        output = new_topic("output", bootstrap=broker.bootstrap)
        with ExitStack() as stack:
            here = _ingester(tmp_path / "here", broker, output, stack)
            here.prepare()
            ledger = taken_over(here)
            ledger.commit([(object_id(number), DONE) for number in KEPT])
            ledger.recover()
            cut = ledger.cache.position
            for number in LOST:
                ledger.commit([(object_id(number), DONE)])
            ledger.recover()
            assert cut is not None
        broker.stop()
        (log,) = (tmp_path / "broker").glob(f"**/{here.topic}-0/*.log")
        cut_off(log, cut)
        broker.start()
        _commit_elsewhere(_ingester(tmp_path / "there", broker, output), NEW)
        with ExitStack() as stack:
            here = _ingester(tmp_path / "here", broker, output, stack)
            ledger = taken_over(here)
            assert _done(ledger) == {object_id(number) for number in (*KEPT, *NEW)}
            broker.stop()
            cut_off(log, cut)
            broker.start()
            until_sync(lambda: _has_ended(ledger), seconds=120)
        _commit_elsewhere(_ingester(tmp_path / "there", broker, output), NEWER)
        with ExitStack() as stack:
            here = _ingester(tmp_path / "here", broker, output, stack)
            ledger = taken_over(here)
            assert _done(ledger) == {object_id(number) for number in (*KEPT, *NEWER)}
    finally:
        broker.kill()


def _ingester(state_dir: Path, broker: Broker, output: str, stack: ExitStack | None = None) -> Ingester:
    made = Ingester(
        name="ingester",
        topic="ingester-offsets",
        output=output,
        bootstrap=broker.bootstrap,
        state_dir=state_dir,
        stack=stack or ExitStack(),
    )
    made.stack.callback(made.stop.set)
    return made


def _commit_elsewhere(ingester: Ingester, numbers: Iterable[int]) -> None:
    """Another machine leads meanwhile, and its transactions come to offsets that the copy knows."""
    with ingester.stack:
        ledger = taken_over(ingester)
        for number in numbers:
            ledger.commit([(object_id(number), DONE)])


def _done(ledger: DriverLedger) -> set[ObjectId]:
    return {one.id for one in ledger.cache.by_state(State.DONE, 1000)}


def _has_ended(ledger: DriverLedger) -> bool:
    """Whether the reading has ended as the ledger is not what was read; not, while brokers do not answer."""
    try:
        ledger.check()
    except InvalidLedger as error:
        assert "does not have any more what was read of it" in str(error)  # noqa: PT017 - other errors pass
        return True
    except (Unavailable, LeadershipLost):
        return False
    return False
