"""Kills with -9 while records come: no record is lost, none is in two objects."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bench.stage import Service
from tests.faults.processes import kill, workers
from tests.sink.archive_account import SIDES, Archive, new_archive
from tests.sink.test_sink_end_to_end import group_offsets
from tests.support import aws, kafka
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


class Load:
    """Produces a few hundred records a second, each different, until it is stopped."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": kafka.address(), "linger.ms": 5})
        number = 0
        while not self._stop.wait(0.05):
            for _ in range(40):
                value = b'{"group":"g%d","n":%d}' % (number % 20, number)
                producer.produce(self._topic, value, key=b"k" + value, headers=[("h", b"h" + value)])
                number += 1
            producer.poll(0)
        assert not producer.flush(60)

    def stop(self) -> None:
        """End, once everything is acknowledged."""
        self._stop.set()
        self._thread.join()


def settle(archive: Archive, sink: Service) -> None:
    """Have the rest archived by a run that ends by itself."""
    sink.stop()
    archive.run(sink)
    assert archive.account() == (0, 0)


OPTIONS: dict[str, dict[str, object]] = {
    "by records": {"rotate__records": 200},
    "by wall clock": {
        "rotate__age__ms": 700,
        "file__name__template": "{{topic}}/{{date:yyyy-MM-dd/HH}}/{{partition}}/"
        "{{start_offset:padding=true}}.headrace{{extension}}",
        "file__name__timestamp__source": "wallclock",
    },
    "by field": {
        "rotate__age__ms": 1500,
        "file__name__template": "{{value:group}}/{{topic}}/{{partition}}/"
        "{{start_offset:padding=true}}.headrace{{extension}}",
        "value__converter": "org.apache.kafka.connect.json.JsonConverter",
        "value__converter__schemas__enable": "false",
    },
    "together": {
        "rotate__together": "total",
        "rotate__records": 3000,
        "rotate__age__ms": 5000,
        "rotate__age__from": "closed",
        "file__name__values": "plain",
        "file__name__template": "{{value:group}}/{{topic}}/{{partition}}/{{batch_offset}}"
        ".headrace{{extension}}",
        "value__converter": "org.apache.kafka.connect.json.JsonConverter",
        "value__converter__schemas__enable": "false",
    },
}


BESIDE: dict[str, object] = {
    "rotate__age__ms": 700,
    "file__name__template": "topics/{{topic}}/partition={{partition}}/{{topic}}+{{partition}}+"
    "{{start_offset:padding=true}}{{extension}}",
    **SIDES,
}


def kill_a_worker(sink: Service) -> None:
    """One of Spark's Python workers."""
    kill(workers(sink.pid)[:1])


def kill_the_driver(sink: Service) -> None:
    """The whole process, and start it again."""
    sink.kill()
    sink.start()


@pytest.mark.parametrize("rotation", ["by field"])
def test_a_killed_worker_and_a_killed_driver_lose_and_repeat_nothing(tmp_path: Path, rotation: str) -> None:
    """One of each, in the middle of the load."""
    archive = new_archive(tmp_path)
    name = aws.unique("sink")
    sink = archive.service(name, **OPTIONS[rotation])
    load = Load(archive.topic)
    try:
        sink.start()
        for act in (kill_a_worker, kill_the_driver):
            seen = len(archive.keys())
            until_sync(lambda seen=seen: len(archive.keys()) > seen, seconds=180, what="more objects")  # type: ignore[misc]  # a lambda's default
            act(sink)
        load.stop()
        # By the one that runs: its objects close by their age, and another start takes ten seconds of CPU.
        ends = dict.fromkeys(range(2), 0)
        for partition, offset in archive.in_kafka():
            ends[partition] = max(ends[partition], offset + 1)
        until_sync(
            lambda: group_offsets(name, archive.topic, 2) == ends, seconds=180, what="every record's offset"
        )
        assert sink.stop() == 0
    finally:
        load.stop()
        sink.stop()
    assert archive.account() == (0, 0)


@pytest.mark.long
def test_at_least_once_loses_nothing_through_kills(tmp_path: Path) -> None:
    """Without exactly once, records may be in two objects, and none is in no object."""
    archive = new_archive(tmp_path)
    sink = archive.service(aws.unique("sink"), exactly__once__support="disabled", **OPTIONS["by field"])
    load = Load(archive.topic)
    try:
        sink.start()
        for act in (kill_a_worker, kill_the_driver, kill_a_worker):
            seen = len(archive.keys())
            until_sync(lambda seen=seen: len(archive.keys()) > seen, seconds=180, what="more objects")  # type: ignore[misc]  # as above
            act(sink)
    finally:
        load.stop()
        if not sink.is_running:
            sink.start()
    sink.stop()
    archive.run(sink)
    missing, repeated = archive.account()
    print(f"{repeated} records in two objects")  # noqa: T201  # what the test allows
    assert missing == 0


