"""One leadership, from joining the group to its end, and the wait for it; the next one begins afresh.

What lives as long as the connector is given to each leadership. The first one of a worker's connector writes
into its ledger what it was created to do.
"""

import math
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import structlog

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.cache_files import CacheDirectory, claim_cache_directory
from headrace.kafka.control_records import CREATION, PAUSE, Creation, Pause, encode_control
from headrace.kafka.driver_ledger import DriverLedger
from headrace.kafka.fencing import parse_group_metadata
from headrace.kafka.kafka_clients import ClientProperties
from headrace.kafka.leadership import Leadership, Role
from headrace.kafka.ledger_topic import describe_ledger_topic, refuse_changed
from headrace.model import clock
from headrace.model.clock import wall_ms
from headrace.model.errors import (
    AccessDenied,
    Exit,
    HeadraceError,
    InvalidLedger,
    LeadershipLost,
    TakenOver,
    TopicMissing,
    Unavailable,
)
from headrace.options import Settings
from headrace.process.threads import ThreadFailures
from ingest.http.metrics import Metrics
from ingest.http.snapshot import SnapshotHolder
from ingest.service.idle import Patience
from ingest.service.service_events import Fatal
from ingest.service.spark_startup import SlotSource
from ingest.service.startup import Found
from ingest.service.statistics import Statistics
from ingest.service.stop import Stop, Stopped
from spark.slots import SlotPool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessComponents:
    """What lives as long as the connector in this process, and every leadership of it uses."""

    settings: Settings
    clients: ClientProperties
    slot_source: SlotSource
    snapshot_holder: SnapshotHolder
    metrics: Metrics
    statistics: Statistics
    stop: Stop
    found: Found
    until_idle: bool
    accept_new_ledger: bool
    startup_seconds: float
    startup_deadline: float
    """Monotonic seconds."""
    admin: KafkaAdmin
    failures: ThreadFailures
    creation: Creation | None
    """As which creation in a worker it runs."""
    is_assigned: bool
    """Whether a group of workers gave it to this process, so that no other one should lead it."""


@dataclass(slots=True)
class Past:
    """What this process remembers of its leaderships: nothing that another one decides by."""

    patience: Patience
    """With a lead that cannot be taken up, for `--until-idle`."""
    has_run: bool = False
    """It has led or stood by: from then on nothing outside ends it."""
    has_led: bool = False
    is_standing_by: bool = False
    has_lost_its_place: bool = False
    """Another process that lives has come with the id of this one's `state.dir`: its lock proves nothing."""
    members: set[str] = field(default_factory=set)
    """Ids that the group gave to this process while it led."""


_log = structlog.get_logger(__name__)

# How often a process that waits to lead again looks whether its ledger is still there.
_CHECK_SECONDS: Final = 5.0
# A worker that gives a connector to another one ends it cleanly within this time.
_HANDOVER_SECONDS: Final = 30.0
# How often it is asked again who that is.
_STRANGER_SECONDS: Final = 30.0

TAKING_UP: Final = "leadership"
"""The problem of a process that has the lead and cannot take it up: it stays while it joins once more."""


