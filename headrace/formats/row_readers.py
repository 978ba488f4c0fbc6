"""What a layout's reader of rows is given and gives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from headrace.formats.record_columns import RecordColumns
from headrace.model.columns import Column

# Gives a string array with the JSON of each value of an Arrow array: the caller's style of dates and bytes.
ToJson = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class RowShape:
    """What the schema of an object of Avro or Parquet says of its rows.

    `members` are those of its structs, none where rows are something else; `with_nulls` those of them that
    are null in some row of the object, as far as that is known without reading it (Parquet's footer).
    `is_ours` where the object says that our sink wrote it.
    """

    members: frozenset[str] = frozenset()
    with_nulls: frozenset[str] = frozenset()
    is_ours: bool = False


class TextReader(Protocol):
    """Reads rows that are texts: JSON, lines of csv, or bytes as they are."""

    def __call__(self, rows: Column, /) -> RecordColumns:
        """The records of a batch of rows. Rows that fit nothing are faults of it; nothing is raised."""


@runtime_checkable
class LineReader(TextReader, Protocol):
    """Reads lines of JSON, which it can check and pick up in one."""

    def fit(self, lines: Column, /) -> bool:
        """True when each line is one row that fits, and so one value of JSON. Batches of them are quick.

        Nothing but white space may be between the lines, each in UTF-8, and no value may continue from one
        into the next. False may still mean that all of them fit.
        """


class ArrowReader(Protocol):
    """Reads rows that are values of an Arrow array: structs (Avro records, Parquet rows) or anything else."""

    def __call__(self, rows: Any, /) -> RecordColumns:
        """The records of a batch of rows. Rows that fit nothing are faults of it; nothing is raised."""


OWN_MARK: Final = (b"headrace.layout", b"quix")
"""Name and value in the footer of Parquet that our sink wrote: a key may be null there."""
