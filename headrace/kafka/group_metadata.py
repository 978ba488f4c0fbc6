"""The group metadata that every transaction carries: what a member is to the group, in librdkafka's form.

The group commit: a transaction's first request, accepted only from the current generation.
"""

import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, Producer, TopicPartition

from headrace.process.threads import start_thread

_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("<i")
_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_TEXT_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """One member in one generation of a consumer group."""

    group: str
    generation: int
    member: str
    instance: str | None

    @property
    def is_checked_by_broker(self) -> bool:
        """Whether the broker compares it with its own idea of the group.

        It accepts generation -1 and an empty member id unchecked (tried), so those would let a zombie in.
        """
        return self.generation >= 0 and self.member != ""


def memberless_metadata(group: str) -> bytes:
    """What commits offsets of a group that has no members, in the form of `parse_group_metadata`."""
    return _MAGIC + _GENERATION.pack(-1) + group.encode() + b"\0" + b"\0" + b"\1"


def parse_group_metadata(raw: bytes) -> GroupMetadata:
    """The member in what `Consumer.consumer_group_metadata()` gave; ValueError when it is something else.

    librdkafka hands out `CGMDv2:`, the generation (int32), group and member id each ended by NUL, one byte
    that says whether there is no instance id, and the instance id ended by NUL. Those bytes are what travels
    with each batch and what `send_offsets_to_transaction` takes: nothing of ours is wrapped around them.
    """
    if not raw.startswith(_MAGIC) or len(raw) < len(_MAGIC) + _GENERATION.size:
        raise ValueError(f"not group metadata of librdkafka 2: {raw[:80]!r}")
    (generation,) = _GENERATION.unpack_from(raw, len(_MAGIC))
    parts = raw[len(_MAGIC) + _GENERATION.size :].split(b"\0", 2)
    if len(parts) != 3 or not parts[2]:  # noqa: PLR2004 - group, member, and what follows them
        raise ValueError(f"not group metadata of librdkafka 2: {raw[:80]!r}")
    group, member, rest = parts
    has_instance = rest[0] == 0
    return GroupMetadata(
        group=group.decode(),
        generation=generation,
        member=member.decode(),
        instance=rest[1:].rstrip(b"\0").decode() if has_instance else None,
    )


def assigned_topics(assignment: bytes) -> frozenset[str]:
    """The topics in a member's assignment, in the form of Kafka's consumer protocol.

    Version (int16), number of topics (int32), and for each its name (int16 length) and its partitions (int32
    each, after their number). No bytes are a member that holds nothing yet; ValueError for what is cut off.
    """
    if not assignment:
        return frozenset()
    topics = set()
    try:
        _, count = _VERSION_AND_COUNT.unpack_from(assignment)
        at = _VERSION_AND_COUNT.size
        for _ in range(count):
            (length,) = _TEXT_LENGTH.unpack_from(assignment, at)
            at += _TEXT_LENGTH.size
            topic = assignment[at : at + length].decode()
            at += length
            (partitions,) = _COUNT.unpack_from(assignment, at)
            at += _COUNT.size * (1 + partitions)
            if partitions:
                topics.add(topic)
    except struct.error as error:
        raise ValueError(f"not a consumer's assignment: {assignment[:80]!r}") from error
    return frozenset(topics)


# After this long a call that has not returned is woken, this often, and then given up.
_PATIENCE_SECONDS: Final = 2.0
_NUDGE_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 10.0


def group_offsets(ledger_topic: str) -> list[TopicPartition]:
    """What every transaction of this ingester commits for the group before anything else.

    Only that the broker checks the member and generation matters: the offset itself means nothing.
    """
    return [TopicPartition(ledger_topic, 0, 0)]


def send_group_commit(
    producer: Producer,
    offsets: Sequence[TopicPartition],
    group: bytes,
    seconds: float,
    *,
    on_stuck: Callable[[], None],
) -> None:
    """`send_offsets_to_transaction`, whose time limit librdkafka does not keep; blocks, KafkaException.

    When the group coordinator's connection goes away at the wrong moment the call waits for a change of some
    connection, which may never come (confluentinc/librdkafka#5456, seen within a minute of cut connections).
    A request about topics opens one. Where that does not help `on_stuck` is called, from another thread,
    about ten seconds after the time limit: nothing but the end of the process gets the caller out then.
    """
    with _watched(producer, seconds + _GRACE_SECONDS, on_stuck):
        producer.send_offsets_to_transaction(list(offsets), group, seconds)


@contextmanager
def _watched(producer: Producer, seconds: float, on_stuck: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()
    deadline = time.monotonic() + seconds

    def watch() -> None:
        pause = _PATIENCE_SECONDS
        while not ended.wait(pause):
            if time.monotonic() > deadline:
                on_stuck()
                return
            with suppress(KafkaException):
                producer.list_topics(timeout=1.0)
            pause = _NUDGE_SECONDS

    start_thread(watch, name="group-commit-watch")
    try:
        yield
    finally:
        ended.set()
