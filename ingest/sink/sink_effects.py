"""What the service has to do after it told the archive something, and what it tells of Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import SealedObject, SinkEntry, TopicPartition, encode_sink_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierArchive:
    """What another sink's own files say of a partition that it archived before.

    `offset` is the next record (None: they do not say); above it `done` are the last offsets of groups that
    are further. `problem` is the sentence of files that cannot be understood.
    """

    offset: int | None = None
    done: tuple[tuple[str, int], ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """One partition of a subscribed topic as Kafka describes it, offsets by one request after the topic's.

    `begin` is the first offset that Kafka still has, `end` the high watermark. `group_offset` is what the
    connector's own group has committed (None: nothing), with its metadata as it is there. `earlier` is there
    where another sink left files that say more, `stable_end` where an open transaction held it back before:
    where it ends for readers.
    """

    topic: str
    partition: int
    topic_id: str
    begin: int
    end: int
    group_offset: int | None = None
    group_mark: str = ""
    earlier: EarlierArchive | None = None
    stable_end: int | None = None

    @property
    def partition_of(self) -> TopicPartition:
        """The topic-partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopics:
    """The answer to one description of the subscribed topics.

    `request` is the number that `Archive.request_topics` gave before anything was asked. `partitions` are
    those of all topics that exist, but for what is not known. `group_members` are active members of the
    connector's own group: of a connector that still runs.
    """

    request: int
    partitions: tuple[FoundPartition, ...]
    group_members: tuple[str, ...] = ()
    leaderless: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that are there and have no leader, with their topics' ids: nothing else is known of them."""
    forbidden: frozenset[str] = frozenset()
    """Topics that may not be described: whether they are there is not known."""

    def is_unknown(self, partition: TopicPartition) -> bool:
        """Whether this does not say if and how the partition is there."""
        return partition in self.leaderless or partition.topic in self.forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLife:
    """Which topic of its name it is, by Kafka's own id, and how many partitions it has."""

    topic_id: str
    partitions: int

    def has(self, partition: int, *, topic_id: str) -> bool:
        """Whether the partition is of this very topic."""
        return self.topic_id == topic_id and partition < self.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLives:
    """The answer to a description of some topics that asks for nothing else.

    Absent ones do not exist, or may not be described; of topics that are not selected also those that may
    not be read.
    `request` is as in `FoundTopics`.
    """

    request: int
    topics: Mapping[str, TopicLife]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkWrite:
    """A ledger record that the leader commits: `entry` None is a tombstone."""

    key: ControlKey
    entry: SinkEntry | None

    @property
    def raw(self) -> bytes | None:
        """The value of the ledger record."""
        return None if self.entry is None else encode_sink_entry(self.entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """An offset for the connector's own group, where ordinary tools show the lag."""

    topic: str
    partition: int
    offset: int
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """Offsets that Kafka deleted before they were archived: from `first` up to, not including, `end`.

    `with_topic`: the topic itself was deleted.
    """

    topic: str
    partition: int
    first: int
    end: int
    with_topic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkEffects:
    """What follows from one call. Empty fields ask for nothing.

    All `writes` of one SinkEffects go into one transaction of the leader, in their order, with `offsets`;
    after its acknowledged commit they are given to `Archive.on_written`. `completions` are objects whose
    uploads the leader completes now: it tries until `Archive.on_completion` has an end of each.
    `groups` are batches that are answered with the leader's group metadata of the moment. `ended` are batches
    whose slots are notified of the end of an object that they have left to the leader.
    `slots_to_end` are asked to end; `slots_to_revoke` are voided, fenced and recovered, as lost ones are.
    With `topics_wanted` the topics are described now, not at the next round; of `lives_wanted` it is asked
    only whether they are the same as before. `warnings` are sentences.
    """

    writes: tuple[SinkWrite, ...] = ()
    offsets: tuple[GroupOffset, ...] = ()
    completions: tuple[SealedObject, ...] = ()
    groups: tuple[int, ...] = ()
    ended: tuple[tuple[int, str], ...] = ()
    slots_to_end: tuple[int, ...] = ()
    slots_to_revoke: tuple[int, ...] = ()
    topics_wanted: bool = False
    lives_wanted: tuple[str, ...] = ()
    lost_offsets: tuple[LostOffsets, ...] = ()
    warnings: tuple[str, ...] = ()
    unreported: tuple[SealedObject, ...] = ()
    """What lost slots had committed, for metrics."""


@dataclass(slots=True, kw_only=True)
class SinkEffectsBuilder:
    """Effects while they come together."""

    writes: list[SinkWrite] = field(default_factory=list)
    offsets: list[GroupOffset] = field(default_factory=list)
    completions: list[SealedObject] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    ended: list[tuple[int, str]] = field(default_factory=list)
    slots_to_end: list[int] = field(default_factory=list)
    slots_to_revoke: list[int] = field(default_factory=list)
    topics_wanted: bool = False
    lives_wanted: set[str] = field(default_factory=set)
    lost_offsets: list[LostOffsets] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unreported: list[SealedObject] = field(default_factory=list)

    def effects(self) -> SinkEffects:
        """Everything gathered, frozen."""
        return SinkEffects(
            writes=tuple(self.writes),
            offsets=tuple(self.offsets),
            completions=tuple(self.completions),
            groups=tuple(self.groups),
            ended=tuple(self.ended),
            slots_to_end=tuple(self.slots_to_end),
            slots_to_revoke=tuple(self.slots_to_revoke),
            topics_wanted=self.topics_wanted,
            lives_wanted=tuple(sorted(self.lives_wanted)),
            lost_offsets=tuple(self.lost_offsets),
            warnings=tuple(self.warnings),
            unreported=tuple(self.unreported),
        )
