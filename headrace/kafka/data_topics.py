"""The topics of records: those that a sink reads, with offsets and group, and a source's, with limits."""

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from headrace.kafka.admin import DescribedTopic, KafkaAdmin
from headrace.kafka.kafka_clients import Properties
from headrace.kafka.kafka_errors import require_leaders
from headrace.kafka.ledger_topic import Holds, LedgerMarks
from headrace.model.errors import (
    AccessDenied,
    InvalidConfiguration,
    TopicForbidden,
    TopicMissing,
    TopicWithoutLeader,
)
from headrace.options.topic_expressions import TopicSelection

# How long what the group has committed is believed where nothing depends on it. Asking takes a client of its
# own each time (see KafkaAdmin.committed).
_COMMITTED_SECONDS: Final = 30.0
# How long a topic that a pattern lists no more, and that may not be described, may be there: brokers refuse
# one that is gone in the same words.
_HIDDEN_SECONDS: Final = 300.0
# So many partitions are named.
_SHOWN: Final = 5

_Place = tuple[str, int]
_Committed = dict[_Place, tuple[int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedPartition:
    """One partition: the first offset that is there, the high watermark, and what the group has committed.

    `stable_end` is where it ends for readers of what is committed; None where that was not asked for.
    """

    topic: str
    partition: int
    topic_id: str
    begin: int
    end: int
    group_offset: int | None
    group_mark: str
    stable_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The partitions of the topics that are there, and the active members of the group.

    `missing` are the names that were given and are no topic's. `left_out` are topics that are no data:
    ledgers and configurations of connectors. `empty` hold nothing so far, so that they may become one.
    Of `leaderless` partitions only their topics' ids are known; of `forbidden` topics nothing is, not even
    whether they are there: the sentences say what brokers answer.
    """

    partitions: tuple[SurveyedPartition, ...]
    members: tuple[str, ...]
    missing: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    leaderless: Mapping[_Place, str] = field(default_factory=dict)
    forbidden: Mapping[str, str] = field(default_factory=dict)

    @property
    def unknown(self) -> str | None:
        """Why a part of this is not known for now, in sentences; None where all is."""
        sentences = list(self.forbidden.values())
        if self.leaderless:
            lost = [f"{topic}-{number}" for topic, number in sorted(self.leaderless)]
            sentences.append(
                f"{', '.join(lost[:_SHOWN])}{', ..' if len(lost) > _SHOWN else ''}: no leader, so nothing "
                "of it is read. Bring back a broker that has a replica of it (kafka-topics.sh --describe "
                "--unavailable-partitions)."
            )
        return " ".join(sentences) or None


class TopicSurvey:
    """Asks about the topics of a sink."""

    def __init__(
        self,
        properties: Properties,
        *,
        group: str,
        chosen: TopicSelection,
    ) -> None:
        self._admin = KafkaAdmin(properties)
        self._marks = LedgerMarks(properties)
        self._group = group
        self._chosen = chosen
        self._committed: tuple[float, frozenset[_Place], _Committed] = (0.0, frozenset(), {})
        # When each topic was there last.
        self._last_there: dict[str, float] = {}

    def topics(self) -> set[str]:
        """The names of the topics that are meant, there or not; by the pattern those that are there."""
        if self._chosen.pattern is None:
            return set(self._chosen.names)
        return set(filter(self._chosen.has, self._admin.topics()))

    def lives(self, names: Collection[str]) -> dict[str, tuple[str, int]]:
        """The ids and numbers of partitions of these topics, by one request.

        Left out are those that are not there, or that this user may not ask about; of topics that are not
        chosen those, too, that it may not read, by a request more: offsets are committed of readable ones
        alone. Blocks; Unavailable, AccessDenied.
        """
        found = self._admin.describe_topics(names)
        lives = {name: one[:2] for name, one in found.items() if isinstance(one, DescribedTopic)}
        if others := {name for name in lives if not self._chosen.has(name)}:
            readable = self._admin.readable(others)
            return {name: one for name, one in lives.items() if name not in others - readable}
        return lives

    def ask(self, *, is_settled: bool = False, held: Collection[_Place] = ()) -> Survey:
        """The present state. Blocks; Unavailable, AccessDenied where brokers refuse all.

        `is_settled`: what the group has committed decides nothing now, and may be half a minute old. Of
        partitions that open transactions have `held` back it is asked where they end for readers.

        Topics are described first: offsets and commits are of those lives, or of later ones. Members are
        asked for before offsets: what a group without members has committed is its last word.
        """
        there, forbidden = self._described()
        led, leaderless = _by_leaders(there)
        ranges = self._admin.offset_ranges(led)
        holds = self._marks.holds({name: one[:2] for name, one in there.items()}, ranges)
        # A topic that somebody has named is data until it is seen not to be.
        no_data = {Holds.LEDGER} if self._chosen.pattern is None else {Holds.LEDGER, Holds.NOTHING}
        places = [place for place in led if holds[place[0]] not in no_data]
        held = [place for place in places if place in held]
        stable_ends = self._admin.stable_ends(held) if held else {}
        members = tuple(sorted(self._admin.members(self._group)))
        committed = self._known_commits(places, is_settled=is_settled)
        nothing: tuple[int | None, str] = (None, "")
        return Survey(
            partitions=tuple(
                SurveyedPartition(
                    topic=topic,
                    partition=number,
                    topic_id=there[topic].topic_id,
                    begin=ranges[topic, number][0],
                    end=ranges[topic, number][1],
                    group_offset=committed.get((topic, number), nothing)[0],
                    group_mark=committed.get((topic, number), nothing)[1],
                    stable_end=stable_ends.get((topic, number)),
                )
                for topic, number in places
            ),
            members=members,
            missing=tuple(sorted(set(self._chosen.names) - there.keys() - forbidden.keys())),
            left_out=tuple(sorted(name for name in there if holds[name] is Holds.LEDGER)),
            empty=tuple(
                sorted(name for name in there if holds[name] is Holds.NOTHING and not there[name].leaderless)
            ),
            leaderless={
                place: there[place[0]].topic_id for place in leaderless if holds[place[0]] is not Holds.LEDGER
            },
            forbidden=forbidden,
        )

    def _described(self) -> tuple[dict[str, DescribedTopic], dict[str, str]]:
        """The topics that are there; and why brokers refuse others, unless they refuse all: AccessDenied."""
        now = time.monotonic()
        # By a pattern those are listed that may be described: one that was there is asked about by its name.
        before = {name for name, at in self._last_there.items() if now - at < _HIDDEN_SECONDS}
        found = self._admin.describe_topics(self.topics() | before)
        there = {name: one for name, one in found.items() if isinstance(one, DescribedTopic)}
        refused = {name: one for name, one in found.items() if isinstance(one, AccessDenied)}
        hidden = {name: at for name, at in self._last_there.items() if name in refused}
        self._last_there = hidden | dict.fromkeys(there, now)
        if refused and not there:
            raise next(iter(refused.values()))
        return there, {name: str(error) for name, error in refused.items()}

    def _known_commits(self, places: Sequence[_Place], *, is_settled: bool) -> _Committed:
        """The group's commits: of a moment ago, or those of before that will do."""
        asked_at, asked, known = self._committed
        now = time.monotonic()
        if is_settled and asked == frozenset(places) and now - asked_at < _COMMITTED_SECONDS:
            return known
        found = self._admin.committed(self._group, places)
        self._committed = (now, frozenset(places), found)
        return found


def _by_leaders(topics: Mapping[str, DescribedTopic]) -> tuple[list[_Place], list[_Place]]:
    """The partitions of these topics that have leaders, and those that have none."""
    places = [(name, number) for name, one in topics.items() for number in range(one.partitions)]
    return (
        [place for place in places if place[1] not in topics[place[0]].leaderless],
        [place for place in places if place[1] in topics[place[0]].leaderless],
    )


_log = structlog.get_logger(__name__)

_FRESH_SECONDS: Final = 30.0
# A missing topic may be made at any moment, a forbidden one allowed; a template can name many such topics.
_MISSING_FRESH_SECONDS: Final = 5.0

_Refusal = TopicForbidden | TopicMissing | TopicWithoutLeader


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopic:
    """An output topic as the brokers describe it.

    `max_record_bytes` bounds a batch of one record; None where brokers of another vendor do not report it.
    `is_ledger`: it holds what Headrace or Kafka Connect keep of connectors; nothing may be written into it.
    """

    name: str
    partitions: int
    max_record_bytes: int | None
    is_ledger: bool = False

    @property
    def ledger_sentence(self) -> str:
        """What to say where it is a ledger."""
        return (
            f"The topic {self.name!r} holds what Headrace or Kafka Connect keep of their connectors: records "
            "written into it would be taken for theirs. Name another topic, or map it with restore.topic.map."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """`topic.creation.default.*`: how missing topics are made."""

    partitions: int
    replication_factor: int


class OutputTopics:
    """What is known of the output topics, for half a minute each. Thread-safe; every question may block.

    With `creation` a missing topic is made when it is first asked for; without, it is TopicMissing, with the
    options that would have it made where they are for the connector (`may_create`).
    """

    def __init__(
        self, properties: Properties, *, creation: TopicCreation | None = None, may_create: bool = True
    ) -> None:
        self._may_create = may_create
        self._admin = KafkaAdmin(properties)
        self._marks = LedgerMarks(properties)
        self._creation = creation
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, OutputTopic | _Refusal]] = {}

    def get(self, name: str) -> OutputTopic:
        """The topic; TopicMissing, TopicForbidden, and Unavailable and AccessDenied from the brokers.

        TopicWithoutLeader where `ask` has said so, until all partitions have a leader again: mostly it is
        another one in a moment, and clients wait for that.
        """
        with self._lock:
            until, found = self._known.get(name, (0.0, None))
            if found is None or time.monotonic() > until:
                found = self._remembered(name, needs_leaders=isinstance(found, TopicWithoutLeader))
        return _or_refuse(found, name)

    def ask(self, name: str) -> OutputTopic:
        """The same, not from memory; TopicWithoutLeader where a partition has none."""
        with self._lock:
            found = self._remembered(name, needs_leaders=True)
        return _or_refuse(found, name)

    def require(self, names: Iterable[str]) -> list[OutputTopic]:
        """All of these topics, at start; one TopicMissing that names every missing one."""
        found, missing = [], []
        for name in names:
            try:
                found.append(self.get(name))
            except TopicMissing:
                missing.append(name)
        if missing:
            raise TopicMissing(_sentence(missing, may_create=self._may_create))
        for topic in found:
            if topic.is_ledger:
                raise InvalidConfiguration(topic.ledger_sentence)
        return found

    def forget(self, name: str) -> None:
        """Ask again at the next question: a task has found that the topic is not there, or forbidden."""
        with self._lock:
            self._known.pop(name, None)

    def _remembered(self, name: str, *, needs_leaders: bool) -> OutputTopic | _Refusal:
        found = self._asked(name, needs_leaders=needs_leaders)
        fresh = _FRESH_SECONDS if isinstance(found, OutputTopic) else _MISSING_FRESH_SECONDS
        self._known[name] = (time.monotonic() + fresh, found)
        return found

    def _asked(self, name: str, *, needs_leaders: bool) -> OutputTopic | _Refusal:
        try:
            return self._described(name, needs_leaders=needs_leaders)
        except (TopicForbidden, TopicWithoutLeader) as error:
            return error
        except TopicMissing:
            if self._creation is None:
                return TopicMissing(_sentence([name], may_create=self._may_create))
        made = self._admin.create_topic(
            name,
            partitions=self._creation.partitions,
            replication_factor=self._creation.replication_factor,
        )
        if made:
            _log.info("topic_created", topic=name, partitions=self._creation.partitions)
        # The controller has made the topic before every broker knows it.
        settled: Retrying = Retrying(
            retry=retry_if_exception_type(TopicMissing),
            stop=stop_after_delay(10),
            wait=wait_fixed(0.1),
            reraise=True,
        )
        return settled(self._described, name)

    def _described(self, name: str, *, needs_leaders: bool = False) -> OutputTopic:
        found = self._admin.writable_partitions(name)
        if needs_leaders:
            require_leaders(name, found)
        partitions = len(found)
        configuration = self._admin.topic_configuration(name)
        # In force, so that it is the brokers' message.max.bytes where the topic sets none.
        most = configuration.get("max.message.bytes")
        # What is not reported is no sign that there is none.
        may_be_ledger = "compact" in (configuration.get("cleanup.policy") or "compact")
        return OutputTopic(
            name=name,
            partitions=partitions,
            max_record_bytes=None if most is None else int(most),
            is_ledger=may_be_ledger and self._holds_ledger(name, partitions),
        )

    def _holds_ledger(self, name: str, partitions: int) -> bool:
        if partitions != 1:
            return False
        try:
            ranges = self._admin.offset_ranges([(name, 0)])
            found = self._marks.holds({name: (self._admin.topic_id(name), 1)}, ranges)
        except AccessDenied:
            # It may be written and not be read.
            return False
        return found[name] is Holds.LEDGER


def _or_refuse(found: OutputTopic | _Refusal, name: str) -> OutputTopic:
    """The topic; what is against it is raised as an error of its own each time."""
    match found:
        case OutputTopic():
            return found
        case _:
            raise type(found)(str(found), topic=name)


def _sentence(names: list[str], *, may_create: bool) -> str:
    quoted = ", ".join(repr(name) for name in sorted(names))
    if len(names) == 1:
        what, object_ = f"Topic {quoted} does not exist.", "it"
    else:
        what, object_ = f"Topics {quoted} do not exist.", "them"
    by_option = (
        ", or set topic.creation.default.partitions and topic.creation.default.replication.factor"
        if may_create
        else ""
    )
    setup = "`headrace setup CONFIG` makes those that the configuration names"
    return f"{what} Create {object_} ({setup}){by_option}."
