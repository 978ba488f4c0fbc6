"""How long `run --until-idle` bears what only others can change."""


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
