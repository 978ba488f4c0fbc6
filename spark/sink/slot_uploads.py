"""The open objects of one slot: in memory, on disk, on their way to S3, committed and not completed."""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from headrace.formats.encoding.encoder import ObjectEncoder
from headrace.model.sink_entries import ObjectState, SealedObject
from headrace.model.sink_protocol import SinkCompleted
from headrace.s3.client import out_of_files
from headrace.s3.completion import Beginning, Claim, Completion, CompletionState, Prove
from headrace.s3.upload_calls import UploadCalls
from spark.sink.object_keys import RecurringNames
from spark.sink.open_object import ObjectTarget, OpenObject
from spark.sink.send_pool import InFlight, Proof, SendPool
from spark.sink.spill import PartBuffer, SpillDirectory, part_size

if TYPE_CHECKING:
    from spark.sink.partition_work import PartitionWork

_log = structlog.get_logger(__name__)

THREADS: Final = 8
_MIB: Final = 1024 * 1024
# A part that S3 takes at an ordinary pace is answered sooner, however many wait before it.
_SLOW_SECONDS: Final = 20.0
_SLOW_LOG_SECONDS: Final = 60.0
# An abort is answered in a tenth of a second, after the parts that are on their way. A slot that ends late
# holds its partitions up.
_ABORT_SECONDS: Final = 4.0


