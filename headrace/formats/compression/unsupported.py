"""Compressions and archives that are recognised so that they can be named: none is read as lines."""

import re
from typing import Final

from headrace.formats.compression.magic import sniff

# What is needed of a beginning: a tar says what it is at byte 257.
HEAD_BYTES: Final = 512


class UnsupportedError(Exception):
    """The stream is whole as far as it is known, and needs what is not supported; `str()` says what."""


_MAGIC: Final = (
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
# LZMA alone: properties, a dictionary's size, and a length of 8 bytes that is unknown or no exabytes.
_LZMA: Final = b"\x5d\x00\x00"
_LZMA_LENGTH_ENDS: Final = (b"\xff\xff", b"\x00\x00")
_TAR_AT: Final = 257
_TAR: Final = b"ustar"

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
    for magic, words in _MAGIC:
        if head.startswith(magic):
            return words
    if head.startswith(_LZMA) and head[11:13] in _LZMA_LENGTH_ENDS:
        return _ENDINGS[".lzma"]
    if head.startswith(_TAR, _TAR_AT):
        return "a tar archive"
    dot = name.rfind(".")
    named = None if dot < name.rfind("/") else _ENDINGS.get(name[dot:].lower())
    return None if named is None or _is_text(head) else named


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
