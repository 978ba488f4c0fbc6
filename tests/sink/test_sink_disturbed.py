"""What happens to a sink from outside, on real parts: every record in exactly one object all the same."""

import resource
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.stage import Service
from headrace.model.errors import Exit
from tests.faults.processes import await_gone, descendants, workers
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


def limit_files(sink: Service, size: int) -> None:
    """What the Python workers may write into one file from now on."""
    for pid in workers(sink.pid):
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def limit_open_files(sink: Service, more: int | None) -> None:
    """How many files and connections the Python workers may open in addition; None: as many as ever."""
    for pid in workers(sink.pid):
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        most = hard if more is None else len(list(Path(f"/proc/{pid}/fd").iterdir())) + more
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))


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


def test_a_store_without_conditional_writes_gets_every_record_once(archive: Archive, proxy: Proxy) -> None:
    """It answers 501 to them: slots complete by a look, and so does the leader what a killed one has left."""
    name = aws.unique("sink")
    options = {
        "rotate__records": 50,
        "aws__s3__endpoint": proxy.url,
        "aws__s3__part__size": 5_242_880,
        "file__compression__type": "none",
        "instance__id": "a",
    }
    taken = f"{archive.topic}/0/{0:020}.headrace.jsonl"
    aws.s3().put_object(Bucket=archive.bucket, Key=taken, Body=b"of another program")
    text = b"x" * 250_000
    archive.produce({"value": b'{"n":%d,"x":"%s"}' % (n, text), "partition": n % 2} for n in range(200))
    sink = archive.service(name, **options)
    sink.start(ready_seconds=_READY_SECONDS)
    try:
        refuse_completions(proxy, 2)
        kill(sink)
    finally:
        sink.stop()
    proxy.off()
    unsupported = Answer(status=501, body=b"<Error><Code>NotImplemented</Code></Error>")
    proxy.on(unsupported, when=lambda request: "if-none-match" in request.headers)
    sink = archive.service(name, **options)
    sink.start("--until-idle", ready_seconds=_READY_SECONDS)
    assert sink.wait(_READY_SECONDS) == Exit.QUARANTINED, sink.tail()
    sink.stop()
    assert "conditions_unsupported" in sink.log.read_text()
    assert aws.s3().get_object(Bucket=archive.bucket, Key=taken)["Body"].read() == b"of another program"
    aws.s3().delete_object(Bucket=archive.bucket, Key=taken)
    # The 50 records whose name was taken are set aside, all others are there once.
    assert archive.account() == (50, 0)


def test_a_clean_stop_says_what_s3_has_not_completed(archive: Archive, proxy: Proxy) -> None:
    """It ends with 3 and names an object; the next run completes all of them."""
    name = aws.unique("sink")
    sink = archive.service(name, rotate__records=50, aws__s3__endpoint=proxy.url)
    sink.start(ready_seconds=_READY_SECONDS)
    produced(archive, 200)
    try:
        refuse_completions(proxy, 2)
    finally:
        code = sink.stop()
    assert code == Exit.UNUSABLE
    assert any("stop_unfinished" in line for line in sink.log.read_text().splitlines()), sink.tail()
    settled(archive, archive.service(name, rotate__records=50))


def test_a_key_goes_on_once_the_leader_has_completed_what_its_slot_could_not(
    archive: Archive, proxy: Proxy
) -> None:
    """S3 denies the upload once; the slot that leaves the object to the leader holds the partition still."""
    gone = Answer(status=404, body=b"<Error><Code>NoSuchUpload</Code></Error>")
    proxy.on(gone, when=is_completion, times=1)
    sink = archive.service(
        aws.unique("sink"),
        aws__s3__endpoint=proxy.url,
        file__name__template="{{key}}.jsonl",
        file__compression__type="none",
        output__envelope="false",
        output__fields="value",
        rotate__records=1,
    )

    def has(number: int) -> bool:
        return bool(archive.keys()) and archive.content("k.jsonl") == b'{"n":%d}\n' % number

    sink.start(ready_seconds=_READY_SECONDS)
    try:
        for number in range(3):
            archive.produce([{"key": b"k", "value": b'{"n":%d}' % number, "partition": 0}])
            until_sync(partial(has, number), seconds=60, what=f"record {number}")
        assert sink.status()["problems"] == {}
    finally:
        code = sink.stop()
    assert code == Exit.DONE
    assert "slot_lost" not in sink.log.read_text()


