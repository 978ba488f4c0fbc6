"""What of the objects that wait goes into a batch: by `maxFilesPerTrigger`, `maxBytesPerTrigger` and age."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from headrace.model.objects import S3Object


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The bounds of one batch; None: no bound. A single object may exceed `max_bytes`."""

    max_files: int | None = None
    max_bytes: int | None = None


NO_LIMITS: Final = ReadLimits()
_FRESH_IN_TURN: Final = 4


def admitted(waiting: Iterable[S3Object], limits: ReadLimits) -> Iterator[S3Object]:
    """The first of those that wait, as many as the limits allow, one at least."""
    size = 0
    for number, found in enumerate(waiting):
        if limits.max_files is not None and number >= max(limits.max_files, 1):
            return
        size += found.size
        if number and limits.max_bytes is not None and size > limits.max_bytes:
            return
        yield found


class WaitingObjects:
    """Objects that are known to be new, by identity: fresh ones of events, and the backlog of listings.

    Fresh ones go first, each kind in the order in which it was found. Every fifth object is of the backlog,
    so that neither waits for the other without end. The turn continues from batch to batch: one may have
    room for fewer than five, or none for the object of the backlog, which is first in the next one then.
    """

    def __init__(self, *, min_age_ms: int = 0) -> None:
        self._min_age_ms = min_age_ms
        self._ripe_ms: dict[bytes, int] = {}
        """When each is old enough, where that is asked of it."""
        self._fresh: dict[bytes, S3Object] = {}
        self._backlog: dict[bytes, S3Object] = {}
        self._fresh_in_turn = 0
        """Fresh objects that went into batches since the last one of the backlog."""
        self._ends_in_backlog = False
        """Whether what was taken last ends where the backlog had its turn."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._backlog)

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._fresh or identity in self._backlog

    def add(self, identity: bytes, found: S3Object, *, found_ms: int, is_fresh: bool = False) -> None:
        """One more, found at that time, unless it waits already.

        It waits for no longer than its whole age from then, whatever the store's clock says.
        """
        if identity not in self:
            (self._fresh if is_fresh else self._backlog)[identity] = found
            self.bytes += found.size
            if self._min_age_ms:
                self._ripe_ms[identity] = min(found.last_modified_ms, found_ms) + self._min_age_ms

    def take(self, limits: ReadLimits, now_ms: int) -> dict[bytes, S3Object]:
        """What goes into a batch now; it waits no longer once it is `removed`."""
        chosen: dict[bytes, S3Object] = {}

        def each() -> Iterator[S3Object]:
            for identity, found in self._old_enough(now_ms):
                chosen[identity] = found
                yield found

        count = sum(1 for _ in admitted(each(), limits))
        left_over = next(islice(chosen, count, None), None)
        self._ends_in_backlog = left_over is not None and left_over in self._backlog
        return dict(islice(chosen.items(), count))

    def has_any(self, now_ms: int) -> bool:
        """Whether something is old enough to be taken now."""
        return next(self._old_enough(now_ms), None) is not None

    def fills(self, limits: ReadLimits, now_ms: int) -> bool:
        """Whether what is old enough to be taken now is as much as a batch may have."""
        files, size = len(self), self.bytes
        if self._min_age_ms:
            sizes = [found.size for _, found in self._old_enough(now_ms)]
            files, size = len(sizes), sum(sizes)
        is_full = limits.max_files is not None and files >= limits.max_files
        return is_full or (limits.max_bytes is not None and files > 0 and size >= limits.max_bytes)

    def remove(self, identities: Iterable[bytes]) -> None:
        """They, in the order in which they were taken, are in a batch that is durable."""
        for identity in identities:
            is_fresh = identity in self._fresh
            found = (self._fresh if is_fresh else self._backlog).pop(identity, None)
            if found is not None:
                self._ripe_ms.pop(identity, None)
                self.bytes -= found.size
                self._fresh_in_turn = self._fresh_in_turn + 1 if is_fresh else 0
        if self._ends_in_backlog and self._fresh_in_turn:
            self._fresh_in_turn = _FRESH_IN_TURN

    def next_ready_ms(self) -> int | None:
        """When the first of them is old enough, None where nothing waits."""
        if not len(self):
            return None
        if not self._min_age_ms:
            return 0
        return min(self._ripe_ms.values())

    def _old_enough(self, now_ms: int) -> Iterator[tuple[bytes, S3Object]]:
        """Those that may be taken now, in turn; a young object has no turn yet."""
        fresh, backlog = self._aged(self._fresh, now_ms), self._aged(self._backlog, now_ms)
        left = max(0, _FRESH_IN_TURN - self._fresh_in_turn)
        while True:
            is_over = left == _FRESH_IN_TURN
            for one in chain(islice(fresh, left), islice(backlog, 1)):
                is_over = False
                yield one
            if is_over:
                return
            left = _FRESH_IN_TURN

    def _aged(self, queue: dict[bytes, S3Object], now_ms: int) -> Iterator[tuple[bytes, S3Object]]:
        for identity, found in queue.items():
            if self._ripe_ms.get(identity, now_ms) <= now_ms:
                yield identity, found
