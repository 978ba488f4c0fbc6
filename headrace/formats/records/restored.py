"""Rows of an archive as the records that were in Kafka: what a layout's reader gives, put into batches."""

from dataclasses import dataclass, replace

import numpy as np

from headrace.formats.record_columns import NO_OFFSET, RecordColumns
from headrace.formats.records.constant import position_header
from headrace.model.rows import RowBatch
from headrace.names.archive_names import ArchiveName, NamePart
from headrace.options.record_sources import ObjectHeaders
from headrace.options.restoring import TimestampFrom
from headrace.options.settings import FormatSettings

SOURCE_TOPIC = "headrace.source.topic"
SOURCE_PARTITION = "headrace.source.partition"
SOURCE_OFFSET = "headrace.source.offset"


@dataclass(frozen=True, slots=True)
class SourceHeaders:
    """Writes `record.headers=source` of restored records: where each row is, and where it once was."""

    name: ArchiveName

    def constant(self) -> tuple[tuple[str, bytes], ...]:
        """The source topic and partition, as far as the object's name is certain of them."""
        found = []
        if self.name.topic is not None and self.name.is_exact(NamePart.TOPIC):
            found.append((SOURCE_TOPIC, self.name.topic.encode()))
        if self.name.partition is not None and self.name.is_exact(NamePart.PARTITION):
            found.append((SOURCE_PARTITION, b"%d" % self.name.partition))
        return tuple(found)

    def of_rows(self, batch: RowBatch, columns: RecordColumns) -> RowBatch:
        """The batch with these headers after the record's own; an offset only where the layout stored it."""
        constant = self.constant()
        offsets = None if columns.offsets is None else columns.offsets.tolist()
        own = batch.headers
        found = []
        for row in range(len(batch)):
            headers = (() if own is None else own[row]) + (position_header(batch.positions(row)), *constant)
            if offsets is not None and offsets[row] != NO_OFFSET:
                headers += ((SOURCE_OFFSET, b"%d" % offsets[row]),)
            found.append(headers)
        return replace(batch, headers=tuple(found))


@dataclass(frozen=True, slots=True)
class RestoredRecords:
    """Puts the columns that a layout's reader gives into the batches of one object."""

    timestamp: TimestampFrom
    source_headers: SourceHeaders | None

    @classmethod
    def of(cls, settings: FormatSettings, name: ArchiveName) -> "RestoredRecords":
        """What the settings ask of the records of this object."""
        assert settings.restore is not None
        wants_source = isinstance(settings.headers, ObjectHeaders)
        return cls(settings.restore.rows.timestamp, SourceHeaders(name) if wants_source else None)

    def fill(self, batch: RowBatch, columns: RecordColumns) -> RowBatch:
        """The batch, whose rows without a fault are those of the columns, with the records' parts."""
        is_original = self.timestamp is TimestampFrom.ORIGINAL
        batch = replace(
            batch,
            values=columns.values,
            keys=columns.keys,
            headers=columns.headers,
            timestamps_ms=columns.timestamps_ms if is_original else None,
            inexact=columns.inexact,
        )
        return batch if self.source_headers is None else self.source_headers.of_rows(batch, columns)


def faults_of(columns: RecordColumns, batch: RowBatch) -> dict[int, tuple[str, str, int]]:
    """Reason, sentence and size of each row that gave no record."""
    sizes = np.maximum(batch.values.lengths, 0)
    return {fault.row: (fault.reason, fault.message, int(sizes[fault.row])) for fault in columns.faults}
