"""The vendors' archives written again by our sink: what ours makes of their configuration and records."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from tests.headrace.vendors.archive import Archive, Record, archive
from tests.support.memory_s3 import StoredObject
from tests.support.sink_archives import NOON_MS, Written, written

AIVEN_WRITTEN_MS: Final = 1_795_348_800_000
"""When Aiven's archives were written, which names of the wall clock show: 2026-11-22 12:00 UTC."""
CONFLUENT_WRITTEN_MS: Final = {
    "confluent-hourly_wallclock": int(datetime(2026, 11, 22, 2, 30, tzinfo=UTC).timestamp()) * 1000
}
"""When Confluent's were, where names show it."""
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_KEY: Final = re.compile(r"/(\d+)/(\d{19})(\..*)$")


def rewritten(name: str, **options: str) -> Archive:
    """The archive with our objects and tags in the place of theirs; `__` in an option's name for a dot."""
    source = archive(name)
    changes = {option.replace("__", "."): value for option, value in options.items()}
    objects: dict[str, StoredObject] = {}
    for config, records in _runs(source):
        found = written({**config, **changes}, records, now_ms=_moment(source))
        objects |= found.objects
    return replace(
        source,
        objects={key: each.body for key, each in objects.items()},
        tags={key: each.tags for key, each in objects.items() if each.tags},
    )


def rewritten_over(source: Archive, there: Mapping[str, bytes]) -> Written:
    """What ours writes of the archive's records where these objects are already. Not of Quix's."""
    return written(source.config, source.records, now_ms=_moment(source), there=there)


def _runs(source: Archive) -> Iterator[tuple[Mapping[str, Any], tuple[Record, ...]]]:
    """What is written at once, and with which configuration: Quix's commits are by the clock."""
    if source.vendor != "quix":
        yield source.config, source.records
        return
    config = quix_config(source)
    for _, batch in quix_batches(source):
        yield config, tuple(batch)


def _moment(source: Archive) -> int:
    is_aiven = source.vendor == "aiven"
    return AIVEN_WRITTEN_MS if is_aiven else CONFLUENT_WRITTEN_MS.get(source.name, NOON_MS)


def quix_config(found: Archive) -> dict[str, Any]:
    """What a user of Quix's sink writes here."""
    given, directory = found.config, found.config["directory"]
    is_parquet = given["format"].startswith("ParquetFormat")
    config = {
        "aws.s3.bucket.name": "bucket",
        "topics": given["topic"],
        "output.layout": "quix",
        "output.format": "parquet" if is_parquet else "json",
        "aws.s3.prefix": f"{directory}/" if directory else "",
    }
    if "gzip" in given["format"] or "compress=True" in given["format"]:
        config["file.compression.type"] = "gzip"
    if given["value_deserializer"] == "string":
        config["value.converter"] = _STRING
    if ".ndjson" in given["format"]:
        config["file.name.template"] = "{{topic:hyphens=_}}/{{partition}}/{{start_offset:padding=19}}.ndjson"
    return config


def quix_batches(found: Archive) -> Iterator[tuple[str, list[Record]]]:
    """The key of each of Quix's objects, and the records that are in it."""
    starts: dict[int, list[tuple[int, str]]] = {}
    for key in found.objects:
        parts = _KEY.search(key)
        assert parts is not None, key
        starts.setdefault(int(parts[1]), []).append((int(parts[2]), key))
    for partition, objects in starts.items():
        ordered = [*sorted(objects), (2**63, "")]
        for (start, key), (behind, _) in pairwise(ordered):
            yield (
                key,
                [
                    record
                    for record in found.records
                    if record.partition == partition and start <= record.offset < behind
                ],
            )
