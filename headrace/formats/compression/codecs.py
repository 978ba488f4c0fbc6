"""Decompression in bounded steps: each function takes compressed chunks and gives plain ones.

However small the input and however large its content, no step makes more than about OUT_BYTES at once.
Damage is ObjectCorrupt, raised after everything before it was given out. What is whole and not supported is
InvalidObject.
"""

import bz2
import lzma
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import cramjam
from isal import igzip_lib

from headrace.formats.compression.block_ends import WALKS, proven
from headrace.formats.compression.magic import Codec, Member, UnsupportedError
from headrace.model.errors import HeadraceError, InvalidObject, ObjectCorrupt

# What one step gives out at most. What a failing step had made is lost with it.
OUT_BYTES: Final = 64 * 1024

# LZMA's dictionary is the writer's choice, up to 4 GiB; zstd has the same limit built in.
_XZ_MEMORY_BYTES: Final = 128 * 1024 * 1024

# What liblzma says through Python of a memory limit, a filter or an integrity check.
_XZ_UNSUPPORTED: Final = ("Memory usage limit", "nsupported")

# What Arrow says of a stream that ends within a frame.
_TRUNCATED: Final = "Truncated"

# The framing format forbids more than 64 KiB; xerial's writers take blocks of up to 32 MiB from their users.
_SNAPPY_BLOCK_BYTES: Final = 32 * 1024 * 1024

# What the libraries raise; isal's stubs say an instance where a class stands.
_DAMAGE: Final[tuple[type[Exception], ...]] = (
    OSError,
    EOFError,
    ValueError,
    lzma.LZMAError,
    igzip_lib.error,  # type: ignore[assignment]  # igzip's error is no type to mypy
    cramjam.DecompressionError,
)

_SNAPPY_IDENTIFIER: Final = b"\xff\x06\x00\x00sNaPpY"
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16


class _Inflater(Protocol):
    """The shape that bz2, lzma and isal share: one member, given out in steps."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def decompressed(codec: Codec, chunks: Iterator[bytes], *, name: str) -> Iterator[bytes]:
    """The plain content of all members or frames, in chunks; ObjectCorrupt, naming `name`, at damage.

    Where blocks or frames have checksums, what they hold is given out once it is proven (`HOLD_BYTES`).
    """
    try:
        walk = WALKS.get(codec)
        yield from CODECS[codec](chunks) if walk is None else proven(CODECS[codec], walk, chunks)
    except UnsupportedError as error:
        raise InvalidObject(f"{name}: {error}", reason="unsupported") from error
    except _DAMAGE as error:
        raise ObjectCorrupt(
            f"{name}: the {codec} stream is damaged or ends too early ({_sentence(error)}). "
            "Upload the object again."
        ) from error


def _sentence(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _members(
    make: Callable[[], _Inflater], chunks: Iterator[bytes], is_enough: Callable[[bytes], bool] = bool
) -> Iterator[bytes]:
    """Members one after the other, as `cat a.gz b.gz` makes them; zero bytes after one are padding.

    A member is begun with so much of it as `is_enough`.
    """
    inflater, begun, held = make(), False, b""
    for chunk in chunks:
        pending = held + chunk if held else chunk
        held = b""
        while pending:
            if not begun:
                pending = pending.lstrip(b"\x00")
                if not is_enough(pending):
                    held = pending
                    break
            begun = True
            yield inflater.decompress(pending, OUT_BYTES)
            while not inflater.eof and not inflater.needs_input:
                yield inflater.decompress(b"", OUT_BYTES)
            pending = b""
            if inflater.eof:
                pending, inflater, begun = bytes(inflater.unused_data), make(), False
        if (begun or held) and isinstance(chunk, Member):
            raise ValueError("a member continues after the end that it names")
    if begun or held:
        raise EOFError("the last member is incomplete")


def _gzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    # igzip forgets which fields a header has from one call to the next (intel/isa-l#224).
    return _members(lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP), chunks, _has_gzip_header)


# RFC 1952: the magic, the method, and a byte of flags; time and system follow.
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP_HEADER_BYTES: Final = 10
_GZIP_FLAGS_AT: Final = 3
_GZIP_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 0x02, 0x04, 0x08, 0x10
# An extra field has 64 KiB at most; name and comment have no bound of their own.
_GZIP_HEADER_MAX: Final = 256 * 1024


def _has_gzip_header(head: bytes) -> bool:
    """True for a member's beginning with all of its header in it, and for what is no member."""
    if not head.startswith(_GZIP_MAGIC):
        return not _GZIP_MAGIC.startswith(head)
    if len(head) < _GZIP_HEADER_BYTES:
        return False
    flags, at = head[_GZIP_FLAGS_AT], _GZIP_HEADER_BYTES
    if not flags:
        return True
    if flags & _GZIP_EXTRA:
        at += 2 + int.from_bytes(head[at : at + 2], "little")
    for field in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & field and at <= len(head):
            at = head.find(b"\x00", at) + 1 or len(head) + 1
    if flags & _GZIP_CRC:
        at += 2
    if at > len(head) > _GZIP_HEADER_MAX:
        raise ValueError("a member's header is longer than 256 KiB")
    return at <= len(head)


