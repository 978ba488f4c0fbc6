"""A sink's worker stays within the memory that is promised: many groups, large values, a slow S3."""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from bench import processes
from bench.lines import lines
from bench.memory import PROMISE_MIB
from bench.stage import Service
from headrace.model.errors import Exit
from tests.faults.sink_faults import is_part
from tests.sink.archive_account import SIDES, Archive, new_archive
from tests.support import aws, kafka
from tests.support.proxy import Proxy, Slow
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(900)]

_MIB: Final = 1024 * 1024
_VALUE_BYTES: Final = 5 * _MIB
_SLOW_BYTES_PER_SECOND: Final = 1_000_000
# What all of them take is above the bound: one that kept them would not be below it.
_RECORDS: Final = 80
_READY_SECONDS: Final = 300.0
_SLOW_PARTS: Final = 10
_GROUPS: Final = 1_000
_ROUNDS: Final = 800
_SIDES: Final = {
    "file__name__template": "{{topic}}+{{partition}}+{{start_offset:padding=true}}{{extension}}",
    **SIDES,
}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty bucket, and an empty topic that takes large records."""
    made = new_archive(tmp_path)
    kafka.limit_record_bytes(made.topic, 2 * _VALUE_BYTES)
    return made


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Before S3."""
    with Proxy(aws.address()) as made:
        yield made


