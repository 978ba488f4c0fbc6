"""Rows turned into records: key, value, headers and timestamp taken out of each row's JSON."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.formats.json_sequence import BLANKS
from headrace.formats.record_columns import RecordColumns
from headrace.formats.records.decode_options import DecodeOptions, PackedMember
from headrace.formats.records.key_headers_timestamp import (
    MEMBER_HEADER,
    FieldKind,
    FieldReader,
    KindOf,
    RecordFault,
    RecordFields,
    Row,
    position_header,
)
from headrace.formats.records.registry import KeyFraming, ValueFraming, key_framing, value_framing
from headrace.formats.records.restored import EnvelopeReader, RestoredRecords, faults_of
from headrace.model.columns import (
    NULL_LENGTH,
    BadRow,
    Column,
    Headers,
    RowBatch,
    column_of,
    header_bytes,
    picked,
)
from headrace.options.choices import Envelope, EnvelopeField, FieldHeaders, FieldSource, ObjectHeaders
from headrace.options.settings import FormatSettings


def needs_fields(settings: FormatSettings) -> bool:
    """True when something of the record comes from the row's fields, so that its JSON is needed."""
    return (
        settings.envelope is not Envelope.NONE
        or isinstance(settings.key_source, FieldSource)
        or isinstance(settings.value_source, FieldSource)
        or isinstance(settings.headers, FieldHeaders)
        or isinstance(settings.timestamp, FieldSource)
    )


@dataclass(frozen=True, slots=True)
class RecordBuilder:
    """Gives each batch of one object its records; make one for each object."""

    options: DecodeOptions
    read: Callable[[Row], RecordFields] | None
    frame_key: KeyFraming | None = None
    frame_value: ValueFraming | None = None

    @classmethod
    def of(
        cls,
        options: DecodeOptions,
        kind_of: KindOf = lambda _path: FieldKind.OTHER,
        *,
        avro: str | None = None,
    ) -> "RecordBuilder":
        """A builder for what the options ask for; `avro` is the schema that the rows bring."""
        if options.archive is not None:
            return cls(options, None)
        found = cls._reading(options, kind_of)
        framing = value_framing(options, avro)
        return found if framing is None else replace(found, frame_value=framing)

    @classmethod
    def _reading(cls, options: DecodeOptions, kind_of: KindOf) -> "RecordBuilder":
        settings = options.format
        if settings.envelope is not Envelope.NONE:
            is_bytes = kind_of(("key",)) is FieldKind.BYTES or EnvelopeField.KEY in settings.envelope_base64
            framing = key_framing(settings, options.topic, is_bytes=is_bytes)
            return cls(options, EnvelopeReader(settings, kind_of), framing)
        if not needs_fields(settings):
            return cls(options, None)
        framing = None
        if isinstance(settings.key_source, FieldSource):
            is_bytes = kind_of(settings.key_source.path) is FieldKind.BYTES
            framing = key_framing(settings, options.topic, is_bytes=is_bytes)
        return cls(options, FieldReader(settings, kind_of), framing)

    def build(self, batch: RowBatch, rows: Column | None = None) -> RowBatch:
        """The batch with keys, values, headers and timestamps as asked for; too large records are bad rows.

        `rows` is the JSON of each row where `batch.values` is something else.
        """
        if self.options.archive is not None:
            # Without a reader of texts the decoder gives columns of its own.
            reader = self.options.archive.text
            return batch if reader is None else self.restored(batch, reader(batch.values))
        if self.read is not None:
            batch = self._with_built(batch, batch.values if rows is None else rows)
        if self.options.members:
            batch = _with_members(batch, self.options.members)
        if isinstance(self.options.format.headers, ObjectHeaders):
            batch = replace(batch, headers=_places(batch, self.options.member))
        if self.frame_value is not None:
            values, faults = self.frame_value.framed(batch.values)
            sizes = batch.values.lengths
            found = {index: (*why, max(0, int(sizes[index]))) for index, why in faults.items()}
            # The rows as they were are what dead letters hold.
            kept = without_rows(batch, found, keep_raw=True)
            batch = replace(kept, values=picked(values, ~_marked(faults, len(values))))
        return self.within_limit(batch)

    def restored(self, batch: RowBatch, columns: RecordColumns) -> RowBatch:
        """The batch with the records that a layout's reader made of its rows; its faults are bad rows."""
        assert self.options.archive is not None
        batch = without_rows(batch, faults_of(columns, batch), keep_raw=True)
        records = RestoredRecords.of(self.options.format, self.options.archive.name)
        return self.within_limit(records.fill(batch, columns))

    def _with_built(self, batch: RowBatch, rows: Column) -> RowBatch:
        assert self.read is not None
        settings = self.options.format
        found: list[RecordFields | None] = []
        faults: dict[int, tuple[str, str, int]] = {}
        octets = rows.buffer
        # Plain numbers: to take a single one out of an array costs more than to read the row.
        spans = zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True)
        for index, (start, length) in enumerate(spans):
            row = b"null" if length == NULL_LENGTH else octets[start : start + length]
            try:
                found.append(self.read(row))
            except (RecordFault, RecursionError, UnicodeDecodeError) as error:
                found.append(None)
                size = max(0, int(batch.values.lengths[index]))
                faults[index] = (*_why(error), size)
        batch = without_rows(batch, faults, keep_raw=True)
        built = [each for each in found if each is not None]
        changes: dict[str, Any] = {}
        if settings.envelope is not Envelope.NONE or isinstance(settings.key_source, FieldSource):
            keys = [each.key for each in built]
            changes["keys"] = column_of(keys if self.frame_key is None else list(map(self.frame_key, keys)))
        if settings.envelope is not Envelope.NONE or isinstance(settings.value_source, FieldSource):
            changes["values"] = column_of([each.value for each in built])
        if settings.envelope is not Envelope.NONE or isinstance(settings.headers, FieldHeaders):
            changes["headers"] = tuple(each.headers for each in built)
        if settings.envelope is not Envelope.NONE or isinstance(settings.timestamp, FieldSource):
            changes["timestamps_ms"] = np.array([each.timestamp_ms for each in built], np.int64)
        return replace(batch, **changes)

    def within_limit(self, batch: RowBatch) -> RowBatch:
        """The batch, in which records above the limit have become bad rows."""
        # A null's length is negative.
        sizes = batch.values.lengths
        if batch.keys is not None or batch.headers is not None:
            sizes = np.maximum(sizes, 0)
        if batch.keys is not None:
            sizes = sizes + np.maximum(batch.keys.lengths, 0)
        if batch.headers is not None:
            of_headers = [header_bytes(headers) if headers else 0 for headers in batch.headers]
            sizes = sizes + np.array(of_headers, np.int64)
        if not len(sizes) or np.maximum.reduce(sizes) <= self.options.own_max_bytes:
            return batch
        large = (sizes > self.options.own_max_bytes).nonzero()[0]
        faults = {}
        for index in large.tolist():
            own = int(sizes[index])
            faults[index] = ("too_large", self.options.too_large(own + self.options.overhead_bytes), own)
        return without_rows(batch, faults, keep_raw=False)


