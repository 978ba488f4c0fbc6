"""Objects of any size that are made as they are read, so that a test holds none of them."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import zstandard

_MIB: Final = 1 << 20


@dataclass
class Endless:
    """`part` so many times, as it is or packed, as an object that is read as a stream."""

    part: bytes
    times: int
    pack: Callable[[bytes, int], Iterator[bytes]] | None = None
    name: str = "s3://bucket/key"
    fetched_bytes: int = 0

    def __post_init__(self) -> None:
        self._chunks = b"".join(self.pack(self.part, self.times)) if self.pack is not None else None

    @property
    def size(self) -> int:
        """Length as stored."""
        return self.times * len(self.part) if self._chunks is None else len(self._chunks)

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """All of it, in chunks of a mebibyte."""
        assert (begin, end) == (0, None)
        if self._chunks is None:
            for _ in range(self.times):
                yield self.part
        else:
            for at in range(0, len(self._chunks), _MIB):
                yield self._chunks[at : at + _MIB]

    def read_at(self, offset: int, length: int) -> bytes:
        """Only of its beginning."""
        assert offset == 0
        return next(self.stream())[:length]


def _packed(packer: Any, part: bytes, times: int) -> Iterator[bytes]:
    for _ in range(times):
        yield packer.compress(part)
    yield packer.flush()


def gzipped(part: bytes, times: int) -> Iterator[bytes]:
    """One member: a thousandth of its content, where that repeats."""
    return _packed(zlib.compressobj(9, wbits=31), part, times)


def zstandarded(part: bytes, times: int) -> Iterator[bytes]:
    """One frame: less than a ten-thousandth."""
    return _packed(zstandard.ZstdCompressor(level=1).compressobj(), part, times)


PARTS: Final = {"a line without end": b"x" * _MIB, "short lines": b'{"a":1}\n' * (_MIB // 8)}
PACKERS: Final = {"plain": None, "gzip": gzipped, "zstd": zstandarded}


def endless(part: str, packer: str, mebibytes: int) -> Endless:
    """One by its words, for a process of its own."""
    return Endless(PARTS[part], mebibytes, PACKERS[packer])
