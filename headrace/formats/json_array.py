"""JSON, streamed: each element of an array, or each of many objects, is a row as it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from headrace.formats import json_sequence
from headrace.formats.compression import plain_stream
from headrace.formats.json_batches import json_batches, one_bad_row
from headrace.formats.json_path import ArrayError, ArrayFinder
from headrace.formats.json_sequence import BLANKS, COMMA, Marks, Opening, opened
from headrace.formats.lines import LineBlock, LongLine
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.record_builder import RecordBuilder
from headrace.model.columns import Numbers, RowBatch
from headrace.model.errors import InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import BytePosition, ElementPosition, Position

# -- The elements of one JSON array in a byte stream, many at a time, without holding one that is too long ---
# Only what bounds elements is looked at: strings, brackets, and commas at the array's own level. Whether an
# element is JSON is seen when it is checked.

_BLANK: Final = np.zeros(256, bool)
_BLANK[list(BLANKS)] = True
# Blanks before an element that are passed one by one for all elements at once.
_BLANKS_AT_ONCE: Final = 64
# Bytes of a document that are looked at first.
_AT_ONCE: Final = 4096
_SLACK_BYTES: Final = 64
_BLANKS_BYTES: Final = 1024 * 1024
_SCANNED_BYTES: Final = 1024 * 1024
_END: Final = ord("]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementBlock:
    """Whole elements: rows of `lines`, the first of them number `first`; `bare` has blanks for commas."""

    lines: LineBlock
    first: int
    bare: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LongElement:
    """An element above the limit; `line.after` is where the next one begins."""

    line: LongLine
    number: int


def elements(
    chunks: Iterator[bytes], *, offset: int, number: int, limit: int
) -> Iterator[ElementBlock | LongElement]:
    """The elements of the stream whose first byte, byte `offset`, is one of element `number` or before it.

    Raises ArrayError where something follows the array, EOFError after the last whole element when it ends
    early.
    """
    scanner = _ElementScanner(offset, number, limit)
    for chunk in chunks:
        if scanner.rest is None:
            yield from scanner.feed(chunk)
        else:
            scanner.rest = chunk
        if scanner.rest is not None and scanner.rest.strip(BLANKS):
            raise ArrayError("something follows its closing ]")
    if scanner.rest is None:
        raise EOFError("the array does not end")


def elements_of_array(opening: Opening, limit: int) -> Iterator[ElementBlock | LongElement]:
    """All elements of what has been opened; ArrayError where it is not an array."""
    if opening.first not in {b"", b"["}:
        raise ArrayError("it does not begin with [")
    if opening.first:
        behind = chain([next(opening.chunks)[1:]], opening.chunks)
        yield from elements(behind, offset=opening.offset + 1, number=0, limit=limit)


def elements_at(
    chunks: Iterator[bytes], path: tuple[str, ...], *, offset: int, number: int, limit: int
) -> Iterator[ElementBlock | LongElement]:
    """The elements of the arrays that `path` names in the documents of the stream, numbered through.

    The stream's first byte is byte `offset`: of the first document, or else of element `number`. Raises as
    `elements` does, and ArrayError for a document without an array there.
    """
    finder = ArrayFinder(path, is_inside=offset > 0)
    scanner = _ElementScanner(offset, number, limit) if offset else None
    at, at_once = offset, _AT_ONCE
    for chunk in chunks:
        place = 0
        while place < len(chunk):
            # Little by little: a scan goes to the end of what it is given, and a small document ends soon.
            block = chunk[place : place + at_once]
            at_once *= 2
            if scanner is None:
                behind = finder.found(block)
                if behind is not None:
                    scanner = _ElementScanner(at + behind, number, limit)
                behind = len(block) if behind is None else behind
            else:
                yield from scanner.feed(block)
                behind = len(block) - len(scanner.rest or b"")
                if scanner.rest is not None:
                    number, scanner, at_once = scanner.number, None, _AT_ONCE
            at, place = at + behind, place + behind
    if scanner is not None or finder.is_open:
        raise EOFError("the array, or what is around it, does not end")


class _ElementScanner:
    """Carries an unfinished element from chunk to chunk, and where in it the scan is."""

    def __init__(self, offset: int, number: int, limit: int) -> None:
        self.number = number  # of the unfinished element
        self.rest: bytes | None = None  # of the last chunk, once the array is closed
        self._begin = offset
        self._limit = limit
        self._blocks: list[bytes] = []
        self._held = 0
        self._dropped = False
        self._marks = Marks(depth=1)

    def feed(self, chunk: bytes) -> Iterator[ElementBlock | LongElement]:
        commas, close = self._scan(chunk)
        if close is not None and chunk[close] != _END:
            if len(commas):
                yield from self._cut(chunk, commas, is_end=False)
            raise ArrayError("it ends with } where ] belongs")
        cuts = commas if close is None else np.append(commas, close)
        if len(cuts):
            yield from self._cut(chunk, cuts, is_end=close is not None)
        behind = int(cuts[-1]) + 1 if len(cuts) else 0
        if close is not None:
            self.rest = chunk[behind:]
        elif behind < len(chunk):
            self._hold(chunk[behind:] if behind else chunk)

    def _scan(self, chunk: bytes) -> tuple[Numbers, int | None]:
        """Commas of the array's own level, and the bracket that closes it."""
        at, kinds, depths = self._marks.scan(chunk)
        closes = np.flatnonzero(depths <= 0)
        close = int(at[closes[0]]) if len(closes) else None
        if close is not None:
            at, kinds, depths = at[: closes[0]], kinds[: closes[0]], depths[: closes[0]]
        return at[(kinds == COMMA) & (depths == 1)], close

    def _cut(self, chunk: bytes, cuts: Numbers, *, is_end: bool) -> Iterator[ElementBlock | LongElement]:
        first = 0
        if self._dropped:
            length = self._held + int(cuts[0])
            after = self._begin + length + (0 if is_end and len(cuts) == 1 else 1)
            yield LongElement(line=LongLine(begin=self._begin, after=after, size=length), number=self.number)
            self._begin, self.number = self._begin + length + 1, self.number + 1
            first, cuts = int(cuts[0]) + 1, cuts[1:]
            self._dropped = False
        elif self._held:
            chunk = b"".join([*self._blocks, chunk])
            cuts = cuts + self._held
        if len(cuts):
            block = self._block(chunk[first : int(cuts[-1])] + b"\n", cuts - first, is_end=is_end)
            if block is not None:
                yield block
            self._begin += int(cuts[-1]) + 1 - first
        self._blocks, self._held = [], 0

    def _block(self, buffer: bytes, ends: Numbers, *, is_end: bool) -> ElementBlock | None:
        """The elements that end at `ends` of the buffer, which holds them and an end of line."""
        starts = np.concatenate([[0], ends[:-1] + 1])
        nexts = ends + 1
        if is_end:
            nexts[-1] -= 1  # what closes the array is met again at a resume
        octets = np.frombuffer(buffer, np.uint8)
        starts = _passed_blanks(octets, starts, ends, 1)
        ends_of = _passed_blanks(octets, ends - 1, starts - 1, -1) + 1
        if is_end and starts[-1] >= ends_of[-1]:
            # An empty array, a comma too many, or the end of one that was read before: nothing is lost.
            starts, ends_of, ends, nexts = starts[:-1], ends_of[:-1], ends[:-1], nexts[:-1]
        count = len(ends)
        if not count:
            return None
        bare = octets.copy()
        bare[ends] = 10
        lines = LineBlock(
            buffer=buffer, offset=self._begin, starts=starts, ends=np.maximum(ends_of, starts), nexts=nexts
        )
        first, self.number = self.number, self.number + count
        return ElementBlock(lines=lines, first=first, bare=bare.tobytes())

    def _hold(self, block: bytes) -> None:
        if not self._held:
            text = block.lstrip(BLANKS)
            self._begin += len(block) - len(text)
            block = text
        self._held += len(block)
        # White space behind an element does not count, so only what is far above is dropped unseen.
        if self._held > self._limit + min(self._limit, _BLANKS_BYTES) + _SLACK_BYTES:
            self._dropped, self._blocks = True, []
        if not self._dropped:
            self._blocks.append(block)


