"""Pause, stop, resume, restart and other offsets, carried out in the service's thread, by the leader.

The wish is a control record of the ledger, so a restart or another leader finds it. It takes effect when its
transaction is acknowledged:

    paused    the planner deals nothing, listing and receiving hold, batches under way end at their next
              checkpoint and what they leave goes back to pending. Messages that are held stay invisible.
              No object is deleted or moved: what is owed after commits stays owed.
    stopped   in addition, all slots are given back, and held messages go back to the queue.
    running   all of that undone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

import structlog

from headrace.kafka.control_records import (
    PAUSE,
    TOPICS,
    Pause,
    TargetState,
    TopicsReset,
    encode_control,
    pause_of,
)
from headrace.model.clock import Instant
from headrace.model.ledger_entry import ControlKey
from headrace.model.objects import ObjectId, S3Object
from ingest.service.slot_states import SlotState, SlotStates
from ingest.source.catalogue import Catalogue, Effects, LedgerWrite
from ingest.source.catalogue.object_commands import AlterOffsets, Offset
from ingest.source.command_queue import CommandQueue, CommandStep
from ingest.source.planner import Planner

_log = structlog.get_logger(__name__)

ALIVE: Final = (SlotState.STARTING, SlotState.READY, SlotState.BUSY)
"""What a slot may be doing when it is asked to end at its next checkpoint."""


class ListenersPort(Protocol):
    """What of the listeners is steered."""

    def pause_receiving(self) -> None:
        """Receive no further messages; what is held stays held."""

    def resume_receiving(self) -> None:
        """Continue after `pause_receiving`."""

    def release_all(self) -> None:
        """Give every held message back to the queue."""

    def request_listing(self) -> None:
        """Ask for a full listing that begins after now."""


class SlotsPort(Protocol):
    """What of the slots is steered."""

    def end(self, slot: int) -> None:
        """Ask the slot's task to end; a busy one commits at its next batch of rows and returns the rest."""


class ActionsPort(Protocol):
    """What of the actions after commits is steered."""

    @property
    def is_removing(self) -> bool:
        """Whether an object is being taken away."""

    def pause(self) -> None:
        """Begin none, and take no object away."""

    def resume(self) -> None:
        """Continue after `pause`."""


class Steps:
    """What is wanted of a source or a sink, and the steps towards it that are the same for both."""

    def __init__(self, end: Callable[[int], None]) -> None:
        self._end_slot = end
        self._ended: set[tuple[int, int | None]] = set()
        self._waiting: list[Future[None]] = []
        self._wanted = TargetState.RUNNING
        self.target = TargetState.RUNNING

    def _take_up(self, controls: Mapping[ControlKey, bytes]) -> TargetState | None:
        """What the ledger says is wanted, unless it is to run."""
        found = pause_of(controls)
        if found is None or found.state is TargetState.RUNNING:
            return None
        _log.warning(
            str(found.state),
            since_ms=found.at_ms,
            detail="as was asked through the REST interface; PUT .../resume there lets it continue",
        )
        self._wanted = found.state
        return found.state

    def _end_once(self, slots: SlotStates, numbers: Collection[int]) -> None:
        """Ask each start of a slot once to end."""
        for number in numbers:
            which = (number, slots[number].start)
            if which not in self._ended:
                self._ended.add(which)
                self._end_slot(number)

    def _report_target(self, *, has_given_back: bool) -> None:
        """Report to those who wait for it that what is wanted is so."""
        if self._waiting and (self.target is not TargetState.STOPPED or has_given_back):
            waiting, self._waiting = self._waiting, []
            for told in waiting:
                told.set_result(None)


def shown_slots(slots: SlotStates, *, has_given_back: bool) -> tuple[tuple[int, bool], ...]:
    """Each slot and whether it is being recovered; none once all are given back."""
    if has_given_back:
        return ()
    recovering = set(slots.of(SlotState.RECOVERING))
    return tuple((number, number in recovering) for number in range(slots.count))


