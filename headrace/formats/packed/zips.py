"""The members of a zip, each fetched by its range, which the directory at the zip's end gives."""

import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from isal import igzip_lib

from headrace.formats.compression import Codec, decompressed
from headrace.formats.compression.magic import PeekableStream
from headrace.formats.packed.member_source import ArchiveRules, MemberSource, dropped, relative
from headrace.formats.records.decode_options import PackedMember
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import MemberPosition

_ZIP: Final = "zip"
_BEGINNINGS: Final = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_END: Final = struct.Struct("<4s4H2LH")
_END_SIGNATURE: Final = b"PK\x05\x06"
_LOCATOR: Final = struct.Struct("<4sLQL")
_LOCATOR_SIGNATURE: Final = b"PK\x06\x07"
_END_64: Final = struct.Struct("<4sQ2H2L4Q")
_END_64_SIGNATURE: Final = b"PK\x06\x06"
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_ENTRY_SIGNATURE: Final = b"PK\x01\x02"
# What says that a number is in a field of 64 bits elsewhere.
_SHORT_MAX: Final = 0xFFFF
_LONG_MAX: Final = 0xFFFFFFFF
_COMMENT_BYTES: Final = 0xFFFF
# So much of a directory may be for one entry, on average: a name, times and a comment.
_BYTES_AN_ENTRY: Final = 4096
LOCAL: Final = struct.Struct("<4s5H3L2H")
_EXTRA_64: Final = 0x0001
_EXTRA_NAME: Final = 0x7075
_ENCRYPTED: Final = 0x2041  # by a password, strongly, or with a directory that is
_PATCHED: Final = 0x20
_UTF_8: Final = 0x800
_AES: Final = 99
_UNIX: Final = (3, 19)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    """One entry of the directory; `what` says what it is that cannot be read, None for a file."""

    raw_name: bytes
    name: str
    method: int
    crc: int
    stored: int
    size: int
    header: int
    what: str | None

    @property
    def least_end(self) -> int:
        """Where it ends at the earliest: its header, its name, and what is stored of it."""
        return self.header + LOCAL.size + len(self.raw_name) + self.stored


def is_zip(head: bytes) -> bool:
    """Whether an object that begins so is a zip."""
    return head.startswith(_BEGINNINGS)


def read_directory(source: ByteSource, rules: ArchiveRules) -> tuple[list[ZipEntry], int]:
    """The entries in the order in which they are stored, and where the directory begins.

    Blocks on two or three ranged reads. Raises ObjectCorrupt, and InvalidObject for more than is allowed.
    """
    count, begin, size = _place(source, rules)
    rules.check_entries(count)
    if size > count * _BYTES_AN_ENTRY:
        raise rules.damaged(_ZIP, begin, "its directory is larger than any that a tool writes")
    content = source.read_at(begin, size)
    entries = sorted(_entries(content, count, begin, rules), key=lambda entry: entry.header)
    ends = [entry.header for entry in entries] + [begin]
    for entry, (_, end) in zip(entries, pairwise(ends), strict=True):
        if entry.least_end > end:
            raise rules.refused(
                entry.name, "overlaps another one", "No tool writes such an archive, it is made to harm"
            )
    return entries, begin


def _place(source: ByteSource, rules: ArchiveRules) -> tuple[int, int, int]:
    """How many entries the directory has, where it begins, and its length."""
    tail_at = max(0, source.size - _END.size - _COMMENT_BYTES - _LOCATOR.size)
    tail = source.read_at(tail_at, source.size - tail_at)
    at = len(tail)
    while (at := tail.rfind(_END_SIGNATURE, 0, at)) >= 0:
        if at + _END.size <= len(tail):
            _, disk, first_disk, _, count, size, begin, comment = _END.unpack_from(tail, at)
            if at + _END.size + comment == len(tail):
                break
    else:
        raise rules.torn(_ZIP)
    if _SHORT_MAX in {disk, count} or _LONG_MAX in {size, begin}:
        found = _place_64(source, tail[max(0, at - _LOCATOR.size) : at], rules)
        if found is not None:
            count, begin, size = found
            disk = first_disk = 0
    if disk or first_disk:
        raise InvalidObject(
            f"{rules.name}: the zip archive is one of several volumes. Upload it as a single one.",
            reason="unsupported",
        )
    if begin + size > tail_at + at:
        raise rules.damaged(_ZIP, tail_at + at, "its directory is not where its end says")
    return count, begin, size


