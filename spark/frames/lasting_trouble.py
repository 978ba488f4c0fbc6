"""Trouble that lasts: for how long it has, and when the log is to say so again."""

from typing import Final

_FIRST_PAUSE_MS: Final = 60_000
_LONGEST_PAUSE_MS: Final = 3_600_000


class LastingTrouble:
    """Failures in a row, by a steady clock; they are logged at once, and then after pauses that double.

    Failures that are more than `most_apart_ms` apart are not in a row.
    """

    def __init__(self, *, most_apart_ms: int = 2**62) -> None:
        self._most_apart_ms = most_apart_ms
        self._is_over = True
        self._since_ms = self._last_ms = self._logged_again_ms = 0

    @property
    def lasted_ms(self) -> int:
        """From the first failure of the row to the last one."""
        return self._last_ms - self._since_ms

    def fail(self, now_ms: int) -> bool:
        """One more failure; whether the log is to say so."""
        if self._is_over or now_ms - self._last_ms > self._most_apart_ms:
            self._since_ms = self._logged_again_ms = now_ms
        self._is_over, self._last_ms = False, now_ms
        is_logged = now_ms >= self._logged_again_ms
        if is_logged:
            pause_ms = max(self.lasted_ms, _FIRST_PAUSE_MS)
            self._logged_again_ms = now_ms + min(pause_ms, _LONGEST_PAUSE_MS)
        return is_logged

    def end(self) -> None:
        """It is over: the next failure is the first of another row."""
        self._is_over = True
