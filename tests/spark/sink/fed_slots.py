"""A slot's partitions without Kafka: records are given to them, and a test says which the converter takes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.conversion.sink_records import SinkRecords
from headrace.formats.converted_records import Conversion
from headrace.model.columns import KafkaRecords
from headrace.model.sink_entries import TopicPartition
from headrace.model.sink_protocol import PartitionGrant
from spark.sink.bad_records import DeadLetters
from spark.sink.partition_work import PartitionWork
from spark.sink.record_feed import RecordFeed, safely
from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import NOON_MS, DrivenTools, kafka_records
from tests.support.until import until_sync

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class PausedReader:
    """Which partitions give no records."""

    paused: set[TopicPartition] = field(default_factory=set)
    assigned: tuple[dict[TopicPartition, int], dict[TopicPartition, int]] = ({}, {})

    def assign(
        self, starts: Mapping[TopicPartition, int], leader_epochs: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """See `FeedReader`."""
        self.paused.clear()
        self.assigned = dict(starts), dict(leader_epochs or {})

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See `FeedReader`."""
        self.paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See `FeedReader`."""
        self.paused.difference_update(partitions)


@dataclass
class _Converter:
    """Fails as a test says for records at some offsets."""

    real: SinkRecords
    fails: Callable[[set[int]], None]

    def convert(self, records: KafkaRecords) -> Conversion:
        """See `SinkRecords`."""
        self.fails(set(records.offsets.tolist()))
        return self.real.convert(records)

    def bounded(self, records: KafkaRecords) -> Iterator[KafkaRecords]:
        """See `SinkRecords`."""
        return self.real.bounded(records)


class FedSlot:
    """The partitions of a slot, without Kafka: what they have read, and what is in the bucket."""

    def __init__(
        self,
        made: DrivenTools,
        fails: Callable[[set[int]], None],
        *partitions: int,
        limit_of: Callable[[str], int | None] | None = None,
    ) -> None:
        self.s3 = made.s3
        tools = made.tools.for_topic("t")
        self._uploads = tools.uploads
        tools = replace(tools, converter=_Converter(tools.converter, fails))
        if limit_of is not None:
            errors = tools.settings.errors
            letters = DeadLetters("archive", 0, errors, max_bytes=1_000_000, limit_of=limit_of)
            tools = replace(tools, dead_letters=letters)
        self._tools = tools
        self.works: dict[TopicPartition, PartitionWork] = {}
        for number in partitions:
            self.begin_again(PartitionGrant(topic="t", partition=number, topic_id="id", offset=0))
        self.reader = PausedReader()
        self.now = 0.0
        self.between = 0
        self.feed = RecordFeed(self.works, self.reader, between=self._note_between, now=lambda: self.now)
        self.letters: list[bytes | None] = []

    def begin_again(self, grant: PartitionGrant) -> None:
        """Have a partition from its checkpoint."""
        self.works[grant.partition_of] = PartitionWork(grant, self._tools)

    def _note_between(self) -> None:
        self.between += 1

    def read(self, *records: KafkaRecords) -> None:
        """Give these to the feed."""
        for one in records:
            self.feed.add(one, NOON_MS)

    def read_again(self, records: KafkaRecords) -> int:
        """Read from the checkpoint until nothing fails; how often that took."""
        work = self.works[P0]
        for times in range(40):
            self.read(records)
            if work.failure() is None:
                return times
            assert work.transaction(NOON_MS) is None
            work.abandon()
        raise AssertionError(work.failure())

    def close(self) -> list[int]:
        """Close and complete all; the offsets in visible objects."""
        for work in self.works.values():
            safely(work, work.objects.close_all)
        until_sync(self._commit, what="everything is committed")
        rows = [line for one in self.s3.objects.values() for line in one.body.splitlines()]
        return sorted(json.loads(row)["offset"] for row in rows)

    def _commit(self) -> bool:
        for work in self.works.values():
            commit = work.transaction(NOON_MS)
            if commit is not None:
                work.committed(commit)
                self.letters += [letter.value for letter in commit.dead_letters]
                wait([self._uploads.complete(one) for one in commit.objects])
        return not any(work.objects.closed for work in self.works.values())


@contextmanager
def fed_slots(tmp_path: Path) -> Iterator[Callable[..., FedSlot]]:
    """What makes slots of a sink that writes offsets and values as JSON Lines."""
    with ExitStack() as closing:

        def made(
            fails: Callable[[set[int]], None],
            *partitions: int,
            limit_of: Callable[[str], int | None] | None = None,
            **options: Any,
        ) -> FedSlot:
            config = {
                "bucket": "bucket",
                "aws.s3.bucket.name": "bucket",
                "topics": "t",
                "output.fields": "value,offset",
                "file.compression.type": "none",
                "rotate.records": "1000000",
                **options,
            }
            tools = DrivenTools(config, tmp_path)
            closing.callback(tools.close)
            return FedSlot(tools, fails, *(partitions or (0,)), limit_of=limit_of)

        yield made


def records(begin: int, end: int, partition: int = 0) -> KafkaRecords:
    """Records of a partition of t, whose values are their offsets."""
    return kafka_records(
        [
            Record(
                topic="t",
                partition=partition,
                offset=offset,
                timestamp=NOON_MS,
                key=None,
                value=b"%d" % offset,
                headers=(),
            )
            for offset in range(begin, end)
        ]
    )
