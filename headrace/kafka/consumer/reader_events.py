"""What a reader of partitions reports next to records."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from confluent_kafka import KafkaError


class FaultReason(StrEnum):
    """Why a partition is not read on."""

    OFFSET_ABOVE_END = "offset_above_end"
    TOPIC_DELETED = "topic_deleted"
    BATCH_CORRUPT = "batch_corrupt"
    RECORD_TOO_LARGE = "record_too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """Kafka has deleted [first, end) before it was read; reading has gone on at `end`."""

    topic: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFault:
    """The partition is not read on at `offset`; the others are. It is assigned again when it may be."""

    topic: str
    partition: int
    offset: int
    reason: FaultReason
    message: str


ReaderEvent = LostOffsets | PartitionFault

_K: Final = KafkaError
OFFSET_CODES: Final = frozenset({_K._AUTO_OFFSET_RESET, _K.OFFSET_OUT_OF_RANGE, _K._LOG_TRUNCATION})  # noqa: SLF001  # the library's names for its local codes
"""The offset is not in the log: which side of it, the log's ends tell."""

_REASONS: Final = {
    _K.UNKNOWN_TOPIC_OR_PART: FaultReason.TOPIC_DELETED,
    _K.UNKNOWN_TOPIC_ID: FaultReason.TOPIC_DELETED,
    _K.INCONSISTENT_TOPIC_ID: FaultReason.TOPIC_DELETED,
    _K._UNKNOWN_TOPIC: FaultReason.TOPIC_DELETED,  # noqa: SLF001  # the library's names for its local codes
    _K._UNKNOWN_PARTITION: FaultReason.TOPIC_DELETED,  # noqa: SLF001  # the library's names for its local codes
    _K.INVALID_MSG: FaultReason.BATCH_CORRUPT,
    _K._BAD_MSG: FaultReason.BATCH_CORRUPT,  # noqa: SLF001  # the library's names for its local codes
    _K._BAD_COMPRESSION: FaultReason.BATCH_CORRUPT,  # noqa: SLF001  # the library's names for its local codes
    _K._NOT_IMPLEMENTED: FaultReason.BATCH_CORRUPT,  # noqa: SLF001  # the library's names for its local codes
    _K.UNSUPPORTED_COMPRESSION_TYPE: FaultReason.BATCH_CORRUPT,
    _K.MSG_SIZE_TOO_LARGE: FaultReason.RECORD_TOO_LARGE,
}
_SENTENCES: Final = {
    FaultReason.TOPIC_DELETED: "does not exist any more",
    FaultReason.BATCH_CORRUPT: (
        "has a batch that cannot be decoded: restore the log of its leader, or skip the offset"
    ),
    FaultReason.RECORD_TOO_LARGE: (
        "has a record that is larger than this client may fetch: raise receive.message.max.bytes"
    ),
}


def fault_of(error: KafkaError) -> FaultReason | None:
    """The reason that an error of a partition is a fault; None for what passes by itself."""
    return _REASONS.get(error.code())


def fault_message(what: str, reason: FaultReason, offset: int, error: KafkaError) -> str:
    """The sentence of a fault; `what` is the topic-partition."""
    return f"{what} at offset {offset} {_SENTENCES[reason]} ({error.name()})."


def above_end_message(what: str, offset: int, end: int) -> str:
    """The sentence for an offset that the log does not reach."""
    return (
        f"{what} ends at offset {end}, and reading is at {offset}: the topic was truncated, restored or "
        "is of another cluster. Find out which, then set the connector's offsets."
    )
