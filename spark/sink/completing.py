"""What a slot has committed and S3 has not completed yet, and what an end does where S3 refuses."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from typing import Final

from headrace.model.sink_entries import ObjectState, SealedObject
from headrace.model.sink_protocol import SinkCompleted
from headrace.s3.completion import Completion, CompletionState
from spark.sink.object_keys import RecurringNames
from spark.sink.partition_work import PartitionWork
from spark.sink.slot_uploads import SlotUploads

# As long as a service that ends waits for its slots: others want the core, and an operator the offsets.
REFUSED_SECONDS: Final = 20.0
"""How long an end waits for what is refused."""


class CompletingObjects:
    """Used by the slot's thread only. `batch` is the number that reports have."""

    def __init__(self, batch: int, uploads: SlotUploads, recurring: RecurringNames) -> None:
        self._batch = batch
        self._uploads = uploads
        self._recurring = recurring
        self._futures: dict[str, Future[Completion]] = {}

    def __len__(self) -> int:
        return len(self._futures)

    def add(self, sealed: SealedObject) -> None:
        """Complete this one, unless it is complete with its commit (at least once)."""
        if sealed.state is ObjectState.PENDING:
            self._futures[sealed.id] = self._uploads.complete(sealed)

    def collect(self) -> SinkCompleted | None:
        """What has come of those that S3 has answered since the last call; None: it has answered none."""
        done = [object_id for object_id, future in self._futures.items() if future.done()]
        if not done:
            return None
        completed: list[str] = []
        quarantined: list[tuple[str, str]] = []
        left: list[str] = []
        for object_id in done:
            try:
                state = self._futures.pop(object_id).result().state
            except CancelledError:
                continue
            if state is CompletionState.COMPLETED:
                completed.append(object_id)
                self._recurring.release(object_id)
            elif state in (CompletionState.NAME_TAKEN, CompletionState.SUPERSEDED):
                quarantined.append((object_id, "name_taken"))
                self._recurring.release(object_id)
            else:
                # It keeps its name until the leader has brought it to its end.
                left.append(object_id)
        return SinkCompleted(
            batch=self._batch, ids=tuple(completed), quarantined=tuple(quarantined), left=tuple(left)
        )

    def leave(self) -> SinkCompleted | None:
        """Leave all that are not completed to the leader, which may find them complete; None: there are none.

        They are committed, so that nothing of them is read again.
        """
        left = tuple(self._futures)
        self._futures.clear()
        return SinkCompleted(batch=self._batch, ids=(), left=left) if left else None


class EndPatience:
    """Runs out where an end gets nowhere: S3 (or the disk) refuses, or only the leader could help."""

    def __init__(
        self,
        uploads: SlotUploads,
        *,
        seconds: float = REFUSED_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uploads = uploads
        self._seconds = seconds
        self._now = now
        self._answered = uploads.answered
        self._since = now()

    def refusal(self) -> str | None:
        """Why the end waits no longer, a sentence; None: something was answered a short time ago, or will be.

        An S3 that only takes its time is waited for: it has said nothing yet.
        """
        now, answered = self._now(), self._uploads.answered
        why = self._uploads.refusal()
        if why is None and self._uploads.is_at_rest:
            why = "An earlier object of the same name is not completed yet: the leader tries it again."
        if why is None or answered != self._answered:
            self._answered, self._since = answered, now
            return None
        return why if now - self._since >= self._seconds else None


def give_up_failed(works: Iterable[PartitionWork]) -> str | None:
    """Give up what is not committed of those that fail, and why the first does, a sentence; None: none does.

    Who has them next reads them again. The others end as if nothing had failed: what one of them holds may be
    of a deleted topic, and nowhere else.
    """
    first = None
    for work in works:
        if (why := work.failure()) is not None:
            work.abandon()
            first = first or why
    return first
