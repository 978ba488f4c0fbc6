"""Which compression or archive the first bytes of an object belong to, and a stream that peeks at them.

File names and settings are not asked. What is recognised and cannot be read is named, never read as lines.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final


class Codec(StrEnum):
    """A compression of whole objects, by the word used in log lines."""

    GZIP = "gzip"
    ZSTD = "zstd"
    SNAPPY_FRAMED = "snappy (framing)"
    SNAPPY_XERIAL = "snappy (xerial)"
    BZIP2 = "bzip2"
    LZ4 = "lz4"
    XZ = "xz"


# The longest prefix that `sniff` needs.
SNIFF_BYTES: Final = 16

_MAGIC: Final = (
    (b"\x1f\x8b\x08", Codec.GZIP),  # RFC 1952; 8 is deflate, the only method there is
    (b"\x28\xb5\x2f\xfd", Codec.ZSTD),  # RFC 8878
    (b"\xff\x06\x00\x00sNaPpY", Codec.SNAPPY_FRAMED),  # google/snappy framing_format.txt
    (b"\x82SNAPPY\x00", Codec.SNAPPY_XERIAL),  # org.xerial.snappy.SnappyCodec
    (b"\x04\x22\x4d\x18", Codec.LZ4),  # the LZ4 frame format
    (b"\xfd7zXZ\x00", Codec.XZ),
)

# "BZh" alone may well begin a text; behind the level stands the magic of a block or of the end.
_BZIP2_BLOCKS: Final = (b"1AY&SY", b"\x17rE8P\x90")

# What begins with none of these has no magic: most objects, for which it is all that is looked at.
_FIRST: Final = frozenset(
    (*(magic[:1] for magic, _ in _MAGIC), b"B", *(bytes((first,)) for first in range(0x50, 0x60)))
)

# zstd's and lz4's frame formats share the frames that a reader passes over.
_SKIPPABLE: Final = b"\x2a\x4d\x18"
_SKIPPABLE_HEADER_BYTES: Final = 8


def sniff(head: bytes) -> Codec | None:
    """The codec whose magic `head` begins with, or None for plain content; needs SNIFF_BYTES if there are."""
    if head[:1] not in _FIRST:
        return None
    for magic, codec in _MAGIC:
        if head.startswith(magic):
            return codec
    if head[:3] == b"BZh" and head[3:4] in b"123456789" and head[4:10] in _BZIP2_BLOCKS:
        return Codec.BZIP2
    # What is skipped may stand before either; without more it is nothing in both.
    return None if skippable_bytes(head) is None else Codec.ZSTD


def skippable_bytes(head: bytes) -> int | None:
    """Length of the skippable frame that `head` begins with, its header included; None when there is none."""
    if len(head) < _SKIPPABLE_HEADER_BYTES or head[1:4] != _SKIPPABLE or not 0x50 <= head[0] <= 0x5F:  # noqa: PLR2004  # sixteen magics, zstd's specification
        return None
    return _SKIPPABLE_HEADER_BYTES + int.from_bytes(head[4:8], "little")


# What is needed of a beginning: a tar says what it is at byte 257.
HEAD_BYTES: Final = 512


class UnsupportedError(Exception):
    """The stream is whole as far as it is known, and needs what is not supported; `str()` says what."""


_UNSUPPORTED_MAGIC: Final = (
    (b"\x02\x21\x4c\x18", "lz4 in its legacy frame (`lz4 -l`)"),
    *((bytes((first,)) + b"\xb5\x2f\xfd", "zstd of a version before 0.8") for first in range(0x22, 0x28)),
    (b"\x1f\x9d", "compress (.Z)"),
    (b"LZIP\x01", "lzip"),
    (b"LRZI\x00", "lrzip"),
    (b"\x89LZO\x00\x0d\x0a\x1a\x0a", "lzop"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"PK\x07\x08", "a zip archive"),
    (b"Rar!\x1a\x07", "a rar archive"),
    # No text in UTF-8 begins so.
    (b"\x78\x9c", "zlib (.deflate)"),
)
_ANY_UNSUPPORTED: Final = tuple(magic for magic, _ in _UNSUPPORTED_MAGIC)
# LZMA alone: properties, a dictionary's size, and a length of 8 bytes that is unknown or no exabytes.
_LZMA: Final = b"\x5d\x00\x00"
_LZMA_LENGTH_ENDS: Final = (b"\xff\xff", b"\x00\x00")
_TAR_AT: Final = 257
# POSIX's and GNU's. The word alone may well be one of a text, in which no NUL is.
_TARS: Final = (b"ustar\x00", b"ustar  \x00")

# Formats without a magic of their own, by what their writers call the objects.
_ENDINGS: Final = {
    ".br": "brotli",
    ".snappy": "snappy in Hadoop's blocks or raw",
    ".sz": "snappy in Hadoop's blocks or raw",
    ".lz4": "lz4 in Hadoop's blocks or raw",
    ".lzo": "LZO",
    ".lzo_deflate": "LZO",
    ".deflate": "zlib (.deflate)",
    ".zz": "zlib (.deflate)",
    ".zlib": "zlib (.deflate)",
    ".z": "compress (.Z)",
    ".lz": "lzip",
    ".lzma": "LZMA alone (.lzma)",
    ".7z": "a 7z archive",
    ".zip": "a zip archive",
    ".rar": "a rar archive",
    ".tar": "a tar archive",
}
# Beginnings of the formats that are read: whoever has one is read, whatever it is called.
_FORMATS: Final = (b"Obj\x01", b"PAR1")


def unsupported(head: bytes, name: str) -> str | None:
    """What an object is that begins with `head` and cannot be decompressed here; None when it may be read.

    Needs HEAD_BYTES if there are. The name counts only where there is no magic and the bytes are no text.
    """
    if sniff(head) is not None or head.startswith(_FORMATS):
        return None
    if head.startswith(_ANY_UNSUPPORTED):
        return next(words for magic, words in _UNSUPPORTED_MAGIC if head.startswith(magic))
    if head.startswith(_LZMA) and head[11:13] in _LZMA_LENGTH_ENDS:
        return _ENDINGS[".lzma"]
    if is_ustar(head):
        return "a tar archive"
    dot = name.rfind(".")
    named = None if dot < name.rfind("/") else _ENDINGS.get(name[dot:].lower())
    return None if named is None or _is_text(head) else named


def is_ustar(head: bytes) -> bool:
    """True for a tar's first header, unless it is of before POSIX; needs HEAD_BYTES if there are."""
    return head.startswith(_TARS, _TAR_AT)


