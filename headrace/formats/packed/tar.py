"""The members of a tar, read from its front; plain, or compressed as a whole."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.formats.compression import plain_stream, stored_codec
from headrace.formats.compression.peekable_stream import PeekableStream
from headrace.formats.packed.member_source import MemberSource, bounded
from headrace.formats.packed.rules import ArchiveRules, relative
from headrace.formats.packed.tar_headers import (
    BLOCK,
    LONG_LINK,
    LONG_NAME,
    PAX,
    PAX_FOR_ALL,
    TarError,
    TarHeader,
    pax_size,
    read_header,
    read_pax,
)
from headrace.formats.records.decode_options import PackedMember
from headrace.model.byte_source import ByteSource
from headrace.model.positions import MemberPosition

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
