"""The driver's ledger: taken over with the lead, kept at hand, written to, and watched for its loss."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

import structlog
from confluent_kafka import TopicPartition

from headrace.kafka import control_records
from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.cache_files import (
    CacheDirectory,
    LastRead,
    collect_rows,
    find_cache_directory,
    found_identity,
)
from headrace.kafka.control_records import Control, Owner, SlotCount, decode_control, encode_control
from headrace.kafka.fencing import command_id, fence, parse_group_metadata, slot_id
from headrace.kafka.kafka_clients import ClientProperties, require_brokers
from headrace.kafka.kafka_errors import CommitUnknown, LedgerEndHidden
from headrace.kafka.leadership import group_id
from headrace.kafka.ledger_cache import LedgerCache, open_cache
from headrace.kafka.ledger_follower import Applied, Follower, PassOver, read_uncommitted
from headrace.kafka.ledger_topic import (
    OF_INGESTERS,
    LedgerIdentity,
    LedgerTopic,
    LedgerWords,
    describe_ledger_topic,
    marker_of,
    prepare_ledger_topic,
    read_remembered_ledgers,
    refuse_changed,
    refuse_other_members,
    refuse_other_owner,
)
from headrace.kafka.ledger_writer import GroupOffsets, LedgerWriter, Write
from headrace.model.errors import AccessDenied, HeadraceError, LeadershipLost, TopicMissing, Unavailable
from headrace.model.ledger_entry import ControlKey, is_control_key

_log = structlog.get_logger(__name__)

_CALL_SECONDS: Final = 10.0
_REMEMBER_SECONDS: Final = 24 * 3600.0
# How long a read may stand still before it counts as held back, in boundary intervals of the tasks'
# transactions.
_PATIENCE: Final = 3


class LeadershipPort(Protocol):
    """What the ledger has to know of the leadership."""

    def metadata(self) -> bytes:
        """The group metadata of the moment; LeadershipLost without the lead."""
        ...


def prepare_ledger(
    clients: ClientProperties,
    *,
    name: str,
    topic: str,
    replication_factor: int | None = None,
    accept_new_ledger: bool = False,
    timeout: float = _CALL_SECONDS,
    words: LedgerWords = OF_INGESTERS,
) -> LedgerTopic:
    """The ledger's topic, fit to be led over, created when missing: to be called before joining the group.

    InvalidLedger when the group remembers another ledger, or another configuration runs under this name;
    InvalidConfiguration when the brokers are too old;
    Unavailable when a call to the brokers takes longer than `timeout` seconds.
    """
    admin = KafkaAdmin(clients.admin, timeout=timeout)
    group = group_id(name)
    if not accept_new_ledger:
        # Before the topic is made, so that a lost one is not replaced on the way to the error.
        read_remembered_ledgers(admin, group).refuse_other(
            topic, admin.topic_id(topic) if admin.has_topic(topic) else None
        )
    refuse_other_members(admin, group, topic, words)
    # Of brokers that answer, and before anything is made there.
    require_brokers(clients.admin, timeout=timeout)
    return prepare_ledger_topic(admin, topic, replication_factor=replication_factor, words=words)


class DriverLedger:
    """The ledger as its one leader has it. `take_over` first; then thread-safe.

    `anchors` are output topics that carry the group's memory (`remember` adds more); `boundary_seconds` is
    how long a task's transaction stays open at most; `home` is the cache's place where its lock was taken
    before, and is closed with the ledger; `on_applied` is called, in the follower's thread, with
    every record committed after the takeover, this process's own included; `on_failed` with what ended it;
    `pass_over` as in Follower; `before` is the ledger that it has to be, where one is known.
    Whatever waits here for brokers ends with LeadershipLost soon after the lead is lost or `is_given_up`.
    """

    def __init__(
        self,
        clients: ClientProperties,
        *,
        name: str,
        topic: str,
        lead: LeadershipPort,
        state_dir: Path | None,
        home: CacheDirectory | None = None,
        anchors: Iterable[str] = (),
        boundary_seconds: float = 1.0,
        accept_new_ledger: bool = False,
        on_applied: Callable[[tuple[Applied, ...]], None] | None = None,
        on_failed: Callable[[HeadraceError], None] | None = None,
        is_given_up: Callable[[], bool] = lambda: False,
        pass_over: PassOver | None = None,
        before: LedgerIdentity | None = None,
        words: LedgerWords = OF_INGESTERS,
    ) -> None:
        self._pass_over = pass_over
        self._before = before
        self._words = words
        self._on_failed = on_failed
        self._is_given_up = is_given_up
        self._clients = clients
        self._name = name
        self._topic = topic
        self._group = group_id(name)
        self._state_dir = state_dir
        self._anchors = set(anchors)
        self._stall_seconds = _PATIENCE * boundary_seconds
        self._accept_new_ledger = accept_new_ledger
        self._on_applied = on_applied
        self._admin = KafkaAdmin(clients.admin)
        self._lead = lead
        self._writer = LedgerWriter(
            clients.producer,
            name=name,
            ledger_topic=topic,
            metadata=self._metadata,
            still_leads=self._still_leads,
        )
        self._home = home
        self._cache: LedgerCache | None = None
        self._follower: Follower | None = None
        self._found: LedgerTopic | None = None
        self._slots = 0
        self._remembered: tuple[float, frozenset[str]] = (0.0, frozenset())

    @property
    def cache(self) -> LedgerCache:
        """What the ledger says; complete since `take_over`."""
        assert self._cache is not None, "take_over comes first"
        return self._cache

    @property
    def last_read(self) -> LastRead:
        """See `Follower.last_read`."""
        return self._reading().last_read

    @property
    def slots(self) -> int:
        """The largest number of slots ever used: so many are fenced when all are."""
        return self._slots

    def take_over(self, *, timeout: float, claims: bool = True) -> LedgerCache:
        """Everything that is committed, after nothing of the past can commit any more. Lead first. Blocks.

        Without `claims` the group remembers the ledger that it had, until `claim`.

        InvalidLedger, LeadershipLost, AccessDenied; Unavailable after `timeout` seconds (reading a large
        ledger not counted while it proceeds).
        """
        deadline = time.monotonic() + timeout
        self._open()
        follower = self._reading()
        # What is visible comes first: it says how many slots there are, and most of it need not be read
        # twice.
        follower.wait_for_visible_end(timeout)
        self._slots = max(self._counted_slots(), self._slots_in_the_open(follower.position, timeout))
        self._fence_and_read_all(deadline)
        if claims:
            self.claim()
        follower.go_live()
        return self.cache

    def recover(self, slots: Collection[int] | None = None, *, timeout: float = 30.0) -> None:
        """Return when what these slots had open is decided and what they committed is in the cache.

        Void their plans first. None is all slots, the driver's own producer included. ReadHeldBack when other
        slots' transactions hide the end for three boundary intervals: void all, then recover all.
        InvalidLedger when the topic is gone or another.
        """
        deadline = time.monotonic() + timeout
        with self._or_invalid_ledger():
            if slots is None:
                self._fence_and_read_all(deadline)
                return
            self._fence([slot_id(self._name, slot) for slot in slots], timeout)
            self.read_to_end()

    def raise_slots(self, slots: int) -> None:
        """Commit that this many slots are in use, before a new one's first task. Never lowered. Blocks."""
        if slots > self._slots:
            self.commit([(control_records.SLOTS, encode_control(SlotCount(slots=slots)))])
            self._slots = slots

    def commit(
        self,
        writes: Sequence[Write],
        *,
        offsets: Sequence[TopicPartition] = (),
        other: GroupOffsets | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Commit the driver's own writes in one transaction; return when that is certain. Blocks.

        No write may name an object that a live plan holds. LeadershipLost; Unavailable when the broker does
        not answer for `timeout` seconds: they may have happened or not, so write them again before planning
        their objects. InvalidLedger when the topic is gone or another.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                with self._or_invalid_ledger():
                    self._writer.commit(
                        writes, offsets=offsets, other=other, timeout=max(1.0, deadline - time.monotonic())
                    )
            except CommitUnknown as error:
                # The next transaction's init decides the one in doubt, and nobody else writes these keys:
                # saying it again is right in both cases.
                if time.monotonic() > deadline:
                    raise Unavailable(f"The ledger could not be written: {error}") from error
            else:
                return

    def control(self, key: ControlKey) -> Control | None:
        """A control record as the cache has it."""
        raw = self.cache.controls().get(key)
        return None if raw is None else decode_control(key, raw)

    def reads_to(self, end: int, timeout: float) -> bool:
        """Whether all below the offset `end` is in the cache in `timeout` seconds. Blocks.

        LeadershipLost; whatever ended the reading.
        """
        try:
            self._reading().wait_for(end, timeout)
        except LedgerEndHidden:
            return False
        return True

    def read_to_end(self) -> None:
        """Return when all that the ledger has now is in the cache. Blocks.

        Unavailable; LedgerEndHidden where an open transaction hides some of it; whatever ended the reading.
        """
        # With open transactions counted: at a takeover nothing of fenced ones can come later or lie above.
        _, end = self._admin.ends(self._topic)
        self._reading().wait_for(end, self._stall_seconds)

    def add_anchor(self, anchor: str) -> None:
        """Let this output topic carry the group's memory too, from the next `check` on. Does not block."""
        self._anchors.add(anchor)

    def check(self) -> None:
        """Return when the ledger is still fit, and the one taken over; to be called every minute. Blocks.

        InvalidLedger when not (exit 2); Unavailable while the brokers do not answer; whatever ended the
        reading.
        """
        self.check_identity()
        refuse_other_members(self._admin, self._group, self._topic, self._words)
        self._reading().check()
        at, anchors = self._remembered
        if time.monotonic() - at > _REMEMBER_SECONDS or self._anchors - anchors:
            self._commit_markers([])

    def check_identity(self) -> None:
        """Return when the topic is the one taken over and fit; InvalidLedger when not (exit 2). Blocks."""
        try:
            found = describe_ledger_topic(self._admin, self._topic, self._words).identity
        except TopicMissing:
            found = None
        refuse_changed(self._identity(), found, self._words)

    def close(self) -> None:
        """Stop reading, let go of the producer and the cache. Blocks shortly."""
        if self._follower is not None:
            self._follower.close()
        self._writer.close()
        if self._cache is not None:
            self._cache.close()
        if self._home is not None:
            self._home.close()

    # -- taking over, step by step -------------------------------------------------------------------------

    def _open(self) -> None:
        found = self._found = describe_ledger_topic(self._admin, self._topic, self._words)
        if self._before is not None:
            refuse_changed(self._before, found.identity, self._words)
        memory = read_remembered_ledgers(self._admin, self._group)
        if self._home is None:
            self._home = find_cache_directory(self._state_dir, self._name)
        home = self._home
        if not self._accept_new_ledger:
            memory.refuse_other(self._topic, found.identity.topic_id)
            cached = found_identity(home)
            # The second memory, for when the group's has expired; while it has one, a cache is merely old.
            if memory.is_empty and cached is not None:
                refuse_changed(cached, found.identity)
        refuse_other_members(self._admin, self._group, self._topic, self._words)
        low, high = self._admin.ends(self._topic)
        self._cache = open_cache(
            home, found.identity, ends=(low, high), delete_retention_ms=found.delete_retention_ms
        )
        self._follower = Follower(
            self._clients.consumer,
            self._cache,
            topic=self._topic,
            group=self._group,
            start=low,
            on_applied=self._on_applied,
            on_failed=self._on_failed,
            require_wanted=self._metadata,
            pass_over=self._pass_over,
            words=self._words,
        )

    def _reading(self) -> Follower:
        assert self._follower is not None, "take_over comes first"
        return self._follower

    def _identity(self) -> LedgerIdentity:
        assert self._found is not None, "take_over comes first"
        return self._found.identity

    def _counted_slots(self) -> int:
        found = self.control(control_records.SLOTS)
        return found.slots if isinstance(found, SlotCount) else 0

    def _slots_in_the_open(self, start: int, timeout: float) -> int:
        """The largest count that no read-committed reader sees yet: its transaction may yet be completed."""
        _, end = self._admin.ends(self._topic)
        tail = read_uncommitted(
            self._clients.consumer,
            topic=self._topic,
            group=self._group,
            start=start,
            end=end,
            timeout=timeout,
            require_wanted=self._metadata,
            words=self._words,
        )
        counts = [0]
        for record in tail:
            if self._pass_over is not None and not is_control_key(record[0]):
                continue
            raw = collect_rows([record]).controls.get(control_records.SLOTS.name)
            if raw is not None:
                found = decode_control(control_records.SLOTS, raw)
                counts.append(found.slots if isinstance(found, SlotCount) else 0)
        return max(counts)

    def _fence_and_read_all(self, deadline: float) -> None:
        while True:
            fenced = self._slots
            self._fence_all(fenced, max(1.0, deadline - time.monotonic()))
            try:
                self.read_to_end()
            except LedgerEndHidden as error:
                if time.monotonic() > deadline:
                    raise Unavailable(f"The ledger cannot be read to its end. {error}") from error
                _log.warning("ledger_end_blocked", error=str(error), detail="all slots are fenced again")
                continue
            self._slots = max(self._slots, self._counted_slots())
            # A count that a driver of the past still got through means slots that were not fenced.
            if self._slots == fenced:
                return

    def _fence_all(self, slots: int, timeout: float) -> None:
        # A sender of commands that died in mid-transaction would hide the ledger's end as a slot does.
        ids = [slot_id(self._name, slot) for slot in range(slots)] + [command_id(self._name)]
        with ThreadPoolExecutor(1, thread_name_prefix="fence-slots") as beside:
            fenced = beside.submit(self._fence, ids, timeout)
            self._writer.initialise(timeout)
            fenced.result()

    def _fence(self, transactional_ids: Collection[str], timeout: float) -> None:
        fence(
            self._clients.producer,
            transactional_ids,
            timeout=timeout,
            still_leads=self._still_leads,
            require_wanted=self._metadata,
        )

    def _metadata(self) -> bytes:
        """The group metadata of the moment; LeadershipLost without the lead, or with the ledger given up."""
        if self._is_given_up():
            raise LeadershipLost("This instance has given its leadership up.")
        return self._lead.metadata()

    def _still_leads(self) -> bool:
        """Whether the group, asked now, has this process hold the ledger. LeadershipLost, Unavailable."""
        ours = parse_group_metadata(self._metadata()).member
        return ours in self._admin.holders(self._group, self._topic)

    @contextmanager
    def _or_invalid_ledger(self) -> Iterator[None]:
        """InvalidLedger in place of the block's error where the ledger topic itself is lost."""
        try:
            yield
        except (LeadershipLost, TopicMissing, Unavailable):
            if self._is_given_up():
                raise
            # A topic without leaders is Unavailable too: brokers that come back look like that for a moment.
            with suppress(Unavailable, AccessDenied):
                self.check_identity()
            raise

    def claim(self) -> None:
        """Say in the ledger whose it is, and in the group which ledger is its own. Blocks, as `commit`."""
        found = self.control(control_records.OWNER)
        owner = found.name if isinstance(found, Owner) else None
        if not self._accept_new_ledger:
            refuse_other_owner(owner, self._name, self._topic, self._words)
        claim: list[Write] = []
        if owner != self._name:
            claim.append((control_records.OWNER, encode_control(Owner(name=self._name))))
        self._commit_markers(claim)

    def _commit_markers(self, beside: Sequence[Write]) -> None:
        """Commit the marker at every anchor, with these writes; noted only once it is certain."""
        anchors = frozenset(self._anchors)
        topics = read_remembered_ledgers(self._admin, self._group).anchor_topics(anchors)
        # A commit for a topic that is gone would be refused with all others.
        present = sorted(topic for topic in topics if self._admin.has_topic(topic))
        marker = marker_of(self._identity())
        self.commit(beside, offsets=[TopicPartition(topic, 0, 0, marker) for topic in present])
        self._remembered = (time.monotonic(), anchors.intersection(present))
