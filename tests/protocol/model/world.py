"""The state of everything at one moment, and what is given for a run of the model.

States are named tuples, not dataclasses: the search hashes hundreds of thousands of them, and tuples do it in
C. Nothing here is ever changed in place.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.protocol.model.broker import DRIVER_ID, Broker, Entry, Known, ProducerState
from tests.protocol.model.group import Group, Metadata
from tests.protocol.model.protections import ALL, Protections

# Entries of these states need nothing more; the others, and no entry at all, do.
DONE = "done"
QUARANTINED = "quarantined"
SETTLED = (DONE, QUARANTINED)
SLOT_COUNT = "slots"


class Budget(NamedTuple):
    """How often each thing may still go wrong, or happen from outside, in one run."""

    suspicions: int = 0  # the driver takes a living task for lost
    twins: int = 0  # Spark runs a plan twice, attempt 0 both times
    retries: int = 0  # where a protection is off: Spark runs a failed task again, a fenced task goes on
    kills: int = 0  # a task is killed
    lost_answers: int = 0  # a commit is decided, its answer lost
    lost_requests: int = 0  # a commit is not answered because it never arrived
    lost_reports: int = 0  # a task's report does not reach the driver
    expiries: int = 0  # the coordinator's timer aborts an open transaction
    joins: int = 0  # a member joins the group and waits: the generation rises
    announcements: int = 0  # a deleted message's object is announced again
    replays: int = 0  # a replay command is written
    give_backs: int = 0  # a task ends early and gives the rest back (`job.max.seconds`)
    compactions: int = 0
    cache_saves: int = 0  # where a protection is off: the cache is saved between its position and its rows
    old_plans: int = 0  # plans that a driver makes after it was deposed


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A small world to explore. An object's rows are its size; each commit holds `rows_per_commit` rows."""

    sizes: dict[str, int]
    # `tasks.max` of each driver, in the order in which they lead. Each but the last is deposed at any moment.
    leaders: tuple[int, ...] = (1,)
    budget: Budget = field(default_factory=Budget)
    rows_per_commit: int = 1
    objects_per_plan: int = 1
    # Objects that a first attempt ends in this state before this row.
    stumbles: dict[str, tuple[int, str]] = field(default_factory=dict)
    # What the ledger holds at the start.
    ledger: tuple[tuple[str, Entry | None], ...] = ()
    # Objects that a driver with more than one slot cuts, and where.
    cuts: dict[str, int] = field(default_factory=dict)
    workers: int = 1
    # Workers keep their producers (lingering is the same); else each task initialises its own.
    keeps_producers: bool = False
    # Markers are written some time after the commit was decided.
    late_markers: bool = False
    # The driver reads on in the ledger all the time, not only to recover.
    tails: bool = False
    # A driver starts from the cache that the last one left in `state.dir`.
    cache: bool = False
    # A driver takes its predecessor's place in the group as the same static member: that one's id is refused
    # from then on, and the generation stays. Else it is missed for a session, and the generation rises.
    returns: bool = False
    # All drivers are leaderships of one process, one after the other.
    same_process: bool = False
    # No socket to the driver (linger 0 on a remote Spark).
    socketless: bool = False
    on: Protections = ALL

    @property
    def slots(self) -> int:
        """The largest number of slots of any driver."""
        return max(self.leaders)


class Work(NamedTuple):
    """An object or slice as handed to a task: from which row, and what was known when it was planned."""

    key: str
    object: str
    row: int
    end: int
    passes: bool  # the attempt after a stumble gets past it
    offset: int  # where the entry was that this row comes from


class Plan(NamedTuple):
    """A batch of work for one slot, under a number that is granted once."""

    number: int
    work: tuple[Work, ...]
    granted: bool = False
    doubted: bool = False  # being voided, fenced and read


TaskStage = Literal[
    "launched", "promised", "checking", "initialised", "ready", "begun", "written", "unknown", "over"
]


class Task(NamedTuple):
    """A Spark task with a plan, or the loop of a lingering one between two asks."""

    driver: int
    slot: int
    number: int
    copy: int
    worker: int
    stage: TaskStage
    work: tuple[Work, ...]
    metadata: Metadata | None = None
    epoch: int = 0
    end: int = 0  # without a socket: the end of the ledger after the init
    sent: tuple[tuple[Work, ...], tuple[Known, ...]] = (
        (),
        (),
    )  # the open transaction: the work after it, its records
    acked: tuple[Known, ...] = ()
    clean: bool = True


RecoveryStage = Literal["count", "rotate", "fence", "end", "read"]


