"""When `run --until-idle` is over (docs/commands.md).

How long `run --until-idle` bears what only others can change.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from headrace.options.settings import Settings


class Patience:
    """Runs out where something outside is waited for, so long that there is nothing more to hope for.

    What is left may take longer than that, as long as some of it comes to its end: S3 may complete for
    minutes what slots have sealed in seconds.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits_since: float | None = None
        self._progress: tuple[int, ...] = ()

    def is_over(self, now: float, *, waits: bool, progress: tuple[int, ...] = ()) -> bool:
        """True when it was waited for too long, by a monotonic clock, without a change of `progress`."""
        if not waits or progress != self._progress:
            self._waits_since, self._progress = None, progress
        if not waits:
            return False
        if self._waits_since is None:
            self._waits_since = now
        return now - self._waits_since >= self._seconds


# Two, because one receive may look at a few of SQS's servers only.
_EMPTY_ANSWERS = 2
# Long enough for SQS to ask all of its servers, as it does for any receive that waits.
_WAIT_SECONDS: Final = 2


def listening(settings: Settings) -> Settings:
    """The settings by which a run until idle receives: its end waits for two receives that find nothing."""
    if settings.sqs is None:
        return settings
    wait = min(settings.sqs.wait_time_seconds, _WAIT_SECONDS)
    return replace(settings, sqs=replace(settings.sqs, wait_time_seconds=wait))


@dataclass(slots=True, kw_only=True)
class UntilIdle:
    """Watches for: a full listing of each bucket since the start, an empty queue twice, nothing left.

    What is left but waits for something outside (a missing topic, a 403, a queue that fails) may do so as
    long as there is `patience`.
    """

    has_queue: bool
    patience: Patience
    buckets: int = 1
    _listed: set[str] = field(default_factory=set)
    _empty_answers: int = 0

    def listed(self, bucket: str) -> None:
        """A full listing of the bucket that began after the start has reached its end."""
        self._listed.add(bucket)

    @property
    def has_listed(self) -> bool:
        """True when all that is left to hear of comes from the queue."""
        return len(self._listed) == self.buckets

    def received(self, messages: int) -> None:
        """The queue answered with so many messages."""
        self._empty_answers = 0 if messages else self._empty_answers + 1

    def is_over(self, *, is_idle: bool) -> bool:
        """True when everything there was has come to its end."""
        asked = not self.has_queue or self._empty_answers >= _EMPTY_ANSWERS
        return is_idle and self.has_listed and asked
