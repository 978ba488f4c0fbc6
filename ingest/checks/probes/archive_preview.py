"""What `plan` says of an archive: for each topic what is there, and how much of it will come back. Pure.

Memory grows with the objects: the offsets of each are kept to be compared.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from headrace.model.objects import Route, S3Object
from headrace.names.archive_names import (
    ArchiveName,
    Directories,
    Inexact,
    LayoutName,
    NameElement,
    ObjectKind,
)
from headrace.vendors.exactness import Aspect, Exactness, Grade, where_some_lack, worst
from headrace.vendors.key_names import ArchiveNames, name_in
from ingest.checks.findings.archive_findings import ArchiveSample
from ingest.checks.probes.preview import Amount
from ingest.source.catalogue import ExclusionReason, ObjectFilter

# -- Which offsets the objects of a partition hold, as names and tags say: gaps and overlaps. Pure -----------

_EXAMPLES: Final = 5


@dataclass(slots=True)
class Extent:
    """The offsets of one object: its first and last one and how many records it has, None where unknown."""

    key: str
    first: int | None
    last: int | None
    records: int | None = None

    @classmethod
    def of(cls, name: ArchiveName) -> "Extent":
        """What the name says, as far as that is certain."""
        if not name.is_exact(NameElement.OFFSET):
            return cls(name.key, None, None)
        return cls(name.key, name.start_offset, name.last_offset)


@dataclass(slots=True)
class Between:
    """Neighbouring objects between which offsets are missing, or that have some in common."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, **example: Any) -> None:
        """One more."""
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(example)

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        return {"count": self.count, "examples": self.examples}


