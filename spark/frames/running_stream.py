"""A stream at work in the driver: its log, what finds new objects, and the batches between them."""

from typing import Any, Final

import structlog

from headrace.model.errors import FrameRefused
from headrace.model.objects import Route, S3Object
from headrace.model.slot_protocol import Split
from headrace.model.text_formatting import printable
from headrace.process import logs
from headrace.s3 import S3Calls
from headrace.s3.s3_calls import there_if_told, uploads_if_allowed
from ingest.source.catalogue import Baseline, ExclusionReason, ObjectFilter
from ingest.source.first_starts import newest_uploads
from ingest.source.object_selection import key_readers, object_filter_of
from spark.frames.admission import NO_LIMITS, ReadLimits
from spark.frames.batch_splits import FramePartition, cuts_begun, cuts_of_each, partitioned, splits_of
from spark.frames.discovery_log import DiscoveryLog
from spark.frames.frame_options import FramesSettings
from spark.frames.log_entries import LoggedObject, logged
from spark.frames.log_store import log_store
from spark.frames.new_objects import Discovery
from spark.frames.reading import s3_calls

_LOG = structlog.get_logger(__name__)

# Spark asks some eighty times a second; news ends the wait.
_IDLE_SECONDS: Final = 0.1

Offset = dict[str, Any]


