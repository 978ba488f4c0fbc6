"""Parquet's types that Arrow does not have: INT96 timestamps of every year, and maps whose keys may be null.

Arrow would read INT96 in nanoseconds, which wrap around beyond 1677 and 2262, or in microseconds, which lose
digits. So it gives their twelve bytes: nanoseconds of a day, and the Julian day. Presto and Athena write null
keys; Arrow ends the process where it is given such a map, so here they stay lists of entries. What makes a
single row unfit for its record is an error of its own.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import Pieces
from headrace.options.choices import JsonFormat

INT96_NAME: Final = "headrace.int96"
_BYTES: Final = 12
_EPOCH: Final = 2_440_588  # the Julian day of 1970-01-01
_DAY_SECONDS: Final = 86_400
_NANOSECONDS: Final = 1_000_000_000
_DAY_MICROSECONDS: Final = _DAY_SECONDS * 1_000_000
_DAY_NANOSECONDS: Final = _DAY_SECONDS * _NANOSECONDS

_STORED: Final = np.dtype([("nanoseconds", "<i8"), ("day", "<i4")])
Numbers = npt.NDArray[np.int64]


class Int96Type(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A moment as Parquet stores it."""

    def __init__(self) -> None:
        super().__init__(pa.binary(_BYTES), INT96_NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: Any, _serialized: bytes) -> "Int96Type":
        return cls()


pa.register_extension_type(Int96Type())


def int96_pieces(storage: Any, style: JsonFormat) -> Pieces:
    """Nine digits of a second, or Connect's milliseconds; beyond the calendar the count of nanoseconds."""
    days, nanoseconds = _days_and_nanoseconds(storage)
    if style is JsonFormat.CONNECT:
        milliseconds = days * (_DAY_SECONDS * 1000) + nanoseconds // 1_000_000
        return [pc.cast(pa.array(milliseconds), pa.string())]
    seconds = pa.array(days * _DAY_SECONDS + nanoseconds // _NANOSECONDS).cast(pa.timestamp("s"))
    text = pc.replace_substring(pc.cast(seconds, pa.string()), " ", "T", max_replacements=1)
    digits = pc.utf8_lpad(pc.cast(pa.array(nanoseconds % _NANOSECONDS), pa.string()), 9, "0")
    beyond = pc.match_substring(text, "<")  # <value out of range: ..>
    if not pc.any(beyond, min_count=0).as_py():
        return ['"', text, ".", digits, '"']
    whole = pc.binary_join_element_wise('"', text, ".", digits, '"', "")
    counts = zip(days.tolist(), nanoseconds.tolist(), beyond.to_pylist(), strict=True)
    numbers = [
        str(day * _DAY_NANOSECONDS + of_day) if is_beyond else None for day, of_day, is_beyond in counts
    ]
    return [pc.if_else(beyond, pa.array(numbers, pa.string()), whole)]


def int96_microseconds(storage: Any) -> Any:
    """A timestamp array, rounded down."""
    days, nanoseconds = _days_and_nanoseconds(storage)
    counts = days * _DAY_MICROSECONDS + nanoseconds // 1000
    return pa.array(counts, mask=_empty(storage)).cast(pa.timestamp("us"))


def _days_and_nanoseconds(storage: Any) -> tuple[Numbers, Numbers]:
    """Days since 1970 and nanoseconds of the day, 0 for nulls."""
    content = storage.buffers()[1]
    stored = np.zeros(len(storage), _STORED)
    if content is not None and len(storage):
        stored = np.frombuffer(content, _STORED, len(storage), storage.offset * _BYTES)
    empty = _empty(storage)
    nanoseconds = np.where(empty, 0, stored["nanoseconds"])
    days = np.where(empty, 0, stored["day"].astype(np.int64) - _EPOCH)
    # Spark counts microseconds in 64 bits, and writes a day that has wrapped around for its years beyond
    # 287,000. What is no clock's count of a day carries over.
    counts = days * _DAY_MICROSECONDS + nanoseconds // 1000
    days, microseconds = np.divmod(counts, _DAY_MICROSECONDS)
    return days, microseconds * 1000 + nanoseconds % 1000


def _empty(storage: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(storage.is_null().to_numpy(zero_copy_only=False), bool)


class RowFaultError(ValueError):
    """A value cannot be shown; `str()` says why without its content, `reason` is a bad record's word."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


MAP_NAME: Final = "headrace.map"


class MapType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A list of entries of two fields, key and value."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage, MAP_NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, _serialized: bytes) -> "MapType":
        return cls(storage)


pa.register_extension_type(MapType(pa.list_(pa.struct([]))))


def map_type(storage: Any) -> Any:
    """Arrow's own type for such maps."""
    entry = storage.value_type
    return pa.map_(entry.field(0).type, entry.field(1).type)


def checked_entries(lists: Any) -> Any:
    """The entries of all maps; RowFaultError when a key is null, which a map has no place for."""
    entries = lists.flatten()
    if entries.field(0).null_count:
        raise RowFaultError("a map of the row has a key that is null", reason="not_parquet")
    return entries
