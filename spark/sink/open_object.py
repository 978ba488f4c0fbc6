"""One object that is being filled: its encoder, and its parts, which are sent in parallel."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.encoder import ObjectEncoder
from headrace.model.clock import wall_ms
from headrace.model.errors import HeadraceError
from headrace.model.sink_entries import Upload
from headrace.s3.client import UploadEnded
from headrace.s3.completion import BEGINS, Beginning, Claim, Prove
from headrace.s3.upload_calls import UploadCalls
from spark.sink.send_pool import InFlight, SendPool
from spark.sink.spill import Part, PartBuffer, SpillLost


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectTarget:
    """Where an object goes and what it is given there. `key` None: known when the object closes.

    With `is_direct` (at least once) an object of one part is put by one request when it is sealed; `prove`
    and `begins` as in `Claim`.
    """

    object_id: str
    bucket: str
    key: str | None
    is_direct: bool = False
    content_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    prove: Prove | None = None
    begins: Beginning | None = None

    def described(self) -> dict[str, str]:
        """Its metadata."""
        return {**self.metadata, **({} if self.begins is None else {BEGINS: self.begins.text})}

    def claim(self, main_key: str) -> Claim | None:
        """On what grounds it takes another one's place; None: it is never asked for."""
        return Claim(prove=self.prove, begins=self.begins, main_key=main_key) if self.prove else None


Changed = Callable[["OpenObject", bool], None]
"""Called with an object that was added to (True), or sealed or abandoned (False)."""

Aborting = Callable[["Future[None]"], None]
"""Called with the answer to come of an abort, which never is an error."""


