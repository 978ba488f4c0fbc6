"""The driver's own ledger records, committed by one thread beside the service's, several together."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from ingest.catalogue.effects import LedgerWrite
from ingest.errors import HeadraceError, InvalidLedger, LeadershipLost, TransactionAborted, Unavailable
from ingest.kafka.driver_ledger import DriverLedger
from ingest.kafka.ledger_writer import Write
from ingest.model.ledger_entry import ControlKey
from ingest.service.service_events import ComponentProblem, Fatal, OwnEvent, Written

_log = structlog.get_logger(__name__)

_PART: Final = "ledger"
_PAUSE_SECONDS: Final = 1.0
_LOOKS_SECONDS: Final = (0.0, 0.5, 1.0)
# A transaction of the driver stays well below the broker's transaction.timeout.ms.
_MAX_RECORDS: Final = 5_000


@dataclass(frozen=True, slots=True)
class _Request:
    """Records that go into one transaction; `control` is a command's own record beside them."""

    writes: tuple[LedgerWrite, ...]
    control: tuple[ControlKey, bytes | None] | None = None


class LedgerWrites:
    """Takes records and posts `Written` for each request once the broker has acknowledged them.

    Requests are committed in the order in which they came, all records of one in one transaction. While the
    broker is away they wait: nothing of theirs is planned in the meantime.
    """

    def __init__(self, ledger: DriverLedger, post: Callable[[OwnEvent], None]) -> None:
        self._ledger = ledger
        self._post = post
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-writes", daemon=True)
        self._thread.start()

    def submit(
        self, writes: tuple[LedgerWrite, ...], control: tuple[ControlKey, bytes | None] | None = None
    ) -> None:
        """Have these records committed together, `control` with them. Does not block."""
        self._requests.put(_Request(writes, control))

    def close(self, seconds: float) -> None:
        """Commit what was submitted, as far as `seconds` allow.

        What is left out is asked for again by the next run, which reads the ledger.
        """
        self._requests.put(None)
        self._thread.join(seconds)
        self._is_closing.set()

    def _run(self) -> None:
        try:
            while (requests := self._next()) is not None:
                self._commit(requests)
                for request in requests:
                    self._post(Written(request.writes, is_command=request.control is not None))
        except HeadraceError as error:
            self._post(Fatal(error))

    def _next(self) -> list[_Request] | None:
        """The requests for one transaction; None at the end. Blocks for the first."""
        first = self._requests.get()
        if first is None:
            return None
        together, records = [first], len(first.writes)
        while records < _MAX_RECORDS:
            try:
                more = self._requests.get_nowait()
            except queue.Empty:
                break
            if more is None:
                self._requests.put(None)
                break
            together.append(more)
            records += len(more.writes)
        return together

    def _commit(self, requests: list[_Request]) -> None:
        writes: list[Write] = []
        for request in requests:
            writes += [(write.key, write.entry) for write in request.writes]
            if request.control is not None:
                writes.append(request.control)
        failed = False
        while True:
            try:
                self._ledger.commit(writes)
            except (LeadershipLost, InvalidLedger):
                raise
            except (Unavailable, TransactionAborted) as error:
                failed = True
                self._post(ComponentProblem(_PART, str(error)))
                _log.warning("ledger_write_failed", error=str(error), detail="it is tried again")
                if self._is_closing.wait(_PAUSE_SECONDS):
                    return
            else:
                if failed:
                    self._post(ComponentProblem(_PART, None))
                return


class LedgerMonitor:
    """Looks whether the ledger is still the one that was taken over (docs/protocol.md, step 8).

    Every minute, and when the lead is lost: it goes with the topic, and then the topic is what to tell of.
    """

    def __init__(
        self, ledger: DriverLedger, post: Callable[[OwnEvent], None], *, interval_seconds: float = 60.0
    ) -> None:
        self._ledger = ledger
        self._post = post
        self._interval_seconds = interval_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-watch", daemon=True)
        self._thread.start()
        ledger.before_loss(self._look)

    def close(self) -> None:
        """Look no more."""
        self._stop.set()

    def _look(self) -> None:
        try:
            # The group may hear of a deletion before the brokers' metadata do.
            for pause in _LOOKS_SECONDS:
                time.sleep(pause)
                self._ledger.check_identity()
        except InvalidLedger as error:
            self._post(Fatal(error))
        except HeadraceError as error:
            _log.warning("ledger_not_looked_at", error=str(error), detail="the lead is lost all the same")

    def _run(self) -> None:
        failed_since: float | None = None
        while not self._stop.wait(self._interval_seconds):
            try:
                self._ledger.check()
            except (LeadershipLost, InvalidLedger) as error:
                self._post(Fatal(error))
                return
            except HeadraceError as error:
                failed_since = failed_since or time.monotonic()
                self._post(ComponentProblem("ledger check", str(error)))
            else:
                if failed_since is not None:
                    self._post(ComponentProblem("ledger check", None))
                failed_since = None
