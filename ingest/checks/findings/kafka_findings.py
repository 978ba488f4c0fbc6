"""Findings about Kafka: brokers, output topics, the ledger, transactions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from headrace.kafka.control_records import TargetState
from headrace.model.text_formatting import counted, span_text
from headrace.options import Settings
from headrace.options.choices import Envelope, NoSource, ProduceTime, RestorePartition, TimestampFrom
from headrace.options.transforms.read_chain import known_topics, routes_by_record
from ingest.checks.findings.bucket_findings import TopicSample, keep_highest
from ingest.checks.findings.finding import (
    BROKERS_FIX,
    Cause,
    Finding,
    Refused,
    kafka_fix,
    misconfigured,
    ok,
    unusable,
    warn,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as the brokers describe it; `may_*` None when they do not say.

    Of the last two None stands for no bound, and for a topic whose brokers set the times of its records.
    """

    partitions: int
    max_message_bytes: int | None
    cleanup_policy: str
    may_read: bool | None
    may_write: bool | None
    retention_ms: int | None = None
    """How old a record may be."""
    refused_before_ms: int | None = None
    """How old a record may be when it is produced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaFacts:
    """What the brokers answered. `wanted` are the output topics by what keys say of them."""

    cluster: str | Refused
    wanted: Mapping[str, TopicSample | None]
    topics: Mapping[str, TopicFacts | Refused]
    ledger: TopicFacts | Refused
    memory: str | None
    """What the consumer group remembers against this ledger, in a sentence."""
    transactions: bool | Refused | None
    """True when a transactional producer could be initialised; None when none is asked for."""
    is_too_old: bool = False
    """Whether the brokers are older than what is supported."""
    group: bool | Refused | None = None
    """Whether this user may join the group that leads; None when the brokers do not say."""
    target: TargetState = TargetState.RUNNING
    """What the ledger says is wanted of the ingester."""


def wanted_topics(settings: Settings, samples: Mapping[str, TopicSample]) -> dict[str, TopicSample | None]:
    """The topics that records and dead letters come to, by what keys say of them.

    `samples` are by the topics that keys, or the option, name; transforms may send records to others.
    """
    routed: dict[str, TopicSample] = {}
    for topic, sample in samples.items():
        for target in sorted(known_topics(settings.transforms, topic)):
            keep_highest(routed, target, sample)
    wanted: dict[str, TopicSample | None] = dict(routed)
    named = sorted(known_topics(settings.transforms, settings.routing.topic))
    if (dead := settings.errors.dead_letter) is not None:
        named.append(dead.topic)
    for topic in named:
        wanted.setdefault(topic, None)
    return wanted


def brokers_there(settings: Settings, facts: KafkaFacts) -> Finding:
    """Whether the brokers answer."""
    servers = settings.kafka.bootstrap_servers
    if facts.is_too_old:
        return misconfigured(
            "brokers",
            f"{servers} answer, and are older than Apache Kafka 3.0, the oldest that Headrace supports.",
            "Update them: docs/support.md says what is supported.",
        )
    if not isinstance(facts.cluster, Refused):
        return ok("brokers", f"{servers} answer (cluster {facts.cluster})")
    return unusable(
        "brokers",
        f"{servers}: {facts.cluster.words}",
        BROKERS_FIX,
    )


def topic_there(settings: Settings, facts: KafkaFacts, topic: str) -> Finding | None:
    """Whether an output topic exists, or will be made."""
    name, found = "topic", facts.topics[topic]
    if not isinstance(found, Refused):
        return ok(name, f"topic {topic!r} is there, {counted(found.partitions, 'partition')}")
    if found.cause is not Cause.MISSING:
        rights = f"Allow DescribeConfigs on topic {topic!r}, and Describe, which Read and Write bring along."
        sentence = f"topic {topic!r} cannot be described: {found.words}"
        return unusable(name, sentence, kafka_fix(found, rights))
    if settings.kafka.topic_creation is not None:
        return ok(name, f"topic {topic!r} is not there, and `run` makes it (topic.creation.default.*)")
    named = facts.wanted[topic]
    if named is not None and settings.routing.topic is None:
        # The configuration does not name it: setup would not make it, and the key may be read wrongly.
        return misconfigured(
            name,
            f"topic {topic!r} does not exist; the key {named.key!r} names it.",
            "Create it, set topic.creation.default.partitions and .replication.factor, or correct how keys "
            "are read (file.name.template, input.layout and restore.topic.map; topic overrides them).",
        )
    remedy = "Create it (`headrace setup` does)"
    if settings.sink is None:
        remedy += ", or set topic.creation.default.partitions and .replication.factor"
    return misconfigured(name, f"topic {topic!r} does not exist.", f"{remedy}.")


def topics_open(settings: Settings, _facts: KafkaFacts) -> Finding | None:
    """A warning where transforms name topics that are known only with a record."""
    if settings.sink is not None or not routes_by_record(settings.transforms):
        return None
    return warn(
        "topic",
        "transforms name topics that are known only with a record, so none of them was looked at.",
        "Create them, or let the brokers do it (auto.create.topics.enable): an object with records for one "
        "that is missing waits for it (topic_missing).",
    )


def enough_partitions(settings: Settings, facts: KafkaFacts, topic: str) -> Finding | None:
    """Whether the topic has the partitions that keys name."""
    named, found = facts.wanted[topic], facts.topics[topic]
    restore = settings.format.restore
    if named is None or named.partition is None:
        return None
    if restore is not None and restore.partition is not RestorePartition.ORIGINAL:
        return None  # any number will do
    creation = settings.kafka.topic_creation
    if isinstance(found, Refused):
        if found.cause is not Cause.MISSING or creation is None or creation.partitions < 0:
            return None
        partitions = creation.partitions
    else:
        partitions = found.partitions
    if named.partition < partitions:
        return ok("partitions", f"topic {topic!r} has all partitions that keys name, up to {named.partition}")
    return misconfigured(
        "partitions",
        f"topic {topic!r} has {counted(partitions, 'partition')}, and the key {named.key!r} names partition "
        f"{named.partition}: such objects are quarantined (unknown_partition).",
        f"Give the topic {counted(named.partition + 1, 'partition')}, or "
        + (
            "leave {{partition}} out of file.name.template."
            if restore is None
            else "set restore.partition to modulo or partitioner."
        ),
    )


def record_size(settings: Settings, facts: KafkaFacts, topic: str) -> Finding | None:
    """Whether the topic takes records as large as `record.max.bytes` admits."""
    found, most = facts.topics[topic], settings.format.record_max_bytes
    # Brokers of other makers may not say.
    if isinstance(found, Refused) or found.max_message_bytes is None:
        return None
    if found.max_message_bytes >= most:
        return ok("record size", f"topic {topic!r} takes {found.max_message_bytes:,} bytes at once")
    return warn(
        "record size",
        f"topic {topic!r} takes {found.max_message_bytes:,} bytes at once, record.max.bytes is {most:,}: "
        "rows in between are bad records.",
        f"Set max.message.bytes of the topic (message.max.bytes of the brokers) to {most + 65_536} or more, "
        f"or record.max.bytes to {found.max_message_bytes} or less.",
    )


def keys_taken(settings: Settings, facts: KafkaFacts, topic: str) -> Finding | None:
    """Whether the topic takes records without a key, where all of them are."""
    found = facts.topics[topic]
    if isinstance(found, Refused) or "compact" not in found.cleanup_policy:
        return None
    if _is_for_dead_letters(settings, topic):
        return warn(
            "keys",
            f"the dead letter topic {topic!r} has cleanup.policy={found.cleanup_policy}: it refuses dead "
            "letters without a key, and forgets all but the last of each key.",
            "Set cleanup.policy=delete on it, or name another errors.deadletterqueue.topic.name.",
        )
    records = settings.format
    if settings.sink is not None or records.restore is not None or records.envelope is not Envelope.NONE:
        return None
    if not isinstance(records.key_source, NoSource):
        return None
    return misconfigured(
        "keys",
        f"topic {topic!r} has cleanup.policy={found.cleanup_policy}, and takes no record without a key; "
        "key.source is none: every row would be refused.",
        "Set key.source, or cleanup.policy=delete on the topic.",
    )


def times_kept(settings: Settings, facts: KafkaFacts, topic: str) -> Finding | None:
    """Whether records that have times of their own would be refused, or deleted soon."""
    found, records = facts.topics[topic], settings.format
    if isinstance(found, Refused) or settings.sink is not None or _is_for_dead_letters(settings, topic):
        return None
    if records.restore is not None:
        option, is_own = "restore.timestamp", records.restore.rows.timestamp is not TimestampFrom.PRODUCE
    else:
        option, is_own = "record.timestamp", not isinstance(records.timestamp, ProduceTime)
    if not is_own:
        return None
    if found.refused_before_ms is not None:
        return warn(
            "record times",
            f"topic {topic!r} refuses records with times of more than "
            f"{span_text(found.refused_before_ms)} ago (message.timestamp.before.max.ms): "
            f"such rows are bad records, as {option} keeps their times.",
            f"Raise message.timestamp.before.max.ms of the topic, or set {option}=produce.",
        )
    if found.retention_ms is None:
        return None
    return warn(
        "record times",
        f"topic {topic!r} deletes records with times of more than {span_text(found.retention_ms)} ago "
        f"(retention.ms), and {option} gives records their own: older ones are gone "
        "soon after they were produced.",
        f"Set retention.ms=-1 on the topic, at least until they are consumed, or {option}=produce.",
    )


def _is_for_dead_letters(settings: Settings, topic: str) -> bool:
    return settings.errors.dead_letter is not None and settings.errors.dead_letter.topic == topic


def may_write(_settings: Settings, facts: KafkaFacts, topic: str) -> Finding | None:
    """Whether this user may write to the topic."""
    found = facts.topics[topic]
    if isinstance(found, Refused) or found.may_write is not False:
        return None
    return unusable(
        "write",
        f"this user may not write to topic {topic!r}.",
        f"Allow Write on topic {topic!r} (docs/security.md).",
    )


def may_remember(settings: Settings, facts: KafkaFacts, topic: str) -> Finding | None:
    """Whether the group may have an offset of the topic, which tells which ledger is its own."""
    found = facts.topics[topic]
    if isinstance(found, Refused) or found.may_read is not False:
        return None
    return unusable(
        "read",
        f"this user may not read topic {topic!r}: group {settings.identity.group_id!r} keeps there, as an "
        "offset of its own, which ledger it has.",
        f"Allow Read on topic {topic!r} (docs/security.md).",
    )


def may_lead(settings: Settings, facts: KafkaFacts) -> Finding | None:
    """Whether this user may join the group whose one partition is the lead."""
    name, group = "group", settings.identity.group_id
    if facts.group is None:
        return None
    if facts.group is True:
        return ok(name, f"this user may lead as group {group!r}")
    remedy = f"Allow Read on group {group!r} (docs/security.md)."
    if facts.group is False or facts.group.cause is Cause.DENIED:
        return unusable(name, f"this user may not join consumer group {group!r}.", remedy)
    return unusable(
        name,
        f"consumer group {group!r} cannot be asked: {facts.group.words}",
        "Check that the brokers' offsets topic (offsets.topic.*) has the replicas it wants.",
    )


def ledger_fit(settings: Settings, facts: KafkaFacts) -> Finding | None:
    """Whether the ledger's topic can serve, or can be made."""
    name, topic, found = "ledger", settings.kafka.ledger_topic, facts.ledger
    if isinstance(found, Refused):
        if found.cause is Cause.MISSING:
            return ok(name, f"the ledger {topic!r} is not there yet; the first start makes it")
        rights = f"Allow Read, Write and DescribeConfigs on topic {topic!r} (docs/security.md)."
        sentence = f"the ledger {topic!r} cannot be described: {found.words}"
        return unusable(name, sentence, kafka_fix(found, rights))
    if found.partitions != 1:
        return misconfigured(
            name,
            f"the ledger {topic!r} has {found.partitions} partitions, and needs exactly one.",
            "Name another offsets.storage.topic; a missing one is made.",
        )
    if found.cleanup_policy != "compact":
        return misconfigured(
            name,
            f"the ledger {topic!r} has cleanup.policy={found.cleanup_policy}: checkpoints are deleted as "
            "they age, and objects ingested twice.",
            "Set cleanup.policy=compact on it.",
        )
    if found.may_read is False or found.may_write is False:
        return unusable(
            name,
            f"this user may not read and write the ledger {topic!r}.",
            f"Allow Read and Write on topic {topic!r}.",
        )
    return ok(name, f"the ledger {topic!r} is there, compacted, with one partition")