@pytest.mark.long
def test_side_objects_stay_with_their_values_through_kills(tmp_path: Path) -> None:
    """Worker and driver are killed: whoever sees values sees their keys and headers, row by row, once."""
    archive = new_archive(tmp_path)
    sink = archive.service(aws.unique("sink"), **BESIDE)
    load = Load(archive.topic)
    try:
        sink.start()
        for act in (kill_a_worker, kill_a_worker, kill_the_driver):
            seen = len(archive.keys())
            until_sync(lambda seen=seen: len(archive.keys()) > seen, seconds=180, what="more objects")  # type: ignore[misc]  # as above
            # Also between the three completions: values are the last.
            assert_values_have_sides(archive)
            act(sink)
    finally:
        load.stop()
        if not sink.is_running:
            sink.start()
    sink.stop()
    archive.run(sink)

    assert_values_have_sides(archive)
    rows = Counter(row for key in values_of(archive.keys()) for row in beside(archive, key))
    produced = Counter(record.value or b"" for record in kafka.committed(archive.topic, seconds=60))
    assert rows == Counter({(b"k" + value, value, b"h" + value): count for value, count in produced.items()})


def values_of(keys: list[str]) -> list[str]:
    """The keys of objects of values."""
    return [key for key in keys if ".keys." not in key and ".headers." not in key]


def assert_values_have_sides(archive: Archive) -> None:
    """Each object of values that is visible has visible ones beside it."""
    values = [key.removesuffix(".jsonl.gz") for key in values_of(archive.keys())]
    # Listed again: what came meanwhile came with its sides before it.
    known = set(archive.keys())
    assert {f"{one}.{side}.jsonl.gz" for one in values for side in ("keys", "headers")} <= known


def beside(archive: Archive, key: str) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The rows of three objects put together."""
    stem = key.removesuffix(".jsonl.gz")
    values = archive.content(key).splitlines()
    keys = archive.content(f"{stem}.keys.jsonl.gz").splitlines()
    headers = archive.content(f"{stem}.headers.jsonl.gz").splitlines()
    for value, own_key, own_headers in zip(values, keys, headers, strict=True):
        (header,) = json.loads(own_headers)["headers"]
        yield json.loads(own_key).encode(), value, header["value"].encode()


@pytest.mark.long
def test_another_template_after_a_crash_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Some groups are archived ahead of the committed offset by the old names; they are known by those."""
    archive = new_archive(tmp_path)
    name = aws.unique("sink")
    # A group of a few records closes late, one of many closes often: the offset is held back.
    options = OPTIONS["by field"] | {"rotate__age__ms": 60_000, "rotate__records": 50}
    archive.produce(
        {"value": b'{"group":"g%d","n":%d}' % (0 if number % 50 else 1, number)} for number in range(3000)
    )
    sink = archive.service(name, **options)
    sink.start()
    until_sync(lambda: len(archive.keys()) > 20, seconds=180, what="objects of the large group")
    sink.kill()

    plain = {**options, "file__name__template": None, "rotate__records": 500}
    archive.run(archive.service(name, **plain))

    assert archive.account() == (0, 0)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rotation", sorted(OPTIONS))
def test_ten_kills_at_random_moments(tmp_path: Path, rotation: str) -> None:
    """Workers and drivers, in turn and at random moments."""
    chance = random.Random(rotation)  # moments, no secrets
    archive = new_archive(tmp_path, partitions=3)
    sink = archive.service(aws.unique("sink"), **OPTIONS[rotation])
    load = Load(archive.topic)
    acts: list[Callable[[Service], None]] = [kill_a_worker, kill_a_worker, kill_the_driver]
    try:
        sink.start()
        for number in range(10):
            seen = len(archive.keys())
            until_sync(lambda seen=seen: len(archive.keys()) > seen, seconds=120, what="more objects")  # type: ignore[misc]  # as above
            ends = time.monotonic() + chance.random()
            until_sync(lambda ends=ends: time.monotonic() >= ends, seconds=5, what="a random moment")  # type: ignore[misc]  # as above
            acts[number % len(acts)](sink)
    finally:
        load.stop()
    settle(archive, sink)
