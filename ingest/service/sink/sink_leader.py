"""The sink's leadership: the archive's decisions over the ledger, and what carries them out."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog

from headrace.formats.content_digest import has_content
from headrace.kafka.data_topics import TopicSurvey
from headrace.kafka.ledger_cache import LedgerCache
from headrace.kafka.tokens import login_problem
from headrace.model import clock
from headrace.model.errors import Exit, HeadraceError, LeadershipLost
from headrace.model.sink_entries import GroupingOptions, SealedObject, decode_sink_entry, object_key
from headrace.options.sink_settings import SinkSettings
from headrace.s3.s3_calls import UploadExpiry, upload_expiry
from headrace.s3.upload_calls import new_upload_calls
from ingest.service.endpoints import ProblemLog
from ingest.service.idle import UntilArchived
from ingest.service.leadership_phase import TakenLead
from ingest.service.leading import CLOSE_SECONDS, await_ended, close_slots, lead_until_over, void_slots
from ingest.service.ledger_writes import LedgerMonitor, LedgerWrites, Recovery
from ingest.service.sink.completer import Completer, SinkInbox
from ingest.service.sink.earlier_archive import EarlierArchives
from ingest.service.sink.sink_lifecycle import SinkAdapter, SinkLeadership, SinkLifecycle
from ingest.service.sink.sink_loop import SinkComponents, SinkLoop
from ingest.service.sink.sink_slots import SinkSlotComponents, SinkSlots
from ingest.service.sink.sink_statistics import SinkStatistics, sink_snapshot
from ingest.service.sink.topic_watch import MissingTopics, TopicWatch
from ingest.service.slot_states import SlotState
from ingest.sink import Archive, ArchiveOptions
from ingest.sink.partitions import PartitionCondition
from spark.sink.grouping_options import grouping_hash, grouping_options

_log = structlog.get_logger(__name__)

# What waits for an operator: a record that stops it, or offsets that cannot be right.
_STOPPED: Final = frozenset({PartitionCondition.STOPPED.value, PartitionCondition.REFUSED.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What runs while this process leads, and has to be ended in order."""

    loop: SinkLoop
    lifecycle: SinkLifecycle
    archive: Archive
    slots: SinkSlots
    recovery: Recovery
    writes: LedgerWrites
    watch: LedgerMonitor
    topics: TopicWatch
    missing: MissingTopics
    completer: Completer