def ledger_remembered(_settings: Settings, facts: KafkaFacts) -> Finding | None:
    """Whether the consumer group remembers this ledger, or none."""
    if facts.memory is None:
        return None
    return misconfigured("ledger", facts.memory, "See the sentence: it names both ledgers.")


def held_back(settings: Settings, target: TargetState) -> str | None:
    """What `plan` says of an ingester that was paused or stopped; None of one that is to run."""
    if target is TargetState.RUNNING:
        return None
    return (
        f"{settings.name!r} is {target}, as was asked through the REST interface, so `run` does nothing. "
        f"{_resumed(settings)}"
    )


def _resumed(settings: Settings) -> str:
    wanted = "" if settings.http.rest_listen is not None else ", which a plain `run` has with rest.listen"
    return f"PUT /connectors/{quote(settings.name, safe='')}/resume on that interface{wanted}."


def is_to_run(settings: Settings, facts: KafkaFacts) -> Finding | None:
    """A warning where operators have paused or stopped the ingester."""
    if facts.target is TargetState.RUNNING:
        return None
    return warn(
        "target",
        f"{settings.name!r} is {facts.target}, as was asked through the REST interface: `run` does nothing.",
        _resumed(settings),
    )


def transactions_allowed(settings: Settings, facts: KafkaFacts) -> Finding | None:
    """Whether this user may open transactions under the ingester's name."""
    name = "transactions"
    if facts.transactions is None:
        return warn(
            name,
            "exactly.once.support is disabled: a crash may repeat records.",
            "Set exactly.once.support=required unless the brokers cannot do transactions.",
        )
    if not isinstance(facts.transactions, Refused):
        return ok(name, f"transactions are allowed under {settings.name!r}")
    if facts.transactions.cause is Cause.DENIED:
        return unusable(
            name,
            f"transactions are not allowed: {facts.transactions.words}",
            f"Allow Write on transactional ids with the prefix '{settings.name}-' (docs/security.md).",
        )
    return unusable(
        name,
        f"a transaction could not be prepared: {facts.transactions.words}",
        "Do as it says; where it names no fix, check that the brokers' transaction state log "
        "(transaction.state.log.*) has the replicas it wants.",
    )


KAFKA_CHECKS: Final = (
    topics_open,
    may_lead,
    ledger_fit,
    ledger_remembered,
    is_to_run,
    transactions_allowed,
)
TOPIC_CHECKS: Final = (
    topic_there,
    enough_partitions,
    record_size,
    keys_taken,
    times_kept,
    may_write,
    may_remember,
)