def test_instances_that_are_restarted_in_turn_lose_nothing(archive: Archive, tmp_path: Path) -> None:
    """A rolling restart: while one stops cleanly, the other takes over under load."""
    name = aws.unique("sink")
    options = {"rotate__age__ms": 1000, "lead__session__timeout__ms": 10_000}
    sinks = [archive.service(name, state__dir=str(tmp_path / f"state-{one}"), **options) for one in "ab"]
    load = load_of(archive)
    try:
        for sink in sinks:
            sink.start(ready_seconds=_READY_SECONDS)
        load.start()
        for sink in sinks:
            await_objects(archive, len(archive.keys()))
            assert sink.stop() == Exit.DONE
            await_objects(archive, len(archive.keys()), seconds=180)
            sink.start(ready_seconds=_READY_SECONDS)
    finally:
        load.stop()
        codes = [sink.stop() for sink in sinks]
    assert codes == [Exit.DONE, Exit.DONE]
    settled(archive, sinks[0])


def test_partitions_by_which_a_topic_grows_are_read_from_their_first_record(archive: Archive) -> None:
    """While it runs, with auto.offset.reset=latest too: none of these has old records."""
    produced(archive, 10)
    latest = {"consumer__override__auto__offset__reset": "latest"}
    sink = archive.service(aws.unique("sink"), rotate__age__ms=500, **latest)
    sink.start(ready_seconds=_READY_SECONDS)
    try:
        until_sync(
            lambda: {one["offset"] for one in sink.status()["sink"]["partitions"]} == {10, 0},
            seconds=60,
            what="the end of what is there",
        )
        kafka.add_partitions(archive.topic, 4)
        for partition in (0, 2, 3):
            produced(archive, 100, partition=partition, first=1000 * partition)
        later = {(0, 10 + n) for n in range(100)} | {(one, n) for one in (2, 3) for n in range(100)}
        until_sync(lambda: set(archive.archived()) == later, seconds=120, what="all that came later")
    finally:
        assert sink.stop() == Exit.DONE
    assert set(archive.archived().values()) == {1}


def test_a_topic_made_again_under_pending_uploads_is_archived_beside_the_old_one(
    archive: Archive, proxy: Proxy
) -> None:
    """What was committed of the old topic is completed; the new one begins at 0, under other names."""
    name = aws.unique("sink")
    sink = archive.service(name, rotate__records=50, aws__s3__endpoint=proxy.url)
    produced(archive, 500)
    sink.start(ready_seconds=_READY_SECONDS)
    try:
        proxy.on(_REFUSED, when=is_completion)
        until_sync(
            lambda: 500 in {one["offset"] for one in sink.status()["sink"]["partitions"]},
            seconds=120,
            what="the commit",
        )
        assert archive.keys() == []
        kafka.delete_topic(archive.topic)
        kafka.new_topic(name=archive.topic, partitions=2)
        produced(archive, 300, first=10_000)
        proxy.off()
        until_sync(lambda: len(archive.keys()) >= 16, seconds=120, what="objects of both topics")
    finally:
        assert sink.stop() == Exit.DONE
    archive.run(archive.service(name, rotate__records=50), seconds=_READY_SECONDS)

    old = sorted(row["value"]["n"] for key, row in archive.rows() if "topic_id=" not in key)
    new = sorted(row["value"]["n"] for key, row in archive.rows() if "topic_id=" in key)
    assert old == list(range(500))
    assert new == list(range(10_000, 10_300))


