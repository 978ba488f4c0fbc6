"""The row groups of a Parquet object, read by ranges in small batches; Arrow's errors as ours."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import HeadraceError, InvalidObject, ObjectCorrupt
from spark.byte_source import ByteSource
from spark.formats.parquet_int96 import int96_columns, with_nanoseconds
from spark.formats.ranged_file import RangedFile

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 1024 * 1024

# All columns of a row group are read side by side, each through a buffer of its own.
_BUFFERS_BYTES: Final = 48 * 1024 * 1024
_BUFFER_MIN_BYTES: Final = 16 * 1024
_BUFFER_MAX_BYTES: Final = 4 * 1024 * 1024

# No honest row group is this many times as large as its object; where one is, batches get larger than meant.
_RATIO_MAX: Final = 64

# Magic at both ends, and the length of the footer.
_LEAST_BYTES: Final = 12


class RowGroups:
    """A Parquet object whose footer is read; to be used within `Translated`."""

    def __init__(self, source: ByteSource, file: RangedFile) -> None:
        if source.size < _LEAST_BYTES:
            raise ObjectCorrupt(f"{source.name}: {source.size} bytes are too few for a Parquet object.")
        self._file = file
        self._metadata = pq.read_metadata(file)
        self._columns = self._metadata.num_columns
        self._int96 = int96_columns(self._metadata.schema)
        self._moments = self._opened("us")
        # Only columns of INT96 are read twice.
        self._digits = self._opened("ns") if self._int96 else None

    def __len__(self) -> int:
        return int(self._metadata.num_row_groups)

    @property
    def schema(self) -> Any:
        """The Arrow schema of the rows."""
        return self._moments.schema_arrow

    def rows(self, group: int) -> int:
        """How many rows a group has."""
        return int(self._metadata.row_group(group).num_rows)

    def size(self, group: int) -> int:
        """How many bytes a group has, before compression."""
        return int(self._metadata.row_group(group).total_byte_size)

    def batches(self, group: int) -> Iterator[Any]:
        """The group's rows as Arrow batches of about BATCH_BYTES; ValueError when their count is wrong."""
        about = self._metadata.row_group(group)
        if about.num_rows and not self._columns:
            raise ValueError(f"row group {group} claims {about.num_rows} rows without columns")
        # Nothing is asked of the group's columns here: pyarrow 26 ends the process (std::terminate) where the
        # footer's entry for a column is damaged, while the reader below raises.
        self._file.watch_pages()
        # What the footer claims beyond all compression must not make batches of single rows.
        size = max(1, min(about.total_byte_size, _RATIO_MAX * self._file.size()))
        rows = int(min(BATCH_ROWS, max(1, BATCH_BYTES * about.num_rows // size)))
        how = {"batch_size": rows, "row_groups": [group], "use_threads": False}
        batches = self._moments.iter_batches(**how)
        if self._digits is not None:
            batches = with_nanoseconds(batches, self._digits.iter_batches(columns=self._int96, **how))
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            yield batch
        if seen != about.num_rows:
            raise ValueError(f"row group {group} holds {seen} rows where the footer says {about.num_rows}")

    def _opened(self, int96_unit: str) -> Any:
        share = _BUFFERS_BYTES // max(1, self._columns)
        return pq.ParquetFile(
            self._file,
            metadata=self._metadata,
            buffer_size=max(_BUFFER_MIN_BYTES, min(_BUFFER_MAX_BYTES, share)),
            pre_buffer=False,
            coerce_int96_timestamp_unit=int96_unit,
            page_checksum_verification=True,
        )


class Translated:
    """Around all reading: Arrow's errors as ours, the source's own, which Arrow may wrap, as they were."""

    def __init__(self, source: ByteSource, file: RangedFile) -> None:
        self._source = source
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, HeadraceError | GeneratorExit):
            return
        if self._file.error is not None:
            raise self._file.error from error
        name, words = self._source.name, str(error).strip().splitlines() or [type(error).__name__]
        if isinstance(error, NotImplementedError):
            raise InvalidObject(
                f"{name}: this Parquet object cannot be decoded ({words[0][:200]}).", reason="unsupported"
            ) from error
        if isinstance(error, MemoryError):
            raise InvalidObject(
                f"{name}: a part of this Parquet object does not fit in memory.", reason="unit_too_large"
            ) from error
        if isinstance(error, OSError | ValueError | pa.ArrowException | OverflowError | TypeError | KeyError):
            raise ObjectCorrupt(
                f"{name}: the Parquet object is damaged ({words[0][:200]}). Upload it again."
            ) from error