def _place_64(source: ByteSource, locator: bytes, rules: ArchiveRules) -> tuple[int, int, int] | None:
    """The same of a zip with more entries or bytes than the first zips could have; None where it has less."""
    if not locator.startswith(_LOCATOR_SIGNATURE):
        return None
    _, _, at, _ = _LOCATOR.unpack(locator)
    block = source.read_at(at, _END_64.size) if at < source.size else b""
    if len(block) < _END_64.size or not block.startswith(_END_64_SIGNATURE):
        raise rules.damaged(_ZIP, at, "its directory's end is not there")
    *_, count, size, begin = _END_64.unpack(block)
    return count, begin, size


def _entries(content: bytes, count: int, begin: int, rules: ArchiveRules) -> Iterator[ZipEntry]:
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(content) or not content.startswith(_ENTRY_SIGNATURE, at):
            raise rules.damaged(_ZIP, begin + at, "its directory has fewer entries than it says")
        fields = _ENTRY.unpack_from(content, at)
        name_at = at + _ENTRY.size
        extra_at = name_at + fields[10]
        at = extra_at + fields[11] + fields[12]
        if at > len(content):
            raise rules.damaged(_ZIP, begin + name_at, "its directory is cut short")
        try:
            yield _entry(fields, content[name_at:extra_at], content[extra_at : extra_at + fields[11]])
        except struct.error:
            raise rules.damaged(_ZIP, begin + extra_at, "a size of 64 bits is missing") from None


def _entry(fields: tuple[int, ...], raw_name: bytes, extra: bytes) -> ZipEntry:
    _, made_by, _, flags, method, _, _, crc, stored, size, _, _, _, _, _, attributes, header = fields
    extras = _extras(extra)
    # Only those numbers are there that have no room in the entry.
    wide = extras.get(_EXTRA_64, b"")
    if size == _LONG_MAX:
        size, wide = _wide(wide)
    if stored == _LONG_MAX:
        stored, wide = _wide(wide)
    if header == _LONG_MAX:
        header, wide = _wide(wide)
    return ZipEntry(
        raw_name=raw_name,
        name=relative(_name(raw_name, flags, extras.get(_EXTRA_NAME))),
        method=method,
        crc=crc,
        stored=stored,
        size=size,
        header=header,
        what=_what(flags, method, attributes >> 16 if made_by >> 8 in _UNIX else 0),
    )


def _wide(extra: bytes) -> tuple[int, bytes]:
    return struct.unpack_from("<Q", extra)[0], extra[8:]


def _extras(extra: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        found.setdefault(kind, extra[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def _name(raw: bytes, flags: int, unicode_name: bytes | None) -> str:
    """The name in UTF-8, where it says so or can be; else in the characters of the first PCs."""
    if flags & _UTF_8:
        return raw.decode(errors="backslashreplace")
    # Of what changed the name since, the checksum of the one that it knew tells.
    if unicode_name is not None and unicode_name[1:5] == zlib.crc32(raw).to_bytes(4, "little"):
        return unicode_name[5:].decode(errors="backslashreplace")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp437")


def _what(flags: int, method: int, mode: int) -> str | None:
    if flags & _ENCRYPTED or method == _AES:
        return "is encrypted"
    if flags & _PATCHED:
        return "is a patch of another file"
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        return "is a symbolic link"
    return None if kind in {0, stat.S_IFREG, stat.S_IFDIR} else "is a device"


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
