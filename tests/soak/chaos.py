"""What S3 does to the service meanwhile, through the proxy: throttling, cuts, expired credentials."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.support.proxy import Answer, Cut, Proxy, Request

_PERIOD_SECONDS: Final = 40.0
_BURST_SECONDS: Final = 6.0
_THROTTLED: Final = 0.5
_CUT: Final = 0.02
SLOW_DOWN: Final = Answer(status=503, body=b"<Error><Code>SlowDown</Code><Message>soak</Message></Error>")
EXPIRED: Final = Answer(status=403, body=b"<Error><Code>ExpiredToken</Code><Message>soak</Message></Error>")


@dataclass(slots=True, kw_only=True)
class Weather:
    """Bursts every forty seconds, a cut GET now and then, and once expired credentials for a while.

    They expire `expires_after` seconds from the start, for `expired_seconds`; `is_ready` asks the service.
    """

    proxy: Proxy
    chance: random.Random
    expires_after: float
    expired_seconds: float
    is_ready: Callable[[], bool]
    bursts: int = 0
    was_not_ready: bool = False
    """The service said that it is not ready while its credentials were expired."""
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def blowing(self) -> Iterator[None]:
        """Weather while the block runs; fair afterwards."""
        thread = threading.Thread(target=self._run, name="weather", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self.proxy.off()

    def _run(self) -> None:
        began = time.monotonic()
        has_expired = False
        while not self._over.is_set():
            self.proxy.off()
            self.proxy.on(Cut(self.chance.randrange(20_000)), when=self._some_get)
            if self._over.wait(_PERIOD_SECONDS - _BURST_SECONDS):
                return
            if not has_expired and time.monotonic() - began >= self.expires_after:
                has_expired = True
                self._expire()
                continue
            self.bursts += 1
            self.proxy.off()
            self.proxy.on(SLOW_DOWN, when=lambda _request: self.chance.random() < _THROTTLED)
            self._over.wait(_BURST_SECONDS)

    def _expire(self) -> None:
        self.proxy.off()
        self.proxy.on(EXPIRED)
        deadline = time.monotonic() + self.expired_seconds
        while time.monotonic() < deadline and not self._over.wait(0.5):
            self.was_not_ready |= not self.is_ready()

    def _some_get(self, request: Request) -> bool:
        return request.method == "GET" and "list-type" not in request.path and self.chance.random() < _CUT