class OpenObject:
    """Made by `SlotUploads.open`. All methods are the slot's thread's, and none blocks on S3."""

    def __init__(
        self,
        encoder: ObjectEncoder,
        target: ObjectTarget,
        *,
        calls: UploadCalls,
        pool: SendPool,
        buffer: PartBuffer,
        in_flight: InFlight,
        changed: Changed,
        aborting: Aborting,
    ) -> None:
        self._encoder = encoder
        self._target = target
        self._key = target.key
        self._tags = dict(target.tags)
        self._calls = calls
        self._pool = pool
        self._buffer = buffer
        self._in_flight = in_flight
        self._changed = changed
        self._aborting = aborting
        self._held: list[Part] = []
        self._begun: Future[str] | None = None
        self._started_ms = 0
        self._sent: list[Future[str]] = []
        self._sealed: Future[Upload] | None = None
        self._lock = threading.Lock()
        self._unanswered = 0
        self._is_abandoned = False
        self.failure: BaseException | None = None
        """Why it cannot be sealed any more: UploadEnded, SpillLost."""

    @property
    def size(self) -> int:
        """Bytes of the whole object so far: final ones, and what the encoder holds."""
        return self._buffer.total_bytes + self._encoder.buffered

    @property
    def memory_bytes(self) -> int:
        """What it holds in memory, without the parts that are being sent."""
        held = sum(part.memory_bytes for part in self._held)
        return self._encoder.buffered + self._buffer.memory_bytes + held

    def add(self, records: ConvertedRecords) -> None:
        """Encode records; parts that are full by it are sent in parallel."""
        self._encoder.add(records)
        self._append(self._encoder.drain())
        self._changed(self, True)

    def spill(self) -> None:
        """Write to disk what is in memory; blocks. OSError when the disk refuses it: nothing is lost then.

        What was written before and is not there any more is this object's failure.
        """
        self._append(self._encoder.drain(end_block=True))
        try:
            for part in self._held:
                part.spill(self._buffer.directory)
            self._buffer.spill()
        except SpillLost as error:
            self.failure = self.failure or error

    @property
    def is_uploading(self) -> bool:
        """Whether parts of it were sent, so that it appears when its upload is completed and not before."""
        return self._begun is not None

    def seal(
        self,
        *,
        key: str | None = None,
        tags: Mapping[str, str] | None = None,
        after: "Future[Upload] | None" = None,
        may_put: bool = True,
        main_key: str | None = None,
    ) -> "Future[Upload]":
        """What the ledger needs, once all parts are answered: the last one is sent in parallel.

        `key` and further `tags` only where the target has no key. What is put by one request appears `after`
        that one, and is not put so at all without `may_put`; `main_key` as in `Claim`, None: its own key. The
        future fails with UploadEnded, and is cancelled by `abandon` and by the end of the pool. Once.
        """
        if self._key is None:
            assert key is not None, "the name is known when the object closes"
            self._key = key
            self._tags |= tags or {}
        held, self._held = self._held, []
        for part in held:
            self._send(part)
        self._append(self._encoder.finish())
        if (last := self._buffer.last_part()) is not None:
            if self._target.is_direct and self._begun is None and may_put:
                self._put(last, after, main_key or self._key)
            else:
                self._send(last)
        sealed: Future[Upload] = Future()
        with self._lock:
            self._sealed = sealed
        self._settle()
        self._changed(self, False)
        return sealed

    def abandon(self) -> None:
        """Give all back, and have the upload aborted in the background: only what no transaction has named.

        Whether S3 allows it does not matter: the bucket's rule for unfinished uploads ends it, too. But not
        every bucket has one: who ends a slot waits for the abort a little (`Aborting`).
        """
        for sent in self._sent:
            sent.cancel()
        if self._sealed is not None:
            self._sealed.cancel()
        self._buffer.discard()
        for part in self._held:
            part.release()
        self._held.clear()
        self._changed(self, False)
        self._is_abandoned = True
        if self._begun is not None:
            # Not cancelled: S3 may be about to answer with the upload that is to be aborted.
            self._aborting(self._pool.submit(self._abort, after=self._begun))

    def _append(self, data: bytes) -> None:
        self._buffer.append(data)
        for part in self._buffer.full_parts():
            self._send(part)

    def _send(self, part: Part) -> None:
        """Have a part sent; one of an object without a name yet waits for it."""
        if self._key is None:
            self._held.append(part)
            return
        key, bucket = self._key, self._target.bucket
        begun = self._begin(key)
        self._await(
            part,
            lambda: self._calls.part(bucket, key, begun.result(), part.number, part.body()),
            after=begun,
        )

    def _put(self, part: Part, after: "Future[Upload] | None", main_key: str) -> None:
        """Have the whole object put, once `after` is done; where that has failed, this fails with it."""
        target, key = self._target, self._key
        assert key is not None

        def put() -> str:
            if after is not None:
                after.result()
            self._calls.put(
                target.bucket,
                key,
                part.body(),
                object_id=target.object_id,
                content_type=target.content_type,
                metadata=target.described(),
                tags=self._tags,
                claim=target.claim(main_key),
            )
            return ""

        self._await(part, put, after=after)

    def _await(self, part: Part, call: Callable[[], str], *, after: "Future[Any] | None" = None) -> None:
        with self._lock:
            self._unanswered += 1
        number = self._in_flight.begin(part.memory_bytes)
        sent = self._pool.submit(call, after=after)
        self._sent.append(sent)
        sent.add_done_callback(lambda answered: self._on_answer(answered, part, number))

    def _begin(self, key: str) -> "Future[str]":
        if self._begun is None:
            # Before it is asked for: by S3's reckoning the upload is no older.
            self._started_ms = wall_ms()
            self._begun = self._pool.submit(lambda: self._begin_upload(key))
        return self._begun

    def _begin_upload(self, key: str) -> str:
        target = self._target
        if self._is_abandoned:
            raise UploadEnded(f"s3://{target.bucket}/{key} was abandoned before its upload began.")
        return self._calls.begin(
            target.bucket,
            key,
            object_id=target.object_id,
            content_type=target.content_type,
            metadata=target.described(),
            tags=self._tags,
        )

    def _on_answer(self, sent: "Future[str]", part: Part, number: int) -> None:
        part.release()
        self._in_flight.end(number)
        if not sent.cancelled() and (error := sent.exception()) is not None:
            self.failure = self.failure or error
        with self._lock:
            self._unanswered -= 1
        self._settle()

    def _settle(self) -> None:
        """Answer `seal`, if all parts are answered. In any thread."""
        with self._lock:
            sealed = self._sealed
            if sealed is None or self._unanswered:
                return
        # Answered by another thread, or cancelled.
        with suppress(InvalidStateError):
            if any(sent.cancelled() for sent in self._sent):
                sealed.cancel()
            elif self.failure is not None:
                sealed.set_exception(self.failure)
            else:
                sealed.set_result(self._upload())

    def _upload(self) -> Upload:
        assert self._key is not None
        if self._begun is None:
            return Upload(key=self._key, upload_id="", parts=())
        # Sent in the order of their numbers.
        parts = tuple(sent.result() for sent in self._sent)
        return Upload(
            key=self._key,
            upload_id=self._begun.result(),
            parts=parts,
            started_ms=self._started_ms,
            content=self._encoder.content,
        )

    def _abort(self) -> None:
        assert self._key is not None
        assert self._begun is not None
        # An upload that is not aborted is ended by the bucket's rule.
        with suppress(HeadraceError, CancelledError):
            self._calls.abort(self._target.bucket, self._key, self._begun.result())
