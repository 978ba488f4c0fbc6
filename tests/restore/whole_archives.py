"""The archives of the real sinks: what to write to restore them, and what comes of it."""

import re
from collections.abc import Mapping
from typing import Final

from headrace.names.archive_names import ArchiveName, NameElement
from tests.headrace.vendors.archive import Archive
from tests.headrace.vendors.decoding import Restored
from tests.headrace.vendors.excuses import EXCUSES
from tests.headrace.vendors.restoring import enveloped
from tests.headrace.vendors.test_archive_names import name_of
from tests.restore.archive_options import restore_config
from tests.support import kafka

# What is said of objects and rows that are no records: it is not read off Kafka.
_NOT_IN_KAFKA: Final = re.compile(
    r".* rows refused|.* objects refused|.* tombstones held back|order may differ"
    r"|.* (dumped_key|part_taken_by_value|no_column_of_values)"
)
_OWN_HEADERS: Final = "headrace."
_OFFSET: Final = "headrace.source.offset"


def names_in(bucket: Archive) -> list[ArchiveName]:
    """What the keys of the archive say, index objects left out."""
    return [found for key in bucket.objects if (found := name_of(bucket, key)) is not None]


# What differs or does not, as it happens: names that are certain neither of partition nor of order.
MAY_DIFFER: Final = {"lenses-padding_right": {"order"}}


def excused_in_kafka(name: str) -> set[str]:
    """What may differ for a consumer of the restored topics."""
    return {each for each in EXCUSES[name] if not _NOT_IN_KAFKA.fullmatch(each)}


def topics_in(bucket: Archive) -> set[str]:
    """The topics that the names of the archive say."""
    return {found.topic or bucket.records[0].topic for found in names_in(bucket)}


def options_for(bucket: Archive, topics: Mapping[str, str]) -> dict[str, str | None]:
    """The options that restore the archive into these topics; None leaves one of the test's own out."""
    names = names_in(bucket)
    config = restore_config(bucket)
    if config["topic"] is not None:
        config["topic"] = next(iter(topics.values()))
    else:
        config["restore.topic.map"] = ",".join(f"{old}:{new}" for old, new in topics.items())
    if any(not each.is_exact(NameElement.PARTITION) for each in names):
        config["restore.partition"] = "partitioner"
    has_partition = all(each.partition is not None for each in names)
    more: dict[str, str | None] = {
        "ordering": "partition" if has_partition else "object",
        "record.headers": "source",
        "errors.tolerance": "all",
    }
    return config | more


def restored_row(record: kafka.Record, began_ms: int, bucket: Archive) -> Restored:
    """The record without what Headrace added; a time of producing is none of the archive."""
    offsets = [int(value or b"") for header, value in record.headers if header == _OFFSET]
    return Restored(
        record.key,
        record.value,
        tuple(each for each in record.headers if not each[0].startswith(_OWN_HEADERS)),
        None if record.timestamp_ms >= began_ms else record.timestamp_ms,
        offsets[0] if offsets else None,
        _has_key(bucket),
    )


def _has_key(bucket: Archive) -> bool:
    fields = bucket.config.get("format.output.fields", "value")
    return enveloped(bucket) and (bucket.vendor != "aiven" or "key" in fields)
