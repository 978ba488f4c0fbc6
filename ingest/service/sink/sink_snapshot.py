"""What `/status` says of a sink while it leads."""

from ingest.http.snapshot import SinkPartition, SinkStatus
from ingest.service.sink.sink_statistics import SinkStatistics
from ingest.sink import Archive
from ingest.sink.condition import PartitionStatus


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
