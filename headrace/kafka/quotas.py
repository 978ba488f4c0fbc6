"""What brokers say of their quotas: they answer late on purpose, and tell by how much (KIP-219)."""

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog
from confluent_kafka import ThrottleEvent

_log = structlog.get_logger(__name__)

# Often enough to be seen, seldom enough for a quota that holds for days.
_SAY_SECONDS: Final = 60.0
# Less than this a minute is how a quota rounds, and nobody's trouble.
_LEAST_SECONDS: Final = 1.0
_DETAIL: Final = (
    "a quota of the brokers for this user or client.id holds it back; all goes at that pace. For more, raise "
    "producer_byte_rate, consumer_byte_rate or request_percentage (kafka-configs.sh --entity-type users, or "
    "clients)"
)


class HeldBack:
    """How long brokers held clients back since that was said last. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._due = 0.0

    def add(self, broker: str, seconds: float) -> None:
        """Say it, at most once a minute."""
        now = self.clock()
        with self._lock:
            self._seconds += seconds
            if self._seconds < _LEAST_SECONDS or now < self._due:
                return
            seconds, self._seconds, self._due = self._seconds, 0.0, now + _SAY_SECONDS
        _log.warning("brokers_throttle", broker=broker, seconds=round(seconds, 1), detail=_DETAIL)


_HELD_BACK: Final = HeldBack()
"""Of all clients of this process."""


class Throttle:
    """Until when brokers let a client wait; all that is said, too (WARN `brokers_throttle`)."""

    def __init__(self, held_back: HeldBack = _HELD_BACK) -> None:
        self._held_back = held_back
        self._until = 0.0

    def on_event(self, event: ThrottleEvent) -> None:
        """What librdkafka calls out of a client's poll; with 0 seconds it is over."""
        self._until = self._held_back.clock() + event.throttle_time
        if event.throttle_time > 0:
            self._held_back.add(event.broker_name, event.throttle_time)

    @property
    def holds(self) -> bool:
        """Whether a broker has answered the client, and will not do so again for a while."""
        return self._held_back.clock() < self._until
