"""librdkafka's messages, read where they lie in memory, as columns: without a Python object for each.

The bytes of the messages of one fetch lie side by side in the broker's answer, with a few bytes of lengths
between them: they are copied at once, and the columns point into the copy. What a reader of partitions
reports next to records (lost offsets, faults) is here, too.
"""

import ctypes
import itertools
import re
from bisect import bisect_right
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError

from headrace.model.columns import NULL_LENGTH, Column, Headers, Numbers

# -- The headers of a record, read from the bytes of Kafka's record format -----------------------------------
# https://kafka.apache.org/documentation/#recordheader

_MORE: Final = 0x80
# Many records have the same headers: those of so many different ones are kept.
_KEPT: Final = 4096


class HeaderParser:
    """Headers by their bytes, which begin with their count."""

    def __init__(self) -> None:
        self._known: dict[bytes, Headers] = {}

    def parse(self, data: bytes) -> Headers:
        """The headers in their order; ValueError or IndexError for bytes that hold none."""
        found = self._known.get(data)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[data] = _parsed(data)
        return found


def _parsed(data: bytes) -> Headers:
    count, at = _number(data, 0)
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, at = _number(data, at)
        name = data[at : at + size].decode(errors="replace")
        size, at = _number(data, at + size)
        # A length of -1 is a null.
        found.append((name, None if size < 0 else data[at : at + size]))
        at += max(size, 0)
    if at != len(data):
        raise ValueError(f"{len(data)} bytes of headers end at byte {at}.")
    return tuple(found)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and where the next byte is."""
    byte = data[at]
    value = byte & ~_MORE
    shift = 7
    while byte & _MORE:
        at += 1
        byte = data[at]
        value |= (byte & ~_MORE) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at + 1


# -- librdkafka's messages, read where they lie in memory, as columns: without a Python object for each ------

_WORD: Final = 8
# What may lie between two records that are copied as one: less than a page, so that all of it is mapped.
_GAP_BYTES: Final = 4096
# Where rd_kafka_msg_t, which begins with the public message, has the type of the timestamp (with flags in the
# lower half of the word), the timestamp, the length of the headers (in the lower half) and their address, as
# words of 8 bytes; by librdkafka's version. Other versions are asked message by message.
_PRIVATE_WORDS: Final = {0x021000FF: (11, 12, 15, 16)}
_LOWER: Final = 0xFFFFFFFF
_WORDS_READ: Final = 17


class _Area:
    """Memory of this process as numpy is to see it: heads of messages, one beginning at each word."""

    def __init__(self, address: int, heads: int) -> None:
        self.__array_interface__ = {
            "data": (address, True),
            "shape": (heads,),
            "strides": (_WORD,),
            "typestr": f"|V{_WORDS_READ * _WORD}",
            "version": 3,
        }


def _words_at(addresses: npt.NDArray[np.uint64]) -> Numbers:
    """The first words of each message, copied: a row for each.

    One view has all memory between the messages, of which only theirs is read, and each once: what is in no
    cache is fetched by one pass, not by one for each field.
    """
    base = int(addresses.min())
    rows = ((addresses - np.uint64(base)) // np.uint64(_WORD)).astype(np.int64)
    heads = np.asarray(_Area(base, int(rows.max()) + 1))
    return heads[rows].view(np.int64).reshape(len(rows), _WORDS_READ)


def has_private_words(loaded: CDLL) -> bool:
    """Whether it is known where this version keeps timestamps and headers."""
    return loaded.rd_kafka_version() in _PRIVATE_WORDS


class Messages:
    """Messages of one batch by their addresses, valid until they are given back."""

    def __init__(
        self, loaded: CDLL, addresses: npt.NDArray[np.uint64], *, private: bool, parser: HeaderParser
    ) -> None:
        self._parser = parser
        self._library = loaded
        self._addresses = addresses
        self._private = _PRIVATE_WORDS[loaded.rd_kafka_version()] if private else None
        self._words: Numbers = _words_at(addresses)
        self.errors: Numbers = self._field(0) << 32 >> 32
        self.topics: Numbers = self._field(1)
        self.partitions: Numbers = self._field(2) & _LOWER
        self.offsets: Numbers = self._field(7)

    def __len__(self) -> int:
        return len(self._words)

    def runs(self) -> list[tuple[int, int]]:
        """Neighbours of one partition: [begin, end) of each run."""
        differ = (np.diff(self.topics) != 0) | (np.diff(self.partitions) != 0)
        bounds = [0, *(np.flatnonzero(differ) + 1).tolist(), len(self)]
        return list(itertools.pairwise(bounds))

    def topic(self, row: int) -> str | None:
        """The topic's name, None for what is about no topic."""
        topic = int(self.topics[row])
        return self._library.rd_kafka_topic_name(topic).decode() if topic else None

    def columns(self, rows: Numbers) -> tuple[Column, Column]:
        """Keys and values of these rows, over one new buffer."""
        payload, length = self._field(3)[rows], self._field(4)[rows]
        key, key_length = self._field(5)[rows], self._field(6)[rows]
        filled = np.flatnonzero((length > 0) | (key_length > 0))
        # A record's key stands before its value.
        begin = np.where(key_length > 0, key, payload)[filled]
        end = np.where(length > 0, payload + length, key + key_length)[filled]
        gap = begin[1:] - end[:-1]
        cuts = np.flatnonzero((gap < 0) | (gap > _GAP_BYTES)) + 1
        pieces, shift, copied = [], np.zeros(len(rows), np.int64), 0
        for first, behind in itertools.pairwise([0, *cuts.tolist(), len(filled)]):
            if first == behind:
                break
            address = int(begin[first])
            shift[filled[first:behind]] = copied - address
            pieces.append(ctypes.string_at(address, int(end[behind - 1]) - address))
            copied += len(pieces[-1])
        buffer = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return _column(buffer, key, key_length, shift), _column(buffer, payload, length, shift)

    def timestamps(self) -> tuple[Numbers, Numbers]:
        """Timestamps in ms and their types, of all rows."""
        if self._private is not None:
            kinds, times, _, _ = self._private
            return self._field(times), self._field(kinds) >> 32
        found = [self._timestamp(row) for row in range(len(self))]
        return np.array([at for at, _ in found], np.int64), np.array([kind for _, kind in found], np.int64)

    def leader_epochs(self, rows: Numbers) -> tuple[tuple[int, int], ...]:
        """The first offset and the leader epoch of each run of one epoch; the rows' offsets rise."""
        return epoch_runs(self.offsets[rows], lambda place: self._leader_epoch(int(rows[place])))

    def _leader_epoch(self, row: int) -> int:
        found: int = self._library.rd_kafka_message_leader_epoch(int(self._addresses[row]))
        return found

    def headers(self) -> list[Headers] | None:
        """The headers of all rows, None when no row has any."""
        if self._private is not None:
            return self._private_headers()
        found = [self._headers(row) for row in range(len(self))]
        return found if any(found) else None

    def _private_headers(self) -> list[Headers] | None:
        assert self._private is not None
        lengths = self._field(self._private[2]) & _LOWER
        # One byte says that there are none.
        having = np.flatnonzero((lengths > 1) & (self.errors == 0))
        if not len(having):
            return None
        addresses = self._field(self._private[3])[having].tolist()
        found: list[Headers] = [()] * len(self)
        parse, bytes_at = self._parser.parse, ctypes.string_at
        for row, address, length in zip(having.tolist(), addresses, lengths[having].tolist(), strict=True):
            found[row] = parse(bytes_at(address, length))
        return found

    def is_as_expected(self) -> bool:
        """Whether librdkafka itself says the same of the first and the last message."""
        first_and_last = Messages(self._library, self._addresses[[0, -1]], private=True, parser=self._parser)
        times, kinds = first_and_last.timestamps()
        try:
            headers = first_and_last.headers() or [(), ()]
        except (ValueError, IndexError):
            return False
        return all(
            first_and_last.errors[row] != 0
            or (
                first_and_last._timestamp(row) == (times[row], kinds[row])
                and first_and_last._headers(row) == headers[row]
            )
            for row in (0, 1)
        )

    def error_text(self, row: int) -> str:
        """What librdkafka says of an error; messages with an error have it for a value."""
        length = int(self._field(4)[row])
        return ctypes.string_at(int(self._field(3)[row]), length).decode(errors="replace") if length else ""

    def _field(self, word: int) -> Numbers:
        return self._words[:, word]

    def _timestamp(self, row: int) -> tuple[int, int]:
        kind = ctypes.c_int()
        at = self._library.rd_kafka_message_timestamp(int(self._addresses[row]), ctypes.byref(kind))
        return at, kind.value

    def _headers(self, row: int) -> Headers:
        held = ctypes.c_void_p()
        if self._library.rd_kafka_message_headers(int(self._addresses[row]), ctypes.byref(held)):
            return ()
        name, value, size = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
        found: list[tuple[str, bytes | None]] = []
        while not self._library.rd_kafka_header_get_all(
            held, len(found), ctypes.byref(name), ctypes.byref(value), ctypes.byref(size)
        ):
            content = None if value.value is None else ctypes.string_at(value.value, size.value)
            found.append(((name.value or b"").decode(errors="replace"), content))
        return tuple(found)


