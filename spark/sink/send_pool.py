"""A few threads next to the slot's that call S3 and try again, within a limit of bytes on their way."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Final, TypeVar

import structlog

from headrace.model.errors import HeadraceError, ResourceMissing
from headrace.process.threads import start_thread
from headrace.s3.client import UploadEnded, out_of_files
from spark.sink.spill import SpillLost

_log = structlog.get_logger(__name__)

T = TypeVar("T")

# Between two attempts of a call whose own retries (`aws.s3.backoff.*`) are over, doubled up to the last.
_FIRST_DELAY: Final = 0.5
_LAST_DELAY: Final = 15.0


class _Call:
    """A call that waits for its turn, or for its next attempt."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.future: Future[Any] = Future()
        self.delay = _FIRST_DELAY


class SendPool:
    """Runs calls in threads. What fails by S3's or the operator's fault is repeated without end, visibly."""

    def __init__(self, threads: int, *, name: str = "upload") -> None:
        self._threads = threads
        self._name = name
        self._started = 0
        self._idle = 0
        self._changed = threading.Condition()
        self._ready: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()
        self._failing: dict[_Call, str] = {}
        self._missing: dict[_Call, str] = {}
        self._answered = 0
        self._is_closed = False

    @property
    def answered(self) -> int:
        """How many calls have come to their end."""
        return self._answered

    @property
    def is_at_rest(self) -> bool:
        """Whether no call is under way or waits for its turn."""
        with self._changed:
            return not self._ready and self._idle == self._started

    def submit(self, call: Callable[[], T], *, after: "Future[Any] | None" = None) -> "Future[T]":
        """The answer to come. Another thread makes `call` once `after` is done, again until it succeeds.

        UploadEnded, SpillLost, and errors that are ours alone, end it. A future that is cancelled is
        not called again; a call that is under way is finished, and its answer dropped.
        """
        queued = _Call(call)
        if after is None:
            self._enqueue(queued, 0.0)
        else:
            after.add_done_callback(lambda _: self._enqueue(queued, 0.0))
        return queued.future

    def problem(self) -> str | None:
        """The sentence of a call that fails at the moment, None when none does."""
        with self._changed:
            return next(iter(self._failing.values()), None)

    def missing(self) -> str | None:
        """The sentence of a call whose bucket is not there, None where none fails by that at the moment."""
        with self._changed:
            return next(iter(self._missing.values()), None)

    def close(self) -> None:
        """End the threads after the calls that are under way; what waits is cancelled. Does not block."""
        with self._changed:
            self._is_closed = True
            waiting, self._ready = self._ready, []
            self._failing.clear()
            self._missing.clear()
            self._changed.notify_all()
        for _, _, queued in waiting:
            queued.future.cancel()

    def _enqueue(self, queued: _Call, delay: float) -> None:
        with self._changed:
            if not self._is_closed:
                heapq.heappush(self._ready, (time.monotonic() + delay, next(self._numbers), queued))
                if not self._idle and self._started < self._threads:
                    self._started += 1
                    start_thread(self._run, name=f"{self._name}-{self._started}")
                self._changed.notify()
                return
        queued.future.cancel()

    def _run(self) -> None:
        while (queued := self._next()) is not None:
            self._attempt(queued)

    def _next(self) -> _Call | None:
        """The call whose time has come; None when the pool is closed. Blocks."""
        with self._changed:
            while not self._is_closed:
                wait = self._ready[0][0] - time.monotonic() if self._ready else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._ready)[2]
                self._idle += 1
                self._changed.wait(wait)
                self._idle -= 1
            return None

    def _attempt(self, queued: _Call) -> None:
        if queued.future.cancelled():
            self._settle(queued)
            return
        try:
            answer = queued.call()
        except (UploadEnded, SpillLost) as error:
            self._settle(queued, error=error)
        except (HeadraceError, OSError) as error:
            # OSError: a part's file in buffer.dir cannot be read now.
            self._repeat(queued, error)
        except BaseException as error:  # noqa: BLE001  # whoever waits for the answer raises it
            self._settle(queued, error=error)
        else:
            self._settle(queued, answer=answer)

    def _repeat(self, queued: _Call, error: Exception) -> None:
        few = out_of_files(error) if isinstance(error, OSError) else None
        sentence = str(error) if few is None else f"A part cannot be read from buffer.dir, as {few}."
        with self._changed:
            # Of a pool that is closed nobody asks any more.
            is_new = not self._is_closed and self._failing.get(queued) != sentence
            self._failing[queued] = sentence
            self._missing.pop(queued, None)
            if isinstance(error, ResourceMissing):
                self._missing[queued] = sentence
        if is_new:
            _log.warning("upload_delayed", error=sentence, retry_seconds=queued.delay)
        delay, queued.delay = queued.delay, min(queued.delay * 2, _LAST_DELAY)
        self._enqueue(queued, delay)

    def _settle(self, queued: _Call, *, answer: Any = None, error: BaseException | None = None) -> None:
        with self._changed:
            self._failing.pop(queued, None)
            self._missing.pop(queued, None)
            self._answered += 1
        # Cancelled meanwhile: nobody waits for it.
        with suppress(InvalidStateError):
            if error is None:
                queued.future.set_result(answer)
            else:
                queued.future.set_exception(error)


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


class Proof:
    """Lets calls in other threads wait until the slot's thread has shown that the slot is not given up."""

    def __init__(self, prove: Callable[[], None]) -> None:
        """`prove` is called by `serve` alone, and raises what the slot then ends with."""
        self._prove = prove
        self._changed = threading.Condition()
        self._wanted = 0
        self._given = 0
        self._is_closed = False

    def wait(self) -> None:
        """Block until a proof is given that was begun after this call; UploadEnded when the slot ends."""
        with self._changed:
            self._wanted += 1
            number = self._wanted
            self._changed.wait_for(lambda: self._given >= number or self._is_closed)
            if self._given < number:
                raise UploadEnded("An object of another slot was not replaced before this slot ended.")

    def serve(self) -> None:
        """Give what is waited for. For the slot's thread."""
        wanted = self._wanted
        if wanted > self._given:
            self._prove()
            with self._changed:
                self._given = wanted
                self._changed.notify_all()

    def close(self) -> None:
        """There will be none any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
