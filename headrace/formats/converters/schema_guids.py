"""When a registry is asked for the UUIDs by which values name their schemas.

A one and sixteen bytes are also what any value has that begins with a one: each such value looks as if it
had a schema of its own.
"""

from collections.abc import Callable
from typing import Final

_SECONDS: Final = 30.0
# Topics have fewer schemas than that, and a registry that is far away is asked for no longer than a slot may
# be silent.
_MOST_UNKNOWN: Final = 100
AS_GUID: Final = "it begins as one that names its schema by the UUID"
NO_GUIDS: Final = "and the schema registry has no UUIDs (those of Confluent have them from version 8 on)"
_TOO_MANY: Final = (
    f"for which the schema registry was not asked: it had no schema for {_MOST_UNKNOWN} others within "
    f"{_SECONDS:.0f} s"
)


class GuidQuestions:
    """Which questions for UUIDs a registry is spared, for a while. `clock` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._unknown = 0
        self._has_path = True

    @property
    def needless(self) -> str | None:
        """Why it is not asked now; None where it is."""
        if self._clock() - self._began >= _SECONDS:
            self._restart()
        if not self._has_path:
            return NO_GUIDS
        return _TOO_MANY if self._unknown >= _MOST_UNKNOWN else None

    def note_unknown(self) -> None:
        """It has no schema for one."""
        self._unknown += 1

    def note_no_path(self) -> None:
        """It is a registry that has no UUIDs at all."""
        self._restart()
        self._has_path = False

    def _restart(self) -> None:
        self._began, self._unknown, self._has_path = self._clock(), 0, True
