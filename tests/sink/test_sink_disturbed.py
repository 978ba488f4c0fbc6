"""What happens to a sink from outside, on real parts: every record in exactly one object all the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bench.stage import Service
from tests.faults.processes import await_gone, descendants
from tests.faults.record_load import RecordLoad
from tests.faults.sink_faults import is_completion
from tests.sink.archive_account import Archive, new_archive
from tests.support import aws, kafka
from tests.support.proxy import Answer, Proxy
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]

_READY_SECONDS: Final = 300.0
_REFUSED: Final = Answer(status=503, body=b"<Error><Code>SlowDown</Code></Error>")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty bucket and an empty topic."""
    return new_archive(tmp_path)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Before S3."""
    with Proxy(aws.address()) as made:
        yield made


def load_of(archive: Archive) -> RecordLoad:
    """A few hundred records a second, not started."""
    return RecordLoad(bootstrap=kafka.address(), topic=archive.topic, groups=20, per_second=300, seed=1)


def produced(archive: Archive, count: int, *, partition: int = 0, first: int = 0) -> None:
    """So many records, each different."""
    archive.produce({"value": b'{"n":%d}' % (first + n), "partition": partition} for n in range(count))


def settled(archive: Archive, sink: Service) -> None:
    """Have the rest archived by a run that ends by itself."""
    archive.run(sink, seconds=_READY_SECONDS)
    assert archive.account() == (0, 0)


def await_objects(archive: Archive, more_than: int, seconds: float = 120) -> None:
    """Until more objects than these are visible."""
    until_sync(lambda: len(archive.keys()) > more_than, seconds=seconds, what="more objects")


def refuse_completions(proxy: Proxy, count: int) -> None:
    """From now on; returns when so many were refused: what they are of is committed and stays pending."""
    before = len(proxy.requests)
    proxy.on(_REFUSED, when=is_completion)
    until_sync(
        lambda: sum(map(is_completion, proxy.requests[before:])) >= count,
        seconds=120,
        what=f"{count} completions that are refused",
    )


def kill(sink: Service) -> None:
    """The driver; returns when nothing of it runs any more."""
    below = descendants(sink.pid)
    sink.kill()
    await_gone(below)


def test_another_instance_completes_what_s3_refused_the_first(archive: Archive, proxy: Proxy) -> None:
    """Killed while S3 refuses all completions: what was committed is completed once by whoever leads next."""
    name = aws.unique("sink")
    sink = archive.service(name, rotate__records=50, aws__s3__endpoint=proxy.url, instance__id="a")
    load = load_of(archive)
    sink.start(ready_seconds=_READY_SECONDS)
    load.start()
    try:
        await_objects(archive, 2)
        refuse_completions(proxy, 5)
        seen = set(archive.keys())
        kill(sink)
    finally:
        load.stop()
    assert set(archive.keys()) == seen
    settled(archive, archive.service(name, rotate__records=50, instance__id="a"))
    assert set(archive.keys()) > seen


def test_records_that_kafka_deleted_first_are_counted_and_passed(archive: Archive) -> None:
    """Retention has overtaken a sink that stood still: a warning with the range, and on from there."""
    name = aws.unique("sink")
    produced(archive, 100)
    sink = archive.service(name, rotate__age__ms=500)
    archive.run(sink, seconds=_READY_SECONDS)
    produced(archive, 200, first=100)
    admin = AdminClient({"bootstrap.servers": kafka.address()})
    admin.delete_records([TopicPartition(archive.topic, 0, 250)])[
        TopicPartition(archive.topic, 0, 250)
    ].result(30)

    archive.run(sink, seconds=_READY_SECONDS)
    assert set(archive.archived()) == {(0, n) for n in (*range(100), *range(250, 300))}
    assert set(archive.archived().values()) == {1}
    lines = [line for line in sink.log.read_text().splitlines() if "offsets_lost" in line]
    assert len(lines) == 1, sink.tail(40)
    assert "100" in lines[0]
    assert "250" in lines[0]
