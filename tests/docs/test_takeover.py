"""The ways into Headrace that docs/moving-from-aiven.md and docs/operations.md describe, row by row."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.stage import Service
from tests.support import aws, kafka
from tests.support.until import until_sync

# Five starts of Spark in a test take their time where others use the cores too.
pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(900)]

OLD = b'{"of":"the connector"}'
NEW = b'{"of":"headrace"}'


@dataclass(slots=True, kw_only=True)
class House:
    """A bucket from which another tool has read for years, and the topic where it put the rows."""

    folder: Path
    bucket: str
    topic: str
    name: str = field(default_factory=lambda: aws.unique("takeover"))

    def put(self, key: str, row: bytes) -> None:
        """Upload an object of one row."""
        aws.s3().put_object(Bucket=self.bucket, Key=key, Body=row + b"\n")

    def service(self, **changes: object) -> Service:
        """Headrace on this bucket, not started; `__` in a name for a dot."""
        options: dict[str, object] = {
            "bootstrap.servers": kafka.address(),
            "aws.s3.endpoint": aws.address(),
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.bucket.name": self.bucket,
            "topic": self.topic,
            "file.name.template": ".*",
            "input.format": "jsonl",
            "tasks.max": 1,
            "state.dir": str(self.folder / "state"),
        }
        options |= {name.replace("__", "."): value for name, value in changes.items()}
        return Service(self.folder, self.name, options)

    def rows(self, bootstrap: str | None = None) -> list[bytes]:
        """What Headrace has produced, sorted."""
        return sorted(record.value or b"" for record in kafka.committed(self.topic, bootstrap=bootstrap))


@pytest.fixture
def house(tmp_path: Path, bucket: str, topic: kafka.TopicFactory) -> House:
    """With two objects that the other tool has read."""
    made = House(folder=tmp_path, bucket=bucket, topic=topic())
    made.put("2026-01-30.jsonl", OLD)
    made.put("2026-01-31.jsonl", OLD)
    return made


def _start_key(house: House) -> Service:
    return house.service(native__start__key="2026-01-31.jsonl")


def _not_existing(house: House) -> Service:
    service = house.service(include__existing=False)
    # LastModified and S3's clock are in whole seconds: what is older has to be older by one.
    last = aws.s3().head_object(Bucket=house.bucket, Key="2026-01-31.jsonl")["LastModified"]
    until_sync(lambda: datetime.now(UTC) - last > timedelta(seconds=1), what="the next second")
    service.command("run", "--until-idle")
    return service


def _marked(house: House) -> Service:
    service = house.service()
    service.command("mark", "--until", datetime.now(UTC).isoformat(), "--yes")
    return service


@pytest.mark.parametrize("take_over", [_start_key, _not_existing, _marked])
def test_taking_over_without_reading_again(house: House, take_over: Callable[[House], Service]) -> None:
    """What comes after is read, what was before is not, and that stays so over the next start."""
    service = take_over(house)
    house.put("2026-02-01.jsonl", NEW)

    service.command("run", "--until-idle")
    assert house.rows() == [NEW]

    service.command("run", "--until-idle")
    assert house.rows() == [NEW]


def test_a_mark_can_be_taken_back(house: House) -> None:
    """`replay --from-start` reads one object after all."""
    service = _marked(house)
    service.command("replay", "--key", "2026-01-31.jsonl", "--from-start", "--yes")

    service.command("run", "--until-idle")

    assert house.rows() == [OLD]


def test_a_copied_ledger_is_as_good_on_another_cluster(house: House, own_broker: kafka.BrokerFactory) -> None:
    """Records copied byte for byte: nothing is read again there, and what is new is."""
    house.service().command("run", "--until-idle")
    assert house.rows() == [OLD, OLD]
    other = own_broker().bootstrap
    ledger = f"{house.name}-offsets"
    admin = AdminClient({"bootstrap.servers": other})
    made = [NewTopic(ledger, 1, 1, config={"cleanup.policy": "compact"}), NewTopic(house.topic, 1, 1)]
    for future in admin.create_topics(made).values():
        future.result(60)
    _copy(ledger, other)
    house.put("2026-02-01.jsonl", NEW)

    house.service(bootstrap__servers=other, state__dir=str(house.folder / "other")).command(
        "run", "--until-idle"
    )

    assert house.rows(other) == [NEW]


def _copy(topic: str, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in kafka.committed(topic):
        producer.produce(topic, key=record.key, value=record.value)
    assert producer.flush(60) == 0
