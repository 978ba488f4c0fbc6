"""The objects of one partition: opened, filled and closed by group, until a transaction has them."""

import secrets
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from ingest.clock import wall_ms
from ingest.model.sink_entries import ObjectState, SealedObject
from ingest.model.sink_protocol import PartitionGrant
from spark.converted_records import ConvertedRecords
from spark.converters.single_runs import single_runs
from spark.formats.encoding import NewObject, Refused, RowSchema, next_schema
from spark.s3.completion import CompletionState
from spark.s3.upload_errors import UploadEnded
from spark.sink.names import ObjectFacts
from spark.sink.object_parts import ObjectParts
from spark.sink.object_shape import ObjectShape
from spark.sink.open_group import ClosedGroup, OpenGroup
from spark.sink.partition_offsets import MAX_ENTRIES, PartitionOffsets
from spark.sink.rotation import RotateReason
from spark.sink.routed_groups import read_group
from spark.sink.slot_tools import SlotTools

_log: Final = structlog.get_logger(__name__)

Refuse = Callable[[ConvertedRecords, str, str], bool]
"""Called with records that no object can take, a reason and a sentence; False: nothing more is written."""


class PartitionObjects:
    """Used by the slot's thread only. Times are ms since 1970."""

    def __init__(
        self, grant: PartitionGrant, tools: SlotTools, offsets: PartitionOffsets, refuse: Refuse
    ) -> None:
        self._grant = grant
        self._tools = tools
        self._offsets = offsets
        self._refuse = refuse
        self._open: dict[str, OpenGroup] = {}
        self._closed: list[ClosedGroup] = []

    @property
    def open_count(self) -> int:
        """Objects that take records."""
        return len(self._open)

    @property
    def closed_count(self) -> int:
        """Objects that are closed and not committed."""
        return len(self._closed)

    @property
    def oldest_open_ms(self) -> int | None:
        """When the oldest open object was opened."""
        return min((one.opened_ms for one in self._open.values()), default=None)

    def uncommitted(self) -> Iterator[OpenGroup]:
        """All objects, open and closed."""
        yield from self._open.values()
        yield from (closed.open for closed in self._closed)

    # -- filling ---------------------------------------------------------------------------------------------

    def write(self, group: str, part: ConvertedRecords, now_ms: int) -> bool:
        """Write one group's records, through as many objects as it takes; False when refused ones end it."""
        rotation = self._tools.rotation
        while len(part):
            one = self._open.get(group)
            limit = rotation.limit(None if one is None else one.facts(), part.records.timestamps_ms)
            if limit.rows:
                if not self._append(group, part.slice(0, limit.rows), now_ms):
                    return False
                part = part.slice(limit.rows, len(part))
            if limit.reason is not None and group in self._open:
                self._close(group, limit.reason)
        one = self._open.get(group)
        if one is not None and (reason := rotation.due(one.facts(), now_ms)) is not None:
            self._close(group, reason)
        return True

    def _append(self, group: str, part: ConvertedRecords, now_ms: int) -> bool:
        """Add records of one schema to the group's object, or to a new one where the schema asks for it."""
        output = self._tools.settings.sink.output
        schema = self._shape(group).schema_of(part)
        one = self._open.get(group)
        if one is not None:
            change = next_schema(output, one.schema, schema)
            if isinstance(change, Refused):
                if len(part) == 1:
                    return self._refuse(part, change.reason, change.message)
                # One record after the other, so that only those that conflict are refused.
                return all(self._append(group, single, now_ms) for single in single_runs(part))
            if isinstance(change, NewObject):
                self._close(group, RotateReason.SCHEMA)
                one = None
        if one is None:
            one = self._open[group] = self._new_object(group, part, schema, now_ms)
        one.add(part)
        return True

    def _new_object(self, group: str, part: ConvertedRecords, schema: RowSchema, now_ms: int) -> OpenGroup:
        tools, first = self._tools, part.records.first_offset
        shape, name = self._shape(group), None
        object_id = secrets.token_hex(16)
        if not self._is_named_at_the_end:
            name = self._name(
                group,
                first_offset=first,
                opened_ms=now_ms,
                first_time_ms=int(part.records.timestamps_ms[0]),
            )
        objects = tuple(
            tools.uploads.open(
                shape.encoder(role, schema),
                object_id=object_id,
                bucket=tools.settings.s3.bucket,
                key=None if name is None else shape.key(role, name),
                tags=dict(tools.settings.sink.upload.tags),
            )
            for role in shape.roles
        )
        self._offsets.open(object_id, group, first)
        return OpenGroup(
            group=group,
            id=object_id,
            object=ObjectParts(shape, objects),
            schema=schema,
            opened_ms=now_ms,
            first_offset=first,
        )

    def _shape(self, group: str) -> ObjectShape:
        return self._tools.shapes.of(read_group(group, self._grant.topic).group)

    @property
    def _is_named_at_the_end(self) -> bool:
        """Names, tags, or an earlier object of the name: the upload begins when the object closes."""
        names = self._tools.shapes.values.names
        return names.overwrites or not names.is_known_at_start or self._tools.settings.sink.upload.offset_tags

    def _name(
        self,
        group: str,
        *,
        first_offset: int,
        opened_ms: int,
        first_time_ms: int,
        ended: OpenGroup | None = None,
    ) -> str:
        grant = self._grant
        routed = read_group(group, grant.topic)
        names, called = self._tools.shapes.names(routed.group)
        facts = ObjectFacts(
            topic=routed.topic,
            partition=grant.partition,
            group=called,
            first_offset=first_offset,
            last_offset=None if ended is None else ended.last_offset,
            least_timestamp_ms=None if ended is None else ended.least_timestamp_ms,
            greatest_timestamp_ms=None if ended is None else ended.greatest_timestamp_ms,
            opened_ms=opened_ms,
            first_time_ms=first_time_ms,
            topic_id=grant.topic_id if grant.is_made_again else None,
        )
        return names.key(facts)

    # -- closing ---------------------------------------------------------------------------------------------

    def close_due(self, now_ms: int) -> None:
        """Close the objects whose time has come, and what has to close with others."""
        for group, one in list(self._open.items()):
            if (reason := self._tools.rotation.due(one.facts(), now_ms)) is not None:
                self._close(group, reason)
        if self._offsets.closes_together and self._closed:
            # Groups that the clock decides are committed up to one offset, below which nothing is open.
            for group in list(self._open):
                self._close(group, RotateReason.TOGETHER)
        if self._offsets.entries > MAX_ENTRIES and (oldest := self._offsets.oldest_open()) is not None:
            for group in [group for group, one in self._open.items() if one.id == oldest]:
                self._close(group, RotateReason.OPEN_OBJECTS)

    def next_due_ms(self) -> int | None:
        """When the next object closes by time alone."""
        dues = (self._tools.rotation.next_due_ms(one.facts()) for one in self._open.values())
        return min((due for due in dues if due is not None), default=None)

    def close_oldest(self) -> None:
        """Close the object that has been open for the longest time; there is one."""
        oldest = min(self._open, key=lambda group: self._open[group].opened_ms)
        self._close(oldest, RotateReason.OPEN_OBJECTS)

    def close_all(self) -> None:
        """Close every open object."""
        for group in list(self._open):
            self._close(group, RotateReason.STOP)

    def _close(self, group: str, reason: RotateReason) -> None:
        one = self._open.pop(group)
        hint = self._tools.small_files.add(reason, one.object.size, wall_ms())
        if hint is not None:
            _log.warning("objects_small", detail=hint)
        name = None
        if self._is_named_at_the_end:
            name = self._name(
                group,
                first_offset=one.first_offset,
                opened_ms=one.opened_ms,
                first_time_ms=one.first_timestamp_ms,
                ended=one,
            )
        closed = ClosedGroup(open=one, name=name)
        self._closed.append(closed)
        if not self._tools.shapes.values.names.overwrites:
            self._seal(closed)

    def _seal(self, closed: ClosedGroup) -> None:
        one, tags = closed.open, None
        if self._tools.settings.sink.upload.offset_tags:
            tags = {
                "startOffset": str(one.first_offset),
                "endOffset": str(one.last_offset),
                "recordCount": str(one.records),
            }
        closed.uploads = one.object.seal(name=closed.name, tags=tags)

    # -- committing ------------------------------------------------------------------------------------------

    def note_sealed(self, now_ms: int) -> None:
        """Take up which closed objects have all of their parts at S3, and start those that may be now.

        At least once they have to be visible too.
        """
        for closed in self._closed:
            if closed.uploads is None and closed.name is not None:
                if self._tools.recurring.hold(closed.name, closed.open.id):
                    self._seal(closed)
            elif not closed.is_sealed and closed.has_all_parts and self._is_visible(closed, now_ms):
                closed.is_sealed = True
                self._offsets.seal(closed.open.id, closed.open.last_offset)

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

    def entries(self, ids: tuple[str, ...], now_ms: int) -> tuple[SealedObject, ...]:
        """The ledger's entries of these sealed objects."""
        by_id = {closed.open.id: closed for closed in self._closed}
        return tuple(self._entry(by_id[one], now_ms) for one in ids)

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

    def committed(self, ids: tuple[str, ...]) -> None:
        """A transaction has these objects."""
        gone = set(ids)
        self._closed = [one for one in self._closed if one.open.id not in gone]

    def abandon(self) -> None:
        """Give up all objects; none of them is in a transaction."""
        for one in self.uncommitted():
            self._tools.recurring.release(one.id)
            one.object.abandon()
        self._open.clear()
        self._closed.clear()
