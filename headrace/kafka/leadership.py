"""Which process leads: the member of `headrace-<name>` that holds the ledger topic's one partition.

The member is a consumer that is polled by a thread of its own and never reads.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from headrace.kafka.cache_files import INSTANCE_PREFIX
from headrace.kafka.fencing import parse_group_metadata
from headrace.kafka.kafka_clients import Properties, new_consumer
from headrace.kafka.kafka_errors import kind_of, translate
from headrace.kafka.librdkafka import Waker
from headrace.model.errors import AccessDenied, LeadershipLost
from headrace.options.client_names import HEARTBEAT_MS
from headrace.process.threads import start_thread

# How late it may notice that it is to leave, where it cannot be woken; whatever the group says wakes it at
# once. A worker has hundreds of members: each look costs more than it seems.
_POLL_SECONDS: Final = 0.5
_LONG_POLL_SECONDS: Final = 5.0
# How long a static member takes leave before its consumer is closed.
_LEAVE_SECONDS: Final = 2.0
_LEAVE_POLL_SECONDS: Final = 0.02

# After one of these the member is no more, whatever the consumer does next.
_ENDS: Final = frozenset(
    {
        KafkaError._FATAL,  # noqa: SLF001 - how the library names its local codes
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - as above
        KafkaError.FENCED_INSTANCE_ID,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCallbacks:
    """What a member's owner is called with, always from the member's thread."""

    on_held: Callable[["GroupMember", bytes], None]
    """It holds the partition; the group metadata of the generation that has just begun."""
    on_waiting: Callable[["GroupMember"], None]
    """It is in the group, and another member holds the partition."""
    on_gone: Callable[["GroupMember", str], None]
    """It can hold nothing any more (or lost what it held), with the reason. Said at most once."""
    on_problem: Callable[["GroupMember", KafkaError], None]
    """Something that may pass: a broker away, rights missing."""


def heartbeat_ms(properties: Properties, session_timeout_ms: int) -> int:
    """How often a member tells its group that it is there: a configuration may only have it more often.

    A standby learns by it that the leader has left, well within the five seconds promised.
    """
    often_enough = max(100, min(HEARTBEAT_MS, session_timeout_ms // 5))
    return min(often_enough, int(properties.get("heartbeat.interval.ms", often_enough)))


class GroupMember:
    """Joins at once. `close` leaves the group and waits for the thread."""

    def __init__(
        self,
        properties: Properties,
        *,
        group: str,
        topic: str,
        session_timeout_ms: int,
        instance_id: str | None,
        events: MemberCallbacks,
    ) -> None:
        self._instance_id = instance_id
        self._events = events
        self._holds = False
        self._gone = False
        self._is_replaced = False
        self._stop = threading.Event()
        ours: dict[str, object] = {
            "group.id": group,
            # The classic protocol gives every rebalance a generation, which transactions are checked by.
            "group.protocol": "classic",
            # Cooperative: when a standby arrives the leader keeps the partition and learns the generation.
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": heartbeat_ms(properties, session_timeout_ms),
            # A stalled process is detected by its session; this bounds a stalled thread.
            "max.poll.interval.ms": max(
                int(properties.get("max.poll.interval.ms", "300000")), session_timeout_ms
            ),
            "auto.offset.reset": "latest",
            # How soon a deleted ledger topic is seen missing from the subscription.
            "topic.metadata.refresh.interval.ms": 30_000,
        }
        if instance_id is not None:
            ours["group.instance.id"] = instance_id
        self._consumer = new_consumer(properties, ours, on_error=self._judge)
        self._waker = Waker(self._consumer)
        self._poll_seconds = self._waker.seconds(woken=_LONG_POLL_SECONDS, otherwise=_POLL_SECONDS)
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        self._thread = start_thread(self._run, name=f"member-{group}")

    @property
    def is_replaced(self) -> bool:
        """Whether another process has come with this member's `instance_id`."""
        return self._is_replaced

    def retire(self) -> None:
        """Begin to leave without waiting; no callback is called any more."""
        self._gone = True
        self._stop.set()
        self._waker.wake()

    def close(self, timeout: float) -> bool:
        """Leave the group; False when the consumer has not closed within `timeout` seconds."""
        self.retire()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                # A record can only have been fetched before the pause took hold: this consumer never reads.
                # Not `poll`: it wakes five times a second to see whether Python has a signal.
                for message in self._consumer.consume(1, self._poll_seconds):
                    error = message.error()
                    if error is not None:
                        self._judge(error)
        except BaseException as error:
            # Whatever ends this thread ends the lead: nobody would notice a loss any more.
            self._end(f"the group's consumer failed: {error!r}")
            if not isinstance(error, KafkaException):
                raise
        finally:
            # Also after a loss, and at once: librdkafka would join again by itself.
            with suppress(KafkaException, RuntimeError):
                self._leave()
            self._waker.close()
            self._consumer.close()

    def _leave(self) -> None:
        """Have a static member leave: closing does not, and it would be missed for a session timeout."""
        if self._instance_id is None or self._is_replaced:
            return
        self._consumer.unsubscribe()
        deadline = time.monotonic() + _LEAVE_SECONDS
        # It has an id until it has told the broker.
        while self._member_id() and time.monotonic() < deadline:
            self._consumer.consume(1, _LEAVE_POLL_SECONDS)

    def _member_id(self) -> str:
        return parse_group_metadata(self._consumer.consumer_group_metadata()).member

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # The only place where metadata is captured. Inside this callback, and before the assignment is
        # answered, librdkafka waits: what it says of the generation belongs to this assignment. Outside, a
        # rebalance may be under way. An empty assignment matters as much: a standby's arrival raises the
        # generation, and everything that carries the old one is refused from then on.
        raw: bytes = consumer.consumer_group_metadata()
        consumer.incremental_assign([TopicPartition(p.topic, p.partition, OFFSET_END) for p in partitions])
        if partitions:
            self._holds = True
            # Never read here: while an offset commit of a zombie is pending, a read would hang.
            consumer.pause(partitions)
        if self._gone:
            return
        if not self._holds:
            self._events.on_waiting(self)
        elif parse_group_metadata(raw).is_checked_by_broker:
            self._events.on_held(self, raw)
        else:
            # The broker takes such metadata unchecked, from anyone: a transaction must never carry it.
            self._end("the group has forgotten this member while it was assigned the ledger")

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)
        if partitions and self._holds:
            self._end("the group gave the ledger's partition to another instance")

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)
        if self._holds:
            self._end("the group no longer knows this instance (it did not answer for a session timeout)")

    def _judge(self, error: KafkaError) -> None:
        if error.code() == KafkaError._FATAL and self._instance_id is not None:  # noqa: SLF001 - as above
            # What lies behind _FATAL is not given out; for a classic consumer it is FENCED_INSTANCE_ID alone.
            self._is_replaced = True
            self._end(f"{_of_another(self._instance_id)} ({error.str()})")
        elif error.fatal() or error.code() in _ENDS:
            self._end(error.str())
        elif not self._gone:
            self._events.on_problem(self, error)

    def _end(self, reason: str) -> None:
        already, self._gone = self._gone, True
        self._stop.set()
        self._holds = False
        if not already:
            self._events.on_gone(self, reason)


