"""The topics that a sink does not read: those that are not there, and those that are no data; told once."""

from collections.abc import Collection, Iterable
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_DETAIL: Final = "a topic is read from as soon as it is there; nothing else waits for it"


class MissingTopics:
    """What a leadership's surveys did not find; for one thread, and does not block.

    `pattern` is `topics.regex`: of it only that it matches nothing can be missed.
    """

    def __init__(self, pattern: str | None) -> None:
        self._pattern = pattern
        self._matches_nothing = False
        self._left_out: tuple[str, ...] = ()
        self.names: tuple[str, ...] = ()
        """Those of `topics` that the last survey did not find."""

    def surveyed(self, missing: Iterable[str], there: Collection[str]) -> None:
        """Take what a survey found: names that are not there, and the topics that are."""
        if self._pattern is None:
            self._tell_names(tuple(missing))
        else:
            self._tell_pattern(self._pattern, there)

    def no_data(self, left_out: tuple[str, ...]) -> str | None:
        """Take the topics that are ledgers or configurations; what is wrong where they were named."""
        known, self._left_out = self._left_out, left_out
        if left_out != known and left_out:
            _log.info(
                "topics_left_out",
                topics=left_out,
                detail="ledgers and configurations of connectors are never data, and may hold secrets",
            )
        if not left_out or self._pattern is not None:
            return None
        return (
            f"{', '.join(left_out)}: what Headrace or Kafka Connect keep of their connectors, which is never "
            "data and may hold secrets. It is not archived; take it out of topics."
        )

    def _tell_names(self, names: tuple[str, ...]) -> None:
        known, self.names = self.names, names
        if lost := [name for name in names if name not in known]:
            _log.warning(
                "topics_missing",
                topics=lost,
                detail=_DETAIL,
                remedy="create what is missing, or correct topics",
            )
        if found := [name for name in known if name not in names]:
            _log.info("topics_found", topics=found)

    def _tell_pattern(self, pattern: str, there: Collection[str]) -> None:
        known, self._matches_nothing = self._matches_nothing, not there
        if self._matches_nothing and not known:
            _log.warning(
                "topics_missing",
                topics=[],
                regex=pattern,
                detail=_DETAIL,
                remedy="create a topic that topics.regex matches, or correct it",
            )
        if known and there:
            _log.info("topics_found", topics=sorted(there), regex=pattern)
