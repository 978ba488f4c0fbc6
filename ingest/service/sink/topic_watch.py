"""Asks the brokers about the sink's topics, in a thread beside the one that decides."""

import queue
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from archive import EarlierArchive, FoundPartition, FoundTopics
from ingest.errors import HeadraceError
from ingest.kafka.topic_survey import Survey, TopicSurvey
from ingest.model.sink_entries import TopicPartition
from ingest.service.service_events import ComponentProblem
from ingest.service.sink.earlier_archive import EarlierArchives
from ingest.service.sink.sink_events import TopicsSurveyed
from ingest.threads import start_thread

_log = structlog.get_logger(__name__)

_PART: Final = "topics"
_PAUSE_SECONDS: Final = 0.5


class TopicWatch:
    """Answers numbered requests with `TopicsSurveyed`, the newest where several wait; tries until it can."""

    def __init__(
        self,
        survey: TopicSurvey,
        post: Callable[[ComponentProblem | TopicsSurveyed], None],
        earlier: EarlierArchives,
    ) -> None:
        self._survey = survey
        self._earlier = earlier
        self._post = post
        self._requests: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._has_failed = False
        self._is_closing = False
        self._thread = start_thread(self._run, name="topic-watch")

    def request(self, number: int) -> None:
        """Ask once more, from now on; `number` rises. Does not block."""
        self._requests.put(number)

    def close(self) -> None:
        """Ask no more; an answer under way is not posted."""
        self._is_closing = True
        self._requests.put(None)

    def join(self, seconds: float) -> bool:
        """Whether the thread has ended in this time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (number := self._newest()) is not None:
            survey = self._ask()
            if survey is None:
                return
            # While the other runs, what it has under way is its own.
            earlier = {} if survey.members else self._earlier.of(survey.partitions)
            self._post(TopicsSurveyed(_found(number, survey, earlier)))

    def _newest(self) -> int | None:
        """The number of the last request; None at the end. Blocks for one."""
        number = self._requests.get()
        while number is not None:
            try:
                number = self._requests.get_nowait()
            except queue.Empty:
                return number
        return None

    def _ask(self) -> Survey | None:
        """The answer; None when nobody wants one any more. A later request is answered by it, too."""
        while not self._is_closing:
            try:
                survey = self._survey.ask()
            except HeadraceError as error:
                if not self._has_failed:
                    _log.warning("topics_not_described", error=str(error), detail="it is tried again")
                self._has_failed = True
                self._post(ComponentProblem(_PART, str(error)))
                time.sleep(_PAUSE_SECONDS)
            else:
                if self._has_failed:
                    self._has_failed = False
                    self._post(ComponentProblem(_PART, None))
                return survey
        return None


def _found(number: int, survey: Survey, earlier: Mapping[TopicPartition, EarlierArchive]) -> FoundTopics:
    return FoundTopics(
        request=number,
        partitions=tuple(
            FoundPartition(
                topic=one.topic,
                partition=one.partition,
                topic_id=one.topic_id,
                begin=one.begin,
                end=one.end,
                group_offset=one.group_offset,
                group_mark=one.group_mark,
                earlier=earlier.get(TopicPartition(one.topic, one.partition)),
            )
            for one in survey.partitions
        ),
        group_members=survey.members,
    )
