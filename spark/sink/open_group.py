"""An open object of a partition, its columns and uploads, and closed ones until a transaction has them.

An object is one upload, or more where it has side objects; the main one is the last.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.conversion.writable_runs import is_projection_unfit
from headrace.formats.converted_records import ConvertedRecords, InferredValues
from headrace.formats.converters.inferred_column import schema_of_kind
from headrace.formats.converters.json_inference import settled
from headrace.formats.encoding import NewObject, Projected, Refused, RowSchema, Same, next_schema
from headrace.formats.encoding.encoder import LEARNED, LearningEncoder
from headrace.formats.encoding.row_schema import ColumnForm
from headrace.model.clock import wall_ms
from headrace.model.columns import NO_TIME, NO_TIMESTAMP
from headrace.model.sink_entries import ObjectState, SealedObject, Upload
from headrace.model.sink_protocol import ObjectTimes, PartitionGrant
from headrace.options.sink_settings import OutputSettings
from headrace.s3.client import UploadEnded
from headrace.s3.completion import Beginning, Completion, CompletionState
from spark.sink.object_shape import ObjectShape
from spark.sink.open_object import OpenObject
from spark.sink.partition_offsets import PartitionOffsets
from spark.sink.rotation import OpenFacts
from spark.sink.routed_tools import SlotTools

_NULL: Final = schema_of_kind(pa.null())
_GONE: Final = (
    "its upload is not there any more, as a lifecycle rule or another program has ended it: let the bucket's "
    "rule for unfinished uploads wait for three days or more"
)
# At least once: why an upload never will be completed, so that its records are read again.
_UNCOMPLETED: Final = {
    CompletionState.UPLOAD_MISSING: _GONE,
    CompletionState.SUPERSEDED: _GONE,
    CompletionState.UNPROVEN: "its name is taken or its upload is not there any more, and S3 does not say "
    "which object has the name, so none is replaced: where its HEAD is a 403, allow s3:GetObject and "
    "s3:ListBucket; where it is a 400, move away what has the name, encrypted with another key (SSE-C)",
    CompletionState.PARTS_DIFFER: "the parts of its upload are not those that were sent: find out who else "
    "has sent parts to it, or set aws.s3.part.size where the store wants all of one size (docs/support.md)",
}


class Taken(NamedTuple):
    """How many of the records come into the object, and its kind then.

    `change` is what the record after them means; None where they are all.
    """

    rows: int
    kind: Any = None
    change: NewObject | Refused | None = None


class ObjectColumns:
    """The columns of one object. Its first records widen them, where they are found in values."""

    def __init__(
        self, output: OutputSettings, schema: RowSchema, encoder: LearningEncoder | None = None
    ) -> None:
        """`encoder` None: of an object that is not opened yet."""
        self._output = output
        self._schema = schema
        self._kind = _kind_of(schema)
        self._encoder = encoder
        self._is_settled = False
        self._has_values = False

    def taken(self, records: ConvertedRecords, schema: RowSchema, *, ahead: int = 0) -> Taken:
        """Which of these records, whose schema this is, come into the object after `ahead` others."""
        values = records.value
        if _kind_of(schema) is None or not isinstance(values, InferredValues):
            return self._declared(records, schema)
        if self._kind is None:
            return self._nulls(records, schema)
        # Of what is not found in values everything has to be the same.
        if not isinstance(
            next_schema(self._output, self._schema, replace(schema, value=self._schema.value)), Same
        ):
            return Taken(0, change=NewObject())
        learning = max((LEARNED if self._encoder is None else self._encoder.left) - ahead, 0)
        if not learning and not self._is_settled:
            self._kind, self._is_settled = settled(self._kind), True
        fit = values.fit(self._kind, learning)
        return Taken(fit.rows, fit.kind, None if fit.rows == len(values) else NewObject())

    def has_values_of(self, schema: RowSchema) -> bool:
        """Whether the object has begun with values of this schema."""
        return self._schema.value == schema.value

    def widen(self, kind: Any) -> None:
        """Suppose columns of this kind; None: those that it had."""
        if kind is not None:
            self._kind = kind

    def grow(self, kind: Any) -> None:
        """The object has columns of this kind from now on; None: those that it had."""
        self.widen(kind)
        if kind is not None and self._encoder is not None and self._encoder.left:
            self._encoder.kind = kind

    def copy(self) -> "ObjectColumns":
        """The same, to try what records would do to it."""
        found = ObjectColumns(self._output, self._schema, self._encoder)
        found._kind, found._is_settled = self._kind, self._is_settled
        found._has_values = self._has_values
        return found

    def _declared(self, records: ConvertedRecords, schema: RowSchema) -> Taken:
        change = next_schema(self._output, self._schema, schema)
        if isinstance(change, Projected) and is_projection_unfit(self._output, self._schema, records):
            if len(records) > 1:
                # One record after the other, so that only those that do not fit begin another object.
                return self._declared(records.slice(0, 1), schema)
            # It has one of its own, where its own schema holds it: what is open does not decide.
            change = NewObject()
        if not self._has_values and not records.value.nulls().all():
            if self._is_of_value(schema) and (
                isinstance(change, Refused) or (isinstance(change, Projected) and self._is_other(schema))
            ):
                # Its nulls have the schema of what was fetched with them, which promises nothing here.
                change = NewObject()
            self._has_values = not isinstance(change, NewObject)
        if isinstance(change, NewObject | Refused):
            return Taken(0, change=change)
        return Taken(len(records))

    def _is_of_value(self, schema: RowSchema) -> bool:
        """Whether it is the value alone by which these do not fit: nulls say nothing of keys."""
        same_value = replace(self._schema, value=schema.value)
        return not isinstance(next_schema(self._output, same_value, schema), Refused)

    def _is_other(self, schema: RowSchema) -> bool:
        """Whether values of this schema are of another version than the object's, as they were registered."""
        opened = None if self._schema.value is None else self._schema.value.schema
        new = None if schema.value is None else schema.value.schema
        if opened is None or new is None or opened.is_made or new.is_made:
            return False
        return None not in (opened.version, new.version) and opened.version != new.version

    def _nulls(self, records: ConvertedRecords, schema: RowSchema) -> Taken:
        """Nulls without a schema join an object of any."""
        filled = np.flatnonzero(~records.value.nulls())
        rows = int(filled[0]) if len(filled) else len(records)
        if not rows:
            return Taken(0, change=NewObject())
        assert schema.value is not None, "values without a schema are of the rows"
        null = replace(schema, value=ColumnForm(schema.value.form, _NULL))
        taken = self._declared(records.slice(0, rows), null)
        if taken.change is None and rows < len(records):
            return Taken(rows, change=NewObject())
        return taken


