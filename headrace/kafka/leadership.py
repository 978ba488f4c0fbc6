"""Who leads: the member of the group `headrace-<name>` that holds the one partition of the ledger topic."""

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import structlog
from confluent_kafka import KafkaError

from headrace.kafka.group_member import GroupMember, MemberCallbacks
from headrace.kafka.kafka_clients import Properties
from headrace.kafka.kafka_errors import kind_of, translate
from headrace.model.errors import AccessDenied, LeadershipLost

_log = structlog.get_logger(__name__)

# How long a wait for the lead sleeps before it looks at its stop signal again.
_POLL_SECONDS: Final = 0.1
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
    def is_leader(self) -> bool:
        """Whether this process leads, as far as it knows."""
        return self.role is Role.LEADER

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
                self._changed.wait(_POLL_SECONDS)
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
