"""How the rows of CSV and text are distinguished, as the decoders get it."""

from dataclasses import dataclass
from typing import Final

from headrace.options.choices import CsvType, KnownLog, Packing


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvSettings:
    """`delimiter` is one byte, `quote` one or none. `columns` None: the header's names, or none at all.

    `has_nulls`: a field without anything, not even quotes, is null and not an empty text.
    """

    delimiter: bytes = b","
    quote: bytes = b'"'
    header: bool = True
    columns: tuple[str, ...] | None = None
    types: tuple[tuple[str, CsvType], ...] = ()
    has_nulls: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSettings:
    """Regular expressions that are searched in lines; None where a record is not bounded by one.

    `pattern` takes whole records apart: a known log's, or an own one (RE2's) with the types of its groups,
    and the text that is null in it. None: a record is a text.
    """

    start: str | None = None
    end: str | None = None
    pattern: KnownLog | str | None = None
    types: tuple[tuple[str, CsvType], ...] = ()
    null: str | None = None


PLAIN_CSV: Final = CsvSettings()
PLAIN_LINES: Final = TextSettings()


@dataclass(frozen=True, kw_only=True, slots=True)
class PackingSettings:
    """Which zip and tar archives are read by their members, which of these, and how large they may be."""

    kind: Packing
    members: tuple[str, ...]
    max_members: int
    max_bytes: int
    max_ratio: int
