"""What an object says, apart from how its bytes are packed: the same for two objects of the same content.

Of text it is the plain bytes, of Avro the schema and the data of the rows, of Parquet the columns' names,
types and values. Digests are distinguished by how they begin. They are no proof against a forger: 64 bits of
checksums and the length distinguish contents that are under one name by accident.
"""

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from isal import isal_zlib

from headrace.formats.avro_container import (
    BlockTooLargeError,
    Bytes,
    ContainerError,
    decompress,
    read_blocks,
    read_header,
)
from headrace.formats.compression import plain_stream
from headrace.formats.parquet_footer import RangedFile
from headrace.formats.parquet_groups import RowGroups, Translated
from headrace.model.errors import ObjectError
from headrace.model.objects import ByteSource

TEXT: Final = "text"
AVRO: Final = "avro"
PARQUET: Final = "parquet"
_SEPARATOR: Final = "/"


class _Checksum:
    """Of bytes as they come, however they are cut."""

    def __init__(self) -> None:
        self._length = self._crc32 = 0
        self._adler32 = 1

    def add(self, data: Any) -> None:
        self._length += len(data)
        self._crc32 = isal_zlib.crc32(data, self._crc32)
        self._adler32 = isal_zlib.adler32(data, self._adler32)

    def __str__(self) -> str:
        return f"{self._length}-{self._crc32:08x}{self._adler32:08x}"


class TextDigest:
    """Of plain text."""

    def __init__(self) -> None:
        self._text = _Checksum()

    def add(self, text: bytes) -> None:
        """What comes next."""
        self._text.add(text)

    def __str__(self) -> str:
        return _joined(TEXT, self._text)


class AvroDigest:
    """Of the rows of an Avro file, as their data are in its blocks."""

    def __init__(self, schema: bytes) -> None:
        """With the schema as the header has it; ValueError when it is no JSON."""
        self._schema = _Checksum()
        self._schema.add(json.dumps(json.loads(schema), sort_keys=True).encode())
        self._rows = 0
        self._data = _Checksum()

    def add(self, data: bytes, count: int) -> None:
        """The next rows."""
        self._rows += count
        self._data.add(data)

    def __str__(self) -> str:
        return _joined(AVRO, self._schema, self._rows, self._data)


class ParquetDigest:
    """Of columns of Arrow, however their rows come in batches."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._rows = 0
        self._streams: dict[str, _Checksum] = {}
        self._is_known = True

    def add(self, batch: Any) -> None:
        """The next rows."""
        self._rows += batch.num_rows
        try:
            for number, column in enumerate(batch.columns):
                self._add(str(number), column)
        except pa.ArrowException:
            # A type that Arrow does not compare so: without a digest the object is written as well.
            self._is_known = False

    def __str__(self) -> str:
        if not self._is_known:
            return ""
        kinds, whole = _Checksum(), _Checksum()
        kinds.add(_members(self._schema).encode())
        whole.add(" ".join(f"{path}={found}" for path, found in sorted(self._streams.items())).encode())
        return _joined(PARQUET, kinds, self._rows, whole)

    def _add(self, path: str, array: Any) -> None:
        """A column, and those within it: where it is filled, and what with."""
        kind = array.type
        if pa.types.is_dictionary(kind):
            array, kind = array.dictionary_decode(), kind.value_type
        self._stream(f"{path}?", _filled(array))
        if pa.types.is_struct(kind):
            for number, below in enumerate(array.flatten()):
                self._add(f"{path}.{number}", below)
        elif pa.types.is_map(kind):
            filled = array.drop_null()
            first, last = _ends(filled)
            self._stream(f"{path}#", np.diff(filled.offsets.to_numpy()))
            self._add(f"{path}.keys", filled.keys[first:last])
            self._add(f"{path}.items", filled.items[first:last])
        elif _is_list(kind):
            filled = array.drop_null()
            self._stream(f"{path}#", pc.list_value_length(filled).cast(pa.int32()).to_numpy())
            self._add(f"{path}[]", filled.flatten())
        elif not pa.types.is_null(kind):
            self._values(path, array.drop_null())

    def _values(self, path: str, filled: Any) -> None:
        plain = _plain(filled)
        if not pa.types.is_large_binary(plain.type):
            self._stream(path, plain.to_numpy(zero_copy_only=False))
            return
        self._stream(f"{path}#", pc.binary_length(plain).to_numpy())
        self._stream(path, _data(plain))

    def _stream(self, path: str, data: Any) -> None:
        self._streams.setdefault(path, _Checksum()).add(memoryview(data).cast("B") if len(data) else b"")


def _joined(*parts: object) -> str:
    return _SEPARATOR.join(map(str, parts))


def _filled(array: Any) -> Any:
    return array.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False)


def _ends(maps: Any) -> tuple[int, int]:
    return (maps.offsets[0].as_py(), maps.offsets[-1].as_py()) if len(maps) else (0, 0)


def _data(filled: Any) -> Any:
    """The bytes of all values, one after the other."""
    _, offsets, data = filled.buffers()
    if data is None or not len(filled):
        return b""
    places = memoryview(offsets).cast("q")
    return memoryview(data)[places[filled.offset] : places[filled.offset + len(filled)]]


def _plain(array: Any) -> Any:
    """Numbers in the type that has their bytes, and all else as bytes."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    if pa.types.is_boolean(kind):
        return array.cast(pa.uint8())
    if pa.types.is_temporal(kind):
        narrow = pa.types.is_date32(kind) or pa.types.is_time32(kind)
        return array.cast(pa.int32() if narrow else pa.int64())
    if pa.types.is_decimal(kind):
        array = array.cast(pa.string())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return array
    return array.cast(pa.binary(), safe=False).cast(pa.large_binary()) if _is_fixed(kind) else _large(array)


def _is_fixed(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_binary(kind)) and not pa.types.is_decimal(kind)


def _large(array: Any) -> Any:
    return array.cast(pa.large_binary())


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _members(fields: Any) -> str:
    """Names and kinds; whatever way Arrow holds them, and however the elements of lists are called."""
    return ",".join(f"{json.dumps(each.name)}:{_kind(each)}" for each in fields)


def _kind(field: Any) -> str:
    return _kind_of(field.type) + ("?" if field.nullable else "")


def _kind_of(kind: Any) -> str:
    if pa.types.is_dictionary(kind):
        return _kind_of(kind.value_type)
    if pa.types.is_nested(kind):
        return _kind_of_nested(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _is_fixed(kind):
        return "bytes"
    if pa.types.is_timestamp(kind):
        return "time" if kind.tz is None else "time in UTC"
    return str(kind)


def _kind_of_nested(kind: Any) -> str:
    if pa.types.is_struct(kind):
        return f"{{{_members(kind)}}}"
    if pa.types.is_map(kind):
        return f"<{_kind_of(kind.key_type)}:{_kind_of(kind.item_type)}>"
    return f"[{_kind_of(kind.value_type)}]" if _is_list(kind) else str(kind)


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
