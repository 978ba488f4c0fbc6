"""A stream read in chunks of any size, without a copy of what follows them."""

from collections.abc import Iterator
from typing import Final

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
