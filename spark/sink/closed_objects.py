"""The objects of a partition that take no more records, until a transaction has them."""

from collections.abc import Iterator

from headrace.model.clock import wall_ms
from headrace.model.sink_entries import ObjectState, SealedObject
from headrace.model.sink_protocol import ObjectTimes, PartitionGrant
from headrace.s3.completion import CompletionState
from headrace.s3.errors import UploadEnded
from spark.sink.open_group import ClosedGroup, OpenGroup
from spark.sink.partition_offsets import PartitionOffsets
from spark.sink.routed_tools import SlotTools


class ClosedObjects:
    """Used by the slot's thread only. Times are ms since 1970."""

    def __init__(self, grant: PartitionGrant, tools: SlotTools, offsets: PartitionOffsets) -> None:
        self._grant = grant
        self._tools = tools
        self._offsets = offsets
        self._closed: list[ClosedGroup] = []

    def __len__(self) -> int:
        return len(self._closed)

    def __iter__(self) -> Iterator[OpenGroup]:
        return (closed.open for closed in self._closed)

    def add(self, one: OpenGroup, name: str | None) -> None:
        """Take this one; `name` is None where it had its key when it was opened."""
        closed = ClosedGroup(open=one, name=name, closed_ms=wall_ms())
        self._closed.append(closed)
        if not self._tools.shapes.values.names.overwrites:
            self._seal(closed)

    def note_sealed(self, now_ms: int) -> None:
        """Pick up which of them have all of their parts at S3, and start those that may be now.

        At least once they have to be visible too.
        """
        for closed in self._closed:
            if closed.uploads is None and closed.name is not None:
                if self._tools.recurring.hold(closed.name, closed.open.id):
                    self._seal(closed)
            elif not closed.is_sealed and closed.has_all_parts and self._is_visible(closed, now_ms):
                closed.is_sealed = True
                self._offsets.seal(closed.open.id, closed.open.last_offset)

    def entries(self, ids: tuple[str, ...], now_ms: int) -> tuple[SealedObject, ...]:
        """The ledger's entries of these sealed objects."""
        by_id = {closed.open.id: closed for closed in self._closed}
        return tuple(self._entry(by_id[one], now_ms) for one in ids)

    def times(self, ids: tuple[str, ...]) -> dict[str, ObjectTimes]:
        """When each of these was opened and closed."""
        by_id = {closed.open.id: closed for closed in self._closed}
        return {one: ObjectTimes(by_id[one].open.opened_ms, by_id[one].closed_ms) for one in ids}

    def committed(self, ids: tuple[str, ...]) -> None:
        """A transaction has these objects."""
        gone = set(ids)
        self._closed = [one for one in self._closed if one.open.id not in gone]

    def clear(self) -> None:
        """Forget all of them."""
        self._closed.clear()

    def _seal(self, closed: ClosedGroup) -> None:
        one, tags = closed.open, None
        if self._tools.settings.sink.upload.offset_tags:
            tags = {
                "startOffset": str(one.first_offset),
                "endOffset": str(one.last_offset),
                "recordCount": str(one.records),
            }
        closed.uploads = one.object.seal(name=closed.name, tags=tags)

    def _is_visible(self, closed: ClosedGroup, now_ms: int) -> bool:
        """True for an object that may be committed: where it has to be visible first, once it is."""
        if not self._tools.uploads.is_direct:
            return True
        if closed.completion is None:
            closed.completion = self._tools.uploads.complete(self._entry(closed, now_ms))
        if not closed.completion.done():
            return False
        state = closed.completion.result().state
        if state is not CompletionState.COMPLETED:
            closed.open.object.fail(UploadEnded(f"{closed.open.id} cannot be completed: {state}."))
            return False
        self._tools.recurring.release(closed.open.id)
        return True

    def _entry(self, closed: ClosedGroup, now_ms: int) -> SealedObject:
        one, settings, is_direct = closed.open, self._tools.settings, self._tools.uploads.is_direct
        assert closed.uploads is not None, "only what is sealed is committed"
        return SealedObject(
            id=one.id,
            topic=self._grant.topic,
            partition=self._grant.partition,
            topic_id=self._grant.topic_id,
            group=one.group,
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            records=one.records,
            bytes=one.object.total_size,
            uploads=closed.uploads.result(),
            options=settings.options,
            sealed_ms=now_ms,
            bucket=settings.s3.bucket,
            state=ObjectState.COMPLETE if is_direct else ObjectState.PENDING,
            # Written again after a crash it has the same name.
            overwrites=is_direct or self._tools.shapes.values.names.overwrites,
        )
