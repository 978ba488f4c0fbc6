"""What an answer of S3 to the completion of an upload means for its object, whoever asked: slot or leader."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.model.sink_entries import SealedObject

NAME_TAKEN: Final = "name_taken"
UPLOAD_GONE: Final = "upload_gone"
UNPROVEN: Final = "unproven"

# So often "no such upload" and "no such object" have to come, one after the other, to be believed.
TIMES_GONE: Final = 3


class CompletionAnswer(StrEnum):
    """What S3 answered to CompleteMultipartUpload, errors inside a 200 included."""

    COMPLETED = "completed"
    NAME_TAKEN = "name_taken"  # 412 of IfNoneMatch=*
    NO_SUCH_UPLOAD = "no_such_upload"
    FAILED = "failed"  # anything else: throttled, cut, denied


class NameHolder(StrEnum):
    """Whose object a HEAD shows under the upload's key, by its metadata `headrace-object`."""

    OURS = "ours"
    LATER = "later"  # an entry of the ledger with a higher first offset in the same partition
    OTHER = "other"
    NOBODY = "nobody"  # 404
    UNKNOWN = "unknown"  # 403, which proves nothing, or no answer


class Verdict(StrEnum):
    """What becomes of the object."""

    COMPLETE = "complete"
    RETRY = "retry"
    NAME_TAKEN = NAME_TAKEN
    UPLOAD_GONE = UPLOAD_GONE
    UNPROVEN = UNPROVEN
    """Neither is there, and the bucket's rule has not ended it: nothing more can be done, and it is said."""


def holder_of(sealed: SealedObject, holder_id: str, known: SealedObject | None) -> NameHolder:
    """Whose object has the name, by the id in its metadata; `known` is the entry of that id, if any."""
    if holder_id == sealed.id:
        return NameHolder.OURS
    if known is None or known.partition_of != sealed.partition_of or known.topic_id != sealed.topic_id:
        return NameHolder.OTHER
    return NameHolder.LATER if known.first_offset > sealed.first_offset else NameHolder.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadAge:
    """How old the upload is at most, and from which age on the bucket ends unfinished ones (None: never)."""

    upload_ms: int
    expiry_ms: int | None

    @property
    def may_be_expired(self) -> bool:
        """True when the bucket's own rule may have ended the upload."""
        return self.expiry_ms is not None and self.upload_ms >= self.expiry_ms


def verdict_of(
    sealed: SealedObject, answer: CompletionAnswer, holder: NameHolder, age: UploadAge, *, times_gone: int
) -> Verdict:
    """What the object comes to; `times_gone` counts answers NO_SUCH_UPLOAD, this one included.

    `holder` matters after NAME_TAKEN and NO_SUCH_UPLOAD; UNKNOWN decides nothing.
    """
    if answer is CompletionAnswer.COMPLETED:
        return Verdict.COMPLETE
    if answer is CompletionAnswer.FAILED or holder is NameHolder.UNKNOWN:
        return Verdict.RETRY
    if holder is NameHolder.OURS:
        return Verdict.COMPLETE
    if answer is CompletionAnswer.NAME_TAKEN:
        # The name is free again: whoever had it has gone between the two calls.
        return Verdict.RETRY if holder is NameHolder.NOBODY else Verdict.NAME_TAKEN
    return _without_upload(sealed, holder, age, times_gone)


def _without_upload(sealed: SealedObject, holder: NameHolder, age: UploadAge, times_gone: int) -> Verdict:
    """Neither the upload nor our object is there: completed and gone since, or never completed."""
    if holder is NameHolder.LATER and sealed.overwrites:
        # Completions of a name go in offset order, so ours was first.
        return Verdict.COMPLETE
    if times_gone < TIMES_GONE:
        return Verdict.RETRY
    # A younger upload was completed, and a consumer has taken the object away, or a later one of a recurring
    # name its place; or somebody has ended it by hand. S3 cannot tell which, so an operator has to know.
    return Verdict.UPLOAD_GONE if age.may_be_expired else Verdict.UNPROVEN