@dataclass(slots=True)
class PartitionOffsets:
    """What the objects of one partition hold. `missing` counts offsets within objects that no record has.

    `is_compared` is False where the ends of some object are not known: then there may be more gaps and
    overlaps than were found.
    """

    objects: int = 0
    first: int | None = None
    last: int | None = None
    records: int = 0
    counted_objects: int = 0
    missing: int = 0
    is_compared: bool = True
    gaps: Between = field(default_factory=Between)
    overlaps: Between = field(default_factory=Between)

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape (docs/commands.md)."""
        return {
            "objects": self.objects,
            "first_offset": self.first,
            "last_offset": self.last,
            "records": self.records,
            "counted_objects": self.counted_objects,
            "missing_within": self.missing,
            "compared": self.is_compared,
            "gaps": self.gaps.as_dict(),
            "overlaps": self.overlaps.as_dict(),
        }


def offsets_of(extents: list[Extent]) -> PartitionOffsets:
    """What the objects of one partition come to; their order does not matter."""
    found = PartitionOffsets(objects=len(extents))
    for extent in extents:
        if extent.records is not None:
            found.counted_objects += 1
            found.records += extent.records
            if extent.first is not None and extent.last is not None:
                found.missing += max(0, extent.last - extent.first + 1 - extent.records)
    known = sorted((extent for extent in extents if _place(extent) is not None), key=_order)
    found.is_compared = all(extent.first is not None and extent.last is not None for extent in extents)
    if known:
        found.first, found.last = known[0].first, max(map(_end, known))
    reached = known[0] if known else None
    for before, extent in pairwise(known):
        assert reached is not None, "there is one before"
        _compare(before if reached.last is None else reached, extent, found)
        if _end(extent) >= _end(reached):
            reached = extent
    return found


def _compare(before: Extent, extent: Extent, found: PartitionOffsets) -> None:
    if _shares(before, extent):
        found.overlaps.add(key=before.key, other=extent.key)
    elif before.last is not None and extent.first is not None and extent.first > before.last + 1:
        found.gaps.add(after=before.last, before=extent.first)


def _shares(before: Extent, extent: Extent) -> bool:
    """True when both have an offset in common, as far as is known."""
    if extent.first is None or before.first is None:
        return _place(before) == _place(extent)
    return extent.first <= (before.first if before.last is None else before.last)


def _place(extent: Extent) -> int | None:
    return extent.last if extent.first is None else extent.first


def _order(extent: Extent) -> tuple[int, int, str]:
    return (_place(extent) or 0, _end(extent), extent.key)


def _end(extent: Extent) -> int:
    """The last offset that is known to be in the object."""
    return max(-1 if extent.first is None else extent.first, -1 if extent.last is None else extent.last)


# -- What `plan` says of an archive: for each topic what is there, and how much of it will come back. Pure ---

# Layouts whose sinks can tag their objects with offsets and numbers of records.
_TAGGED: Final = frozenset({LayoutName.CONFLUENT, LayoutName.HEADRACE})
# Objects of a topic that are looked into, of each kind of name and the last; and those whose tags are read.
_SAMPLES: Final = 5
_TAGS: Final = 1000
# As many objects without tags in front say that there are none.
_UNTAGGED: Final = 10

ReadSample = Callable[[S3Object, frozenset[ObjectKind], tuple[Inexact, ...]], ArchiveSample]
ReadTags = Callable[[str], tuple[int, int, int] | None]


@dataclass(slots=True)
class TopicArchive:
    """What the archive holds of one topic in one layout. `topic` None: the names say none.

    `samples` are of each kind of its names, and of the last object; without any nothing is said of what comes
    back. `joined` are the objects of each kind but for tombstones, `ignores_sides`: none with keys or headers
    is read. `room` is `max.pending.objects`, `unsorted` are partitions whose keys, as they are listed, do not
    rise by offset.
    """

    topic: str | None
    layout: LayoutName
    room: int
    amount: Amount = field(default_factory=Amount)
    kinds: Counter[str] = field(default_factory=Counter)
    joined: Counter[ObjectKind] = field(default_factory=Counter)
    ignores_sides: bool = False
    extents: dict[int | None, list[Extent]] = field(default_factory=dict)
    highest: dict[int | None, int] = field(default_factory=dict)
    unsorted: set[int | None] = field(default_factory=set)
    first: dict[tuple[object, ...], S3Object] = field(default_factory=dict)
    last: S3Object | None = None
    samples: list[ArchiveSample] = field(default_factory=list)
    directories: Directories = field(default_factory=Directories)
    doubts: tuple[Inexact, ...] = ()
    """Those that several names show together."""

    def add(self, s3_object: S3Object, name: ArchiveName, *, is_left_out: bool = False) -> None:
        """One more object; `is_left_out` of one that is listed and not read."""
        self.amount.add(s3_object)
        kind = "tombstones" if name.tombstones and name.kind is not ObjectKind.HEADERS else name.kind.value
        self.kinds[kind] += 1
        if not name.tombstones:
            self.joined[name.kind] += 1
            self.ignores_sides |= is_left_out
        if name.kind is not ObjectKind.VALUES or name.tombstones:
            return
        self.doubts = self.directories.doubts(name) or self.doubts
        self.extents.setdefault(name.partition, []).append(Extent.of(name))
        if (offset := name.offset or 0) < self.highest.get(name.partition, 0):
            self.unsorted.add(name.partition)
        else:
            self.highest[name.partition] = offset
        if s3_object.size and not s3_object.is_archived:
            sort = (name.rule, name.extension, name.inexact, name.partition is None)
            if len(self.first) < _SAMPLES - 1:
                self.first.setdefault(sort, s3_object)
            self.last = s3_object

    @property
    def to_sample(self) -> list[S3Object]:
        """The first of each kind of names, and the last one: a sink may have been told otherwise since."""
        last = [] if self.last is None or self.last in self.first.values() else [self.last]
        return [*self.first.values(), *last]

    @property
    def sides(self) -> frozenset[ObjectKind]:
        """The kinds of side objects that the topic has."""
        return frozenset(kind for kind in (ObjectKind.KEYS, ObjectKind.HEADERS) if self.joined[kind])

    @property
    def exactness(self) -> tuple[Exactness, ...]:
        """How much of each part comes back, as far as was looked into."""
        found = worst(sample.exactness for sample in self.samples if sample.exactness is not None)
        if not self.ignores_sides:
            found = where_some_lack(found, self.joined)
        objects = [len(self.extents[one]) * (1 + len(self.sides)) for one in self.unsorted]
        if max(objects, default=0) <= self.room:
            return found
        why = f"names do not sort by offset, and a partition fills max.pending.objects = {self.room}"
        unordered = Exactness(Aspect.ORDER, Grade.PARTLY, (why,))
        # Of an order that is no order for another reason, too, that one says enough.
        is_exact = Exactness(Aspect.ORDER, Grade.EXACT) in found
        return worst((found, (unordered,))) if is_exact else found

    @property
    def problems(self) -> tuple[str, ...]:
        """Why objects such as some that were looked into cannot be restored."""
        return tuple(dict.fromkeys(sample.problem for sample in self.samples if sample.problem is not None))

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape (docs/commands.md)."""
        partitions = sorted(self.extents, key=lambda partition: -1 if partition is None else partition)
        return {
            "topic": self.topic,
            "layout": self.layout.value,
            **self.amount.as_dict(),
            "kinds": dict(sorted(self.kinds.items())),
            "looked_into": len(self.samples),
            "problems": list(self.problems),
            "comes_back": [
                {"part": each.aspect.value, "grade": each.grade.value, "why": list(each.why)}
                for each in self.exactness
            ],
            "partitions": [
                {"partition": partition, **offsets_of(self.extents[partition]).as_dict()}
                for partition in partitions
            ],
        }


