"""What every encoder is: the bytes of one open object, a batch of records at a time.

The encoder of an object whose columns are found in its own first records.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from headrace.formats.converted_records import ConvertedRecords


class ObjectEncoder(Protocol):
    """Encodes one object. Used by one thread; nothing blocks."""

    @property
    def buffered(self) -> int:
        """Bytes held in memory: rows that are not encoded or compressed yet, and what `drain` would give."""

    def add(self, records: ConvertedRecords) -> None:
        """Appends records of the object's schema, or of one that `next_schema` projects to it."""

    def drain(self, *, end_block: bool = False) -> bytes:
        """The bytes of the object that are final now and were not given before.

        With `end_block` the open block (gzip member, frame, Avro block, row group) is closed, so that next to
        nothing is held afterwards.
        """

    @property
    def content(self) -> str:
        """The digest of what the object says (`content_digest`), once it is finished; empty: none is kept.

        Kept where another sink may have written the object, in bytes of its own libraries.
        """

    def finish(self) -> bytes:
        """The rest of the object; nothing is called afterwards."""


LEARNED: Final = 1000
"""So many records of an object widen its columns; a later one that is wider begins another object."""


class LearningEncoder:
    """Holds the first records, until their columns are known: `make` makes the encoder by a kind."""

    def __init__(self, make: Callable[[Any], ObjectEncoder], kind: Any) -> None:
        self._make = make
        self.kind: Any = kind
        """What holds the values so far; widened by the one that adds them."""
        self._held: list[ConvertedRecords] = []
        self._bytes = 0
        self._left = LEARNED
        self._encoder: ObjectEncoder | None = None

    @property
    def left(self) -> int:
        """How many records more may widen the object."""
        return self._left

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._bytes if self._encoder is None else self._encoder.buffered

    def add(self, records: ConvertedRecords) -> None:
        """Appends records, which `kind` holds."""
        if self._encoder is not None:
            self._encoder.add(records)
            return
        if len(records) < self._left:
            self._held.append(records.owned())
            self._bytes += records.records.payload_bytes()
            self._left -= len(records)
            return
        self._settled().add(records)

    def drain(self, *, end_block: bool = False) -> bytes:
        """The bytes that are final. Memory that is short ends learning: else it would hold what it has."""
        if self._encoder is None and not (end_block and self._held):
            return b""
        return self._settled().drain(end_block=end_block)

    @property
    def content(self) -> str:
        """The digest of what the object says."""
        return self._settled().content

    def finish(self) -> bytes:
        """The rest of the object."""
        return self._settled().finish()

    def _settled(self) -> ObjectEncoder:
        if self._encoder is None:
            self._encoder = self._make(self.kind)
            for records in self._held:
                self._encoder.add(records)
            self._held, self._bytes, self._left = [], 0, 0
        return self._encoder
