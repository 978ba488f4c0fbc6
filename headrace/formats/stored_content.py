"""Whether an object holds what another was written to hold, whatever packs their bytes."""

from typing import Final

import structlog

from headrace.formats.avro_container import (
    BlockTooLargeError,
    Bytes,
    ContainerError,
    decompress,
    read_blocks,
    read_header,
)
from headrace.formats.compression import plain_stream
from headrace.formats.content_digest import AVRO, PARQUET, AvroDigest, ParquetDigest, TextDigest
from headrace.formats.parquet_groups import RowGroups, Translated
from headrace.formats.ranged_file import RangedFile
from headrace.model.byte_source import ByteSource
from headrace.model.errors import ObjectError

_log = structlog.get_logger(__name__)

# What one block of Avro, or page of Parquet, may have: the default of decode.unit.max.bytes.
_UNIT_MAX_BYTES: Final = 64 * 1024 * 1024


def has_content(source: ByteSource, content: str) -> bool:
    """Whether the digest of the object is this one; blocks. False for an object that cannot be read.

    Holds a block, or a batch of rows, at a time. Raises what `source` raises of the service.
    """
    kind = content.partition("/")[0]
    try:
        return _digest(source, kind) == content
    except (ObjectError, ContainerError, BlockTooLargeError, KeyError, ValueError) as error:
        _log.warning("object_not_compared", object=source.name, error=str(error))
        return False


def _digest(source: ByteSource, kind: str) -> str:
    if kind == PARQUET:
        return _of_parquet(source)
    return _of_avro(source) if kind == AVRO else _of_text(source)


def _of_text(source: ByteSource) -> str:
    digest = TextDigest()
    for chunk in plain_stream(source, opaque=True):
        digest.add(chunk)
    return str(digest)


def _of_avro(source: ByteSource) -> str:
    """Aiven's is compressed as a whole, too."""
    stream = Bytes(plain_stream(source), 0)
    header = read_header(stream)
    digest = AvroDigest(header.schema)
    for block in read_blocks(stream, header, name=source.name, unit_max_bytes=_UNIT_MAX_BYTES):
        digest.add(decompress(header.codec, block.stored, _UNIT_MAX_BYTES), block.count)
    return str(digest)


def _of_parquet(source: ByteSource) -> str:
    file = RangedFile(source, unit_max_bytes=_UNIT_MAX_BYTES)
    with Translated(source, file):
        groups = RowGroups(source, file, unit_max_bytes=_UNIT_MAX_BYTES)
        digest = ParquetDigest(groups.schema)
        for number in range(len(groups)):
            for batch in groups.batches(number):
                digest.add(batch)
    return str(digest)
