"""Completes the uploads that slots have left pending, in a thread next to the one that decides.

All events that the threads of a sink's leader send to the deciding one are here.
"""

import heapq
import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from headrace.kafka.ledger_follower import Applied
from headrace.model.clock import wall_ms
from headrace.model.errors import HeadraceError
from headrace.model.sink_entries import (
    TIMES_GONE,
    CompletionAnswer,
    NameHolder,
    SealedObject,
    Upload,
    UploadAge,
    Verdict,
    holder_of,
    verdict_of,
)
from headrace.process.threads import start_thread
from headrace.s3.completion import Completion, CompletionState
from headrace.s3.s3_calls import UploadExpiry
from headrace.s3.upload_calls import UploadCalls
from ingest.service.service_events import ComponentProblem, OwnEvent
from ingest.sink import FoundLives, FoundTopics, SinkWrite
from spark.slots import SlotEvent


@dataclass(frozen=True, slots=True)
class SinkWritten:
    """A transaction of the leader was acknowledged, with these records."""

    writes: tuple[SinkWrite, ...]


@dataclass(frozen=True, slots=True)
class TopicsSurveyed:
    """The brokers have answered; the names are those of `headrace.kafka.data_topics.Survey`."""

    topics: FoundTopics
    missing: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LivesFound:
    """The brokers have said which topics those are that slots are about to commit."""

    lives: FoundLives


@dataclass(frozen=True, slots=True)
class CompletionEnded:
    """A completion of the leader's has its end."""

    sealed: SealedObject
    verdict: Verdict


SinkEvent = (
    OwnEvent | SlotEvent | SinkWritten | TopicsSurveyed | LivesFound | CompletionEnded | tuple[Applied, ...]
)
SinkInbox = queue.SimpleQueue[SinkEvent]


_log = structlog.get_logger(__name__)

_THREADS: Final = 8
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
_COMPONENT: Final = "completion"
# Why an answer of S3 decides nothing, however often it comes.
_WAITS: Final = {
    CompletionState.UNPROVEN: "S3 has no such upload, or another object has the name, and it does not say "
    "which: allow s3:GetObject and s3:ListBucket, which tell a missing object from a forbidden one; where it "
    "answers a HEAD by 400, move away what has the name, encrypted with another key (SSE-C), or renew the "
    "credentials",
    CompletionState.PARTS_DIFFER: "the parts of its upload are not those that were sealed, or the store "
    "wants all of one size (docs/support.md): find out who has sent parts to it; once the upload is ended, "
    "rewind the partition to the first of these offsets (PATCH /connectors/NAME/offsets of the stopped sink)",
}


class _Kind(NamedTuple):
    """What fails alike: of a bucket, by the answer's or the error's name.

    `is_of_object`: it says something of that object, which needs a look of an operator.
    """

    bucket: str
    name: str
    is_of_object: bool


class _Left:
    """An object on its way to its end, with one thread at a time."""

    def __init__(self, sealed: SealedObject, pause: float) -> None:
        self.sealed = sealed
        self.verdict = Verdict.COMPLETE
        self._first_pause = pause
        self._index = 0
        self.begin()

    def begin(self) -> None:
        """The next of its uploads comes first."""
        self.times = self.times_gone = 0
        self.expiry_ms: int | None = None
        self.failing: _Kind | None = None
        self._pause = self._first_pause

    @property
    def upload(self) -> Upload:
        """The upload that is to be completed; they are so in their order."""
        return self.sealed.uploads[self._index]

    def settle(self, verdict: Verdict) -> bool:
        """Whether the object has its end with this verdict on its upload."""
        self.verdict = verdict if verdict is not Verdict.COMPLETE else self.verdict
        self._index += 1
        # A side object that is gone says nothing of the main one, which is completed last.
        is_over = self.verdict not in (Verdict.COMPLETE, Verdict.UNPROVEN)
        if is_over or self._index == len(self.sealed.uploads):
            return True
        self.begin()
        return False

    def pause(self) -> float:
        """Seconds until the next attempt, twice as many each time."""
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return pause


