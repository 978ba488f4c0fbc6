"""What the discovery log holds: entries of batches, and snapshots of what is known.

An entry is a JSON document with the objects of one batch. Every hundred entries become one Parquet file
with a row an object, a hundred of those files one larger file, and so on: what is written again grows with
the logarithm of what is known. The identity of an object is stored as 16 bytes, so that a start reads one
column.
"""

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.model.errors import FrameRefused
from headrace.model.objects import ObjectId, S3Object

VERSION: Final = 1
FAN_IN: Final = 100
"""So many entries are one snapshot, and so many snapshots one of the next size."""

ABOUT: Final = "log.json"
"""What a log was made for: the file that it begins with."""
ENTRIES: Final = "entries"
KNOWN: Final = "known"
_DIGITS: Final = 12
_ENTRY: Final = re.compile(rf"{ENTRIES}/(\d{{{_DIGITS}}})\.json")
_SNAPSHOT: Final = re.compile(rf"{KNOWN}/(\d{{{_DIGITS}}})-(\d{{{_DIGITS}}})\.parquet")
_IDENTITY_BYTES: Final = 16
# Recent identities are looked up one by one; above this they join the sorted ones.
_RECENT: Final = 50_000
_GROUP_ROWS: Final = 100_000
_MARK: Final = 8
_MARKS: Final = b"headrace.marks"

Identities = npt.NDArray[np.uint64]
"""One row of two numbers an object."""

SNAPSHOT_SCHEMA: Final = pa.schema(
    [
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("etag", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified_ms", pa.int64(), nullable=False),
        pa.field("version_id", pa.string()),
        pa.field("cuts", pa.list_(pa.int64())),
        pa.field("identity", pa.binary(_IDENTITY_BYTES), nullable=False),
    ]
)


class LoggedObject(msgspec.Struct, frozen=True, array_like=True):
    """An object of a batch, in the log's own bucket; `cuts` are where it is split, empty for a whole one."""

    key: str
    etag: str
    size: int
    last_modified_ms: int
    version_id: str | None = None
    cuts: tuple[int, ...] = ()

    def object(self, bucket: str) -> S3Object:
        """The object as it is read."""
        return S3Object(
            id=ObjectId(bucket, self.key, self.etag),
            size=self.size,
            last_modified_ms=self.last_modified_ms,
            version_id=self.version_id,
        )


def logged(found: S3Object, cuts: tuple[int, ...] = ()) -> LoggedObject:
    """The object as the log keeps it."""
    return LoggedObject(
        found.id.key, found.id.etag, found.size, found.last_modified_ms, found.version_id, cuts
    )


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One batch. `writer` tells whether an entry that is there already is the writer's own."""

    version: int
    batch: int
    writer: str
    made_ms: int
    objects: tuple[LoggedObject, ...]

    @property
    def mark(self) -> str:
        """What offsets and snapshots have of the writer: it tells a batch from another of its number."""
        return self.writer[:_MARK]


class LoggedBatch(NamedTuple):
    """A batch as entries and snapshots have it; `mark` is None where its snapshot does not say it."""

    mark: str | None
    objects: tuple[LoggedObject, ...]


def encode_entry(entry: Entry) -> bytes:
    """The document of an entry."""
    return msgspec.json.encode(entry)


def decode_entry(content: bytes, name: str) -> Entry:
    """The entry of a document; FrameRefused for anything else."""
    try:
        entry = msgspec.json.decode(content, type=Entry)
    except msgspec.DecodeError as error:
        raise FrameRefused(
            f"{name} is not an entry of a discovery log ({error}). Restore it from a backup, or give the "
            "query "
            "a new state.path and a new checkpoint."
        ) from error
    if entry.version != VERSION:
        raise FrameRefused(
            f"{name} was written by another version of Headrace (format {entry.version}): run that version."
        )
    return entry


def identity(found: ObjectId) -> bytes:
    """16 bytes that are the object's: of its key and its ETag, since a log has one bucket."""
    return hashlib.blake2b(
        f"{found.etag}\0{found.key}".encode("utf-8", "surrogatepass"), digest_size=_IDENTITY_BYTES
    ).digest()


# -- names ---------------------------------------------------------------------------------------------------


def entry_name(batch: int) -> str:
    """The name of a batch's entry; names sort as batches do."""
    return f"{ENTRIES}/{batch:0{_DIGITS}d}.json"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Batches `first` to `last`, both included, in one snapshot."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the snapshot."""
        return f"{KNOWN}/{self.first:0{_DIGITS}d}-{self.last:0{_DIGITS}d}.parquet"

    def holds(self, other: "Span") -> bool:
        """Whether all batches of the other one are in this one."""
        return self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True)
