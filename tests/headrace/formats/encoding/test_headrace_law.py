"""The law of Headrace's own layout: what the sink writes, the restore gives back to the byte."""

from functools import lru_cache
from typing import Final

import pytest
from hypothesis import given, settings

from headrace.conversion.archives import ArchiveDecoder
from headrace.conversion.encoders import extension, new_encoder
from headrace.formats import DecodeOptions
from headrace.formats.encoding import schema_of
from headrace.model.columns import KafkaRecords, RowBatch
from headrace.options.choices import Compression
from headrace.options.settings import FormatSettings
from headrace.options.sink_settings import OutputFormat
from tests.headrace.formats.encoding.outputs import converted, encoded, fetched, output
from tests.headrace.formats.encoding.records import RECORDS, kafka_records
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with
from tests.support.batch_records import Record, records_of
from tests.support.examples import fewer_examples

_PACKED: Final = [
    *((OutputFormat.JSONL, each) for each in (Compression.NONE, Compression.GZIP, Compression.ZSTD)),
    (OutputFormat.JSONL, Compression.SNAPPY),
    (OutputFormat.JSONL, Compression.LZ4),
    (OutputFormat.JSON, Compression.NONE),
    (OutputFormat.JSON, Compression.GZIP),
    *((OutputFormat.AVRO, each) for each in (Compression.NONE, Compression.GZIP, Compression.SNAPPY)),
    *((OutputFormat.AVRO, each) for each in (Compression.ZSTD, Compression.BZIP2, Compression.XZ)),
    *((OutputFormat.PARQUET, each) for each in (Compression.NONE, Compression.GZIP, Compression.SNAPPY)),
    *((OutputFormat.PARQUET, each) for each in (Compression.ZSTD, Compression.LZ4)),
]


@lru_cache(maxsize=1)
def _settings() -> FormatSettings:
    config = {"topic": None, "file.name.template": None, "input.layout": "headrace"}
    return load_with(config).format


def _restored(content: bytes, records: KafkaRecords, name: str) -> list[RowBatch]:
    how = _settings()
    assert how.restore is not None
    key = f"backup/{records.topic}/{records.partition}/{records.first_offset:020}.headrace{name}"
    return list(
        ArchiveDecoder(how.restore).decode(
            MemorySource(content, name=f"s3://archive/{key}"),
            None,
            key=key,
            options=DecodeOptions(format=how, topic="orders"),
            begin=None,
            end=None,
        )
    )


def _parts(batches: list[RowBatch]) -> list[Record]:
    assert [bad for batch in batches for bad in batch.bad] == []
    return records_of(batches)


@pytest.mark.parametrize(("wanted", "compression"), _PACKED)
@settings(max_examples=fewer_examples(4))
@given(records=RECORDS)
def test_every_byte_comes_back(wanted: OutputFormat, compression: Compression, records: KafkaRecords) -> None:
    """Null and empty, any keys, headers twice, no time, order: through the source's own decoders."""
    how = output(wanted, compression=compression)

    found = _parts(_restored(encoded(records, how), records, extension(how)))

    assert found == [(key, value, headers, time) for key, value, headers, time, _ in kafka_records(records)]


@pytest.mark.parametrize(
    "wanted", [OutputFormat.JSONL, OutputFormat.JSON, OutputFormat.AVRO, OutputFormat.PARQUET]
)
def test_many_records_in_many_blocks_come_back(wanted: OutputFormat) -> None:
    """Blocks that are ended at any place, as the sink does when it spills, are one object."""
    values = [b'{"id":%d}' % number if number % 3 else b"\xff%d" % number for number in range(5_000)]
    how = output(wanted, compression=Compression.ZSTD)
    (run,) = converted(fetched(values), how)
    encoder = new_encoder(how, schema_of(how, run))
    content = b""
    for first in range(0, 5_000, 700):
        encoder.add(run.slice(first, min(first + 700, 5_000)))
        content += encoder.drain(end_block=first % 1_400 == 0)
        if first % 1_400 == 0:
            assert encoder.buffered == 0
    content += encoder.finish()

    assert [value for _, value, _, _ in _parts(_restored(content, run.records, extension(how)))] == values
