"""Where the blocks of an xz stream end, found without decompressing anything.

https://tukaani.org/xz/xz-file-format.txt; the last filter of a block is always LZMA2, whose chunks say how
long they are.
"""

from collections.abc import Generator, Iterator
from typing import Final

from headrace.formats.compression.peekable_stream import PeekableStream
from headrace.formats.compression.proof import Proof

_MAGIC: Final = b"\xfd7zXZ\x00"
_ENDS_BYTES: Final = 12  # of the stream's header and of its footer
_CHECK_BYTES: Final = (0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64)
_LZMA: Final = 0x80
_NEW_PROPERTIES: Final = 0xC0
_PLAIN: Final = (1, 2)
_VARINT_BYTES: Final = 9


def walk_xz(stream: PeekableStream, proof: Proof) -> Iterator[bytes]:
    """The streams one after the other, each block proven behind its check."""
    while (head := stream.peek(_ENDS_BYTES)).startswith(_MAGIC) and len(head) == _ENDS_BYTES:
        check = _CHECK_BYTES[head[7] & 0x0F]
        yield proof.read(_ENDS_BYTES)
        while (first := stream.peek(1)) > b"\x00":
            proof.begin(checked=check > 0)
            yield proof.read((first[0] + 1) * 4)
            size = yield from _chunks(stream, proof)
            yield proof.read(-size % 4 + check)
            proof.proven()
        yield from _index(stream, proof)
        yield proof.read(_ENDS_BYTES)
        while stream.peek(4) == bytes(4):  # padding between streams
            yield proof.read(4)
    yield from stream.rest()


def _chunks(stream: PeekableStream, proof: Proof) -> Generator[bytes, None, int]:
    """LZMA2's chunks up to their end; returns how many bytes they were."""
    total = 0
    while True:
        head = stream.peek(6)
        if not head or not head[0]:
            yield proof.read(1)
            return total + 1
        control = head[0]
        if control >= _LZMA:
            size = 5 + (control >= _NEW_PROPERTIES) + int.from_bytes(head[3:5], "big") + 1
        elif control in _PLAIN:
            size = 3 + int.from_bytes(head[1:3], "big") + 1
        else:
            return total
        yield proof.read(size)
        total += size


def _index(stream: PeekableStream, proof: Proof) -> Iterator[bytes]:
    """The index: a zero byte, a count, two numbers a block, padding, a checksum."""
    head, count = _number(stream, 1)
    size = len(head)
    yield head
    for _ in range(2 * count):
        number, _value = _number(stream, 0)
        if not number:
            return
        size += len(number)
        yield number
    yield proof.read(-size % 4 + 4)


def _number(stream: PeekableStream, before: int) -> tuple[bytes, int]:
    """A varint with `before` bytes in front of it, as stored and as a number."""
    head = stream.peek(before + _VARINT_BYTES)
    value = 0
    for place, octet in enumerate(head[before:]):
        value |= (octet & 0x7F) << (7 * place)
        if octet < 0x80:  # noqa: PLR2004  # no continuation bit
            return stream.read(before + place + 1), value
    return stream.read(len(head)), 0
