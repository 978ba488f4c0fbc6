"""Kills with -9 beside options with a way of their own through a transaction: the account is the same."""

import io
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from bench.stage import Service
from tests.sink.archive_account import Archive, new_archive
from tests.sink.test_sink_kills import kill_a_worker, kill_the_driver
from tests.support import aws, kafka
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(900)]

_KILLS: Final = (kill_a_worker, kill_the_driver, kill_a_worker, kill_the_driver)
_JSON: Final[dict[str, object]] = {"value__converter": "org.apache.kafka.connect.json.JsonConverter"}
_WITH_SCHEMA: Final = (
    b'{"schema":{"type":"struct","optional":false,"fields":[{"field":"group","type":"string"},'
    b'{"field":"n","type":"int64"}]},"payload":%b}'
)


class Transactions:
    """Produces transactions of ten records to partition 0, each other one aborted, until it is stopped."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.numbers: dict[bool, list[int]] = {True: [], False: []}
        """What was written by transactions that were committed (True) and aborted."""
        self._thread.start()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": kafka.address(), "transactional.id": aws.unique("writer")})
        producer.init_transactions(60)
        is_committed = True
        number = 0
        while not self._stop.wait(0.03):
            producer.begin_transaction()
            for each in range(number, number + 10):
                producer.produce(self._topic, b'{"n":%d}' % each, partition=0)
            assert not producer.flush(60)
            (producer.commit_transaction if is_committed else producer.abort_transaction)(60)
            self.numbers[is_committed] += range(number, number + 10)
            is_committed, number = not is_committed, number + 10

    def stop(self) -> None:
        """End, once the last transaction has."""
        self._stop.set()
        self._thread.join()


class Values:
    """Produces values to all partitions, one in ten of them no JSON, until it is stopped."""

    def __init__(self, topic: str, form: bytes = b"%b") -> None:
        self._topic = topic
        self._form = form
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.good: list[int] = []
        self.bad: list[bytes] = []
        self._thread.start()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": kafka.address(), "linger.ms": 5})
        number = 0
        while not self._stop.wait(0.05):
            for each in range(number, number + 30):
                value = self._form % (b'{"group":"g%d","n":%d}' % (each % 7, each))
                value = value if each % 10 else b"no JSON: %d" % each
                producer.produce(self._topic, value)
                self.good += [each] if each % 10 else []
                self.bad += [] if each % 10 else [value]
            producer.poll(0)
            number += 30
        assert not producer.flush(60)

    def stop(self) -> None:
        """End, once everything is acknowledged."""
        self._stop.set()
        self._thread.join()


def _killed_meanwhile(archive: Archive, sink: Service, load: Transactions | Values) -> None:
    """Kill the sink again and again while the load lasts, then have the rest archived."""
    try:
        sink.start(ready_seconds=240)
        for act in _KILLS:
            seen = len(archive.keys())
            until_sync(lambda seen=seen: len(archive.keys()) > seen + 2, seconds=150, what="more objects")  # type: ignore[misc]  # a lambda's default
            act(sink)
    finally:
        load.stop()
    sink.stop()
    archive.run(sink, seconds=240)


@pytest.mark.parametrize("isolation", ["read_uncommitted", None])
def test_aborted_transactions_are_as_archived_as_without_kills(tmp_path: Path, isolation: str | None) -> None:
    """Each record that the isolation shows is in one object, through workers and drivers that are killed."""
    archive = new_archive(tmp_path, partitions=1)
    options = {"rotate__records": 50, "consumer__override__isolation__level": isolation}
    sink = archive.service(aws.unique("sink"), **options)
    load = Transactions(archive.topic)
    _killed_meanwhile(archive, sink, load)

    found = Counter(row["value"]["n"] for _, row in archive.rows())
    shown = load.numbers[True] + ([] if isolation is None else load.numbers[False])
    assert found == Counter(shown)


def test_dead_letters_come_once_through_kills(tmp_path: Path) -> None:
    """A value that does not convert is one dead letter, one that does is in one object."""
    archive = new_archive(tmp_path, partitions=3)
    letters = kafka.new_topic("letters", partitions=1)
    sink = archive.service(
        aws.unique("sink"),
        rotate__age__ms=1000,
        file__name__template="{{value:group}}/{{topic}}/{{partition}}/"
        "{{start_offset:padding=true}}.headrace{{extension}}",
        errors__tolerance="all",
        errors__deadletterqueue__topic__name=letters,
        value__converter__schemas__enable="false",
        **_JSON,
    )
    load = Values(archive.topic)
    _killed_meanwhile(archive, sink, load)

    assert Counter(row["value"]["n"] for _, row in archive.rows()) == Counter(load.good)
    assert Counter(letter.value for letter in kafka.committed(letters, seconds=60)) == Counter(load.bad)


def test_parquet_by_field_through_kills(tmp_path: Path) -> None:
    """Row groups that a killed worker had encoded are encoded again, and no object has half of them."""
    archive = new_archive(tmp_path, partitions=3)
    sink = archive.service(
        aws.unique("sink"),
        rotate__age__ms=1000,
        output__format="parquet",
        output__layout="confluent",
        file__name__template="{{value:group}}/{{topic}}/{{partition}}/"
        "{{start_offset:padding=true}}.headrace{{extension}}",
        errors__tolerance="all",
        **_JSON,
    )
    load = Values(archive.topic, _WITH_SCHEMA)
    _killed_meanwhile(archive, sink, load)

    assert Counter(_numbers(archive)) == Counter(load.good)


def _numbers(archive: Archive) -> Iterator[int]:
    for key in sorted(archive.keys()):
        yield from pq.read_table(io.BytesIO(archive.content(key))).column("n").to_pylist()
