"""Objects of ours beside those that a real sink wrote: how far they are the same."""

import io
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import fastavro
import pyarrow.parquet as pq

from headrace.formats.compression import stored_codec
from headrace.formats.compression.codecs import decompressed
from tests.headrace.formats.memory_source import MemorySource


class Sameness(StrEnum):
    """How far an object is the same, the best first."""

    BYTES = "bytes"
    PLAIN = "plain bytes"
    JSON = "JSON"
    ROWS = "rows and schema"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Table:
    """What readers see of a file of Avro or Parquet."""

    rows: list[Any]
    schema: Any
    codec: str


def sameness(ours: bytes, theirs: bytes) -> Sameness:
    """How far two objects are the same."""
    if ours == theirs:
        return Sameness.BYTES
    if codec_of(ours) != codec_of(theirs):
        return Sameness.OTHER
    ours, theirs = plain(ours), plain(theirs)
    if ours == theirs:
        return Sameness.PLAIN
    if theirs[:4] in (b"Obj\x01", b"PAR1"):
        return Sameness.ROWS if table(ours) == table(theirs) else Sameness.OTHER
    return Sameness.JSON if json_rows(ours) == json_rows(theirs) else Sameness.OTHER


def codec_of(stored: bytes) -> str:
    """What is around an object."""
    return str(stored_codec(MemorySource(stored))) if stored else "None"


def plain(stored: bytes) -> bytes:
    """An object without what is around it."""
    codec = stored_codec(MemorySource(stored)) if stored else None
    return stored if codec is None else b"".join(decompressed(codec, iter([stored]), name="object"))


def json_rows(text: bytes) -> list[Any]:
    """The rows of lines, or of an array."""
    if text.startswith(b"[\n"):
        return list(json.loads(text))
    return [json.loads(line) for line in text.split(b"\n") if line]


def table(stored: bytes) -> Table:
    """The rows of Avro or Parquet, with the Avro schema of either and the codec inside."""
    if stored.startswith(b"Obj\x01"):
        reader = fastavro.reader(io.BytesIO(stored))
        return Table(list(reader), reader.writer_schema, reader.codec)
    file = pq.ParquetFile(io.BytesIO(stored))
    avro = (file.metadata.metadata or {}).get(b"parquet.avro.schema")
    codec = file.metadata.row_group(0).column(0).compression
    return Table(file.read().to_pylist(), None if avro is None else json.loads(avro), codec)
