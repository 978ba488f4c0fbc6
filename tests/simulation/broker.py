"""A Kafka cluster of one broker as clients see it: logs, transactions, groups, topics that come and go.

What it does was measured on Apache Kafka 4.1 (`tests/protocol` has the same semantics as a model). Aborted
records and open transactions are hidden from read-committed readers, markers take offsets of their own, a
newer initialisation fences older producers, offsets of a transaction are checked by the group's generation.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from tests.simulation.kernel import Kernel, Process, Signal

RECORD_BYTES: Final = 70
"""What a batch and a record cost beside key and value."""
DEFAULT_LIMIT: Final = 1_048_588


def refusal(
    code: int, text: str = "", *, fatal: bool = False, retriable: bool = False, aborts: bool = False
) -> KafkaException:
    """A client's exception."""
    return KafkaException(
        KafkaError(code, text or None, fatal=fatal, retriable=retriable, txn_requires_abort=aborts)
    )


@dataclass(slots=True)
class Record:
    """One offset of a log. `transaction` None: plain. `is_marker`: takes an offset, and nobody gets it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    transaction: "Transaction | None" = None
    is_marker: bool = False
    leader_epoch: int = 0

    @property
    def size(self) -> int:
        """Bytes in its batch."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return RECORD_BYTES + len(self.key or b"") + len(self.value or b"") + headers


@dataclass(slots=True)
class Log:
    """One partition."""

    records: list[Record] = field(default_factory=list)
    begin: int = 0
    end: int = 0
    open: list[Record] = field(default_factory=list)
    """Records of transactions that were open when they came, of which the first may have ended."""
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """Leader epochs, and the offsets at which they began."""

    def append(self, record: Record) -> None:
        """At the end."""
        record.offset, record.leader_epoch = self.end, self.epochs[-1][0]
        self.end += 1
        self.records.append(record)
        if record.transaction is not None and not record.is_marker:
            self.open.append(record)

    def elect(self) -> None:
        """Another leader, of an epoch of its own; one in which nothing came is forgotten."""
        epoch = self.epochs[-1][0] + 1
        self.epochs = [one for one in self.epochs if one[1] < self.end] + [(epoch, self.end)]

    def end_of(self, epoch: int) -> int:
        """Where the records of this leader epoch, and of those before it, end; -1 for one that is to come."""
        if epoch >= self.epochs[-1][0]:
            return self.end if epoch == self.epochs[-1][0] else -1
        return next(start for later, start in self.epochs if later > epoch)

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of what lies before an offset."""
        return next((epoch for epoch, start in reversed(self.epochs) if start < offset), self.epochs[0][0])

    def cut_off(self, offset: int) -> None:
        """A leader that never had what comes from this offset on."""
        self.records = [one for one in self.records if one.offset < offset]
        self.end = offset
        self.elect()

    def delete_to(self, begin: int) -> None:
        """Let go of what lies below an offset."""
        self.begin = max(self.begin, min(begin, self.stable_end()))
        self.records = [one for one in self.records if one.offset >= self.begin]
        last = max(place for place, (_, start) in enumerate(self.epochs) if start <= max(self.begin, 0))
        self.epochs[: last + 1] = [(self.epochs[last][0], self.begin)]

    def stable_end(self) -> int:
        """The last stable offset: the first record of an open transaction, or the end."""
        open_ = self.open
        if not open_:
            return self.end
        # Records of transactions that have ended since are looked over once.
        while open_ and not (open_[0].transaction and open_[0].transaction.state == "open"):
            del open_[0]
        return open_[0].offset if open_ else self.end

    def from_offset(self, offset: int) -> Iterable[Record]:
        """Records from this offset on."""
        if not self.records:
            return ()
        first = self.records[0].offset
        if len(self.records) == self.end - first:
            return itertools.islice(self.records, max(offset - first, 0), None)
        return (one for one in self.records if one.offset >= offset)


@dataclass(slots=True)
class Topic:
    """One life of a topic."""

    name: str
    id: str
    logs: list[Log]
    configuration: dict[str, str]

    @property
    def limit(self) -> int:
        """`max.message.bytes`."""
        return int(self.configuration.get("max.message.bytes", str(DEFAULT_LIMIT)))


@dataclass(eq=False, slots=True)
class Transaction:
    """One transaction of a transactional id."""

    id: str
    epoch: int
    began: float
    process: Process | None = None
    state: str = "open"
    logs: dict[tuple[str, int], Log] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    """How many records it has, by topic."""
    offsets: dict[str, dict[tuple[str, int], tuple[int, str]]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether markers are still to come."""
        return self.state == "open"


