"""What the REST interface asks of the service: each method in a connection's thread, where it may block."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.kafka.control_records import TargetState
from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import LedgerEntry
from headrace.model.objects import ObjectId, S3Object
from headrace.model.sink_entries import TopicPartition
from ingest.source.catalogue.object_commands import Offset


class NotLeading(HeadraceError):
    """This instance cannot answer: another one leads (`is_standby`), or none does yet; the text says it.

    With `passes` nothing was carried out, and the same request can be answered in a moment.
    """

    def __init__(self, message: str, *, is_standby: bool = False, passes: bool = False) -> None:
        super().__init__(message)
        self.is_standby = is_standby
        self.passes = passes


class NotStopped(HeadraceError):
    """Offsets can be changed only while the connector is stopped."""


class InvalidOffsets(HeadraceError):
    """The text says what is wrong with offsets that a client sent, naming the item."""


class OffsetAboveEnd(InvalidOffsets):
    """An offset is above what Kafka had of its partition when it was asked last."""


class Unanswered(HeadraceError):
    """The service did not get it done in time; it may still happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorCondition:
    """How the connector is: what is wanted of it, what fails at present, and the state of each slot given.

    `slots` holds (number, whether it is being recovered). It is empty once a stopped connector has given all
    slots back. `worker_id` names who works, None where that is this instance.
    """

    target: TargetState
    problems: tuple[str, ...]
    slots: tuple[tuple[int, bool], ...]
    worker_id: str | None = None
    state: str | None = None
    """In Connect's words, where it is not one of those that follow from the rest: UNASSIGNED."""


AskedCondition = Callable[[float], ConnectorCondition]
"""The answer within so many seconds; Unanswered after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerObject:
    """An object as the ledger has it; of a split one, how many splits there are and how many are done."""

    object: S3Object
    entry: LedgerEntry
    splits: int = 0
    splits_done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an offset is to become; None is forgotten: the object is read again from its start."""

    object: S3Object
    offset: Offset | None


class ConnectorPort(Protocol):
    """The running connector. What changes something raises NotLeading on a standby, what is read does not.

    Every method but `cluster_id` raises NotLeading before any instance leads; most raise Unanswered.
    """

    @property
    def cluster_id(self) -> str | None:
        """Id of the Kafka cluster; None while it is not known."""

    def require_leading(self) -> None:
        """NotLeading unless this instance leads."""

    def condition(self) -> ConnectorCondition:
        """How it is now."""

    def ask_condition(self) -> AskedCondition:
        """Ask how it is now, and wait for nothing: what is returned waits for the answer."""

    def steer(self, target: TargetState) -> None:
        """Return once the wish is in the ledger; for STOPPED also once all slots are given back."""

    def restart(self, slots: Collection[int]) -> None:
        """Try again what waits for an operator, and end the tasks of these slots at their next checkpoint.

        A source begins a full listing; partitions of a sink that stopped continue.
        """

    def restart_task(self, slot: int) -> None:
        """End the task of one slot at its next checkpoint; it starts again when there is something to do."""

    def revive(self) -> bool:
        """Start again what is not by itself: what has failed for good, or runs with secrets of before.

        False when there is nothing of it.
        """

    def topics(self) -> Sequence[str]:
        """The topics that a source has written to, or a sink has read, since the last reset, sorted."""

    def reset_topics(self) -> None:
        """Forget which topics these are; return when it is in the ledger."""


class SourcePort(ConnectorPort, Protocol):
    """A source, with its objects' offsets."""

    def offsets(self) -> Iterator[LedgerObject]:
        """What the ledger knows of each object, in key order."""

    def find(self, object_id: ObjectId) -> LedgerObject | None:
        """What the ledger knows of one object."""

    def alter(self, changes: Sequence[Change]) -> None:
        """Change all of these offsets or none; return when it is committed. NotStopped."""

    def reset(self) -> None:
        """Have everything read again from its start; part by part, each committed. NotStopped."""


class SinkPort(ConnectorPort, Protocol):
    """A sink, with its partitions' offsets."""

    def offsets(self) -> Mapping[TopicPartition, int]:
        """Where each topic-partition continues, in order."""

    def alter(self, changes: Mapping[TopicPartition, int | None]) -> None:
        """Let these partitions continue elsewhere, all or none; None: as one that was never read.

        NotStopped; InvalidOffsets for a partition that cannot.
        """

    def reset(self) -> None:
        """Let every partition begin as one that was never read. NotStopped, InvalidOffsets."""


class OffsetsPort(Protocol):
    """Offsets in Connect's JSON, whichever way the data goes. NotLeading as for the connector."""

    def items(self) -> Iterator[dict[str, Any]]:
        """The elements of `offsets`."""

    def alter(self, items: list[Any]) -> None:
        """Change all of these offsets or none; return when it is committed. InvalidOffsets, NotStopped."""

    def reset(self) -> None:
        """Reset all of them. NotStopped."""