def refusal(name: str, words: str, outer: str | None = None) -> str:
    """The sentence for an object that is `words`, within the compression `outer` if it is."""
    where = "" if outer is None else f" within {outer}"
    is_read = words == _ENDINGS[".tar"] or (words == _ENDINGS[".zip"] and outer is None)
    members = "Set input.archive=auto to read its members, or store" if is_read else "Store"
    return (
        f"{name}: the object is {words}{where}, which is not supported. {members} it plain, or compressed "
        "once by gzip, zstd, snappy (framing or xerial), bzip2, lz4 (frames) or xz."
    )


def _is_text(head: bytes) -> bool:
    """True for UTF-8, cut anywhere, without control characters other than white space."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.end < len(head) or error.reason != "unexpected end of data":
            return False
        text = head[: error.start].decode()
    return _CONTROL.search(text) is None


_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f]")


_CHUNK_BYTES: Final = 16 * 1024
_LEAST_BYTES: Final = 512
# Of a small object chunks are smaller still: one would be all of it.
_CHUNKS: Final = 8


class Member(bytes):
    """A chunk that is exactly one member, so that a decoder which is not at its end has been misled."""

    __slots__ = ()


class PeekableStream:
    """Reads of at most the size asked for; fewer bytes only at the end of the stream. Blocks on it."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = b""
        self._at = 0

    def peek(self, size: int, behind: int = 0) -> bytes:
        """The next `size` bytes, or those `behind` so many, which stay unread."""
        if behind:
            at = self._at + behind
            if at + size <= len(self._held):
                return self._held[at : at + size]
            return self.peek(behind + size)[behind:]
        have = len(self._held) - self._at
        if have < size:
            parts = [self._held[self._at :]]
            while have < size and (chunk := next(self._chunks, None)) is not None:
                parts.append(bytes(chunk))
                have += len(chunk)
            self._held, self._at = b"".join(parts), 0
        return self._held[self._at : self._at + size]

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        data = self.peek(size)
        self._at += len(data)
        return data

    def read_some(self, size: int) -> bytes:
        """At most `size` bytes that are there without asking for more; empty only at the end."""
        while self._at >= len(self._held):
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._held, self._at = bytes(chunk), 0
        data = self._held[self._at : self._at + size]
        self._at += len(data)
        return data

    def skip(self, size: int) -> bool:
        """Drop the next `size` bytes; False when there are fewer."""
        while size:
            data = self.read_some(size)
            if not data:
                return False
            size -= len(data)
        return True

    def rest(self) -> Iterator[bytes]:
        """Everything from here on, in small chunks, several of each one that came.

        What a decoder made of a chunk is lost when it finds damage in it.
        """
        while self._at < len(self._held) or self.peek(1):
            have = len(self._held) - self._at
            step = min(_CHUNK_BYTES, max(_LEAST_BYTES, have // _CHUNKS))
            for at in range(self._at, len(self._held), step):
                self._at = min(at + step, len(self._held))
                yield self._held[at : self._at]
