"""How either direction leads, until its run is over or the lead is lost: ended in order, or voided."""

import gc
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from headrace.model.errors import LeadershipLost
from headrace.process.threads import start_thread
from ingest.service.leadership_phase import TakenLead, show_standby
from ingest.service.stop import Stop

CLOSE_SECONDS: Final = 20.0
"""A clean stop commits what it can in this time; what is still open then is read again (docs/commands.md)."""
_LOOK_SECONDS: Final = 0.05


class Component(Protocol):
    """What has a thread of its own while this process leads."""

    def join(self, seconds: float) -> bool:
        """Wait so long for the end of its thread; whether it has ended."""


class StandingBy(Protocol):
    """What the REST interface asks of a direction."""

    def stand_by(self) -> None:
        """Answer as one that does not lead."""


class Counted(Protocol):
    """The statistics of a direction."""

    def leadership_ended(self) -> None:
        """Forget what was true of this leadership alone."""


def lead_until_over(
    run: Callable[[], None],
    *,
    close: Callable[[], None],
    abandon: Callable[[LeadershipLost], None],
    adapter: StandingBy,
) -> None:
    """Run, then `close`; where the lead is lost, `abandon` and raise. Blocks.

    What still waits for an answer of `adapter` then, and what comes later, is answered as not led.
    """
    try:
        _lead_until_over(run, close=close, abandon=abandon)
    finally:
        # A worker's process lives on, and with it the threads that wait.
        adapter.stand_by()


def _lead_until_over(
    run: Callable[[], None], *, close: Callable[[], None], abandon: Callable[[LeadershipLost], None]
) -> None:
    try:
        # What is here now lives as long as this leadership: the collector need not go through it again.
        gc.freeze()
        run()
    except LeadershipLost as error:
        abandon(error)
        raise
    except BaseException:
        close()
        raise
    finally:
        gc.unfreeze()
    close()


def close_slots(taken: TakenLead, drain: Callable[[Callable[[], bool]], None]) -> None:
    """Have slots commit what they can, and take what they report until they have ended."""
    process = taken.process
    stop = process.stop
    process.metrics.leader.set(0)
    process.snapshot_holder.show(replace(process.snapshot_holder.snapshot, role="stopping", ready=False))
    seconds = 0.0 if stop.at_once.is_set() else CLOSE_SECONDS
    ending = start_thread(partial(taken.slot_pool.close, seconds), name="slots-close")
    drain(lambda: not ending.is_alive() or stop.at_once.is_set())


def void_slots(taken: TakenLead, error: LeadershipLost, *, adapter: StandingBy, statistics: Counted) -> None:
    """Give the lead up, show it, and void every slot at once."""
    process = taken.process
    taken.give_up()
    process.metrics.stand_by()
    statistics.leadership_ended()
    process.statistics.trouble("lead", str(error))
    show_standby(process, ready=False)
    adapter.stand_by()
    taken.slot_pool.close(0.0)


def await_ended(components: Iterable[Component], stop: Stop) -> None:
    """Return when nothing of these is at work, so that none is taken along into another leadership."""
    for each in components:
        # A process that is asked to end meanwhile has no other leadership.
        while not each.join(_LOOK_SECONDS) and not stop.asked.is_set():
            pass
