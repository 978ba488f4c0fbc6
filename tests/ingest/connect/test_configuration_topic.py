"""The configuration topic on a real broker, without a worker around it."""

import shutil
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import ConnectorRecord, connector_key, connector_records, encode
from headrace.model.errors import InvalidConfiguration, InvalidLedger, TopicMissing, Unavailable
from headrace.model.ledger_entry import encode_key
from ingest.connect.changes import RecordTooLarge
from ingest.connect.connector_configurations import ConfigurationTopic
from ingest.connect.worker_settings import read_worker
from ingest.service.stop import Stop
from tests.support.aws import unique
from tests.support.kafka import BrokerFactory, TopicFactory, delete_topic
from tests.support.kafka_logs import cut_off
from tests.support.until import until_sync

pytestmark = pytest.mark.parts


@contextmanager
def opened(
    bootstrap: str,
    folder: Path,
    topic: str,
    group: str,
    admin: type[KafkaAdmin] = KafkaAdmin,
    /,
    **more: str,
) -> Iterator[ConfigurationTopic]:
    """A configuration topic as one of the group's workers has it."""
    lines = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "config.storage.topic": topic,
        "config.storage.replication.factor": "1",
        "state.dir": str(folder),
    } | {name.replace("__", "."): value for name, value in more.items()}
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    stop = Stop()
    settings = read_worker(text, is_json=False, environment={}, read_file=str)
    made = ConfigurationTopic(settings, stop, admin=admin)
    with ExitStack() as closing:
        closing.callback(made.close)
        closing.callback(stop.asked.set)
        made.open()
        yield made


@contextmanager
def leading(
    bootstrap: str, folder: Path, topic: str, group: str = "", **more: str
) -> Iterator[ConfigurationTopic]:
    """A configuration topic that this process leads."""
    with opened(bootstrap, folder, topic, group or unique("group"), **more) as made:
        until_sync(lambda: made.is_leading, seconds=60, what="the lead")
        yield made


def record_of(size: int) -> tuple[ConnectorRecord, bytes]:
    """A connector whose configuration takes some more than this."""
    record = ConnectorRecord(name="x", config={"topics": "t" * size}, at_ms=0)
    return record, encode(record)


