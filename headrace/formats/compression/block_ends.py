"""Where the blocks and frames of each format end, found without decompressing anything.

Each walker gives the stored bytes as they come, and reports to `Proof` every checksum that has been passed.
Bytes in which it finds no frame are given to the decoder as they are, which says what is wrong with them.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Final

import zstandard

from headrace.formats.compression.magic import (
    Codec,
    Member,
    PeekableStream,
    UnsupportedError,
    skippable_bytes,
)

# -- Plain bytes are held until the checksum of their block or frame has been met ----------------------------
# A decoder gives out what it has made before it comes to the checksum behind it. A row behind a flipped bit
# would be produced as good. So what a decoder makes of a block is held here, in bounded memory, until the
# decoder asks for bytes behind the block: then it has compared the checksum.

# A block of more plain bytes than this goes on without proof, as all blocks without checksums do.
HOLD_BYTES: Final = 16 * 1024 * 1024


class Proof:
    """What of the plain bytes may be given out; the walker of a format says where its blocks end."""

    def __init__(self, stream: PeekableStream) -> None:
        self._stream = stream
        self._held: list[bytes] = []
        self._size = 0
        self._proven = 0  # chunks at the front of those held
        self._before_tear = 0
        self._is_torn = False
        self._holds = True
        self.made = 0

    def read(self, size: int) -> bytes:
        """A chunk of the stream, for the decoder; what it makes of one that is torn does not count."""
        if not self._is_torn:
            self._before_tear = len(self._held)
        data = self._stream.read(size)
        self._is_torn = self._is_torn or len(data) < size
        return data

    def begin(self, *, checked: bool) -> None:
        """A block begins that has a checksum, or none."""
        self._holds = checked

    def proven(self) -> None:
        """Everything made so far has been compared with its checksum."""
        if not self._is_torn:
            self._proven = len(self._held)
            self._holds = True

    def add(self, plain: bytes) -> Iterator[bytes]:
        """Hold what was made, and give out what needs no holding any more."""
        self.made += len(plain)
        yield from self._release(self._proven)
        self._held.append(plain)
        self._size += len(plain)
        if self._size > HOLD_BYTES:
            self._holds = False
        if not self._holds:
            yield from self.rest()

    def rest(self) -> Iterator[bytes]:
        """Give out all that is held."""
        yield from self._release(len(self._held))

    def before_damage(self, *, is_torn: bool) -> Iterator[bytes]:
        """Give out what is proven, and of a torn stream what was made of the chunks before the last one."""
        yield from self._release(max(self._proven, self._before_tear if is_torn else 0))

    def _release(self, count: int) -> Iterator[bytes]:
        if not count:
            return
        ready, self._held = self._held[:count], self._held[count:]
        self._size -= sum(map(len, ready))
        self._proven = 0
        self._before_tear = max(0, self._before_tear - count)
        yield from ready


Decode = Callable[[Iterator[bytes]], Iterator[bytes]]
# The stored bytes as they are, in chunks that end where a block does; `Proof` is called after each.
Walk = Callable[[PeekableStream, Proof], Iterator[bytes]]


def proven(decode: Decode, walk: Walk, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What `decode` makes of the chunks, each block once it is proven.

    Damage drops the block that it is in. A stream that is torn (EOFError) gives out the last block's
    beginning: nothing speaks against it, and no more will ever be known of it.
    """
    stream = PeekableStream(chunks)
    proof = Proof(stream)
    try:
        for plain in _to_the_end(decode, walk(stream, proof), stream):
            yield from proof.add(plain)
    except Exception as error:  # whatever it is, what is proven comes before it
        yield from proof.before_damage(is_torn=isinstance(error, EOFError))
        raise
    yield from proof.rest()


def _to_the_end(decode: Decode, stored: Iterator[bytes], stream: PeekableStream) -> Iterator[bytes]:
    """What `decode` makes; a decoder that ends early is damage, or what it did not ask for would be lost."""
    yield from decode(stored)
    if any(stored) or stream.peek(1):
        raise ValueError("the decoder ended before the stored bytes did")


# -- Where the blocks of an xz stream end, found without decompressing anything ------------------------------
# https://tukaani.org/xz/xz-file-format.txt; the last filter of a block is always LZMA2, whose chunks say how
# long they are.

_MAGIC: Final = b"\xfd7zXZ\x00"
_ENDS_BYTES: Final = 12  # of the stream's header and of its footer
_CHECK_BYTES: Final = (0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64)
_LZMA: Final = 0x80
_NEW_PROPERTIES: Final = 0xC0
_PLAIN: Final = (1, 2)
_VARINT_BYTES: Final = 9


def walk_xz(stream: PeekableStream, proof: Proof) -> Iterator[bytes]:
    """The streams one after the other, each block proven after its check."""
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


# -- Where the blocks and frames of each format end, found without decompressing anything --------------------

STEP_BYTES: Final = 64 * 1024

_ZSTD_HEADER_BYTES: Final = 18
_ZSTD_CHECKSUM_BYTES: Final = 4
# zstd's own limit for streams, `--long=27`.
_ZSTD_WINDOW_BYTES: Final = 1 << 27
_ZSTD_RLE: Final = 1

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER_BYTES: Final = 19
_LZ4_BLOCK_BYTES: Final = 4 * 1024 * 1024
_LZ4_PLAIN: Final = 0x8000_0000

_BGZIP_HEADER_BYTES: Final = 18
_BGZIP_MAGIC: Final = b"\x1f\x8b\x08\x04"
_BGZIP_FIELD: Final = b"\x06\x00BC\x02\x00"