@dataclass(eq=False, slots=True)
class Member:
    """One member of a group."""

    id: str
    process: Process
    session_seconds: float
    instance: str | None = None
    generation_told: int = -1
    holds_told: bool = False
    is_gone: bool = False
    is_replaced: bool = False
    inherits: bool = False
    """It holds what the member held whose place it has taken, and has not heard so yet."""
    silent_since: float | None = None
    """When its consumer was closed without leaving, as a static one is."""


@dataclass(slots=True)
class Group:
    """A consumer group: committed offsets, and members in the order in which they came."""

    generation: int = 0
    members: list[Member] = field(default_factory=list)
    topic: str = ""
    replaced: set[str] = field(default_factory=set)
    """Ids of static members whose place another has taken."""
    offsets: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)


class Change(Signal):
    """Given with each change of anything, and counted."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.count = 0

    def give(self) -> None:
        """Wake all who wait."""
        self.count += 1
        super().give()


class Broker:
    """The cluster. Its methods do not wait; they act at once, for whoever's turn it is."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.cluster_id = "simulated-cluster"
        self.topics: dict[str, Topic] = {}
        self.deleted: list[Topic] = []
        self.changed = Change(kernel)
        self.committed: Counter[str] = Counter()
        """How many records became visible, by topic; those that were deleted since too."""
        self.on_ended: Callable[[Transaction], None] = lambda _running: None
        """Called with each transaction that was committed."""
        self.on_compaction: Callable[[str], object] = lambda _name: None
        """Called with the name of a topic before it is compacted."""
        self.denied: set[str] = set()
        """Topics that clients may neither write to nor read."""
        self.hidden: set[str] = set()
        """Topics that they may not even describe."""
        self.leaderless: set[str] = set()
        """Topics whose partitions have no leader: nobody takes what is sent to them, or reads them."""
        self.groups: dict[str, Group] = {}
        self._epochs: dict[str, int] = {}
        self._forgotten: dict[str, int] = {}
        """The last epochs of ids that nobody has initialised since."""
        self._unknown: dict[str, int] = {}
        """Up to these epochs producers are not known any more."""
        self._open: dict[str, Transaction] = {}
        self._numbers = itertools.count(1)

    # -- topics ----------------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int, configuration: dict[str, str] | None = None) -> Topic:
        """A new topic; TOPIC_ALREADY_EXISTS."""
        if name in self.topics:
            raise refusal(KafkaError.TOPIC_ALREADY_EXISTS)
        topic = Topic(
            name,
            f"id-{next(self._numbers):04}",
            [Log() for _ in range(partitions)],
            dict(configuration or {}),
        )
        self.topics[name] = topic
        self.changed.give()
        return topic

    def delete(self, name: str) -> None:
        """Delete a topic with its records and what groups have committed for it."""
        self.deleted.append(self.topics.pop(name))
        for group in self.groups.values():
            for place in [place for place in group.offsets if place[0] == name]:
                del group.offsets[place]
        self.changed.give()

    def grow(self, name: str, count: int) -> None:
        """More partitions."""
        self.topics[name].logs.extend(Log() for _ in range(count))
        self.changed.give()

    def truncate(self, name: str, partition: int, begin: int) -> None:
        """Let retention take what lies below an offset."""
        self.topics[name].logs[partition].delete_to(begin)
        self.changed.give()

    def elect(self) -> None:
        """Other leaders of all partitions, which have all that the ones before them had."""
        for topic in self.topics.values():
            for log in topic.logs:
                log.elect()

    def compact(self, name: str, *, tombstones_before_ms: int = 0) -> None:
        """Keep of each key what came last, of what lies below an offset: the newest is not looked at.

        As Kafka does: what was aborted goes, what is in an open transaction or comes after it stays, markers
        stay, and tombstones as long as they are not older than that.
        """
        self.on_compaction(name)
        for log in self.topics[name].logs:
            stable = log.stable_end()
            cut = stable - int(self.kernel.rng.random() ** 2 * (stable - log.begin + 1))
            cleaned = [one for one in log.records if one.offset < min(cut, log.end - 1)]
            last = {one.key: one.offset for one in cleaned if is_visible(one)}
            gone = {
                one.offset
                for one in cleaned
                if not one.is_marker
                and (
                    not is_visible(one)
                    or last[one.key] != one.offset
                    or (one.value is None and one.timestamp_ms < tombstones_before_ms)
                )
            }
            log.records = [one for one in log.records if one.offset not in gone]
        self.changed.give()

    def forget_offsets(self) -> None:
        """What groups have committed is over, as after a week in which nothing was."""
        for group in self.groups.values():
            if not group.members:
                group.offsets.clear()
        self.changed.give()

    def log(self, name: str, partition: int) -> Log:
        """UNKNOWN_TOPIC_OR_PART."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= partition < len(topic.logs):
            raise refusal(KafkaError.UNKNOWN_TOPIC_OR_PART, f"no topic {name} or partition {partition}")
        return topic.logs[partition]

    def produce(
        self,
        name: str,
        partition: int,
        record: Record,
        transaction: Transaction | None = None,
    ) -> int:
        """Append; the record's offset. MSG_SIZE_TOO_LARGE, UNKNOWN_TOPIC_OR_PART."""
        log = self.log(name, partition)
        if record.size > self.topics[name].limit:
            raise refusal(KafkaError.MSG_SIZE_TOO_LARGE, aborts=transaction is not None)
        record.transaction = transaction
        log.append(record)
        if transaction is not None:
            transaction.logs[name, partition] = log
            transaction.counts[name] += 1
        else:
            self.committed[name] += 1
        self.changed.give()
        return record.offset

    def visible(self, name: str, partition: int) -> list[Record]:
        """What a read-committed reader gets of a partition, from its begin on."""
        log = self.log(name, partition)
        stable = log.stable_end()
        return [one for one in log.records if one.offset < stable and is_visible(one)]

    def durable(self, name: str, partition: int) -> list[Record]:
        """What is committed in a partition, as well where a transaction that is open before it hides it."""
        return [one for one in self.log(name, partition).records if is_visible(one)]

    # -- transactions ----------------------------------------------------------------------------------------

    def initialise(self, transactional_id: str) -> int:
        """End what the id had open; the epoch of its newest producer."""
        self.expire()
        running = self._open.get(transactional_id)
        if running is not None:
            self._end(running, "aborted")
        last = self._epochs.get(transactional_id, self._forgotten.pop(transactional_id, -1))
        epoch = self._epochs[transactional_id] = last + 1
        return epoch

    def forget_ids(self) -> None:
        """Let go of ids whose last transaction has ended, as after `transactional.id.expiration.ms`.

        Who initialises one again has another producer id: what was initialised before is not known any more.
        """
        for name in [name for name in self._epochs if name not in self._open]:
            self._forgotten[name] = self._epochs.pop(name)
            self._unknown[name] = self._forgotten[name]

    def require_epoch(self, transactional_id: str, epoch: int) -> None:
        """_FENCED, fatal, for a producer that is not the newest of its id."""
        self.expire()
        if epoch <= self._unknown.get(transactional_id, -1):
            raise refusal(KafkaError.INVALID_PRODUCER_ID_MAPPING, aborts=True)
        if self._epochs.get(transactional_id) != epoch:
            raise refusal(KafkaError._FENCED, "fenced by a newer producer", fatal=True)  # the library's name

    def transaction(self, transactional_id: str, epoch: int) -> Transaction:
        """The open transaction of a producer, begun where none is; _FENCED."""
        self.require_epoch(transactional_id, epoch)
        running = self._open.get(transactional_id)
        if running is None:
            running = Transaction(transactional_id, epoch, self.kernel.now, self.kernel.here())
            self._open[transactional_id] = running
            self.kernel.begun.give()
        return running

    def begun(self) -> dict[int, Process | None]:
        """The slots that have a transaction open in which nothing is written yet, with their workers."""
        return {
            int(name.rpartition("-")[2]): one.process
            for name, one in self._open.items()
            if name[-1].isdecimal() and not one.logs
        }

    def add_offsets(
        self,
        transactional_id: str,
        epoch: int,
        group_id: str,
        member: tuple[int, str],
        offsets: Sequence[Any],
    ) -> None:
        """Offsets that become the group's with the transaction; ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID."""
        running = self.transaction(transactional_id, epoch)
        group = self.group(group_id)
        generation, member_id = member
        self._evict(group)
        if member_id or generation >= 0:
            if member_id in group.replaced:
                raise refusal(KafkaError.FENCED_INSTANCE_ID, aborts=True)
            if all(one.id != member_id for one in group.members):
                raise refusal(KafkaError.UNKNOWN_MEMBER_ID, aborts=True)
            if generation != group.generation:
                raise refusal(KafkaError.ILLEGAL_GENERATION, aborts=True)
        kept = running.offsets.setdefault(group_id, {})
        for one in offsets:
            if one.topic in self.hidden:
                raise refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            self.log(one.topic, one.partition)
            kept[one.topic, one.partition] = (one.offset, one.metadata or "")

    def commit(self, transactional_id: str, epoch: int) -> None:
        """Commit what is open; _FENCED."""
        self.require_epoch(transactional_id, epoch)
        running = self._open.get(transactional_id)
        if running is not None:
            self._end(running, "committed")

    def abort(self, transactional_id: str, epoch: int) -> None:
        """Abort what is open; _FENCED. Where a producer was not known, nothing has been opened."""
        if epoch <= self._unknown.get(transactional_id, -1):
            return
        self.require_epoch(transactional_id, epoch)
        running = self._open.get(transactional_id)
        if running is not None:
            self._end(running, "aborted")

    def expire(self, seconds: float = 15.0) -> None:
        """Abort transactions that are open for too long, and fence their producers."""
        if not self._open:
            return
        late = [one for one in self._open.values() if self.kernel.now - one.began > seconds]
        for one in late:
            self._epochs[one.id] += 1
            self._end(one, "aborted")

    def _end(self, running: Transaction, state: str) -> None:
        running.state = state
        self._open.pop(running.id, None)
        for (name, partition), log in running.logs.items():
            topic = self.topics.get(name)
            if topic is not None and topic.logs[partition] is log:
                log.append(Record(0, None, None, (), 0, running, is_marker=True))
        if state == "committed":
            self.committed.update(running.counts)
            self.on_ended(running)
            for group_id, offsets in running.offsets.items():
                kept = self.group(group_id).offsets
                kept.update({place: offset for place, offset in offsets.items() if place[0] in self.topics})
        self.changed.give()

    # -- groups ----------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group:
        """The group, made by the first who asks."""
        return self.groups.setdefault(group_id, Group())

    def join(
        self, group_id: str, topic: str, process: Process, session_seconds: float, instance: str | None = None
    ) -> Member:
        """A new member: the generation rises, and who holds the partition keeps it.

        A static member takes the place of the one before it, in the same generation, with what that held.
        """
        group = self.group(group_id)
        group.topic = topic
        self._evict(group)
        member = Member(f"member-{next(self._numbers)}", process, session_seconds, instance)
        before = next(
            (one for one in group.members if instance is not None and one.instance == instance), None
        )
        if before is not None:
            before.is_gone = before.is_replaced = True
            member.inherits = before.holds_told or before.inherits
            group.replaced.add(before.id)
            group.members[group.members.index(before)] = member
            self.changed.give()
            return member
        group.members.append(member)
        group.generation += 1
        self.changed.give()
        return member

    def leave(self, group_id: str, member: Member) -> None:
        """A member goes: the generation rises."""
        group = self.group(group_id)
        if member in group.members:
            group.members.remove(member)
            group.generation += 1
            self.changed.give()

    def look(self, group_id: str) -> Group:
        """The group, without members whose session is over."""
        group = self.group(group_id)
        self._evict(group)
        return group

    def _evict(self, group: Group) -> None:
        for member in tuple(group.members):
            process = member.process
            if process.is_dead and "died_at" not in process.held:
                process.held["died_at"] = self.kernel.now
            since = (
                process.held.get("died_at")
                if process.is_dead
                else process.stopped_at
                if process.is_stopped
                else cut.cut_from
                if (cut := process.cut).cut_until > self.kernel.now
                else member.silent_since
            )
            if since is not None and self.kernel.now - since > member.session_seconds:
                member.is_gone = True
                group.members.remove(member)
                group.generation += 1
                self.changed.give()


def is_visible(record: Record) -> bool:
    """Whether a read-committed reader gets a record below the last stable offset."""
    return not record.is_marker and (record.transaction is None or record.transaction.state == "committed")
