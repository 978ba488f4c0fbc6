"""Completes the uploads that slots have left pending, in a thread next to the one that decides.

All events that the threads of a sink's leader send to the deciding one are here.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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
    CompletionState.UNPROVEN: "S3 has no such upload, or another object has the name, and this role may not "
    "ask which; allow s3:GetObject and s3:ListBucket, which tell a missing object from a forbidden one",
    CompletionState.PARTS_DIFFER: "the parts of its upload are not those that were sealed, or the store "
    "wants all of one size (docs/support.md): find out who has sent parts to it; once the upload is ended, "
    "rewind the partition to the first of these offsets",
}


class Completer:
    """Tries each object until it has an end; `CompletionEnded` follows.

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
        self._closing = threading.Event()
        self._waiting: queue.SimpleQueue[SealedObject | None] = queue.SimpleQueue()
        self._threads = 0

    def submit(self, sealed: SealedObject) -> None:
        """Complete the object's uploads in their order. Does not block; called by one thread."""
        # Most leaders are left nothing: a worker with many sinks has no threads for it.
        if self._threads < _THREADS:
            start_thread(self._run, name=f"completer-{self._threads}")
            self._threads += 1
        self._waiting.put(sealed)

    def close(self) -> None:
        """Begin nothing more; the next leader completes what is left."""
        self._closing.set()
        for _ in range(self._threads):
            self._waiting.put(None)

    def _run(self) -> None:
        while (sealed := self._waiting.get()) is not None and not self._closing.is_set():
            self._complete(sealed)

    def _complete(self, sealed: SealedObject) -> None:
        verdict = Verdict.COMPLETE
        for upload in sealed.uploads:
            found = self._complete_one(sealed, upload)
            if found is None:
                return
            verdict = found if found is not Verdict.COMPLETE else verdict
            # A side object that is gone says nothing of the main one, which is completed last.
            if verdict not in (Verdict.COMPLETE, Verdict.UNPROVEN):
                break
        self._post(CompletionEnded(sealed, verdict))

    def _complete_one(self, sealed: SealedObject, upload: Upload) -> Verdict | None:
        """The verdict on one upload; None when this leader ends before there is one."""
        pause, times_gone, times = self._first_pause, 0, 0
        expiry_ms: int | None = None
        component, failing = f"{_COMPONENT} of s3://{sealed.bucket}/{upload.key}", ""
        while not self._closing.is_set():
            times += 1
            try:
                found = self._calls.complete(
                    sealed.bucket, upload, object_id=sealed.id, overwrites=sealed.overwrites
                )
                answer, holder = self._read(sealed, found)
                times_gone += answer is CompletionAnswer.NO_SUCH_UPLOAD
                # Before, the age decides nothing.
                if times_gone >= TIMES_GONE:
                    expiry_ms = self._expiry_ms(sealed.bucket, upload.key)
                why = _WAITS.get(found.state, "") if times > TIMES_GONE else ""
            except HeadraceError as error:
                answer, holder = CompletionAnswer.FAILED, NameHolder.UNKNOWN
                why = str(error)
            age = UploadAge(upload_ms=wall_ms() - upload.started_ms, expiry_ms=expiry_ms)
            verdict = verdict_of(sealed, answer, holder, age, times_gone=times_gone)
            if why and verdict is Verdict.RETRY and why != failing:
                sentence = (
                    f"s3://{sealed.bucket}/{upload.key} (offsets {sealed.first_offset} to "
                    f"{sealed.last_offset} of {sealed.partition_of}) cannot be completed: {why}"
                )
                self._post(ComponentProblem(component, sentence))
                _log.warning("completion_failed", error=sentence, detail="it is tried again")
                failing = why
            elif failing and (not why or verdict is not Verdict.RETRY):
                self._post(ComponentProblem(component, None))
                failing = ""
            if verdict is not Verdict.RETRY:
                return verdict
            self._closing.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return None

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
