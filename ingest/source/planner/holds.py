"""Buckets of which nothing is planned for a while, as none of their objects can be read."""

from collections import Counter
from collections.abc import Collection, Iterable

from ingest.source.planner.retry_policy import Backoff


class Holds:
    """Until when, in `Instant.steady_ms`; each bucket has a delay of its own, and holds up no other."""

    def __init__(self, buckets: Collection[str], backoff: Backoff) -> None:
        self._buckets = buckets
        self._backoff = backoff
        self._until: dict[str, int] = {}
        self._tries: Counter[str] = Counter()

    def deny(self, bucket: str, now_ms: int) -> None:
        """A batch has met a refusal that is true of the whole bucket."""
        self._tries[bucket] += 1
        self._until[bucket] = now_ms + self._backoff.delay_ms(self._tries[bucket])

    def end(self, bucket: str) -> None:
        """Something of the bucket was read."""
        self._until.pop(bucket, None)
        self._tries.pop(bucket, None)

    def tick(self, now_ms: int) -> None:
        """Let go of what is over; how often it was tried stays."""
        self._until = {bucket: until for bucket, until in self._until.items() if until > now_ms}

    def is_held(self, bucket: str, now_ms: int) -> bool:
        """Whether nothing of this bucket may be planned now."""
        return self._until.get(bucket, 0) > now_ms

    def first_end_ms(self, buckets: Iterable[str]) -> int | None:
        """When the first of these may be planned again."""
        return min((self._until.get(bucket, 0) for bucket in buckets), default=None)

    @property
    def all_until_ms(self) -> int:
        """Until when there is no bucket of which anything may be planned; 0 where there is one."""
        return min(self._until.values()) if len(self._until) == len(self._buckets) else 0
