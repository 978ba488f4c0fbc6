"""What the threads of a sink's leader tell the one that decides."""

import queue
from dataclasses import dataclass

from headrace.kafka.ledger_follower import Applied
from headrace.model.sink_entries import SealedObject, Verdict
from ingest.service.service_events import OwnEvent
from ingest.sink import FoundLives, FoundTopics, SinkWrite
from spark.slots import SlotEvent


@dataclass(frozen=True, slots=True)
class SinkWritten:
    """A transaction of the leader was acknowledged, with these records."""

    writes: tuple[SinkWrite, ...]


@dataclass(frozen=True, slots=True)
class TopicsSurveyed:
    """The brokers have answered; the names are those of `headrace.kafka.topic_survey.Survey`."""

    topics: FoundTopics
    missing: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LivesFound:
    """The brokers have said which topics those are that slots are about to commit."""

    lives: FoundLives


@dataclass(frozen=True, slots=True)
class CompletionEnded:
    """A completion of the leader's has its end."""

    sealed: SealedObject
    verdict: Verdict


SinkEvent = (
    OwnEvent | SlotEvent | SinkWritten | TopicsSurveyed | LivesFound | CompletionEnded | tuple[Applied, ...]
)
SinkInbox = queue.SimpleQueue[SinkEvent]
