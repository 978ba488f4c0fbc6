"""The sink's deciding thread: takes one event after the other, and carries out what the archive decides."""

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import TopicPartition

from archive import Archive, GroupOffset, SinkEffects
from ingest import clock
from ingest.errors import LeadershipLost, Unavailable
from ingest.kafka.control_records import TargetState
from ingest.kafka.group_metadata import memberless_metadata
from ingest.kafka.ledger_writer import GroupOffsets, Write
from ingest.model.sink_completion import Verdict
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.patience import Patience
from ingest.service.service_events import (
    ComponentProblem,
    Fatal,
    LedgerEndBlocked,
    Recovered,
    RunInServiceThread,
)
from ingest.service.sink.completer import Completer
from ingest.service.sink.sink_events import (
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
from ingest.service.sink.topic_watch import TopicWatch
from ingest.service.sink.until_archived import UntilArchived
from ingest.service.stop import Stop
from ingest.threads import ThreadFailures
from spark.slots import BatchFinished, SlotEnded, SlotReady, SlotRecalled, SlotReported

_log = structlog.get_logger(__name__)

_IDLE_SECONDS: Final = 0.25
# Where nothing happens there is little to show: a worker may have hundreds of such connectors.
_QUIET_SECONDS: Final = 2.0
_TICK_SECONDS: Final = 2.0
_SURVEY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkParts:
    """What the loop works with; all of it is running. `slots` is set by the loop's composer."""

    archive: Archive
    writes: LedgerWrites
    completer: Completer
    topics: TopicWatch
    statistics: SinkStatistics
    group: str


class SinkLoop:
    """The loop of one leadership of the sink. `run` blocks; everybody else posts into `inbox`."""

    def __init__(
        self,
        inbox: SinkInbox,
        parts: SinkParts,
        *,
        stop: Stop,
        failures: ThreadFailures,
        until: UntilArchived | None = None,
        patience_seconds: float = 60.0,
    ) -> None:
        self._inbox = inbox
        self._parts = parts
        self._stop = stop
        self._failures = failures
        self._until = until
        self._patience = Patience(patience_seconds)
        self._tick_at = self._survey_at = 0.0
        self._has_surveyed = False
        self.slots: SinkSlots | None = None
        """Set before `run`: they need `apply`."""
        self.lifecycle: SinkLifecycle | None = None
        """Set before `run`: it needs the slots."""

    def run(self, publish: Callable[[], None]) -> None:
        """Work until somebody asks for an end or `--until-idle` is over; raises when it cannot go on."""
        with self._stop.waking(self._wake), self._failures.waking(self._wake):
            self._run(publish)

    def _wake(self) -> None:
        """Have the loop turn, from whatever thread."""
        self._inbox.put(RunInServiceThread(_nothing))

    def _run(self, publish: Callable[[], None]) -> None:
        looked = published = 0.0
        has_news = True
        self.apply(self._parts.archive.begin())
        while not self._stop.asked.is_set():
            self._failures.raise_first()
            has_news |= self._take(self._wait_seconds(has_news=has_news))
            self._act()
            now = time.monotonic()
            if now - looked < _IDLE_SECONDS:
                continue
            looked = now
            if has_news or now - published >= _QUIET_SECONDS:
                published, has_news = now, False
                publish()
            if self._until is not None and self._is_over(self._until, now):
                return

    def drain(self, is_over: Callable[[], bool]) -> None:
        """Take what still comes, granting nothing new, until `is_over`; for the time of stopping."""
        while not is_over():
            try:
                self._take(0.02)
            except LeadershipLost as error:
                _log.info("leadership_lost_while_stopping", error=str(error))

    def _slots(self) -> SinkSlots:
        assert self.slots is not None, "set before the loop runs"
        return self.slots

    def _wait_seconds(self, *, has_news: bool) -> float:
        """Until something is due. Whatever happens wakes the loop: it only has to show that nothing does."""
        now = time.monotonic()
        is_quiet = not has_news and self._until is None and self._parts.archive.is_idle
        longest = _QUIET_SECONDS if is_quiet else _IDLE_SECONDS
        return min(longest, max(0.0, self._tick_at - now), max(0.0, self._survey_at - now))

    def _take(self, seconds: float) -> bool:
        """Whether there was anything."""
        try:
            self._handle(self._inbox.get(timeout=max(0.001, seconds)))
        except queue.Empty:
            return False
        try:
            for _ in range(1000):
                self._handle(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return True

    def _act(self) -> None:
        now = time.monotonic()
        if now >= self._survey_at:
            self._survey(is_settled=self._parts.archive.is_settled)
        if now >= self._tick_at:
            self._tick_at = now + _TICK_SECONDS
            self.apply(self._parts.archive.tick(clock.wall_ms()))
        if self.lifecycle is not None:
            self.lifecycle.advance()
        self._slots().plan()

    def _survey(self, *, is_settled: bool = False) -> None:
        self._survey_at = time.monotonic() + _SURVEY_SECONDS
        self._parts.topics.request(self._parts.archive.request_topics(), is_settled=is_settled)

    def _handle(self, event: SinkEvent) -> None:  # noqa: C901  # one row for each kind of event
        archive = self._parts.archive
        match event:
            case SlotReady() | SlotReported() | BatchFinished() | SlotEnded() | SlotRecalled():
                self._slots().on_event(event)
            case TopicsSurveyed(topics):
                self._has_surveyed = True
                self.apply(archive.on_topics(topics))
            case LivesFound(lives):
                self.apply(archive.on_lives(lives))
            case SinkWritten(writes):
                self.apply(archive.on_written(writes))
            case CompletionEnded(sealed, verdict):
                done = verdict is Verdict.COMPLETE
                self._parts.statistics.left_object_ended(
                    sealed, "complete" if done else "quarantined", None if done else verdict.value
                )
                self.apply(archive.on_completion(sealed.id, verdict))
            case Recovered(slots):
                for slot in slots:
                    self._slots().recovered(slot)
            case LedgerEndBlocked(slots):
                self._slots().void_all(slots)
            case ComponentProblem(part, sentence):
                self._parts.statistics.trouble(part, sentence)
            case RunInServiceThread(act):
                act()
            case Fatal():
                raise event.ending()
            case _:
                # Records of the ledger as they are read back: what they say was told by whoever wrote them.
                pass

    # -- what follows ----------------------------------------------------------------------------------------

    def apply(self, effects: SinkEffects) -> None:
        """Carry out what the archive has decided; does not block."""
        parts = self._parts
        if effects.writes or effects.offsets:
            records: list[Write] = [(write.key, write.raw) for write in effects.writes]
            parts.writes.submit_records(
                records, SinkWritten(effects.writes), other=self._offsets(effects.offsets)
            )
        for sealed in effects.completions:
            parts.completer.submit(sealed)
        for batch in effects.groups:
            self._slots().answer_group(batch)
        for slot in effects.slots_to_end:
            self._slots().end(slot)
        for slot in effects.slots_to_revoke:
            self._slots().void(slot)
        if effects.topics_wanted:
            self._survey()
        if effects.lives_wanted:
            parts.topics.request_lives(parts.archive.request_topics(), effects.lives_wanted)
        for lost in effects.lost_offsets:
            parts.statistics.offsets_lost(lost.topic, lost.partition, lost.first, lost.end)
        for warning in effects.warnings:
            _log.warning("archive_warned", warning=warning)

    def _offsets(self, offsets: tuple[GroupOffset, ...]) -> GroupOffsets | None:
        if not offsets:
            return None
        return GroupOffsets(
            memberless_metadata(self._parts.group),
            tuple(TopicPartition(one.topic, one.partition, one.offset, one.mark) for one in offsets),
        )

    def _is_over(self, until: UntilArchived, now: float) -> bool:
        """`--until-idle`: everything that is in Kafka has been archived."""
        parts = self._parts
        if self.lifecycle is not None and self.lifecycle.target is not TargetState.RUNNING:
            raise Unavailable(
                f"--until-idle: the sink is {self.lifecycle.target}, as was asked through the REST "
                "interface, so nothing will be done; PUT .../resume there lets it go on"
            )
        if self._has_surveyed and (effects := until.advance(now)) is not None:
            self.apply(effects)
        has_problem = bool(parts.archive.problems(clock.wall_ms()) or parts.statistics.problems)
        progress = (parts.statistics.records, parts.statistics.objects)
        if self._patience.is_over(now, waits=has_problem, progress=progress):
            raise Unavailable(
                f"--until-idle: what is left waits for something outside: {self._first_problem()}"
            )
        return until.is_over

    def _first_problem(self) -> str:
        sentences = [
            *self._parts.statistics.problems.values(),
            *self._parts.archive.problems(clock.wall_ms()),
        ]
        return "; ".join(sentences)


def _nothing() -> None:
    """What the loop does when it is only woken."""
