"""What happens in a sink, counted once for metrics, `/status` and log."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from headrace.model.sink_entries import ObjectState, SealedObject, Verdict
from headrace.model.sink_protocol import PartitionStopped, SinkCommitted, SinkCompleted, SinkProgress
from headrace.model.slot_protocol import BatchOutcome, Finished
from headrace.model.text_formatting import printable
from ingest.http.metrics import Metrics
from ingest.http.snapshot import ArchivedObject, SinkPartition, SinkStatus
from ingest.http.traces.object_traces import SinkTraces
from ingest.service.statistics import CommonStatistics
from ingest.sink import Archive
from ingest.sink.partitions import PartitionCondition, PartitionStatus

_log = structlog.get_logger(__name__)

# The states of objects that the leader has brought to their ends; all others are quarantined.
_ENDS: Final = {Verdict.COMPLETE: "complete", Verdict.UNPROVEN: "unproven"}
_DETAILS: Final = {
    "unproven": {
        "detail": "S3 has neither the upload nor the object: the object was removed after it was completed, "
        "or the upload was ended by another program, and then its records are in no object",
        "remedy": "look for the object where your consumers move it; if it is nowhere, rewind the partition "
        "to first_offset (PATCH /connectors/NAME/offsets of the stopped sink)",
    }
}

_RECENT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSums:
    """Sums of the slots' latest reports; ages in ms since 1970."""

    open_objects: int
    pending_objects: int
    buffered_bytes: int
    spilled_bytes: int
    oldest_open_ms: int | None