class RunningStream:
    """A stream at work: its log, and what finds new objects."""

    def __init__(
        self,
        settings: FramesSettings,
        log: DiscoveryLog,
        discovery: Discovery,
        calls: S3Calls,
        object_filter: ObjectFilter,
    ) -> None:
        self._settings = settings
        self._log = log
        self._discovery = discovery
        self._calls = calls
        self._filter = object_filter
        self._first_new = log.last + 1
        self._route = key_readers(settings.shared).route
        self._is_available_now = False
        # The last batches, so that they are not read back.
        self._recent: dict[int, tuple[LoggedObject, ...]] = {}

    @classmethod
    def opened(cls, settings: FramesSettings) -> "RunningStream":
        """The stream over the log at `state.path`, made where there is none; it finds objects from now on."""
        shared = settings.shared
        if not structlog.is_configured():
            # A process of Spark's own: what it logs is for whoever looks into the driver's stderr.
            logs.configure(level="warning", style="console")
        calls = s3_calls(shared.s3)
        assert settings.state_path is not None, "a stream without it is refused"
        log = DiscoveryLog.open(
            log_store(settings.state_path, shared.s3),
            bucket=shared.s3.bucket,
            prefix=shared.s3.prefix,
            baseline=lambda: _first_start(settings, calls),
        )
        baseline = log.about.baseline
        object_filter = object_filter_of(shared, baseline)
        discovery = Discovery(settings, known=log.known, object_filter=object_filter)
        discovery.start(skip_through=baseline.start_key)
        return cls(settings, log, discovery, calls, object_filter)

    def offset(self, batch: int) -> Offset:
        """The offset after a batch; the log's id tells checkpoints of other logs, the mark other batches."""
        offset: Offset = {"batch": batch, "log": self._log.about.id}
        mark = self._log.mark(batch) if batch else None
        return offset if mark is None else {**offset, "mark": mark}

    def next_offset(self, start: Offset, limits: ReadLimits) -> Offset:
        """The next batch of the log, a new one where it has none, `start` for nothing."""
        batch = self._checked(start)
        if batch > self._log.committed:
            # Spark asks for more where all before is done. It reports that when the next batch begins, and of
            # the last one never.
            self.commit(start)
        if batch < self._log.last:
            # It was written, and Spark does not know of it, or an older checkpoint was restored. Whatever the
            # limits, one at a time: a batch of Spark's that is repeated has to have what it had.
            return self.offset(batch + 1)
        if self._is_available_now:
            self._discovery.wait_for_batch(limits)
        elif not (found := self._discovery.take(limits)):
            self._discovery.wait(_IDLE_SECONDS)
        found = self._discovery.take(limits)
        if not found:
            return start
        cuts = cuts_of_each(self._settings, self._calls, list(found.values()))
        objects = tuple(map(logged, found.values(), cuts))
        batch = self._log.append(objects)
        self._discovery.admit(batch, found)
        self._recent = {batch: objects}
        return self.offset(batch)

    def only_what_is_there(self, limits: ReadLimits, *, is_only_batch: bool = False) -> None:
        """Batches, of these limits, end with what the first full listing has found."""
        self._is_available_now = True
        self._discovery.only_what_is_there(at_once=limits == NO_LIMITS, is_only_batch=is_only_batch)

    def partitions(self, start: Offset, end: Offset) -> list[FramePartition]:
        """The partitions of these batches; one without splits for a batch whose objects are all left out."""
        made: list[FramePartition] = []
        for batch in range(self._checked(start) + 1, self._checked(end) + 1):
            splits, is_begun = self._splits(batch), batch < self._first_new
            found = partitioned(splits, self._settings, batch=batch, is_begun=is_begun)
            made += found or [FramePartition((), batch, is_begun)]
        return made

    def commit(self, end: Offset) -> None:
        """Delete the messages of batches that are done, and compact the log."""
        batch = self._checked(end)
        if batch > self._log.committed:
            self._discovery.commit(batch)
            self._log.commit(batch)

    def report(self) -> Offset:
        """Numbers for the query's progress."""
        discovery = self._discovery
        return {
            **self.offset(self._log.last),
            "committed": self._log.committed,
            "known": len(self._log.known),
            "waiting": discovery.waiting,
            "waitingBytes": discovery.waiting_bytes,
            "leftOut": discovery.left_out.total(),
            "mode": discovery.mode,
            **({} if discovery.problem is None else {"problem": discovery.problem}),
        }

    def stop(self) -> None:
        """End the listeners, which gives messages back."""
        self._discovery.stop()

    def _splits(self, batch: int) -> list[Split]:
        """The splits of a batch's objects, but of those that include and exclude leave out by now.

        An object that ends the query is got past in this way: its batch comes again until it is done.
        """
        bucket = self._settings.shared.s3.bucket
        recent = self._recent.get(batch)
        taken: list[tuple[S3Object, Route, tuple[int, ...]]] = []
        left_out: list[str] = []
        for each in self._log.objects(batch) if recent is None else recent:
            found = self._filter.route_or_reason(each.key)
            if found is ExclusionReason.EXCLUDED:
                left_out.append(each.key)
                continue
            route = found if isinstance(found, Route) else self._route(each.key)
            if route is None:
                raise FrameRefused(
                    f"Batch {batch} of {self._log.where} holds s3://{bucket}/{each.key}, which "
                    "file.name.template or "
                    "input.layout does not take any more: set the option back until the batch is done."
                )
            taken.append((each.object(bucket), route, each.cuts))
        if left_out:
            _LOG.warning(
                "objects_left_out",
                batch=batch,
                objects=len(left_out),
                first=f"s3://{bucket}/{printable(left_out[0])}",
                detail="object.include or object.exclude leaves them out of a batch that is in the log",
            )
        places = [cuts for _, _, cuts in taken]
        if recent is None:
            begun = [(whole, cuts) for whole, _, cuts in taken]
            places = cuts_begun(self._settings, self._calls, begun)
        return [
            split
            for (whole, route, _), cuts in zip(taken, places, strict=True)
            for split in splits_of(whole, route, cuts)
        ]

    def _checked(self, offset: Offset) -> int:
        """The batch of an offset of this log; FrameRefused for one of another log, or beyond its end."""
        log, batch = self._log, offset.get("batch")
        if offset.get("log") != log.about.id or not isinstance(batch, int):
            raise FrameRefused(
                f"The checkpoint of the query is not of the discovery log at {log.where}: give state.path "
                "as it was "
                "when the checkpoint was made, or give the query a new checkpoint."
            )
        if batch > log.last:
            raise FrameRefused(
                f"The discovery log at {log.where} ends at batch {log.last}, and the checkpoint of the "
                "query is at "
                f"batch {batch}: the log is older than the checkpoint. Restore both from the same backup, "
                "or give the "
                "query a new state.path and a new checkpoint."
            )
        # Checkpoints and snapshots of earlier versions have no marks.
        mark = offset.get("mark")
        if mark is not None and log.mark(batch) not in {None, mark}:
            raise FrameRefused(
                f"Batch {batch} of the discovery log at {log.where} is not the one that the checkpoint of "
                "the query has: the log was restored from a backup, and written to since. Restore both "
                "from the same backup, or give the query a new state.path and a new checkpoint."
            )
        return batch


def _first_start(settings: FramesSettings, calls: S3Calls) -> Baseline:
    """What the first start leaves to the past."""
    discovery, s3 = settings.shared.discovery, settings.shared.s3
    if discovery.include_existing:
        return Baseline(start_key=discovery.native_start_key)
    # Both as `run` does: it starts without the right to list uploads, and asks about the newest of very many.
    under_way = uploads_if_allowed(calls, s3)
    if under_way is None:
        at_ms = calls.clock_ms(s3.bucket, s3.prefix)
        return Baseline(existing_before_ms=at_ms, start_key=discovery.native_start_key)
    kept = newest_uploads([under_way.begun_ms])[0]
    there = there_if_told(s3, under_way, kept, calls=calls)
    kept = newest_uploads([kept], [there])[0]
    return Baseline(
        existing_before_ms=under_way.at_ms,
        start_key=discovery.native_start_key,
        uploads=kept,
        there={key: etag for key, etag in there.items() if key in kept},
    )
