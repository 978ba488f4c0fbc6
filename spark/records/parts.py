"""What one row gives to its record, and what is said of a row that cannot give it."""

from dataclasses import dataclass, field

from spark.records.constant import PRODUCE_TIME, Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a record that came from the row; those that did not are left as they are here."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = field(default=())
    timestamp_ms: int = PRODUCE_TIME


class Fault(ValueError):
    """The row lacks a part, or has one of the wrong shape: a bad record, for `reason`."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
