"""Records in parts of a bounded size."""

from collections.abc import Iterator
from typing import Final

from headrace.formats.converted_records import ConvertedRecords

# Arrow counts the bytes of a column in 32 bits, and base64 and escapes add to them.
_STEP_BYTES: Final = 128 * 1024 * 1024


def steps(records: ConvertedRecords) -> Iterator[ConvertedRecords]:
    """The records in parts that are not too large for one column; a large record is a part of its own."""
    if len(records) <= 1 or records.records.payload_bytes() <= _STEP_BYTES:
        if len(records):
            yield records
        return
    middle = len(records) // 2
    yield from steps(records.slice(0, middle))
    yield from steps(records.slice(middle, len(records)))
