"""What the service has to do after the catalogue or the planner decided, messages to settle among it.

Any number of messages wait for any number of objects, and a message settles once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from headrace.model.ledger_entry import LedgerEntry, LedgerKey, State
from headrace.model.objects import ObjectId, OwedAction

MARKED: Final = "marked"
"""Why an object is done that `headrace mark` has closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWrite:
    """A ledger record that the driver owes: `entry` None is a tombstone."""

    key: LedgerKey
    entry: LedgerEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRequest:
    """A HEAD needed to confirm an event; `Catalogue.on_head_answer(token, ..)` takes the answer.

    With `reads` a byte is read instead, which needs every right that reading needs.
    """

    token: str
    bucket: str
    key: str
    version_id: str | None = None
    reads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedObject:
    """An object that came to its end (done, skipped, quarantined).

    `since_ms` is when it had become known here, in `steady_ms`; `seen_ms` the time of its event,
    or LastModified from a listing: then no event of it was received (`is_announced`). `is_replayed`: it was
    read because a command asked for it, or was restored, however old it is.
    """

    id: ObjectId
    entry: LedgerEntry
    since_ms: int
    seen_ms: int
    is_announced: bool = False
    is_replayed: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether its upload had it read: not closed unread (`mark`), nor asked for again (`replay`)."""
        is_read = self.entry.state is State.DONE and self.entry.reason != MARKED
        return is_read and not self.is_replayed


class Unreported(NamedTuple):
    """What the ledger has of an object beyond what slots have reported: a slot was lost after its commit."""

    topic: str | None
    records: int
    bad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What follows from one call. Empty fields ask for nothing.

    `settled` deliveries can be deleted from the queue now, `left` ones stay there for its redrive policy.
    All `writes` of one Effects go into one driver transaction; after its acknowledged commit they are given
    to `written`. `pending` counts objects that became pending, `ignored` what was left out, by reason.
    `ended` came to their end, for metrics and the canonical log line; `warnings` are sentences for the log.
    """

    settled: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    writes: tuple[LedgerWrite, ...] = ()
    heads: tuple[HeadRequest, ...] = ()
    finished: tuple[FinishedObject, ...] = ()
    pending: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    """Folders of topics in which the places of tombstones are to be found: `Catalogue.on_tombstones`."""
    inexact: Mapping[str, int] = field(default_factory=dict)
    """What of a restore is not given back as it was, by what."""
    actions: tuple[OwedAction, ...] = ()
    """Objects that are done and owed `post.action`: `Catalogue.on_acted` once they are not."""
    withdrawn: tuple[ObjectId, ...] = ()
    """Objects that were owed it and are not any more: what was asked for of them is not carried out."""
    decisions: tuple[tuple[str, str, str | None], ...] = ()
    """Each bucket and key that was decided on: why it is ignored, or None where it became pending."""
    unreported: tuple[Unreported, ...] = ()
    """What lost slots had committed, for metrics."""

    def joined(self, other: "Effects") -> "Effects":
        """Both, to be carried out as one."""
        return Effects(
            settled=self.settled + other.settled,
            abandoned=self.abandoned + other.abandoned,
            writes=self.writes + other.writes,
            heads=self.heads + other.heads,
            finished=self.finished + other.finished,
            pending=self.pending + other.pending,
            ignored=Counter(self.ignored) + Counter(other.ignored),
            warnings=self.warnings + other.warnings,
            searches=self.searches + other.searches,
            inexact=Counter(self.inexact) + Counter(other.inexact),
            actions=self.actions + other.actions,
            withdrawn=self.withdrawn + other.withdrawn,
            decisions=self.decisions + other.decisions,
            unreported=self.unreported + other.unreported,
        )


class Named(Protocol):
    """An object, or an event about one."""

    @property
    def bucket(self) -> str:
        """Its bucket."""

    @property
    def key(self) -> str:
        """Its key there."""


