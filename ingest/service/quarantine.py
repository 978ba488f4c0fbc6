"""The quarantined objects for `/status`: read from the ledger's cache when they may have changed."""

import time
from collections.abc import Callable
from typing import Final

from ingest.http.quarantined import EntriesByState, newest_quarantined
from ingest.http.snapshot import QuarantinedObject

_LOOK_AGAIN_SECONDS: Final = 10.0


class QuarantineList:
    """The newest quarantined objects, kept between looks: the service looks four times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: tuple[int, int] | None = None
        self._looked = 0.0
        self._newest: tuple[QuarantinedObject, ...] = ()

    def newest(
        self, ledger: EntriesByState, bucket: str, *, count: int, ended: int
    ) -> tuple[QuarantinedObject, ...]:
        """Up to fifty of the bucket, the newest first.

        `count` is how many there are, `ended` how many were added here. The ledger is read when one of them
        has changed, and every ten seconds; not at all without any.
        """
        now = self._clock()
        if not count:
            self._newest = ()
        elif self._seen != (count, ended) or now - self._looked >= _LOOK_AGAIN_SECONDS:
            self._newest = newest_quarantined(ledger, bucket)
            self._looked = now
        self._seen = (count, ended)
        return self._newest
