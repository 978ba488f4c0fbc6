"""JSON objects one after another, with blanks, line ends or nothing between them, as Firehose writes them.

A row is what a bracket opens and its counterpart closes. Nothing else separates rows, so that a bracket or a
quote too many or too few moves the end of its row. What is bad then ends in the first of these places:

- before the next `{` after a `}` from which a whole JSON object can be read that the next `{`, or the end,
  follows: the row that is bad does not take the ones after it along;
- where its own bracket closes, if it is closed;
- above what a row may have, after the next `}` that `{` and `"` follow.

An object that ends before its last row is closed is damaged: its upload may have been torn. Where a row
begins and ends is decided by its own bytes and a bounded number of those after it, however the stream is
cut, so that reading from any row on gives the same rows.

The marks of a JSON text that bound its values: brackets and commas outside of strings, and their depth.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

import numpy as np

from headrace.formats.json_batches import BATCH_ROWS, are_all_json, fault, one_bad_row, row_batch
from headrace.formats.lines import LineBlock
from headrace.formats.records.decode_options import DecodeOptions
from headrace.model.columns import Numbers, RowBatch
from headrace.model.positions import BytePosition

QUOTE, BACKSLASH, OPEN, CLOSE, COMMA = range(1, 6)
BLANKS: Final = b" \t\r\n"
_KINDS: Final = np.zeros(256, np.uint8)
for _octets, _kind in ((b'"', QUOTE), (b"\\", BACKSLASH), (b"[{", OPEN), (b"]}", CLOSE), (b",", COMMA)):
    _KINDS[list(_octets)] = _kind
_DELTAS: Final = np.array([0, 0, 0, 1, -1, 0], np.int64)
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Marks:
    """Where a scan is in a stream: how deep, and whether in a string, or right after a backslash there."""

    depth: int = 0
    in_string: bool = False
    is_escaped: bool = False

    def scan(self, chunk: bytes) -> tuple[Numbers, np.ndarray, Numbers]:
        """Places of the chunk's brackets and commas, the kind of each, and the depth after it."""
        octets = np.frombuffer(chunk, np.uint8)
        kinds = _KINDS[octets]
        at = np.flatnonzero(kinds)
        at, kinds = self._unescaped(at, kinds[at], len(chunk))
        quotes = kinds == QUOTE
        inside = (np.cumsum(quotes) + self.in_string) % 2 == 1
        self.in_string = bool(inside[-1]) if len(inside) else self.in_string
        outside = ~inside & ~quotes
        at, kinds = at[outside], kinds[outside]
        depths = self.depth + np.cumsum(_DELTAS[kinds])
        self.depth = int(depths[-1]) if len(depths) else self.depth
        return at, kinds, depths

    def _unescaped(self, at: Numbers, kinds: np.ndarray, length: int) -> tuple[Numbers, np.ndarray]:
        """What is neither a backslash nor after an odd number of them."""
        was_escaped, self.is_escaped = self.is_escaped, False
        slashes = kinds == BACKSLASH
        if was_escaped and len(at) and at[0] == 0:
            slashes[0] = False  # a backslash there is escaped itself, and so is a quote
        if not slashes.any():
            keep = (kinds != BACKSLASH) & ~((at == 0) & was_escaped)
            return at[keep], kinds[keep]
        places = at[slashes]
        begins = np.concatenate([[True], np.diff(places) != 1])
        runs = np.flatnonzero(begins)
        lengths = np.diff(np.append(runs, len(places)))
        behind = places[runs] + lengths
        escaped = behind[lengths % 2 == 1]
        self.is_escaped = bool(len(escaped)) and int(escaped[-1]) == length
        keep = (kinds != BACKSLASH) & ~np.isin(at, escaped, assume_unique=True) & ~((at == 0) & was_escaped)
        return at[keep], kinds[keep]


@dataclass(frozen=True, slots=True)
class Opening:
    """The first byte of a text after blanks and a byte order mark, where it is, and the text from it on."""

    first: bytes
    offset: int
    chunks: Iterator[bytes]


def opened(chunks: Iterator[bytes]) -> Opening:
    """The beginning of the text; blocks on its chunks. `first` is empty where nothing but blanks is in it."""
    offset, head = 0, b""
    for chunk in chunks:
        head += chunk
        if offset == 0 and len(head) < len(_BOM) and _BOM.startswith(head):
            continue
        text = (head.removeprefix(_BOM) if offset == 0 else head).lstrip(BLANKS)
        offset += len(head) - len(text)
        head = b""
        if text:
            return Opening(text[:1], offset, chain([text], chunks))
    return Opening(head[:1], offset, iter([head] if head else []))


