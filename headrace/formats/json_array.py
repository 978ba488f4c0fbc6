"""One JSON array, streamed: each element, as it stands, is a row once it is known to be one JSON value."""

from collections.abc import Iterator

from headrace.formats.compression import plain_stream
from headrace.formats.json_batches import json_batches, one_bad_row
from headrace.formats.json_elements import ArrayError, ElementBlock, LongElement, elements
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder
from headrace.model.byte_source import ByteSource
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.positions import ElementPosition, Position
from headrace.model.rows import RowBatch


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The elements of the array from `start` on; an array is never cut. Blocks on reads.

    Raises ObjectCorrupt behind the last whole element of an array that does not end, InvalidObject
    (`not_an_array`) for anything else.
    """
    del begin, end
    if not isinstance(start, ElementPosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a JSON array.")
    at = start if start is not None else ElementPosition()
    builder = RecordBuilder.of(options)
    found = elements(
        plain_stream(source, at.byte), offset=at.byte, number=at.element, limit=options.row_max_bytes
    )
    try:
        for block in found:
            if isinstance(block, LongElement):
                yield _long_element(block, options)
            else:
                yield from map(builder.build, _batches(block, options))
    except ArrayError as error:
        raise InvalidObject(
            f"{source.name}: the object is no JSON array: {error}. Set input.format to what it is "
            "(jsonl for lines of JSON).",
            reason="not_an_array",
        ) from error
    except EOFError as error:
        raise ObjectCorrupt(
            f"{source.name}: the JSON array is cut short. Upload the object again."
        ) from error


def first_element(head: bytes) -> bytes | None:
    """The first element of the array that begins so, None where there is none, or not all of it."""
    try:
        block = next(elements(iter([head]), offset=0, number=0, limit=len(head)), None)
    except (ArrayError, EOFError):
        return None
    if not isinstance(block, ElementBlock):
        return None
    return block.lines.buffer[block.lines.starts[0] : block.lines.ends[0]]


def _batches(block: ElementBlock, options: DecodeOptions) -> Iterator[RowBatch]:
    """The block's elements; one that is missing between commas is a bad row."""
    offset = block.lines.offset
    return json_batches(
        block.lines,
        options,
        lambda row, at: ElementPosition(block.first + row, offset + at),
        bare=block.bare,
        blank_is_bad=True,
    )


def _long_element(long: LongElement, options: DecodeOptions) -> RowBatch:
    line = long.line
    return one_bad_row(
        ElementPosition(long.number, line.begin),
        ElementPosition(long.number + 1, line.after),
        line.size,
        "too_large",
        options.too_large(line.size + options.overhead_bytes),
    )
