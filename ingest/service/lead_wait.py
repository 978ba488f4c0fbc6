"""A process that does not lead: what it shows, and how it waits for the lead."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog

from headrace.kafka.leadership import Leadership, Role
from headrace.kafka.ledger_topic import describe_ledger_topic, refuse_changed
from headrace.model import clock
from headrace.model.errors import AccessDenied, TakenOver, TopicMissing, Unavailable
from ingest.service.process_parts import Past, ProcessParts
from ingest.service.startup import Stopped
from spark.slots import SlotPool

_log = structlog.get_logger(__name__)

# How often a process that waits to lead again looks whether its ledger is still there.
_CHECK_SECONDS: Final = 5.0
# A worker that gives a connector to another one ends it cleanly within this time.
_HANDOVER_SECONDS: Final = 30.0
# How often it is asked again who that is.
_STRANGER_SECONDS: Final = 30.0


class LeadWait:
    """Waits for the lead, and shows meanwhile how it is."""

    def __init__(self, process: ProcessParts, past: Past) -> None:
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
            _log.info("standby_entered", group=lead.group, detail="another instance leads")
            self._past.is_standing_by = True
        self._past.has_run = True
        self._find_stranger(lead)
        process.statistics.trouble("lead", self._stranger)
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
            found = self._process.admin.holder_names(lead.group, self._settings.kafka.ledger_topic)
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


def show_standby(process: ProcessParts, *, ready: bool) -> None:
    """Show a standby: ready when it could take over at once."""
    shown = process.snapshot_holder.snapshot.without_leadership()
    problems = dict(process.statistics.problems)
    process.snapshot_holder.show(
        replace(shown, role="standby", ready=ready, problems=problems, at_ms=clock.wall_ms())
    )


def require_same_ledger(process: ProcessParts) -> None:
    """InvalidLedger when the ledger that this process found at its start is gone, or another; Unavailable."""
    try:
        now = describe_ledger_topic(process.admin, process.settings.kafka.ledger_topic).identity
    except TopicMissing:
        now = None
    refuse_changed(process.found.ledger, now)
