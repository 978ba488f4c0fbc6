"""The open objects of one slot: what they hold in memory and on disk, and what is on its way to S3."""

import functools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Final

import structlog

from headrace.formats.encoding.encoder import ObjectEncoder
from headrace.model.sink_entries import SealedObject
from headrace.s3.client import out_of_files
from headrace.s3.completion import Beginning, Claim, Completion, CompletionState, Prove
from headrace.s3.upload_calls import UploadCalls
from spark.sink.open_object import ObjectTarget, OpenObject
from spark.sink.send_pool import InFlight, Proof, SendPool
from spark.sink.spill import PartBuffer, SpillDirectory, part_size

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
