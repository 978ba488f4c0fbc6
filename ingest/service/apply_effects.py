"""What the catalogue and the planner decide, carried out: ledger writes, settled messages, HEADs, counts."""

import structlog

from ingest.catalogue import Effects
from ingest.clock import Clock
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.statistics import Statistics
from listeners.listeners import Listeners

_log = structlog.get_logger(__name__)


class EffectsApplier:
    """Carries effects out, in the service's thread; nothing here blocks."""

    def __init__(
        self, *, writes: LedgerWrites, listeners: Listeners, statistics: Statistics, clock: Clock
    ) -> None:
        self._writes = writes
        self._listeners = listeners
        self._statistics = statistics
        self._clock = clock

    def apply(self, effects: Effects) -> None:
        """Hand everything in `effects` to whoever does it."""
        if effects.writes:
            self._writes.submit(effects.writes)
        if effects.settled:
            self._listeners.settle(effects.settled)
        for message_id in effects.abandoned:
            self._listeners.abandon(message_id)
        for head in effects.heads:
            self._listeners.request_head(
                head.token,
                bucket=head.bucket,
                key=head.key,
                version_id=head.version_id,
                reads=head.reads,
            )
        for reason, count in effects.ignored.items():
            self._statistics.ignored(reason, count)
        for warning in effects.warnings:
            _log.warning("listing_warned", warning=warning)
        if effects.finished:
            self._statistics.ended(effects.finished, self._clock())
