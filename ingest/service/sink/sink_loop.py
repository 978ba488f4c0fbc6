"""The sink's deciding thread: takes one event after the other, and carries out what the archive decides."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import TopicPartition

from headrace.kafka.control_records import TargetState
from headrace.kafka.fencing import memberless_metadata
from headrace.kafka.ledger_writer import GroupOffsets, Write
from headrace.model import clock
from headrace.model.errors import Unavailable
from headrace.process.threads import ThreadFailures
from ingest.service.idle import Patience, UntilArchived
from ingest.service.leading import Turns
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.service_events import (
    ComponentProblem,
    Fatal,
    LedgerEndBlocked,
    Recovered,
    RunInServiceThread,
)
from ingest.service.sink.completer import (
    Completer,
    CompletionEnded,
    LivesFound,
    SinkEvent,
    SinkInbox,
    SinkWritten,
    TopicsSurveyed,
)
from ingest.service.sink.sink_lifecycle import SinkLifecycle
from ingest.service.sink.sink_slots import SinkSlots
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.service.sink.topic_watch import MissingTopics, TopicWatch
from ingest.service.stop import Stop
from ingest.sink import Archive, GroupOffset, SinkEffects
from spark.slots import BatchFinished, SlotEnded, SlotReady, SlotRecalled, SlotReported

_log = structlog.get_logger(__name__)

_TICK_SECONDS: Final = 2.0
_SURVEY_SECONDS: Final = 5.0
_NO_DATA: Final = "topics that are no data"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkComponents:
    """What the loop works with; all of it is running. `slots` is set by the loop's composer."""

    archive: Archive
    writes: LedgerWrites
    completer: Completer
    topics: TopicWatch
    missing: MissingTopics
    statistics: SinkStatistics
    group: str


