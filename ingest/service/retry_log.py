"""The log of what is tried again until it succeeds: a line for an outage, not one for each attempt."""

from collections.abc import Hashable
from typing import Any, Final

from ingest.service.statistics import problem_kind


class RetryLog:
    """A WARN for each sentence that is new since the last success, and DEBUG for the same again.

    That it is over is told of the problem that `/status` shows (`problem_over`). For one thread.
    """

    def __init__(self, log: Any, event: str) -> None:
        self._log: Final = log
        self._event: Final = event
        self._told: dict[Hashable, set[str]] = {}

    def failed(self, of: Hashable, error: Exception, **fields: object) -> None:
        """What is tried again has failed; `of` says which of several it is."""
        told, kind = self._told.setdefault(of, set()), problem_kind(str(error))
        tell = self._log.debug if kind in told else self._log.warning
        told.add(kind)
        tell(self._event, error=str(error), **fields)

    def over(self, of: Hashable) -> None:
        """It has succeeded: the next failure is another one."""
        self._told.pop(of, None)
