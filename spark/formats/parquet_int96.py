"""INT96 timestamps to the nanosecond in every year.

Arrow reads them either in nanoseconds, which wrap around beyond 1677 and 2262, or in microseconds, which keep
the years and lose three digits. Read both ways, the digits can be put back: the wrapped count is right modulo
2^64, and what is missing is below 1000.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.settings.choices import JsonFormat
from spark.formats.arrow_scalars import Pieces, scalar_pieces

NAME: Final = "headrace.int96"
_PER_MICROSECOND: Final = 1000


class Int96Type(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A moment in microseconds, and the nanoseconds beyond."""

    def __init__(self) -> None:
        super().__init__(pa.struct([("moment", pa.timestamp("us")), ("beyond", pa.int64())]), NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: Any, _serialized: bytes) -> "Int96Type":
        return cls()


def int96_columns(schema: Any) -> list[str]:
    """Names of the top columns that hold INT96; those within lists and records keep microseconds."""
    columns = [schema.column(index) for index in range(len(schema))]
    return [each.name for each in columns if each.physical_type == "INT96" and each.path == each.name]


def with_nanoseconds(batches: Iterator[Any], wrapped: Iterator[Any]) -> Iterator[Any]:
    """Batches whose INT96 columns, read in microseconds, have the digits of the same rows in nanoseconds."""
    for batch, digits in zip(batches, wrapped, strict=True):
        columns = {name: batch.column(name) for name in batch.schema.names}
        for name in digits.schema.names:
            columns[name] = _exact(columns[name], digits.column(name))
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _exact(moments: Any, wrapped: Any) -> Any:
    micro = moments.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    nano = wrapped.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    beyond = (nano - micro * np.uint64(_PER_MICROSECOND)).astype(np.int64)
    # Anything else is no clock's count, and microseconds are what there is.
    beyond[(beyond < 0) | (beyond >= _PER_MICROSECOND)] = 0
    storage = pa.StructArray.from_arrays(
        [moments, pa.array(beyond)], ["moment", "beyond"], mask=moments.is_null()
    )
    return pa.ExtensionArray.from_storage(Int96Type(), storage)


def int96_pieces(storage: Any, style: JsonFormat) -> Pieces:
    """Nine digits of a second; milliseconds in Connect's way."""
    moments, beyond = storage.field("moment"), storage.field("beyond")
    pieces = scalar_pieces(moments, style) or []
    if style is JsonFormat.CONNECT or len(pieces) == 1:
        return pieces
    digits = pc.utf8_lpad(pc.cast(beyond, pa.string()), 3, "0")
    return [*pieces[:-1], digits, pieces[-1]]
