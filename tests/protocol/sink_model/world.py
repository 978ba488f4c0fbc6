"""The state of everything at one moment, and what is given for a run of the sink's model.

One topic-partition, slots that may hold it, leaders one after the other, a ledger, a bucket. Transactions are
one step here: what can happen inside one is in the source's model. Entries are the real ones.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from headrace.model.sink_entries import PartitionCheckpoint, SealedObject
from headrace.model.sink_protocol import PartitionGrant
from spark.sink.partition_offsets import PartitionCommit
from tests.protocol.sink_model.protections import ALL, Protections

BAD = "!"
"""A record that cannot be converted, in the place of its group."""

# A record of one life of the topic.
Record = tuple[int, int]


class Budget(NamedTuple):
    """How often each thing may still happen from outside."""

    kills: int = 0  # a task is killed
    suspicions: int = 0  # the leader takes a living task for lost
    moves: int = 0  # the leader asks a slot to end
    lost_answers: int = 0  # a commit, or a completion, happens and its answer is lost
    joins: int = 0  # a standby joins the group: the generation rises
    remakes: int = 0  # the topic is deleted and made again
    clocks: int = 0  # the clock goes on by which records are grouped
    changes: int = 0  # a record that failed can be converted now, or the other way round
    weeks: int = 0  # so much time passes that the bucket's rule ends unfinished uploads
    takings: int = 0  # a consumer takes an object out of the bucket
    expiries: int = 0  # the group's offset expires
    produced: int = 0  # records that are produced after the start


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A small world to explore. `records` has the group of each record by its offset.

    `options` has a letter for each leader, in the order in which they lead: `1` groups by the record, `2` has
    all records in one group, `c` groups by the clock, `k` as `1` with names that recur.
    """

    records: str
    options: str = "1"
    slots: int = 1
    latest: bool = False
    # Of two uploads of one name S3 keeps the one that was started last; others, the one completed last.
    last_completion_wins: bool = False
    # Closing an object and the end of its upload are two moments.
    slow_uploads: bool = False
    # What is deposed ends at once: zombies are in the other scenarios.
    no_zombies: bool = False
    # Each object has a side object, whose upload stands in the same entry.
    beside: bool = False
    # At most so many records an object; 0: as many as come.
    rotate: int = 0
    budget: Budget = field(default_factory=Budget)
    on: Protections = ALL


class Upload(NamedTuple):
    """A multipart upload that is neither completed nor ended. `started` orders those of one name."""

    id: str
    name: str
    started: int
    records: tuple[Record, ...]


class Visible(NamedTuple):
    """An object in the bucket. `id` is that of the ledger's entry, `name` tells side objects apart."""

    name: str
    id: str
    started: int
    records: tuple[Record, ...]


class Bucket(NamedTuple):
    """S3. `received` is every record of every completion, for a consumer that takes each event once."""

    uploads: tuple[Upload, ...] = ()
    objects: tuple[Visible, ...] = ()
    received: tuple[Record, ...] = ()
    taken: frozenset[str] = frozenset()
    started: int = 0
    is_old: bool = False


class Ledger(NamedTuple):
    """The committed entries of the partition."""

    checkpoint: PartitionCheckpoint | None = None
    objects: tuple[SealedObject, ...] = ()

    def object(self, object_id: str) -> SealedObject | None:
        """The entry of this object."""
        return next((one for one in self.objects if one.id == object_id), None)

    def put(self, *entries: SealedObject) -> "Ledger":
        """With these entries in the place of their earlier states."""
        ids = {one.id for one in entries}
        kept = [one for one in self.objects if one.id not in ids]
        return self._replace(objects=tuple(sorted([*kept, *entries], key=lambda one: one.id)))

    def without(self, *ids: str) -> "Ledger":
        """With these entries removed."""
        return self._replace(objects=tuple(one for one in self.objects if one.id not in ids))


class Open(NamedTuple):
    """An object that a task fills. It is `closed` to further records, then `sealed`."""

    id: str
    group: str
    records: tuple[Record, ...]
    closed: bool = False
    sealed: bool = False


TaskStage = Literal["launched", "initialised", "filling", "begun"]


class Task(NamedTuple):
    """A slot's task with a batch; a zombie when its leader has given it up."""

    leader: int
    number: int
    slot: int
    options: str
    grant: PartitionGrant
    generation: int
    life: int
    stage: TaskStage = "launched"
    epoch: int = 0
    position: int = 0
    open: tuple[Open, ...] = ()
    letters: tuple[int, ...] = ()
    commit: PartitionCommit | None = None
    completing: tuple[SealedObject, ...] = ()
    stopped: bool = False


class Leader(NamedTuple):
    """A process that leads until it notices that it does not, which may be late."""

    options: str
    state: Literal["waiting", "recovering", "fenced", "leading", "gone"] = "waiting"
    view: Ledger = Ledger()
    number: int = 0  # the batch that is granted, 0 for none
    slot: int = 0
    ending: bool = False
    used: int = 0  # how many batches it has granted
    voided: frozenset[int] = frozenset()


class World(NamedTuple):
    """Everything."""

    leaders: tuple[Leader, ...]
    epochs: tuple[int, ...]  # the epoch of each slot's newest producer
    leading: int = 0
    generation: int = 1
    life: int = 0
    produced: int = 0
    clock: int = 0
    flipped: frozenset[int] = frozenset()  # offsets whose conversion has changed
    ledger: Ledger = Ledger()
    group_offset: int | None = None
    first_start: int | None = None
    lettered: tuple[Record, ...] = ()
    bucket: Bucket = Bucket()
    tasks: tuple[Task, ...] = ()
    budget: Budget = Budget()

    def with_leader(self, number: int, leader: Leader) -> "World":
        """The world with this leader in this state."""
        return self._replace(leaders=(*self.leaders[:number], leader, *self.leaders[number + 1 :]))

    def with_task(self, task: Task) -> "World":
        """The world with this task, in the place of its earlier state."""
        others = [one for one in self.tasks if (one.leader, one.number) != (task.leader, task.number)]
        return self._replace(tasks=tuple(sorted([*others, task], key=lambda one: (one.leader, one.number))))

    def without_task(self, task: Task) -> "World":
        """The world after this task's end."""
        return self._replace(
            tasks=tuple(one for one in self.tasks if (one.leader, one.number) != (task.leader, task.number))
        )

    def spent(self, item: str) -> "World":
        """The world with one less of a budget's item."""
        return self._replace(budget=self.budget._replace(**{item: getattr(self.budget, item) - 1}))


# A step: what happens, in words, and the world after it.
Step = tuple[str, World]


def first_world(scenario: Scenario) -> World:
    """Nothing read, the first leader about to lead."""
    leaders = tuple(Leader(options) for options in scenario.options)
    first = leaders[0]._replace(state="recovering")
    return World(
        leaders=(first, *leaders[1:]),
        epochs=(0,) * (scenario.slots + 1),
        produced=len(scenario.records) - scenario.budget.produced,
        budget=scenario.budget,
    )


def topic_id(life: int) -> str:
    """What Kafka calls this life of the topic."""
    return f"life {life}"


def group_of(scenario: Scenario, options: str, record: Record, clock: int) -> str:
    """The group of a record by these options."""
    if options == "2":
        return "all"
    if options == "c":
        return f"hour {clock}"
    return scenario.records[record[1]]
