"""What a consumer of the demo has read."""

import time
from collections import Counter
from typing import Any

Record = tuple[Any, ...]
"""Everything that a record is: key, value, headers, timestamp."""


class Reading:
    """What a read-committed consumer got from a topic, in order, by partition; and when."""

    def __init__(self) -> None:
        self.records: dict[int, list[Record]] = {}
        self.count = 0
        self.last_at = time.time()
        self.seen_at: dict[bytes, float] = {}
        """When a key was last read."""

    def add(self, message: Any) -> None:
        """One more record."""
        self.last_at = time.time()
        key, value = message.key(), message.value()
        record = key, value, message.headers(), message.timestamp()[1]
        self.records.setdefault(message.partition(), []).append(record)
        self.seen_at[key] = self.last_at
        self.count += 1

    def values(self) -> Counter[bytes]:
        """How often there is each value."""
        return Counter(value for records in self.records.values() for _, value, _, _ in records)
