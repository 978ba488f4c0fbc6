"""What a broker can do to a reader: a log that rots, and a user that may not read."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, if not in so many words
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headrace.kafka.consumer import partition_reader
from headrace.kafka.consumer.batch_fetch import NewFetch, RecordFetch, best_fetch
from headrace.kafka.consumer.message_columns import FaultReason, LostOffsets, PartitionFault, ReaderEvent
from headrace.kafka.consumer.partition_reader import PartitionReader
from headrace.model.sink_entries import NO_EPOCH, TopicPartition
from localstack.broker import Broker
from localstack.parts import JAR_FOLDER
from localstack.ports import free_port
from tests.support.kafka import new_topic
from tests.support.kafka_logs import cut_off
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long]  # a broker of its own

MIB: Final = 1024 * 1024
WAYS: Final[dict[str, NewFetch]] = {"batch": best_fetch, "ordinary": RecordFetch}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a log that may be written to, and with access control."""
    made = Broker(
        folder=tmp_path_factory.mktemp("broker"),
        jar_folder=JAR_FOLDER,
        port=free_port(),
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
    )
    made.start()
    yield made
    made.kill()


def produced(broker: Broker, topic: str, *batches: list[bytes]) -> None:
    """These records, in batches of these."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1000})
    for batch in batches:
        for value in batch:
            producer.produce(topic, value)
        assert producer.flush(60) == 0


@pytest.mark.parametrize("way", WAYS)
def test_nothing_behind_a_corrupt_batch_is_given_out(broker: Broker, way: str) -> None:
    """Whatever is in it would be missing for ever, unseen."""
    rotten, sound = (new_topic(stem, bootstrap=broker.bootstrap) for stem in ("rotten", "sound"))
    produced(broker, rotten, *([b"batch %d, row %d" % (n, row) for row in range(5)] for n in range(4)))
    (log,) = Path(broker.folder).glob(f"**/{rotten}-0/*.log")
    at = log.read_bytes().index(b"batch 2, row 3")
    with log.open("r+b") as file:
        file.seek(at)
        file.write(b"B")
    properties = {"bootstrap.servers": broker.bootstrap}
    reader = PartitionReader(properties, group_id="g", budget_bytes=MIB, new_fetch=WAYS[way])
    given: list[tuple[str, int]] = []
    events: list[ReaderEvent] = []

    def came(count: int) -> bool:
        for records in reader.poll(1000, 0.1):
            given.extend((records.topic, offset) for offset in records.offsets.tolist())
        events.extend(reader.drain_events())
        return len(given) >= count and bool(events)

    with closing(reader):
        reader.assign({TopicPartition(rotten, 0): 0, TopicPartition(sound, 0): 0})
        until_sync(lambda: came(10), seconds=60)
        (event,) = events
        assert isinstance(event, PartitionFault)
        assert (event.topic, event.offset, event.reason) == (rotten, 10, FaultReason.BATCH_CORRUPT)
        assert "at offset 10 has a batch that cannot be decoded" in event.message
        produced(broker, sound, [b"a row of another topic"])
        until_sync(lambda: came(11), seconds=60)
        assert given == [*((rotten, offset) for offset in range(10)), (sound, 0)]
        assert len(events) == 1
        assert reader.positions() == {TopicPartition(rotten, 0): 10, TopicPartition(sound, 0): 1}


@pytest.mark.parametrize("way", WAYS)
def test_a_log_that_was_cut_off_and_has_grown_again_is_not_read_on(tmp_path: Path, way: str) -> None:
    """Its offsets are there, with other records before and after: by the epochs alone it is known (KIP-320).

    Nor from the beginning by a reader of another process, which knows the epoch; one that knows none reads.
    Mutation tried: asking for the log's ends in the place of `cut_off_at` reads on at offset 10.
    """
    broker = Broker(folder=tmp_path, jar_folder=JAR_FOLDER, port=free_port())
    properties = {"bootstrap.servers": broker.bootstrap}
    broker.start()
    try:
        topic = new_topic("cut", bootstrap=broker.bootstrap)
        at = TopicPartition(topic, 0)
        produced(broker, topic, *([b"lost %d" % number] for number in range(10)))
        epochs: dict[TopicPartition, int] = {}
        events: list[ReaderEvent] = []

        def came(reader: PartitionReader) -> list[int]:
            found = []
            for records in reader.poll(1000, 0.1):
                found += records.offsets.tolist()
                epochs[at] = records.leader_epochs[-1][1]
            events.extend(reader.drain_events())
            return found

        def new_reader() -> PartitionReader:
            return PartitionReader(properties, group_id="g", budget_bytes=MIB, new_fetch=WAYS[way])

        with closing(new_reader()) as reader:
            reader.assign({at: 0})
            until_sync(lambda: came(reader) and reader.positions()[at] == 10, seconds=30)
            broker.stop()
            (log,) = tmp_path.glob(f"**/{topic}-0/*.log")
            cut_off(log, 6)
            broker.start()
            produced(broker, topic, *([b"new %d" % number] for number in range(10)))
            until_sync(lambda: came(reader) or events, seconds=60)
            assert reader.positions()[at] == 10
            assert came(reader) == []
        with closing(new_reader()) as reader:
            reader.assign({at: 10}, {at: epochs[at]})
            until_sync(lambda: came(reader) or len(events) == 2, seconds=60)
        for event in events:
            assert isinstance(event, PartitionFault)
            assert (event.offset, event.reason) == (10, FaultReason.LOG_TRUNCATED)
            assert "has other records now from offset 6 on" in event.message
        with closing(new_reader()) as reader:
            reader.assign({at: 6}, {at: epochs[at]})
            until_sync(lambda: came(reader) and reader.positions()[at] == 16, seconds=60)
            reader.assign({at: 0}, {at: epochs[at]})
            runs: list[tuple[int, int]] = []
            while reader.positions()[at] < 16:
                runs += [run for records in reader.poll(1000, 0.1) for run in records.leader_epochs]
            assert dict(reversed([(epoch, offset) for offset, epoch in runs])) == {
                runs[0][1]: 0,
                epochs[at]: 6,
            }
        assert len(events) == 2
    finally:
        broker.kill()


@pytest.mark.parametrize("way", WAYS)
def test_a_log_that_had_only_aborted_transactions_is_known_when_it_was_cut_off(
    tmp_path: Path, way: str
) -> None:
    """By the leader epoch of a marker, which is no record: not at a start that knows none."""
    broker = Broker(folder=tmp_path, jar_folder=JAR_FOLDER, port=free_port())
    properties = {"bootstrap.servers": broker.bootstrap}
    broker.start()
    try:
        topic = new_topic("cut", bootstrap=broker.bootstrap)
        at = TopicPartition(topic, 0)
        producer = Producer({**properties, "transactional.id": topic})
        producer.init_transactions(60)
        for _ in range(2):
            producer.begin_transaction()
            producer.produce(topic, b"aborted")
            producer.flush(60)
            producer.abort_transaction(60)
        reached: list[tuple[int, int]] = []
        events: list[ReaderEvent] = []

        def at_its_end(start: int, epochs: dict[TopicPartition, int], end: int) -> bool:
            """Whether a new reader from there comes to the end, or to know that it is another log's."""
            fetch = WAYS[way]
            with closing(PartitionReader(properties, group_id="g", budget_bytes=MIB, new_fetch=fetch)) as one:
                one.assign({at: start}, epochs)

                def is_over() -> bool:
                    one.poll(1000, 0.1)
                    events.extend(one.drain_events())
                    return bool(events) or one.positions()[at] == end

                until_sync(is_over, seconds=60)
                reached.append(one.reached()[at])
                return not events

        assert at_its_end(0, {}, 4)
        (position, epoch) = reached[0]
        assert position == 4
        assert epoch >= 0
        # Another leader has it all: nothing is wrong.
        broker.stop()
        broker.start()
        produced(broker, topic, [b"after it"])
        assert at_its_end(4, {at: epoch}, 5)
        broker.stop()
        (log,) = tmp_path.glob(f"**/{topic}-0/*.log")
        cut_off(log, 2)
        broker.start()
        produced(broker, topic, *([b"new %d" % number] for number in range(4)))
        assert at_its_end(4, {}, 6)
        assert not at_its_end(4, {at: epoch}, 6)
        (event,) = events
        assert isinstance(event, PartitionFault)
        assert (event.offset, event.reason) == (4, FaultReason.LOG_TRUNCATED)
        assert "has other records now from offset 2 on" in event.message
    finally:
        broker.kill()


