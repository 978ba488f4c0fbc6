"""How far a sink's topics are archived: what the brokers have, next to what the ledger and the group say."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.data_topics import Survey, SurveyedPartition, TopicSurvey
from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.errors import AccessDenied, HeadraceError, Unavailable
from headrace.model.sink_entries import (
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    SinkEntry,
    TopicPartition,
    decode_sink_entry,
    is_sink_key,
)
from headrace.options import Settings
from ingest.checks.findings.finding import Cause, Refused
from ingest.checks.findings.sink_findings import ReadFacts, TopicsFacts, may_outlive
from ingest.checks.probes.probe_calls import retention_ms

_NONE: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """One partition: from `archived` (None: never begun) to `end` is not archived; what of it waits in S3.

    `begin` is the first offset that Kafka still has. `pending` and `quarantined` count sealed objects that
    are not complete.
    """

    topic: str
    partition: int
    begin: int
    end: int
    archived: int | None
    pending: int = 0
    quarantined: int = 0

    @property
    def lag(self) -> int:
        """Offsets between what is archived and the end; those that Kafka has deleted do not count."""
        return max(0, self.end - max(self.begin, self.archived or 0))


def survey_topics(settings: Settings) -> Survey:
    """The sink's topics as the brokers have them, whole. Blocks; Unavailable, AccessDenied."""
    found = _survey_of(settings).ask()
    if found.unknown is not None:
        raise AccessDenied(found.unknown) if found.forbidden else Unavailable(found.unknown)
    return found


def surveyed(settings: Settings) -> Survey | Refused:
    """The same, where a refusal is a fact. Blocks."""
    try:
        return survey_topics(settings)
    except HeadraceError as error:
        return Refused(Cause.DENIED if isinstance(error, AccessDenied) else Cause.UNREACHED, str(error))


def topics_facts(settings: Settings, found: Survey | Refused) -> TopicsFacts | Refused:
    """What `check` holds against the options. Blocks."""
    if isinstance(found, Refused):
        return found
    return TopicsFacts(
        missing=found.missing,
        partitions=[_read_facts(partition, partition.group_offset) for partition in found.partitions],
        members=found.members,
        retention_ms=_retention(settings, dict.fromkeys(partition.topic for partition in found.partitions)),
    )


def _retention(settings: Settings, topics: Iterable[str]) -> Mapping[str, int]:
    """How long topics whose objects may be open for long keep records; nothing where it is refused."""
    assert settings.sink is not None, "a source reads no topics"
    asked = [topic for topic in topics if may_outlive(settings.sink, topic)]
    if not asked:
        return {}
    try:
        found = KafkaAdmin(settings.kafka.client("admin")).topic_configurations(asked)
    except HeadraceError:
        return {}
    # One that is refused is left out: DescribeConfigs is a right of its own, which no sink needs.
    told = {topic: one for topic, one in found.items() if not isinstance(one, HeadraceError)}
    kept = {topic: retention_ms(configuration) for topic, configuration in told.items()}
    return {topic: span for topic, span in kept.items() if span is not None}


def backlog_of(
    found: Survey, cache: LedgerCache | None, *, earlier: Mapping[TopicPartition, int] = _NONE
) -> list[Backlog]:
    """What is still to be archived, by topic and partition; the ledger wins over the group's offsets.

    `earlier` are the offsets that another sink's own files say, of partitions that the ledger does not know.
    """
    entries = list(_entries(cache))
    checkpoints = _checkpoints(entries)
    objects = Counter(
        (entry.partition_of, entry.state) for entry in entries if isinstance(entry, SealedObject)
    )
    return [
        Backlog(
            topic=partition.topic,
            partition=partition.partition,
            begin=partition.begin,
            end=partition.end,
            archived=_archived(partition, checkpoints, earlier),
            pending=objects[_place(partition), ObjectState.PENDING],
            quarantined=objects[_place(partition), ObjectState.QUARANTINED],
        )
        for partition in sorted(
            found.partitions, key=lambda partition: (partition.topic, partition.partition)
        )
    ]


def read_facts(found: Survey, backlog: Iterable[Backlog]) -> list[ReadFacts]:
    """Where each partition would continue by its backlog, and who committed the group's offset."""
    partitions = {(partition.topic, partition.partition): partition for partition in found.partitions}
    return [_read_facts(partitions[one.topic, one.partition], one.archived) for one in backlog]


def _read_facts(partition: SurveyedPartition, archived: int | None) -> ReadFacts:
    return ReadFacts(
        topic=partition.topic,
        partition=partition.partition,
        begin=partition.begin,
        end=partition.end,
        archived=archived,
        mark=partition.group_mark,
        topic_id=partition.topic_id,
    )


def _survey_of(settings: Settings) -> TopicSurvey:
    sink = settings.sink
    assert sink is not None, "a source reads no topics"
    return TopicSurvey(settings.kafka.client("admin"), group=sink.group_id, chosen=sink.topics)


def checkpoints_of(cache: LedgerCache | None) -> dict[TopicPartition, PartitionCheckpoint]:
    """Where the ledger has each partition."""
    return _checkpoints(_entries(cache))


def _checkpoints(entries: Iterable[SinkEntry]) -> dict[TopicPartition, PartitionCheckpoint]:
    return {entry.partition_of: entry for entry in entries if isinstance(entry, PartitionCheckpoint)}


def _entries(cache: LedgerCache | None) -> Iterator[SinkEntry]:
    if cache is None:
        return
    for key, raw in cache.controls().items():
        if is_sink_key(key):
            yield decode_sink_entry(key, raw)


def _archived(
    partition: SurveyedPartition,
    checkpoints: Mapping[TopicPartition, PartitionCheckpoint],
    earlier: Mapping[TopicPartition, int],
) -> int | None:
    place = _place(partition)
    checkpoint = checkpoints.get(place)
    if checkpoint is None:
        known = [offset for offset in (partition.group_offset, earlier.get(place)) if offset is not None]
        return max(known, default=None)
    # Offsets of a topic that had this name before say nothing of this one.
    return checkpoint.shown_offset if checkpoint.topic_id == partition.topic_id else None


def _place(partition: SurveyedPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
