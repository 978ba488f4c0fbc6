"""How many bytes of parts are on their way to S3, for threads that have to wait until there are fewer."""

import threading
import time


class InFlight:
    """Counts from any thread; `wait` is the slot's."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._bytes = 0
        self._begun = 0
        self._answers = 0
        # Size and beginning (monotonic) of each part, the oldest first.
        self._parts: dict[int, tuple[int, float]] = {}

    @property
    def bytes(self) -> int:
        """In memory, of parts that are being sent or wait for it."""
        return self._bytes

    @property
    def oldest_seconds(self) -> float:
        """For how long the oldest of them has been under way; 0 without any."""
        with self._changed:
            _, began = next(iter(self._parts.values()), (0, None))
        return 0.0 if began is None else time.monotonic() - began

    def begin(self, size: int) -> int:
        """A part is handed to the pool; the number under which it ends."""
        with self._changed:
            self._begun += 1
            self._bytes += size
            self._parts[self._begun] = size, time.monotonic()
            return self._begun

    def end(self, number: int) -> None:
        """A part was answered, or given up."""
        with self._changed:
            size, _ = self._parts.pop(number)
            self._bytes -= size
            self._answers += 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Block until a part is answered or the time is over."""
        with self._changed:
            before = self._answers
            self._changed.wait_for(lambda: self._answers != before, seconds)
