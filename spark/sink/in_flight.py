"""How many bytes of parts are on their way to S3, for whoever has to wait until there are fewer."""

import threading


class InFlight:
    """Counts from any thread; `wait` is the slot's."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._bytes = 0
        self._answers = 0

    @property
    def bytes(self) -> int:
        """In memory, of parts that are being sent or wait for it."""
        return self._bytes

    def begin(self, size: int) -> None:
        """A part is handed to the pool."""
        with self._changed:
            self._bytes += size

    def end(self, size: int) -> None:
        """A part was answered, or given up."""
        with self._changed:
            self._bytes -= size
            self._answers += 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Block until a part is answered or the time is over."""
        with self._changed:
            before = self._answers
            self._changed.wait_for(lambda: self._answers != before, seconds)