class SinkStatistics(CommonStatistics):
    """Used by the thread that decides; nothing in it blocks."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self._progress: dict[int, SinkProgress] = {}
        self._committed: dict[str, SealedObject] = {}
        # What each slot that has died had in hand and nothing has got past yet, with the offsets there.
        self._died_with: dict[int, dict[tuple[str, int], int | None]] = {}
        self.objects = 0
        self.unproven_objects_total = 0
        self.recent: deque[ArchivedObject] = deque(maxlen=_RECENT)
        self.traces: SinkTraces | None = None
        """Set before a leadership where `traces.exporter` asks for them."""

    @property
    def problems(self) -> Mapping[str, str]:
        """A sentence for each component that fails at present, those of slots among them."""
        of_slots = {
            f"slot {slot} {component}": sentence
            for slot, progress in self._progress.items()
            for component, sentence in progress.problems.items()
        }
        return {**super().problems, **of_slots}

    def leadership_ended(self) -> None:
        """Forget what belonged to a leadership; what was counted since the start stays."""
        self._problems.clear()
        self._progress.clear()
        self._committed.clear()
        self._died_with.clear()
        self.deaths.clear()
        if self.traces is not None:
            self.traces.leadership_ended()

    # -- slots -----------------------------------------------------------------------------------------------

    def committed(self, report: SinkCommitted) -> None:
        """A transaction was acknowledged."""
        self.transactions += 1
        self._metrics.transactions.labels("committed").inc()
        records = sum(report.records_by_topic.values())
        size = sum(one.bytes for one in report.objects)
        self.records += records
        self.bytes += size
        for topic, count in report.records_by_topic.items():
            self._metrics.sink_records.labels(topic).inc(count)
        self._metrics.sink_bytes.inc(size)
        for reason, count in report.bad_by_reason.items():
            self.bad_records[reason] += count
            self._metrics.bad_records.labels(reason).inc(count)
        self._window.append((time.monotonic(), records, size))
        if self.traces is not None:
            self.traces.committed(report)
        for one in report.objects:
            self._committed[one.id] = one
            if one.state is ObjectState.COMPLETE:
                self.object_ended(one.id, "complete", None)

    def completed(self, report: SinkCompleted) -> None:
        """A slot has completed objects, or found that it cannot."""
        for object_id in report.ids:
            self.object_ended(object_id, "complete", None)
        for object_id, reason in report.quarantined:
            self.object_ended(object_id, "quarantined", reason)

    def left_object_ended(self, sealed: SealedObject, verdict: Verdict) -> None:
        """An object that a slot or a leader has left pending has come to its end."""
        state = _ENDS.get(verdict, "quarantined")
        reason = None if verdict is Verdict.COMPLETE else verdict.value
        if sealed.id not in self._committed:
            # It was committed under another leader.
            self._committed[sealed.id] = sealed
        self.object_ended(sealed.id, state, reason)

    def object_ended(self, object_id: str, state: str, reason: str | None) -> None:
        """An object is visible, or will never be."""
        one = self._committed.pop(object_id, None)
        if one is not None and self.traces is not None:
            self.traces.ended(one, state, reason)
        self.objects += state == "complete"
        self.unproven_objects_total += state == "unproven"
        self._metrics.sink_objects.labels(state).inc()
        if one is None:
            return
        self.recent.appendleft(
            ArchivedObject(
                key=printable(one.main.key),
                state=state,
                reason=reason,
                topic=one.topic,
                partition=one.partition,
                first_offset=one.first_offset,
                last_offset=one.last_offset,
                records=one.records,
                bytes=one.bytes,
                at_ms=one.sealed_ms,
            )
        )
        event, log = {
            "complete": ("object_archived", _log.info),
            "unproven": ("object_unproven", _log.warning),
        }.get(state, ("object_quarantined", _log.error))
        log(
            event,
            key=one.main.key,
            topic=one.topic,
            partition=one.partition,
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            records=one.records,
            bytes=one.bytes,
            reason=reason,
            **_DETAILS.get(state, {}),
        )

    def stopped(self, report: PartitionStopped) -> None:
        """A partition is at a record."""
        _log.error(
            "partition_stopped",
            topic=report.topic,
            partition=report.partition,
            offset=report.offset,
            reason=report.reason,
            error=report.message,
        )

    def progress(self, slot: int, report: SinkProgress) -> None:
        """A slot says where it is."""
        self._progress[slot] = report
        self.deaths.alive(slot)
        for topic, partition, first, end in report.lost_offsets:
            self.offsets_lost(topic, partition, first, end)

    def offsets_lost(
        self, topic: str, partition: int, first: int, end: int, *, with_topic: bool = False
    ) -> None:
        """Kafka deleted records before they were read; `with_topic`: all of the topic."""
        self._metrics.lost_offsets.labels(topic).inc(end - first)
        _log.warning(
            "offsets_lost",
            topic=topic,
            partition=partition,
            first=first,
            end=end,
            detail="the topic was deleted before these records were archived: they are in no object"
            if with_topic
            else "Kafka deleted these records before they were read; reading continues after them",
        )

    def batch_finished(self, slot: int, finished: Finished) -> None:
        """The slot's batch is over."""
        self._progress.pop(slot, None)
        if finished.error is not None:
            self.last_error = finished.error
        if finished.outcome is not BatchOutcome.CLEAN:
            self._metrics.transactions.labels(finished.outcome.value).inc()

    def slot_lost(self, slot: int, *, in_doubt: bool) -> None:
        """The slot was voided; `in_doubt`: before it has reported how its batch ended."""
        self._progress.pop(slot, None)
        if in_doubt:
            self._metrics.transactions.labels(BatchOutcome.UNKNOWN.value).inc()

    def unreported(self, objects: Iterable[SealedObject]) -> None:
        """Lost slots had committed these objects, as the ledger shows."""
        for one in objects:
            self.records += one.records
            self.bytes += one.bytes
            self._metrics.sink_records.labels(one.topic).inc(one.records)
            self._metrics.sink_bytes.inc(one.bytes)

    def slot_died(
        self, slot: int, where: str | None, why: str, partitions: Iterable[PartitionStatus] = ()
    ) -> None:
        """The slot has ended by an error, with these partitions in hand."""
        self.last_error = why
        self.deaths.died(slot, where, why)
        if where is not None:
            left = {(one.topic, one.partition): one.offset for one in partitions if one.slot == slot}
            self._died_with.setdefault(slot, {}).update(left)

    def look_at(self, partitions: Callable[[], Iterable[PartitionStatus]], *, is_at_rest: bool) -> None:
        """Let deaths of long ago be over whose partitions got further, or have nothing left for the slot.

        `is_at_rest`: no partition waits for a slot.
        """
        if self._died_with:
            now = {(one.topic, one.partition): one for one in partitions()}
            for slot, left in tuple(self._died_with.items()):
                for name, offset in tuple(left.items()):
                    one = now.get(name)
                    if one is None or one.offset != offset or _is_idle(one, slot, is_at_rest=is_at_rest):
                        del left[name]
                if not left and self.deaths.alive(slot):
                    del self._died_with[slot]

    # -- what is shown ---------------------------------------------------------------------------------------

    def sums(self) -> SlotSums:
        """Sums over the slots' latest reports."""
        reports = self._progress.values()
        return SlotSums(
            open_objects=sum(one.open_objects for one in reports),
            pending_objects=sum(one.pending_objects for one in reports),
            buffered_bytes=sum(one.buffered_bytes for one in reports),
            spilled_bytes=sum(one.spilled_bytes for one in reports),
            oldest_open_ms=min(
                (one.oldest_open_ms for one in reports if one.oldest_open_ms is not None), default=None
            ),
        )


