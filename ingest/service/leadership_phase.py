"""One leadership, from joining the group to its end: nothing of it is carried over into the next one.

What a connector of a worker was created to do: written into its ledger once, by who leads it first.
"""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from headrace.kafka.cache_directory import CacheDirectory, claim_cache_directory
from headrace.kafka.control_records import CREATION, PAUSE, Creation, Pause, encode_control
from headrace.kafka.driver_ledger import DriverLedger
from headrace.kafka.group_metadata import parse_group_metadata
from headrace.kafka.leadership import Leadership
from headrace.model.clock import wall_ms
from headrace.model.errors import Exit, HeadraceError, InvalidLedger, LeadershipLost, Unavailable
from ingest.service.lead_wait import LeadWait, require_same_ledger
from ingest.service.process_parts import Past, ProcessParts
from ingest.service.service_events import Fatal
from ingest.service.startup import Stopped
from spark.slots import SlotPool

_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.01


def begin_as_created(ledger: DriverLedger, creation: Creation | None) -> None:
    """Return when the ledger says what this creation began with, or has said so before; None: nothing to say.

    So one that was deleted while it was stopped, and is created again, runs; and one that was created
    STOPPED and resumed since continues. Blocks. LeadershipLost, InvalidLedger, Unavailable.
    """
    if creation is None or ledger.control(CREATION) == creation:
        return
    pause = Pause(state=creation.state, at_ms=wall_ms())
    ledger.commit([(PAUSE, encode_control(pause)), (CREATION, encode_control(creation))])
    deadline = time.monotonic() + _SECONDS
    while ledger.control(CREATION) != creation:
        if time.monotonic() > deadline:
            raise Unavailable("The ledger is written, but cannot be read back yet: is Kafka up?")
        time.sleep(_LOOK_SECONDS)


_log = structlog.get_logger(__name__)

_PHASE_LOOK_SECONDS: Final = 0.05


class Leader(Protocol):
    """What one direction does with the lead."""

    def lead(self) -> Exit:
        """Lead until the run is over. Blocks; LeadershipLost once nothing of this leadership is at work."""


class LeadershipPhase:
    """Joins, waits for the lead, leads. Used once."""

    def __init__(
        self, process: ProcessParts, past: Past, new_leader: Callable[["TakenLead"], Leader]
    ) -> None:
        self._process = process
        self._settings = process.settings
        self._past = past
        self._new_leader = new_leader
        # Each direction has its own kinds of events; those of the lead and the ledger are common to them.
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._is_given_up = False

    def run(self) -> Exit:
        """Lead until the run is over. Blocks; Stopped, LeadershipLost when another phase may follow.

        TakenOver, InvalidLedger and Unavailable end the run, and so does what is a bug.
        """
        with ExitStack() as closing:
            home = self._claim_home(closing)
            leadership = self._join(home, closing)
            wait = LeadWait(self._process, self._past)
            slot_pool = wait.await_lead(leadership, lambda: self._new_slot_pool(closing))
            self._past.members.add(parse_group_metadata(leadership.metadata()).member)
            _log.info("leadership_taken", group=leadership.group)
            with self._leading_again_later():
                ledger = self._take_over(leadership, home, closing)
            if slot_pool is None:
                self._await_spark()
                slot_pool = self._new_slot_pool(closing)
            with self._leading_again_later():
                ledger.raise_slots(self._process.slot_source.slots)
                begin_as_created(ledger, self._process.creation)
            taken = TakenLead(
                process=self._process,
                leadership=leadership,
                ledger=ledger,
                slot_pool=slot_pool,
                inbox=self._inbox,
                closing=closing,
                has_led_before=self._past.has_led,
                leading_again_later=self._leading_again_later,
                give_up=self._give_up,
            )
            leader = self._new_leader(taken)
            self._past.has_run = self._past.has_led = True
            return leader.lead()

    def _give_up(self) -> None:
        self._is_given_up = True
        self._past.is_standing_by = False

    def _claim_home(self, closing: ExitStack) -> CacheDirectory | None:
        """The place in `state.dir`, whose lock proves that the last process which had it does not lead.

        None where another process has the lock, or there is no such folder: the ledger looks again when it is
        taken over, and warns of that.
        """
        with suppress(OSError):
            home = claim_cache_directory(self._settings.state_dir, self._settings.name)
            if home is not None:
                closing.callback(home.close)
            return home
        return None

    def _join(self, home: CacheDirectory | None, closing: ExitStack) -> Leadership:
        settings = self._settings
        instance_id = settings.identity.instance_id
        if instance_id is None and home is not None and not self._past.has_lost_its_place:
            instance_id = home.instance_id()

        def lost(reason: str) -> None:
            # With the same id again they would take the lead from each other for ever.
            self._past.has_lost_its_place |= lead.is_replaced
            self._inbox.put(Fatal(LeadershipLost(f"The lead is lost: {reason}.")))

        lead = Leadership(
            self._process.clients.consumer,
            name=settings.name,
            ledger_topic=settings.kafka.ledger_topic,
            session_timeout_ms=settings.identity.lead_session_timeout_ms,
            instance_id=instance_id,
            on_lost=lost,
        )
        closing.callback(lead.close)
        lead.join()
        return lead

    @contextmanager
    def _leading_again_later(self) -> Iterator[None]:
        """Once the process runs, nothing outside ends it: what fails here fails this leadership only."""
        try:
            yield
        except (LeadershipLost, InvalidLedger):
            raise
        except HeadraceError as error:
            if not self._past.has_run:
                raise
            raise LeadershipLost(f"The lead could not be taken up: {error}") from error

    def _take_over(
        self, leadership: Leadership, home: CacheDirectory | None, closing: ExitStack
    ) -> DriverLedger:
        settings = self._settings
        if self._past.has_led:
            require_same_ledger(self._process)
        ledger = DriverLedger(
            self._process.clients,
            name=settings.name,
            topic=settings.kafka.ledger_topic,
            lead=leadership,
            state_dir=settings.state_dir,
            home=home,
            anchors=self._process.found.topics,
            boundary_seconds=settings.kafka.transaction_interval_ms / 1000,
            # Accepted is what was there at the start, not what is lost later.
            accept_new_ledger=self._process.accept_new_ledger and not self._past.has_led,
            on_applied=self._inbox.put,
            on_failed=lambda error: self._inbox.put(Fatal(error)),
            is_given_up=lambda: self._is_given_up,
        )
        closing.callback(ledger.close)
        ledger.take_over(timeout=self._process.startup_seconds)
        return ledger

    def _await_spark(self) -> None:
        while not self._process.slot_source.is_up():
            if self._process.stop.asked.wait(_PHASE_LOOK_SECONDS):
                raise Stopped
            self._process.failures.raise_first()

    def _new_slot_pool(self, closing: ExitStack) -> SlotPool:
        slot_pool = self._process.slot_source.new_slot_pool(self._inbox.put)
        closing.callback(slot_pool.close, 0.0)
        return slot_pool


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenLead:
    """The lead, and what was made for it; `closing` unmakes what else is made."""

    process: ProcessParts
    leadership: Leadership
    ledger: DriverLedger
    slot_pool: SlotPool
    inbox: "queue.SimpleQueue[Any]"
    closing: ExitStack
    has_led_before: bool
    """This process has led already: what is away now is waited for, and ends nothing."""
    leading_again_later: Callable[[], Any]
    """A context in which what fails ends this leadership only, once the process runs."""
    give_up: Callable[[], None]
    """Whatever waits for brokers in the ledger's name ends with LeadershipLost from now on."""
