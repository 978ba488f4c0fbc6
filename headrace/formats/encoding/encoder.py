"""What every encoder is: the bytes of one open object, a batch of records at a time."""

from typing import Protocol

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
