"""What the brokers have of the topics that a sink reads: partitions, offsets, and the sink's own group."""

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.kafka_clients import Properties
from headrace.kafka.ledger_marks import Holds, LedgerMarks

# What Kafka keeps for itself is no data of anybody's.
_INTERNAL = re.compile(r"__.*")

# How long what the group has committed is believed where nothing depends on it. Asking takes a client of its
# own each time (see KafkaAdmin.committed).
_COMMITTED_SECONDS: Final = 30.0

_Place = tuple[str, int]
_Committed = dict[_Place, tuple[int, str]]


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
    """All partitions of the topics that are there, and the active members of the group.

    `missing` are the names that were given and are no topic's. `left_out` are topics that are no data:
    ledgers and configurations of connectors. `empty` hold nothing so far, so that they may become one.
    """

    partitions: tuple[SurveyedPartition, ...]
    members: tuple[str, ...]
    missing: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


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
        self._marks = LedgerMarks(properties)
        self._group = group
        self._names = names
        self._pattern = None if pattern is None else re.compile(pattern)
        self._ignored = ignored
        self._committed: tuple[float, frozenset[_Place], _Committed] = (0.0, frozenset(), {})

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

    def ask(self, *, is_settled: bool = False) -> Survey:
        """The present state. Blocks; Unavailable, AccessDenied.

        `is_settled`: what the group has committed decides nothing now, and may be half a minute old.

        Topics are described first: offsets and commits are of those lives, or of later ones. Members are
        asked for before offsets: what a group without members has committed is its last word.
        """
        there = self._admin.describe_topics(self.topics())
        ranges = self._admin.offset_ranges(
            [(topic, number) for topic, (_, count) in there.items() for number in range(count)]
        )
        holds = self._marks.holds(there, ranges)
        # A topic that somebody has named is data until it is seen not to be.
        no_data = {Holds.LEDGER} if self._pattern is None else {Holds.LEDGER, Holds.NOTHING}
        described = {name: found for name, found in there.items() if holds[name] not in no_data}
        places = [(topic, number) for topic, (_, count) in described.items() for number in range(count)]
        members = tuple(sorted(self._admin.members(self._group)))
        committed = self._known_commits(places, is_settled=is_settled)
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
            missing=tuple(sorted(name for name in self._names if name not in there)),
            left_out=tuple(sorted(name for name in there if holds[name] is Holds.LEDGER)),
            empty=tuple(sorted(name for name in there if holds[name] is Holds.NOTHING)),
        )

    def _known_commits(self, places: Sequence[_Place], *, is_settled: bool) -> _Committed:
        """The group's commits: of a moment ago, or those of before that will do."""
        asked_at, asked, known = self._committed
        now = time.monotonic()
        if is_settled and asked == frozenset(places) and now - asked_at < _COMMITTED_SECONDS:
            return known
        found = self._admin.committed(self._group, places)
        self._committed = (now, frozenset(places), found)
        return found
