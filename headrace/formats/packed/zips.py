"""The members of a zip, each fetched by its range."""

import zlib
from collections.abc import Callable, Iterator
from typing import Final

from isal import igzip_lib

from headrace.formats.compression import Codec, decompressed
from headrace.formats.compression.peekable_stream import PeekableStream
from headrace.formats.packed.member_source import MemberSource, dropped
from headrace.formats.packed.rules import ArchiveRules
from headrace.formats.packed.zip_directory import LOCAL, ZipEntry, read_directory
from headrace.formats.records.decode_options import PackedMember
from headrace.model.byte_source import ByteSource
from headrace.model.errors import ObjectCorrupt
from headrace.model.positions import MemberPosition

# Members of up to this size give rows once their checksum has been met, as blocks of a compression do.
HOLD_BYTES: Final = 16 * 1024 * 1024
_OUT_BYTES: Final = 64 * 1024
_CHUNK_BYTES: Final = 1024 * 1024
# Between two members that are read: what is passed over in a stream, rather than begin another one.
_GAP_BYTES: Final = 1024 * 1024
_LOCAL_SIGNATURE: Final = b"PK\x03\x04"
_STORED: Final = 0
_DEFLATE: Final = 8
_CODECS: Final = {12: Codec.BZIP2, 93: Codec.ZSTD, 95: Codec.XZ}


def zip_members(
    source: ByteSource, start: MemberPosition | None, rules: ArchiveRules
) -> Iterator[tuple[PackedMember, MemberSource]]:
    """The files to be read, in the order in which they are stored, from the one at `start` on.

    What is not read of the archive is known before its first row: InvalidObject. Raises ObjectCorrupt.
    """
    entries, until = read_directory(source, rules)
    wanted = [(number, entry) for number, entry in enumerate(entries) if rules.wants(entry.name)]
    for _, entry in wanted:
        _check(entry, rules)
    rules.check_size(sum(entry.size for _, entry in wanted))
    if start is not None and not any(
        (number, entry.header) == (start.entry, start.header) for number, entry in wanted
    ):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of this zip archive.")
    front = _Front(source, until, rules)
    for number, entry in wanted:
        if start is None or number >= start.entry:
            member = PackedMember(number, entry.header, entry.name)
            yield member, _Content(source, front, entry, rules).source()


def _check(entry: ZipEntry, rules: ArchiveRules) -> None:
    rules.check_name(entry.name)
    if entry.what is not None:
        raise rules.refused(entry.name, entry.what, "Write the archive with plain files, without a password")
    if entry.method not in (_STORED, _DEFLATE, *_CODECS):
        raise rules.refused(
            entry.name,
            f"is compressed by zip's method {entry.method}",
            "Write the archive with deflate, bzip2, zstd or xz",
        )


class _Front:
    """Ranges of a zip in ascending order, by one stream where they are close to each other."""

    def __init__(self, source: ByteSource, until: int, rules: ArchiveRules) -> None:
        self._source = source
        self._until = until
        self._rules = rules
        self._at = 0
        self._stream: PeekableStream | None = None

    def chunks(self, begin: int, size: int) -> Iterator[bytes]:
        """The `size` bytes from `begin` on."""
        if self._stream is None or not 0 <= begin - self._at <= _GAP_BYTES:
            self._stream = PeekableStream(self._source.stream(begin, self._until))
        elif not self._stream.skip(begin - self._at):
            raise self._rules.torn("zip")
        self._at = begin
        while size:
            chunk = self._stream.read_some(min(size, _CHUNK_BYTES))
            if not chunk:
                raise self._rules.torn("zip")
            self._at += len(chunk)
            size -= len(chunk)
            yield chunk


class _Content:
    """What is stored of one entry, and what it expands to."""

    def __init__(self, source: ByteSource, front: _Front, entry: ZipEntry, rules: ArchiveRules) -> None:
        self._outer = source
        self._front = front
        self._entry = entry
        self._name = rules.member(entry.name)
        self._rules = rules
        self._begin: int | None = None

    def source(self) -> MemberSource:
        """The source that the member's decoder reads."""
        size = self._entry.size
        is_range = self._entry.method == _STORED
        return MemberSource(
            self._outer,
            self._name,
            size,
            hold=HOLD_BYTES,
            first=self._held() if size <= HOLD_BYTES else self._first(),
            again=self._again,
            read=(lambda at, length: self._outer.read_at(self._data_at() + at, length)) if is_range else None,
        )

    def _held(self) -> Iterator[bytes]:
        yield b"".join(self._first())

    def _first(self) -> Iterator[bytes]:
        begin = self._data_at()
        yield from self._proven(self._expanded(self._front.chunks(begin, self._entry.stored)))

    def _again(self, at: int) -> Iterator[bytes]:
        begin, end = self._data_at(), self._data_at() + self._entry.stored
        if self._entry.method == _STORED:
            return self._outer.stream(begin + at, end)
        return dropped(self._proven(self._expanded(self._outer.stream(begin, end))), at)

    def _data_at(self) -> int:
        """Where what is stored begins: after the header, which has a length of its own."""
        if self._begin is not None:
            return self._begin
        entry, length = self._entry, LOCAL.size + len(self._entry.raw_name)
        header = b"".join(self._front.chunks(entry.header, length))
        *_, name_length, extra_length = LOCAL.unpack_from(header)
        if not header.startswith(_LOCAL_SIGNATURE) or header[LOCAL.size :] != entry.raw_name:
            raise self._rules.damaged("zip", entry.header, "its directory names another member there")
        self._begin = entry.header + LOCAL.size + name_length + extra_length
        return self._begin

    def _expanded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        if self._entry.method == _STORED:
            return chunks
        codec = _CODECS.get(self._entry.method)
        return self._inflated(chunks) if codec is None else decompressed(codec, chunks, name=self._name)

    def _inflated(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
        try:
            for chunk in chunks:
                yield from _steps(inflater.decompress, chunk, lambda: inflater.eof or inflater.needs_input)
                if inflater.eof:
                    return
        except (igzip_lib.error, ValueError, EOFError) as error:  # type: ignore[misc]  # no type to mypy
            raise self._damaged(str(error)) from error
        raise self._damaged("it ends too early")

    def _proven(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The chunks, which have to be what the directory says of them."""
        crc = size = 0
        for chunk in chunks:
            size += len(chunk)
            if size > self._entry.size:
                raise self._damaged("it is longer than the directory says")
            crc = zlib.crc32(chunk, crc)
            yield chunk
        if size < self._entry.size:
            raise self._damaged("it is shorter than the directory says")
        if crc != self._entry.crc:
            raise self._damaged("it has another checksum than the directory says")

    def _damaged(self, why: str) -> ObjectCorrupt:
        return ObjectCorrupt(f"{self._name}: the member is damaged: {why}. Upload the object again.")


def _steps(
    decompress: Callable[[bytes, int], bytes], chunk: bytes, is_done: Callable[[], bool]
) -> Iterator[bytes]:
    yield decompress(chunk, _OUT_BYTES)
    while not is_done():
        yield decompress(b"", _OUT_BYTES)