def _passed_blanks(octets: np.ndarray, at: Numbers, stop: Numbers, step: int) -> Numbers:
    """Each place moved by `step` over blanks, up to `stop`."""
    for _ in range(_BLANKS_AT_ONCE):
        moving = (at != stop) & _BLANK[octets[np.clip(at, 0, len(octets) - 1)]]
        if not moving.any():
            return at
        at = at + np.where(moving, step, 0)
    places = at.tolist()
    for index, (place, end) in enumerate(zip(places, stop.tolist(), strict=True)):
        here = place
        while here != end and _BLANK[octets[here]]:
            here += step
        places[index] = here
    return np.array(places, np.int64)


# -- Rows: elements of the array, or of that inside, or objects one after another ----------------------------


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The elements of the array, or the objects one after another, from `start` on; never cut.

    With `json.path` the elements of the array inside, of each document. Blocks on reads. Raises ObjectCorrupt
    after the last whole row where the end is missing, InvalidObject (`not_an_array`) for anything else.
    """
    del begin, end
    path = options.format.json_path
    try:
        is_any = path is None and options.archive is None
        if is_any and isinstance(start, BytePosition | None):
            yield from _rows_of_any(source, start, options)
        elif isinstance(start, ElementPosition | None):
            yield from _rows_of_array(source, start or ElementPosition(), options)
        else:
            raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a JSON object.")
    except ArrayError as error:
        raise InvalidObject(_refusal(source.name, path, error), reason="not_an_array") from error
    except EOFError as error:
        raise ObjectCorrupt(f"{source.name}: the JSON is cut short. Upload the object again.") from error


def _rows_of_any(
    source: ByteSource, start: BytePosition | None, options: DecodeOptions
) -> Iterator[RowBatch]:
    """The rows of an array, or of objects one after another, in which a position is a byte."""
    opening = opened(plain_stream(source))
    if opening.first != b"{":
        if start is not None:
            raise ObjectCorrupt(f"{source.name}: the position {start} is not one of a JSON array.")
        yield from _rows_of(elements_of_array(opening, options.row_max_bytes), options)
        return
    chunks, at = opening.chunks, opening.offset
    if start is not None and start.byte > at:
        chunks, at = plain_stream(source, start.byte), start.byte
    yield from map(RecordBuilder.of(options).build, json_sequence.decode(chunks, at, options))


def _rows_of_array(source: ByteSource, start: ElementPosition, options: DecodeOptions) -> Iterator[RowBatch]:
    path, limit = options.format.json_path, options.row_max_bytes
    chunks, at, number = plain_stream(source, start.byte), start.byte, start.element
    if path:
        found = elements_at(chunks, path, offset=at, number=number, limit=limit)
    elif at:
        found = elements(chunks, offset=at, number=number, limit=limit)
    else:
        found = elements_of_array(opened(chunks), limit)
    yield from _rows_of(found, options)


def _rows_of(found: Iterator[ElementBlock | LongElement], options: DecodeOptions) -> Iterator[RowBatch]:
    builder = RecordBuilder.of(options)
    for block in found:
        if isinstance(block, LongElement):
            yield _long_element(block, options)
        else:
            yield from map(builder.build, _batches(block, options))


def _refusal(name: str, path: tuple[str, ...] | None, error: ArrayError) -> str:
    if path:
        return (
            f"{name}: the object has not the one array that json.path names: {error}. Correct json.path, or "
            "leave such objects out (object.exclude)."
        )
    return (
        f"{name}: the object is neither one JSON array nor JSON objects one after another: {error}. Set "
        "input.format to what it is (jsonl for lines of JSON values)."
    )


def first_element(head: bytes) -> bytes | None:
    """The first element of the array that begins so, None where there is none, or not all of it."""
    # What is noted of marks is a multiple of what is scanned at once.
    chunks = (head[at : at + _SCANNED_BYTES] for at in range(0, len(head), _SCANNED_BYTES))
    try:
        block = next(elements_of_array(opened(chunks), len(head)), None)
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
        options.row_too_large(line.size),
    )
