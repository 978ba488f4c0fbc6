"""The objects that need a person, for `/status`: read from the ledger's cache when they may have changed."""

import time
from collections.abc import Callable
from typing import Final, Protocol

from ingest.kafka.ledger_cache import CachedEntry
from ingest.model.ledger_entry import State
from ingest.model.snapshot import QuarantinedObject
from ingest.sanitize import printable

_SHOWN: Final = 50
# Among so many the newest are looked for; the rest is for `headrace status --state quarantined`.
_READ: Final = 1000
_LOOK_AGAIN_SECONDS: Final = 10.0


class KnownByState(Protocol):
    """What is asked of the ledger's cache."""

    def by_state(self, state: State, limit: int, /) -> list[CachedEntry]:
        """Up to `limit` objects in this state."""


class QuarantineList:
    """The newest quarantined objects, kept between looks: the service looks four times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: tuple[int, int] | None = None
        self._looked = 0.0
        self._newest: tuple[QuarantinedObject, ...] = ()

    def newest(self, ledger: KnownByState, *, count: int, ended: int) -> tuple[QuarantinedObject, ...]:
        """Up to fifty, the newest first. `count` is how many there are, `ended` how many were added here.

        The ledger is read when one of the two has changed, and every ten seconds; not at all without any.
        """
        now = self._clock()
        if not count:
            self._newest = ()
        elif self._seen != (count, ended) or now - self._looked >= _LOOK_AGAIN_SECONDS:
            known = sorted(
                ledger.by_state(State.QUARANTINED, _READ), key=lambda one: one.entry.updated_ms, reverse=True
            )
            self._newest = tuple(_shown(one) for one in known[:_SHOWN])
            self._looked = now
        self._seen = (count, ended)
        return self._newest


def _shown(known: CachedEntry) -> QuarantinedObject:
    entry = known.entry
    return QuarantinedObject(
        key=printable(known.id.key),
        reason=entry.reason,
        error=None if entry.error is None else printable(entry.error),
        topic=entry.topic,
        records=entry.records,
        bad=entry.bad,
        bytes=entry.size,
        at_ms=entry.updated_ms,
    )
