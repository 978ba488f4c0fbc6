"""The members of a tar, plain or compressed as a whole, read from its front by what it says of each entry.

Entries have blocks of 512 bytes, as POSIX (ustar, pax), GNU and v7 write them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from headrace.formats.compression import plain_stream, stored_codec
from headrace.formats.compression.magic import PeekableStream, is_ustar
from headrace.formats.packed.member_source import ArchiveRules, MemberSource, bounded, relative
from headrace.formats.records.decode_options import PackedMember
from headrace.model.objects import ByteSource
from headrace.model.positions import MemberPosition

BLOCK: Final = 512
# The name and the size of one entry alone, in a header of its own before it.
LONG_NAME: Final = b"L"
LONG_LINK: Final = b"K"
PAX: Final = (b"x", b"X")
PAX_FOR_ALL: Final = b"g"

_MAGIC_AT: Final = 257
_MAGIC: Final = b"ustar"
_GNU: Final = b"ustar  "
_CHECKSUM: Final = slice(148, 156)
_FILES: Final = (b"0", b"\x00", b"7")
_GNU_SPARSE: Final = b"S"
_FOLDERS: Final = (b"5", b"D")
_VOLUME: Final = b"V"
_OTHERS: Final = {
    b"1": "is a hard link",
    b"2": "is a symbolic link",
    b"3": "is a device",
    b"4": "is a device",
    b"6": "is a named pipe",
    _GNU_SPARSE: "is a sparse file",
    b"M": "continues from another volume",
}
# Of these nothing follows the header, whatever their size says.
_BARE: Final = frozenset((b"1", b"2", b"3", b"4", b"5", b"6", _VOLUME))
_ENDINGS: Final = re.compile(r"\.(tar(\.[a-z0-9]+)?|tgz|tbz2?|txz|tzst)$", re.IGNORECASE)


class TarError(Exception):
    """A block is no header; `str()` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TarHeader:
    """One block. `size` is that of what follows it; `is_extended` where a sparse file's map does so, too."""

    kind: bytes
    name: bytes
    size: int
    is_extended: bool
    is_sparse: bool = False

    @property
    def is_folder(self) -> bool:
        """True for what has no content: a folder, also as v7 writes one, or a volume's label."""
        return (
            self.kind in _FOLDERS
            or self.kind == _VOLUME
            or (self.kind in _FILES and self.name.endswith(b"/"))
        )

    @property
    def what(self) -> str | None:
        """What the entry is, if it is no file."""
        if self.is_sparse:
            return _OTHERS[_GNU_SPARSE]
        return (
            None if self.kind in _FILES else _OTHERS.get(self.kind, f"is of the unknown type {self.kind!r}")
        )

    @property
    def content_size(self) -> int:
        """How many bytes follow the header."""
        return 0 if self.kind in _BARE else self.size


def is_tar(head: bytes, name: str) -> bool:
    """Whether plain content that begins with these 512 bytes, of an object called so, is a tar."""
    if len(head) < BLOCK:
        return False
    if not head.strip(b"\x00"):
        return _ENDINGS.search(name) is not None  # one without entries
    return is_ustar(head) or _has_checksum(head)


def read_header(block: bytes) -> TarHeader:
    """What the block says; TarError for one that is no header."""
    if not _has_checksum(block):
        raise TarError("a header has another checksum than it says")
    kind = block[156:157]
    name = _text(block[:100])
    prefix = _text(block[345:500])
    # GNU has other things in the place of the prefix.
    if prefix and block.startswith(_MAGIC, _MAGIC_AT) and not block.startswith(_GNU, _MAGIC_AT):
        name = prefix + b"/" + name
    return TarHeader(
        kind=kind,
        name=name,
        size=_number(block[124:136]),
        is_extended=kind == _GNU_SPARSE and block[482:483] not in {b"", b"\x00"},
    )


def read_pax(content: bytes) -> dict[bytes, bytes]:
    """The records of an extended header; TarError for what is none."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(content) and content[at] != 0:
        blank = content.find(b" ", at, at + 20)
        digits = content[at:blank] if blank > 0 else b""
        end = at + int(digits) if digits.isdigit() else 0
        name, equals, value = content[blank + 1 : max(0, end - 1)].partition(b"=")
        if not equals or end > len(content) or content[end - 1 : end] != b"\n":
            raise TarError("an extended header has a record without an end")
        found[name] = value
        at = end
    return found


def pax_size(text: bytes) -> int:
    """The size in an extended header."""
    if not text.isdigit():
        raise TarError("an extended header has a size that is no number")
    return int(text)


def _text(field: bytes) -> bytes:
    return field.partition(b"\x00")[0]


def _number(field: bytes) -> int:
    """Octal digits, or where the first bit is set the number itself."""
    if field[0] & 0x80:
        return int.from_bytes(bytes((field[0] & 0x3F,)) + field[1:], "big")
    digits = field.strip(b"\x00 ")
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise TarError("a header has a size that is no number") from None


def _has_checksum(block: bytes) -> bool:
    digits = block[_CHECKSUM].strip(b"\x00 ")
    try:
        wanted = int(digits, 8)
    except ValueError:
        return False
    other = block[:148] + b" " * 8 + block[156:]
    # Some old ones added the bytes as signed numbers.
    signed = sum(other) - 256 * sum(octet >> 7 for octet in other)
    return wanted in {sum(other), signed}


HOLD_BYTES: Final = 4 * 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024
# From here on another request is cheaper than to read what is passed over.
_GAP_BYTES: Final = 4 * 1024 * 1024
# An honest header of names and times is some hundreds of bytes.
_EXTENDED_BYTES: Final = 1024 * 1024
# What of an extended header for all entries would change which bytes are whose.
_DECIDING: Final = frozenset((b"path", b"size", b"linkpath"))


class _Front:
    """The plain stream of a tar, and the byte of it that comes next."""

    def __init__(self, source: ByteSource, at: int, rules: ArchiveRules) -> None:
        self.at = at
        self.is_packed = stored_codec(source) is not None
        self._source = source
        self._rules = rules
        self._stream = self._opened()

    def _opened(self) -> PeekableStream:
        return PeekableStream(plain_stream(self._source, self.at, opaque=True))

    def block(self) -> bytes:
        """The next 512 bytes; none at the end."""
        found = self._stream.read(BLOCK)
        if found and len(found) < BLOCK:
            raise self._rules.torn("tar")
        self.at += len(found)
        return found

    def chunks(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes."""
        while size:
            chunk = self._stream.read_some(min(size, _CHUNK_BYTES))
            if not chunk:
                raise self._rules.torn("tar")
            self.at += len(chunk)
            size -= len(chunk)
            yield chunk

    def go_to(self, at: int) -> None:
        """Pass over what is before this byte."""
        if not self.is_packed and at - self.at > _GAP_BYTES:
            # Not beyond the end: that a byte is missing has to be seen.
            last = at - 1
            if not self._source.read_at(last, 1):
                raise self._rules.torn("tar")
            self.at = at
            self._stream = self._opened()
            return
        for _ in self.chunks(at - self.at):
            pass