def _bzip2(chunks: Iterator[bytes]) -> Iterator[bytes]:
    return _members(bz2.BZ2Decompressor, chunks)


def _xz(chunks: Iterator[bytes]) -> Iterator[bytes]:
    def member() -> _Inflater:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)

    try:
        yield from _members(member, chunks)
    except lzma.LZMAError as error:
        raise (xz_unsupported(error) or error) from error


def xz_unsupported(error: lzma.LZMAError) -> UnsupportedError | None:
    """What an error says that is no damage; None where it is."""
    # Both are said of headers whose own checksum was right.
    if not any(words in str(error) for words in _XZ_UNSUPPORTED):
        return None
    return UnsupportedError(
        f"the xz stream needs what is not supported ({_sentence(error)}; a dictionary may take 128 MiB). "
        "Compress it with `xz -9` or less."
    )


class _Reader:
    """Chunks as a readable file, for Arrow. An error of the source is kept, so that it is seen unchanged."""

    closed = False

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = b""
        self.error: HeadraceError | UnsupportedError | EOFError | None = None

    def read(self, size: int = -1) -> bytes:
        # No bytes are the end of a file; a chunk without any is none of the stream.
        try:
            while not self._held:
                chunk = next(self._chunks, None)
                if chunk is None:
                    return b""
                self._held = bytes(chunk)
        except (HeadraceError, UnsupportedError, EOFError) as error:
            self.error = error
            raise
        out, self._held = self._held[:size], self._held[size:]
        return out

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _arrow(name: str) -> Callable[[Iterator[bytes]], Iterator[bytes]]:
    """All frames of what Arrow calls `name`. Arrow, because it notices a frame that was cut short."""

    def decompress(chunks: Iterator[bytes]) -> Iterator[bytes]:
        # A tenth of a second to load, which `check` and `plan` need not wait for.
        import pyarrow as pa

        reader = _Reader(chunks)
        stream: Any = pa.CompressedInputStream(pa.PythonFile(reader, mode="r"), name)
        try:
            while plain := stream.read(OUT_BYTES):
                yield plain
        except (OSError, SystemError, EOFError, UnsupportedError) as error:
            if reader.error is not None:
                raise reader.error from None
            if _TRUNCATED in str(error):
                raise EOFError(str(error)) from None
            raise

    return decompress


class _Exactly:
    """Reads of an exact size from chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = bytearray()

    def read(self, size: int, *, at_end: bool = False) -> bytes:
        """`size` bytes; EOFError when there are fewer, except none at all where the stream may end."""
        while len(self._held) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                if at_end and not self._held:
                    return b""
                raise EOFError("the stream ends within a block")
            self._held += chunk
        out = bytes(memoryview(self._held)[:size])
        del self._held[:size]
        return out


def _snappy_framed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks of the framing format, each checked against its checksum by the library."""
    stream = _Exactly(chunks)
    while header := stream.read(4, at_end=True):
        kind, size = header[0], int.from_bytes(header[1:], "little")
        if kind in (0, 1):
            body = stream.read(size)
            yield bytes(cramjam.snappy.decompress(_SNAPPY_IDENTIFIER + header + body))
        elif kind == 0xFF:  # noqa: PLR2004  # the stream identifier, once for each file that was appended
            if header + stream.read(size) != _SNAPPY_IDENTIFIER:
                raise ValueError("a stream identifier is not snappy's")
        elif kind >= 0x80:  # noqa: PLR2004  # padding and skippable chunks
            stream.read(size)
        else:
            raise ValueError(f"a chunk has the reserved type {kind}")


def _snappy_xerial(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks as snappy-java's SnappyOutputStream writes them; streams may follow one another."""
    stream = _Exactly(chunks)
    while head := stream.read(4, at_end=True):
        if head == _XERIAL_MAGIC[:4]:
            rest = stream.read(_XERIAL_HEADER_BYTES - 4)
            if not rest.startswith(_XERIAL_MAGIC[4:]):
                raise ValueError("a stream header is not snappy-java's")
            continue
        size = int.from_bytes(head, "big")
        if size > _SNAPPY_BLOCK_BYTES:
            raise ValueError(f"a block claims {size} bytes")
        block = stream.read(size)
        if cramjam.snappy.decompress_raw_len(block) > _SNAPPY_BLOCK_BYTES:
            raise ValueError("a block claims more than 32 MiB of content")
        yield bytes(cramjam.snappy.decompress_raw(block))


CODECS: Final[dict[Codec, Callable[[Iterator[bytes]], Iterator[bytes]]]] = {
    Codec.GZIP: _gzip,
    Codec.ZSTD: _arrow("zstd"),
    Codec.SNAPPY_FRAMED: _snappy_framed,
    Codec.SNAPPY_XERIAL: _snappy_xerial,
    Codec.BZIP2: _bzip2,
    Codec.LZ4: _arrow("lz4"),
    Codec.XZ: _xz,
}