class SinkLoop:
    """The loop of one leadership of the sink. `run` blocks; everybody else posts into `inbox`."""

    def __init__(
        self,
        inbox: SinkInbox,
        components: SinkComponents,
        *,
        stop: Stop,
        failures: ThreadFailures,
        until: UntilArchived | None = None,
        patience_seconds: float = 60.0,
    ) -> None:
        self._components = components
        self._until = until
        self._patience = Patience(patience_seconds)
        self._tick_at = self._survey_at = 0.0
        self._turns = Turns(inbox, self, stop=stop, failures=failures)
        self.slots: SinkSlots | None = None
        """Set before `run`: they need `apply`."""
        self.lifecycle: SinkLifecycle | None = None
        """Set before `run`: it needs the slots."""

    def run(self, publish: Callable[[], None]) -> None:
        """Work until an end is asked for or `--until-idle` is over; raises when it cannot continue."""
        self.apply(self._components.archive.begin())
        self._turns.run(publish)

    def drain(self, is_over: Callable[[], bool]) -> None:
        """See `Turns.drain`."""
        self._turns.drain(is_over)

    def _slots(self) -> SinkSlots:
        assert self.slots is not None, "set before the loop runs"
        return self.slots

    # -- what its turns ask ----------------------------------------------------------------------------------

    def due_seconds(self) -> float:
        """See `Decider`."""
        return min(self._tick_at, self._survey_at) - time.monotonic()

    def is_quiet(self) -> bool:
        """See `Decider`."""
        return self._until is None and self._components.archive.is_idle

    def is_over(self, now: float) -> bool:
        """See `Decider`."""
        return self._until is not None and self._is_over(self._until, now)

    def decide(self) -> None:
        """See `Decider`."""
        now = time.monotonic()
        if now >= self._survey_at:
            self._survey(is_settled=self._components.archive.is_settled)
        if now >= self._tick_at:
            # With the survey while nothing happens: what time alone brings is renewed once a day.
            self._tick_at = self._survey_at if self.is_quiet() else now + _TICK_SECONDS
            self.apply(self._components.archive.tick(clock.wall_ms()))
        if self.lifecycle is not None:
            self.lifecycle.advance()
        self._slots().plan()

    def _survey(self, *, is_settled: bool = False) -> None:
        self._survey_at = time.monotonic() + _SURVEY_SECONDS
        archive = self._components.archive
        self._components.topics.request(archive.request_topics(), is_settled=is_settled, held=archive.held())

    def handle(self, event: SinkEvent) -> None:  # noqa: C901  # one row for each kind of event
        """See `Decider`."""
        archive = self._components.archive
        match event:
            case SlotReady() | SlotReported() | BatchFinished() | SlotEnded() | SlotRecalled():
                self._slots().on_event(event)
            case TopicsSurveyed():
                self._surveyed(event)
            case LivesFound(lives):
                self.apply(archive.on_lives(lives))
            case SinkWritten(writes):
                self.apply(archive.on_written(writes))
            case CompletionEnded(sealed, verdict):
                self._components.statistics.left_object_ended(sealed, verdict)
                self.apply(archive.on_completion(sealed.id, verdict))
            case Recovered(slots):
                for slot in slots:
                    self._slots().recovered(slot)
            case LedgerEndBlocked(slots):
                self._slots().void_all(slots)
            case ComponentProblem(component, sentence):
                self._components.statistics.trouble(component, sentence)
            case RunInServiceThread(act):
                act()
            case Fatal():
                raise event.ending()
            case _:
                # Records of the ledger as they are read back: what they say was told by whoever wrote them.
                pass

    def _surveyed(self, found: TopicsSurveyed) -> None:
        topics = found.topics
        unknown = {topic for topic, _ in topics.leaderless} | topics.forbidden
        there = {one.topic for one in topics.partitions}.union(found.empty, unknown)
        self._components.missing.surveyed(found.missing, there)
        self._components.statistics.trouble(_NO_DATA, self._components.missing.no_data(found.left_out))
        if self._until is not None:
            self._until.surveyed(found.missing, is_whole=not unknown)
        self.apply(self._components.archive.on_topics(topics))

    # -- what follows ----------------------------------------------------------------------------------------

    def apply(self, effects: SinkEffects) -> None:
        """Carry out what the archive has decided; does not block."""
        components = self._components
        if effects.writes or effects.offsets:
            records: list[Write] = [(write.key, write.raw) for write in effects.writes]
            components.writes.submit_records(
                records, SinkWritten(effects.writes), other=self._offsets(effects.offsets)
            )
        for sealed in effects.completions:
            components.completer.submit(sealed)
        for batch in effects.groups:
            self._slots().answer_group(batch)
        for batch, object_id in effects.ended:
            self._slots().object_ended(batch, object_id)
        for slot in effects.slots_to_end:
            self._slots().end(slot)
        for slot in effects.slots_to_revoke:
            self._slots().void(slot)
        if effects.topics_wanted:
            self._survey()
        if effects.lives_wanted:
            components.topics.request_lives(components.archive.request_topics(), effects.lives_wanted)
        self._say(effects)

    def _say(self, effects: SinkEffects) -> None:
        for lost in effects.lost_offsets:
            self._components.statistics.offsets_lost(
                lost.topic, lost.partition, lost.first, lost.end, with_topic=lost.with_topic
            )
        self._components.statistics.unreported(effects.unreported)
        for warning in effects.warnings:
            _log.warning("archive_warned", warning=warning)

    def _offsets(self, offsets: tuple[GroupOffset, ...]) -> GroupOffsets | None:
        if not offsets:
            return None
        return GroupOffsets(
            memberless_metadata(self._components.group),
            tuple(TopicPartition(one.topic, one.partition, one.offset, one.mark) for one in offsets),
        )

    def _is_over(self, until: UntilArchived, now: float) -> bool:
        """`--until-idle`: everything that is in Kafka has been archived."""
        components = self._components
        if self.lifecycle is not None and self.lifecycle.target is not TargetState.RUNNING:
            raise Unavailable(
                f"--until-idle: the sink is {self.lifecycle.target}, as was asked through the REST "
                "interface, so nothing will be done; PUT .../resume there lets it continue"
            )
        if (effects := until.advance(now)) is not None:
            self.apply(effects)
        has_problem = bool(components.archive.problems(clock.wall_ms()) or components.statistics.problems)
        # Between two of their batches slots have no problem, though nothing comes of the next one either.
        held_back = until.held_back() or until.given_up()
        progress = (components.statistics.records, components.statistics.objects, until.read_so_far())
        waits = has_problem or held_back is not None
        if self._patience.is_over(now, waits=waits, progress=progress):
            why = self._first_problem() if has_problem else held_back
            raise Unavailable(f"--until-idle: what is left waits for something outside: {why}")
        return until.is_over

    def _first_problem(self) -> str:
        sentences = [
            *self._components.statistics.problems.values(),
            *self._components.archive.problems(clock.wall_ms()),
        ]
        return "; ".join(sentences)
