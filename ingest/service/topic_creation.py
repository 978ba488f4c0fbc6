"""Topics that keys name, made while running: a task finds them missing, the driver creates them."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from headrace.kafka.output_topics import OutputTopics
from headrace.model.errors import HeadraceError
from headrace.process.threads import start_thread
from ingest.service.service_events import OwnEvent, TopicAnswered

_log = structlog.get_logger(__name__)

# A template can name any number of topics; what does not fit is asked for by its next failed attempt.
_MAX_WAITING: Final = 100
# Rights and replicas do not change from one attempt to the next.
_AGAIN_SECONDS: Final = 10.0


class TopicCreator:
    """Creates topics, one after the other, in a thread next to the service's.

    `TopicAnswered` follows for each: without a sentence once it is there, also where another client made it.
    """

    def __init__(self, topics: OutputTopics, post: Callable[[OwnEvent], None]) -> None:
        self._topics = topics
        self._post = post
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._refused_at: dict[str, float] = {}
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        start_thread(self._run, name="topic-creation")

    def request(self, topic: str) -> None:
        """Have the topic created, unless that is under way or was refused just now. Does not block."""
        with self._lock:
            refused_at = self._refused_at.get(topic)
            is_too_soon = refused_at is not None and time.monotonic() - refused_at < _AGAIN_SECONDS
            if topic in self._waiting or is_too_soon or len(self._waiting) >= _MAX_WAITING:
                return
            self._waiting.add(topic)
        self._requests.put(topic)

    def close(self) -> None:
        """Create no more; a creation under way ends by its own timeout."""
        self._requests.put(None)

    def _run(self) -> None:
        while (topic := self._requests.get()) is not None:
            self._create(topic)

    def _create(self, topic: str) -> None:
        refusal: str | None = None
        try:
            self._topics.forget(topic)
            self._topics.get(topic)
        except HeadraceError as error:
            refusal = str(error)
            _log.warning("topic_not_created", topic=topic, error=refusal, detail="it is tried again")
        with self._lock:
            self._waiting.discard(topic)
            self._refused_at = {
                name: at
                for name, at in self._refused_at.items()
                if name != topic and time.monotonic() - at < _AGAIN_SECONDS
            }
            if refusal is not None:
                self._refused_at[topic] = time.monotonic()
        self._post(TopicAnswered(topic, refusal))