class LogFiles:
    """What of a log is in force: snapshots side by side from batch 1 on, and the entries after them.

    `stale` are files whose batches are in a larger snapshot: a process died before it removed them.
    """

    spans: tuple[Span, ...]
    entries: tuple[int, ...]
    stale: tuple[str, ...]

    @property
    def last(self) -> int:
        """The last batch, 0 where there is none."""
        if self.entries:
            return self.entries[-1]
        return self.spans[-1].last if self.spans else 0


def log_files(names: Iterable[str], where: str) -> LogFiles:
    """The files that these names say; FrameRefused where a batch between others is missing."""
    spans: list[Span] = []
    entries: list[int] = []
    stale: list[str] = []
    for name in names:
        if found := _SNAPSHOT.fullmatch(name):
            spans.append(Span(int(found[1]), int(found[2])))
        elif found := _ENTRY.fullmatch(name):
            entries.append(int(found[1]))
    kept: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.first, -one.last)):
        if kept and kept[-1].holds(span):
            stale.append(span.name)
        else:
            kept.append(span)
    covered = kept[-1].last if kept else 0
    later = sorted(batch for batch in entries if batch > covered)
    stale += [entry_name(batch) for batch in sorted(entries) if batch <= covered]
    before = 0
    for first, last in [*((span.first, span.last) for span in kept), *((batch, batch) for batch in later)]:
        if first != before + 1:
            raise FrameRefused(
                f"The discovery log at {where} has no batch {before + 1}, but has batch {first}: files of "
                "it were "
                "deleted. Restore them, or give the query a new state.path and a new checkpoint."
            )
        before = last
    return LogFiles(tuple(kept), tuple(later), tuple(stale))


def compacted_through(names: Iterable[str]) -> int:
    """The last batch that a snapshot of these names has, 0 without one."""
    return max((int(found[2]) for name in names if (found := _SNAPSHOT.fullmatch(name))), default=0)


def due_snapshots(files: LogFiles) -> list[tuple[Span, tuple[Span, ...]]]:
    """The snapshots to write now, in their order: each with the smaller ones that it takes the place of.

    One without smaller ones is made of entries.
    """
    due: list[tuple[Span, tuple[Span, ...]]] = []
    spans = list(files.spans)
    covered = spans[-1].last if spans else 0
    while files.last >= covered + FAN_IN:
        spans.append(Span(covered + 1, covered + FAN_IN))
        due.append((spans[-1], ()))
        covered += FAN_IN
        while len(spans) >= FAN_IN and len({one.last - one.first for one in spans[-FAN_IN:]}) == 1:
            merged = tuple(spans[-FAN_IN:])
            spans[-FAN_IN:] = [Span(merged[0].first, merged[-1].last)]
            due.append((spans[-1], merged))
    return due


# -- snapshots -----------------------------------------------------------------------------------------------


def snapshot_table(entries: Sequence[Entry]) -> Any:
    """The rows of these entries, in their order, and their marks in the table's metadata."""
    rows = [(entry.batch, one) for entry in entries for one in entry.objects]
    identities = [identity(ObjectId("", one.key, one.etag)) for _, one in rows]
    columns = [
        [batch for batch, _ in rows],
        [one.key for _, one in rows],
        [one.etag for _, one in rows],
        [one.size for _, one in rows],
        [one.last_modified_ms for _, one in rows],
        [one.version_id for _, one in rows],
        [one.cuts or None for _, one in rows],
        identities,
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SNAPSHOT_SCHEMA, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=SNAPSHOT_SCHEMA)
    return table.replace_schema_metadata({_MARKS: json.dumps([(one.batch, one.mark) for one in entries])})


def _marks(table: Any) -> list[tuple[int, str | None]]:
    """Marks of a table, each with the first of its batches; None: of these it is not known."""
    metadata = table.schema.metadata or {}
    if _MARKS in metadata:
        return [(batch, mark) for batch, mark in json.loads(metadata[_MARKS])]
    return [(table.column("batch")[0].as_py(), None)] if len(table) else []