def _kind_of(schema: RowSchema) -> Any | None:
    value = schema.value
    return None if value is None or value.schema is None else value.schema.kind


class OpenObjects:
    """Filled, sealed and given up together."""

    def __init__(self, shape: ObjectShape, objects: tuple[OpenObject, ...]) -> None:
        """`objects` are in the order of the shape's roles."""
        self._shape = shape
        self._objects = objects
        self._failure: BaseException | None = None

    @property
    def size(self) -> int:
        """Bytes of the main object so far."""
        return self._objects[-1].size

    @property
    def total_size(self) -> int:
        """Bytes of all of them."""
        return sum(one.size for one in self._objects)

    @property
    def failure(self) -> BaseException | None:
        """Why one of them cannot be sealed any more."""
        return self._failure or next((one.failure for one in self._objects if one.failure is not None), None)

    def fail(self, error: BaseException) -> None:
        """It has to be written again."""
        self._failure = error

    def add(self, records: ConvertedRecords) -> None:
        """A row in each for every record."""
        for one in self._objects:
            one.add(records)

    def seal(self, *, name: str | None = None, tags: Mapping[str, str] | None = None) -> "SealedUploads":
        """What the ledger needs; `name` where it was not known before. `tags` are the main object's. Once.

        At least once, too, each appears after those before it: who sees the main one sees the others.
        """
        uploads: list[tuple[str, Future[Upload]]] = []
        main_key = None if name is None else self._shape.key(self._shape.roles[-1], name)
        for role, one in zip(self._shape.roles, self._objects, strict=True):
            key = None if name is None else self._shape.key(role, name)
            is_main = one is self._objects[-1]
            sealed = one.seal(
                key=key,
                tags=tags if is_main else None,
                after=uploads[-1][1] if uploads else None,
                may_put=not is_main or not any(side.is_uploading for side in self._objects[:-1]),
                main_key=main_key,
            )
            uploads.append((role, sealed))
        return SealedUploads(tuple(uploads))

    def abandon(self) -> None:
        """Give all back."""
        for one in self._objects:
            one.abandon()


