"""The lengths of a dictionary's texts: of a long one read by Arrow, which is fast, from the page as it is."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.formats.parquet_encodings import Lengths, decompressed, plain_lengths
from headrace.formats.parquet_pages import CODECS, Encoding, Kind, Page
from headrace.formats.parquet_schema import Physical
from headrace.formats.parquet_thrift import BINARY, I32, I64, LIST, STRUCT, Field, Struct, struct_bytes

_MAGIC: Final = b"PAR1"
_NAME: Final = (BINARY, b"x")
_REQUIRED: Final = 0

# Up to here Arrow takes longer to begin than the lengths take to read.
_FEW: Final = 500


def dictionary_lengths(page: Page, content: bytes, codec: str) -> Lengths | None:
    """The length of each text; None when the page cannot be read."""
    try:
        if page.values <= _FEW:
            return plain_lengths(decompressed(content, codec, page.uncompressed), page.values)
        file = pq.ParquetFile(pa.BufferReader(_as_object(page, content, codec)), pre_buffer=False)
        (column,) = file.read(use_threads=False).columns
    except (pa.ArrowException, OSError, ValueError):
        return None  # Arrow will say so once more when it reads the chunk
    chunks = [np.diff(_offsets(chunk)) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.int64)


def _offsets(chunk: Any) -> Lengths:
    offsets = np.frombuffer(chunk.buffers()[1], np.int32)
    return offsets[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)


def _as_object(page: Page, content: bytes, codec: str) -> bytes:
    """A Parquet object of one column, whose only page is the dictionary: that is plain texts as well."""
    values = (I32, page.values)
    of_data: Struct = {1: values, 2: _i32(Encoding.PLAIN), 3: _i32(Encoding.RLE), 4: _i32(Encoding.RLE)}
    header = struct_bytes(
        {1: _i32(Kind.DATA), 2: _i32(page.uncompressed), 3: _i32(len(content)), 5: (STRUCT, of_data)}
    )
    size = len(header) + len(content)
    column: Struct = {
        1: _i32(Physical.BYTE_ARRAY),
        2: (LIST, (I32, [int(Encoding.PLAIN), int(Encoding.RLE)])),
        3: (LIST, (BINARY, [b"x"])),
        4: _i32(CODECS.index(codec)),
        5: (I64, page.values),
        6: (I64, size),
        7: (I64, size),
        9: (I64, len(_MAGIC)),
    }
    chunk: Struct = {2: (I64, len(_MAGIC)), 3: (STRUCT, column)}
    group: Struct = {1: (LIST, (STRUCT, [chunk])), 2: (I64, size), 3: (I64, page.values)}
    leaf: Struct = {1: _i32(Physical.BYTE_ARRAY), 3: _i32(_REQUIRED), 4: _NAME}
    footer = struct_bytes(
        {
            1: _i32(1),
            2: (LIST, (STRUCT, [{4: _NAME, 5: _i32(1)}, leaf])),
            3: (I64, page.values),
            4: (LIST, (STRUCT, [group])),
        }
    )
    return b"".join([_MAGIC, header, content, footer, len(footer).to_bytes(4, "little"), _MAGIC])


def _i32(value: int) -> Field:
    return I32, int(value)
