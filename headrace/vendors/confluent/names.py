"""Keys of Confluent's sink, and where its tombstones were among the values, where names and tags prove it.

A key is `topics/<topic>/<encoded partition>/<topic>+<partition>+<start offset>.<ext>`: each slash is
`directory.delim`, each plus `file.delim` of the sink. The prefix of keys (`topics.dir`) may be anything: what
it gives is the topic, which each key has twice.
"""

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from headrace.names.archive_names import (
    ArchiveName,
    Inexact,
    LayoutName,
    NameElement,
    ObjectKind,
    directories_of,
    read_offset,
    read_partition,
    without_prefix,
)
from headrace.options.choices import NameOptions

_SPREAD: Final = Inexact(
    NameElement.ORDER,
    "records are spread over directories by a field or a time, so their order between objects may be lost",
)
_TOPIC: Final = r"(?P<topic>[A-Za-z0-9._-]+)"
_TAIL: Final = r"(?P<offset>[0-9]+)(?:\.(?P<side>keys|headers))?(?P<extension>(?:\.[A-Za-z0-9_-]+)*)"
# Another delimiter is believed only where the directory says the same topic and partition again.
_ANY_DELIMITER: Final = re.compile(
    rf"{_TOPIC}(?P<delimiter>[^A-Za-z0-9/])(?P<partition>[0-9]+)(?P=delimiter){_TAIL}"
)
_SLASH: Final = "/"


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What the key says, or None for a key that this sink does not write."""
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    names = list(_names(key, rest, options))
    # Without a slash between them a topic's end may look like a topic: where all records of a partition are
    # in one directory there is no doubt, else the longest one is it.
    return next((name for name in names if not name.inexact), names[0] if names else None)


def _names(key: str, rest: str, options: NameOptions) -> Iterator[ArchiveName]:
    """The names that the key may have, that of the longest topic first."""
    delimiter = options.directory_delimiter
    told = _file_pattern(options.file_delimiter)
    for path, file in _files(rest, delimiter):
        found = told.fullmatch(file)
        is_told = found is not None
        if found is None:
            found = _ANY_DELIMITER.fullmatch(file)
        partition = None if found is None else read_partition(found["partition"])
        offset = None if found is None else read_offset(found["offset"])
        if found is None or partition is None or offset is None:
            continue
        # The encoded partition stands between the topic's directory and the file, and is never empty.
        for start, encoded in _places(path, found["topic"], delimiter):
            if not is_told and encoded != f"partition={partition}":
                continue
            is_tombstone = encoded == options.tombstone_directory
            directories = directories_of(encoded.split(delimiter))
            is_whole = is_tombstone or _is_of_partition(encoded, partition, directories)
            rule = "default" if is_told else "own delimiter"
            yield ArchiveName(
                key=key,
                layout=LayoutName.CONFLUENT,
                rule="tombstones" if is_tombstone and is_told else rule,
                topic=found["topic"],
                partition=partition,
                start_offset=offset,
                kind=ObjectKind(found["side"] or "values"),
                tombstones=is_tombstone and is_told,
                directories=directories,
                stem=key[: len(key) - len(file) + found.end("offset")],
                folder=f"{options.prefix}{rest[:start]}",
                extension=found["extension"],
                inexact=() if is_whole else (_SPREAD,),
            )


@cache
def _file_pattern(delimiter: str) -> re.Pattern[str]:
    between = re.escape(delimiter)
    return re.compile(rf"{_TOPIC}{between}(?P<partition>[0-9]+){between}{_TAIL}")


def _files(rest: str, delimiter: str) -> Iterator[tuple[str, str]]:
    """Directories and file name of a key; several where a file name may hold the delimiter."""
    if delimiter == _SLASH:
        path, found, file = rest.rpartition(delimiter)
        if found:
            yield path, file
        return
    at = rest.find(delimiter)
    while at >= 0:
        yield rest[:at], rest[at + len(delimiter) :]
        at = rest.find(delimiter, at + 1)


def _places(path: str, topic: str, delimiter: str) -> Iterator[tuple[int, str]]:
    """Where the topic's own directory may end, and the encoded partition in it: the likeliest first.

    Directories of `topics.dir` may have the topic's name as well, and so may a field's value, which comes
    after the field's name. The last one is offered too: it is the one before a partition or tombstones.
    """
    inside, whole = f"{delimiter}{topic}{delimiter}", f"{delimiter}{path}"
    first = whole.find(inside)
    if first < 0:
        return
    named = whole.find("=", first + len(inside))
    likely = whole.rfind(inside, first, named if named >= 0 else len(whole))
    for at in dict.fromkeys((likely, whole.rfind(inside))):
        start = at + len(inside) - len(delimiter)
        yield start, path[start:]


def _is_of_partition(encoded: str, partition: int, directories: tuple[tuple[str, str], ...]) -> bool:
    """Whether one directory has all records of the partition, as with the default partitioner."""
    others = [each for each in directories if each[0] != "schema_name"]
    if len(others) < len(directories):
        return others == [("partition", str(partition))]
    return encoded == f"partition={partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueObject:
    """A value object of one partition: its first offset, its rows, and its last offset where tags say it.

    `path` is its directory: objects of one directory follow each other.
    """

    start: int
    rows: int
    end: int | None = None
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneObject:
    """A tombstone object of one partition: its first offset and its rows."""

    start: int
    rows: int


@dataclass(frozen=True, slots=True)
class Place:
    """Between which values a tombstone goes: before row `row` of value object `start`.

    `start` None is after all of them. `offset` is the tombstone's own, None where only its place is proven.
    """

    start: int | None
    row: int
    offset: int | None


def places(
    values: Sequence[ValueObject], tombstones: Sequence[TombstoneObject]
) -> dict[int, tuple[Place, ...]]:
    """By start offset of each tombstone object, the place of each of its rows; unproven objects are missing.

    All objects of the partition have to be known: one that is announced later can change what is proven.
    An object is placed as a whole or not at all. Nothing is proven where objects overlap, as those of a sink
    that wrote records twice do.
    """
    known = _Known(values, tombstones)
    found: dict[int, tuple[Place, ...]] = {}
    if not known.is_consistent():
        return found
    for index, each in enumerate(known.tombstones):
        rows = known.rows_of(index)
        placed = [known.place(low, high) for low, high in rows]
        if all(place is not None for place in placed):
            found[each.start] = tuple(place for place in placed if place is not None)
    return found


class _Known:
    """What is certain of the offsets of one partition's objects."""

    def __init__(self, values: Sequence[ValueObject], tombstones: Sequence[TombstoneObject]) -> None:
        self.values = sorted(values, key=lambda each: each.start)
        self.tombstones = sorted(tombstones, key=lambda each: each.start)
        self._starts = [each.start for each in self.values]
        self._ends = [self._end(index) for index in range(len(self.values))]
        # Each ends before the next one begins: what is near an offset is found without going through all.
        self._is_in_line = all(
            end is not None and end < start for end, start in zip(self._ends, self._starts[1:], strict=False)
        )
        # Tombstones whose offsets are certain: the first of each object, and all of those that fill a gap.
        self._sure: list[int] = sorted(each.start for each in self.tombstones)
        for index in range(len(self.tombstones)):
            low_high = self.rows_of(index)
            for low, high in low_high[1:]:
                if low == high:
                    bisect.insort(self._sure, low)

    def is_consistent(self) -> bool:
        """True when each object has room for its rows before the next one of its directory."""
        room = zip(self.values, self._ends, strict=True)
        fits = all(end is None or end - each.start + 1 >= each.rows for each, end in room)
        starts = [each.start for each in self.values] + [each.start for each in self.tombstones]
        return fits and len(set(starts)) == len(starts)

    def _end(self, index: int) -> int | None:
        """The last offset that the object can have: by its tag, or before the next one of its directory."""
        each = self.values[index]
        if each.end is not None:
            return each.end
        if each.rows == 1:
            return each.start
        behind = (self.values[other] for other in range(index + 1, len(self.values)))
        return next((other.start - 1 for other in behind if other.path == each.path), None)

    def _near(self, low: int, high: int | None) -> range:
        """The values that may be between, and one after: all others are before or after for certain."""
        if not self._is_in_line:
            return range(len(self.values))
        first = max(0, bisect.bisect_right(self._starts, low) - 1)
        last = len(self.values) if high is None else bisect.bisect_right(self._starts, high) + 1
        return range(first, min(last, len(self.values)))

    def rows_of(self, index: int) -> list[tuple[int, int | None]]:
        """The lowest and highest offset of each row of a tombstone object; None is without a bound."""
        each = self.tombstones[index]
        last = self.tombstones[index + 1].start - 1 if index + 1 < len(self.tombstones) else None
        rows: list[tuple[int, int | None]] = [(each.start, each.start)]
        if each.rows == 1:
            return rows
        free = self._free(each.start + 1, last, each.rows)
        if last is not None and len(free) == each.rows - 1:
            return rows + [(offset, offset) for offset in free]
        return rows + [
            (free[row] if row < len(free) else each.start + row + 1, last) for row in range(each.rows - 1)
        ]

    def _free(self, first: int, last: int | None, most: int) -> list[int]:
        """The offsets from `first` to `last` that no value certainly has; not more than `most`."""
        free: list[int] = []
        offset = first
        while len(free) < most and (last is None or offset <= last):
            beyond = self._taken_until(offset)
            if beyond is None:
                free.append(offset)
                offset += 1
            else:
                offset = beyond
        return free

    def _taken_until(self, offset: int) -> int | None:
        """The offset behind a run of values that has this offset for certain, None where it may be free."""
        for index in self._near(offset, offset):
            each = self.values[index]
            if offset in {each.start, each.end}:
                run = each.end if each.end is not None and _is_whole(each) else offset
                return run + 1
            if each.end is not None and each.start < offset < each.end and _is_whole(each):
                return each.end + 1
        return None

    def place(self, low: int, high: int | None) -> Place | None:
        """Where a tombstone is whose offset is from `low` to `high`, None where values may be between."""
        result: Place | None = None
        for index in self._near(low, high):
            each = self.values[index]
            before = self._rows_before(index, low, high)
            if before is None:
                return None
            if before < each.rows and result is None:
                result = Place(each.start, before, low if low == high else None)
            elif before and result is not None:
                return None  # values behind the place that come before it
        return result or Place(None, 0, low if low == high else None)

    def _rows_before(self, index: int, low: int, high: int | None) -> int | None:
        """How many of the object's rows are before, None where that is not certain."""
        each, end = self.values[index], self._ends[index]
        if high is not None and high < each.start:
            return 0
        if end is not None and low > end:
            return each.rows
        if low != high:
            return None
        below = low - each.start - self._sure_between(each.start, low)
        most = min(below, each.rows)
        if end is None:
            return most if most == 1 else None
        above = end - low - self._sure_between(low + 1, end + 1)
        if each.end is not None and low < each.end:
            most = min(most, each.rows - 1)  # the last row is at the end
        least = max(1, each.rows - above)
        return least if least == most else None

    def _sure_between(self, first: int, behind: int) -> int:
        """How many certain tombstones are at offsets from `first` up to, not at, `behind`."""
        return bisect.bisect_left(self._sure, behind) - bisect.bisect_left(self._sure, first)


def _is_whole(each: ValueObject) -> bool:
    """True when its offsets have no hole: start + i is the offset of row i."""
    return each.end is not None and each.end - each.start + 1 == each.rows
