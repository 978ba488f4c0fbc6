"""Messages of the queue: read, and settled or left when they tell of nothing that is ours to read."""

from collections.abc import Collection, Sequence
from typing import Final

import structlog

from headrace.process.log_levels import is_debug
from ingest.service.statistics import Statistics
from ingest.source.notification import (
    Ignored,
    ObjectEvent,
    ObjectEvents,
    TestEvent,
    Unreadable,
    parse_notification,
)
from listeners.discovery_events import Message
from listeners.listeners import Listeners

_log = structlog.get_logger(__name__)

# A hostile sender can invent any number of message shapes; one WARN each, up to here.
_MAX_SHAPES: Final = 100
# Of messages that were left, so many are known again.
_MAX_LEFT: Final = 10_000


class MessageReader:
    """Reads messages about the buckets of one source."""

    def __init__(self, buckets: Collection[str], listeners: Listeners, statistics: Statistics) -> None:
        self._buckets = frozenset(buckets)
        self._listeners = listeners
        self._statistics = statistics
        self._shapes: set[str] = set()
        self._left: set[str] = set()

    def is_news(self, message: Message) -> bool:
        """False for a message that was left on the queue before: it comes again and again."""
        return message.id not in self._left

    def read(self, message: Message) -> Sequence[ObjectEvent] | None:
        """The events that it tells of; None when it told of none, and has been settled or left."""
        match parse_notification(message.body):
            case ObjectEvents(events=events):
                if is_debug(__name__):
                    told = [f"{event.name} {event.key}" for event in events]
                    _log.debug("message_parsed", message_id=message.id, events=told)
                foreign = {event.bucket for event in events} - self._buckets
                if not foreign:
                    return events
                self._leave(message, f"bucket {min(foreign)}", "it names an object of another bucket")
            case TestEvent():
                _log.debug("message_ignored", message_id=message.id, reason="test_event")
                self._statistics.ignored("test_event")
                self._listeners.settle([message.id])
            case Ignored(reason=reason):
                _log.debug("message_ignored", message_id=message.id, reason=reason)
                self._statistics.ignored(reason)
                self._listeners.settle([message.id])
            case Unreadable(shape=shape, reason=reason):
                self._leave(message, shape, reason)
        return None

    def _leave(self, message: Message, shape: str, reason: str) -> None:
        """Leave a message to the queue's own redrive policy, with one WARN for each shape."""
        self._statistics.left_on_queue()
        self._listeners.abandon(message.id)
        if len(self._left) < _MAX_LEFT:
            self._left.add(message.id)
        if shape not in self._shapes and len(self._shapes) < _MAX_SHAPES:
            self._shapes.add(shape)
            _log.warning(
                "message_left_on_queue",
                message_id=message.id,
                shape=shape,
                reason=reason,
                detail="messages like it are left to the queue's redrive policy",
            )
