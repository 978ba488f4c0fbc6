"""What a tar says of an entry: blocks of 512 bytes of POSIX (ustar, pax), GNU and v7."""

import re
from dataclasses import dataclass
from typing import Final

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
    return head.startswith(_MAGIC, _MAGIC_AT) or _has_checksum(head)


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
