"""A broker that takes a fifth of a megabyte a second of a client, by a quota."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer

from headrace.kafka.producer import TransactionalProducer
from headrace.model.columns import Column, RecordTarget, RowBatch
from headrace.model.errors import TransactionAborted
from headrace.model.positions import BytePosition
from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import free_port
from tests.support.kafka import new_topic, read_committed

pytestmark = [pytest.mark.parts, pytest.mark.long]  # a broker of its own

RATE = 200_000
ROWS, SIZE, BATCHES = 1000, 1000, 12
INTERVAL_SECONDS = 1.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with a quota for every client."""
    made = Broker(folder=tmp_path, jar_folder=JAR_FOLDER, port=free_port())
    made.start()
    quota = ["--add-config", f"producer_byte_rate={RATE}", "--entity-type", "clients", "--entity-default"]
    tool = ["java", "-cp", f"{JAR_FOLDER}/*", "kafka.admin.ConfigCommand"]
    subprocess.run(
        [*tool, "--bootstrap-server", made.bootstrap, "--alter", *quota],
        check=True,
        capture_output=True,
        timeout=120,
    )
    yield made
    made.stop()


def test_transactions_get_through_a_quota(broker: Broker) -> None:
    """Rows that spread over partitions, far fewer than librdkafka's queue holds: a minute at that rate.

    A transaction that was too much is made again with less.
    Mutation tried: without `_keep_pace` each of them runs out of time, for ever.
    """
    output, ledger = (
        new_topic(stem, bootstrap=broker.bootstrap, partitions=count)
        for stem, count in (("output", 4), ("ledger", 1))
    )
    properties = {"bootstrap.servers": broker.bootstrap}
    group = Consumer({**properties, "group.id": "g"}).consumer_group_metadata()
    noise = np.random.default_rng(1)
    starts, same = np.arange(ROWS, dtype=np.int64), np.ones(ROWS, np.int64)
    target, aborted, committed = RecordTarget(topic=output), 0, 0
    said: set[str] = set()
    deadline = time.monotonic() + 150
    while committed < BATCHES and time.monotonic() < deadline:
        producer = TransactionalProducer(
            properties, name="quota", slot=0, ledger_topic=ledger, is_void=lambda: False
        )
        try:
            while committed < BATCHES:
                begun, sent = time.monotonic(), committed
                producer.begin(group)
                while sent < BATCHES and time.monotonic() - begun < INTERVAL_SECONDS:
                    values, keys = (
                        Column(buffer=noise.bytes(ROWS * size), starts=starts * size, lengths=same * size)
                        for size in (SIZE, 8)
                    )
                    rows = RowBatch(values=values, after=BytePosition(0), positions=BytePosition, keys=keys)
                    producer.send(target, rows, 0, ROWS)
                    sent += 1
                producer.commit(())
                committed = sent
        except TransactionAborted as error:
            said.add(str(error).rpartition(": ")[2])
            aborted += 1
            producer.abort()
        finally:
            producer.close()
    assert committed == BATCHES
    assert aborted <= 3
    assert said <= {"less is sent at a time now."}
    assert len(read_committed(output, bootstrap=broker.bootstrap)) == ROWS * BATCHES
