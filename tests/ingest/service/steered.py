"""A leader that is paused, stopped and resumed, for tests: what is asked of listeners, slots and actions."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from headrace.kafka.control_records import TargetState
from headrace.model.objects import ObjectId
from headrace.options.choices import Ordering
from ingest.service.lifecycle import Lifecycle
from ingest.service.slot_states import SlotStates
from ingest.source.catalogue import LedgerWrite
from ingest.source.catalogue.object_commands import Offset
from ingest.source.planner import Backoff, BatchLimits, Planner
from tests.ingest.cli.commands.ledgers import Leader, Ledger, an_object


class Noted:
    """Listeners and lanes that note what they are asked for."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def pause_receiving(self) -> None:
        """Note it."""
        self.calls.append("pause")

    def resume_receiving(self) -> None:
        """Note it."""
        self.calls.append("resume")

    def release_all(self) -> None:
        """Note it."""
        self.calls.append("release")

    def request_listing(self) -> None:
        """Note it."""
        self.calls.append("list")

    def end(self, slot: int) -> None:
        """Note it."""
        self.calls.append(("end", slot))


class NotedActions:
    """Actions after commits that note what they are asked for; a removal may be under way."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_removing = False

    def pause(self) -> None:
        """Note it."""
        self.calls.append("pause")

    def resume(self) -> None:
        """Note it."""
        self.calls.append("resume")


class Desk:
    """A leader with three slots, and what is asked of listeners and lanes."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()
        self.leader: Leader = self.ledger.leader()
        limits = BatchLimits(
            slots=3, max_objects=10, max_bytes=1000, ordering=Ordering.OBJECT, can_cut=False, max_attempts=3
        )
        self.planner = Planner(
            self.leader.catalogue, limits=limits, backoff=Backoff(first_ms=1, longest_ms=1)
        )
        self.asked = Noted()
        self.actions = NotedActions()
        self.slots = SlotStates(3)
        self.steering = Lifecycle(
            commands=self.leader.commands,
            catalogue=self.leader.catalogue,
            planner=self.planner,
            listeners=self.asked,
            slot_pool=self.asked,
            post_actions=self.actions,
        )
        self.steering.begin(self.ledger.controls)

    def steer(self, target: TargetState) -> Future[None]:
        """Ask for it, and let it be written."""
        told: Future[None] = Future()
        self.steering.set_target(target, told)
        self.leader.apply_all()
        self.steering.advance(self.slots)
        return told

    def alter(self, offsets: Mapping[ObjectId, Offset | None]) -> Future[tuple[LedgerWrite, ...]]:
        """Ask for it; not written."""
        told: Future[tuple[LedgerWrite, ...]] = Future()
        self.steering.alter([an_object(one.key) for one in offsets], offsets, told)
        return told
