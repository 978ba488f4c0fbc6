"""Asked to end: by a signal cleanly, by a second one at once; what a start waits for until it is."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import FrameType
from typing import Final, TypeVar

import structlog

from headrace.model.errors import AccessDenied, ResourceMissing, SourceUnavailable, Unavailable
from headrace.process.threads import SystemLimit, ThreadFailures, Waking, start_thread

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


T = TypeVar("T")

_TRY_AGAIN_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.05


class Stopped(Exception):
    """The run ends before it led."""


class PatientStart:
    """Waits for answers until `deadline`, in monotonic seconds.

    `on_trouble` receives what is waited for, in a sentence, and None once it is waited for no more.
    """

    def __init__(
        self,
        *,
        deadline: float,
        stop: Stop,
        failures: ThreadFailures,
        on_trouble: Callable[[str | None], None],
    ) -> None:
        self._deadline = deadline
        self._stop = stop
        self._failures = failures
        self._on_trouble = on_trouble

    def answer(self, ask: Callable[[], T]) -> T:
        """The answer, asked for until the start-up time is over while broker or S3 are not there. Blocks.

        Stopped; Unavailable when the time is over; whatever else `ask` raises.
        """
        try:
            return self._answer(ask)
        finally:
            self._on_trouble(None)

    def _answer(self, ask: Callable[[], T]) -> T:
        warned = False
        while True:
            if self._stop.asked.is_set():
                raise Stopped
            self._failures.raise_first()
            try:
                found = self._unless_stopped(ask)
            except ResourceMissing:
                # A final answer; a missing topic's is no other.
                raise
            except (Unavailable, AccessDenied, SourceUnavailable) as error:
                if time.monotonic() > self._deadline:
                    raise Unavailable(str(error)) from error
                if not warned:
                    seconds = round(self._deadline - time.monotonic())
                    _log.warning("start_delayed", error=str(error), seconds=seconds)
                warned = True
                self._on_trouble(str(error))
                self._stop.asked.wait(_TRY_AGAIN_SECONDS)
            else:
                if warned:
                    _log.info("start_continued", detail="what it waited for has answered")
                return found

    def _unless_stopped(self, ask: Callable[[], T]) -> T:
        """The answer; Stopped at once when a stop is asked for, though the client still waits for its own."""
        answer: Future[T] = Future()
        answered = threading.Event()
        answer.add_done_callback(lambda _answer: answered.set())

        def wait_for_it() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:  # noqa: BLE001  # it is raised where the answer is asked for
                answer.set_exception(error)

        # A daemon: whoever ends does not wait for a broker that is silent.
        try:
            start_thread(wait_for_it, name="startup")
        except SystemLimit as error:
            raise Unavailable(f"What the start needs cannot be asked for: {error}.") from error
        while not answered.wait(_LOOK_SECONDS):
            if self._stop.asked.is_set():
                raise Stopped
        return answer.result()
