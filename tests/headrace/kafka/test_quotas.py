"""A broker that takes of a client, or gives it, a fifth of a megabyte a second, by a quota."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer
from structlog.testing import capture_logs

from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.kafka.producer import TransactionalProducer
from headrace.model.columns import Column, RecordTarget, RowBatch
from headrace.model.errors import Fenced, TransactionAborted
from headrace.model.positions import BytePosition
from headrace.model.sink_entries import TopicPartition
from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import free_port
from tests.support import short_java
from tests.support.kafka import new_topic, read_committed

pytestmark = [pytest.mark.parts, pytest.mark.long]  # a broker of its own

RATE = 200_000
ROWS, SIZE, BATCHES = 1000, 1000, 12
INTERVAL_SECONDS = 1.0


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker with this quota for every client."""
    made = Broker(folder=tmp_path, jar_folder=JAR_FOLDER, port=free_port())
    made.start()
    quota = ["--add-config", f"{request.param}={RATE}", "--entity-type", "clients", "--entity-default"]
    tool = ["java", *short_java.OPTIONS, "-cp", f"{JAR_FOLDER}/*", "kafka.admin.ConfigCommand"]
    subprocess.run(
        [*tool, "--bootstrap-server", made.bootstrap, "--alter", *quota],
        check=True,
        capture_output=True,
        timeout=120,
    )
    yield made
    made.kill()


@pytest.mark.parametrize("broker", ["producer_byte_rate"], indirect=True)
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
        except Fenced:
            aborted += 1  # on a busy machine the broker ends a transaction before it is given up here
        finally:
            producer.close()
    assert committed == BATCHES
    assert aborted <= 3
    assert said <= {"less is sent at a time now."}
    assert len(read_committed(output, bootstrap=broker.bootstrap)) == ROWS * BATCHES


@pytest.mark.parametrize("broker", ["consumer_byte_rate"], indirect=True)
def test_a_reader_under_a_quota_says_that_it_is_held_back(broker: Broker) -> None:
    """And no more: a broker that gives nothing for ten seconds is no trouble with it.

    Mutation tried: without the look at `Throttle.holds` the topic's metadata time out, and that is said.
    """
    topic = new_topic("input", bootstrap=broker.bootstrap, partitions=4)
    feeder, noise = Producer({"bootstrap.servers": broker.bootstrap}), np.random.default_rng(1)
    for number in range(ROWS * BATCHES // 2):
        feeder.produce(topic, noise.bytes(SIZE), partition=number % 4)
        feeder.poll(0)
    feeder.flush()
    reader = PartitionReader(
        {"bootstrap.servers": broker.bootstrap}, group_id="quota", budget_bytes=64 * 1024 * 1024
    )
    deadline, read = time.monotonic() + 120, 0
    problems: set[str] = set()
    with capture_logs() as lines:
        reader.assign({TopicPartition(topic, number): 0 for number in range(4)})
        while read < ROWS * BATCHES // 2 and time.monotonic() < deadline:
            read += sum(map(len, reader.poll(1000, 0.5)))
            problems |= set(reader.problems().values())
        reader.close()
    assert read == ROWS * BATCHES // 2
    assert problems == set()
    held = [line for line in lines if line["event"] == "brokers_throttle"]
    assert held
    assert "consumer_byte_rate" in held[0]["detail"]
