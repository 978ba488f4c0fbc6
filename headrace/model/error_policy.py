"""What becomes of an object when a task stops at it, by the error; what fails at one place repeatedly.

Repeated failures are counted in both directions, for slots that die, partitions that are read again and
transactions that are repeated, so that each becomes a problem that is seen.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from headrace.model.ledger_entry import State

# Three deaths of a worker that had nothing else to do are no coincidence (docs/errors.md).
MAX_LONELY_DEATHS: Final = 3
WORKER_DIED: Final = "worker_died"


class RetryDelay(Enum):
    """How long an object that goes back waits before it is planned again."""

    NONE = auto()
    SHORT = auto()  # up to the first delay, however often: the object is not at fault
    OBJECT = auto()  # exponential, for this object
    BUCKET = auto()  # exponential, for all objects of the bucket: what is wrong is wrong for all of them


class FailureScope(Enum):
    """What a failure says of more than its own object."""

    NOTHING = auto()
    SOURCE_ANSWERS = auto()  # S3 has answered about this object: it takes our credentials
    SOURCE_SILENT = auto()  # S3, or what decoding needs, has not answered: a problem when it lasts
    ALL_DENIED = auto()
    TOPIC_MISSING = auto()
    TOPIC_REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """What the ledger records, and when the object is tried again.

    `state` None writes nothing: the object goes back to pending and the ledger keeps its last checkpoint.
    `reason` None takes the reason that the failure carries. `is_counted` attempts end in quarantine after
    `errors.max.attempts`; with `needs_others` an attempt counts only when other objects were read meanwhile,
    for else it may be true of all of them.
    """

    state: State | None
    reason: str | None = None
    wait: RetryDelay = RetryDelay.NONE
    is_counted: bool = False
    needs_others: bool = False
    says: FailureScope = FailureScope.NOTHING

    @property
    def holds_partition_back(self) -> bool:
        """True when later objects of its topic-partition must wait for it (`ordering=partition`).

        A task that works for that ordering returns the rest of the topic-partition untouched after it.
        """
        return self.state in {None, State.FAILED}


OUTCOMES: Final[dict[str, ErrorPolicy]] = {
    "ObjectMissing": ErrorPolicy(state=State.SKIPPED, reason="missing", says=FailureScope.SOURCE_ANSWERS),
    "ObjectSuperseded": ErrorPolicy(
        state=State.SKIPPED, reason="superseded", says=FailureScope.SOURCE_ANSWERS
    ),
    "ObjectArchived": ErrorPolicy(state=State.SKIPPED, reason="archived", says=FailureScope.SOURCE_ANSWERS),
    "ObjectForbidden": ErrorPolicy(
        state=State.FAILED, reason="forbidden", wait=RetryDelay.OBJECT, is_counted=True, needs_others=True
    ),
    "ObjectCorrupt": ErrorPolicy(
        state=State.FAILED,
        reason="corrupt",
        wait=RetryDelay.OBJECT,
        is_counted=True,
        says=FailureScope.SOURCE_ANSWERS,
    ),
    "InvalidObject": ErrorPolicy(state=State.QUARANTINED),
    # Not known to be the object's own: a proxy may answer so to everything.
    "ObjectError": ErrorPolicy(
        state=State.FAILED, reason="unreadable", wait=RetryDelay.OBJECT, is_counted=True, needs_others=True
    ),
    "SourceUnavailable": ErrorPolicy(
        state=None,
        reason="source_unavailable",
        wait=RetryDelay.OBJECT,
        says=FailureScope.SOURCE_SILENT,
    ),
    "AccessDenied": ErrorPolicy(
        state=None, reason="access_denied", wait=RetryDelay.BUCKET, says=FailureScope.ALL_DENIED
    ),
    "ResourceMissing": ErrorPolicy(
        state=None, reason="access_denied", wait=RetryDelay.BUCKET, says=FailureScope.ALL_DENIED
    ),
    "TopicMissing": ErrorPolicy(
        state=State.FAILED, reason="topic_missing", wait=RetryDelay.OBJECT, says=FailureScope.TOPIC_MISSING
    ),
    "TopicForbidden": ErrorPolicy(
        state=State.FAILED,
        reason="topic_forbidden",
        wait=RetryDelay.OBJECT,
        says=FailureScope.TOPIC_REFUSED,
    ),
    "SubjectForbidden": ErrorPolicy(
        state=State.FAILED,
        reason="subject_forbidden",
        wait=RetryDelay.OBJECT,
        says=FailureScope.TOPIC_REFUSED,
    ),
    "TopicWithoutLeader": ErrorPolicy(
        state=State.FAILED,
        reason="topic_without_leader",
        wait=RetryDelay.OBJECT,
        says=FailureScope.TOPIC_REFUSED,
    ),
    # The task has halved its way to the record, and could not set it aside either.
    "RecordRefused": ErrorPolicy(state=State.QUARANTINED, reason="record_refused"),
    "TransactionAborted": ErrorPolicy(state=None, reason="transaction_aborted", wait=RetryDelay.SHORT),
    "Fenced": ErrorPolicy(state=None, reason="fenced"),
}


def policy_of(kind: str) -> ErrorPolicy:
    """The row for the name of an error class; ValueError for a class that cannot be an object's end.

    A bug in a decoder arrives as a dead task, not as a failure, and is found out as a suspect.
    """
    try:
        return OUTCOMES[kind]
    except KeyError:
        raise ValueError(f"A task reported {kind!r}, which is no error that an object can end in.") from None


LEAST: Final = 3
"""So often a failure at one place has to repeat to be no coincidence."""

# What goes on for longer than this is a problem, however seldom it has repeated.
_LONG_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Repeat:
    position: object
    why: str
    began: float
    count: int = 0


class Repeats:
    """Failures by place, until each is over; for one thread.

    A place is named as a person names it (`slot 2`, `orders-0`). Its position is how far the work there has
    come: a failure at another position is a new one, as something was done in between.
    """

    def __init__(self, *, fix: str, now: Callable[[], float] = time.monotonic) -> None:
        self._fix = fix
        self._now = now
        self._repeats: dict[str, _Repeat] = {}

    def failed(self, place: str, position: object, why: str) -> int:
        """How often it has failed there without getting further, this time included."""
        known = self._repeats.get(place)
        if known is None or known.position != position:
            known = self._repeats[place] = _Repeat(position, why, self._now())
        known.count += 1
        known.why = why
        return known.count

    def over(self, place: str) -> None:
        """The place has got further."""
        self._repeats.pop(place, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._repeats.clear()

    def problems(self) -> dict[str, str]:
        """A sentence for each place that has failed often or for long: what, where, why, and the fix."""
        now = self._now()
        return {
            place: self._sentence(place, one, now)
            for place, one in self._repeats.items()
            if one.count >= LEAST or (one.count > 1 and now - one.began > _LONG_SECONDS)
        }

    def _sentence(self, place: str, one: _Repeat, now: float) -> str:
        further = "" if one.position is None else f" than {one.position}"
        return (
            f"{place} has failed {one.count} times in {now - one.began:.0f} s without getting further"
            f"{further}: {one.why.rstrip('.')}. {self._fix}"
        )