def epoch_runs(offsets: Numbers, epoch_of: Callable[[int], int]) -> tuple[tuple[int, int], ...]:
    """The first offset and the leader epoch of each run of one epoch, asked for by place among the offsets.

    Epochs never fall, so that few are asked for. Empty when brokers, or messages, name none.
    """
    count, begin = len(offsets), 0
    found: list[tuple[int, int]] = []
    last = epoch_of(count - 1)
    while begin < count and last >= 0:
        epoch = epoch_of(begin)
        found.append((int(offsets[begin]), epoch))
        begin = count if epoch == last else bisect_right(range(count), epoch, lo=begin, key=epoch_of)
    return tuple(found)


def _column(buffer: bytes, addresses: Numbers, lengths: Numbers, shift: Numbers) -> Column:
    """A column over the copy; a null has no address."""
    return Column(
        buffer=buffer,
        starts=np.where(lengths > 0, addresses + shift, 0),
        lengths=np.where(addresses == 0, NULL_LENGTH, lengths),
    )


class FaultReason(StrEnum):
    """Why a partition is not read on."""

    OFFSET_ABOVE_END = "offset_above_end"
    LOG_TRUNCATED = "log_truncated"
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


# How librdkafka says where a log was cut off; one that knows no earlier epoch any more says something else.
_CUT_OFF: Final = re.compile(r"truncation detected.*broker end offset is (\d+)", re.DOTALL)


def cut_off_at(error: KafkaError) -> int | None:
    """The offset from which on a log has other records than were read, as librdkafka found it (KIP-320)."""
    found = _CUT_OFF.search(error.str() or "")
    return None if found is None else int(found[1])


def truncated_message(what: str, offset: int, cut: int) -> str:
    """The sentence for a log that was cut off at `cut`, below what was read of it, and has grown again."""
    return (
        f"{what} is read up to offset {offset}, and has other records now from offset {cut} on: brokers have "
        "lost those that were read (an unclean leader election, a disk). Set the connector's offset of the "
        f"partition to {cut} to archive what has come since, or to {offset} to leave it out."
    )
