"""The ledger's topic: made when missing, checked for what the protocol needs; what marks it as a ledger.

A topic that is a ledger, or holds connectors' configurations, is never data: two sinks that archive each
other's ledgers would never end, and configurations hold secrets. The mark is in the topic's own records, so
it is durable, is there for ledgers of any name and version, and needs no rights but to read.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec
import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import decode_control, decode_worker_record, is_worker_key
from headrace.kafka.kafka_clients import Properties, new_consumer
from headrace.kafka.kafka_errors import translate
from headrace.model.errors import HeadraceError, InvalidLedger, TopicMissing
from headrace.model.ledger_entry import ControlKey, decode_entry, decode_key
from headrace.model.sink_entries import decode_sink_entry, is_sink_key

_log = structlog.get_logger(__name__)

# Tombstones have to outlive every cache that has not read them (`headrace.kafka.ledger_cache`); small and
# young segments keep a restart's read short, since only closed segments are compacted.
CONFIGURATION: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(7 * 24 * 3600 * 1000),
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(24 * 3600 * 1000),
}
# What Kafka has by default: of a topic that nothing is known of a cache is trusted for no longer.
_KAFKA_DELETE_RETENTION_MS: Final = 24 * 3600 * 1000


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
    delete_retention_ms: int | None
    """For how long tombstones are kept; None where they are never removed."""
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWords:
    """What the sentences call a ledger that cannot serve, and what they say to do about it."""

    option: str
    needs: str
    """What needs one partition, and why."""
    moved: str
    """What lets its records continue in another topic, once they are copied."""
    ageing: str
    """What is deleted with time, and what follows."""
    called: str
    lost: str
    """What is missing with the topic, and the fix."""
    two_topics: str
    """Of two members of the group with another topic each; holds {group}, {other} and {topic}."""
    another_owner: str
    """Holds {topic}, {owner} and {name}."""


_REMEDY: Final = (
    "If the new state is what you want, run once with --accept-new-ledger: every object that the ledger in "
    "use does not know is then ingested again. Those that are to count as done are marked before, by "
    "`headrace mark CONFIG --accept-new-ledger`."
)
OF_INGESTERS: Final = LedgerWords(
    option="offsets.storage.topic",
    needs="the ledger needs exactly one (its order is the protocol's)",
    moved='name that, and start once with --accept-new-ledger (docs/operations.md, "The ledger")',
    ageing="checkpoints as they age: objects would be ingested twice",
    called="ledger topic",
    lost=f"its checkpoints are lost. {_REMEDY}",
    two_topics=(
        "Another instance in consumer group {group!r} keeps its checkpoints in {other!r}, this one in "
        "{topic!r}: two configurations share one name. Rename one of them, or give both the same "
        "offsets.storage.topic."
    ),
    another_owner=(
        "Topic {topic!r} is the ledger of the ingester {owner!r}, not of {name!r}. "
        f"Set another offsets.storage.topic. {_REMEDY}"
    ),
)

OF_WORKERS: Final = LedgerWords(
    option="config.storage.topic",
    needs="connectors' configurations need exactly one (who has it leads the workers)",
    moved="name that in all workers of the group while none runs",
    ageing="connectors' configurations as they age: workers would end the connectors",
    called="configuration topic",
    lost=(
        "configurations of connectors are lost. What runs continues, and this worker begins, moves and ends "
        "no connector any more. Save what GET /connectors?expand=info answers, restart all workers of the "
        "group, and create again what is missing then."
    ),
    two_topics=(
        "Another worker of consumer group {group!r} keeps configurations in {other!r}, this one in "
        "{topic!r}: give all workers of a group.id one config.storage.topic, or this one another group.id."
    ),
    another_owner=(
        "Topic {topic!r} holds the configurations of the workers {owner!r}, not of {name!r}. Set another "
        "config.storage.topic, or the group.id of those."
    ),
)


def prepare_ledger_topic(
    admin: KafkaAdmin,
    topic: str,
    *,
    replication_factor: int | None = None,
    words: LedgerWords = OF_INGESTERS,
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
    describe = _found_after_creation if is_new else describe_ledger_topic
    found = describe(admin, topic, words)
    return LedgerTopic(identity=found.identity, delete_retention_ms=found.delete_retention_ms, is_new=is_new)


def describe_ledger_topic(admin: KafkaAdmin, topic: str, words: LedgerWords = OF_INGESTERS) -> LedgerTopic:
    """The ledger's topic as it is; InvalidLedger when it cannot serve, TopicMissing when it is not there."""
    partitions = admin.partition_count(topic)
    if partitions != 1:
        raise InvalidLedger(
            f"{words.option} {topic!r} has {partitions} partitions, and {words.needs}. "
            f"{_other_topic(admin, topic, words)}"
        )
    configuration = admin.topic_configuration(topic)
    policy = configuration["cleanup.policy"]
    if policy != "compact":
        raise InvalidLedger(
            f"{words.option} {topic!r} has cleanup.policy={policy}, which deletes {words.ageing}. Set "
            "cleanup.policy=compact on it."
        )
    return LedgerTopic(
        identity=LedgerIdentity(cluster_id=admin.cluster_id(), topic=topic, topic_id=admin.topic_id(topic)),
        delete_retention_ms=_delete_retention_ms(configuration),
        is_new=False,
    )