class ArchivePreview:
    """What is there of each topic; `add` the listing, then `look_into` some of it."""

    def __init__(self, names: ArchiveNames, object_filter: ObjectFilter, *, room: int) -> None:
        self._names = names
        self._room = room
        self._object_filter = object_filter
        self._topics: dict[tuple[str | None, LayoutName], TopicArchive] = {}

    def add(self, objects: Iterable[S3Object]) -> None:
        """Listed objects; those that configuration leaves out do not count."""
        for s3_object in objects:
            route = self._object_filter.listed_route_or_reason(s3_object)
            # Side objects are internal to those that hold no values of their own.
            if not isinstance(route, Route) and route is not ExclusionReason.INTERNAL:
                continue
            name = name_in(self._names.read(s3_object.id.key))
            if name is not None:
                place = (name.topic, name.layout)
                topic = self._topics.setdefault(place, TopicArchive(*place, room=self._room))
                topic.add(s3_object, name, is_left_out=not isinstance(route, Route))

    def look_into(self, read_sample: ReadSample, read_tags: ReadTags) -> None:
        """Read a few objects of each topic, and tags where the sink may have written some. Blocks on them."""
        for topic in self._topics.values():
            topic.samples = [
                read_sample(s3_object, topic.sides, topic.doubts) for s3_object in topic.to_sample
            ]
            if topic.layout in _TAGGED:
                _read_tags(topic, read_tags)

    def topics(self) -> Iterator[TopicArchive]:
        """Those that are there, by name."""
        for place in sorted(self._topics, key=lambda each: (each[0] or "", each[1])):
            yield self._topics[place]

    def as_list(self) -> list[dict[str, Any]]:
        """The JSON shape (docs/commands.md)."""
        return [topic.as_dict() for topic in self.topics()]


def _read_tags(topic: TopicArchive, read_tags: ReadTags) -> None:
    """Fill in what tags say, of so many objects, or of none where the first few have none."""
    asked = found = 0
    for extents in topic.extents.values():
        for extent in extents:
            if asked >= _TAGS or (asked >= _UNTAGGED and not found):
                return
            asked += 1
            tags = read_tags(extent.key)
            if tags is not None:
                found += 1
                extent.first, extent.last, extent.records = tags