_BZIP2_FIRST_BYTES: Final = 512
_BZIP2_LEAST_BYTES: Final = 32
_BZIP2_MOST_BYTES: Final = 16 * 1024
_BZIP2_MADE_BYTES: Final = 1024 * 1024


def _walk_zstd(stream: PeekableStream, proof: Proof) -> Iterator[bytes]:
    while head := _behind_skippable(stream, _ZSTD_HEADER_BYTES):
        try:
            frame = zstandard.get_frame_parameters(head)
            length = zstandard.frame_header_size(head)
        except (zstandard.ZstdError, ValueError):
            break
        refuse_zstd(frame)
        proof.begin(checked=frame.has_checksum)
        yield from _zstd_blocks(stream, proof, length, _ZSTD_CHECKSUM_BYTES if frame.has_checksum else 0)
        proof.proven()
    yield from stream.rest()


def refuse_zstd(frame: zstandard.FrameParameters) -> None:
    """UnsupportedError for a frame that needs a dictionary or a window above the limit."""
    if frame.dict_id:
        raise UnsupportedError(
            f"the zstd frame was compressed with the dictionary {frame.dict_id}, and dictionaries are not "
            "supported. Compress it without one."
        )
    if frame.window_size > _ZSTD_WINDOW_BYTES:
        raise UnsupportedError(
            f"the zstd frame needs a window of {frame.window_size >> 20} MiB, and 128 MiB is the most that "
            "is supported. Compress it with --long=27 or less."
        )


def _zstd_blocks(stream: PeekableStream, proof: Proof, size: int, checksum: int) -> Iterator[bytes]:
    """The frame whose header is of `size` bytes, many small blocks together."""
    is_last = False
    while not is_last and (head := stream.peek(3, size)):
        bits = int.from_bytes(head, "little")
        is_last, kind, length = bool(bits & 1), bits >> 1 & 3, bits >> 3
        size += 3 + (1 if kind == _ZSTD_RLE else length)
        if size >= STEP_BYTES:
            yield proof.read(size)
            size = 0
    if size + checksum:
        yield proof.read(size + checksum)


def _behind_skippable(stream: PeekableStream, size: int) -> bytes:
    """The next bytes after any skippable frames; EOFError when one is torn."""
    while (length := skippable_bytes(head := stream.peek(size))) is not None:
        if not stream.skip(length):
            raise EOFError("the stream ends within a skippable frame")
    return head


def _walk_lz4(stream: PeekableStream, proof: Proof) -> Iterator[bytes]:
    while (head := _behind_skippable(stream, _LZ4_HEADER_BYTES)).startswith(_LZ4_MAGIC) and len(head) > 4:  # noqa: PLR2004  # LZ4's magic alone is no frame
        flags = head[4]
        has_block_checksums, has_checksum = bool(flags & 0x10), bool(flags & 0x04)
        if flags & 0x01:
            raise UnsupportedError(
                "the lz4 frame was compressed with a dictionary, and dictionaries are not supported. "
                "Compress it without one."
            )
        proof.begin(checked=has_block_checksums or has_checksum)
        yield proof.read(7 + (8 if flags & 0x08 else 0))
        while (head := stream.peek(4)) and any(head):
            size = int.from_bytes(head, "little") & ~_LZ4_PLAIN
            if size > _LZ4_BLOCK_BYTES:
                break
            yield proof.read(4 + size + (4 if has_block_checksums else 0))
            if has_block_checksums:
                proof.proven()
        yield proof.read(4 + (4 if has_checksum else 0))
        proof.proven()
    yield from stream.rest()


def _walk_gzip(stream: PeekableStream, proof: Proof) -> Iterator[bytes]:
    """Members of bgzip say how long they are; where any other ends is known only after it."""
    proof.begin(checked=_bgzip_bytes(stream.peek(_BGZIP_HEADER_BYTES)) is not None)
    while (size := _bgzip_bytes(stream.peek(_BGZIP_HEADER_BYTES))) is not None:
        data = proof.read(size)
        yield Member(data) if len(data) == size else data
        proof.proven()
    yield from stream.rest()


def _bgzip_bytes(head: bytes) -> int | None:
    """Length of the member that `head` begins with, by bgzip's extra field; None when it has none."""
    if len(head) < _BGZIP_HEADER_BYTES or head[:4] != _BGZIP_MAGIC or head[10:16] != _BGZIP_FIELD:
        return None
    return int.from_bytes(head[16:18], "little") + 1


def _walk_bzip2(stream: PeekableStream, proof: Proof) -> Iterator[bytes]:
    """Steps, for blocks end between bytes. A decoder that asks for input has checked each whole block so far.

    A step is the smaller the more comes out of it: a block of 900 kB may take forty bytes.
    """
    step = _BZIP2_FIRST_BYTES
    while data := stream.read_some(step):
        before = proof.made
        yield data
        proof.proven()
        made = proof.made - before
        if made > _BZIP2_MADE_BYTES:
            step = max(step // 4, _BZIP2_LEAST_BYTES)
        else:
            step = min(step * 2, _BZIP2_MOST_BYTES)


# snappy's framing is checked chunk by chunk in its decoder, and xerial's has no checksums.
WALKS: Final[dict[Codec, Walk]] = {
    Codec.ZSTD: _walk_zstd,
    Codec.LZ4: _walk_lz4,
    Codec.GZIP: _walk_gzip,
    Codec.BZIP2: _walk_bzip2,
    Codec.XZ: walk_xz,
}
