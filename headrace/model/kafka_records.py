"""Records as they were fetched from one topic-partition: columns, without a Python object for each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from headrace.model.columns import Column, Numbers, owned, picked

Headers = tuple[tuple[str, bytes | None], ...]

NO_TIMESTAMP: Final = -1
"""In the place of a record's timestamp that has none; restored, it gets the producer's clock."""

# Kafka's own numbers of a timestamp's type.
TIMESTAMP_NONE: Final = 0
TIMESTAMP_CREATED: Final = 1
TIMESTAMP_APPENDED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecords:
    """Records of one topic-partition in the order of their offsets, which may have gaps.

    Numbers are int64 arrays of one length; timestamps are ms since 1970. `headers` is None when no record has
    any; a record without is there with an empty tuple.
    """

    topic: str
    partition: int
    offsets: Numbers
    timestamps_ms: Numbers
    timestamp_types: Numbers
    keys: Column
    values: Column
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def first_offset(self) -> int:
        """The lowest offset; there is at least one record."""
        return int(self.offsets[0])

    @property
    def last_offset(self) -> int:
        """The highest offset; there is at least one record."""
        return int(self.offsets[-1])

    def take(self, rows: Numbers | slice) -> "KafkaRecords":
        """The records of these row numbers, which rise, over the same buffers."""
        headers = self.headers
        if headers is not None:
            chosen = range(len(self))[rows] if isinstance(rows, slice) else rows.tolist()
            headers = [headers[row] for row in chosen]
        return KafkaRecords(
            topic=self.topic,
            partition=self.partition,
            offsets=self.offsets[rows],
            timestamps_ms=self.timestamps_ms[rows],
            timestamp_types=self.timestamp_types[rows],
            keys=_part(self.keys, rows),
            values=_part(self.values, rows),
            headers=headers,
        )

    def owned(self) -> "KafkaRecords":
        """The same records in memory of their own."""
        return replace(self, keys=owned(self.keys), values=owned(self.values))

    def payload_bytes(self) -> int:
        """Bytes of all keys and values."""
        return int(np.maximum(self.keys.lengths, 0).sum() + np.maximum(self.values.lengths, 0).sum())


def _part(column: Column, rows: Numbers | slice) -> Column:
    if isinstance(rows, slice):
        return Column(buffer=column.buffer, starts=column.starts[rows], lengths=column.lengths[rows])
    return picked(column, rows)
