"""Settings and records for tests of converters and encoders."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.conversion.encoders import new_encoder
from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding import schema_of
from headrace.model.columns import TIMESTAMP_CREATED, Headers, KafkaRecords, column_of
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression, JsonFormat
from headrace.options.row_settings import PLAIN_CSV
from headrace.options.sink_settings import (
    ConverterKind,
    Converters,
    ConverterSettings,
    NullValues,
    OutputField,
    OutputFormat,
    OutputSettings,
    SchemaCompatibility,
)


def output(wanted: OutputFormat = OutputFormat.JSONL, **changes: Any) -> OutputSettings:
    """Settings of one format with all fields, not compressed."""
    values: dict[str, Any] = {
        "layout": LayoutName.HEADRACE,
        "format": wanted,
        "fields": tuple(OutputField),
        "envelope": True,
        "compression": Compression.NONE,
        "compression_level": None,
        "separator": b"\n",
        "csv": PLAIN_CSV,
        "json_format": JsonFormat.ISO,
        "schema_compatibility": SchemaCompatibility.NONE,
        "null_values": NullValues.WRITE,
    }
    return OutputSettings(**values | changes)


def bare(
    wanted: OutputFormat = OutputFormat.JSONL, field: OutputField = OutputField.VALUE, **changes: Any
) -> OutputSettings:
    """Settings of one format whose rows are one field alone."""
    return output(wanted, envelope=False, fields=(field,), **changes)


def converters(
    value: Any = ConverterKind.BYTES, key: Any = ConverterKind.BYTES, header: Any = ConverterKind.BYTES
) -> Converters:
    """Converters by their kinds, or by settings of their own."""

    def settings(kind: Any) -> ConverterSettings:
        return kind if isinstance(kind, ConverterSettings) else ConverterSettings(kind=kind)

    return Converters(key=settings(key), value=settings(value), header=settings(header))


def fetched(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers] | None = None,
    timestamps: Sequence[int] | None = None,
    types: Sequence[int] | None = None,
    first: int = 0,
) -> KafkaRecords:
    """Records of one partition from their parts."""
    count = len(values)
    return KafkaRecords(
        topic="orders",
        partition=3,
        offsets=np.arange(first, first + count, dtype=np.int64),
        timestamps_ms=np.array(
            timestamps if timestamps is not None else [1_704_067_200_000] * count, np.int64
        ),
        timestamp_types=np.array(types if types is not None else [TIMESTAMP_CREATED] * count, np.int64),
        keys=column_of(keys if keys is not None else [b"k"] * count),
        values=column_of(values),
        headers=headers,
    )


def converted(
    records: KafkaRecords, how: OutputSettings, kinds: Converters | None = None
) -> tuple[ConvertedRecords, ...]:
    """The runs of records that have no faults."""
    found = RecordConverter(kinds or converters(), how).convert(records)
    assert found.faults == ()
    return found.runs


def encoded(records: KafkaRecords, how: OutputSettings, kinds: Converters | None = None) -> bytes:
    """One object of these records, which are of one schema."""
    encoder = None
    for run in converted(records, how, kinds):
        encoder = encoder or new_encoder(how, schema_of(how, run))
        encoder.add(run)
    assert encoder is not None
    return encoder.drain() + encoder.finish()