def _other_topic(admin: KafkaAdmin, topic: str, words: LedgerWords) -> str:
    """What to do about a topic with several partitions: one with records may have been given them later."""
    new = "Name another topic; a missing one is created."
    with suppress(HeadraceError):
        if admin.ends(topic)[1] == 0:
            return new
    return (
        "If it was in use already, all that counts is in partition 0: copy its records "
        "(isolation.level=read_committed, keys and values byte for byte) into a topic with one partition and "
        f"cleanup.policy=compact, {words.moved}. If it was not: {new[0].lower()}{new[1:]}"
    )


def _delete_retention_ms(configuration: Mapping[str, str | None]) -> int | None:
    """For how long tombstones are kept; None without an end, which some brokers write as -1.

    Some do not know the property, or have no value of it (Redpanda before 24.3).
    """
    given = configuration.get("delete.retention.ms")
    found = _KAFKA_DELETE_RETENTION_MS if given is None else int(given)
    return None if found < 0 else found


def _found_after_creation(admin: KafkaAdmin, topic: str, words: LedgerWords) -> LedgerTopic:
    # The controller has made the topic before every broker knows it.
    settled: Retrying = Retrying(
        retry=retry_if_exception_type(TopicMissing),
        stop=stop_after_delay(10),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return settled(describe_ledger_topic, admin, topic, words)


# -- The group remembers which ledger was its own, so that a lost or exchanged one is noticed, not refilled --
# An offset of the group, for partition 0 of an output topic, has the ledger's name and topic id as metadata.
# It must not be the ledger's own partition: a topic's offsets die with the topic. Offsets of topics that
# nobody in the group subscribes to expire seven days after their commit, so it is committed again every day.


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
                raise InvalidLedger(_lost(topic, remembered_id, topic_id, OF_INGESTERS))


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


def refuse_other_members(
    admin: KafkaAdmin, group: str, topic: str, words: LedgerWords = OF_INGESTERS
) -> None:
    """InvalidLedger when a member of the group holds another topic: two configurations share this name."""
    others = admin.group_topics(group) - {topic}
    if others:
        raise InvalidLedger(words.two_topics.format(group=group, other=min(others), topic=topic))


def refuse_changed(
    before: LedgerIdentity, now: LedgerIdentity | None, words: LedgerWords = OF_INGESTERS
) -> None:
    """InvalidLedger when the topic is gone (`now` None) or was deleted and made again.

    Another cluster or another name says nothing: then `before` is of another configuration.
    """
    if now is not None and (before.cluster_id, before.topic) != (now.cluster_id, now.topic):
        return
    now_id = None if now is None else now.topic_id
    if before.topic_id != now_id:
        raise InvalidLedger(_lost(before.topic, before.topic_id, now_id, words))


def _lost(topic: str, before: str, now: str | None, words: LedgerWords) -> str:
    what = "is gone" if now is None else "was deleted and made again"
    return (
        f"The {words.called} {topic!r} {what} (topic id {before} before, {now or 'none'} now): {words.lost}"
    )


def refuse_other_owner(owner: str | None, name: str, topic: str, words: LedgerWords = OF_INGESTERS) -> None:
    """InvalidLedger when the ledger says that it is another ingester's."""
    if owner is not None and owner != name:
        raise InvalidLedger(words.another_owner.format(topic=topic, owner=owner, name=name))


# A ledger begins with its owner; after compaction whatever is left is a ledger's all the same.
_LOOKED_AT: Final = 50
_SECONDS: Final = 10.0
_AT_ONCE: Final = 100
_OURS: Final = {
    "group.id": "headrace-ledger-marks",  # never joined
    "isolation.level": "read_uncommitted",
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.message.max.bytes": 64 * 1024,
    "queued.max.messages.kbytes": 4096,
}


class Holds(StrEnum):
    """What a topic holds."""

    DATA = "data"
    LEDGER = "a ledger or configurations of connectors"
    NOTHING = "nothing"  # so far: it may become a ledger
    UNREADABLE = "what may not be read"  # whoever is to read it says why


class LedgerMarks:
    """Remembers what each topic holds, by its id. For one thread; blocks. Unavailable, AccessDenied.

    Only a topic of one partition can be a ledger.
    """

    def __init__(self, properties: Properties) -> None:
        self._properties = properties
        self._known: dict[str, Holds] = {}

    def holds(
        self, topics: Mapping[str, tuple[str, int]], ranges: Mapping[tuple[str, int], tuple[int, int]]
    ) -> dict[str, Holds]:
        """What each topic holds, by name. Given are its id and number of partitions, and their offsets.

        NOTHING also of one whose offsets are not given, and of which it is not known.
        """
        found: dict[str, Holds] = {}
        for name, (topic_id, count) in topics.items():
            begin, end = ranges.get((name, 0), (0, 0))
            if count != 1:
                found[name] = Holds.DATA
            elif topic_id in self._known:
                found[name] = self._known[topic_id]
            elif begin >= end:
                found[name] = Holds.NOTHING
        for name, what in self._look(sorted(topics.keys() - found.keys())).items():
            found[name] = what
            if what in (Holds.DATA, Holds.LEDGER):
                self._known[topics[name][0]] = what
        return found

    def _look(self, names: Sequence[str]) -> dict[str, Holds]:
        found: dict[str, Holds] = {}
        if not names:
            return found
        consumer = new_consumer(self._properties, _OURS)
        try:
            for begin in range(0, len(names), _AT_ONCE):
                found |= _first_records(consumer, names[begin : begin + _AT_ONCE])
        except KafkaException as error:
            raise translate(error, what="the first records of topics") from error
        finally:
            consumer.close()
        return found


def _first_records(consumer: Consumer, names: Sequence[str]) -> dict[str, Holds]:
    """What each of these holds; one that does not answer in time is asked again with the next question."""
    found: dict[str, Holds] = {}
    records = dict.fromkeys(names, 0)
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in names])
    deadline = time.monotonic() + _SECONDS
    while len(found) < len(names) and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            name, error = str(message.topic()), message.error()
            if name in found or name not in records:
                continue
            if error is None:
                records[name] += 1
                if is_ledgers(message.key(), message.value()):
                    found[name] = Holds.LEDGER
                elif records[name] >= _LOOKED_AT:
                    found[name] = Holds.DATA
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # the library's name
                found[name] = Holds.DATA if records[name] else Holds.NOTHING
            elif not error.retriable():
                found[name] = Holds.UNREADABLE
    consumer.unassign()
    return {name: found.get(name, Holds.NOTHING) for name in names}


def is_ledgers(key: Any, value: Any) -> bool:
    """Whether a record is one that only a ledger has, or the topic of a worker's configurations.

    Kafka Connect's own configurations included.
    """
    if not isinstance(key, bytes) or not isinstance(value, bytes):
        return False
    if key.startswith((b"connector-", b"task-")):
        return _is_connects(value)
    try:
        decoded = decode_key(key)
        if not isinstance(decoded, ControlKey):
            decode_entry(value)
        elif is_sink_key(decoded):
            decode_sink_entry(decoded, value)
        elif is_worker_key(decoded):
            decode_worker_record(decoded, value)
        else:
            decode_control(decoded, value)
    except (InvalidLedger, TypeError, AttributeError):
        return False
    return True


def _is_connects(value: bytes) -> bool:
    try:
        shape = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(shape, dict) and list(shape) == ["properties"] and isinstance(shape["properties"], dict)
