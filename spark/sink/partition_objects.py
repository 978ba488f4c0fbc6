"""The objects of one partition: opened, filled and closed by group, until a transaction has them."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import structlog

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.converters.typed_columns import TypedColumn, schemaless_nulls
from headrace.formats.encoding import NewObject, Refused, RowSchema
from headrace.formats.encoding.encoder import LearningEncoder
from headrace.model.clock import wall_ms
from headrace.model.columns import Numbers
from headrace.model.sink_protocol import OpenedObject, PartitionGrant
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import AgeFrom, RotateTogether
from spark.sink.names_and_openings import CarriedOpenings, ObjectNaming
from spark.sink.object_shape import KnownValues
from spark.sink.open_group import ClosedObjects, ObjectColumns, OpenGroup, OpenObjects
from spark.sink.partition_offsets import MAX_ENTRIES, PartitionOffsets
from spark.sink.rotation import (
    BatchCut,
    BatchFacts,
    OpenBatch,
    RotateReason,
    WaitingGroups,
    WaitingRows,
    is_put_back,
)
from spark.sink.routed_tools import SlotTools

_log: Final = structlog.get_logger(__name__)
Refuse = Callable[[ConvertedRecords, str, str], bool]
"""Called with records that no object can take, a reason and a sentence; False: nothing more is written."""

_NO_END: Final = 2**63 - 1


class _Added(NamedTuple):
    """How many records are dealt with, and whether that is all of them in one object."""

    rows: int
    is_all: bool


class _Sifted(NamedTuple):
    """The rows that a group's object takes, those that it refuses, and the offset that closes it."""

    rows: WaitingRows
    refused: Sequence[tuple[int, Refused]]
    all: WaitingRows
    end: int | None


