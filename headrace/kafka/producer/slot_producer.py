"""The producer of a slot as a task sees it, whatever it guarantees."""

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.model.rows import Header, RecordTarget, RowBatch
from headrace.model.slot_protocol import Checkpoint


class SlotRevoked(Exception):
    """The driver has cut this slot off: abort what is open, unless its commit is under way, and end."""


class SlotProducer(Protocol):
    """Sends rows and checkpoints so that, whatever dies, a checkpoint never runs ahead of its rows.

    Not thread-safe. All errors are of `errors`, or SlotRevoked; after one, only `abort` and `close`
    help.
    """

    is_void: Callable[[], bool]
    """Asked whenever something was not answered in time; each task of the slot sets its own."""

    on_stuck: Callable[[], None]
    """Called by another thread when a call neither returns nor can be interrupted; set with `is_void`."""

    is_open: bool
    """True from `begin` until `commit` or `abort` return."""

    @property
    def is_in_doubt(self) -> bool:
        """True when a commit was sent and not answered: it must not be aborted any more."""

    def partitions(self, topic: str, *, at_least: int = 0) -> int:
        """How many partitions the topic has. Blocks on the first question; TopicMissing.

        Fewer than `at_least` is asked for afresh before it is said: partitions may have been added.
        """

    def begin(self, group: bytes) -> None:
        """Open a transaction with the group commit, before anything is written in it. Blocks; Fenced."""

    def send(self, target: RecordTarget, rows: RowBatch, begin: int, end: int) -> None:
        """Queue the rows [begin, end) in order; blocks while the queue is full."""

    def send_record(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> None:
        """Queue one record, a dead letter."""

    def commit(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Return when all that was sent and the checkpoints are acknowledged; blocks without a limit.

        Raises RecordRefused, TransactionAborted, TopicMissing (abort then), Fenced, or CommitUnknown when the
        slot was voided while no broker answered.
        """

    def abort(self) -> bool:
        """Give up what is open: True once the broker has acknowledged. Blocks for some seconds at most."""

    def close(self) -> None:
        """End the client, without waiting for anything it holds."""
