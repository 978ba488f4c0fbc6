"""Asked to end: the first signal asks for a clean end, the second for one at once."""

import signal
import socket
import threading
from functools import partial
from types import FrameType
from typing import Final

import structlog

from headrace.process.threads import Waking, start_thread

_log = structlog.get_logger(__name__)

_ANSWERED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stop(Waking):
    """Set by SIGTERM, SIGINT and SIGHUP; `at_once` by a second one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.at_once = threading.Event()

    def install(self) -> None:
        """Answer the signals of this process from now on, also while its main thread waits in a library.

        Python runs a handler in the main thread, once that returns from C: a client that waits for a broker
        takes seconds. The number of a signal is written to a socket at once; a thread reads it there.
        """
        reading, writing = socket.socketpair()
        writing.setblocking(False)
        self._before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        # Referenced for as long as the descriptor is: the kernel knows a number only.
        self._writing = writing
        self._handlers = {
            number: signal.signal(number, _written_to_the_socket)
            for number in _ANSWERED
            # As `nohup` has it: the terminal may go.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        }
        start_thread(partial(self._follow, reading), name="signals")

    def uninstall(self) -> None:
        """Let the signals be answered as they were before `install`, by the main thread too."""
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._before)
        # Its reader ends with it.
        self._writing.close()

    def ask(self, why: str) -> None:
        """End cleanly; asked again, at once."""
        again = self.asked.is_set()
        if again:
            self.at_once.set()
        self.asked.set()
        self.wake_all()
        _log.info(
            "stop_requested",
            by=why,
            detail="at once" if again else "what is at hand is committed; a second one ends at once",
        )

    def _follow(self, reading: socket.socket) -> None:
        with reading:
            while numbers := reading.recv(16):
                for number in numbers:
                    if number in _ANSWERED:
                        self.ask(signal.Signals(number).name)


def _written_to_the_socket(_number: int, _frame: FrameType | None) -> None:
    """A signal without a handler is not written anywhere."""
