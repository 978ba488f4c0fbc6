"""What a sink writes of given records, without any service: conversion, grouping, encoding and uploads.

The other direction of `tests/headrace/vendors/archive.py`: an archive's `config` and `records` in, its
objects out.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from headrace.model.columns import TIMESTAMP_CREATED, KafkaRecords, column_of
from headrace.model.sink_entries import ObjectState
from headrace.model.sink_protocol import PartitionGrant
from headrace.options import Settings
from headrace.s3.completion import CompletionState
from headrace.vendors.load import load
from spark.sink.bad_records import DeadLetter, DeadLetters
from spark.sink.object_keys import RecurringNames
from spark.sink.partition_work import PartitionWork, Stop
from spark.sink.routed_tools import RoutedTools
from spark.sink.sink_work import sink_task_settings
from spark.sink.slot_uploads import SlotUploads
from tests.headrace.vendors.archive import Record
from tests.support.memory_s3 import MemoryS3, StoredObject
from tests.support.until import until_sync

NOON_MS: Final = 1_800_014_400_000
"""2027-01-15 12:00 UTC: when a driven sink reads its records, unless a test says otherwise."""
DAY_MS: Final = 86_400_000
_MESSAGE_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a sink made of its records.

    `objects` are the visible ones, by key. `stops` are the partitions that stand at a record. `committed` is
    the next offset to read of each partition, were the sink ended now. `unwritten` counts objects that are
    open still, `puts` the requests that put a whole object. `set_aside` are keys that another object has.
    """

    objects: dict[str, StoredObject]
    stops: dict[tuple[str, int], Stop]
    dead_letters: tuple[DeadLetter, ...]
    committed: dict[tuple[str, int], int]
    unwritten: int
    puts: int = 0
    set_aside: frozenset[str] = frozenset()


def written_objects(
    config: Mapping[str, Any], records: Iterable[Record], **options: Any
) -> dict[str, tuple[bytes, dict[str, str]]]:
    """The body and the tags of each object that a sink writes of these records; options as of `written`."""
    found = written(config, records, **options).objects
    return {key: (each.body, each.tags) for key, each in found.items()}


def written(
    config: Mapping[str, Any],
    records: Iterable[Record],
    *,
    now_ms: int = NOON_MS,
    later_ms: int = DAY_MS,
    batch: int | Sequence[int] = 1000,
    stops: bool = False,
    worker: str | None = None,
    there: Mapping[str, bytes] = MappingProxyType({}),
) -> Written:
    """What a sink with this configuration, of whatever maker, makes of the records.

    All are read at `now_ms`, `batch` at once, or so many as its numbers say in turn; then the clock shows
    `later_ms` more, which closes what closes by time, and with `stops` the sink is ended. `worker` is the
    text of a Connect worker's file. `there` are objects that somebody else has put before.
    """
    settings = _loaded(json.dumps(dict(config)), worker)
    with tempfile.TemporaryDirectory() as folder:
        sink = _DrivenSink(settings, Path(folder), there)
        try:
            for part in _by_partition(records):
                sink.add(part, now_ms, batch)
            sink.close_due(now_ms + later_ms)
            if stops:
                sink.stop()
            sink.commit(now_ms + later_ms)
            return sink.result()
        finally:
            sink.close()


@lru_cache(maxsize=256)
def _loaded(config: str, worker: str | None) -> Settings:
    """The settings of a configuration as JSON: many tests write with the same, and they cannot be changed.

    A configuration that leads to files is loaded once too, so a test that changes those calls
    `sink_settings` itself.
    """
    return sink_settings(json.loads(config), worker=worker)


