"""What the driver and the tasks of a slot say to each other.

Everything here crosses a process border, so it is small, frozen and picklable. The road of a slot:

    task                                   driver
    Hello(slot, worker)            ──▶
                                   ◀──     Welcome(last_worker)
    (initialise the producer, or keep the cached one when last_worker is this worker)
    Ready()                        ──▶
                                   ◀──     Batch(plan, group, works) | End()
    Working()                      ──▶     every few seconds, by the thread that does the work
    Committed(plan, checkpoints)   ──▶     after every acknowledged commit
    Finished(plan, outcome, ..)    ──▶
                                   ◀──     Batch | End ..

Handing out a batch *is* the driver's yes to plan number N (docs/protocol.md, step 4):
it is said once, over a connection whose task has initialised already, and closing the connection voids it.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.model.fast_pickle import fast_pickle
from headrace.model.ledger_entry import LedgerEntry, LedgerKey
from headrace.model.objects import ObjectId, PlacedTombstones, Route, S3Object, SideObject
from headrace.model.positions import Position

UNRECORDED_OPTIONS: Final = "unrecorded"
"""In the place of a hash: the ledger does not show that one configuration cut the object and read it."""
OTHER_ROUTE: Final = "other route"
"""In the place of a hash: its key had another topic or partition when the object was begun."""


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One object, or one split of it, for a slot.

    `start` None is the beginning (of the split). `options` is the hash of the settings that gave `start` and
    the cuts `begin` and `end` their meaning. `records`, `bad` and `attempts` carry on from the ledger.
    `splits_wanted` asks the task only to say where the object can be cut; nothing is produced, and the
    answer's `options` is the hash of the settings that the cuts were made under. `sides` hold keys and
    headers of its rows, `tombstones` are merged between them, and `first_row` is the first that is its own:
    those before it are merged into other objects. `is_kept`: no `post.action` is owed at its end, as not all
    that belongs to it is restored with it.
    """

    object: S3Object
    route: Route
    begin: int | None = None
    end: int | None = None
    start: Position | None = None
    options: str | None = None
    records: int = 0
    bad: int = 0
    attempts: int = 0
    splits_wanted: int = 0
    sides: tuple[SideObject, ...] = ()
    tombstones: tuple[PlacedTombstones, ...] = ()
    first_row: int = 0
    is_kept: bool = False

    @property
    def is_part(self) -> bool:
        """True when only the rows beginning between `begin` and `end` are this work's."""
        return self.begin is not None


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A plan for one slot: what to do between two questions to the driver.

    `group` is the driver's consumer group metadata, pickled by the leadership; every transaction of the batch
    commits an offset with it before its first record. After `max_seconds` a seekable object stops at a
    checkpoint and goes back.
    """

    number: int
    slot: int
    group: bytes
    splits: tuple[Split, ...]
    max_seconds: float


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a committed transaction says of one object or split: exactly its new ledger record."""

    key: LedgerKey
    entry: LedgerEntry


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a task stopped working on an object without an end in the ledger.

    `kind` is the name of a class in `headrace.model.errors`; `reason` is set where that class carries one,
    and `topic` where it is about one that is known.
    `entry` is the last committed entry of this batch, or None when nothing was committed for the object.
    """

    work: Split
    kind: str
    message: str
    reason: str | None = None
    topic: str | None = None


class BatchOutcome(StrEnum):
    """How a batch ended, by what the driver has to do next."""

    CLEAN = "clean"  # all commits were acknowledged, the producer lives: hand out the next batch
    ABORTED = "aborted"  # the task aborted and ends; nothing is in doubt, but the slot starts anew
    FENCED = "fenced"  # a newer producer or generation exists
    UNKNOWN = "unknown"  # a commit or an abort was not answered: void, fence, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A task introduces itself. `worker` names the Python process, for the sake of its cached producers."""

    slot: int
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """`last_worker` held the slot's producer last, with nothing fenced since; None: initialise again."""

    last_worker: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The slot's producer is initialised (`init_transactions` has returned); work may be granted."""


@dataclass(frozen=True, slots=True)
class Working:
    """The task's working thread is at work, or waits for brokers or S3; said every few seconds of a batch.

    For `idle_seconds` nothing was read or decoded, as far as that is known.
    """

    idle_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """No work came in time, or the slot is wanted otherwise: the task ends, keeping its cached producer."""


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A transaction whose commit the broker acknowledged. Counters are of this transaction only.

    `fetched` is what was fetched from S3 since the message before, bytes by object.
    """

    batch: int
    checkpoints: tuple[Checkpoint, ...]
    records_by_topic: dict[str, int]
    bad_by_reason: dict[str, int]
    fetched: dict[ObjectId, int]
    seconds: float
    """From begin to acknowledged commit."""
    inexact: dict[str, int] = field(default_factory=dict)
    """What of a restore could not be given back as it was, by what."""


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The batch is over: every work was committed to an end, gave a failure, or goes back.

    `fetched` as in `Committed`: what no message has told of yet. A sink's `error` with a clean outcome: why
    objects that were closed are not committed. They are read again.
    """

    batch: int
    outcome: BatchOutcome
    failures: tuple[Failure, ...] = ()
    cuts: tuple[tuple[Split, tuple[int, ...]], ...] = ()
    fetched: dict[ObjectId, int] = field(default_factory=dict)
    error: str | None = None
