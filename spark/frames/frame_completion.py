"""The completion of what tasks have sent, in the driver, and the sentences about what cannot be completed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Final

import structlog

from headrace.model.clock import wall_ms
from headrace.model.errors import FrameRefused, HeadraceError, ObjectForbidden
from headrace.model.sink_entries import SealedObject, Upload, UploadAge
from headrace.process.threads import of_each
from headrace.s3.completion import CompletionState
from headrace.s3.s3_calls import upload_expiry
from headrace.s3.upload_calls import UploadCalls, new_upload_calls
from spark.frames.written_batches import WrittenBatches
from spark.sink.sink_work import SinkTaskSettings

_LOG = structlog.get_logger(__name__)

_COMPLETERS: Final = 8
_SHOWN: Final = 3
_ENDED: Final = (
    "its upload is gone, and is old enough for the bucket's lifecycle rule to have ended it: see whether the "
    "object was there once; if not, remove the objects of its batch that are there, and then {file}, and the "
    "batch is written again"
)
_ENDED_BY_ANOTHER: Final = (
    "another program has ended its upload, or has taken the object away while its batch was committed: if it "
    "was there once, remove {note} and start the query again; if not, remove the objects of its batch that "
    "are there, and then {file}, and the batch is written again"
)
_FIXES: Final[Mapping[CompletionState, str]] = {
    # What a batch has is written down, its names included.
    CompletionState.NAME_TAKEN: (
        "another object has the name: move that object away, and start the query again"
    ),
    CompletionState.SUPERSEDED: _ENDED,
    CompletionState.UPLOAD_MISSING: _ENDED,
    CompletionState.PARTS_DIFFER: (
        "the parts of its upload are not those that were sent, or the store wants parts of one size "
        "(docs/support.md)"
    ),
    CompletionState.UNPROVEN: (
        "S3 does not say what is there: allow s3:GetObject and s3:ListBucket; where it answers a HEAD by "
        "400, move away what has the name, encrypted with another key (SSE-C), or renew the credentials"
    ),
}

_FIXES_AT_ONCE: Final[Mapping[CompletionState, str]] = {
    **_FIXES,
    CompletionState.NAME_TAKEN: (
        "another object has the name: write under another prefix or file.name.template"
    ),
    **dict.fromkeys(
        (CompletionState.SUPERSEDED, CompletionState.UPLOAD_MISSING),
        "its upload is gone, and is old enough for the bucket's lifecycle rule to have ended it: write the "
        "frame again",
    ),
}
"""Of a frame that is written once, of which nothing is written down."""

_ENDED_AT_ONCE: Final = "another program has ended its upload: write the frame again"


def _uploads(sink: SinkTaskSettings) -> UploadCalls:
    return new_upload_calls(sink.s3, sink.sink.upload)


def complete(completer: "Completer", objects: Sequence[SealedObject]) -> None:
    """Have these objects visible, side objects before their values; FrameRefused for those that cannot be."""
    if not objects:
        return
    try:
        try:
            answers = of_each(completer.complete, objects, at_once=_COMPLETERS, name="frame-completer")
            problems = [found for found in answers if found is not None]
        finally:
            # Also where another object could not be completed: the commit comes again.
            completer.note_left(objects)
    except HeadraceError as error:
        raise FrameRefused(f"The batch cannot be committed: {error}{completer.in_part()}") from error
    if problems:
        more = f" {len(problems) - 1} more objects cannot be completed either." if len(problems) > 1 else ""
        raise FrameRefused(problems[0] + more + completer.in_part())


def complete_if_free(completer: "Completer", objects: Sequence[SealedObject]) -> None:
    """`complete`, with nothing new visible where another object has one of the names.

    One that is taken after it was seen to be free is found on the way, as is one that S3 forbids to ask for.
    """
    try:
        taken, others = completer.by_name(objects)
    except HeadraceError as error:
        raise FrameRefused(f"The batch cannot be committed: {error}") from error
    # What another sink has put there with the same bytes is complete; any other is refused.
    complete(completer, taken)
    complete(completer, others)


class Completer:
    """Completes the objects of a frame that is written at once, in several threads."""

    def __init__(self, sink: SinkTaskSettings, sent: Iterable[SealedObject], *, overwrites: bool) -> None:
        """`sent` are those whose uploads the tasks of this very attempt have sent: none is complete yet."""
        self._overwrites = overwrites
        self._sent = frozenset(one.id for one in sent)
        self._calls = _uploads(sink)
        self._taken: set[Upload] = set()
        self._made: set[str] = set()
        # An object may be of an earlier bucket of the query.
        self._expiry_ms = upload_expiry(sink.s3)

    def complete(self, sealed: SealedObject) -> str | None:
        """Why the object cannot be made visible, None where it is or was."""
        for upload in sealed.uploads:
            overwrites = sealed.overwrites or self._overwrites
            done = self._calls.complete(sealed.bucket, upload, object_id=sealed.id, overwrites=overwrites)
            if done.state is not CompletionState.COMPLETED:
                fix = self._fix(sealed, upload, done.state)
                if fix is not None:
                    return f"s3://{sealed.bucket}/{upload.key} cannot be completed: {fix}."
            if not overwrites and upload not in self._taken:
                self._made.add(f"s3://{sealed.bucket}/{upload.key}")
        return None

    def by_name(self, objects: Sequence[SealedObject]) -> Iterator[list[SealedObject]]:
        """The objects with those uploads whose names are taken, then with those whose are not."""
        of_each(self._look, objects, at_once=_COMPLETERS, name="frame-completer")
        for are_taken in (True, False):
            uploads = [tuple(up for up in one.uploads if (up in self._taken) is are_taken) for one in objects]
            yield [replace(one, uploads=some) for one, some in zip(objects, uploads, strict=True) if some]

    def _look(self, sealed: SealedObject) -> None:
        if sealed.overwrites or self._overwrites:
            return
        with suppress(ObjectForbidden):
            for upload in sealed.uploads:
                if self._calls.head_metadata(sealed.bucket, upload.key) is not None:
                    self._taken.add(upload)

    def in_part(self) -> str:
        """The sentence about objects that this commit has made, though not all; empty without any."""
        found = sorted(self._made)
        if not found:
            return ""
        _LOG.warning("frame_written_in_part", objects=found)
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        are, them = ("are", "them") if len(found) > 1 else ("is", "it")
        return (
            f" By then {', '.join(found[:_SHOWN])}{more} {are} there: remove {them} before these rows are "
            "written again."
        )

    def note_left(self, objects: Sequence[SealedObject]) -> None:
        """Write down which of these are not complete, where that is needed again."""

    def _fix(self, sealed: SealedObject, upload: Upload, state: CompletionState) -> str | None:
        """What is to be done about an object that is not there; None where it was."""
        if state not in {CompletionState.UPLOAD_MISSING, CompletionState.SUPERSEDED}:
            return self._fix_of(state)
        age = UploadAge(
            upload_ms=wall_ms() - upload.started_ms,
            expiry_ms=self._expiry_ms(sealed.bucket, upload.key),
        )
        if age.may_be_expired:
            return self._fix_of(state)
        if self._is_ended(sealed):
            return self._fix_of_ended()
        # A commit before this one has completed it: what it had left open is noted.
        _LOG.warning("object_taken_away", key=upload.key, detail="it was complete, and is not there any more")
        return None

    def _is_ended(self, sealed: SealedObject) -> bool:
        """Whether its upload was never completed; it was by an earlier commit, where there was one."""
        return sealed.id in self._sent

    def _fix_of(self, state: CompletionState) -> str:
        return _FIXES_AT_ONCE[state]

    def _fix_of_ended(self) -> str:
        return _ENDED_AT_ONCE


class CompleterOfBatch(Completer):
    """Completes the objects of a query's batch, which may have been committed before."""

    def __init__(
        self, sink: SinkTaskSettings, sent: Iterable[SealedObject], batches: WrittenBatches, number: int
    ) -> None:
        super().__init__(sink, sent, overwrites=False)
        self._batches = batches
        self._number = number
        self._done: set[str] = set()
        self._noted = cache(lambda: batches.noted_open(number))

    def complete(self, sealed: SealedObject) -> str | None:
        """See `Completer`."""
        problem = super().complete(sealed)
        if problem is None:
            self._done.add(sealed.id)
        return problem

    def in_part(self) -> str:
        """Nothing: the batch comes again, and completes what is left."""
        return ""

    def note_left(self, objects: Sequence[SealedObject]) -> None:
        """See `Completer`: a commit that comes again takes what is gone, and not noted, for complete."""
        self._batches.note_left(self._number, frozenset(one.id for one in objects) - self._done)

    def _is_ended(self, sealed: SealedObject) -> bool:
        return super()._is_ended(sealed) or sealed.id in self._noted()

    def _fix_of(self, state: CompletionState) -> str:
        return _FIXES[state].format(file=self._batches.place(self._number))

    def _fix_of_ended(self) -> str:
        file, note = self._batches.place(self._number), self._batches.place_of_open(self._number)
        return _ENDED_BY_ANOTHER.format(file=file, note=note)


def give_up(sink: SinkTaskSettings, objects: Sequence[SealedObject]) -> None:
    """End uploads that no commit has named; those that stay are for the bucket's lifecycle rule."""
    if not objects:
        return
    calls = _uploads(sink)

    def end(bucket: str, upload: Upload) -> None:
        with suppress(HeadraceError):
            calls.abort(bucket, upload.key, upload.upload_id)

    uploads = [(sealed.bucket, upload) for sealed in objects for upload in sealed.uploads]
    of_each(lambda one: end(*one), uploads, at_once=_COMPLETERS, name="frame-give-up")
    _LOG.info("uploads_given_up", objects=len(objects))
