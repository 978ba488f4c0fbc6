"""Objects of the soak: every row has a number, so that what becomes of it can be looked up afterwards."""

import gzip
import random
import re
import zlib
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from headrace.formats.compression.codecs import OUT_BYTES

# One object in ten has bad rows, and one in ten of its rows is bad: one row in a hundred.
_OBJECTS_WITH_BAD_ROWS: Final = 0.1
_BAD_ROWS: Final = 0.1
_CORRUPT: Final = 0.01
_COMPRESSED: Final = 0.3
_NUMBER: Final = re.compile(rb'\{"id":(\d+)')


class Damage(Enum):
    """What is wrong with an object as a whole."""

    NONE = auto()
    TORN = auto()
    """The upload ended early, in the middle of the compressed stream."""
    CHECKSUM = auto()
    """Everything can be unpacked, and then its end does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """One object: its rows have the numbers [first, first + count)."""

    key: str
    first: int
    count: int
    bad: frozenset[int]
    damage: Damage
    line_ends: tuple[int, ...] = field(repr=False)
    """Behind each row, the byte of the plain content."""
    readable: int
    """How many rows can be unpacked whole, at least: what a failing step had made is lost with it."""

    def rows_before(self, byte: int) -> int:
        """How many rows end at or before this byte of the plain content."""
        return sum(end <= byte for end in self.line_ends)


def number_of(raw: bytes) -> int:
    """The number of a row, good or bad."""
    found = _NUMBER.match(raw)
    assert found is not None, f"a record that nobody uploaded, of {len(raw)} bytes"
    return int(found[1])


def make(chance: random.Random, *, key: str, first: int) -> tuple[Uploaded, bytes]:
    """A new object and its body: mostly small, seldom large; some compressed, a few of those damaged."""
    count = chance.choice((1, 5, 20, 100, 100, 400, 2000))
    is_spoilt = chance.random() < _OBJECTS_WITH_BAD_ROWS
    bad = {n for n in range(first, first + count) if is_spoilt and chance.random() < _BAD_ROWS}
    damage = Damage.NONE
    if chance.random() < _CORRUPT:
        damage = chance.choice((Damage.TORN, Damage.CHECKSUM))
    content = bytearray()
    ends = []
    for number in range(first, first + count):
        fill = b"x" * chance.randrange(20, 300)
        content += b'{"id":%d,"fill":"%s"%s\n' % (number, fill, b"" if number in bad else b"}")
        ends.append(len(content))
    body = bytes(content)
    if damage is not Damage.NONE or chance.random() < _COMPRESSED:
        body = gzip.compress(body, 1)
    if damage is Damage.TORN:
        body = body[: chance.randrange(11, len(body) - 8)]
    elif damage is Damage.CHECKSUM:
        body = body[:-6] + bytes([body[-6] ^ 0xFF]) + body[-5:]
    readable = count
    if damage is Damage.TORN:
        readable = zlib.decompressobj(wbits=31).decompress(body).count(b"\n")
    elif damage is Damage.CHECKSUM:
        readable = sum(end <= len(content) - OUT_BYTES for end in ends)
    uploaded = Uploaded(
        key=key,
        first=first,
        count=count,
        bad=frozenset(bad),
        damage=damage,
        line_ends=tuple(ends),
        readable=readable,
    )
    return uploaded, body
