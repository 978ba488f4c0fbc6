"""The driver's own ledger records, committed by one thread; recovery of slots without a clean report.

Several records are committed together. A slot that ended otherwise is voided, fenced, and the ledger read
(docs/protocol.md, step 3).
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from headrace.kafka.driver_ledger import DriverLedger
from headrace.kafka.kafka_errors import LedgerEndHidden
from headrace.kafka.ledger_writer import GroupOffsets, Write
from headrace.model.errors import (
    HeadraceError,
    InvalidLedger,
    LeadershipLost,
    TopicMissing,
    TransactionAborted,
    Unavailable,
)
from headrace.model.ledger_entry import ControlKey
from headrace.process.logs import RetryLog
from headrace.process.threads import start_thread
from ingest.service.service_events import (
    ComponentProblem,
    Fatal,
    LedgerEndBlocked,
    OwnEvent,
    Recovered,
    Written,
)
from ingest.source.catalogue.effects import LedgerWrite

_log = structlog.get_logger(__name__)

_COMPONENT: Final = "ledger"
_PAUSE_SECONDS: Final = 1.0
# A transaction of the driver stays well below the broker's transaction.timeout.ms.
_MAX_RECORDS: Final = 5_000


@dataclass(frozen=True, slots=True)
class _Request:
    """Records that go into one transaction, offsets of another group in addition, and what is posted then."""

    records: tuple[Write, ...]
    other: GroupOffsets | None
    written: object


class LedgerWrites:
    """Takes records and posts what was given with them once the broker has acknowledged them.

    Requests are committed in the order in which they came, all records of one in one transaction. While the
    broker is away they wait: nothing of theirs is planned in the meantime.
    """

    def __init__(self, ledger: DriverLedger, post: Callable[[Any], None]) -> None:
        self._ledger = ledger
        self._post = post
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._retries = RetryLog(_log, "ledger_write_failed")
        self._is_closing = threading.Event()
        self._thread = start_thread(self._run, name="ledger-writes")

    def submit(
        self, writes: tuple[LedgerWrite, ...], control: tuple[ControlKey, bytes | None] | None = None
    ) -> None:
        """Have these records committed together, `control` with them: `Written` follows. Does not block."""
        records: list[Write] = [(write.key, write.entry) for write in writes]
        if control is not None:
            records.append(control)
        self.submit_records(records, Written(writes, is_command=control is not None))

    def submit_records(
        self, records: Sequence[Write], written: object, *, other: GroupOffsets | None = None
    ) -> None:
        """Have these committed together: `written` is posted then. Does not block."""
        self._requests.put(_Request(tuple(records), other, written))

    def close(self, seconds: float) -> None:
        """Commit what was submitted, as far as `seconds` allow; events come for that alone.

        What is left out is asked for again by the next leadership, which reads the ledger.
        """
        self._requests.put(None)
        self._thread.join(seconds)
        self._is_closing.set()

    def join(self, seconds: float) -> bool:
        """Whether the thread has ended in this time; soon after `close` where the lead is lost."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (requests := self._next()) is not None and self._commit(requests):
                for request in requests:
                    self._post(request.written)
        except HeadraceError as error:
            self._post(Fatal(error))

    def _next(self) -> list[_Request] | None:
        """The requests for one transaction; None at the end. Blocks for the first."""
        first = self._requests.get()
        if first is None:
            return None
        together, records = [first], len(first.records)
        while records < _MAX_RECORDS:
            try:
                more = self._requests.get_nowait()
            except queue.Empty:
                break
            if more is None:
                self._requests.put(None)
                break
            together.append(more)
            records += len(more.records)
        return together

    def _commit(self, requests: list[_Request]) -> bool:
        """True once the broker has acknowledged all of them; False when an end came first."""
        writes = [record for request in requests for record in request.records]
        other = _joined([request.other for request in requests if request.other is not None])
        failed = False
        while True:
            try:
                self._ledger.commit(writes, other=other)
            except (LeadershipLost, InvalidLedger):
                raise
            except TopicMissing as error:
                if other is None:
                    raise
                # A topic of the other group's is gone: its offset is for show, the ledger has what counts.
                _log.warning("group_offsets_left_out", error=str(error), detail="they are committed later")
                other = None
            except (Unavailable, TransactionAborted) as error:
                failed = True
                self._post(ComponentProblem(_COMPONENT, str(error)))
                self._retries.failed(_COMPONENT, error, detail="it is tried again")
                if self._is_closing.wait(_PAUSE_SECONDS):
                    return False
            else:
                if failed:
                    self._retries.over(_COMPONENT)
                    self._post(ComponentProblem(_COMPONENT, None))
                return True


