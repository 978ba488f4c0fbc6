"""What one row gives to its record, and what is said of a row that cannot give it."""

from typing import NamedTuple

from headrace.formats.records.constant import PRODUCE_TIME, Headers

# The JSON of one row.
Row = bytes | bytearray | memoryview


class RecordParts(NamedTuple):
    """The parts of a record that came from the row; those that did not are left as they are here.

    A tuple, because one is made for each row.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = PRODUCE_TIME


class RecordFault(ValueError):
    """The row lacks a part, or has one of the wrong shape: a bad record, for `reason`."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
