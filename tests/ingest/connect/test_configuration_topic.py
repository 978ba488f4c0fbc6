"""The configuration topic on a real broker, without a worker around it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headrace.model.connector_records import ConnectorRecord, connector_key, encode
from ingest.connect.changes import RecordTooLarge
from ingest.connect.connector_configurations import ConfigurationTopic
from ingest.connect.worker_settings import read_worker
from ingest.service.stop import Stop
from tests.support.aws import unique
from tests.support.kafka import TopicFactory
from tests.support.until import until_sync

pytestmark = pytest.mark.parts


@contextmanager
def leading(bootstrap: str, folder: Path, topic: str, **more: str) -> Iterator[ConfigurationTopic]:
    """A configuration topic that this process leads."""
    lines = {
        "bootstrap.servers": bootstrap,
        "group.id": unique("group"),
        "config.storage.topic": topic,
        "config.storage.replication.factor": "1",
        "state.dir": str(folder),
    } | {name.replace("__", "."): value for name, value in more.items()}
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    stop = Stop()
    made = ConfigurationTopic(read_worker(text, is_json=False, environment={}, read_file=str), stop)
    with ExitStack() as closing:
        closing.callback(made.close)
        closing.callback(stop.asked.set)
        made.open()
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
