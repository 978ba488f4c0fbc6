"""The ledger's topic: made when missing, checked for what the protocol needs, and by its id."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from headrace.kafka.admin import KafkaAdmin
from headrace.model.errors import InvalidLedger, TopicMissing

_log = structlog.get_logger(__name__)

# Tombstones have to outlive every cache that has not read them (`headrace.kafka.ledger_cache`); small and
# young segments keep a restart's read short, since only closed segments are compacted.
CONFIGURATION: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(7 * 24 * 3600 * 1000),
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(24 * 3600 * 1000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerIdentity:
    """Which ledger this is: the name can be given to another topic, the ids cannot."""

    cluster_id: str
    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTopic:
    """The topic as it was found."""

    identity: LedgerIdentity
    delete_retention_ms: int
    is_new: bool


def prepare_ledger_topic(
    admin: KafkaAdmin, topic: str, *, replication_factor: int | None = None
) -> LedgerTopic:
    """The ledger's topic, created when it is missing; None leaves the replication to the broker.

    InvalidLedger when the topic cannot serve. Blocks on a few calls.
    """
    is_new = False
    if not admin.has_topic(topic):
        is_new = admin.create_topic(
            topic, partitions=1, replication_factor=replication_factor, configuration=CONFIGURATION
        )
        if is_new:
            _log.info("ledger_topic_created", topic=topic)
    found = _found_after_creation(admin, topic) if is_new else describe_ledger_topic(admin, topic)
    return LedgerTopic(identity=found.identity, delete_retention_ms=found.delete_retention_ms, is_new=is_new)


def describe_ledger_topic(admin: KafkaAdmin, topic: str) -> LedgerTopic:
    """The ledger's topic as it is; InvalidLedger when it cannot serve, TopicMissing when it is not there."""
    partitions = admin.partition_count(topic)
    if partitions != 1:
        raise InvalidLedger(
            f"offsets.storage.topic {topic!r} has {partitions} partitions, and the ledger needs exactly one "
            "(its order is the protocol's). Name another topic; a missing one is created."
        )
    configuration = admin.topic_configuration(topic)
    policy = configuration["cleanup.policy"]
    if policy != "compact":
        raise InvalidLedger(
            f"offsets.storage.topic {topic!r} has cleanup.policy={policy}, which deletes checkpoints as they "
            "age: objects would be ingested twice. Set cleanup.policy=compact on it."
        )
    return LedgerTopic(
        identity=LedgerIdentity(cluster_id=admin.cluster_id(), topic=topic, topic_id=admin.topic_id(topic)),
        delete_retention_ms=int(configuration["delete.retention.ms"]),
        is_new=False,
    )


def _found_after_creation(admin: KafkaAdmin, topic: str) -> LedgerTopic:
    # The controller has made the topic before every broker knows it.
    settled: Retrying = Retrying(
        retry=retry_if_exception_type(TopicMissing),
        stop=stop_after_delay(10),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return settled(describe_ledger_topic, admin, topic)


# -- The group remembers which ledger was its own, so that a lost or exchanged one is noticed, not refilled --
# An offset of the group, for partition 0 of an output topic, has the ledger's name and topic id as metadata.
# It must not be the ledger's own partition: a topic's offsets die with the topic. Offsets of topics that
# nobody in the group subscribes to expire seven days after their commit, so it is committed again every day.

_REMEDY = (
    "If the new state is what you want, run once with --accept-new-ledger: every object that the ledger in "
    "use does not know is then ingested again."
)


class _Marker(msgspec.Struct, frozen=True):
    headrace_ledger: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedLedgers:
    """What the group's offsets say about its ledger: its name and id, by the topic that the offset is for."""

    group: str
    ledgers: dict[str, tuple[str, str]]

    @property
    def is_empty(self) -> bool:
        """Whether the group remembers no ledger: a first start, or seven idle days."""
        return not self.ledgers

    def anchor_topics(self, anchors: Collection[str]) -> set[str]:
        """The topics to commit the marker for: these, and wherever an older one lies."""
        return set(anchors) | set(self.ledgers)

    def refuse_other(self, topic: str, topic_id: str | None) -> None:
        """InvalidLedger when the group remembers another ledger than this one (id None: missing)."""
        for ledger, remembered_id in self.ledgers.values():
            if ledger != topic:
                raise InvalidLedger(
                    f"Consumer group {self.group!r} keeps its checkpoints in topic {ledger!r}, but "
                    f"offsets.storage.topic is {topic!r}. Set it back, or give this ingester another name. "
                    f"{_REMEDY}"
                )
            if remembered_id != topic_id:
                raise InvalidLedger(_lost(topic, remembered_id, topic_id))


def read_remembered_ledgers(admin: KafkaAdmin, group: str) -> RememberedLedgers:
    """What the group remembers; metadata that is not ours is ignored. Blocks on two calls."""
    ledgers = {}
    for topic, metadata in admin.group_offsets(group).items():
        try:
            marker = msgspec.json.decode(metadata, type=_Marker)
        except msgspec.DecodeError:
            continue
        ledgers[topic] = (marker.headrace_ledger, marker.topic_id)
    return RememberedLedgers(group=group, ledgers=ledgers)


def marker_of(identity: LedgerIdentity) -> str:
    """The offset metadata that `read_remembered_ledgers` finds again."""
    return msgspec.json.encode(_Marker(identity.topic, identity.topic_id)).decode()


def refuse_other_members(admin: KafkaAdmin, group: str, topic: str) -> None:
    """InvalidLedger when a member of the group holds another topic: two configurations share this name."""
    others = admin.group_topics(group) - {topic}
    if others:
        raise InvalidLedger(
            f"Another instance in consumer group {group!r} keeps its checkpoints in {min(others)!r}, this "
            f"one in {topic!r}: two configurations share one name. Rename one of them, or give both the same "
            "offsets.storage.topic."
        )


def refuse_changed(before: LedgerIdentity, now: LedgerIdentity | None) -> None:
    """InvalidLedger when the topic is gone (`now` None) or was deleted and made again.

    Another cluster or another name says nothing: then `before` is of another configuration.
    """
    if now is not None and (before.cluster_id, before.topic) != (now.cluster_id, now.topic):
        return
    now_id = None if now is None else now.topic_id
    if before.topic_id != now_id:
        raise InvalidLedger(_lost(before.topic, before.topic_id, now_id))


def _lost(topic: str, before: str, now: str | None) -> str:
    what = "is gone" if now is None else "was deleted and made again"
    return (
        f"The ledger topic {topic!r} {what} (topic id {before} before, {now or 'none'} now): "
        f"its checkpoints are lost. {_REMEDY}"
    )


def refuse_other_owner(owner: str | None, name: str, topic: str) -> None:
    """InvalidLedger when the ledger says that it is another ingester's."""
    if owner is not None and owner != name:
        raise InvalidLedger(
            f"Topic {topic!r} is the ledger of the ingester {owner!r}, not of {name!r}. "
            f"Set another offsets.storage.topic. {_REMEDY}"
        )
