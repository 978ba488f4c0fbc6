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
    """A multipart upload all of whose parts are sent: whoever has this can complete it.

    `parts` are, in the order of their numbers from 1, the ETags, quotes included, each with a space and the
    part's checksum behind it where S3 has one (`headrace.s3.part_text`). `role` is empty for the
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

    `id` is unique, stands in the metadata `headrace-object` of each upload, and is the ledger's key: names
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
    before. `topic_id` tells lives of one topic name apart.
    """

    topic: str
    partition: int
    topic_id: str
    offset: int
    highest: int = NONE_COVERED
    dead_letters: tuple[int, ...] = ()
    options: str = ""
    is_made_again: bool = False
    """Records of an earlier topic of this name were archived: names of this one's objects stand apart."""

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