_BLANKS: Final = re.compile(rb"[ \t\r\n]*")
# Of the blanks between rows, so many may be where a bad row ends: what is searched for has a longest text.
_BETWEEN: Final = rb"\}[ \t\r\n]{0,16}(?=\{[ \t\r\n]{0,16}\")"
_NEXT_ROW: Final = re.compile(_BETWEEN)
_ANY_ROW: Final = re.compile(rb"(?=\{[ \t\r\n]{0,16}\")")
_LONGEST_BETWEEN: Final = 1 + 16 + 1 + 16 + 1
# So many places are tried for the end of one bad row.
_TRIES: Final = 16
_LEAST_REACH: Final = 1024
# Bytes that are scanned at once behind a bad row; as many again for each time that all is well.
_CAREFUL: Final = 4096
_NO_OBJECT: Final = ("not_json", "what is between two objects is not a JSON object")
# Scanned at once: what is noted of marks is a multiple of the text, which may be one long row.
_SCANNED_BYTES: Final = 1024 * 1024
# Only the end is wanted, and Python reads no whole number of more than 4,300 digits.
_DECODER: Final = json.JSONDecoder(parse_int=str)


def decode(chunks: Iterator[bytes], offset: int, options: DecodeOptions) -> Iterator[RowBatch]:
    """The rows of the stream whose first byte, byte `offset`, begins one or a blank before it.

    Raises EOFError after the last whole row of a stream that ends within one.
    """
    cutter = _ObjectCutter(offset, options)
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.finish()


class _ObjectCutter:
    """Carries what is not decided yet from chunk to chunk."""

    def __init__(self, offset: int, options: DecodeOptions) -> None:
        self._begin = offset  # of the next row, or of blanks before it
        self._options = options
        self._reach = max(2 * options.row_max_bytes, _LEAST_REACH)
        # Within which a row is looked for that ends a bad one: each place costs as much as it holds.
        self._tried = max(2 * options.format.record_max_bytes, _LEAST_REACH)
        self._buffer = b""
        self._at = 0  # where in the buffer what is still held begins
        self._dropped = 0  # bytes of a row above the limit that are not held any more
        self._at_once = 1 << 62

    def feed(self, chunk: bytes) -> Iterator[RowBatch]:
        """The rows that end with the chunk, good ones and bad ones."""
        self._buffer, self._at = self._buffer[self._at :] + chunk, 0
        yield from self._rows(at_end=False)

    def finish(self) -> Iterator[RowBatch]:
        """The rows that the end decides about."""
        yield from self._rows(at_end=True)
        rest = self._buffer[self._at :]
        if rest and not (self._dropped and rest.rstrip(BLANKS).endswith(b"}")):
            raise EOFError("the last object does not end")
        if self._dropped:
            yield self._long(len(rest))

    def _rows(self, *, at_end: bool) -> Iterator[RowBatch]:
        while self._at < len(self._buffer):
            before = self._begin + self._dropped
            if self._dropped:
                found = _NEXT_ROW.search(self._buffer, self._at)
                if found is None:
                    self._drop(len(self._buffer) - self._at)
                    return
                yield self._long(found.end() - self._at)
                continue
            blanks = _BLANKS.match(self._buffer, self._at)
            self._advance(0 if blanks is None else blanks.end() - self._at)
            if self._at < len(self._buffer):
                yield from self._good_and_bad(at_end=at_end)
            if self._begin + self._dropped == before:
                return

    def _advance(self, count: int) -> None:
        self._begin += count
        self._at += count

    def _drop(self, count: int) -> None:
        """Hold no more of the next `count` bytes than may be the beginning of what ends the row."""
        gone = max(0, count - _LONGEST_BETWEEN + 1)
        self._dropped += gone
        self._at += gone

    def _long(self, length: int) -> RowBatch:
        """The bad row that ends `length` bytes after those that were dropped."""
        size, begin = self._dropped + length, self._begin
        self._begin, self._at, self._dropped = begin + size, self._at + length, 0
        message = self._options.row_too_large(size)
        return one_bad_row(BytePosition(begin), BytePosition(self._begin), size, "too_large", message)

    def _good_and_bad(self, *, at_end: bool) -> Iterator[RowBatch]:
        """The good rows that come next, or else the bad one, if it is known where it ends."""
        scanned = self._buffer[self._at : self._at + self._at_once]
        starts, ends = _bounds(scanned, self._reach)
        while not len(starts) and self._at + len(scanned) < len(self._buffer):
            self._at_once *= 2
            scanned = self._buffer[self._at : self._at + self._at_once]
            starts, ends = _bounds(scanned, self._reach)
        count = len(starts)
        if not (count and are_all_json(scanned[: ends[-1]], starts, ends - starts)):
            count = _good_ones(scanned, starts, ends)
        if count:
            self._at_once *= 2
            yield from self._batches(scanned, starts[:count], ends[:count])
            self._advance(int(ends[count - 1]))
        else:
            is_closed = len(starts) > 0 and starts[0] == 0
            yield from self._bad(int(ends[0]) if is_closed else None, at_end=at_end)

    def _batches(self, buffer: bytes, starts: Numbers, ends: Numbers) -> Iterator[RowBatch]:
        lengths, begin = ends - starts, self._begin
        block = LineBlock(buffer=buffer, offset=begin, starts=starts, ends=ends, nexts=ends)
        good = lengths <= self._options.row_max_bytes
        faults = {
            row: ("too_large", self._options.row_too_large(int(lengths[row])))
            for row in np.flatnonzero(~good).tolist()
        }
        for first in range(0, len(starts), BATCH_ROWS):
            span = slice(first, min(first + BATCH_ROWS, len(starts)))
            yield row_batch(block, span, lengths, good, faults, lambda _row, at: BytePosition(begin + at))

    def _bad(self, closed: int | None, *, at_end: bool) -> Iterator[RowBatch]:
        """The bad row that comes next; nothing while what follows may decide about its end."""
        held = len(self._buffer) - self._at
        if held < self._reach and not at_end:
            return
        window = min(held, self._reach)
        is_row = self._buffer.startswith((b"{", b"["), self._at)
        stop = self._at + min(window, self._tried)
        end = _next_row(self._buffer, self._at, stop, closed, is_row=is_row) or closed
        if end is None and not is_row and window < self._reach:
            end = window
        if end is not None:
            yield self._bad_row(end)
            self._at_once = _CAREFUL
            self._advance(end)
        elif window == self._reach:
            self._drop(window)

    def _bad_row(self, end: int) -> RowBatch:
        raw = self._buffer[self._at : self._at + end].rstrip(BLANKS)
        options, size = self._options, len(raw)
        after = BytePosition(self._begin + end)
        if size > options.row_max_bytes:
            message = options.row_too_large(size)
            return one_bad_row(BytePosition(self._begin), after, size, "too_large", message)
        reason, message = fault(raw) or _NO_OBJECT
        return one_bad_row(BytePosition(self._begin), after, size, reason, message, raw)