def _joined(others: Sequence[GroupOffsets]) -> GroupOffsets | None:
    """Offsets of one group as one commit: of each partition the newest."""
    if not others:
        return None
    newest = {(offset.topic, offset.partition): offset for other in others for offset in other.offsets}
    return GroupOffsets(others[0].group, tuple(newest.values()))


class LedgerMonitor:
    """Looks every minute whether the ledger is still the one taken over (docs/protocol.md, step 8)."""

    def __init__(
        self, ledger: DriverLedger, post: Callable[[OwnEvent], None], *, interval_seconds: float = 60.0
    ) -> None:
        self._ledger = ledger
        self._post = post
        self._interval_seconds = interval_seconds
        self._stop = threading.Event()
        self._thread = start_thread(self._run, name="ledger-watch")

    def close(self) -> None:
        """Look no more."""
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Whether the thread has ended in this time; soon after `close` where the lead is lost."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

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


class Recovery:
    """Fences voided slots and reads the ledger to its end, in a thread next to the service's.

    The caller has voided the slots: no start is granted under their old plan numbers any more. `Recovered`
    follows when what the ledger says of their objects is final, however long the broker is away;
    `LedgerEndBlocked` when the end is hidden by a slot that was not among them: then all have to be voided
    and asked for.
    """

    def __init__(self, ledger: DriverLedger, post: Callable[[OwnEvent], None], *, all_slots: int) -> None:
        self._ledger = ledger
        self._post = post
        self._all_slots = all_slots
        self._retries = RetryLog(_log, "recovery_failed")
        self._requests: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = start_thread(self._run, name="recovery")

    def submit(self, slot: int) -> None:
        """Recover a voided slot. Does not block."""
        self._requests.put(slot)

    def close(self) -> None:
        """Begin no further recovery; one under way ends by its own timeouts."""
        self._is_closing.set()
        self._requests.put(None)

    def join(self, seconds: float) -> bool:
        """Whether the thread has ended in this time; soon after `close` where the lead is lost."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (first := self._requests.get()) is not None:
            slots = {first}
            while True:
                try:
                    more = self._requests.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    return
                slots.add(more)
            if not self._recover(tuple(sorted(slots))):
                return

    def _recover(self, slots: tuple[int, ...]) -> bool:
        """False when nothing more can be recovered."""
        failed = False
        while not self._is_closing.is_set():
            try:
                self._ledger.recover(None if len(slots) == self._all_slots else slots)
            except LedgerEndHidden as error:
                _log.warning("ledger_end_blocked", error=str(error), detail="all slots are voided and fenced")
                self._post(LedgerEndBlocked(slots))
                return True
            except (LeadershipLost, InvalidLedger) as error:
                self._post(Fatal(error))
                return False
            except HeadraceError as error:
                failed = True
                self._post(ComponentProblem("recovery", str(error)))
                self._retries.failed(slots, error, slots=slots, detail="it is tried again")
                self._is_closing.wait(_PAUSE_SECONDS)
            else:
                if failed:
                    self._retries.over(slots)
                    self._post(ComponentProblem("recovery", None))
                self._post(Recovered(slots))
                return True
        return False