class SealedUploads:
    """The uploads of an object whose last parts are on their way."""

    def __init__(self, uploads: tuple[tuple[str, Future[Upload]], ...]) -> None:
        self._uploads = uploads

    @property
    def has_all(self) -> bool:
        """True once S3 has all parts of all of them; an upload that has failed never has."""
        return all(
            upload.done() and not upload.cancelled() and upload.exception() is None
            for _, upload in self._uploads
        )

    def result(self) -> tuple[Upload, ...]:
        """What the ledger's entry has, in the order of completion; only once it `has_all`."""
        return tuple(replace(upload.result(), role=role) for role, upload in self._uploads)


@dataclass(slots=True, kw_only=True)
class OpenGroup:
    """An object that takes records of one group. Times are ms since 1970; offsets are of its records.

    `age_from_ms`, `span_from_ms` and `name_ends_ms` are those of `OpenFacts`. `begins` as in
    `SlotUploads.open`.
    """

    group: str
    id: str
    object: OpenObjects
    columns: ObjectColumns
    opened_ms: int
    first_offset: int
    batch_offset: int
    age_from_ms: int | None = None
    span_from_ms: int = NO_TIME
    name_ends_ms: int | None = None
    begins: Beginning | None = None
    last_offset: int = -1
    records: int = 0
    first_timestamp_ms: int = NO_TIMESTAMP
    least_timestamp_ms: int = NO_TIMESTAMP
    greatest_timestamp_ms: int = NO_TIMESTAMP

    def facts(self) -> OpenFacts:
        """What decides when it closes."""
        return OpenFacts(
            records=self.records,
            bytes=self.object.size,
            opened_ms=self.opened_ms,
            first_timestamp_ms=self.span_from_ms,
            age_from_ms=self.age_from_ms,
            name_ends_ms=self.name_ends_ms,
        )

    def add(self, records: ConvertedRecords, kind: Any = None) -> None:
        """Take these, which come after those that it has; `kind` is what its columns are with them."""
        self.columns.grow(kind)
        self.object.add(records)
        times = records.records.timestamps_ms
        least, greatest = int(times.min()), int(times.max())
        if not self.records:
            self.first_timestamp_ms = int(times[0])
            self.least_timestamp_ms, self.greatest_timestamp_ms = least, greatest
        self.least_timestamp_ms = min(self.least_timestamp_ms, least)
        self.greatest_timestamp_ms = max(self.greatest_timestamp_ms, greatest)
        self.records += len(records)
        self.last_offset = records.records.last_offset


@dataclass(slots=True, kw_only=True)
class ClosedGroup:
    """An object that takes no more records.

    `name` is None where the object had its key when it was opened; `closed_ms` is since 1970. `uploads` are
    None while an earlier object of a recurring name is not completed. `is_sealed` once it was noticed that S3
    has all parts.
    """

    open: OpenGroup
    name: str | None
    closed_ms: int
    uploads: SealedUploads | None = None
    completion: Future[Completion] | None = None
    """At least once, while it is made visible before its offsets are committed."""
    is_sealed: bool = False

    @property
    def has_all_parts(self) -> bool:
        """True once S3 has them."""
        return self.uploads is not None and self.uploads.has_all


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
            closed.completion = self._tools.uploads.complete(
                self._entry(closed, now_ms), begins=closed.open.begins
            )
        if not closed.completion.done():
            return False
        state = closed.completion.result().state
        if state is not CompletionState.COMPLETED:
            sealed = self._entry(closed, now_ms)
            why = f"s3://{sealed.bucket}/{sealed.main.key} cannot be completed: {_UNCOMPLETED[state]}."
            closed.open.object.fail(UploadEnded(why))
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
