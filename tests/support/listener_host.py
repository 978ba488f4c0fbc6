"""A stand-in for the service's thread: starts listeners, takes what they post, acknowledges pages."""

import threading
from itertools import groupby
from types import TracebackType
from typing import Self, TypeVar

from headrace.model.objects import ListingPage
from headrace.options import Settings
from listeners.discovery_events import Event, Message, Mode, ModeChanged, Received
from listeners.listeners import Listeners
from tests.support.listening import Inbox

E = TypeVar("E")


class ListenerHost:
    """Listeners that run while the block does; each page is acknowledged as it comes."""

    def __init__(self, settings: Settings, *, skip_through: str | None = None) -> None:
        self._inbox = Inbox()
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._skip_through = {} if skip_through is None else {settings.s3.bucket: skip_through}
        self.listeners = Listeners(settings, self._post, self._inbox.counters)

    def __enter__(self) -> Self:
        self.listeners.start(skip_through=self._skip_through)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.listeners.stop(seconds=5)

    def _post(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
        if isinstance(event, ListingPage):
            self.listeners.page_done(event.bucket)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind so far."""
        with self._lock:
            return [event for event in self._events if isinstance(event, kind)]

    def count(self, outcome: str) -> int:
        """What was counted under this outcome."""
        return self._inbox.counts[outcome]

    @property
    def modes(self) -> list[Mode]:
        """The modes, in order; one whose reason has changed is told once."""
        return [mode for mode, _ in groupby(changed.mode for changed in self.of(ModeChanged))]

    @property
    def deliveries(self) -> list[Message]:
        """The messages delivered."""
        return [delivery for received in self.of(Received) for delivery in received.messages]

    @property
    def listed(self) -> list[str]:
        """The keys listed, in order, as often as they were listed."""
        return [found.id.key for page in self.of(ListingPage) for found in page.objects]
