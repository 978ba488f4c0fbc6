"""What `plan` shows people of an archive."""

from collections.abc import Iterator
from typing import Final

from headrace.model.sanitize import printable
from headrace.model.text_formatting import bytes_text, counted
from headrace.vendors.exactness import Grade
from ingest.checks.probes.archive_offsets import PartitionOffsets, offsets_of
from ingest.checks.probes.archive_preview import ArchivePreview, TopicArchive

_MAX_TOPICS: Final = 20
_MAX_PARTITIONS: Final = 8


def archive_lines(preview: ArchivePreview) -> Iterator[str]:
    """Each topic in a paragraph: what is there, what comes back, and where offsets do not go on."""
    topics = list(preview.topics())
    for topic in topics[:_MAX_TOPICS]:
        yield ""
        yield from _topic_lines(topic)
    if len(topics) > _MAX_TOPICS:
        yield ""
        yield f".. {len(topics) - _MAX_TOPICS} more topics are in the archive; --json shows all"


def _topic_lines(topic: TopicArchive) -> Iterator[str]:
    name = "a topic that the names do not say" if topic.topic is None else printable(topic.topic)
    kinds = ", ".join(f"{count:,} of {kind}" for kind, count in sorted(topic.kinds.items()))
    amount = counted(topic.amount.objects, "object")
    size = bytes_text(topic.amount.bytes)
    yield f"archive of {name} in {topic.layout}'s layout: {amount} ({kinds}), {size}"
    parts = topic.exactness
    exact = [each.part.value for each in parts if each.grade is Grade.EXACT]
    if exact:
        yield f"    comes back exactly: {', '.join(exact)}"
    for each in parts:
        if each.grade is not Grade.EXACT:
            word = "not" if each.grade is Grade.ABSENT else "not exactly"
            yield f"    {word}: {each.part}: {'; '.join(each.why)}"
    yield from (f"    cannot be restored: {printable(problem)}" for problem in topic.problems)
    if not topic.samples:
        yield "    nothing could be looked into: all of it is empty, lies in an archive, or is no values"
    yield from _offset_lines(topic)


def _offset_lines(topic: TopicArchive) -> Iterator[str]:
    partitions = sorted(topic.extents, key=lambda partition: -1 if partition is None else partition)
    for partition in partitions[:_MAX_PARTITIONS]:
        found = offsets_of(topic.extents[partition])
        where = "no partition" if partition is None else f"partition {partition}"
        yield f"    {where}: {'; '.join(_offset_parts(found))}"
    if len(partitions) > _MAX_PARTITIONS:
        yield f"    .. {len(partitions) - _MAX_PARTITIONS} more partitions; --json shows all"


def _offset_parts(found: PartitionOffsets) -> Iterator[str]:
    yield counted(found.objects, "object")
    if found.counted_objects:
        within = "" if found.counted_objects == found.objects else f" in {found.counted_objects:,} of them"
        yield f"{counted(found.records, 'record')}{within}, as the tags say"
    if found.last is not None and found.last >= 0:
        first = "" if found.first is None else f"from {found.first:,} "
        last = "" if found.is_compared or found.first is None else " or more"
        yield f"offsets {first}to {found.last:,}{last}"
    if found.missing:
        yield f"{counted(found.missing, 'offset')} within objects without a record"
    for what, between in (("gap", found.gaps), ("overlap", found.overlaps)):
        if between.count:
            yield f"{counted(between.count, what)}, such as {_example(between.examples[0])}"
    if not found.is_compared:
        yield "gaps cannot be told: not both ends of each object are known"
    elif not found.gaps.count and not found.overlaps.count:
        yield "no gap and no overlap"


def _example(example: dict[str, object]) -> str:
    if "after" in example:
        return f"between {example['after']} and {example['before']}"
    return f"{printable(str(example['key']))} and {printable(str(example['other']))}"