def sink_settings(
    config: Mapping[str, Any], *, worker: str | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings of a sink's configuration: as its file has it, with what only its surroundings say."""
    given = {
        "name": "archive",
        "bootstrap.servers": "127.0.0.1:9092",
        **{name: value for name, value in config.items() if name != "bucket"},
    }
    return load(
        json.dumps(given),
        kind="json",
        environment={"HOME": "/home/me", **(environment or {})},
        read_file=lambda path: Path(path).read_text(),
        worker_config=worker,
    )


def kafka_records(records: Sequence[Record]) -> KafkaRecords:
    """Records of one topic-partition as a slot fetches them."""
    headers = [record.headers for record in records]
    return KafkaRecords(
        topic=records[0].topic,
        partition=records[0].partition,
        offsets=np.array([record.offset for record in records], np.int64),
        timestamps_ms=np.array([record.timestamp for record in records], np.int64),
        timestamp_types=np.full(len(records), TIMESTAMP_CREATED, np.int64),
        keys=column_of([record.key for record in records]),
        values=column_of([record.value for record in records]),
        headers=headers if any(headers) else None,
    )


class DrivenTools:
    """What the partitions of a slot work with, over a bucket in memory."""

    def __init__(self, config: Mapping[str, Any] | Settings, folder: Path) -> None:
        settings = config if isinstance(config, Settings) else sink_settings(config)
        sink = settings.sink
        assert sink is not None
        self.s3 = MemoryS3()
        self.now_ms = NOON_MS
        self.uploads = SlotUploads(
            self.s3.calls(sink.upload),
            part_bytes=sink.upload.part_bytes,
            max_bytes=sink.buffer.max_bytes,
            directory=folder,
            is_direct=not settings.kafka.exactly_once,
        )
        self.recurring = RecurringNames()
        self.tools = RoutedTools(
            (),
            settings=sink_task_settings(settings, sink),
            clock=lambda: self.now_ms,
            uploads=self.uploads,
            dead_letters=DeadLetters("archive", 0, settings.errors, max_bytes=_MESSAGE_BYTES),
            recurring=self.recurring,
        )

    def close(self) -> None:
        """End its threads."""
        self.uploads.close()


class _DrivenSink:
    """A slot of the sink that has all partitions, and nothing around it."""

    def __init__(self, settings: Settings, folder: Path, there: Mapping[str, bytes]) -> None:
        self._made = DrivenTools(settings, folder)
        self._s3, self._uploads = self._made.s3, self._made.uploads
        self._tools, self._recurring = self._made.tools, self._made.recurring
        for key, body in there.items():
            self._s3.objects[key] = StoredObject(body=body, tags={}, metadata={}, headers={})
        self._set_aside: set[str] = set()
        self._works: list[PartitionWork] = []
        self._letters: list[DeadLetter] = []

    def add(self, records: list[Record], now_ms: int, batch: int | Sequence[int]) -> None:
        """Read a partition's records."""
        first = records[0]
        self._made.now_ms = now_ms
        grant = PartitionGrant(topic=first.topic, partition=first.partition, topic_id="id", offset=0)
        work = PartitionWork(grant, self._tools.for_topic(first.topic))
        self._works.append(work)
        rest, sizes = records, cycle([batch] if isinstance(batch, int) else batch)
        while rest:
            size = next(sizes)
            work.add(kafka_records(rest[:size]), now_ms)
            rest = rest[size:]

    def close_due(self, now_ms: int) -> None:
        """Let time pass."""
        for work in self._works:
            work.objects.close_due(now_ms)

    def stop(self) -> None:
        """End the sink as an operator does."""
        for work in self._works:
            work.objects.close_all()

    def commit(self, now_ms: int) -> None:
        """Commit and complete everything that is closed."""
        until_sync(lambda: self._commit(now_ms), what="all closed objects committed")

    def _commit(self, now_ms: int) -> bool:
        """True when nothing is closed and not committed."""
        for work in self._works:
            commit = work.transaction(now_ms)
            if commit is None:
                continue
            if self._uploads.is_direct:
                assert {upload.key for one in commit.objects for upload in one.uploads} <= set(
                    self._s3.objects
                )
            work.committed(commit)
            self._letters += commit.dead_letters
            pending = [one for one in commit.objects if one.state is ObjectState.PENDING]
            answers = {one.main.key: self._uploads.complete(one) for one in pending}
            wait(answers.values())
            for key, answer in answers.items():
                if answer.result().state is CompletionState.NAME_TAKEN:
                    self._set_aside.add(key)
                else:
                    assert answer.result().state is CompletionState.COMPLETED, answer.result()
            for each in commit.objects:
                self._recurring.release(each.id)
        return not any(work.objects.closed for work in self._works)

    def result(self) -> Written:
        """What came of it."""
        return Written(
            objects=dict(self._s3.objects),
            stops={_place(work): work.stop for work in self._works if work.stop is not None},
            dead_letters=tuple(self._letters),
            committed={_place(work): work.committed_offset for work in self._works},
            unwritten=sum(work.objects.open_count for work in self._works),
            puts=self._s3.puts,
            set_aside=frozenset(self._set_aside),
        )

    def close(self) -> None:
        """End its threads."""
        self._made.close()


def _place(work: PartitionWork) -> tuple[str, int]:
    return work.partition.topic, work.partition.partition


def _by_partition(records: Iterable[Record]) -> list[list[Record]]:
    """The records of each topic-partition in the order of their offsets."""

    def partition(record: Record) -> tuple[str, int]:
        return record.topic, record.partition

    ordered = sorted(records, key=lambda record: (*partition(record), record.offset))
    return [list(each) for _, each in groupby(ordered, key=partition)]
