"""How large a record each topic takes (its `max.message.bytes`), so that one above it is found beforehand."""

import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import structlog

from headrace.kafka.data_topics import OutputTopic, OutputTopics
from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    InvalidObject,
    TopicForbidden,
    TopicMissing,
    TopicWithoutLeader,
    Unavailable,
)
from headrace.options.settings import KafkaSettings

log = structlog.get_logger(__name__)

# A broker that does not say is not asked for each object again.
_PATIENCE_SECONDS: Final = 30.0


REFUSALS: Final = (TopicForbidden, TopicWithoutLeader)
"""What brokers may have against a topic that is there."""


class TopicLookup(Protocol):
    """Who knows the topics: `headrace.kafka.data_topics.OutputTopics`."""

    def get(self, name: str, /) -> OutputTopic:
        """The topic; TopicMissing, TopicForbidden, Unavailable or AccessDenied. May block.

        TopicWithoutLeader where `ask` has said so and it is still so.
        """

    def ask(self, name: str, /) -> OutputTopic:
        """The same, not from memory; TopicWithoutLeader where a partition has none. May block."""


class TopicLimits:
    """Limits by topic, as the brokers say them; thread-safe."""

    def __init__(self, topics: TopicLookup, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._topics = topics
        self._clock = clock
        self._lock = threading.Lock()
        self._silent_until: dict[str, float] = {}
        self._has_warned = False

    def of(self, topic: str) -> int | None:
        """Bytes of the largest record of the topic, or None where no broker reports it; may block.

        InvalidObject for a ledger: nothing may be written into it. Without an answer the object is read all
        the same: a topic that is missing or forbidden is found on the way to it, and a record that is too
        large for it is searched for once the broker refuses it.
        """
        with self._lock:
            if self._clock() < self._silent_until.get(topic, 0.0):
                return None
        try:
            found = self._topics.get(topic)
        except (TopicMissing, *REFUSALS):
            return None
        except (AccessDenied, Unavailable) as error:
            self._note(topic, error)
            return None
        if found.is_ledger:
            raise InvalidObject(found.ledger_sentence, reason="ledger_topic")
        return found.max_record_bytes

    def require_writable(self, topic: str) -> None:
        """TopicForbidden or TopicWithoutLeader where brokers say so of the topic; may block."""
        with self._lock:
            if self._clock() < self._silent_until.get(topic, 0.0):
                return
        try:
            self._topics.get(topic)
        except REFUSALS:
            raise
        except TopicMissing:
            return
        except (AccessDenied, Unavailable) as error:
            self._note(topic, error)

    def refusals(self, topics: Iterable[str]) -> dict[str, HeadraceError]:
        """What brokers have against topics of a transaction that has failed, asked now; may block.

        TopicMissing, TopicForbidden or TopicWithoutLeader. Brokers do not say for which topic they refuse a
        transaction, and may be away altogether: then no other one is asked for.
        """
        found: dict[str, HeadraceError] = {}
        for topic in topics:
            try:
                self._topics.ask(topic)
            except (TopicMissing, *REFUSALS) as error:
                found[topic] = error
            except AccessDenied as error:
                # Of this topic's configuration perhaps.
                self._note(topic, error)
            except Unavailable as error:
                self._note(topic, error)
                break
        return found

    def of_dead_letters(self, topic: str) -> int | None:
        """The same of a dead letter topic, which may have become a ledger of another connector since."""
        try:
            return self.of(topic)
        except InvalidObject as error:
            raise InvalidObject(
                f"errors.deadletterqueue.topic.name = {topic!r}: by now the topic holds what Headrace or "
                "Kafka Connect keep of connectors, and dead letters would be taken for that. Name another.",
                reason=error.reason,
            ) from error

    def _note(self, topic: str, error: Exception) -> None:
        with self._lock:
            self._silent_until[topic] = self._clock() + _PATIENCE_SECONDS
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            log.warning(
                "topic_limit_unknown",
                topic=topic,
                error=str(error),
                effect="records above the topic's max.message.bytes are found only once they are refused",
            )


@functools.cache
def topic_limits(settings: KafkaSettings) -> TopicLimits:
    """What the process knows of the topics' limits."""
    return TopicLimits(OutputTopics(settings.client("admin")))
