"""One member of an archive as the source that its format's decoder reads."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from headrace.model.byte_source import ByteSource
from headrace.model.errors import ObjectError

# What is kept of the beginning of a member that is not held whole: enough for all that look what it is.
_HEAD_BYTES: Final = 64 * 1024


class MemberSource:
    """See `headrace.model.byte_source.ByteSource`. A member of up to `hold` bytes is held whole.

    `first` is read once, from the member's beginning; `again` opens it at any byte, where something is read a
    second time. `read` is there where any range can be fetched by itself.
    """

    def __init__(
        self,
        outer: ByteSource,
        name: str,
        size: int,
        *,
        hold: int,
        first: Iterator[bytes],
        again: Callable[[int], Iterator[bytes]],
        read: Callable[[int, int], bytes] | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self.is_seekable = read is not None or size <= hold
        self._outer = outer
        self._keep = size if size <= hold else _HEAD_BYTES
        self._first: Iterator[bytes] | None = first
        self._again = again
        self._read = read
        self._head: bytes | None = None
        self._is_torn = False

    @property
    def fetched_bytes(self) -> int:
        """Those of the archive."""
        return self._outer.fetched_bytes

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `begin` to `end`, in chunks."""
        if end is None:
            return self._from(begin)  # to its own end, where its checksum is
        return bounded(self._from(begin), max(0, min(end, self.size) - begin))

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly [offset, offset + length), or fewer only at the end of the member."""
        length = max(0, min(length, self.size - offset))
        head = self._held()
        if offset + length <= len(head) or self._is_torn:
            return head[offset : offset + length]
        if self._read is not None:
            return self._read(offset, length)
        return b"".join(bounded(self._from(offset, is_whole=False), length))

    def _from(self, begin: int, *, is_whole: bool = True) -> Iterator[bytes]:
        """The bytes from `begin` on: of what is held, of the first reading, or of another one."""
        head, first = self._held(), self._first
        if self.size <= len(head):
            return iter([head[begin:]]) if begin < len(head) else iter(())
        is_near = begin <= len(head) or self._read is None
        if first is None or not is_whole or not is_near:
            return self._again(begin)
        self._first = None
        return dropped(chain([head], first), begin)

    def _held(self) -> bytes:
        """The beginning that is kept; damage in it comes after it, as in any stream."""
        if self._head is None:
            assert self._first is not None, "nothing takes it before"
            parts, have = [], 0
            rest: Iterator[bytes] = iter(())
            try:
                while have < self._keep and (chunk := next(self._first, None)) is not None:
                    parts.append(chunk)
                    have += len(chunk)
            except ObjectError as error:
                rest, self._is_torn = _raised(error), True
            content = b"".join(parts)
            self._head = content[: self._keep]
            self._first = chain([content[self._keep :]], rest, self._first)
        return self._head


def _raised(error: ObjectError) -> Iterator[bytes]:
    """An iterator that raises when it is asked."""
    yield from ()
    raise error


def bounded(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The first `size` bytes of the chunks, which are not asked for more."""
    while size > 0 and (chunk := next(chunks, None)) is not None:
        yield chunk[:size]
        size -= len(chunk)


def dropped(chunks: Iterator[bytes], begin: int) -> Iterator[bytes]:
    """The chunks from byte `begin` on."""
    for chunk in chunks:
        if begin < len(chunk):
            yield chunk[begin:] if begin else chunk
        begin = max(0, begin - len(chunk))
