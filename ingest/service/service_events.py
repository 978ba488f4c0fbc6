"""What our own threads tell the service's."""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.errors import HeadraceError, InvalidLedger, LeadershipLost
from headrace.model.objects import ObjectId
from ingest.source.catalogue.effects import LedgerWrite


@dataclass(frozen=True, slots=True)
class Written:
    """A transaction of the driver was acknowledged, with these records and perhaps a step of a command."""

    writes: tuple[LedgerWrite, ...]
    is_command: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """These slots are fenced and the ledger was read to its end since: what it says of them holds."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LedgerEndBlocked:
    """The ledger's end cannot be read: some other slot's open transaction hides it."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ComponentProblem:
    """A component fails and is tried again (`sentence`), or works again (None); `/status` has its name."""

    component: str
    sentence: str | None


@dataclass(frozen=True, slots=True)
class TopicAnswered:
    """A topic that a task found missing is there (`refusal` None), or cannot be created, and why."""

    topic: str
    refusal: str | None


@dataclass(frozen=True, slots=True)
class ActionsDone:
    """What `post.action` says was done with these objects."""

    objects: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class Fatal:
    """This leadership cannot continue: the lead or the ledger is lost, or what it needs is refused."""

    error: HeadraceError

    def ending(self) -> HeadraceError:
        """What to raise: a ledger that is lost ends the process, any other error this leadership."""
        if isinstance(self.error, InvalidLedger | LeadershipLost):
            return self.error
        lost = LeadershipLost(f"The lead is given up: {self.error}")
        lost.__cause__ = self.error
        return lost


@dataclass(frozen=True, slots=True)
class RunInServiceThread:
    """Another thread wants this done in the service's thread; it raises nothing."""

    act: Callable[[], None]


OwnEvent = (
    RunInServiceThread
    | Written
    | Recovered
    | LedgerEndBlocked
    | ComponentProblem
    | TopicAnswered
    | ActionsDone
    | Fatal
)
