"""The footer of a Parquet object, adapted to Arrow, and the object as the file that Arrow reads."""

import bisect
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.formats.compression.magic import HEAD_BYTES, sniff, unsupported
from headrace.formats.parquet_chunk import CODECS, Chunk, ChunkPages
from headrace.formats.parquet_schema import SPARK_SCHEMA, Node, mark_spark_variants, schema_tree
from headrace.formats.parquet_thrift import (
    BINARY,
    LIST,
    STRUCT,
    Numbers,
    Struct,
    ThriftDamagedError,
    ThriftIncompleteError,
    ThriftReader,
    list_bytes,
    read_numbers,
)
from headrace.model.errors import HeadraceError, InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource

# An object up to this size is fetched in one go: fewer requests than its footer and columns would take.
WHOLE_BYTES: Final = 4 * 1024 * 1024

# Between two stretches that are held: what is passed over in a stream, rather than begin another one.
_GAP_BYTES: Final = 16 * 1024 * 1024

# What is read at once beside a page: footers and buffers.
_READ_SLACK_BYTES: Final = 64 * 1024 * 1024


class RangedFile(io.RawIOBase):
    """Reads ranges of `source` as asked; small objects are fetched whole, once.

    Errors of the source and pages that are too large are raised through Arrow, which may turn them into
    others, so `error` keeps the first one.
    """

    def __init__(self, source: ByteSource, *, unit_max_bytes: int) -> None:
        super().__init__()
        self._source = source
        self._unit_max_bytes = unit_max_bytes
        self._at = 0
        self._whole = source.read_at(0, source.size) if source.size <= WHOLE_BYTES else None
        self._begins: list[int] = []
        self._chunks: list[ChunkPages] = []
        self._stream: Iterator[bytes] | None = None
        self._until = 0
        # The offset of what the stream has brought too early, and that.
        self._rest_at, self._rest = 0, b""
        self._held_at, self._held = 0, b""
        self.error: HeadraceError | None = None

    @property
    def is_whole(self) -> bool:
        """True when the object is in memory, so that reads cost nothing."""
        return self._whole is not None

    def follow(self, chunks: Iterable[ChunkPages]) -> None:
        """From now on reads of these column chunks go through them; each is read in ascending order."""
        self._chunks = sorted(chunks, key=lambda pages: pages.chunk.begin)
        self._begins = [pages.chunk.begin for pages in self._chunks]

    def hold(self, begin: int, end: int, *, until: int) -> None:
        """Have the bytes [begin, end) in memory, in place of what was held; blocks.

        A stream brings them, which continues up to `until` for what is held next: one request, read ahead of
        who decodes.
        """
        if self._whole is not None:
            return
        is_ahead = 0 <= begin - self._rest_at <= len(self._rest) + _GAP_BYTES
        if self._stream is None or not is_ahead or end > self._until:
            self.let_go()
            self._until = max(end, until)
            self._stream, self._rest_at = self._source.stream(begin, self._until), begin
        parts, count = [self._rest], len(self._rest)
        while count < end - self._rest_at and (chunk := next(self._stream, None)) is not None:
            parts.append(chunk)
            count += len(chunk)
        content = b"".join(parts)
        self._held_at, self._held = begin, content[begin - self._rest_at : end - self._rest_at]
        self._rest_at, self._rest = end, content[end - self._rest_at :]

    def let_go(self) -> None:
        """End the stream, and hold nothing more."""
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()
        self._stream, self._rest, self._held = None, b"", b""

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def size(self) -> int:
        """Length of the object."""
        return self._source.size

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, without reading."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Bytes from here on, fewer only at the end of the object; blocks."""
        rest = max(0, self._source.size - self._at)
        length = rest if size < 0 else min(size, rest)
        try:
            data = self._followed(self._at, length)
        except HeadraceError as error:
            self.error = self.error or error
            raise
        self._at += len(data)
        return data

    def range(self, offset: int, length: int) -> bytes:
        """The bytes at an offset, fewer only at the end of the object; blocks."""
        length = min(length, self._source.size - offset)
        if length > self._unit_max_bytes + _READ_SLACK_BYTES:
            raise InvalidObject(
                f"{self._source.name}: {length} bytes of the Parquet object have to be read at once, which "
                f"exceeds decode.unit.max.bytes ({self._unit_max_bytes}). Raise the option, or write the "
                "object with smaller pages and a smaller footer.",
                reason="unit_too_large",
            )
        if length <= 0:
            return b""
        if self._whole is not None:
            return self._whole[offset : offset + length]
        at = offset - self._held_at
        if at >= 0 and at + length <= len(self._held):
            return self._held[at : at + length]
        return self._source.read_at(offset, length)

    def _followed(self, offset: int, length: int) -> bytes:
        index = bisect.bisect_right(self._begins, offset) - 1
        return self._chunks[index].read(offset, length) if index >= 0 else self.range(offset, length)


