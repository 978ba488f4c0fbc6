"""Void, fence, read: for slots that did not report cleanly (docs/protocol.md, step 3)."""

import queue
import threading
from collections.abc import Callable
from typing import Final

import structlog

from headrace.kafka.driver_ledger import DriverLedger
from headrace.kafka.kafka_errors import LedgerEndHidden
from headrace.model.errors import HeadraceError, InvalidLedger, LeadershipLost
from headrace.process.threads import start_thread
from ingest.service.service_events import ComponentProblem, Fatal, LedgerEndBlocked, OwnEvent, Recovered

_log = structlog.get_logger(__name__)

_PAUSE_SECONDS: Final = 1.0


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
                _log.warning("recovery_failed", slots=slots, error=str(error), detail="it is tried again")
                self._is_closing.wait(_PAUSE_SECONDS)
            else:
                if failed:
                    self._post(ComponentProblem("recovery", None))
                self._post(Recovered(slots))
                return True
        return False