class _Problems:
    """What keeps objects from their ends: of each bucket and kind the object that showed it first.

    Called by any thread. A bucket may refuse ten thousand.
    """

    def __init__(self, post: Callable[[ComponentProblem], None]) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._shown: dict[_Kind, tuple[_Left, str]] = {}

    def fails(self, left: _Left, kind: _Kind, why: str) -> None:
        """An attempt has failed, and the object waits for another one."""
        sealed = left.sealed
        sentence = (
            f"s3://{sealed.bucket}/{left.upload.key} (offsets {sealed.first_offset} to "
            f"{sealed.last_offset} of {sealed.partition_of}) cannot be completed: {why}"
        )
        if left.failing != kind:
            self.is_over(left)
            left.failing = kind
            if kind.is_of_object:
                _log.warning("completion_failed", error=sentence, detail="it is tried again")
        with self._lock:
            shown, said = self._shown.get(kind, (left, ""))
            if shown is not left or said == sentence:
                return
            self._shown[kind] = left, sentence
            self._post(ComponentProblem(_component(left), sentence))
        if not kind.is_of_object:
            _log.warning("completion_failed", error=sentence, detail="it is tried again, as others are")

    def is_over(self, left: _Left) -> None:
        """It fails no more; another object that does is shown after its next attempt."""
        kind, left.failing = left.failing, None
        with self._lock:
            if kind is not None and self._shown.get(kind, (None, ""))[0] is left:
                del self._shown[kind]
                self._post(ComponentProblem(_component(left), None))


