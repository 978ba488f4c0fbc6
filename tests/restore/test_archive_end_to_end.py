"""Archives of the real sinks restored by the real service into a real broker, and compared with Kafka.

What may differ is in the table of excuses that the layouts' own tests hold to be needed, each of them.
"""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from layouts.names import ArchiveName, NamePart, ObjectKind
from tests.layouts.archive import NAMES, Archive, archive
from tests.layouts.decoding import Restored
from tests.layouts.excuses import EXCUSES
from tests.layouts.restoring import differences_in_kafka, enveloped
from tests.layouts.test_archive_names import name_of
from tests.restore.archive_options import restore_config
from tests.support import aws, kafka
from tests.support.discovery import metric
from tests.support.service import Road
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(300)]

# What is said of objects and rows that are no records: it is not read off Kafka.
_NOT_IN_KAFKA: Final = re.compile(
    r".* rows refused|.* objects refused|order may differ|.* (dumped_key|part_taken_by_value)"
)
_ONE_A_LAYOUT: Final = ("aiven-jsonl_all", "confluent-avro_snappy", "lenses-envelope_json", "quix-new_jsonl")
_OWN_HEADERS: Final = "headrace."
_OFFSET: Final = "headrace.source.offset"


def _is_whole(name: str) -> bool:
    """True without side objects and tombstones, and without csv of quoted columns."""
    bucket = archive(name)
    names = [found for key in bucket.objects if (found := name_of(bucket, key)) is not None]
    kinds = {(each.kind, each.tombstones) for each in names}
    return name != "lenses-csv" and bool(names) and kinds == {(ObjectKind.VALUES, False)}


_CASES: Final = [
    pytest.param(name, marks=() if name in _ONE_A_LAYOUT else pytest.mark.long)
    for name in NAMES
    if _is_whole(name)
]


@pytest.mark.parametrize("name", _CASES)
def test_an_archive_comes_back_into_kafka(tmp_path: Path, name: str) -> None:
    """Key, value, headers, timestamp, order and source offset of every record, but for what is excused."""
    bucket = archive(name)
    began_ms = int(time.time() * 1000)
    topics = _new_topics(bucket)
    restored = _restored(tmp_path, bucket, topics)
    rows = {
        (topic, partition): [_row(record, began_ms, bucket) for record in records]
        for (topic, partition), records in restored.items()
    }

    excused = {each for each in EXCUSES[name] if not _NOT_IN_KAFKA.fullmatch(each)}
    assert differences_in_kafka(bucket, rows) == excused


def _new_topics(bucket: Archive) -> dict[str, str]:
    """A new topic for each topic that the names of the archive say, with its partitions."""
    partitions = max(record.partition for record in bucket.records) + 1
    names = {found.topic or bucket.records[0].topic for found in _names(bucket)}
    return {name: kafka.new_topic("restored", partitions=partitions) for name in names}


def _names(bucket: Archive) -> list[ArchiveName]:
    return [found for key in bucket.objects if (found := name_of(bucket, key)) is not None]


def _restored(
    folder: Path, bucket: Archive, topics: Mapping[str, str]
) -> dict[tuple[str, int], list[kafka.Record]]:
    """What a consumer of the new topics gets once every object has come to an end."""
    place = aws.new_bucket()
    for key, content in bucket.objects.items():
        aws.s3().put_object(Bucket=place, Key=key, Body=content)
    wanted = len(_names(bucket))
    road = Road(folder=folder, bucket=place, queue_url="", topic=next(iter(topics.values())))
    service = road.service(aws.unique("restore"), **_changes(bucket, topics))
    service.start(ready_seconds=180)
    try:
        until_sync(lambda: _ended(service.status()["objects"]) >= wanted, seconds=90, what="all objects")
        assert metric(service, "headrace_objects_total", state="failed") == 0
    finally:
        assert service.stop() == 0
    found: dict[tuple[str, int], list[kafka.Record]] = {}
    for topic, restored in topics.items():
        for record in kafka.committed(restored):
            found.setdefault((topic, record.partition), []).append(record)
    return found


def _ended(objects: Mapping[str, int]) -> int:
    return sum(objects.get(state, 0) for state in ("done", "skipped", "quarantined"))


def _changes(bucket: Archive, topics: Mapping[str, str]) -> dict[str, object]:
    names = _names(bucket)
    config = restore_config(bucket)
    if config["topic"] is not None:
        config["topic"] = next(iter(topics.values()))
    else:
        config["restore.topic.map"] = ",".join(f"{old}:{new}" for old, new in topics.items())
    if any(not each.is_exact(NamePart.PARTITION) for each in names):
        config["restore.partition"] = "partitioner"
    has_partition = all(each.partition is not None for each in names)
    more: dict[str, object] = {
        "sqs.queue.url": None,
        "poll.interval.ms": 1000,
        "ordering": "partition" if has_partition else "object",
        "record.headers": "source",
        "errors.tolerance": "all",
    }
    return {option.replace(".", "__"): value for option, value in (config | more).items()}


def _row(record: kafka.Record, began_ms: int, bucket: Archive) -> Restored:
    """The record without what Headrace added; a time of producing is none of the archive."""
    offsets = [int(value or b"") for header, value in record.headers if header == _OFFSET]
    return Restored(
        record.key,
        record.value,
        tuple(each for each in record.headers if not each[0].startswith(_OWN_HEADERS)),
        None if record.timestamp_ms >= began_ms else record.timestamp_ms,
        offsets[0] if offsets else None,
        enveloped(bucket),
    )
