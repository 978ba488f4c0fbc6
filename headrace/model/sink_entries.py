"""What the ledger says of a sink: how far each partition is, and the objects that wait to be completed.

Both are control records of the ledger topic, so its cache, its follower and its fencing are the source's.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from headrace.model.errors import InvalidLedger
from headrace.model.fast_pickle import fast_pickle
from headrace.model.ledger_entry import VERSION, ControlKey

_PARTITION: Final = "sink/partition/"
_OBJECT: Final = "sink/object/"
_OPTIONS: Final = "sink/options/"

NONE_COVERED: Final = -1
"""In the place of the highest offset that is covered: none is yet."""

NO_EPOCH: Final = -1
"""In the place of a leader epoch: none is known that an offset could be checked by."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ObjectState(StrEnum):
    """How far a sealed object is. `complete` stays until the partition's offset is past its last record."""

    PENDING = "pending"
    COMPLETE = "complete"
    QUARANTINED = "quarantined"


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A multipart upload all of whose parts are sent: any client that has this can complete it.

    `parts` are, in the order of their numbers from 1, the ETags, quotes included, each with a space and the
    part's checksum after it where S3 has one (`headrace.s3.completion`). `role` is empty for the
    object of the values, else what a side object holds (`keys`, `headers`).
    """

    key: str
    upload_id: str
    parts: tuple[str, ...]
    role: str = ""
    started_ms: int = 0
    """When the upload was started, since 1970; 0 where that is not known."""
    content: str = ""
    """The digest of what the object says, however it is packed; empty where none is kept."""


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class SealedObject:
    """An object whose completion a transaction has committed together with the offsets of what is in it.

    `id` is unique, is in the metadata `headrace-object` of each upload, and is the ledger's key: names
    may recur. `group` is the canonical text of the values that group records, empty when all are one group.
    `uploads` are completed in their order, the main one last. `sealed_ms` is since 1970. `options` is the
    hash of what decides grouping and content. `bucket` is named where an object may go to another one.
    """

    id: str
    topic: str
    partition: int
    topic_id: str
    group: str
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    uploads: tuple[Upload, ...]
    options: str
    sealed_ms: int
    bucket: str
    state: ObjectState = ObjectState.PENDING
    reason: str | None = None
    overwrites: bool = False
    """The name recurs by design (a template of keys alone): a later object replaces an earlier one."""

    @property
    def partition_of(self) -> TopicPartition:
        """The topic-partition that its records are of."""
        return TopicPartition(self.topic, self.partition)

    @property
    def main(self) -> Upload:
        """The upload of the values, completed last."""
        return self.uploads[-1]


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheckpoint:
    """How far a topic-partition is archived: what a restart reads from, whatever the group's offset says.

    `offset` is the next record to read; above it only what no `SealedObject` of its group covers, and no
    `dead_letters`, is written again. `highest` is the highest offset that anything covers, NONE_COVERED
    before. `topic_id` tells lives of one topic name apart. `leader_epoch` is that of the newest record, or
    marker of a transaction, that was read when this was written, or NO_EPOCH: by it a log is known that was
    cut off below `offset` or `highest`, and has grown again (KIP-320). Between `epoch_end` and `offset` were
    no records, but what was aborted, or markers: these may be of a later epoch. With an `epoch_end` above
    `offset` Kafka has deleted what lay before that: the epoch is of what is covered alone.
    """

    topic: str
    partition: int
    topic_id: str
    offset: int
    highest: int = NONE_COVERED
    dead_letters: tuple[int, ...] = ()
    options: str = ""
    is_made_again: bool = False
    """Records of an earlier topic of this name were archived: names of this one's objects are apart."""
    leader_epoch: int = NO_EPOCH
    epoch_end: int = 0
    is_reset: bool = False
    """Reset while Kafka did not have it: it begins as one that was never read, wherever the group stands."""

    @property
    def shown_offset(self) -> int | None:
        """Where it continues; None after a reset, until it begins."""
        return None if self.is_reset else self.offset

    @property
    def partition_of(self) -> TopicPartition:
        """The topic-partition."""
        return TopicPartition(self.topic, self.partition)


@fast_pickle
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingOptions:
    """The options that decide into which group a record comes, without secrets, under their hash.

    The ledger keeps them while an object refers to them: after a change of options, what is archived already
    can be known by the old ones only.
    """

    hash: str
    options: dict[str, str]


SinkEntry = SealedObject | PartitionCheckpoint | GroupingOptions


def key_of(entry: SinkEntry) -> ControlKey:
    """The ledger key of a sink's record."""
    match entry:
        case SealedObject():
            return object_key(entry.id)
        case PartitionCheckpoint():
            return partition_key(entry.partition_of)
        case GroupingOptions():
            return ControlKey(f"{_OPTIONS}{entry.hash}")


def object_key(object_id: str) -> ControlKey:
    """The ledger key of a sealed object."""
    return ControlKey(f"{_OBJECT}{object_id}")


def partition_key(partition: TopicPartition) -> ControlKey:
    """The ledger key of a partition's checkpoint."""
    return ControlKey(f"{_PARTITION}{partition.topic}/{partition.partition}")


def offset_mark(ledger: str, topic_id: str) -> str:
    """The metadata of every offset that is committed for the connector's own group: whose it is."""
    return f"headrace {ledger} {topic_id}"


def is_sink_key(key: ControlKey) -> bool:
    """True for the keys of this module."""
    return key.name.startswith((_PARTITION, _OBJECT, _OPTIONS))


class _Versioned(msgspec.Struct):
    v: Any


class _Sealed(msgspec.Struct):
    entry: SealedObject
    v: int = VERSION


class _Checkpoint(msgspec.Struct):
    entry: PartitionCheckpoint
    v: int = VERSION


class _Options(msgspec.Struct):
    entry: GroupingOptions
    v: int = VERSION


_Shape = _Sealed | _Checkpoint | _Options


def encode_sink_entry(entry: SinkEntry) -> bytes:
    """The entry as the ledger holds it."""
    match entry:
        case SealedObject():
            return msgspec.json.encode(_Sealed(entry))
        case PartitionCheckpoint():
            return msgspec.json.encode(_Checkpoint(entry))
        case GroupingOptions():
            return msgspec.json.encode(_Options(entry))


def decode_sink_entry(key: ControlKey, raw: bytes) -> SinkEntry:
    """The entry that `encode_sink_entry` gave; InvalidLedger for a newer version's, and for anything else."""
    shape: type[_Shape] = _Checkpoint
    if key.name.startswith(_OBJECT):
        shape = _Sealed
    elif key.name.startswith(_OPTIONS):
        shape = _Options
    try:
        version = msgspec.json.decode(raw, type=_Versioned).v
        if version != VERSION:
            raise InvalidLedger(
                f"The ledger holds the record {key.name!r} in format {version!r}, which this version does "
                "not know. Run the newer version of Headrace that wrote it."
            )
        found: _Shape = msgspec.json.decode(raw, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidLedger(f"The ledger's record {key.name!r} is not Headrace's: {raw[:200]!r}.") from error
    return found.entry


# -- What an answer of S3 to the completion of an upload means for its object, whoever asked: slot or leader -

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