def tar_members(
    source: ByteSource, start: MemberPosition | None, rules: ArchiveRules
) -> Iterator[tuple[PackedMember, MemberSource]]:
    """The files to be read, in their order, from the one at `start` on; each is done with before the next.

    Raises ObjectCorrupt after the last byte before the damage, InvalidObject for what is not read.
    """
    front = _Front(source, 0 if start is None else start.header, rules)
    for number, (at, header) in enumerate(_headers(front, rules), 0 if start is None else start.entry):
        name = relative(header.name.decode(errors="backslashreplace"))
        begin, size = front.at, header.content_size
        rules.check_entries(number + 1)
        rules.check_size(begin + size)
        if not header.is_folder and rules.wants(name):
            rules.check_name(name)
            if header.what is not None:
                raise rules.refused(name, header.what, "Write the archive with plain files alone")
            yield PackedMember(number, at, name), _source(source, front, rules.member(name), size)
        front.go_to(begin + -(-size // BLOCK) * BLOCK)


def _source(source: ByteSource, front: _Front, name: str, size: int) -> MemberSource:
    begin = front.at

    def again(at: int) -> Iterator[bytes]:
        return bounded(plain_stream(source, begin + at, opaque=True), size - at)

    return MemberSource(
        source,
        name,
        size,
        hold=HOLD_BYTES,
        first=front.chunks(size),
        again=again,
        read=None if front.is_packed else lambda at, length: source.read_at(begin + at, length),
    )


def _headers(front: _Front, rules: ArchiveRules) -> Iterator[tuple[int, TarHeader]]:
    """Each entry with the byte at which its first header begins; afterwards the stream is at its content."""
    is_closed = False
    while True:
        at = front.at
        block = front.block()
        if not block:
            if not is_closed:
                raise rules.torn("tar")
            return
        is_closed = not block.strip(b"\x00")
        if is_closed:
            continue  # what follows may be another tar, as `cat` joins them
        damaged = partial(rules.damaged, "tar", at)
        try:
            header = _described(front, read_header(block), rules)
        except TarError as error:
            raise damaged(str(error)) from error
        if header is not None:
            yield at, header


def _described(front: _Front, header: TarHeader, rules: ArchiveRules) -> TarHeader | None:
    """The header with what those before it say of the entry; None for one that is about no entry."""
    given: dict[bytes, bytes] = {}
    while header.kind in (LONG_NAME, LONG_LINK, *PAX, PAX_FOR_ALL):
        content = _extended(front, header)
        if header.kind == LONG_NAME:
            given[b"path"] = content.rstrip(b"\x00")
        elif header.kind in PAX:
            given |= read_pax(content)
        elif header.kind == PAX_FOR_ALL:
            if _DECIDING & read_pax(content).keys():
                raise TarError("a header for all entries has a name or a size")
            if not given:
                return None
        block = front.block()
        if not block:
            raise rules.torn("tar")
        header = read_header(block)
    header = _filled(header, given)
    _pass_map(front, header)
    return header


def _filled(header: TarHeader, given: dict[bytes, bytes]) -> TarHeader:
    """The header with its name and size from those before it."""
    if b"path" in given:
        header = replace(header, name=given[b"path"])
    if b"size" in given:
        header = replace(header, size=pax_size(given[b"size"]))
    if any(name.startswith(b"GNU.sparse.") for name in given):
        header = replace(header, name=given.get(b"GNU.sparse.name", header.name), is_sparse=True)
    return header


def _extended(front: _Front, header: TarHeader) -> bytes:
    if header.size > _EXTENDED_BYTES:
        raise TarError("an extended header is larger than any that a tool writes")
    content = b"".join(front.chunks(-(-header.size // BLOCK) * BLOCK))
    return content[: header.size]


def _pass_map(front: _Front, header: TarHeader) -> None:
    """Pass over the rest of a sparse file's map, which is between its header and its content."""
    is_more = header.is_extended
    while is_more:
        block = front.block()
        is_more = block[504:505] not in {b"", b"\x00"}
