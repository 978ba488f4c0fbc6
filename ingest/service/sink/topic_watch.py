"""Asks the brokers about the sink's topics, in a thread next to the one that decides."""

import functools
import queue
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from headrace.kafka.data_topics import Survey, SurveyedPartition, TopicSurvey
from headrace.model.errors import HeadraceError
from headrace.model.sink_entries import TopicPartition
from headrace.process.threads import start_thread
from ingest.service.service_events import ComponentProblem
from ingest.service.sink.completer import LivesFound, TopicsSurveyed
from ingest.service.sink.earlier_archive import EarlierArchives
from ingest.sink import EarlierArchive, FoundLives, FoundPartition, FoundTopics, TopicLife

# -- The topics that a sink does not read: those that are not there, and those that are no data; told once ---

_log = structlog.get_logger(__name__)

_DETAIL: Final = "a topic is read from as soon as it is there; nothing else waits for it"


class MissingTopics:
    """What a leadership's surveys did not find; for one thread, and does not block.

    `pattern` is `topics.regex`: of it only that it matches nothing can be missed.
    """

    def __init__(self, pattern: str | None) -> None:
        self._pattern = pattern
        self._matches_nothing = False
        self._left_out: tuple[str, ...] = ()
        self.names: tuple[str, ...] = ()
        """Those of `topics` that the last survey did not find."""

    def surveyed(self, missing: Iterable[str], there: Collection[str]) -> None:
        """Take what a survey found: names that are not there, and the topics that are."""
        if self._pattern is None:
            self._tell_names(tuple(missing))
        else:
            self._tell_pattern(self._pattern, there)

    def no_data(self, left_out: tuple[str, ...]) -> str | None:
        """Take the topics that are ledgers or configurations; what is wrong where they were named."""
        known, self._left_out = self._left_out, left_out
        if left_out != known and left_out:
            _log.info(
                "topics_left_out",
                topics=left_out,
                detail="ledgers and configurations of connectors are never data, and may hold secrets",
            )
        if not left_out or self._pattern is not None:
            return None
        return (
            f"{', '.join(left_out)}: what Headrace or Kafka Connect keep of their connectors, which is never "
            "data and may hold secrets. It is not archived; take it out of topics."
        )

    def _tell_names(self, names: tuple[str, ...]) -> None:
        known, self.names = self.names, names
        if lost := [name for name in names if name not in known]:
            _log.warning(
                "topics_missing",
                topics=lost,
                detail=_DETAIL,
                remedy="create what is missing, or correct topics",
            )
        if found := [name for name in known if name not in names]:
            _log.info("topics_found", topics=found)

    def _tell_pattern(self, pattern: str, there: Collection[str]) -> None:
        known, self._matches_nothing = self._matches_nothing, not there
        if self._matches_nothing and not known:
            _log.warning(
                "topics_missing",
                topics=[],
                regex=pattern,
                detail=_DETAIL,
                remedy="create a topic that topics.regex matches, or correct it",
            )
        if known and there:
            _log.info("topics_found", topics=sorted(there), regex=pattern)


# -- Asks the brokers about the sink's topics, in a thread beside the one that decides -----------------------

_COMPONENT: Final = "topics"
_PAUSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Request:
    """`lives`: the topics of which nothing but their ids is wanted; None: all is.

    `is_settled`: what the group has committed decides nothing. `held`: see `TopicSurvey.ask`.
    """

    number: int
    lives: frozenset[str] | None
    is_settled: bool = True
    held: frozenset[TopicPartition] = frozenset()

    def joined(self, later: "_Request") -> "_Request":
        """What answers both."""
        both = None if self.lives is None or later.lives is None else self.lives | later.lives
        number = max(self.number, later.number)
        return _Request(number, both, self.is_settled and later.is_settled, self.held | later.held)