_UNREAD: Final = frozenset({PartitionCondition.MISSING, PartitionCondition.NOT_SELECTED})
_UNWANTED: Final = frozenset({PartitionCondition.WAITING, PartitionCondition.STOPPED})


def _is_idle(one: PartitionStatus, slot: int, *, is_at_rest: bool) -> bool:
    """Whether no slot is to have the partition, or nothing of it waits and another slot has it.

    The former is so while the sink is paused, at a record that stops the partition, and in a worker, whose
    connectors share its slots; where the topic is gone or not selected; and where the offsets cannot be
    right, which is a problem of its own.
    """
    if one.slot is not None:
        return not one.lag and one.slot != slot
    if one.condition is PartitionCondition.REFUSED:
        return True
    if one.condition in _UNREAD:
        return one.is_gone
    return is_at_rest and one.condition in _UNWANTED


# -- What `/status` says of a sink while it leads ------------------------------------------------------------


def sink_snapshot(
    archive: Archive, statistics: SinkStatistics, *, missing_topics: tuple[str, ...], now_ms: int
) -> SinkStatus:
    """The sink's part of the snapshot at this moment."""
    counts, sums = archive.counts(now_ms), statistics.sums()
    oldest_open_ms = 0 if sums.oldest_open_ms is None else max(0, now_ms - sums.oldest_open_ms)
    return SinkStatus(
        lag=counts.lag,
        open_objects=sums.open_objects,
        pending_objects=counts.pending_objects,
        quarantined_objects=counts.quarantined_objects,
        unproven_objects_total=statistics.unproven_objects_total,
        objects_total=statistics.objects,
        bytes_total=statistics.bytes,
        buffered_bytes=sums.buffered_bytes,
        spilled_bytes=sums.spilled_bytes,
        oldest_open_seconds=round(oldest_open_ms / 1000, 1),
        oldest_pending_seconds=round((counts.oldest_pending_ms or 0) / 1000, 1),
        missing_topics=missing_topics,
        partitions=tuple(_partition(one) for one in archive.partitions()),
        recent=tuple(statistics.recent),
    )


def _partition(one: PartitionStatus) -> SinkPartition:
    return SinkPartition(
        topic=one.topic,
        partition=one.partition,
        state=one.condition.value,
        slot=one.slot,
        offset=one.offset,
        position=one.position,
        end=one.end,
        lag=one.lag,
        pending_objects=one.pending_objects,
        quarantined_objects=one.quarantined_objects,
        detail=one.detail,
    )