def test_a_topic_that_is_deleted_holds_back_no_other_and_what_was_read_of_it_is_kept(
    archive: Archive,
) -> None:
    """One slot has both; the objects of the deleted one are open, and no trigger would close them."""
    gone = kafka.new_topic(partitions=1)
    sink = archive.service(
        aws.unique("sink"),
        topics=f"{archive.topic},{gone}",
        tasks__max=1,
        rotate__records=50,
        rotate__age__ms=0,
    )
    producer = Producer({"bootstrap.servers": kafka.address()})
    for number in range(80):
        producer.produce(gone, value=b'{"n":%d}' % number, partition=0)
    assert not producer.flush(60)
    produced(archive, 20)

    def positions() -> list[tuple[str, int | None]]:
        return [(one["topic"], one["position"]) for one in sink.status()["sink"]["partitions"]]

    sink.start(ready_seconds=_READY_SECONDS)
    try:
        until_sync(lambda: (gone, 80) in positions(), seconds=120, what="all of it to be read")
        until_sync(lambda: len(archive.keys()) == 1, seconds=60, what="the object that is full")
        kafka.delete_topic(gone)
        until_sync(lambda: len(archive.keys()) == 2, seconds=60, what="its open object")
        produced(archive, 100, first=20)
        until_sync(lambda: len(archive.keys()) == 4, seconds=60, what="objects of the other topic")
        until_sync(lambda: sink.status()["problems"] == {}, seconds=60, what="no problem that stays")
    finally:
        code = sink.stop()
    assert code == Exit.DONE
    found = Counter((row["topic"], row["value"]["n"]) for _, row in archive.rows())
    assert set(found.values()) == {1}
    assert {n for topic, n in found if topic == gone} == set(range(80))
    assert {n for topic, n in found if topic == archive.topic} == set(range(120))
    assert "slot_lost" not in sink.log.read_text()


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
    ].result(60)

    archive.run(sink, seconds=_READY_SECONDS)
    assert set(archive.archived()) == {(0, n) for n in (*range(100), *range(250, 300))}
    assert set(archive.archived().values()) == {1}
    lines = [line for line in sink.log.read_text().splitlines() if "offsets_lost" in line]
    assert len(lines) == 1, sink.tail(40)
    assert "100" in lines[0]
    assert "250" in lines[0]


def test_a_full_buffer_directory_delays_and_loses_nothing(tmp_path: Path) -> None:
    """Spilling fails, `/status` says so and fetching waits; with room again all of it is archived."""
    archive = new_archive(tmp_path, partitions=4)
    sink = archive.service(
        aws.unique("sink"),
        tasks__max=1,
        buffer__max__bytes=16_777_216,
        rotate__age__ms=3_600_000,
        file__compression__type="none",
    )
    sink.start(ready_seconds=_READY_SECONDS)
    try:
        produced(archive, 1, first=10**6)
        until_sync(lambda: workers(sink.pid), seconds=60, what="a Python worker")
        # A limit on the size of files stands for a full disk.
        limit_files(sink, 0)
        archive.produce(
            {"value": b'{"n":%d,"x":"%s"}' % (n, b"x" * 2000), "partition": n % 4} for n in range(20_000)
        )
        until_sync(
            lambda: "buffer.dir" in " ".join(sink.status()["problems"].values()),
            seconds=120,
            what="the disk that is full as a problem",
        )
        assert not sink.is_ready()
        assert archive.keys() == []
        limit_files(sink, resource.RLIM_INFINITY)
        until_sync(
            lambda: (
                not sink.status()["problems"]
                and all(one["position"] == one["end"] for one in sink.status()["sink"]["partitions"])
            ),
            seconds=120,
            what="all records as read",
        )
    finally:
        assert sink.stop() == Exit.DONE
    assert archive.account() == (0, 0)


def test_too_few_open_files_delay_and_lose_nothing(tmp_path: Path) -> None:
    """Uploads and the buffer find no file descriptor: `/status` says which limit is to be raised."""
    archive = new_archive(tmp_path, partitions=1)
    sink = archive.service(
        aws.unique("sink"),
        tasks__max=1,
        buffer__max__bytes=16_777_216,
        rotate__records=300,
        rotate__age__ms=5000,
        file__compression__type="none",
        file__name__template="{{topic}}/{{partition}}/{{key}}/{{start_offset}}.jsonl",
    )

    def said() -> str:
        return " ".join(sink.status()["problems"].values())

    sink.start(ready_seconds=_READY_SECONDS)
    try:
        archive.produce([{"key": b"first", "value": b"{}"}])
        until_sync(lambda: len(archive.keys()) == 1, seconds=60, what="the first object")
        limit_open_files(sink, 0)
        text = b"x" * 2000
        archive.produce(
            {"key": b"k%d" % (n % 60), "value": b'{"n":%d,"x":"%s"}' % (n, text)} for n in range(20_000)
        )
        until_sync(lambda: "raise ulimit -n" in said(), seconds=120, what="the limit as a problem")
        assert not sink.is_ready()
        limit_open_files(sink, None)
        until_sync(lambda: archive.account() == (0, 0), seconds=120, what="all records")
        until_sync(lambda: not sink.status()["problems"], seconds=60, what="no problem that stays")
    finally:
        assert sink.stop() == Exit.DONE
    assert archive.account() == (0, 0)
    assert "slot_lost" not in sink.log.read_text()
