"""Container files for tests: by fastavro, and by hand where a test needs what no writer writes."""

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import cramjam
import fastavro
import zstandard

from headrace.formats.records.registry import varint

SYNC = bytes(range(16))


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _raw_deflate,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": zstandard.compress,
    "bzip2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
}


def datum(schema: Any, value: Any) -> bytes:
    """One value in Avro's encoding, by fastavro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def container(
    schema: Any, blocks: Iterable[tuple[int, bytes]], *, codec: str = "null", stored: bool = False
) -> bytes:
    """A file of these blocks, (count, content) each; with `stored` the content is already compressed."""
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    out = b"Obj\x01" + varint(len(meta))
    for key, value in meta.items():
        out += varint(len(key)) + key.encode() + varint(len(value)) + value
    out += varint(0) + SYNC
    for count, content in blocks:
        packed = content if stored else CODECS[codec](content)
        out += varint(count) + varint(len(packed)) + packed + SYNC
    return out


def file_of(schema: Any, values: list[Any], *, per_block: int = 7, codec: str = "null") -> bytes:
    """A file of the values, some to a block."""
    blocks = []
    for first in range(0, len(values), per_block):
        part = values[first : first + per_block]
        blocks.append((len(part), b"".join(datum(schema, value) for value in part)))
    return container(schema, blocks, codec=codec)