def _joined(marks: Iterable[tuple[int, str | None]]) -> list[tuple[int, str | None]]:
    """The same without those that are as the one before."""
    joined: list[tuple[int, str | None]] = []
    for batch, mark in sorted(dict(marks).items()):
        if not joined or joined[-1][1] != mark:
            joined.append((batch, mark))
    return joined


def encode_snapshot(tables: Iterable[Any]) -> bytes:
    """A snapshot of these tables, which are taken one by one: small ones share a row group."""
    sink = BytesIO()
    marks: list[tuple[int, str | None]] = []
    with pq.ParquetWriter(sink, SNAPSHOT_SCHEMA, compression="zstd") as writer:
        waiting: list[Any] = []
        for table in tables:
            marks += _marks(table)
            waiting.append(table)
            if sum(one.num_rows for one in waiting) >= _GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
        # Beside the rows: a version that does not know them reads such a snapshot, and merges it.
        writer.add_key_value_metadata({_MARKS: json.dumps(_joined(marks))})
    return sink.getvalue()


def snapshot_tables(content: bytes) -> Iterator[Any]:
    """The tables of a snapshot, with its marks."""
    file = pq.ParquetFile(pa.BufferReader(content))
    for group in range(file.num_row_groups):
        yield _with_marks(file.read_row_group(group), file)


def _with_marks(table: Any, file: Any) -> Any:
    marks = file.metadata.metadata.get(_MARKS)
    return table if marks is None else table.replace_schema_metadata({_MARKS: marks})


def snapshot_batch(content: bytes, batch: int) -> LoggedBatch:
    """One batch in a snapshot, its objects in their order."""
    table = pq.read_table(pa.BufferReader(content), filters=[("batch", "=", batch)])
    marks = _marks(_with_marks(table, pq.ParquetFile(pa.BufferReader(content))))
    place = bisect_right(marks, batch, key=lambda one: one[0]) - 1
    objects = tuple(
        LoggedObject(
            row["key"],
            row["etag"],
            row["size"],
            row["last_modified_ms"],
            row["version_id"],
            tuple(row["cuts"] or ()),
        )
        for row in table.to_pylist()
    )
    return LoggedBatch(marks[place][1] if place >= 0 else None, objects)


def snapshot_identities(content: bytes) -> Identities:
    """The identities of a snapshot: no other column of it is decoded."""
    column = pq.read_table(pa.BufferReader(content), columns=["identity"]).column("identity")
    found = [_numbers(chunk.buffers()[1], chunk.offset, len(chunk)) for chunk in column.chunks if len(chunk)]
    return np.concatenate(found) if found else np.zeros((0, 2), np.uint64)


def _numbers(buffer: Any, offset: int, count: int) -> Identities:
    octets = np.frombuffer(buffer, np.uint8)[offset * _IDENTITY_BYTES : (offset + count) * _IDENTITY_BYTES]
    return octets.view(">u8").astype(np.uint64).reshape(-1, 2)


class KnownObjects:
    """The identities of all objects of a log: 16 bytes each, and what came lately as a set."""

    def __init__(self) -> None:
        self._sorted: Identities = np.zeros((0, 2), np.uint64)
        self._recent: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def __contains__(self, wanted: bytes) -> bool:
        if wanted in self._recent:
            return True
        high, low = np.frombuffer(wanted, ">u8").astype(np.uint64)
        begin, end = (
            np.searchsorted(self._sorted[:, 0], high),
            np.searchsorted(self._sorted[:, 0], high, "right"),
        )
        return bool((self._sorted[begin:end, 1] == low).any())

    def add(self, identities: Iterable[bytes]) -> None:
        """These are known now."""
        self._recent.update(one for one in identities if one not in self)
        if len(self._recent) > _RECENT:
            octets = b"".join(self._recent)
            self._recent = set()
            self.add_sorted([np.frombuffer(octets, ">u8").astype(np.uint64).reshape(-1, 2)])

    def add_sorted(self, found: Sequence[Identities]) -> None:
        """The same for those of snapshots."""
        merged = np.concatenate([self._sorted, *found])
        order = np.lexsort((merged[:, 1], merged[:, 0]))
        merged = merged[order]
        if len(merged):
            is_new = np.ones(len(merged), bool)
            is_new[1:] = (merged[1:] != merged[:-1]).any(axis=1)
            merged = merged[is_new]
        self._sorted = np.ascontiguousarray(merged)