class Lifecycle(Steps):
    """What is wanted of the ingester, and the steps towards it. `begin`, then `advance` in every turn."""

    def __init__(
        self,
        *,
        commands: CommandQueue,
        catalogue: Catalogue,
        planner: Planner,
        listeners: ListenersPort,
        slot_pool: SlotsPort,
        post_actions: ActionsPort | None,
    ) -> None:
        super().__init__(slot_pool.end)
        self._commands = commands
        self._catalogue = catalogue
        self._planner = planner
        self._listeners = listeners
        self._post_actions = post_actions
        self._slots = SlotStates(0)

    @property
    def may_alter(self) -> bool:
        """True when it is stopped, and nothing else was asked for since."""
        return self._wanted is TargetState.STOPPED and self.has_given_back

    @property
    def has_given_back(self) -> bool:
        """True when it is stopped, no slot is in use, and no plan could still write to the ledger.

        Nor is an object being taken away, of which an offset would say that it is to be read.
        """
        is_free = len(self._slots.of(SlotState.FREE)) == self._slots.count
        return self.target is TargetState.STOPPED and is_free and not self._is_under_way

    @property
    def is_at_rest(self) -> bool:
        """True while it is paused or stopped, and neither is anything under way nor does anyone wait for it.

        Objects and actions that wait for a resume do not count.
        """
        waits = bool(self._waiting) or not self._commands.is_idle
        return self.target is not TargetState.RUNNING and not waits and not self._is_under_way

    @property
    def _is_under_way(self) -> bool:
        is_removing = self._post_actions is not None and self._post_actions.is_removing
        return self._planner.has_live_plans or is_removing

    @property
    def slots(self) -> tuple[tuple[int, bool], ...]:
        """Each slot and whether it is being recovered; none once all are given back."""
        return shown_slots(self._slots, has_given_back=self.has_given_back)

    def begin(self, controls: Mapping[ControlKey, bytes]) -> None:
        """Pick up what the ledger says is wanted; once, when the listeners have been started."""
        if (found := self._take_up(controls)) is not None:
            self._move_to(found)

    def advance(self, slots: SlotStates) -> None:
        """See to it that slots end which have to, and tell those who wait for it."""
        self._slots = slots
        if self.target is not TargetState.RUNNING:
            kinds = ALIVE if self.target is TargetState.STOPPED else (SlotState.BUSY,)
            self._end_once(slots, slots.of(*kinds))
        self._report_target(has_given_back=self.has_given_back)

    def set_target(self, target: TargetState, told: Future[None]) -> None:
        """Write down what is wanted and act on it; told once it is written, and for a stop carried out."""

        def make(now: Instant) -> CommandStep:
            record = encode_control(Pause(state=target, at_ms=now.wall_ms))
            return CommandStep(effects=Effects(), record=(PAUSE, record))

        def written(_step: CommandStep) -> None:
            _log.info("target_changed", target=str(target), before=str(self.target))
            self._move_to(target)
            self._waiting.append(told)

        self._wanted = target
        self._commands.request_step(make, written)

    def reset_topics(self, told: Future[None]) -> None:
        """Write down that the topics up to now do not count any more; told once it is written."""

        def make(now: Instant) -> CommandStep:
            return CommandStep(
                effects=Effects(), record=(TOPICS, encode_control(TopicsReset(at_ms=now.wall_ms)))
            )

        self._commands.request_step(make, lambda _step: told.set_result(None))

    def restart(self, slots: Collection[int], *, lists: bool) -> None:
        """End the tasks of these slots at their next checkpoint; what there is to do starts them again."""
        alive = set(self._slots.of(*ALIVE))
        for slot in sorted(alive.intersection(slots)):
            self._end_slot(slot)
        if lists:
            self._listeners.request_listing()
        _log.info("slots_restarted", slots=len(alive.intersection(slots)), lists=lists)

    def alter(
        self,
        objects: Sequence[S3Object],
        offsets: Mapping[ObjectId, Offset | None],
        told: Future[tuple[LedgerWrite, ...]],
    ) -> None:
        """Set these offsets in one transaction; told of its writes once it is acknowledged.

        Call it only when it `may_alter`: then no plan holds any of the objects, nor will before it is done.
        """

        def make(now: Instant) -> CommandStep | None:
            if any(self._catalogue.states.is_held(each.id) for each in objects):
                return None
            effects = self._catalogue.apply_command(AlterOffsets(offsets=offsets), objects, now)
            # With them goes what makes them allowed: that it is stopped.
            record = encode_control(Pause(state=TargetState.STOPPED, at_ms=now.wall_ms))
            return CommandStep(effects=effects, record=(PAUSE, record))

        def written(step: CommandStep) -> None:
            _log.info("offsets_altered", objects=len(objects), records=len(step.effects.writes))
            told.set_result(step.effects.writes)

        self._commands.request_step(make, written)

    def let_go(self) -> None:
        """The lead is lost: from now on it is the next leader who has objects deleted and moved."""
        if self._post_actions is not None:
            self._post_actions.pause()

    def _move_to(self, target: TargetState) -> None:
        self.target = target
        self._planner.is_paused = target is not TargetState.RUNNING
        self._ended.clear()
        if target is TargetState.RUNNING:
            self._listeners.resume_receiving()
        else:
            self._listeners.pause_receiving()
        if self._post_actions is not None:
            if target is TargetState.RUNNING:
                self._post_actions.resume()
            else:
                self._post_actions.pause()
        if target is TargetState.STOPPED:
            self._listeners.release_all()
