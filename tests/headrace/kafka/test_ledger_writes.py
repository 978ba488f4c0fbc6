"""The driver's writes while the broker is away: `Written` comes for what was committed and nothing else."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.model.ledger_entry import encode_key
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.service_events import ComponentProblem, OwnEvent, Written
from ingest.source.catalogue import LedgerWrite
from tests.headrace.kafka.ingester import DONE, Ingester, object_id
from tests.support import kafka
from tests.support.aws import unique
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long]


def test_a_stop_while_the_broker_is_away_announces_nothing(
    own_broker: kafka.BrokerFactory, tmp_path: Path
) -> None:
    """The catalogue deletes an object's message when its write is announced: the commit has to be first."""
    broker = own_broker()
    name = unique("writes")
    posted: list[OwnEvent] = []
    with ExitStack() as stack:
        ingester = Ingester(
            name=name,
            topic=f"{name}-offsets",
            output=kafka.new_topic("output", bootstrap=broker.bootstrap),
            bootstrap=broker.bootstrap,
            state_dir=tmp_path / "state",
            stack=stack,
        )
        ingester.prepare()
        ledger = ingester.ledger(ingester.lead(session_timeout_ms=300_000))
        ledger.take_over(timeout=60)
        writes = LedgerWrites(ledger, posted.append)
        written = LedgerWrite(key=object_id(1), entry=DONE)
        writes.submit((written,))
        until_sync(lambda: posted, seconds=60, what="the first write announced")

        broker.kill()
        writes.submit((LedgerWrite(key=object_id(2), entry=DONE),))
        # As long as one attempt at a transaction takes: then it waits, and is asked to end.
        until_sync(
            lambda: any(isinstance(event, ComponentProblem) for event in posted),
            seconds=120,
            what="an attempt failed",
        )
        writes.close(0.1)
        assert writes.join(60)
        assert [event for event in posted if isinstance(event, Written)] == [Written((written,))]

        broker.start()
        keys = {record.key for record in kafka.read_committed(ingester.topic, bootstrap=broker.bootstrap)}
        assert encode_key(object_id(1)) in keys
        assert encode_key(object_id(2)) not in keys
