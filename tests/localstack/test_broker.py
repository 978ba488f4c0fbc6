"""A broker of a test's own can be configured, killed and restarted, and its topics read to the end."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from localstack import jars
from localstack.broker import Broker, class_archive
from localstack.parts import JAR_FOLDER
from localstack.ports import is_listening
from localstack.steps import PartError
from tests.support.kafka import BrokerFactory, TopicFactory, new_topic, read_committed

pytestmark = pytest.mark.parts


def _transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(60)
    return producer


def test_committed_records_survive_a_kill_and_a_restart(own_broker: BrokerFactory) -> None:
    """The restarted broker has the data and the address of the killed one."""
    broker = own_broker()
    topic = new_topic(bootstrap=broker.bootstrap)
    producer = _transactional(broker.bootstrap, "writer")
    producer.begin_transaction()
    producer.produce(topic, b"value", b"key", headers=[("kind", b"test")])
    producer.commit_transaction(60)

    broker.kill()
    assert not is_listening(int(broker.bootstrap.rpartition(":")[2]))
    broker.start()

    (record,) = read_committed(topic, bootstrap=broker.bootstrap)
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("kind", b"test"),))
    assert_it_began_as_formatted(broker)
    assert_classes_are_mapped(broker)


def assert_it_began_as_formatted(broker: Broker) -> None:
    """Whether Kafka's tool formatted its storage, or what that left last time was used: the same features."""
    logged = broker.daemon.log.read_text()
    assert "transaction.version=2" in logged
    kept = list(JAR_FOLDER.glob("bootstrap-*.checkpoint"))
    assert (broker.folder / "data" / "bootstrap.checkpoint").read_bytes() in [
        one.read_bytes() for one in kept
    ]


def assert_classes_are_mapped(broker: Broker) -> None:
    """`make test` has made the archive; where there is none, none is named."""
    archive = class_archive(jars.fetch(JAR_FOLDER))
    if archive is not None and archive.exists():
        assert str(archive) in Path(f"/proc/{broker.daemon.pid}/maps").read_text()


@pytest.mark.long
def test_properties_reach_the_broker(own_broker: BrokerFactory) -> None:
    """A limit of the test's own is what a too large record meets."""
    broker = own_broker(properties={"message.max.bytes": "2000"})
    topic = new_topic(bootstrap=broker.bootstrap)
    failures: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    producer.produce(topic, b"x" * 3000, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0

    assert [error.code() for error in failures if error] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_topics_are_not_made_by_accident(kafka_bootstrap: str) -> None:
    """A missing topic has to be an error in tests as it is in production."""
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})

    error = admin.list_topics("nobody-made-this", 10).topics["nobody-made-this"].error

    assert error is not None
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_reader_sees_committed_records_only_and_reaches_the_end(
    kafka_bootstrap: str, topic: TopicFactory
) -> None:
    """Aborted records and markers at the end of the log neither show nor keep the reader waiting."""
    name = topic(partitions=2)
    producer = _transactional(kafka_bootstrap, name)
    for value, is_kept in ((b"one", True), (b"aborted", False), (b"two", True), (b"aborted too", False)):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(name, value, partition=partition)
        producer.flush(60)
        (producer.commit_transaction if is_kept else producer.abort_transaction)(30)

    records = read_committed(name)

    assert [(record.partition, record.value) for record in records] == [
        (0, b"one"),
        (0, b"two"),
        (1, b"one"),
        (1, b"two"),
    ]


def test_the_reader_waits_for_an_open_transaction(kafka_bootstrap: str, topic: TopicFactory) -> None:
    """What is open when reading starts counts as not yet read, whatever the read-committed end says."""
    name = topic()
    producer = _transactional(kafka_bootstrap, name)
    producer.begin_transaction()
    producer.produce(name, b"open")
    producer.flush(60)

    with pytest.raises(AssertionError, match="was read to 0, not to its end 1; is a transaction still open"):
        read_committed(name, seconds=1)
    producer.commit_transaction(60)

    assert [record.value for record in read_committed(name)] == [b"open"]


@pytest.mark.long
def test_a_taken_port_is_said_and_left_alone(own_broker: BrokerFactory, kafka_bootstrap: str) -> None:
    """A broker that other scripts started is neither used nor stopped."""
    own = own_broker()
    port = int(own.bootstrap.rpartition(":")[2])
    other = Broker(folder=own.daemon.log.parent / "other", jar_folder=own.daemon.log.parent, port=port)

    with pytest.raises(
        PartError, match=f"port {port} is in use by a process that these scripts did not start"
    ):
        other.start()

    assert not other.daemon.stop()
    assert is_listening(port)
    assert own.bootstrap != kafka_bootstrap
