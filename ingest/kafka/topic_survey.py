"""What the brokers have of the topics that a sink reads: partitions, offsets, and the sink's own group."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from ingest.kafka.admin import KafkaAdmin
from ingest.kafka.kafka_clients import Properties

# What Kafka keeps for itself is no data of anybody's.
_INTERNAL = re.compile(r"__.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedPartition:
    """One partition: the first offset that is there, the high watermark, and what the group has committed."""

    topic: str
    partition: int
    topic_id: str
    begin: int
    end: int
    group_offset: int | None
    group_mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """All partitions of the topics that are there, and the active members of the group."""

    partitions: tuple[SurveyedPartition, ...]
    members: tuple[str, ...]


class TopicSurvey:
    """Asks about topics by `names`, or all that `pattern` (Python's, the whole name) matches."""

    def __init__(
        self,
        properties: Properties,
        *,
        group: str,
        names: tuple[str, ...],
        pattern: str | None,
        ignored: frozenset[str],
    ) -> None:
        self._admin = KafkaAdmin(properties)
        self._group = group
        self._names = names
        self._pattern = None if pattern is None else re.compile(pattern)
        self._ignored = ignored

    def topics(self) -> set[str]:
        """The names of the topics that are meant, there or not; by the pattern those that are there."""
        if self._pattern is None:
            return set(self._names)
        return {
            name
            for name in self._admin.topics()
            if self._pattern.fullmatch(name) and not _INTERNAL.fullmatch(name) and name not in self._ignored
        }

    def lives(self, names: Collection[str]) -> dict[str, tuple[str, int]]:
        """The ids and numbers of partitions of these topics, by one request; absent ones are left out.

        Blocks; Unavailable, AccessDenied.
        """
        return self._admin.describe_topics(names)

    def ask(self) -> Survey:
        """The present state. Blocks; Unavailable, AccessDenied.

        Topics are described first: offsets and commits are of those lives, or of later ones. Members are
        asked for before offsets: what a group without members has committed is its last word.
        """
        described = self._admin.describe_topics(self.topics())
        places = [(topic, number) for topic, (_, count) in described.items() for number in range(count)]
        ranges = self._admin.offset_ranges(places)
        members = tuple(sorted(self._admin.members(self._group)))
        committed = self._admin.committed(self._group, places)
        nothing: tuple[int | None, str] = (None, "")
        return Survey(
            partitions=tuple(
                SurveyedPartition(
                    topic=topic,
                    partition=number,
                    topic_id=described[topic][0],
                    begin=ranges[topic, number][0],
                    end=ranges[topic, number][1],
                    group_offset=committed.get((topic, number), nothing)[0],
                    group_mark=committed.get((topic, number), nothing)[1],
                )
                for topic, number in places
            ),
            members=members,
        )