_MAGIC: Final = b"PAR1"
_ENCRYPTED_MAGIC: Final = b"PARE"
_TAIL_BYTES: Final = 64 * 1024  # read at once: most footers are shorter
_TRAILER_BYTES: Final = 8  # length and magic
_LEAST_BYTES: Final = 12  # the magic at the beginning, too

# Arrow's own schema would have columns read as dictionaries that grow with the row group. What it says beyond
# the Parquet schema does not show in JSON. A key of its length that means nothing takes its place.
_ARROW_SCHEMA: Final = b"\x0cARROW:schema"
_IGNORED: Final = b"\x0carrow-schema"

# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_SCHEMA, _GROUPS = 2, 4
_COLUMNS: Final = 1
_META, _CRYPTO = 3, 8
_CODEC, _VALUES, _COMPRESSED, _DATA, _DICTIONARY, _STATISTICS = 4, 5, 7, 9, 11, 12
_NULL_COUNT: Final = 3  # of Statistics

_LZO: Final = 3


@dataclass(slots=True)
class _Groups:
    """How far the list of row groups has been read."""

    at: int
    count: int
    read: int = 0


class Footer:
    """What the end of an object says of it. Raises ObjectCorrupt, InvalidObject where it is encrypted."""

    def __init__(self, name: str, file: RangedFile) -> None:
        self._name = name
        self._bytes = _footer_bytes(name, file)
        self._bytes_max = len(self._bytes)
        self._groups = _Groups(0, 0)
        try:
            begin, end, elements = self._read_schema()
            self._check_rest()
            self.root: Node = schema_tree(elements)
        except ThriftIncompleteError:
            raise ValueError("the footer ends too early") from None
        described = _spark_schema(self._bytes)
        if described is not None:
            mark_spark_variants(self.root, described)
        shown = list_bytes(STRUCT, [node.element for node in self.root.nodes()])
        self.metadata: Any = _arrow_metadata(self._bytes[:begin] + shown + self._bytes[end:])
        self.leaves = list(self.root.leaves())

    def chunks(self, group: int) -> list[Chunk]:
        """The column chunks of a row group, in the order of `leaves`; groups come in ascending order."""
        try:
            while self._groups.read < group:
                self._skip_group()
            return self._read_group()
        except ThriftIncompleteError:
            raise ValueError(f"the footer ends within row group {group}") from None

    def end_of(self, group: int) -> int:
        """Where the last column chunk of a row group ends, which is not read yet. ValueError for damage."""
        begun = replace(self._groups)
        try:
            return max((chunk.end for chunk in self.chunks(group)), default=0)
        finally:
            self._groups = begun

    def with_nulls(self) -> frozenset[str]:
        """The outermost columns that the statistics show with a null in some row.

        ValueError where a row group's entry is damaged. Arrow is not asked: it ends the process there.
        """
        tops = [child.name for child in self.root.children for _ in child.leaves()]
        found: set[str] = set()
        begun = replace(self._groups)
        try:
            for group in range(begun.read, begun.count):
                chunks = self.chunks(group)
                found.update(top for top, chunk in zip(tops, chunks, strict=True) if chunk.nulls)
        finally:
            self._groups = begun
        return frozenset(found)

    def _reader(self, at: int) -> ThriftReader:
        return ThriftReader(self._bytes, at, bytes_max=self._bytes_max)

    def _read_schema(self) -> tuple[int, int, list[Struct]]:
        """Where the list of schema elements begins and ends, and what is in it."""
        reader = self._reader(0)
        found: tuple[int, int, list[Struct]] | None = None
        for number, kind in reader.fields():
            if number == _GROUPS and kind == LIST and found is not None:
                _, count = reader.list_head()
                self._groups = _Groups(reader.at, count)
                return found
            begin = reader.at
            value = reader.value(kind)
            if number == _SCHEMA and kind == LIST and value[0] == STRUCT:
                found = (begin, reader.at, value[1])
        raise ValueError("the footer has no schema, or no row groups after it")

    def _check_rest(self) -> None:
        """Return when all after the schema can be read. Arrow ends the process where lists nest deep there.

        ThriftIncompleteError, ThriftDamagedError.
        """
        at = self._groups.at
        for _ in range(self._groups.count):
            _, at = read_numbers(self._bytes, at)
        read_numbers(self._bytes, at)  # the fields behind the row groups, up to the end of the footer

    def _skip_group(self) -> None:
        _, self._groups.at = read_numbers(self._bytes, self._groups.at)
        self._groups.read += 1

    def _read_group(self) -> list[Chunk]:
        if self._groups.read >= self._groups.count:
            raise ValueError(f"the footer lists {self._groups.count} row groups")
        reader = self._reader(self._groups.at)
        chunks: list[Chunk] = []
        for number, kind in reader.fields():
            if number == _COLUMNS and kind == LIST:
                for index in range(reader.list_head()[1]):
                    about, reader.at = read_numbers(self._bytes, reader.at)
                    chunks.append(self._chunk(about, index))
            else:
                reader.value(kind)
        self._groups.at = reader.at
        self._groups.read += 1
        if len(chunks) != len(self.leaves):
            raise ValueError(f"a row group has {len(chunks)} columns where the schema has {len(self.leaves)}")
        return chunks

    def _chunk(self, about: Numbers, index: int) -> Chunk:
        if _CRYPTO in about:
            raise _encrypted(self._name, f"its column {self._shown(index)} is")
        numbers = about.get(_META)
        if not isinstance(numbers, dict) or not {_CODEC, _VALUES, _COMPRESSED, _DATA} <= numbers.keys():
            raise ValueError(f"the footer does not say where column {self._shown(index)} is")
        if numbers[_CODEC] == _LZO:
            raise InvalidObject(
                f"{self._name}: the Parquet column {self._shown(index)} is compressed with LZO, which is not "
                "supported. Write the object with snappy, gzip, zstd, lz4 or brotli.",
                reason="unsupported",
            )
        begin, values, size = (numbers[each] for each in (_DATA, _VALUES, _COMPRESSED))
        if 0 < numbers.get(_DICTIONARY, 0) < begin:
            begin = numbers[_DICTIONARY]
        known = 0 <= numbers[_CODEC] < len(CODECS)
        codec = CODECS[numbers[_CODEC]] if known else ""
        if min(begin, values, size) < 0:
            raise ValueError(f"the footer has a negative number for column {self._shown(index)}")
        statistics = numbers.get(_STATISTICS)
        nulls = statistics.get(_NULL_COUNT, 0) if isinstance(statistics, dict) else 0
        return Chunk(begin, begin + size, values, codec, nulls)

    def _shown(self, index: int) -> str:
        return repr(self.leaves[index].name[:80]) if index < len(self.leaves) else f"number {index}"


