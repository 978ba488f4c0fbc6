"""Being told to end: the first signal asks for a clean end, the second for one at once."""

import signal
import threading
from types import FrameType


class Stop:
    """Set by SIGTERM and SIGINT; `at_once` by a second one of them."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.at_once = threading.Event()

    def install(self) -> None:
        """Answer the signals of this process from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.at_once.set()
        self.asked.set()