def test_an_epoch_whose_records_are_deleted_is_no_log_that_was_cut_off(tmp_path: Path) -> None:
    """Retention is ordinary: the broker says of such an epoch that it ends where the log begins.

    After a kill a log may begin where it did before, and say this still.
    """
    broker = Broker(folder=tmp_path, jar_folder=JAR_FOLDER, port=free_port())
    broker.start()
    try:
        topic = new_topic("old", bootstrap=broker.bootstrap)
        at = TopicPartition(topic, 0)

        def read(start: int, epoch: int, end: int = 10) -> tuple[list[tuple[int, int]], list[ReaderEvent]]:
            """The leader epochs of what a reader gets from there on, and what has happened."""
            runs: list[tuple[int, int]] = []
            events: list[ReaderEvent] = []
            given = {"bootstrap.servers": broker.bootstrap}
            with closing(PartitionReader(given, group_id="g", budget_bytes=MIB)) as one:
                one.assign({at: start}, {at: epoch})

                def is_over() -> bool:
                    runs.extend(run for records in one.poll(1000, 0.1) for run in records.leader_epochs)
                    events.extend(one.drain_events())
                    return one.positions()[at] == end or any(isinstance(e, PartitionFault) for e in events)

                until_sync(is_over, seconds=60)
            return runs, events

        produced(broker, topic, *([b"%d" % number] for number in range(5)))
        early = read(0, NO_EPOCH, 5)[0][0][1]
        broker.stop()
        broker.start()
        produced(broker, topic, *([b"%d" % number] for number in range(5)))
        late = read(0, early)[0][-1][1]
        assert late > early
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        place = KafkaPartition(topic, 0, 7)
        admin.delete_records([place])[place].result(60)
        assert read(7, early) == ([(7, late)], [])
        assert read(3, early) == ([(7, late)], [LostOffsets(topic=topic, partition=0, first=3, end=7)])
        broker.daemon.kill()
        broker.start()
        assert read(7, early) == ([(7, late)], [])
    finally:
        broker.kill()


