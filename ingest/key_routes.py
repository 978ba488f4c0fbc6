"""Where the records of a key go: the file name template and `topic`, applied."""

from typing import Final

import structlog

from ingest.model.objects import Route
from ingest.sanitize import printable
from ingest.template import KeyTemplate

_log = structlog.get_logger(__name__)

# Keys with a value out of range tend to come in series; a person needs to see the first few.
_MAX_WARNINGS: Final = 20


class KeyRoutes:
    """`route(key)` for the catalogue; None for a key that the template does not take, or gives no topic."""

    def __init__(self, template: KeyTemplate, *, topic: str | None) -> None:
        self._template = template
        self._topic = topic
        self._warned = 0

    def route(self, key: str) -> Route | None:
        """Topic, partition, start offset and time of the key's records."""
        fields = self._template.match(key)
        if fields is None:
            return None
        for warning in fields.warnings:
            self._warn(key, warning)
        topic = self._topic or fields.topic
        if topic is None:
            return None
        return Route(
            topic=topic,
            partition=fields.partition,
            start_offset=fields.start_offset,
            timestamp_ms=fields.timestamp_ms,
        )

    def _warn(self, key: str, warning: str) -> None:
        if self._warned < _MAX_WARNINGS:
            self._warned += 1
            _log.warning("key_value_ignored", key=printable(key), warning=warning)
