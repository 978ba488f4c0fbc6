"""Column chunks, and their pages as the headers describe them.

https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift (PageHeader)
"""

from enum import IntEnum
from typing import Final, NamedTuple

from headrace.formats.parquet_thrift import Numbers, ThriftDamagedError, read_numbers

# Statistics in a header hold a minimum and a maximum; beyond this it is no header.
HEADER_MAX_BYTES: Final = 16 * 1024 * 1024

# Fields of PageHeader, and of the three structs of which one says more.
_KIND, _UNCOMPRESSED, _COMPRESSED, _V1, _DICTIONARY, _V2 = 1, 2, 3, 5, 7, 8
_VALUES: Final = 1
_V1_ENCODING, _V1_DEF, _V1_REP = 2, 3, 4
_V2_ENCODING, _V2_DEF_BYTES, _V2_REP_BYTES, _V2_IS_COMPRESSED = 4, 5, 6, 7


# Values of CompressionCodec.
CODECS: Final = ("none", "snappy", "gzip", "lzo", "brotli", "lz4_hadoop", "zstd", "lz4")


class Chunk(NamedTuple):
    """Where a column's values of one row group lie, and how many there are, nulls included.

    `nulls` is how many of them the footer's statistics call null; 0 where it has none.
    """

    begin: int
    end: int
    values: int
    codec: str
    nulls: int = 0


class Kind(IntEnum):
    """What a page holds."""

    DATA, INDEX, DICTIONARY, DATA_V2 = range(4)


class Encoding(IntEnum):
    """How values, or levels, are written."""

    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9


INDICES: Final = (Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY)


class Page(NamedTuple):
    """A header, of so many bytes, and what it says of the page behind it."""

    header_bytes: int
    compressed: int
    uncompressed: int
    kind: int
    values: int
    encoding: int
    # Levels: their encoding in version 1, where they stand within the page; their lengths in version 2, where
    # they stand before it and are never compressed.
    rep_encoding: int = Encoding.RLE
    def_encoding: int = Encoding.RLE
    rep_bytes: int = 0
    def_bytes: int = 0
    is_compressed: bool = True

    @property
    def is_data(self) -> bool:
        """True for a page with values of rows."""
        return self.kind in (Kind.DATA, Kind.DATA_V2)


def read_page_header(data: bytes, at: int = 0) -> Page:
    """The page whose header is at `at`. ThriftIncompleteError, ThriftDamagedError."""
    header, end = read_numbers(data, at)
    number = next((each for each in (_V1, _V2, _DICTIONARY) if each in header), None)
    inner = {} if number is None else _inner(header, number)
    page = Page(
        header_bytes=end - at,
        compressed=_count(header, _COMPRESSED),
        uncompressed=_count(header, _UNCOMPRESSED),
        kind=_count(header, _KIND),
        values=0 if number is None else _count(inner, _VALUES),
        encoding=Encoding.PLAIN,
    )
    if number == _V1:
        encoding, reps, defs = (_count(inner, each) for each in (_V1_ENCODING, _V1_REP, _V1_DEF))
        return page._replace(encoding=encoding, rep_encoding=reps, def_encoding=defs)
    if number == _V2:
        encoding, reps, defs = (_count(inner, each) for each in (_V2_ENCODING, _V2_REP_BYTES, _V2_DEF_BYTES))
        is_compressed = bool(inner.get(_V2_IS_COMPRESSED, True))
        return page._replace(encoding=encoding, rep_bytes=reps, def_bytes=defs, is_compressed=is_compressed)
    return page


def _inner(header: Numbers, number: int) -> Numbers:
    inner = header[number]
    if not isinstance(inner, dict):
        raise ThriftDamagedError(f"field {number} of a page header is no struct")
    return inner


def _count(fields: Numbers, number: int) -> int:
    value = fields.get(number)
    if type(value) is not int or value < 0:
        raise ThriftDamagedError(f"field {number} of a page header is no count")
    return value
