"""Confluent's two connectors on one archive: what its sink's options have written, its source's give back."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.conversion.archives import ArchiveDecoder
from headrace.conversion.joined import JoinedDecoder, ReadObject
from headrace.formats.records.decode_options import DecodeOptions
from headrace.model.columns import RowBatch
from headrace.names.archive_names import ObjectKind
from headrace.options import Settings
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.vendors.archive import Record
from tests.support.memory_s3 import StoredObject
from tests.support.sink_archives import NOON_MS, sink_settings, written

_S3: Final = "io.confluent.connect.s3."
_PARTITIONER: Final = "io.confluent.connect.storage.partitioner."
_BYTES: Final = f"{_S3}format.bytearray.ByteArrayFormat"
_AS_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_BOTH: Final[Mapping[str, str]] = {
    "s3.bucket.name": "bucket",
    "format.class": _BYTES,
    "key.converter": _AS_BYTES,
    "value.converter": _AS_BYTES,
}
_SINK: Final[Mapping[str, str]] = {
    **_BOTH,
    "connector.class": f"{_S3}S3SinkConnector",
    "topics": "orders",
    "storage.class": f"{_S3}storage.S3Storage",
    "flush.size": "2",
    "store.kafka.keys": "true",
    "keys.format.class": _BYTES,
}
_SOURCE: Final[Mapping[str, str]] = {**_BOTH, "connector.class": f"{_S3}source.S3SourceConnector"}


def _records(*pairs: tuple[bytes, bytes | None]) -> list[Record]:
    return [Record("orders", 0, offset, NOON_MS, *pair, ()) for offset, pair in enumerate(pairs)]


def _source(more: Mapping[str, str]) -> tuple[Settings, ArchiveDecoder]:
    settings = sink_settings({**_SOURCE, **more})
    assert settings.format.restore is not None
    return settings, ArchiveDecoder(settings.format.restore)


def _restored(
    objects: Mapping[str, StoredObject], more: Mapping[str, str]
) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values that the source with these options makes of the one value object and its keys."""
    settings, decoder = _source(more)
    own: list[ReadObject] = []
    sides: list[ReadObject] = []
    for key, each in objects.items():
        name = decoder.name(key)
        assert name is not None, key
        read = ReadObject(key, MemorySource(each.body, chunk=1 << 20, name=f"s3://b/{key}"))
        (own if name.kind is ObjectKind.VALUES else sides).append(read)
    options = DecodeOptions(format=settings.format, topic="orders")
    (values,) = own
    batches = JoinedDecoder(decoder, options).decode(values, sides, [], None)
    return [pair for batch in batches for pair in _pairs(batch)]


def _pairs(batch: RowBatch) -> list[tuple[bytes | None, bytes | None]]:
    assert not batch.bad, batch.bad
    assert batch.keys is not None
    return [(batch.keys.get(row), batch.values.get(row)) for row in range(len(batch))]


@pytest.mark.parametrize("separator", ["|", "\r\n", "\t", "\x1e", "\n\n", " ", "\x85"])
def test_values_end_where_the_sink_ended_them(separator: str) -> None:
    """A line feed in a value is one where the separator is another."""
    pairs = ((b"a", b"one\nline"), (b"b", b"two\r"))
    more = {"format.bytearray.separator": separator}

    assert _restored(written({**_SINK, **more}, _records(*pairs)).objects, more) == [*pairs]


@pytest.mark.parametrize("delimiter", ["/", "-", "_", "::", "."])
@pytest.mark.parametrize(
    "partitioner",
    [
        {},
        {
            "partitioner.class": f"{_PARTITIONER}TimeBasedPartitioner",
            "path.format": "'year'=YYYY/'month'=MM",
            "partition.duration.ms": "86400000",
            "locale": "en",
            "timezone": "UTC",
        },
    ],
    ids=["default", "time"],
)
def test_tombstones_are_where_the_source_looks_for_them(
    delimiter: str, partitioner: Mapping[str, str]
) -> None:
    """In one directory next to those of the values, whatever is between directories."""
    more = {"directory.delim": delimiter}
    sink = {**_SINK, **more, **partitioner, "flush.size": "1", "behavior.on.null.values": "write"}
    _, decoder = _source(more)

    found = written(sink, _records((b"a", b"1"), (b"a", None))).objects

    names = {key: name for key in found if (name := decoder.name(key)) is not None}
    assert names.keys() == found.keys()
    (gone,) = [key for key, name in names.items() if name.tombstones]
    assert gone == delimiter.join(["topics", "orders", "tombstone", "orders+0+0000000001.keys.bin"])


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("extension", [".bin", "", ".json", ".jsonl", ".avro", ".parquet", ".txt"])
def test_keys_are_bytes_whatever_their_names_end_with(extension: str, codec: str) -> None:
    """JSON passed through: its own text, be it null, a text or none of JSON at all."""
    keys = (b'"q"', b"5", b'{"id": 1}', b"null", b"user-1", b'"a\\u00e9"')
    more = {"format.bytearray.extension": extension, "keys.format.class": _BYTES}
    pairs = [(key, b'{"v":1}') for key in keys]
    sink = {**_SINK, **more, "flush.size": str(len(keys)), "s3.compression.type": codec}

    found = written(sink, _records(*pairs)).objects

    ending = extension + {"none": "", "gzip": ".gz"}[codec]
    stem = "topics/orders/partition=0/orders+0+0000000000"
    assert found.keys() == {f"{stem}{ending}", f"{stem}.keys{ending}"}
    assert _restored(found, more) == pairs