@dataclass(slots=True, kw_only=True)
class EffectsBuilder:
    """Effects while they come together."""

    settled: list[str] = field(default_factory=list)
    abandoned: list[str] = field(default_factory=list)
    writes: list[LedgerWrite] = field(default_factory=list)
    heads: list[HeadRequest] = field(default_factory=list)
    finished: list[FinishedObject] = field(default_factory=list)
    pending: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    inexact: Counter[str] = field(default_factory=Counter)
    actions: list[OwedAction] = field(default_factory=list)
    withdrawn: list[ObjectId] = field(default_factory=list)
    decisions: list[tuple[str, str, str | None]] = field(default_factory=list)
    unreported: list[Unreported] = field(default_factory=list)

    def ignore(self, reason: str, of: Named) -> None:
        """Leave an object out, for this reason."""
        self.ignored[reason] += 1
        self.decisions.append((of.bucket, of.key, reason))

    def begin(self, of: Named) -> None:
        """An object became pending."""
        self.pending += 1
        self.decisions.append((of.bucket, of.key, None))

    def effects(self) -> Effects:
        """Everything gathered, frozen."""
        return Effects(
            settled=tuple(self.settled),
            abandoned=tuple(self.abandoned),
            writes=tuple(self.writes),
            heads=tuple(self.heads),
            finished=tuple(self.finished),
            pending=self.pending,
            ignored=dict(self.ignored),
            warnings=tuple(self.warnings),
            searches=tuple(self.searches),
            inexact=dict(self.inexact),
            actions=tuple(self.actions),
            withdrawn=tuple(self.withdrawn),
            decisions=tuple(self.decisions),
            unreported=tuple(self.unreported),
        )


# What a delivery waits for: an object's end, or (by a token) the answer to a HEAD, about it or about an
# earlier version.
Owed = ObjectId | str


# Below the 120,000 messages that SQS lets be in flight, with room for sqs.max.held beside them.
MAX_PARKED: Final = 100_000


class MessageTracker:
    """Deliveries that are held, each with what it still waits for."""

    def __init__(self) -> None:
        self._owed: dict[str, set[Owed]] = {}
        self._waiting: dict[Owed, list[str]] = {}
        self._left: set[str] = set()
        self._parked: set[str] = set()

    def __len__(self) -> int:
        return len(self._owed)

    def hold(self, message_id: str, owed: set[Owed], effects: EffectsBuilder) -> None:
        """Settle a delivery when all of `owed` have come to their end; at once when there is nothing.

        A message that is delivered again while it is held keeps its place.
        """
        # Announced again after it was released, it counts again where messages are held.
        self._parked.discard(message_id)
        held = self._owed.setdefault(message_id, set())
        for item in owed - held:
            self._waiting.setdefault(item, []).append(message_id)
        held |= owed
        self._settle_if_free(message_id, effects)

    def counted(self) -> Iterator[tuple[str, AbstractSet[Owed]]]:
        """The messages that are not parked, oldest first, with what each still waits for."""
        return ((key, owed) for key, owed in self._owed.items() if key not in self._parked)

    @property
    def parked(self) -> int:
        """How many are parked."""
        return len(self._parked)

    def park(self, message_id: str) -> bool:
        """Keep it next to the bound of those that are held, until it settles; False when too many are."""
        if len(self._parked) >= MAX_PARKED:
            return False
        self._parked.add(message_id)
        return True

    def abandon(self, message_id: str) -> None:
        """The message stays on the queue, whatever becomes of its objects."""
        self._left.add(message_id)

    def abandon_all(self, item: Owed) -> None:
        """The same for every delivery that waits for `item`."""
        self._left.update(self._waiting.get(item, ()))

    def finish(self, item: Owed, effects: EffectsBuilder) -> None:
        """An object has come to its end, or a HEAD needs no object."""
        for message_id in self._waiting.pop(item, ()):
            self._owed[message_id].discard(item)
            self._settle_if_free(message_id, effects)

    def replace(self, item: Owed, successor: Owed | None, effects: EffectsBuilder) -> None:
        """A HEAD has answered: its deliveries wait for the object now, or (None) for nothing more."""
        if successor is None:
            self.finish(item, effects)
            return
        for message_id in self._waiting.pop(item, ()):
            self._owed[message_id].discard(item)
            self.hold(message_id, {successor}, effects)

    def _settle_if_free(self, message_id: str, effects: EffectsBuilder) -> None:
        if self._owed[message_id]:
            return
        del self._owed[message_id]
        self._parked.discard(message_id)
        if message_id in self._left:
            self._left.discard(message_id)
            effects.abandoned.append(message_id)
        else:
            effects.settled.append(message_id)