class PartitionObjects:
    """Used by the slot's thread only. Times are ms since 1970."""

    def __init__(
        self, grant: PartitionGrant, tools: SlotTools, offsets: PartitionOffsets, refuse: Refuse
    ) -> None:
        self._tools = tools
        self._offsets = offsets
        self._refuse = refuse
        self._open: dict[str, OpenGroup] = {}
        self.closed: Final = ClosedObjects(grant, tools, offsets)
        """Those that take no more records."""
        self.values: Final = KnownValues()
        self._naming = ObjectNaming(grant, tools)
        self._openings = CarriedOpenings(grant.left)
        self._together = tools.settings.sink.rotation.together
        self._batch = OpenBatch()
        self._closed_ms: int | None = None
        # No open object closes by time before this; some of those that would may be closed already.
        self._due_ms: int | None = None
        # When the last one was opened; less where the wall clock was put back since.
        self._newest_ms = 0

    @property
    def open_count(self) -> int:
        """Objects that take records."""
        return len(self._open)

    @property
    def oldest_open_ms(self) -> int | None:
        """When the oldest open object was opened."""
        return min((one.opened_ms for one in self._open.values()), default=None)

    def uncommitted(self) -> Iterator[OpenGroup]:
        """All objects, open and closed."""
        yield from self._open.values()
        yield from self.closed

    # -- filling ---------------------------------------------------------------------------------------------

    def write(self, grouped: Iterable[tuple[str, ConvertedRecords]], now_ms: int) -> None:
        """Write the records of groups, which are of one run, through as many objects as it takes.

        Where a refused record ends it, what lies below of other groups is written: `grouped` gives no more.
        """
        if self._tools.shapes.values.names.shows_schemas:
            grouped = ((group, self.values.nulls_alike(converted)) for group, converted in grouped)
        if self._together is not RotateTogether.NONE:
            self._write_together(
                WaitingGroups([WaitingRows(*each, self._times(each[1], now_ms)) for each in grouped]), now_ms
            )
            return
        for group, converted in grouped:
            self._write_alone(group, converted, now_ms)

    def _joining(self, one: OpenGroup, converted: ConvertedRecords) -> ConvertedRecords:
        """The records for an object that is open: nulls by names of schemas are of none, unless it began so.

        Else they would close an object of values without a schema's name, and those the next one, or not be
        taken: they have the schema of the first null, or of a value without a name that was read before or
        with them, of other groups too. Of records that begin with nulls these alone.
        """
        value = converted.value
        if not self._tools.shapes.values.names.shows_schemas or not isinstance(value, TypedColumn):
            return converted
        if value.schema.connect is None:
            return converted
        # Asked first: it costs the same for any number of records, and most are of the object's schema.
        if one.columns.has_values_of(self._naming.shape(one.group).schema_of(converted)):
            return converted
        filled = np.flatnonzero(~value.nulls())
        nulls = int(filled[0]) if len(filled) else len(converted)
        if not nulls:
            return converted
        return replace(converted.slice(0, nulls), value=schemaless_nulls(nulls))

    def _write_alone(self, group: str, converted: ConvertedRecords, now_ms: int) -> None:
        rotation = self._tools.rotation
        while len(converted):
            self._tools.beat()
            one = self._open.get(group)
            limit = rotation.limit(None if one is None else one.facts(), self._times(converted, now_ms))
            if limit.rows:
                added = self._append(group, converted.slice(0, limit.rows), now_ms)
                if added is None:
                    return
                converted = converted.slice(added.rows, len(converted))
                if not added.is_all:
                    # The limit was that of an object which is closed, or counted a record that is in none.
                    continue
            if limit.reason is not None and group in self._open:
                self._close(group, limit.reason)
        one = self._open.get(group)
        if one is not None and (reason := self._reason(one, now_ms)) is not None:
            self._close(group, reason)

    def _write_together(self, waiting: WaitingGroups, now_ms: int) -> None:
        """In the order of offsets, up to each record at which all that is open closes."""
        while waiting:
            if not self._open:
                self._batch = OpenBatch()
            sifted, cut = self._next_cut(waiting)
            end = _NO_END if cut is None else cut.offset
            stop = self._refuse_below(end, sifted)
            below = [each.rows.below(end if stop is None else stop) for each in sifted]
            self._write_below([rows for rows in below if len(rows.converted)], now_ms)
            if stop is not None:
                return
            waiting.pass_below(end)
            if cut is not None:
                self._close_batch(cut.reason, now_ms)
        if (reason := self._batch_due(now_ms)) is not None:
            self._close_batch(reason, now_ms)

    def _next_cut(self, waiting: WaitingGroups) -> tuple[list["_Sifted"], BatchCut | None]:
        """Where all that is open closes next, and what was looked at for it; None: it takes all."""
        opened = {group: one.facts() for group, one in self._open.items()}
        facts = BatchFacts(open=opened, batch=self._batch)
        while True:
            self._tools.beat()
            sifted = [self._sifted(rows) for rows in waiting.window()]
            fitting = [each.rows for each in sifted if len(each.rows.converted)]
            breaks = [each.end for each in sifted if each.end is not None]
            cut = self._tools.batches.cut(fitting, facts, breaks) if fitting else None
            if waiting.decides(cut):
                return sifted, cut
            waiting.widen()

    def _write_below(self, waiting: Sequence[WaitingRows], now_ms: int) -> None:
        if waiting:
            self._batch.add(waiting)
        for rows in waiting:
            converted = rows.converted
            while len(converted) and (added := self._append(rows.group, converted, now_ms)) is not None:
                converted = converted.slice(added.rows, len(converted))

    def _sifted(self, waiting: WaitingRows) -> "_Sifted":
        """The rows without those that the group's object refuses, up to the first that it does not take."""
        one, converted = self._open.get(waiting.group), waiting.converted
        shape = self._naming.shape(waiting.group)
        output = self._tools.settings.sink.output
        columns = ObjectColumns(output, shape.schema_of(converted)) if one is None else one.columns.copy()
        refused: list[tuple[int, Refused]] = []
        row = records = 0
        while row < len(converted):
            rest = converted.slice(row, len(converted))
            # Nulls join each time, as where they are added: after a refused value they are all that is left.
            rest = rest if one is None else self._joining(one, rest)
            taken = columns.taken(rest, shape.schema_of(rest), ahead=records)
            columns.widen(taken.kind)
            row, records = row + taken.rows, records + taken.rows
            if isinstance(taken.change, NewObject):
                end = int(waiting.offsets[row])
                return _Sifted(waiting.without([row for row, _ in refused]), refused, waiting, end)
            if taken.change is not None:
                refused.append((row, taken.change))
                row += 1
        return _Sifted(waiting.without([row for row, _ in refused]), refused, waiting, None)

    def _refuse_below(self, end: int, sifted: Sequence["_Sifted"]) -> int | None:
        """Refuse the records below `end` that no object takes; the offset of one that ends writing."""
        found = [
            (int(each.all.offsets[row]), each.all.converted.slice(row, row + 1), change)
            for each in sifted
            for row, change in each.refused
        ]
        for offset, converted, change in sorted(found, key=lambda one: one[0]):
            if offset < end and not self._refuse(converted, change.reason, change.message):
                return offset
        return None

    def _times(self, converted: ConvertedRecords, now_ms: int) -> Numbers:
        moment_ms = self._openings.moment(self._offsets.position, now_ms)
        return self._tools.batches.times(converted, self._tools.shapes.values.names, moment_ms)

    def _append(self, group: str, converted: ConvertedRecords, now_ms: int) -> "_Added | None":
        """Add records to the group's object, or to a new one; None when nothing more is to be written.

        After a record that no object takes, or with which the object closes, some may be left.
        """
        one, count = self._open.get(group), len(converted)
        converted = converted if one is None else self._joining(one, converted)
        schema = self._naming.shape(group).schema_of(converted)
        if one is None:
            one = self._open[group] = self._new_object(group, converted, schema, now_ms)
        taken = one.columns.taken(converted, schema)
        if taken.rows:
            one.add(converted.slice(0, taken.rows), taken.kind)
        if isinstance(taken.change, Refused):
            refused = converted.slice(taken.rows, taken.rows + 1)
            if not self._refuse(refused, taken.change.reason, taken.change.message):
                return None
            return _Added(taken.rows + 1, is_all=False)
        if taken.change is not None:
            self._close_with(group, RotateReason.SCHEMA, now_ms)
        return _Added(taken.rows, is_all=taken.rows == count)

    def _new_object(
        self, group: str, converted: ConvertedRecords, schema: RowSchema, now_ms: int
    ) -> OpenGroup:
        tools, first = self._tools, converted.records.first_offset
        shape, name = self._naming.shape(group), None
        object_id, begins = secrets.token_hex(16), self._naming.beginning(group, first)
        batch_offset = first if self._batch.first_offset is None else self._batch.first_offset
        opened_ms, age_from_ms = self._openings.of(group, first, now_ms, self._closed_ms)
        if not self._naming.is_at_the_end(group):
            name = self._naming.first_name(
                group,
                first_offset=first,
                batch_offset=batch_offset,
                opened_ms=opened_ms,
                first_time_ms=int(converted.records.timestamps_ms[0]),
            )
        encoders = {role: shape.encoder(role, schema) for role in shape.roles}
        objects = tuple(
            tools.uploads.open(
                encoder,
                object_id=object_id,
                bucket=tools.settings.s3.bucket,
                key=None if name is None else shape.key(role, name),
                tags=dict(tools.settings.sink.upload.tags),
                begins=begins,
            )
            for role, encoder in encoders.items()
        )
        learning = next((each for each in encoders.values() if isinstance(each, LearningEncoder)), None)
        self._offsets.open(object_id, group, first)
        opened = OpenGroup(
            group=group,
            id=object_id,
            object=OpenObjects(shape, objects),
            columns=ObjectColumns(tools.settings.sink.output, schema, learning),
            opened_ms=opened_ms,
            first_offset=first,
            batch_offset=batch_offset,
            age_from_ms=None if tools.settings.sink.rotation.age_from is AgeFrom.OPENED else age_from_ms,
            span_from_ms=int(self._times(converted.slice(0, 1), now_ms)[0]),
            name_ends_ms=shape.names.name_ends_ms(opened_ms),
            begins=begins,
        )
        self._newest_ms = now_ms
        dues = [due for due in (self._due_ms, self._due_of(opened)) if due is not None]
        self._due_ms = min(dues, default=None)
        return opened

    def left(self) -> tuple[tuple[OpenedObject, ...], int]:
        """What would have to be written again, and how far this slot or one before it has read."""
        return self._openings.left(self.uncommitted(), self._offsets.position)

    # -- closing ---------------------------------------------------------------------------------------------

    def close_due(self, now_ms: int) -> None:
        """Close the objects whose time has come, and what has to close with others."""
        is_due = self._due_ms is not None and (self._due_ms <= now_ms or is_put_back(self._newest_ms, now_ms))
        self._newest_ms = min(self._newest_ms, now_ms)
        if self._together is not RotateTogether.NONE:
            if (reason := self._batch_due(now_ms)) is not None:
                self._close_batch(reason, now_ms)
        elif is_due:
            self._close_each_due(now_ms)
        if is_due:
            self._due_ms = min(filter(None, map(self._due_of, self._open.values())), default=None)
        if self._offsets.entries > MAX_ENTRIES and (oldest := self._offsets.oldest_open()) is not None:
            for group in [group for group, one in self._open.items() if one.id == oldest]:
                self._close_early(group, now_ms)
        self._close_overlapping()

    def _close_overlapping(self) -> None:
        """Close what has records between those of a closed object, where that holds the closed one back.

        Groups that the clock decides are committed up to an offset below which nothing is open. What was
        opened after the closed ones stays: it does not hold them back.
        """
        while self._together is RotateTogether.NONE and self._offsets.closes_together:
            end = max((closed.last_offset for closed in self.closed), default=-1)
            between = [group for group, one in self._open.items() if one.first_offset < end]
            if not between:
                return
            for group in between:
                self._close(group, RotateReason.TOGETHER)

    def _close_each_due(self, now_ms: int) -> None:
        for group, one in list(self._open.items()):
            if (reason := self._reason(one, now_ms)) is not None:
                self._close(group, reason)

    def next_due_ms(self) -> int | None:
        """When the next object closes by time alone, or earlier."""
        return self._due_ms

    def is_reading_again(self, now_ms: int) -> bool:
        """Whether records come that were read before: nothing closes by time meanwhile."""
        return self._openings.is_reading_again(self._offsets.position, now_ms)

    def _reason(self, one: OpenGroup, now_ms: int) -> RotateReason | None:
        return self._tools.rotation.due(one.facts(), now_ms, by_time=not self.is_reading_again(now_ms))

    def _due_of(self, one: OpenGroup) -> int | None:
        return self._tools.rotation.next_due_ms(one.facts())

    def close_oldest(self) -> None:
        """Close the object that has been open for the longest time; there is one."""
        oldest = min(self._open, key=lambda group: self._open[group].opened_ms)
        self._close_early(oldest, wall_ms())
        # At once: a stop that leaves what is open unwritten waits for all that is closed.
        self._close_overlapping()

    def _close_early(self, group: str, now_ms: int) -> None:
        """Close a group's object for what a slot can bear; said where that is no option of ours."""
        sink = self._tools.settings.sink
        if sink.output.layout is not LayoutName.HEADRACE:
            detail = self._tools.early_closes.of(sink.buffer, self._offsets.entries, now_ms)
            if detail is not None:
                _log.warning("objects_closed_early", detail=detail)
        self._close_with(group, RotateReason.OPEN_OBJECTS, now_ms)

    def close_all(self, *, at_any_rate: bool = False) -> None:
        """Close every open object for a stop, unless that is to leave them unwritten.

        `at_any_rate`: what they hold can never be read again.
        """
        if at_any_rate or self._tools.settings.sink.rotation.on_stop:
            for group in list(self._open):
                self._close(group, RotateReason.STOP)

    def _batch_due(self, now_ms: int) -> RotateReason | None:
        """Why all that is open closes now: for any of them, or for what they have in all."""
        if self._together is RotateTogether.TOTAL and self._open:
            largest = self._tools.settings.sink.rotation.bytes
            if largest and sum(one.object.size for one in self._open.values()) >= largest:
                return RotateReason.BYTES
        due = (self._reason(one, now_ms) for one in self._open.values())
        return next((reason for reason in due if reason is not None), None)

    def _close_with(self, group: str, reason: RotateReason, now_ms: int) -> None:
        """Close a group's object, with all others where they close together."""
        if self._together is RotateTogether.NONE:
            self._close(group, reason)
        else:
            self._close_batch(reason, now_ms)

    def _close_batch(self, reason: RotateReason, now_ms: int) -> None:
        for group in list(self._open):
            self._close(group, reason)
        self._batch = OpenBatch()
        self._closed_ms = now_ms

    def _close(self, group: str, reason: RotateReason) -> None:
        one = self._open.pop(group)
        hint = self._tools.small_files.add(reason, one.object.size, wall_ms())
        if hint is not None:
            _log.warning("objects_small", detail=hint)
        self.closed.add(one, self._naming.last_name(one) if self._naming.is_at_the_end(group) else None)

    def abandon(self) -> None:
        """Give up all objects; none of them is in a transaction. When they were opened stays known."""
        self._openings.abandon(self.uncommitted(), self._offsets.position)
        for one in self.uncommitted():
            self._tools.recurring.release(one.id)
            one.object.abandon()
        self._batch = OpenBatch()
        self.values.forget()
        self._open.clear()
        self.closed.clear()
