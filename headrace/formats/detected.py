"""What every format is to its callers, a decoder and perhaps a splitter; `input.format=auto` finds out.

Each object is read as what its first bytes are, or else as what it is called; CSV and text by name alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from headrace.formats import avro, chunks, csv_objects, json_array, jsonl, parquet, text
from headrace.formats.compression import plain_stream
from headrace.formats.records.decode_options import DecodeOptions
from headrace.model.columns import RowBatch
from headrace.model.errors import InvalidObject
from headrace.model.objects import ByteSource
from headrace.model.positions import Position
from headrace.options.choices import InputFormat
from headrace.options.object_endings import ENDINGS, LINES_BY_NAME, ending_of
from headrace.options.record_checks import IMPOSSIBLE_VALUES


class Decoder(Protocol):
    """From a source and a position to batches of rows."""

    def __call__(
        self,
        source: ByteSource,
        start: Position | None,
        *,
        options: DecodeOptions,
        begin: int | None = None,
        end: int | None = None,
    ) -> Iterator[RowBatch]:
        """The rows from `start` on (None: the first), with the bad ones between, in bounded memory.

        `begin` and `end`, two neighbours of what the format's Cutter gave, restrict it to the rows that begin
        there. Blocks on reads. Raises classes of `errors` only: those of the source as they come,
        ObjectCorrupt after the last row before the damage, InvalidObject for what cannot be decoded here.
        """


class Splitter(Protocol):
    """Where an object can be cut for several slots."""

    def __call__(self, source: ByteSource, splits: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
        """Ascending marks, both ends of the object included: each two neighbours are a split.

        None when the object cannot be cut, or is too small to be. Blocks on reads.
        """


_DECODERS: Final[dict[InputFormat, Decoder]] = {
    InputFormat.JSONL: jsonl.decode,
    InputFormat.JSON: json_array.decode,
    InputFormat.CSV: csv_objects.decode,
    InputFormat.TEXT: text.decode,
    InputFormat.BYTES: chunks.decode,
    InputFormat.AVRO: avro.decode,
    InputFormat.PARQUET: parquet.decode,
}
# No array of JSON: where its elements begin is known only from its start on.
_SPLITTERS: Final[dict[InputFormat, Splitter]] = {
    InputFormat.JSONL: jsonl.cuts,
    InputFormat.CSV: csv_objects.cuts,
    InputFormat.TEXT: text.cuts,
    InputFormat.BYTES: chunks.cuts,
    InputFormat.AVRO: avro.cuts,
    InputFormat.PARQUET: parquet.cuts,
}

_MAGIC: Final = ((b"Obj\x01", InputFormat.AVRO), (b"PAR1", InputFormat.PARQUET))
_LINES_OF_JSON: Final = frozenset({"jsonl", "ndjson"})
_BOM: Final = b"\xef\xbb\xbf"


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The rows of the object as the format that it is found to be. Blocks on reads.

    Raises InvalidObject (`unknown_format`) where neither its beginning nor its name say what it is.
    """
    found = detected(source)
    if found is not None:
        yield from _DECODERS[found](
            source, start, options=_as(options, found, source.name), begin=begin, end=end
        )


def cuts(source: ByteSource, splits: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Where the object can be cut as the format that it is found to be."""
    found = detected(source)
    splitter = None if found is None else _SPLITTERS.get(found)
    return (
        None
        if found is None or splitter is None
        else splitter(source, splits, options=_as(options, found, source.name))
    )


def detected(source: ByteSource) -> InputFormat | None:
    """The format of the object; None for one of blanks alone. Blocks on reads up to the first other byte."""
    named = LINES_BY_NAME.get(ending_of(source.name))
    if named is not None:
        return named
    magic = source.read_at(0, 4)
    for beginning, input_format in _MAGIC:
        if magic == beginning:
            return input_format
    head = b""
    for head in plain_stream(source):
        if _without_blanks(head):
            break
    return format_of(head, source.name)


def format_of(head: bytes, name: str) -> InputFormat | None:
    """The format of plain bytes that begin with `head`, of an object called `name`; None for blanks alone."""
    ending = ending_of(name)
    if ending in LINES_BY_NAME:
        return LINES_BY_NAME[ending]
    for beginning, input_format in _MAGIC:
        if head.startswith(beginning):
            return input_format
    first = _without_blanks(head)[:1]
    if first == b"[" and ending not in _LINES_OF_JSON:
        return InputFormat.JSON
    if first in (b"[", b"{"):
        return InputFormat.JSONL
    if ending in ENDINGS:
        return ENDINGS[ending]
    if not first:
        return None
    raise InvalidObject(
        f"{name}: neither the object's first bytes nor its name say what it holds. Set input.format, or "
        "leave the object out.",
        reason="unknown_format",
    )


def _without_blanks(head: bytes) -> bytes:
    return head.removeprefix(_BOM).lstrip(b" \t\r\n")


def _as(options: DecodeOptions, input_format: InputFormat, name: str) -> DecodeOptions:
    value_format = options.format.value_format
    reason = IMPOSSIBLE_VALUES.get((input_format, value_format))
    if reason is not None:
        raise InvalidObject(
            f"{name}: value.format={value_format} cannot be made from {input_format}, which the object is "
            f"found to be: {reason}.",
            reason="unsupported",
        )
    return replace(options, format=replace(options.format, input_format=input_format))


DECODERS: Final[dict[InputFormat, Decoder]] = {**_DECODERS, InputFormat.AUTO: decode}
SPLITTERS: Final[dict[InputFormat, Splitter]] = {**_SPLITTERS, InputFormat.AUTO: cuts}
