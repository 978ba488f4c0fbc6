"""Parquet files of Arrow columns, a row group at a time."""

import io
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.formats.content_digest import ParquetDigest
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.steps import steps
from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputSettings

# Of Arrow's memory: what readers like, and what an open object may hold.
_GROUP_BYTES: Final = 32 * 1024 * 1024
# Every batch costs some kilobytes beside its values.
_BATCHES: Final = 64
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class ParquetTables:
    """One Parquet file of this schema, whose columns `arrays` makes of records; `options` are pyarrow's."""

    def __init__(
        self,
        output: OutputSettings,
        schema: Any,
        arrays: Callable[[ConvertedRecords], list[Any]],
        options: Mapping[str, Any] = _NONE,
    ) -> None:
        self._file = schema
        self._digest = None if output.layout is LayoutName.HEADRACE else ParquetDigest(schema)
        self._arrays = arrays
        self._batches: list[Any] = []
        self._batches_bytes = 0
        self._sink = _Sink()
        self._writer = pq.ParquetWriter(
            self._sink,
            self._file,
            compression="none" if output.compression is Compression.NONE else str(output.compression),
            compression_level=output.compression_level,
            **options,
        )
        if schema.metadata and not options.get("store_schema", True):
            # pyarrow writes them with its own schema only.
            self._writer.add_key_value_metadata(schema.metadata)

    @property
    def buffered(self) -> int:
        """Bytes held in memory."""
        return self._batches_bytes + self._sink.held

    def add(self, records: ConvertedRecords) -> None:
        """Appends the rows of records."""
        for part in steps(records):
            batch = pa.RecordBatch.from_arrays(
                [_owned(array) for array in self._arrays(part)], schema=self._file
            )
            if self._digest is not None:
                self._digest.add(batch)
            self._batches.append(batch)
            self._batches_bytes += batch.get_total_buffer_size()
            if self._batches_bytes >= _GROUP_BYTES:
                self._end_group()
        if len(self._batches) >= _BATCHES:
            self._batches = pa.Table.from_batches(self._batches).combine_chunks().to_batches()

    def drain(self, *, end_block: bool = False) -> bytes:
        """The row groups that are closed."""
        if end_block:
            self._end_group()
        return self._sink.take()

    @property
    def content(self) -> str:
        """The digest of columns; empty in our own layout, whose names no other sink gives."""
        return "" if self._digest is None else str(self._digest)

    def finish(self) -> bytes:
        """The rest of the object, with its footer."""
        self._end_group()
        self._writer.close()
        return self._sink.take()

    def _end_group(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches, self._file)
        self._writer.write_table(table, row_group_size=len(table))
        self._batches, self._batches_bytes = [], 0


def _owned(array: Any) -> Any:
    """The array in memory of its own and of its size: neither rows around it, nor room to grow."""
    return pa.concat_arrays([array, array.slice(0, 0)])


class _Sink(io.RawIOBase):
    """What the writer writes, until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._at = 0
        self.held = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._at += len(part)
        self.held += len(part)
        return len(part)

    def tell(self) -> int:
        return self._at

    def take(self) -> bytes:
        done = b"".join(self._parts)
        self._parts, self.held = [], 0
        return done
