"""Aborted transactions in a sink's topic, on real parts: archived only where that is asked for."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.sink.archive_account import Archive, new_archive
from tests.support import aws, kafka

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def _write(archive: Archive) -> tuple[int, int]:
    """Write transactions of ten records, each other one aborted, the last too: how many were of each."""
    producer = Producer({"bootstrap.servers": kafka.address(), "transactional.id": aws.unique("writer")})
    producer.init_transactions(60)
    ended = {True: 0, False: 0}
    for number in range(6):
        is_committed = number % 2 == 0
        producer.begin_transaction()
        for row in range(10):
            producer.produce(archive.topic, b'{"tx":%d,"n":%d}' % (number, row), partition=0)
        producer.flush(60)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
        ended[is_committed] += 10
    return ended[True], ended[False]


def test_read_uncommitted_archives_what_was_aborted_and_the_default_does_not(tmp_path: Path) -> None:
    """Each once, both read to the end of the log; only one of the two warns."""
    archive = new_archive(tmp_path)
    committed, aborted = _write(archive)
    for isolation, count in ((None, committed), ("read_uncommitted", committed + aborted)):
        sink = archive.service(
            aws.unique("sink"),
            aws__s3__prefix=f"{isolation}/",
            rotate__records=7,
            consumer__override__isolation__level=isolation,
        )
        archive.run(sink)
        rows = [row for key, row in archive.rows() if key.startswith(f"{isolation}/")]
        assert len({row["offset"] for row in rows}) == len(rows) == count
        seen = {row["value"]["tx"] for row in rows}
        assert seen == ({0, 2, 4} if isolation is None else set(range(6)))
        warned = "consumer.override.isolation.level = read_uncommitted: records of" in sink.log.read_text()
        assert warned == (isolation is not None)
