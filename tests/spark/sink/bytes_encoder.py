"""An encoder for the tests of what is around one: its records are bytes."""

from typing import Any


class BytesEncoder:
    """The smallest thing that keeps the protocol; a block is closed at `block_bytes`."""

    def __init__(self, block_bytes: int = 1) -> None:
        self._block_bytes = block_bytes
        self._held: list[bytes] = []
        self._bytes = 0

    @property
    def buffered(self) -> int:
        """Bytes held."""
        return self._bytes

    def add(self, records: Any) -> None:
        """Hold them."""
        self._held.append(records)
        self._bytes += len(records)

    def drain(self, *, end_block: bool = False) -> bytes:
        """All of them when the block is full or to be closed."""
        if not end_block and self._bytes < self._block_bytes:
            return b""
        given, self._held, self._bytes = b"".join(self._held), [], 0
        return given

    @property
    def content(self) -> str:
        """None is kept."""
        return ""

    def finish(self) -> bytes:
        """The rest."""
        return self.drain(end_block=True)


def as_records(data: bytes) -> Any:
    """What this encoder takes in the place of records."""
    return data
