"""Where the rows of an object go, and what is the same for all of them."""

from dataclasses import dataclass
from typing import Protocol

from headrace.model.rows import RowBatch

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTarget:
    """Where the rows of one object go.

    `partition` None: the partitioner decides. `key` serves rows without keys of their own, `timestamp_ms`
    (None: the time of producing) those without a timestamp; `headers` come before a row's own.
    """

    topic: str
    partition: int | None = None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


class ProducePath(Protocol):
    """A way for rows into librdkafka's queue."""

    def send(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full.

        Raises RecordRefused and other translated errors, SlotRevoked when the slot is void. Bad rows are not
        its concern.
        """

    def close(self) -> None:
        """Give back what it holds of the producer, before that is closed."""
