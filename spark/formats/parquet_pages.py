"""The sizes of Parquet pages, read from the bytes that pass by on their way to Arrow.

Arrow allocates what a page header claims. So each column chunk that is read is followed here from header to
header, and a page that is too large is refused before Arrow sees its header's end.
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift (PageHeader), in Thrift's
compact protocol.
"""

from typing import Final

# Statistics in a header hold a minimum and a maximum; beyond this it is no header.
_HEADER_MAX_BYTES: Final = 16 * 1024 * 1024
_DEPTH_MAX: Final = 16
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


class HeaderIncompleteError(Exception):
    """More bytes are needed to read the header."""


class HeaderDamagedError(Exception):
    """These bytes are no page header; Arrow will say so in its own words."""


def read_page_header(data: bytes) -> tuple[int, int, int]:
    """Length of the header at the start of `data`, and compressed and uncompressed size of its page."""
    reader = _Compact(data)
    sizes = reader.struct()
    if 2 not in sizes or 3 not in sizes or sizes[2] < 0 or sizes[3] < 0:  # noqa: PLR2004  # the field ids
        raise HeaderDamagedError
    return reader.at, sizes[3], sizes[2]


class _Compact:
    """As much of Thrift's compact protocol as skipping needs."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """The struct's integer fields by id; everything else is skipped."""
        if depth > _DEPTH_MAX:
            raise HeaderDamagedError
        numbers: dict[int, int] = {}
        field = 0
        while (head := self._byte()) & 0x0F != _STOP:
            kind, delta = head & 0x0F, head >> 4
            field = field + delta if delta else _zigzag(self._varint())
            if kind in (_I16, _I32, _I64):
                numbers[field] = _zigzag(self._varint())
            elif kind not in (_TRUE, _FALSE):
                self._skip(kind, depth)
        return numbers

    def _skip(self, kind: int, depth: int) -> None:
        match kind:
            case 1 | 2 | 3:
                self._advance(1)
            case 4 | 5 | 6:
                self._varint()
            case 7:
                self._advance(8)
            case 8:
                self._advance(self._varint())
            case 9 | 10:
                head = self._byte()
                count = head >> 4 if head >> 4 != 0x0F else self._varint()  # noqa: PLR2004
                self._skip_many(head & 0x0F, count, depth)
            case 12:
                self.struct(depth + 1)
            case _:
                raise HeaderDamagedError

    def _skip_many(self, kind: int, count: int, depth: int) -> None:
        if count > _HEADER_MAX_BYTES or depth > _DEPTH_MAX:
            raise HeaderDamagedError
        for _ in range(count):
            self._skip(kind, depth + 1)

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise HeaderIncompleteError
        self.at += 1
        return self._data[self.at - 1]

    def _advance(self, count: int) -> None:
        if count > _HEADER_MAX_BYTES:
            raise HeaderDamagedError
        if self.at + count > len(self._data):
            raise HeaderIncompleteError
        self.at += count

    def _varint(self) -> int:
        value = shift = 0
        while (octet := self._byte()) & 0x80:
            value |= (octet & 0x7F) << shift
            shift += 7
            if shift > 63:  # noqa: PLR2004  # ten bytes hold any integer
                raise HeaderDamagedError
        return value | octet << shift


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


class PageWatch:
    """Follows one column chunk, whose first page is at `begin`, through reads in ascending order."""

    def __init__(self, begin: int) -> None:
        self._next: int | None = begin  # where the next header begins; None when the trail is lost
        self._held = b""

    @property
    def is_lost(self) -> bool:
        """True behind bytes that are no page header."""
        return self._next is None

    def see(self, offset: int, data: bytes) -> int:
        """The largest page that a header in `data`, read at `offset`, claims; in bytes, 0 for none."""
        largest = 0
        while self._next is not None and offset <= self._next + len(self._held) < offset + len(data):
            held = self._held + data[self._next + len(self._held) - offset :]
            try:
                length, compressed, uncompressed = read_page_header(held)
            except HeaderIncompleteError:
                self._held = held
                if len(held) > _HEADER_MAX_BYTES:
                    self._next = None
                return largest
            except HeaderDamagedError:
                self._next = None
                return largest
            largest = max(largest, compressed, uncompressed)
            self._next, self._held = self._next + length + compressed, b""
        return largest
