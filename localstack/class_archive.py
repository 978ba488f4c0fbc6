"""The archive of the broker's classes, which a JVM maps instead of reading and checking them each time."""

import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from localstack import jars
from localstack.broker import QUIET, Broker, class_archive
from localstack.ports import free_port
from localstack.steps import PartError, step

_STOP_SECONDS = 240


def make_class_archive(jar_folder: Path) -> None:
    """Make it, whole or not at all, unless it is there; where Java does not say what it is, there is none.

    A broker without it starts as well, with 1.5 s more of CPU. PartError, OSError. Blocks for ten seconds.
    """
    place = class_archive(jars.fetch(jar_folder))
    if place is None or place.exists():
        return
    for other in jar_folder.glob("*.jsa"):
        # Of the Java or the Kafka before. A JVM that has it mapped keeps it.
        other.unlink(missing_ok=True)
    with (
        step("kafka", "archiving the broker's classes, for quicker starts"),
        tempfile.TemporaryDirectory(prefix="archive-", dir=jar_folder) as scratch,
    ):
        made = Path(scratch) / "classes.jsa"
        broker = Broker(
            folder=Path(scratch) / "broker",
            jar_folder=jar_folder,
            port=free_port(),
            java_options=(f"-XX:ArchiveClassesAtExit={made}", *QUIET),
        )
        broker.start()
        try:
            _work(broker.bootstrap)
        finally:
            # The JVM writes the archive on its way out.
            broker.daemon.stop(within_seconds=_STOP_SECONDS)
        if not made.exists():
            raise PartError(f"the broker wrote no archive of its classes; {broker.daemon.last_words()}")
        made.rename(place)


def _work(bootstrap: str) -> None:
    """What every test has a broker do: a topic, a transaction, a group that reads and commits."""
    # A coordinator that is still being elected is nothing to tell of.
    common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(common)
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
    producer = Producer({**common, "transactional.id": "t", "compression.type": "lz4"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("t", b"value")
    producer.commit_transaction(60)
    consumer = Consumer({**common, "group.id": "t", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["t"])
        if consumer.poll(60) is None:
            raise PartError("the broker gave no record back")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