class SinkLeader:
    """See `ingest.service.leadership_phase.Leader`."""

    def __init__(
        self, taken: TakenLead, sink: SinkSettings, statistics: SinkStatistics, connector: SinkAdapter
    ) -> None:
        self._taken = taken
        self._connector = connector
        self._process = taken.process
        self._settings = taken.process.settings
        self._sink = sink
        self._statistics = statistics
        self._inbox: SinkInbox = taken.inbox
        self._problems = ProblemLog()
        # What failed while it did not lead is counted elsewhere, and was shown.
        statistics.last_error = self._process.snapshot_holder.snapshot.last_error

    def lead(self) -> Exit:
        """See `Leader.lead`."""
        with self._taken.leading_again_later():
            running = self._compose()
        self._taken.begin()
        self._process.metrics.leader.set(1)
        running.lifecycle.begin(self._taken.ledger.cache.controls())
        self._connector.lead(
            SinkLeadership(
                post=self._inbox.put,
                lifecycle=running.lifecycle,
                archive=running.archive,
                statistics=self._statistics,
                cache=self._taken.ledger.cache,
            )
        )
        lead_until_over(
            lambda: running.loop.run(lambda: self._publish(running)),
            close=lambda: self._close(running),
            abandon=lambda error: self._abandon(running, error),
            adapter=self._connector,
        )
        counts = running.archive.counts(clock.wall_ms())
        if counts.pending_objects:
            return Exit.UNUSABLE
        return Exit.QUARANTINED if self._process.until_idle and counts.quarantined_objects else Exit.DONE

    def _compose(self) -> _Running:
        settings, process, sink = self._settings, self._process, self._sink
        ledger, slots = self._taken.ledger, process.slot_source.slots
        archive = Archive.from_ledger(ledger.cache.controls().items(), self._archive_options(slots))
        writes = LedgerWrites(ledger, self._inbox.put)
        recovery = Recovery(ledger, self._inbox.put, all_slots=slots)
        earlier = EarlierArchives(settings, ledger.cache.controls)
        topics = TopicWatch(self._survey(), self._inbox.put, earlier)
        missing = MissingTopics(sink.topics.pattern)
        calls = new_upload_calls(settings.s3, sink.upload, has_content=has_content)
        completer = Completer(
            calls, self._inbox.put, expiry_ms=self._upload_expiry(), entry_of=_Entries(ledger.cache)
        )
        loop = SinkLoop(
            self._inbox,
            SinkComponents(
                archive=archive,
                writes=writes,
                completer=completer,
                topics=topics,
                missing=missing,
                statistics=self._statistics,
                group=sink.group_id,
            ),
            stop=process.stop,
            failures=process.failures,
            until=self._until_idle(archive),
            patience_seconds=process.startup_seconds,
        )
        loop.slots = SinkSlots(
            SinkSlotComponents(
                archive=archive,
                cache=ledger.cache,
                slot_pool=self._taken.slot_pool,
                recovery=recovery,
                statistics=self._statistics,
                metadata=self._taken.leadership.metadata,
                apply=loop.apply,
            ),
            slots=slots,
        )
        loop.lifecycle = SinkLifecycle(archive, writes, loop.slots, loop.apply)
        return _Running(
            loop=loop,
            lifecycle=loop.lifecycle,
            archive=archive,
            slots=loop.slots,
            recovery=recovery,
            writes=writes,
            watch=LedgerMonitor(ledger, self._inbox.put),
            topics=topics,
            missing=missing,
            completer=completer,
        )

    def _until_idle(self, archive: Archive) -> UntilArchived | None:
        if not self._process.until_idle:
            return None
        sinks = (self._sink, *(route.sink for route in self._sink.routes))
        return UntilArchived(archive, closes_on_stop=all(each.rotation.on_stop for each in sinks))

    def _archive_options(self, slots: int) -> ArchiveOptions:
        settings, sink = self._settings, self._sink
        return ArchiveOptions(
            slots=slots,
            grants_idle=not self._process.slot_source.is_shared,
            ledger=settings.kafka.ledger_topic,
            group=sink.group_id,
            reset=sink.reading.reset,
            selects=sink.topics.has,
            grouping=GroupingOptions(hash=grouping_hash(sink), options=grouping_options(sink)),
        )

    def _survey(self) -> TopicSurvey:
        sink = self._sink
        return TopicSurvey(self._process.clients.admin, group=sink.group_id, chosen=sink.topics)

    def _upload_expiry(self) -> UploadExpiry:
        """What gives the age at which buckets end unfinished uploads; a WARN where one may not be asked."""
        expiry_ms = upload_expiry(self._settings.s3)
        for each in self._settings.by_place():
            # What may pass is asked for again by an upload that is gone, which waits for it.
            with suppress(HeadraceError):
                expiry_ms(each.s3.bucket, each.s3.prefix)
        return expiry_ms

    def _publish(self, running: _Running) -> None:
        process, now_ms = self._process, clock.wall_ms()
        archive, statistics, metrics = running.archive, self._statistics, process.metrics
        sink = sink_snapshot(archive, statistics, missing_topics=running.missing.names, now_ms=now_ms)
        statistics.look_at(archive.partitions, is_at_rest=running.slots.is_at_rest)
        metrics.set_target(running.lifecycle.target)
        lag: dict[str, int] = defaultdict(int)
        for one in sink.partitions:
            lag[one.topic] += one.lag or 0
        for topic, records in lag.items():
            metrics.set_sink_lag(topic, records)
        metrics.sink_open_objects.set(sink.open_objects)
        metrics.sink_pending_objects.set(sink.pending_objects)
        metrics.sink_buffered_bytes.labels("memory").set(sink.buffered_bytes)
        metrics.sink_buffered_bytes.labels("disk").set(sink.spilled_bytes)
        metrics.sink_oldest_open.set(sink.oldest_open_seconds)
        metrics.sink_stopped_partitions.set(sum(one.state in _STOPPED for one in sink.partitions))
        doing = {state.name.lower(): len(running.slots.slots.of(state)) for state in SlotState}
        for state, count in doing.items():
            metrics.slots.labels(state).set(count)
        records_rate, bytes_rate = statistics.rates()
        sentences = archive.problems(now_ms)
        problems = {f"archive {number}": sentence for number, sentence in enumerate(sentences, 1)}
        shown = replace(
            process.snapshot_holder.snapshot,
            role="leader",
            ready=not (statistics.problems or sentences),
            target=running.lifecycle.target,
            at_ms=now_ms,
            slots=doing,
            records_total=statistics.records,
            records_per_second=round(records_rate, 1),
            bytes_per_second=round(bytes_rate, 1),
            transactions_total=statistics.transactions,
            bad_records=dict(statistics.bad_records),
            problems={**statistics.problems, **problems},
            sink=sink,
        ).with_problems(login_problem(self._settings.kafka))
        shown = replace(shown, last_error=statistics.last_of(shown.problems))
        process.snapshot_holder.show(shown)
        self._problems.tell(shown.problems, ready=shown.ready)

    # -- the end ---------------------------------------------------------------------------------------------

    def _close(self, running: _Running) -> None:
        """Have slots close, commit and complete what is open; release the rest."""
        close_slots(self._taken, running.loop.drain)
        running.topics.close()
        running.completer.close()
        running.recovery.close()
        running.watch.close()
        running.loop.drain(lambda: True)
        running.writes.close(2.0)
        running.loop.drain(lambda: True)
        tell_unfinished(running.archive, closed=not running.slots.slots.of(SlotState.BUSY))
        self._taken.give_up()

    def _abandon(self, running: _Running, error: LeadershipLost) -> None:
        """Void everything at once; return when nothing of this leadership is at work in this process."""
        void_slots(self._taken, error, adapter=self._connector, statistics=self._statistics)
        running.topics.close()
        running.completer.close()
        running.recovery.close()
        running.watch.close()
        running.writes.close(0.0)
        components = (running.recovery, running.watch, running.writes, running.topics)
        await_ended(components, self._process.stop)