class _Turns:
    """Objects that wait for a thread, each until its time has come. Called by any thread.

    Of the buckets that have one whose time has come, that with the fewest under way is first: one that is
    slow to answer would hold all threads otherwise. Of a bucket, those come first that were never tried.

    A bucket that refuses has a turn each `gap` seconds until it answers one: ten thousand objects of it, each
    with its own pause, would be hundreds of requests a second to an S3 that asks for fewer.
    """

    def __init__(self, gap: float) -> None:
        self._gap = gap
        # By bucket that refuses: when it has its next turn.
        self._refusing: dict[str, float] = {}
        self._changed = threading.Condition()
        self._waiting: dict[str, list[tuple[float, int, _Left]]] = {}
        self._under_way: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._is_closed = False

    def add(self, left: _Left, *, pause: float | None = None) -> None:
        """It has a turn after so many seconds; None: before all that were tried."""
        with self._changed:
            waiting = self._waiting.setdefault(left.sealed.bucket, [])
            at = 0.0 if pause is None else time.monotonic() + pause
            heapq.heappush(waiting, (at, next(self._numbers), left))
            self._changed.notify()

    def release(self, left: _Left) -> None:
        """Its turn is over, and has shown whether its bucket refuses."""
        bucket = left.sealed.bucket
        with self._changed:
            self._under_way[bucket] -= 1
            if left.failing is not None and not left.failing.is_of_object:
                self._refusing.setdefault(bucket, time.monotonic() + self._gap)
            elif self._refusing.pop(bucket, None) is not None:
                self._changed.notify_all()

    def take(self) -> _Left | None:
        """The one whose turn it is; blocks. None once they are closed."""
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                turns = {bucket: self._next_turn(bucket) for bucket in self._waiting}
                due = [bucket for bucket, at in turns.items() if at <= now]
                if due:
                    return self._pop(min(due, key=self._under_way.__getitem__), now)
                first = min(turns.values(), default=None)
                self._changed.wait(None if first is None else first - now)
            return None

    def close(self) -> None:
        """Nothing more has a turn."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _next_turn(self, bucket: str) -> float:
        return max(self._waiting[bucket][0][0], self._refusing.get(bucket, 0.0))

    def _pop(self, bucket: str, now: float) -> _Left:
        if bucket in self._refusing:
            self._refusing[bucket] = now + self._gap
        waiting = self._waiting[bucket]
        _, _, left = heapq.heappop(waiting)
        if not waiting:
            del self._waiting[bucket]
        self._under_way[bucket] += 1
        return left


class Completer:
    """Tries each object until it has an end; `CompletionEnded` follows.

    One attempt a turn: an object that cannot be completed holds back no other one.
    `entry_of` gives the ledger's entry of an object's id: a recurring name may show a later object.
    `expiry_ms` gives the rule of a bucket and key: that of an object may be of an earlier configuration.
    """

    def __init__(
        self,
        calls: UploadCalls,
        post: Callable[[CompletionEnded | ComponentProblem], None],
        *,
        expiry_ms: UploadExpiry,
        entry_of: Callable[[str], SealedObject | None],
        first_pause: float = _FIRST_PAUSE,
    ) -> None:
        self._first_pause = first_pause
        self._calls = calls
        self._post = post
        self._expiry_ms = expiry_ms
        self._entry_of = entry_of
        self._turns = _Turns(first_pause / 2)
        self._problems = _Problems(post)
        self._threads = 0

    def submit(self, sealed: SealedObject) -> None:
        """Complete the object's uploads in their order. Does not block; called by one thread."""
        # Most leaders are left nothing: a worker with many sinks has no threads for it.
        if self._threads < _THREADS:
            start_thread(self._run, name=f"completer-{self._threads}")
            self._threads += 1
        self._turns.add(_Left(sealed, self._first_pause))

    def close(self) -> None:
        """Begin nothing more; the next leader completes what is left."""
        self._turns.close()

    def _run(self) -> None:
        while (left := self._turns.take()) is not None:
            verdict = self._attempt(left)
            self._turns.release(left)
            if verdict is Verdict.RETRY:
                self._turns.add(left, pause=left.pause())
            elif left.settle(verdict):
                self._post(CompletionEnded(left.sealed, left.verdict))
            else:
                self._turns.add(left)

    def _attempt(self, left: _Left) -> Verdict:
        """The verdict on its upload; RETRY where there is none yet."""
        sealed, upload, kind, why = left.sealed, left.upload, None, ""
        left.times += 1
        try:
            found = self._calls.complete(
                sealed.bucket, upload, object_id=sealed.id, overwrites=sealed.overwrites
            )
            answer, holder = self._read(sealed, found)
            left.times_gone += answer is CompletionAnswer.NO_SUCH_UPLOAD
            # Before, the age decides nothing.
            if left.times_gone >= TIMES_GONE:
                left.expiry_ms = self._expiry_ms(sealed.bucket, upload.key)
            if left.times > TIMES_GONE and (why := _WAITS.get(found.state, "")):
                kind = _Kind(sealed.bucket, found.state.name, is_of_object=True)
        except HeadraceError as error:
            answer, holder = CompletionAnswer.FAILED, NameHolder.UNKNOWN
            kind, why = _Kind(sealed.bucket, type(error).__name__, is_of_object=False), str(error)
        age = UploadAge(upload_ms=wall_ms() - upload.started_ms, expiry_ms=left.expiry_ms)
        verdict = verdict_of(sealed, answer, holder, age, times_gone=left.times_gone)
        if kind is not None and verdict is Verdict.RETRY:
            self._problems.fails(left, kind, why)
        else:
            self._problems.is_over(left)
        return verdict

    def _read(self, sealed: SealedObject, found: Completion) -> tuple[CompletionAnswer, NameHolder]:
        """What S3 has said, in the words of the verdict."""
        other = holder_of(sealed, found.other_id, self._entry_of(found.other_id))
        match found.state:
            case CompletionState.COMPLETED:
                return CompletionAnswer.COMPLETED, NameHolder.OURS
            case CompletionState.NAME_TAKEN:
                return CompletionAnswer.NAME_TAKEN, other
            case CompletionState.SUPERSEDED:
                return CompletionAnswer.NO_SUCH_UPLOAD, other
            case CompletionState.UPLOAD_MISSING:
                return CompletionAnswer.NO_SUCH_UPLOAD, NameHolder.NOBODY
            case CompletionState.UNPROVEN:
                return CompletionAnswer.NO_SUCH_UPLOAD, NameHolder.UNKNOWN
            case CompletionState.PARTS_DIFFER:
                return CompletionAnswer.FAILED, NameHolder.UNKNOWN


def _component(left: _Left) -> str:
    return f"{_COMPONENT} of s3://{left.sealed.bucket}/{left.upload.key}"