class LeadWait:
    """Waits for the lead, and shows meanwhile how it is."""

    def __init__(self, process: ProcessComponents, past: Past) -> None:
        self._process = process
        self._settings = process.settings
        self._past = past
        # In a group of workers: when who led before it must have given the lead up, or have been missed.
        patience = self._settings.identity.lead_session_timeout_ms / 1000 + _HANDOVER_SECONDS
        self._stranger_at = time.monotonic() + patience if process.is_assigned else math.inf
        self._stranger: str | None = None

    def await_lead(self, lead: Leadership, new_slot_pool: Callable[[], SlotPool]) -> SlotPool | None:
        """Return when this process leads: its slot pool, if Spark is up by then.

        Blocks; Stopped, LeadershipLost.
        """
        process, slot_pool = self._process, None
        checked = time.monotonic()
        while not lead.wait_for_lead(1.0, process.stop.asked):
            if process.stop.asked.is_set():
                raise Stopped
            process.failures.raise_first()
            if slot_pool is None and process.slot_source.is_up():
                # A standby has them too: they keep its Python workers warm.
                slot_pool = new_slot_pool()
            if lead.role is Role.STANDBY:
                self._stand_by(lead)
            elif lead.role is Role.JOINING:
                self._wait_to_join(lead)
            if time.monotonic() - checked >= _CHECK_SECONDS and self._past.has_led:
                # Without its topic the group gives the lead to nobody, and says no word about it.
                with suppress(AccessDenied, Unavailable):
                    require_same_ledger(process)
                checked = time.monotonic()
        process.statistics.trouble("lead", None)
        return slot_pool

    def _stand_by(self, lead: Leadership) -> None:
        process = self._process
        if not self._past.is_standing_by:
            if process.until_idle:
                # Where people wait for its end only warnings are shown.
                _log.warning(
                    "standby_entered",
                    group=lead.group,
                    detail="another instance leads: nothing is done until that has ended",
                )
            else:
                _log.info("standby_entered", group=lead.group, detail="another instance leads")
            self._past.is_standing_by = True
        self._past.has_run = True
        self._find_stranger(lead)
        process.statistics.trouble("lead", self._stranger)
        process.statistics.trouble(TAKING_UP, None)
        # Ready is who can take over at once: a rollout must not stop the leader before.
        show_standby(process, ready=process.slot_source.is_up() and self._stranger is None)
        if process.until_idle and self._past.has_led:
            self._refuse_another_leader(lead)

    def _find_stranger(self, lead: Leadership) -> None:
        """Note who leads instead of this process though a group of workers gave it the connector."""
        now = time.monotonic()
        if now < self._stranger_at:
            return
        self._stranger_at = now + _STRANGER_SECONDS
        found: set[str] = set()
        with suppress(AccessDenied, Unavailable):
            found = self._process.admin.members(lead.group, topic=self._settings.kafka.ledger_topic)
        name, is_new = self._settings.name, self._stranger is None
        self._stranger = (
            f"Another process leads connector {name!r}, and this one waits and reads nothing: "
            f"{', '.join(sorted(found)) or 'an unknown member'} in consumer group {lead.group!r}. It is not "
            "a worker of this group: a worker with another group.id, or a `headrace run`, has a connector of "
            "this name. Rename or delete one of the two; this one continues as soon as the other has ended."
        )
        if is_new:
            _log.error("lead_held_elsewhere", error=self._stranger)

    def _wait_to_join(self, lead: Leadership) -> None:
        process = self._process
        if self._past.has_run:
            why = lead.problem or "the brokers have not let this instance into its group yet"
            process.statistics.trouble("lead", f"This instance waits to lead again: {why}")
            show_standby(process, ready=False)
        elif lead.problem and time.monotonic() > process.startup_deadline:
            raise Unavailable(lead.problem)

    def _refuse_another_leader(self, lead: Leadership) -> None:
        """TakenOver when the lead is with a member that this process never was: --until-idle is over then."""
        with suppress(AccessDenied, Unavailable):
            holders = self._process.admin.holders(lead.group, self._settings.kafka.ledger_topic)
            if holders - self._past.members:
                raise TakenOver(
                    f"--until-idle: another instance has taken the lead of consumer group {lead.group!r}, "
                    "and continues with what is left."
                )


def show_standby(process: ProcessComponents, *, ready: bool) -> None:
    """Show a standby: ready when it could take over at once."""
    shown = process.snapshot_holder.snapshot.without_leadership()
    problems = dict(process.statistics.problems)
    last_error = next(reversed(problems.values()), shown.last_error)
    process.snapshot_holder.show(
        replace(
            shown,
            role="standby",
            ready=ready,
            problems=problems,
            last_error=last_error,
            at_ms=clock.wall_ms(),
        )
    )


def require_same_ledger(process: ProcessComponents) -> None:
    """InvalidLedger when the ledger that this process found at its start is gone, or another; Unavailable."""
    try:
        now = describe_ledger_topic(process.admin, process.settings.kafka.ledger_topic).identity
    except TopicMissing:
        now = None
    refuse_changed(process.found.ledger, now)


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


_PHASE_LOOK_SECONDS: Final = 0.05


class Leader(Protocol):
    """What one direction does with the lead."""

    def lead(self) -> Exit:
        """Lead until the run is over. Blocks; LeadershipLost once nothing of this leadership is at work."""


class LeadershipPhase:
    """Joins, waits for the lead, leads. Used once."""

    def __init__(
        self, process: ProcessComponents, past: Past, new_leader: Callable[["TakenLead"], Leader]
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
                begin=self._begin,
                give_up=self._give_up,
            )
            leader = self._new_leader(taken)
            self._past.has_led = True
            return leader.lead()

    def _begin(self) -> None:
        self._past.has_run = True
        self._past.patience.is_over(time.monotonic(), waits=False)
        self._process.statistics.trouble(TAKING_UP, None)

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
        """Once the process runs, nothing outside ends it: what fails here fails this leadership only.

        But for `--until-idle`, where it fails for too long.
        """
        try:
            yield
        except InvalidLedger:
            raise
        except HeadraceError as error:
            is_lost = isinstance(error, LeadershipLost)
            if not (self._past.has_run or is_lost):
                raise
            sentence = f"The lead could not be taken up: {error}"
            self._process.statistics.trouble(TAKING_UP, sentence)
            show_standby(self._process, ready=False)
            if is_lost:
                raise
            is_over = self._past.patience.is_over(time.monotonic(), waits=True)
            if self._process.until_idle and is_over:
                raise Unavailable(f"--until-idle: {sentence}") from error
            raise LeadershipLost(sentence) from error

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

    process: ProcessComponents
    leadership: Leadership
    ledger: DriverLedger
    slot_pool: SlotPool
    inbox: "queue.SimpleQueue[Any]"
    closing: ExitStack
    has_led_before: bool
    """This process has led already: what is away now is waited for, and ends nothing."""
    leading_again_later: Callable[[], Any]
    """A context in which what fails ends this leadership only, once the process runs."""
    begin: Callable[[], None]
    """Called when all is taken up, and the process runs from now on."""
    give_up: Callable[[], None]
    """Whatever waits for brokers in the ledger's name ends with LeadershipLost from now on."""