class SlotUploads:
    """Opens objects, bounds their memory, completes what is committed. For the slot's thread alone.

    `max_bytes` bounds the memory of encoders, buffers and parts that are being sent, except for what one poll
    adds; half of it is for the parts. `prove` shows that the slot is not given up, or raises: with it, what
    `is_direct` replaces an object of another slot only after it. It is called by `balance` and `wait`.
    """

    def __init__(
        self,
        calls: UploadCalls,
        *,
        part_bytes: int,
        max_bytes: int,
        directory: Path,
        threads: int = THREADS,
        is_direct: bool = False,
        prove: Callable[[], None] | None = None,
        slow_seconds: float = _SLOW_SECONDS,
    ) -> None:
        self.is_direct = is_direct
        """At least once: objects are visible before the transaction with their offsets."""
        self._calls = calls
        self._size_of = functools.partial(part_size, part_bytes)
        self._max_bytes = max_bytes
        self._most_in_flight = max(max_bytes // 2, 1)
        self._directory = SpillDirectory(directory)
        self._pool = SendPool(threads)
        self._in_flight = InFlight()
        self._proof = None if prove is None else Proof(prove)
        # In the order in which they were last added to.
        self._open: dict[OpenObject, int] = {}
        self._open_bytes = 0
        self._aborts: set[Future[None]] = set()
        self._disk_problem: str | None = None
        self._slow_seconds = slow_seconds
        self._slow_problem: str | None = None
        self._slow_logged_until = 0.0

    @property
    def buffered_bytes(self) -> int:
        """Memory of open objects, and of parts that are being sent."""
        return self._open_bytes + self._in_flight.bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes in `buffer.dir`."""
        return self._directory.bytes

    @property
    def is_full(self) -> bool:
        """Whether fetching has to pause: S3 takes the parts too slowly, or the disk takes nothing."""
        if self._in_flight.bytes >= self._most_in_flight:
            return True
        return self._disk_problem is not None and self.buffered_bytes > self._max_bytes

    def open(
        self,
        encoder: ObjectEncoder,
        *,
        object_id: str,
        bucket: str,
        key: str | None,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        begins: Beginning | None = None,
    ) -> OpenObject:
        """A new, empty object; nothing is sent before a part is full. `key` None: known at the end.

        `begins` as in `Claim`, where its name does not show it.
        """
        target = ObjectTarget(
            object_id=object_id,
            bucket=bucket,
            key=key,
            is_direct=self.is_direct,
            content_type=content_type,
            metadata=metadata or {},
            tags=tags or {},
            prove=self._prove,
            begins=begins,
        )
        opened = OpenObject(
            encoder,
            target,
            calls=self._calls,
            pool=self._pool,
            buffer=PartBuffer(self._directory, self._size_of),
            in_flight=self._in_flight,
            changed=self._on_change,
            aborting=self._on_abort,
        )
        self._on_change(opened, True)
        return opened

    def balance(self) -> None:
        """Spill what was not added to for the longest time, as far as memory is above its bound; blocks.

        A disk that refuses is a problem of the moment (`problems`), tried again by the next call.
        """
        self._serve()
        allowed = max(self._max_bytes - self._in_flight.bytes, 0)
        problem = None
        if self._open_bytes > allowed:
            # More than needed, so that not every call has to.
            problem = self._spill_down_to(allowed * 3 // 4)
        if problem is not None and problem != self._disk_problem:
            _log.warning("spill_delayed", error=problem)
        self._disk_problem = problem
        self._note_slow()

    def wait(self, seconds: float) -> None:
        """Block until a part is answered, or the time is over: while `is_full`."""
        self._serve()
        self._in_flight.wait(seconds)

    def problems(self) -> dict[str, str]:
        """What keeps parts from being sent (`s3`) or memory from being spilled (`disk`) at the moment.

        An S3 that takes parts so slowly that fetching waits for it is one too.
        """
        found = {"s3": self._pool.problem() or self._slow_problem, "disk": self._disk_problem}
        return {part: sentence for part, sentence in found.items() if sentence is not None}

    def refusal(self) -> str | None:
        """The sentence of what is refused at the moment, by S3 or the disk; None where only time is taken."""
        return self._pool.problem() or self._disk_problem

    def missing_bucket(self) -> str | None:
        """The sentence of a bucket that is not there, as S3 has answered last; None of none."""
        return self._pool.missing()

    @property
    def answered(self) -> int:
        """How many calls of S3 have come to their end, whichever."""
        return self._pool.answered

    @property
    def is_at_rest(self) -> bool:
        """Whether S3 is asked for nothing at the moment, nor is about to be."""
        return self._pool.is_at_rest

    def complete(self, sealed: SealedObject, *, begins: Beginning | None = None) -> "Future[Completion]":
        """What becomes of a committed object: its uploads are completed in order, the main one last.

        The first that is not completed decides. What passes by itself is repeated without end. `begins` as
        in `open`.
        """
        prove = self._prove
        claim = Claim(prove=prove, begins=begins, main_key=sealed.main.key) if prove else None
        # What was put by one request is there.
        waiting = [upload for upload in sealed.uploads if upload.upload_id]

        def complete_all() -> Completion:
            found = Completion(CompletionState.COMPLETED)
            while waiting:
                found = self._calls.complete(
                    sealed.bucket,
                    waiting[0],
                    object_id=sealed.id,
                    overwrites=sealed.overwrites,
                    claim=claim,
                )
                if found.state is not CompletionState.COMPLETED:
                    break
                # Not asked for again by a repeated call: a consumer may have taken it away meanwhile.
                waiting.pop(0)
            return found

        return self._pool.submit(complete_all)

    def finish_aborts(self, seconds: float = _ABORT_SECONDS) -> None:
        """Block until the uploads of abandoned objects are aborted, or the time is over.

        Before `close`, which aborts nothing: the parts of each would stay in the bucket, and be paid for. Not
        where a commit is in doubt.
        """
        wait(self._aborts, seconds)

    def close(self) -> None:
        """End sending, cancel what waits, and remove what is on disk. Uploads that are open stay so."""
        self._calls.end()
        if self._proof is not None:
            self._proof.close()
        self._pool.close()
        self._open.clear()
        self._open_bytes = 0
        self._directory.close()

    @property
    def _prove(self) -> Prove | None:
        return self._proof.wait if self._proof is not None and self.is_direct else None

    def _serve(self) -> None:
        if self._proof is not None:
            self._proof.serve()

    def _spill_down_to(self, allowed: int) -> str | None:
        """The sentence of a disk that refuses, None when all is well."""
        for opened in list(self._open):
            if self._open_bytes <= allowed:
                break
            try:
                opened.spill()
            except OSError as error:
                if few := out_of_files(error):
                    return f"Nothing is written into buffer.dir, as {few}. Fetching waits until it is."
                return (
                    f"buffer.dir = {self._directory.parent} takes no more bytes ({error.strerror}): "
                    "free or enlarge it, or raise buffer.max.bytes. Fetching waits until it does."
                )
            finally:
                self._recount(opened)
        return None

    def _note_slow(self) -> None:
        """Find out whether fetching waits for an S3 that takes parts slowly."""
        seconds = self._in_flight.oldest_seconds
        self._slow_problem = None
        if seconds < self._slow_seconds or self._in_flight.bytes < self._most_in_flight:
            return
        self._slow_problem = (
            f"S3 takes parts slowly: {self._in_flight.bytes // _MIB} MiB are on their way, the first of them "
            f"for {seconds:.0f} s, and fetching waits until there are fewer."
        )
        # Each part that is answered lets the next records be fetched for a moment.
        if time.monotonic() >= self._slow_logged_until:
            self._slow_logged_until = time.monotonic() + _SLOW_LOG_SECONDS
            _log.warning("uploads_slow", detail=self._slow_problem)

    def _on_change(self, changed: OpenObject, is_open: bool) -> None:  # noqa: FBT001  # a callback
        self._open_bytes -= self._open.pop(changed, 0)
        if is_open:
            self._open[changed] = 0
            self._recount(changed)

    def _on_abort(self, abort: "Future[None]") -> None:
        self._aborts = {one for one in self._aborts if not one.done()} | {abort}

    def _recount(self, opened: OpenObject) -> None:
        held = opened.memory_bytes
        self._open_bytes += held - self._open[opened]
        self._open[opened] = held


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


def give_up_failed(works: "Iterable[PartitionWork]") -> str | None:
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