def _places(batch: RowBatch, member: PackedMember | None) -> tuple[Headers, ...]:
    """Where each row was: its position, and of an archive the name of its member."""
    found = map(batch.positions, range(len(batch)))
    if member is None:
        return tuple((position_header(position),) for position in found)
    name = (MEMBER_HEADER, member.name.encode())
    return tuple((position_header(member.at(position)), name) for position in found)


def _with_members(batch: RowBatch, members: bytes) -> RowBatch:
    """The batch with `members` at the end of each value; one that is not an object is a bad row."""
    found: list[bytes | None] = []
    faults: dict[int, tuple[str, str, int]] = {}
    for index, value in enumerate(batch.values.each(0, len(batch))):
        text = None if value is None else value.strip(BLANKS)
        if text is None:
            found.append(None)
        elif text.startswith(b"{"):
            head = text[:-1].rstrip(BLANKS)
            # Of an object with members nothing ends with a brace that opens: a text has its quote behind it.
            found.append(head + (b"" if head.endswith(b"{") else b",") + members + b"}")
        else:
            message = "the value is not a JSON object, which record.fields could be added to"
            faults[index] = ("not_an_object", message, len(value or b""))
    return replace(without_rows(batch, faults, keep_raw=True), values=column_of(found))


def _marked(faults: Collection[int], count: int) -> Any:
    """True at the rows that are faults."""
    found = np.zeros(count, np.bool_)
    found[list(faults)] = True
    return found


def _why(error: RecordFault | RecursionError | UnicodeDecodeError) -> tuple[str, str]:
    """Reason and sentence of a row that gives no record."""
    if isinstance(error, RecordFault):
        return error.reason, str(error)
    if isinstance(error, UnicodeDecodeError):
        # Lines of text, which `input.format=auto` may find, are not checked before.
        return "not_utf8", f"what becomes the record's key, value or headers is not UTF-8: {error.reason}"
    # The parser's depth is what the caller's stack leaves of Python's limit, and that is less here than where
    # the row was checked.
    return "too_deep", "the row is nested deeper than the JSON parser follows (about 1,000 levels)"


def without_rows(
    batch: RowBatch, faults: dict[int, tuple[str, str, int]], *, keep_raw: bool, are_records: bool = False
) -> RowBatch:
    """The batch with these rows, (reason, message, size) each, turned from good into bad ones.

    `are_records`: its values are those of records, of which a null is one like others.
    """
    if not faults:
        return batch
    good = np.ones(len(batch), bool)
    good[list(faults)] = False
    behind = np.cumsum(good) - good  # how many good rows stand before each
    positions = batch.positions
    # Rows that were bad before stand between: a row is followed by the first of those behind it.
    followers = {row.index: row.position for row in reversed(batch.bad)}
    bad = [
        BadRow(
            index=int(behind[index]),
            position=positions(index),
            after=followers.get(index + 1, positions(index + 1)),
            reason=reason,
            message=message,
            raw=batch.values.get(index) if keep_raw else None,
            raw_key=batch.keys.get(index) if keep_raw and batch.keys is not None else None,
            is_null=are_records and int(batch.values.lengths[index]) == NULL_LENGTH,
            size=size,
        )
        for index, (reason, message, size) in faults.items()
    ]
    before = [
        replace(row, index=int(behind[row.index]) if row.index < len(batch) else int(good.sum()))
        for row in batch.bad
    ]
    kept = np.flatnonzero(good)

    def kept_positions(index: int, /) -> Any:
        return positions(int(kept[index])) if index < len(kept) else batch.after

    return replace(
        batch,
        values=picked(batch.values, good),
        after=batch.after,
        positions=kept_positions,
        keys=None if batch.keys is None else picked(batch.keys, good),
        headers=None if batch.headers is None else tuple(batch.headers[index] for index in kept.tolist()),
        timestamps_ms=None if batch.timestamps_ms is None else batch.timestamps_ms[good],
        offsets=None if batch.offsets is None else batch.offsets[good],
        bad=tuple(sorted([*bad, *before], key=lambda row: row.position)),
    )
