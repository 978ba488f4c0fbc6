"""The group remembers which ledger was its own, so that a lost or exchanged one is noticed, not refilled.

An offset of the group, for partition 0 of an output topic, has the ledger's name and topic id as metadata.
It must not be the ledger's own partition: a topic's offsets die with the topic. Offsets of topics that nobody
in the group subscribes to expire seven days after their commit, so it is committed again every day.
"""

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import InvalidLedger

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
