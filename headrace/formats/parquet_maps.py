"""Maps whose keys may be null, as Presto and Athena write them.

Arrow has no such maps, and ends the process where it is given one: here they stay lists of entries.

What makes a single row unfit for its record.
"""

from typing import Any, Final

import pyarrow as pa


class RowFaultError(ValueError):
    """A value cannot be shown; `str()` says why without its content, `reason` is a bad record's word."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


NAME: Final = "headrace.map"


class MapType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A list of entries of two fields, key and value."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage, NAME)

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