def _of_another(instance_id: str) -> str:
    """What it means that a member came with this instance's id."""
    if instance_id.startswith(INSTANCE_PREFIX):
        return "another process has joined from the same state.dir; give each process a state.dir of its own"
    return (
        f"another process has joined with instance.id {instance_id!r}; give each process an instance.id of "
        "its own, or none"
    )


_log = structlog.get_logger(__name__)

# How long a wait for the lead sleeps before it looks at its stop signal again.
_LEAD_POLL_SECONDS: Final = 0.1
_CLOSE_SECONDS: Final = 5.0


class Role(StrEnum):
    """What this process is to the group."""

    JOINING = "joining"
    STANDBY = "standby"
    LEADER = "leader"
    LOST = "lost"  # for good: to lead again, join again, as another member
    CLOSED = "closed"


class Leadership:
    """This process's place in the group. Thread-safe; its consumer is polled by a thread of its own.

    `on_lost(reason)` is called once, from that thread, when this member can lead no more: its work ends. A
    process leads again by a new `Leadership`, which carries nothing over from this one.
    With an `instance_id` the member is static: a process that comes with it takes its place at once, and what
    the one before it still sends is refused.
    """

    def __init__(
        self,
        properties: Properties,
        *,
        name: str,
        ledger_topic: str,
        session_timeout_ms: int = 10_000,
        instance_id: str | None = None,
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        self.group = group_id(name)
        self._properties = properties
        self._ledger_topic = ledger_topic
        self._session_timeout_ms = session_timeout_ms
        self._instance_id = instance_id
        self._on_lost = on_lost
        self._changed = threading.Condition()
        self._role = Role.JOINING
        self._member: GroupMember | None = None
        self._metadata: bytes | None = None
        self._reason = ""
        self._problem: str | None = None
        self._is_replaced = False

    @property
    def role(self) -> Role:
        """What this process is to the group right now."""
        with self._changed:
            return self._role

    @property
    def is_replaced(self) -> bool:
        """Whether it is lost because another process has come with its `instance_id`."""
        with self._changed:
            return self._is_replaced

    @property
    def problem(self) -> str | None:
        """What keeps this process from joining or leading, in a sentence; None when nothing is known."""
        with self._changed:
            return self._problem

    def join(self) -> None:
        """Enter the group, once. Does not block; the topic has to exist."""
        with self._changed:
            if self._member is not None:
                raise ValueError("this process has joined already")
            self._member = self._new_member()

    def wait_for_lead(self, timeout: float | None, stop: threading.Event) -> bool:
        """True once this process leads; False when `timeout` seconds (None: no limit) or `stop` came first.

        LeadershipLost when it can never lead, AccessDenied when the broker forbids it to join.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self._role is not Role.LEADER:
                if self._role in {Role.LOST, Role.CLOSED}:
                    raise LeadershipLost(self._lost_sentence())
                if stop.is_set() or (deadline is not None and time.monotonic() >= deadline):
                    return False
                self._changed.wait(_LEAD_POLL_SECONDS)
        return True

    def metadata(self) -> bytes:
        """The group metadata for the next transaction, of the newest generation. LeadershipLost."""
        with self._changed:
            if self._metadata is None or self._role is not Role.LEADER:
                raise LeadershipLost(self._lost_sentence())
            return self._metadata

    def close(self) -> None:
        """Leave the group, so that a standby takes over at its next heartbeat. Blocks for 5 s at most."""
        with self._changed:
            member, self._member = self._member, None
            self._metadata = None
            if self._role is not Role.LOST:
                self._role = Role.CLOSED
                self._reason = "this instance has left the group"
            self._changed.notify_all()
        if member is not None and not member.close(_CLOSE_SECONDS):
            _log.warning(
                "group_left_late", group=self.group, detail="a standby waits for the session timeout"
            )

    def _new_member(self) -> GroupMember:
        events = MemberCallbacks(
            on_held=self._held, on_waiting=self._waiting, on_gone=self._gone, on_problem=self._met_problem
        )
        return GroupMember(
            self._properties,
            group=self.group,
            topic=self._ledger_topic,
            session_timeout_ms=self._session_timeout_ms,
            instance_id=self._instance_id,
            events=events,
        )

    # A member's thread may call back before `_new_member` has returned; it then waits for the lock.

    def _held(self, member: GroupMember, metadata: bytes) -> None:
        with self._changed:
            if member is self._member and self._role not in {Role.LOST, Role.CLOSED}:
                self._role, self._metadata, self._problem = Role.LEADER, metadata, None
                self._changed.notify_all()

    def _waiting(self, member: GroupMember) -> None:
        with self._changed:
            if member is self._member and self._role is Role.JOINING:
                self._role, self._problem = Role.STANDBY, None
                self._changed.notify_all()

    def _gone(self, member: GroupMember, reason: str) -> None:
        with self._changed:
            current = member is self._member
            if current:
                self._is_replaced = member.is_replaced
        if current:
            self._lose(reason)

    def _met_problem(self, member: GroupMember, error: KafkaError) -> None:
        found = translate(error, what=f"consumer group {self.group!r}")
        with self._changed:
            if member is not self._member or self._metadata is not None:
                return
            self._problem = str(found)
        if kind_of(error) is AccessDenied:
            _log.warning("group_forbidden", group=self.group, error=str(found))

    def _lose(self, reason: str) -> None:
        with self._changed:
            if self._role in {Role.LOST, Role.CLOSED}:
                return
            # In this order and for good: nobody gets metadata from here on.
            self._metadata, self._role, self._reason = None, Role.LOST, reason
            self._changed.notify_all()
        if self._on_lost is not None:
            self._on_lost(reason)

    def _lost_sentence(self) -> str:
        if self._role in {Role.JOINING, Role.STANDBY}:
            return f"This instance does not lead consumer group {self.group!r}."
        return f"This instance does not lead consumer group {self.group!r} any more: {self._reason}."


def group_id(name: str) -> str:
    """The consumer group of the ingester `name`."""
    return f"headrace-{name}"
