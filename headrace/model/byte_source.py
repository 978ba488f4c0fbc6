"""What a decoder reads from: one content of one object, as a stream or by ranges."""

from collections.abc import Iterator
from typing import Protocol


class ByteSource(Protocol):
    """One object, pinned to one content: everything it gives comes from the same ETag.

    Raises only classes of `errors`: ObjectMissing, ObjectSuperseded, ObjectForbidden, ObjectArchived,
    SourceUnavailable, AccessDenied. A cut connection is resumed inside, by range, and not seen here.
    """

    @property
    def size(self) -> int:
        """Size of the object in bytes, as stored."""

    @property
    def name(self) -> str:
        """`s3://bucket/key`, for messages."""

    @property
    def fetched_bytes(self) -> int:
        """Bytes fetched from S3 so far."""

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `begin` to `end` (exclusive; None: the end) in chunks of a bounded size; blocks.

        Reads ahead in the background by a bounded window. Closing the iterator gives the connection back.
        """

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly the bytes [offset, offset + length), or fewer only at the end of the object; blocks."""
