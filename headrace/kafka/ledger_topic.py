"""The ledger's topic: made when missing, checked for what the protocol needs, and by its id."""

from dataclasses import dataclass
from typing import Final

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
