"""Which compression the first bytes of an object belong to. File names and settings are not asked."""

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
