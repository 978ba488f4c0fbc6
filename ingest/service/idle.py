"""When `run --until-idle` is over (docs/commands.md)."""

from dataclasses import dataclass

# Two, because one receive may look at a few of SQS's servers only.
_EMPTY_ANSWERS = 2


@dataclass(slots=True, kw_only=True)
class UntilIdle:
    """Watches for: a full listing since the start is complete, an empty queue twice, nothing left.

    What is left but waits for something outside (a missing topic, a 403, a queue that fails) may do so for
    `patience_seconds`.
    """

    has_queue: bool
    patience_seconds: float
    _listed: bool = False
    _empty_answers: int = 0
    _waits_since: float | None = None

    def listed(self) -> None:
        """A full listing that began after the start has reached its end."""
        self._listed = True

    @property
    def has_listed(self) -> bool:
        """True when all that is left to hear of comes from the queue."""
        return self._listed

    def received(self, messages: int) -> None:
        """The queue answered with so many messages."""
        self._empty_answers = 0 if messages else self._empty_answers + 1

    def is_over(self, *, is_idle: bool) -> bool:
        """True when everything there was has come to its end."""
        asked = not self.has_queue or self._empty_answers >= _EMPTY_ANSWERS
        return is_idle and self._listed and asked

    def is_out_of_patience(self, *, waits_outside: bool, now: float) -> bool:
        """True when all that is left has waited for something outside for too long; `now` is monotonic."""
        if not waits_outside:
            self._waits_since = None
            return False
        if self._waits_since is None:
            self._waits_since = now
        return now - self._waits_since >= self.patience_seconds