def _footer_bytes(name: str, file: RangedFile) -> bytes:
    size = file.size()
    if size < _LEAST_BYTES:
        raise ObjectCorrupt(f"{name}: {size} bytes are too few for a Parquet object.")
    tail = file.range(max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise _encrypted(name, "its footer and columns are")
    if tail[-4:] != _MAGIC:
        _refuse_compressed(name, file.range(0, min(size, HEAD_BYTES)))
        raise ObjectCorrupt(
            f"{name}: this is no Parquet object, or its end is missing: it does not end in PAR1. Upload it "
            "again, or correct input.format."
        )
    length = int.from_bytes(tail[-_TRAILER_BYTES:-4], "little")
    if length > size - _LEAST_BYTES:
        raise ObjectCorrupt(
            f"{name}: the Parquet object is damaged (a footer of {length} bytes does not fit in). "
            "Upload it again."
        )
    if length + _TRAILER_BYTES > len(tail):
        tail = file.range(size - length - _TRAILER_BYTES, length + _TRAILER_BYTES)
    return tail[-length - _TRAILER_BYTES : -_TRAILER_BYTES]


def _refuse_compressed(name: str, head: bytes) -> None:
    """InvalidObject for what is compressed as a whole, or an archive: no attempt makes Parquet of it."""
    codec = sniff(head)
    words = unsupported(head, "") if codec is None else f"compressed as a whole ({codec})"
    if words is not None:
        raise InvalidObject(
            f"{name}: the object is {words}, and Parquet is read only as it is, by its own compression. "
            "Store it without, or correct input.format.",
            reason="unsupported",
        )


def _encrypted(name: str, what: str) -> InvalidObject:
    return InvalidObject(
        f"{name}: this Parquet object is encrypted with Parquet's modular encryption ({what}), for which "
        "Headrace has no keys. Write it without; S3's own encryption is read.",
        reason="unsupported",
    )


def _arrow_metadata(footer: bytes) -> Any:
    at = footer.rfind(_ARROW_SCHEMA)
    if at >= 0:
        footer = footer[:at] + _IGNORED + footer[at + len(_IGNORED) :]
    trailer = len(footer).to_bytes(4, "little") + _MAGIC
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer + trailer))


def _spark_schema(footer: bytes) -> bytes | None:
    """The value that follows Spark's key, if it is there."""
    at = footer.rfind(bytes([len(SPARK_SCHEMA)]) + SPARK_SCHEMA)
    if at < 0:
        return None
    reader = ThriftReader(footer, at, bytes_max=len(footer))
    try:
        reader.value(BINARY)
        number, kind = next(reader.fields(), (0, 0))
        return reader.value(kind) if (number, kind) == (1, BINARY) else None
    except (ThriftIncompleteError, ThriftDamagedError):
        return None  # the same bytes within something else
