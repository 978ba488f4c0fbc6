"""The headers of a record, read from the bytes of Kafka's record format.

https://kafka.apache.org/documentation/#recordheader
"""

from typing import Final

from headrace.model.kafka_records import Headers

_MORE: Final = 0x80
# Many records have the same headers: those of so many different ones are kept.
_KEPT: Final = 4096


class HeaderParser:
    """Headers by their bytes, which begin with their count."""

    def __init__(self) -> None:
        self._known: dict[bytes, Headers] = {}

    def parse(self, data: bytes) -> Headers:
        """The headers in their order; ValueError or IndexError for bytes that hold none."""
        found = self._known.get(data)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[data] = _parsed(data)
        return found


def _parsed(data: bytes) -> Headers:
    count, at = _number(data, 0)
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, at = _number(data, at)
        name = data[at : at + size].decode(errors="replace")
        size, at = _number(data, at + size)
        # A length of -1 is a null.
        found.append((name, None if size < 0 else data[at : at + size]))
        at += max(size, 0)
    if at != len(data):
        raise ValueError(f"{len(data)} bytes of headers end at byte {at}.")
    return tuple(found)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and where the next byte is."""
    byte = data[at]
    value = byte & ~_MORE
    shift = 7
    while byte & _MORE:
        at += 1
        byte = data[at]
        value |= (byte & ~_MORE) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at + 1
