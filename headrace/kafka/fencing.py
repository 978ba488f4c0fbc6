"""What keeps an earlier leader out: fencing, and the group commit that begins each transaction.

After its fencing nothing that a transactional id had open before can ever commit. The group commit is
accepted only from the current generation: the group metadata that it carries says, in librdkafka's form,
which that is.
"""

import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from confluent_kafka import KafkaException, Producer, TopicPartition

from headrace.kafka.kafka_clients import Properties, new_transactional_producer
from headrace.kafka.kafka_errors import is_unanswered, translate
from headrace.kafka.librdkafka import await_broker
from headrace.model.errors import Fenced, LeadershipLost, Unavailable
from headrace.process.threads import of_each, start_thread

# In parallel: aborting an open transaction takes the broker 0.6 s (24 at once: 1.0 s, 8 in a row: 6.3 s).
_AT_ONCE: Final = 32
_CALL_SECONDS: Final = 1.0
# As long as librdkafka waits before it asks again for the coordinator, when it has no broker yet.
_CONNECT_SECONDS: Final = 0.5


def slot_id(name: str, slot: int) -> str:
    """The transactional id of a slot."""
    return f"{name}-{slot}"


def driver_id(name: str) -> str:
    """The transactional id of the driver's own ledger writes."""
    return f"{name}-driver"


def command_id(name: str) -> str:
    """The transactional id of commands: one for all, so that the next ends what the last left open."""
    return f"{name}-command"


def fence(
    properties: Properties,
    transactional_ids: Collection[str],
    *,
    timeout: float,
    still_leads: Callable[[], bool] | None = None,
    require_wanted: Callable[[], object] = lambda: None,
) -> None:
    """Return when every id's open transaction is aborted or complete and its older producers are refused.

    Blocks up to `timeout` seconds, then Unavailable. LeadershipLost when another driver fences the same ids,
    unless the group says by `still_leads` that it is one of the past, which lags: then they are fenced
    again. `require_wanted` is called while brokers do not answer, and may raise to end the wait.
    It stops only producers initialised before: void the plans first, so that none initialises later with one.
    """
    fence_one = partial(
        _fence_one,
        properties,
        deadline=time.monotonic() + timeout,
        still_leads=still_leads,
        require_wanted=require_wanted,
    )
    # The first failure is raised; the others end at the same deadline.
    of_each(fence_one, transactional_ids, at_once=_AT_ONCE, name="fence")


def _fence_one(
    properties: Properties,
    transactional_id: str,
    *,
    deadline: float,
    still_leads: Callable[[], bool] | None,
    require_wanted: Callable[[], object],
) -> None:
    while True:
        producer = new_transactional_producer(properties, transactional_id)
        try:
            initialise(producer, transactional_id, deadline=deadline, require_wanted=require_wanted)
        except Fenced as error:
            if still_leads is None or not still_leads():
                raise LeadershipLost(
                    f"Another instance fences {transactional_id!r}: it has taken the lead."
                ) from error
            if time.monotonic() >= deadline:
                raise Unavailable(f"Others keep fencing {transactional_id!r}: {error}") from error
        else:
            producer.close()
            return


def initialise(
    producer: Producer,
    transactional_id: str,
    *,
    deadline: float,
    require_wanted: Callable[[], object] = lambda: None,
) -> None:
    """`init_transactions`, repeated while it is unanswered until `deadline` (monotonic).

    Translated errors: Fenced, AccessDenied, Unavailable; and what `require_wanted`, called between two
    repetitions, raises to end the wait.
    """
    await_broker(producer, _CONNECT_SECONDS)
    while True:
        require_wanted()
        left = deadline - time.monotonic()
        try:
            producer.init_transactions(max(0.1, min(_CALL_SECONDS, left)))
        except KafkaException as error:
            if not is_unanswered(error) or time.monotonic() >= deadline:
                what = f"transactional id {transactional_id!r} could not be initialised"
                found = translate(error, what=what)
                raise (found if is_unanswered(error) is False else Unavailable(str(found))) from error
        else:
            return


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
