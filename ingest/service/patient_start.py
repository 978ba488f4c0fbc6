"""What a start needs, asked for while broker or S3 are away until its time is over, or it is stopped."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

import structlog

from headrace.model.errors import AccessDenied, ResourceMissing, SourceUnavailable, Unavailable
from headrace.process.threads import SystemLimit, ThreadFailures, start_thread
from ingest.service.stop import Stop

_log = structlog.get_logger(__name__)
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