def value(number: int) -> bytes:
    """5 MiB of JSON which no compression makes much smaller, the same for the same number."""
    text = random.Random(number).randbytes(_VALUE_BYTES // 2 - 16).hex()
    return b'{"n":%d,"x":"%s"}' % (number, text.encode())


def produce(topic: str) -> None:
    """All records, with a key and a header each."""
    producer = Producer({"bootstrap.servers": kafka.address(), "message.max.bytes": 2 * _VALUE_BYTES})
    for number in range(_RECORDS):
        headers: list[tuple[str, str | bytes | None]] = [("h", b"h%d" % number)]
        producer.produce(topic, value(number), b"k%d" % number, headers=headers, partition=number % 2)
        # A few at a time, so that this process has no more of them.
        assert not producer.flush(60)


def sink_of(archive: Archive, **changes: Any) -> Service:
    """A sink of one worker, whose objects close by their bytes and at its end."""
    options: dict[str, Any] = {"tasks__max": 1, "rotate__age__ms": 3_600_000, **changes}
    return archive.service(aws.unique("sink"), **options)


def assert_bounded(sink: Service) -> None:
    """No worker has ever had more memory than is promised."""
    peak = max(one.peak_mib for one in processes.tree(sink.pid) if one.kind == "workers")
    print(f"{peak:.0f} MiB at most")  # noqa: T201  # a figure of docs
    assert peak < PROMISE_MIB


def is_read(sink: Service) -> bool:
    """Whether all records were fetched."""
    partitions = sink.status()["sink"]["partitions"]
    return sum(one["position"] or 0 for one in partitions) == _RECORDS


def keys_of_values(archive: Archive) -> list[str]:
    """The objects that are not of keys or headers beside them."""
    found = archive.keys()
    return [key for key in found if ".keys." not in key and ".headers." not in key]


def rows(archive: Archive, key: str) -> list[dict[str, Any]]:
    """The values in an object."""
    found = (json.loads(line) for line in archive.content(key).splitlines())
    return [row.get("value", row) for row in found]


def beside(archive: Archive, key: str, role: str) -> list[Any]:
    """The rows of the object of keys, or headers, beside one of values."""
    lines = archive.content(key.replace(".jsonl", f".{role}.jsonl")).splitlines()
    return [json.loads(line) for line in lines]


def archived(archive: Archive) -> Counter[tuple[int, str]]:
    """The number and the digest of each value in an object, as often as it is there."""
    return Counter(
        (row["n"], hashlib.sha256(json.dumps(row, separators=(",", ":")).encode()).hexdigest())
        for key in keys_of_values(archive)
        for row in rows(archive, key)
    )


def all_once() -> Counter[tuple[int, str]]:
    """What has to be found."""
    return Counter((number, hashlib.sha256(value(number)).hexdigest()) for number in range(_RECORDS))


def test_a_thousand_open_groups_stay_within_the_bound(archive: Archive) -> None:
    """More than buffer.max.bytes holds, of records of 200 bytes; all objects close at their end."""
    producer = Producer({"bootstrap.servers": kafka.address(), "linger.ms": 50, "compression.type": "lz4"})
    for turn in range(_ROUNDS):
        for number, line in enumerate(lines(turn * _GROUPS, _GROUPS).splitlines()):
            producer.produce(archive.topic, line, b"group-%d" % number, partition=0)
        assert not producer.flush(60)
    sink = sink_of(
        archive,
        file__name__template="{{topic}}/{{key}}/{{partition}}-{{start_offset}}",
        file__compression__type="none",
        rotate__records=_ROUNDS,
        output__fields="value",
        output__envelope="false",
    )
    sink.start(ready_seconds=_READY_SECONDS)
    try:
        until_sync(
            lambda: sink.status()["records_total"] == _GROUPS * _ROUNDS, seconds=400, what="all archived"
        )
        assert_bounded(sink)
    finally:
        assert sink.stop() == Exit.DONE
    assert len(archive.keys()) == _GROUPS


def test_an_s3_that_takes_a_megabyte_a_second_bounds_what_is_fetched(archive: Archive, proxy: Proxy) -> None:
    """Fetching waits, the sink says for what; parts that took longest are sent once, and nothing is lost."""
    # The proxy slows down each connection for itself.
    sink = sink_of(
        archive,
        aws__s3__endpoint=proxy.url,
        aws__s3__max__connections=1,
        aws__s3__part__size=5 * _MIB,
        file__compression__type="none",
    )
    proxy.on(Slow(request_bytes_per_second=_SLOW_BYTES_PER_SECOND), when=is_part)
    produce(archive.topic)
    sink.start(ready_seconds=_READY_SECONDS)
    try:
        until_sync(
            lambda: "S3 takes parts slowly" in " ".join(sink.status()["problems"].values()),
            seconds=240,
            what="a problem that names S3",
        )
        assert not sink.is_ready()
        until_sync(
            lambda: sum(is_part(request) for request, _ in proxy.answers) >= _SLOW_PARTS,
            seconds=300,
            what="parts that a slow S3 has taken",
        )
        assert not is_read(sink)
        assert archive.keys() == []
        proxy.off()
        until_sync(lambda: is_read(sink), seconds=300, what="all records as read")
        until_sync(lambda: not sink.status()["problems"], seconds=120, what="no problem")
        assert_bounded(sink)
    finally:
        assert sink.stop() == Exit.DONE
    assert "uploads_slow" in sink.log.read_text()
    # None was given up and sent again while it went on its way.
    parts = [request.path for request in proxy.requests if is_part(request)]
    assert len(parts) == len(set(parts))
    archive.run(sink, seconds=_READY_SECONDS)
    assert archived(archive) == all_once()


@pytest.mark.parametrize("sides", [{}, _SIDES], ids=["values", "values, keys and headers"])
def test_large_values_pass_an_ordinary_s3(archive: Archive, sides: dict[str, Any]) -> None:
    """Each is in one object, with its key and its header beside it where so told."""
    sink = sink_of(archive, **sides)
    sink.start(ready_seconds=_READY_SECONDS)
    try:
        produce(archive.topic)
        until_sync(lambda: is_read(sink), seconds=300, what="all records as read")
        assert_bounded(sink)
    finally:
        assert sink.stop() == Exit.DONE
    archive.run(sink, seconds=_READY_SECONDS)

    assert archived(archive) == all_once()
    for key in keys_of_values(archive) if sides else ():
        numbers = [row["n"] for row in rows(archive, key)]
        keys, headers = (beside(archive, key, role) for role in ("keys", "headers"))
        assert keys == [f"k{number}" for number in numbers]
        assert [row["headers"][0]["value"] for row in headers] == [f"h{number}" for number in numbers]
