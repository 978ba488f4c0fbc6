"""Where the blocks and frames of each format end, found without decompressing anything.

Each walker gives the stored bytes as they come, and reports to `Proof` every checksum that has been passed.
Bytes in which it finds no frame are given to the decoder as they are, which says what is wrong with them.
"""

from collections.abc import Iterator
from typing import Final

import zstandard

from headrace.formats.compression.magic import Codec, skippable_bytes
from headrace.formats.compression.peekable_stream import Member, PeekableStream
from headrace.formats.compression.proof import Proof, Walk
from headrace.formats.compression.unsupported import UnsupportedError
from headrace.formats.compression.xz_blocks import walk_xz

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
    yield proof.read(size + checksum)


def _behind_skippable(stream: PeekableStream, size: int) -> bytes:
    """The next bytes behind any skippable frames; EOFError when one is torn."""
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
    """Members of bgzip say how long they are; where any other ends is known only behind it."""
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