class TopicWatch:
    """Answers numbered requests, the newest where several wait; tries until it can.

    With `TopicsSurveyed`, or with `LivesFound` where nothing else is asked for: one request instead of
    a dozen and a connection, and a slot waits for it before each transaction.
    """

    def __init__(
        self,
        survey: TopicSurvey,
        post: Callable[[ComponentProblem | TopicsSurveyed | LivesFound], None],
        earlier: EarlierArchives,
    ) -> None:
        self._survey = survey
        self._earlier = earlier
        self._post = post
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._has_failed = False
        self._told: str | None = None
        self._is_closing = False
        self._thread = start_thread(self._run, name="topic-watch")

    def request(
        self, number: int, *, is_settled: bool = False, held: frozenset[TopicPartition] = frozenset()
    ) -> None:
        """Ask once more, from now on; `number` rises. Does not block.

        `is_settled`: what the group has committed decides nothing, and need not be asked each time. `held`:
        see `TopicSurvey.ask`.
        """
        self._requests.put(_Request(number, None, is_settled, held))

    def request_lives(self, number: int, topics: Collection[str]) -> None:
        """Ask which topics these are, from now on; `number` rises. Does not block."""
        self._requests.put(_Request(number, frozenset(topics)))

    def close(self) -> None:
        """Ask no more; what is asked now is the last."""
        self._is_closing = True
        self._requests.put(None)

    def join(self, seconds: float) -> bool:
        """Whether the thread has ended in this time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failed: list[_Request] = []
        while (come := self._next(is_idle=not failed)) is not None:
            waiting = _by_kind([*failed, *come])
            if failed:
                # Each by itself: ids may be known where the rest is not, and a slot waits for no more.
                failed = [one for one in waiting if not (self._is_closing or self._is_answered(one))]
            elif not self._is_answered(functools.reduce(_Request.joined, waiting)):
                failed = waiting

    def _next(self, *, is_idle: bool) -> list[_Request] | None:
        """All requests that wait; None at the end. Blocks for one, or for a moment unless `is_idle`."""
        found: list[_Request] = []
        try:
            request = self._requests.get(timeout=None if is_idle else _PAUSE_SECONDS)
            while request is not None:
                found.append(request)
                request = self._requests.get_nowait()
        except queue.Empty:
            return found
        return None

    def _is_answered(self, request: _Request) -> bool:
        """Answer it; False where that has failed, which `problems` has then."""
        try:
            if request.lives is None:
                self._answer_all(request)
            else:
                self._answer_lives(request.number, request.lives)
        except HeadraceError as error:
            if not self._has_failed:
                _log.warning("topics_not_described", error=str(error), detail="it is tried again")
            self._has_failed = True
            self._tell(str(error))
            return False
        return True

    def _answer_all(self, request: _Request) -> None:
        number = request.number
        survey = self._survey.ask(is_settled=request.is_settled, held=request.held)
        # While the other runs, what it has under way is its own.
        earlier = {} if survey.members else self._earlier.of(survey.partitions)
        if survey.unknown is not None and (self._has_failed or survey.unknown != self._told):
            _log.warning("topics_not_described", error=survey.unknown, detail="the others are archived")
        self._has_failed = False
        self._tell(survey.unknown)
        self._post(
            TopicsSurveyed(_found(number, survey, earlier), survey.missing, survey.left_out, survey.empty)
        )

    def _answer_lives(self, number: int, topics: Collection[str]) -> None:
        found = self._survey.lives(topics)
        lives = {name: TopicLife(topic_id=one, partitions=count) for name, (one, count) in found.items()}
        self._post(LivesFound(FoundLives(request=number, topics=lives)))

    def _tell(self, sentence: str | None) -> None:
        """Say what fails now, where that is news; None: nothing does."""
        if sentence != self._told:
            self._told = sentence
            self._post(ComponentProblem(_COMPONENT, sentence))


def _by_kind(requests: Iterable[_Request]) -> list[_Request]:
    """One request for all lives that are wanted, then one for all the rest, where there are any."""
    found: dict[bool, _Request] = {}
    for one in requests:
        is_whole = one.lives is None
        found[is_whole] = found[is_whole].joined(one) if is_whole in found else one
    return [found[is_whole] for is_whole in sorted(found)]


def found_partition(one: SurveyedPartition, earlier: EarlierArchive | None = None) -> FoundPartition:
    """A partition as the archive receives it; `earlier` is what another sink has left."""
    return FoundPartition(
        topic=one.topic,
        partition=one.partition,
        topic_id=one.topic_id,
        begin=one.begin,
        end=one.end,
        group_offset=one.group_offset,
        group_mark=one.group_mark,
        earlier=earlier,
        stable_end=one.stable_end,
    )


def _found(number: int, survey: Survey, earlier: Mapping[TopicPartition, EarlierArchive]) -> FoundTopics:
    return FoundTopics(
        request=number,
        partitions=tuple(
            found_partition(one, earlier.get(TopicPartition(one.topic, one.partition)))
            for one in survey.partitions
        ),
        group_members=survey.members,
        leaderless={TopicPartition(*place): topic_id for place, topic_id in survey.leaderless.items()},
        forbidden=frozenset(survey.forbidden),
    )