@pytest.mark.parametrize(
    ("limits", "more", "size", "named"),
    [
        pytest.param(
            {"max.message.bytes": "30000000"},
            {"producer__max__request__size": "2000000"},
            2_000_000,
            "producer.max.request.size",
            id="this client's",
        ),
        pytest.param({"max.message.bytes": "20000"}, {}, 20_000, "max.message.bytes of topic", id="topic's"),
        pytest.param({}, {}, 1_100_000, "max.message.bytes of topic", id="broker's"),
    ],
)
def test_a_record_that_no_broker_would_take_is_refused_at_once(
    kafka_bootstrap: str,
    topic: TopicFactory,
    tmp_path: Path,
    limits: dict[str, str],
    more: dict[str, str],
    size: int,
    named: str,
) -> None:
    """With both sizes and the option to raise; what is written after it is written."""
    name = topic("configs", config={"cleanup.policy": "compact"} | limits)
    with leading(kafka_bootstrap, tmp_path, name, **more) as configurations:
        record, raw = record_of(size)
        with pytest.raises(RecordTooLarge, match=named):
            configurations.write([(connector_key(record.name), raw)])
        record, raw = record_of(size // 2)
        configurations.write([(connector_key(record.name), raw)])
        until_sync(lambda: configurations.controls().get(connector_key("x")) == raw, what="the record")


def test_what_one_worker_has_written_another_one_has_read_to_the_end(
    kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """Each change is known to both by the time that it is answered, and the next one is not waited for."""
    name, group = topic("configs", config={"cleanup.policy": "compact"}), unique("group")
    with (
        leading(kafka_bootstrap, tmp_path / "a", name, group) as leads,
        opened(kafka_bootstrap, tmp_path / "b", name, group) as follows,
    ):
        for size in range(1, 6):
            record, raw = record_of(size)
            leads.write([(connector_key(record.name), raw)])
            for one in (follows, leads):
                one.read_to_end()
                assert one.controls().get(connector_key(record.name)) == raw


def test_a_transaction_that_is_never_ended_keeps_no_one_from_the_end(
    kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """A leader was killed amid a change: what was committed before is known without waiting for its end."""
    name = topic("configs", config={"cleanup.policy": "compact"})
    with leading(kafka_bootstrap, tmp_path, name) as configurations:
        record, raw = record_of(1)
        configurations.write([(connector_key(record.name), raw)])
        producer = Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": unique("killed")})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(name, raw, key=encode_key(connector_key("y")))
        producer.flush(60)
        try:
            configurations.read_to_end()
            assert set(configurations.controls()) >= {connector_key(record.name)}
            assert connector_key("y") not in configurations.controls()
        finally:
            producer.abort_transaction(60)


OTHERS = (b"connector-x", b"\xff", b'{"control": "connector:x"}', b'{"control":5}', b'{"bucket":"b"}')


def test_records_of_other_programs_are_passed_over(
    kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """They are named; changes are written, another worker starts and reads them, and tombstones settle it."""
    name, group = topic("configs", config={"cleanup.policy": "compact"}), unique("group")
    record, raw = record_of(1)
    with leading(kafka_bootstrap, tmp_path / "a", name, group) as leads:
        assert leads.foreign is None
        produce(kafka_bootstrap, name, dict.fromkeys(OTHERS, b"{}"))
        until_sync(lambda: "and 2 more" in (leads.foreign or ""), what="the records' keys")
        leads.write([(connector_key(record.name), raw)])
        with opened(kafka_bootstrap, tmp_path / "b", name, group) as follows:
            follows.read_to_end()
            assert follows.controls().get(connector_key(record.name)) == raw
            assert follows.foreign == leads.foreign
            assert "keys 'connector-x', " in str(follows.foreign)
            produce(kafka_bootstrap, name, dict.fromkeys(OTHERS))
            until_sync(lambda: leads.foreign is None and follows.foreign is None, what="their tombstones")
    with leading(kafka_bootstrap, tmp_path / "c", name, group) as leads:
        assert leads.controls().get(connector_key(record.name)) == raw


def test_a_topic_of_another_program_is_refused(
    kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """A topic of Connect's workers, which no worker of Headrace has led over."""
    name = topic("configs", config={"cleanup.policy": "compact"})
    produce(kafka_bootstrap, name, {b"connector-x": b'{"properties":{}}'})

    with (
        pytest.raises(InvalidConfiguration, match=r"not Headrace's: b'connector-x'.*topic of their own"),
        opened(kafka_bootstrap, tmp_path, name, unique("group")),
    ):
        pass


def produce(bootstrap: str, topic: str, records: Mapping[bytes, bytes | None]) -> None:
    """Have another program write these."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records.items():
        producer.produce(topic, value, key=key)
    assert producer.flush(60) == 0


def names_in(one: ConfigurationTopic) -> list[str] | str:
    """The connectors that a worker reads, or why it cannot."""
    try:
        return list(connector_records(one.controls()))
    except (InvalidLedger, Unavailable) as error:
        return str(error)


def write_connector(led: ConfigurationTopic, name: str) -> None:
    """Have the worker that leads create a connector."""
    led.write([(connector_key(name), encode(ConnectorRecord(name=name, config={"topics": "t"}, at_ms=0)))])


def made_again(topic: str, bootstrap: str) -> None:
    """Have an operator delete the topic, and something make it again."""
    admin = KafkaAdmin({"bootstrap.servers": bootstrap})
    delete_topic(topic, bootstrap=bootstrap)
    until_sync(lambda: not admin.has_topic(topic), what="its end")
    admin.create_topic(
        topic, partitions=1, replication_factor=None, configuration={"cleanup.policy": "compact"}
    )
    until_sync(lambda: admin.has_topic(topic), what="the topic")


def until_lost(workers: Sequence[ConfigurationTopic], before: list[str], why: str) -> None:
    """Return when each worker says what is lost, leads no more, and reads nothing that is less."""
    for one in workers:

        def is_told(one: ConfigurationTopic = one) -> bool:
            found = names_in(one)
            assert found == before or "config.storage.topic cannot be read: " in found, found
            return why in found and why in str(one.problem) and not one.is_leading

        until_sync(is_told, seconds=120, what="the loss")
        assert "restart all workers" in str(one.problem)


def refusals(logged: Sequence[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    """What workers have logged of leads that the topic keeps them from."""
    return [line for line in logged if line["event"] == "worker_lead_refused"]


def test_a_topic_that_is_made_again_is_not_read_as_if_its_connectors_were_deleted(
    kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """By no worker that has read them, which leads no more either; one that begins then may."""
    name, group = topic("configs", config={"cleanup.policy": "compact"}), unique("group")
    with (
        capture_logs() as logged,
        leading(kafka_bootstrap, tmp_path / "a", name, group) as led,
        opened(kafka_bootstrap, tmp_path / "b", name, group) as followed,
    ):
        write_connector(led, "x")
        until_sync(lambda: names_in(followed) == ["x"], what="the connector")
        made_again(name, kafka_bootstrap)
        until_lost((led, followed), ["x"], "was deleted and made again")
        with leading(kafka_bootstrap, tmp_path / "c", name, group) as new:
            assert names_in(new) == []
            until_lost((led, followed), ["x"], "was deleted and made again")
    refused = [line["log_level"] for line in refusals(logged)]
    assert set(refused) <= {"error", "debug"}
    # Each worker may first read that records are missing, and then why.
    assert 2 <= refused.count("error") <= 4


@pytest.mark.long  # a broker of its own
def test_a_topic_that_has_lost_its_end_is_not_read_as_if_connectors_were_deleted(
    own_broker: BrokerFactory, tmp_path: Path
) -> None:
    """It is the same topic, and the workers that have read more of it stay with what they have read."""
    broker, folder = own_broker(), tmp_path / "state"
    with (
        capture_logs() as logged,
        leading(broker.bootstrap, folder / "a", "configs", "g") as led,
        opened(broker.bootstrap, folder / "b", "configs", "g") as followed,
    ):
        write_connector(led, "x")
        _, cut = KafkaAdmin({"bootstrap.servers": broker.bootstrap}).ends("configs")
        write_connector(led, "y")
        until_sync(lambda: names_in(followed) == ["x", "y"], what="both connectors")
        broker.stop()
        (log,) = broker.folder.glob("**/configs-0/*.log")
        kept = shutil.copytree(log.parent, tmp_path / "kept")
        cut_off(log, cut)
        broker.start()
        until_lost((led, followed), ["x", "y"], "does not have any more what was read of it")
        broker.stop()
        shutil.rmtree(log.parent)
        shutil.copytree(kept, log.parent)
        broker.start()
        until_sync(lambda: led.is_leading or followed.is_leading, seconds=120, what="the same records again")
        for one in (led, followed):
            until_sync(lambda one=one: names_in(one) == ["x", "y"], what="them read")  # type: ignore[misc]
        broker.stop()
        cut_off(log, cut)
        broker.start()
        until_lost((led, followed), ["x", "y"], "does not have any more what was read of it")
        with leading(broker.bootstrap, folder / "c", "configs", "g") as new:
            assert names_in(new) == ["x"]
            # It grows past what they have read, and they look at it again.
            for name in "zwvu":
                write_connector(new, name)
            tried = len(refusals(logged))
            until_sync(lambda: len(refusals(logged)) > tried + 6, what="more tries of both")
            until_lost((led, followed), ["x", "y"], "does not have any more what was read of it")


class _Lagging(KafkaAdmin):
    """Asks a broker that does not know yet, at its first question, what the controller has just made."""

    left = 1

    def partition_count(self, topic: str) -> int:
        """See `KafkaAdmin.partition_count`."""
        if _Lagging.left:
            _Lagging.left -= 1
            raise TopicMissing(f"the topic {topic!r} is missing", topic=topic)
        return super().partition_count(topic)


def test_a_broker_that_does_not_know_the_new_topic_yet_is_asked_again(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    """No configurations are lost by it: the first start is tried again, and does not end the worker."""
    lines = (
        f"bootstrap.servers={kafka_bootstrap}\ngroup.id={unique('group')}\n"
        f"config.storage.replication.factor=1\nstate.dir={tmp_path}"
    )
    settings, stop = read_worker(lines, is_json=False, environment={}, read_file=str), Stop()
    made = ConfigurationTopic(settings, stop, admin=_Lagging)
    with ExitStack() as closing:
        closing.callback(delete_topic, settings.topic, bootstrap=kafka_bootstrap)
        closing.callback(made.close)
        closing.callback(stop.asked.set)
        with pytest.raises(Unavailable, match="may not know yet that it was made"):
            made.open()
        made.open()
        until_sync(lambda: made.is_leading, seconds=60, what="the lead")


class _Short(KafkaAdmin):
    """Asks a broker that gives a lower offset as the end than there is."""

    def ends(self, topic: str) -> tuple[int, int]:
        """See `KafkaAdmin.ends`."""
        low, _ = super().ends(topic)
        return low, low


def test_a_lower_end_that_a_broker_gives_is_not_believed(
    kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """Who has read more of the topic leads over it, and has what was there."""
    name, group = topic("configs", config={"cleanup.policy": "compact"}), unique("group")
    with leading(kafka_bootstrap, tmp_path / "a", name, group) as before:
        write_connector(before, "x")
    with opened(kafka_bootstrap, tmp_path / "b", name, group, _Short) as after:
        until_sync(
            lambda: after.is_leading or "restart all" in str(after.problem), seconds=60, what="the lead"
        )
        assert after.problem is None
        assert names_in(after) == ["x"]


def test_a_topic_that_deletes_with_time_is_refused_in_its_own_words(
    kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """By the worker's option, and not as a ledger of objects."""
    name = topic("configs", config={"cleanup.policy": "delete"})
    with (
        pytest.raises(InvalidConfiguration, match=r"config\.storage\.topic 'configs.*workers would end"),
        opened(kafka_bootstrap, tmp_path, name, unique("group")),
    ):
        pass


def test_the_topic_of_another_group_is_not_led(
    kafka_bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """The sentence names the other group's workers and the option."""
    name, group = topic("configs", config={"cleanup.policy": "compact"}), unique("group")
    with leading(kafka_bootstrap, tmp_path / "a", name, group):
        pass
    with opened(kafka_bootstrap, tmp_path / "b", name, unique("group")) as other:
        of_others = f"holds the configurations of the workers 'worker-{group}'"
        until_sync(lambda: of_others in str(other.problem), seconds=60, what="the refusal")
        assert "config.storage.topic" in str(other.problem)
        assert "offsets.storage.topic" not in str(other.problem)
