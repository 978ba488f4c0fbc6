"""One open object of a partition, and one that is closed and waits to be committed."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from headrace.formats.converted_records import ConvertedRecords
from headrace.model.kafka_records import NO_TIMESTAMP
from headrace.s3.completion import Completion
from spark.sink.object_columns import ObjectColumns
from spark.sink.object_parts import ObjectParts, SealedParts
from spark.sink.rotation import OpenFacts


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
