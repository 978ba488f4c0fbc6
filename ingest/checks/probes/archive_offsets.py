"""Which offsets the objects of a partition hold, as names and tags say: gaps and overlaps. Pure."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from headrace.names.archive_names import ArchiveName, NamePart

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
        if not name.is_exact(NamePart.OFFSET):
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