def tell_unfinished(archive: Archive, *, closed: bool) -> None:
    """Log what this end leaves: sealed objects that S3 has not completed, and slots that had not `closed`."""
    counts = archive.counts(clock.wall_ms())
    if (oldest := counts.oldest_pending) is not None:
        _log.error(
            "stop_unfinished",
            objects=counts.pending_objects,
            oldest=f"s3://{oldest.bucket}/{oldest.main.key}",
            topic=oldest.topic,
            partition=oldest.partition,
            first_offset=oldest.first_offset,
            last_offset=oldest.last_offset,
            detail="these objects are committed and not visible: S3 has not completed their uploads in time",
            remedy="start a sink of this name and configuration again, which completes them, before the "
            "bucket's rule for unfinished uploads ends them",
        )
    if not closed:
        _log.warning(
            "stop_interrupted",
            seconds=CLOSE_SECONDS,
            detail="slots had open objects that could not be written in time; their records are read again",
        )


class _Entries:
    """The ledger's entries of sealed objects by id, as its cache has them. Thread-safe."""

    def __init__(self, cache: LedgerCache) -> None:
        self._cache = cache

    def __call__(self, object_id: str) -> SealedObject | None:
        key = object_key(object_id)
        raw = self._cache.controls().get(key)
        entry = None if raw is None else decode_sink_entry(key, raw)
        return entry if isinstance(entry, SealedObject) else None