def _bounds(buffer: bytes, longest: int) -> tuple[Numbers, Numbers]:
    """First byte of each bracket at depth 0 that is closed again, and the byte after its counterpart.

    Up to one that is closed more than `longest` bytes later: only the first so many bytes of a row count.
    """
    opens, closes, marks = [], [], Marks()
    for first in range(0, len(buffer), _SCANNED_BYTES):
        at, kinds, depths = marks.scan(buffer[first : first + _SCANNED_BYTES])
        below = np.flatnonzero(depths < 0)
        if len(below):
            at, kinds, depths = at[: below[0]], kinds[: below[0]], depths[: below[0]]
        opens.append(at[(kinds == OPEN) & (depths == 1)] + first)
        closes.append(at[(kinds == CLOSE) & (depths == 0)] + (first + 1))
        if len(below):
            break
    starts, ends = np.concatenate(opens), np.concatenate(closes)
    starts = starts[: len(ends)]
    long = np.flatnonzero(ends - starts > longest)
    return (starts[: long[0]], ends[: long[0]]) if len(long) else (starts, ends)


def _good_ones(buffer: bytes, starts: Numbers, ends: Numbers) -> int:
    """How many of the rows are JSON, with nothing but blanks before them, up to the first that is not."""
    behind = 0
    for count, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if buffer[behind:start].strip(BLANKS) or fault(buffer[start:end]) is not None:
            return count
        behind = end
    return len(starts)


def _next_row(buffer: bytes, at: int, stop: int, closed: int | None, *, is_row: bool) -> int | None:
    """How far behind byte `at` a row begins that ends the bad one there; None where none is found."""
    places = (_NEXT_ROW if is_row else _ANY_ROW).finditer(buffer, at, stop)
    for place in islice(places, _TRIES):
        begin = place.end()
        if closed is not None and begin - at >= closed:
            return None
        end = _end_of_object(buffer, begin, stop)
        if end is not None and (not is_row or buffer[end:stop].lstrip(BLANKS)[:1] in (b"", b"{")):
            return begin - at
    return None


def _end_of_object(buffer: bytes, begin: int, stop: int) -> int | None:
    """Where the JSON object ends that begins there; None where none does."""
    for end in dict.fromkeys((min(begin + _CAREFUL, stop), stop)):
        try:
            # One character a byte, so that places are bytes. What texts hold is looked at when it is a row.
            return begin + int(_DECODER.raw_decode(buffer[begin:end].decode("latin-1"))[1])
        except (ValueError, RecursionError):
            continue
    return None