@pytest.mark.parametrize("may_describe", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_a_user_who_may_not_read_is_told_and_goes_on_when_he_may(
    broker: Broker, way: str, *, may_describe: bool
) -> None:
    """It is a problem of its partition, with the remedy, and no end."""
    topic = new_topic("denied", bootstrap=broker.bootstrap)
    produced(broker, topic, [b"row"])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    acls = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            operation,
            permission,
        )
        for operation, permission in (
            (AclOperation.DESCRIBE, AclPermissionType.ALLOW if may_describe else AclPermissionType.DENY),
            (AclOperation.READ, AclPermissionType.DENY),
        )
    ]
    for answer in admin.create_acls(acls).values():
        answer.result(60)
    at = TopicPartition(topic, 0)
    properties = {"bootstrap.servers": broker.bootstrap}
    reader = PartitionReader(properties, group_id="g", budget_bytes=MIB, new_fetch=WAYS[way])
    with closing(reader):
        reader.assign({at: 0})
        until_sync(lambda: reader.poll(10, 0.1) == [] and reader.problems(), seconds=60)
        (part,) = reader.problems()
        assert "TOPIC_AUTHORIZATION_FAILED" in reader.problems()[part]
        assert "docs/security.md" in reader.problems()[part]
        assert reader.drain_events() == []
        everything = AclBindingFilter(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            None,  # type: ignore[arg-type]  # any
            None,  # type: ignore[arg-type]  # it is not asked for here
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for removed in admin.delete_acls([everything]).values():
            removed.result(60)
        until_sync(lambda: reader.poll(10, 0.1), seconds=60, what="the record")
        assert reader.problems() == {}
        assert reader.positions() == {at: 1}


@pytest.mark.parametrize("way", WAYS)
def test_a_right_that_is_taken_away_is_a_problem_until_it_is_back(
    broker: Broker, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said once by librdkafka: it stays said, and ends without a new record, too."""
    monkeypatch.setattr(partition_reader, "_AGAIN_SECONDS", 2.0)
    monkeypatch.setattr(partition_reader, "_PROBLEM_SECONDS", 3.0)
    topic = new_topic("revoked", bootstrap=broker.bootstrap)
    produced(broker, topic, [b"row"])
    at, paused = TopicPartition(topic, 0), TopicPartition(new_topic("p", bootstrap=broker.bootstrap), 0)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    reader = PartitionReader(
        {"bootstrap.servers": broker.bootstrap}, group_id="g", budget_bytes=MIB, new_fetch=WAYS[way]
    )
    kind, literal, user = ResourceType.TOPIC, ResourcePatternType.LITERAL, "User:ANONYMOUS"
    acls = [
        AclBinding(kind, topic, literal, user, "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW),
        AclBinding(kind, topic, literal, user, "*", AclOperation.READ, AclPermissionType.DENY),
    ]
    with closing(reader):
        reader.assign({at: 0, paused: 0})
        reader.pause([paused])
        until_sync(lambda: reader.poll(10, 0.1), seconds=30, what="the record")
        for answer in admin.create_acls(acls).values():
            answer.result(10)
        until_sync(lambda: reader.poll(10, 0.1) == [] and reader.problems(), seconds=30)
        until = time.monotonic() + 6.0
        while time.monotonic() < until:
            assert reader.poll(10, 0.1) == []
            assert "TOPIC_AUTHORIZATION_FAILED" in reader.problems()[str(at)]
        produced(broker, paused.topic, [b"of a paused partition"])
        everything = AclBindingFilter(
            kind, topic, literal, user, "*", AclOperation.ANY, AclPermissionType.ANY
        )
        for removed in admin.delete_acls([everything]).values():
            removed.result(10)
        until_sync(
            lambda: reader.poll(10, 0.1) == [] and not reader.problems(), seconds=30, what="the end of it"
        )
        produced(broker, topic, [b"another"])
        until_sync(lambda: reader.poll(10, 0.1), seconds=30, what="the next record")
        assert reader.positions() == {at: 2, paused: 0}
