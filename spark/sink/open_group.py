"""One open object of a partition, and one that is closed and waits to be committed.

The columns of an open object, and which of the next records come into it.

The uploads of one open object: side objects', if it has any, and the main one, which is the last.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.conversion.writable_runs import is_projection_unfit, unfit_value
from headrace.formats.converted_records import ConvertedRecords, InferredValues
from headrace.formats.converters.inferred_column import schema_of_kind
from headrace.formats.encoding import NewObject, Projected, Refused, RowSchema, Same, next_schema
from headrace.formats.encoding.encoder import LEARNED, LearningEncoder
from headrace.formats.encoding.kinds import settled
from headrace.formats.encoding.row_schema import PartSchema
from headrace.model.columns import NO_TIMESTAMP
from headrace.model.sink_entries import Upload
from headrace.options.sink_settings import OutputSettings
from headrace.s3.completion import Completion
from spark.sink.object_shape import ObjectShape
from spark.sink.open_object import OpenObject
from spark.sink.rotation import OpenFacts

_NULL: Final = schema_of_kind(pa.null())


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
        return found

    def _declared(self, records: ConvertedRecords, schema: RowSchema) -> Taken:
        change = next_schema(self._output, self._schema, schema)
        if isinstance(change, Projected) and is_projection_unfit(self._output, self._schema, records):
            if len(records) > 1:
                # One record after the other, so that only those that do not fit are refused.
                return self._declared(records.slice(0, 1), schema)
            change = Refused(*unfit_value(self._output))
        if isinstance(change, NewObject | Refused):
            return Taken(0, change=change)
        return Taken(len(records))

    def _nulls(self, records: ConvertedRecords, schema: RowSchema) -> Taken:
        """Nulls without a schema join an object of any."""
        filled = np.flatnonzero(~records.value.nulls())
        rows = int(filled[0]) if len(filled) else len(records)
        if not rows:
            return Taken(0, change=NewObject())
        assert schema.value is not None, "values without a schema are of the rows"
        null = replace(schema, value=PartSchema(schema.value.form, _NULL))
        taken = self._declared(records.slice(0, rows), null)
        if taken.change is None and rows < len(records):
            return Taken(rows, change=NewObject())
        return taken


def _kind_of(schema: RowSchema) -> Any | None:
    value = schema.value
    return None if value is None or value.schema is None else value.schema.kind


class ObjectParts:
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

    def seal(self, *, name: str | None = None, tags: Mapping[str, str] | None = None) -> "SealedParts":
        """What the ledger needs; `name` where it was not known before. `tags` are the main object's. Once."""
        uploads = []
        for role, one in zip(self._shape.roles, self._objects, strict=True):
            key = None if name is None else self._shape.key(role, name)
            is_main = one is self._objects[-1]
            uploads.append((role, one.seal(key=key, tags=tags if is_main else None)))
        return SealedParts(tuple(uploads))

    def abandon(self) -> None:
        """Give all back."""
        for one in self._objects:
            one.abandon()


class SealedParts:
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

    `age_from_ms` and `span_from_ms` are those of `OpenFacts`.
    """

    group: str
    id: str
    object: ObjectParts
    columns: ObjectColumns
    opened_ms: int
    first_offset: int
    batch_offset: int
    age_from_ms: int | None = None
    span_from_ms: int = NO_TIMESTAMP
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
    uploads: SealedParts | None = None
    completion: Future[Completion] | None = None
    """At least once, while it is made visible before its offsets are committed."""
    is_sealed: bool = False

    @property
    def has_all_parts(self) -> bool:
        """True once S3 has them."""
        return self.uploads is not None and self.uploads.has_all