class Recovery(NamedTuple):
    """Void, fence, read: how far the driver has come with it."""

    stage: RecoveryStage
    ids: tuple[int, ...]
    fenced: int = 0  # how many of the ids are fenced
    end: int = 0  # where the ledger has to be read to, once that is known
    takeover: bool = False


class Write(NamedTuple):
    """The driver's own transaction in hand; `then` are the records of another that is to follow it."""

    name: str
    records: tuple[tuple[str, Entry | None], ...]
    then: tuple[tuple[str, Entry | None], ...]
    stage: Literal["decided", "begun", "written", "unknown"] = "decided"
    known: tuple[Known, ...] = ()


class Driver(NamedTuple):
    """A process of the service. It leads until it notices that it does not, which may be late or never."""

    tasks_max: int
    state: Literal["waiting", "leading", "gone"] = "waiting"
    member: str = ""
    metadata: Metadata | None = None
    epoch: int = 0
    recovery: Recovery | None = None
    view: tuple[Known, ...] = ()
    read_to: int = 0
    plans: tuple[Plan | None, ...] = ()
    voided: frozenset[int] = frozenset()
    next_number: int = 1
    write: Write | None = None
    holders: tuple[
        int, ...
    ] = ()  # by slot: the worker that held it last, 0 when it is to be initialised anew

    def plan_of(self, slot: int) -> Plan | None:
        """The slot's live or doubted plan."""
        return self.plans[slot - 1] if slot <= len(self.plans) else None

    def holder_of(self, slot: int) -> int:
        """The worker whose producer for the slot is the newest; 0 when none is."""
        return self.holders[slot - 1] if slot <= len(self.holders) else 0


class Cache(NamedTuple):
    """The ledger's local cache: rows and the position up to which they were read."""

    view: tuple[Known, ...] = ()
    read_to: int = 0


class World(NamedTuple):
    """Everything."""

    broker: Broker
    group: Group
    queue: frozenset[str]
    drivers: tuple[Driver, ...]
    tasks: tuple[Task, ...] = ()
    producers: tuple[
        tuple[tuple[int, int, int], int], ...
    ] = ()  # (driver, worker, slot) -> epoch kept by the worker
    cache: Cache = Cache()
    budget: Budget = Budget()

    def leads(self, driver: int) -> bool:
        """Whether the group gives this driver the lead, whatever the driver believes."""
        return self.drivers[driver].member == self.group.leader

    def with_driver(self, number: int, driver: Driver) -> "World":
        """The world with this driver in this state."""
        return self._replace(drivers=(*self.drivers[:number], driver, *self.drivers[number + 1 :]))

    def with_task(self, task: Task) -> "World":
        """The world with this task, in the place of the same one's earlier state."""
        return self._replace(tasks=tuple(sorted((*self._others(task), task), key=_identity)))

    def without_task(self, task: Task) -> "World":
        """The world after this task's end."""
        return self._replace(tasks=self._others(task))

    def spent(self, item: str) -> "World":
        """The world with one less of a budget's item."""
        return self._replace(budget=self.budget._replace(**{item: getattr(self.budget, item) - 1}))

    def producer_of(self, task: Task) -> int:
        """The epoch of the producer that the task's worker keeps for its slot; 0 for none."""
        return dict(self.producers).get((task.driver, task.worker, task.slot), 0)

    def keeping(self, task: Task, epoch: int) -> "World":
        """The world with this producer kept by the task's worker; 0 closes it."""
        kept = {**dict(self.producers), (task.driver, task.worker, task.slot): epoch}
        return self._replace(producers=tuple(sorted((key, one) for key, one in kept.items() if one)))

    def _others(self, task: Task) -> tuple[Task, ...]:
        return tuple(other for other in self.tasks if _identity(other) != _identity(task))


# A step: what happens, in words, and the world after it.
Step = tuple[str, World]


def _identity(task: Task) -> tuple[int, int, int, int]:
    return task.driver, task.slot, task.number, task.copy


def first_world(scenario: Scenario) -> World:
    """Every object announced, nothing read, the first driver about to lead."""
    drivers = tuple(
        Driver(
            tasks_max,
            member=f"member {number}",
            plans=(None,) * scenario.slots,
            holders=(0,) * scenario.slots,
        )
        for number, tasks_max in enumerate(scenario.leaders)
    )
    first = drivers[0]._replace(
        state="leading",
        metadata=Metadata("member 0", 1),
        recovery=Recovery("count", (DRIVER_ID,), takeover=True),
    )
    return World(
        broker=Broker((ProducerState(),) * (scenario.slots + 1)).produced_plainly(scenario.ledger),
        group=Group("member 0", ("member 0",)),
        queue=frozenset(scenario.sizes),
        drivers=(first, *drivers[1:]),
        budget=scenario.budget,
    )
