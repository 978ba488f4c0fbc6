"""Texts that have to be JSON, side by side in a buffer, as batches of rows: each checked, bad ones named.

A whole buffer is checked at once, and one text with the reason why it is bad. JSON is what msgspec parses:
RFC 8259 without NaN and Infinity; numbers of any size and duplicate names pass, lone surrogate escapes do not
(no UTF-8 text can hold what they say).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from headrace.formats.lines import LineBlock
from headrace.formats.record_columns import LineReader
from headrace.formats.records.decode_options import DecodeOptions
from headrace.model.columns import NULL_LENGTH, BadRow, Column, Numbers, RowBatch
from headrace.model.positions import Position

Octets = bytes | bytearray | memoryview

_decoder: Final = msgspec.json.Decoder(msgspec.Raw)
_decode: Final[Callable[[bytes], msgspec.Raw]] = _decoder.decode
_decode_lines: Final[Callable[[Octets], list[msgspec.Raw]]] = _decoder.decode_lines

_BEYOND_ASCII: Final = 0x80


def are_all_json(buffer: Octets, starts: Numbers, lengths: Numbers) -> bool:
    """True when the non-blank lines of `buffer` are one JSON value each; where they are is given trimmed.

    False may still mean that every line is good; then `fault` has to look at each. Values found in the buffer
    are in its order and nothing but white space is between them, and there have to be as many as lines.
    Whether no value spans lines, and so no line holds two, is seen in one of two ways:

    - Where every line begins with `{` and ends with `}`, a value over two lines would have `}`
      and `{` side by side within it, or a line's end within a string. JSON knows neither.
    - Else each value has to be as long as its line: then the first value is the first line, what follows
      begins with the second, and so on.
    """
    return _is_utf8(buffer) and json_texts(buffer, starts, lengths) is not None


def json_texts(buffer: Octets, starts: Numbers, lengths: Numbers) -> list[msgspec.Raw] | None:
    """The text of each line, as `are_all_json` has them; None where one is not JSON, or may not be.

    The buffer has to be UTF-8.
    """
    values = _parsed(buffer)
    if values is None or len(values) != len(lengths):
        return None
    if are_objects(buffer, starts, lengths):
        return values
    found = np.fromiter(map(len, values), np.int64, len(values))
    return values if np.array_equal(found, lengths) else None


def _parsed(buffer: Octets) -> list[msgspec.Raw] | None:
    """The values of JSON that make up the buffer, which is UTF-8; None where there is something else."""
    try:
        return _decode_lines(buffer)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None


def _is_utf8(buffer: Octets) -> bool:
    """True for text: the parser does not look at what strings hold."""
    try:
        return _is_ascii(buffer) or bool(str(buffer, "utf-8"))
    except UnicodeDecodeError:
        return False


def _is_ascii(buffer: Octets) -> bool:
    if isinstance(buffer, memoryview):
        return not len(buffer) or int(np.frombuffer(buffer, np.uint8).max()) < _BEYOND_ASCII
    return buffer.isascii()


def are_all_rows(buffer: bytes, lines: Column, fit: Callable[[Column], bool]) -> bool:
    """True when `fit` says so of these lines of `buffer`, and each holds one row of it (see `are_all_json`).

    None may be blank, and nothing may be between them. False may still mean that every line is good.
    """
    return _is_utf8(buffer) and are_objects(buffer, lines.starts, lines.lengths) and fit(lines)


def is_json(buffer: Octets, count: int) -> bool:
    """True when so many values of JSON make up the buffer, with nothing but white space between them."""
    values = _parsed(buffer) if _is_utf8(buffer) else None
    return values is not None and len(values) == count


def are_objects(buffer: Octets, starts: Numbers, lengths: Numbers) -> bool:
    """True when each line begins with `{` and ends with `}`; none may be empty."""
    octets = np.frombuffer(buffer, np.uint8)
    # Compared as bytes: numpy's own way takes two calls more, which is most of it for ten lines.
    return octets[starts].tobytes() == b"{" * len(starts) and octets[
        starts + (lengths - 1)
    ].tobytes() == b"}" * len(starts)


def fault(line: bytes) -> tuple[str, str] | None:
    """Why a line is no JSON value, as a reason and a sentence without content; None when it is one."""
    try:
        line.decode()
        _decode(line)
    except UnicodeDecodeError as error:
        return "not_utf8", f"the line is not UTF-8: {error.reason} at byte {error.start}"
    except msgspec.DecodeError as error:
        return "not_json", f"the line is not one JSON value: {error}"
    except RecursionError:
        return "too_deep", "the line is nested deeper than the JSON parser follows (about 1,000 levels)"
    return None


BATCH_ROWS: Final = 10_000

# The position of row `row` of a block, or of what is behind its last one, at byte `at` of its buffer.
PositionAt = Callable[[int, int], Position]

_SPACE: Final = 32


def json_batches(
    block: LineBlock,
    options: DecodeOptions,
    position: PositionAt,
    *,
    count: int | None = None,
    bare: bytes | None = None,
    blank_is_bad: bool = False,
    about_first: Callable[[str], str] | None = None,
) -> Iterator[RowBatch]:
    """The block's first `count` rows, checked, in batches of at most BATCH_ROWS; blank ones are left out.

    `bare` is the buffer with nothing but white space between rows, where there is more in the block's own.
    `about_first` adds to what is said of the block's first row.
    """
    count = len(block.starts) if count is None else count
    if not count:
        return
    lengths = block.ends[:count] - block.starts[:count]
    good: np.ndarray | None = None
    faults: dict[int, tuple[str, str]] = {}
    if bare is not None or count < len(block.starts) or not _are_all_good(block, lengths, options):
        lengths, good, faults = _checked(block, options, lengths, bare, blank_is_bad=blank_is_bad)
    if about_first is not None and 0 in faults:
        reason, message = faults[0]
        faults[0] = reason, about_first(message)
    for first in range(0, count, BATCH_ROWS):
        span = slice(first, min(first + BATCH_ROWS, count))
        yield row_batch(block, span, lengths, good, faults, position)


def _checked(
    block: LineBlock, options: DecodeOptions, lengths: Numbers, bare: bytes | None, *, blank_is_bad: bool
) -> tuple[Numbers, np.ndarray, dict[int, tuple[str, str]]]:
    """The lengths of the first rows, nulls marked, which of them are good, and the faults of the others."""
    count = len(lengths)
    starts, ends = block.starts[:count], block.ends[:count]
    trimmed_starts, trimmed_lengths = trimmed(block, starts, ends)
    filled = trimmed_lengths > 0
    # A blank one is no row, however long it is.
    large = filled & (lengths > options.row_max_bytes)
    faults: dict[int, tuple[str, str]] = {}
    buffer = block.buffer if bare is None else bare
    if count < len(block.starts):
        buffer = buffer[: int(block.nexts[count - 1])]
    if not (
        (buffer is block.buffer and _are_all_records(block, options))
        or are_all_json(buffer, *_chosen(filled, trimmed_starts, trimmed_lengths))
    ):
        faults = _faults(block.buffer, starts, ends, (filled & ~large).nonzero()[0])
    for row in large.nonzero()[0].tolist():
        faults[row] = ("too_large", options.row_too_large(int(lengths[row])))
    if blank_is_bad:
        faults |= dict.fromkeys((~filled).nonzero()[0].tolist(), ("not_json", "there is no value"))
    if options.archive is None:
        lengths = _nulled(block.buffer, lengths, trimmed_starts, trimmed_lengths)
    good = filled
    if faults:
        good = filled.copy()
        good[list(faults)] = False
    return lengths, good, faults


def _are_all_good(block: LineBlock, lengths: Numbers, options: DecodeOptions) -> bool:
    """True when each line is an object of JSON that is not too large: what nearly all blocks are.

    False may still mean that every line is good; then the lines are looked at for all that they may be.
    """
    if np.minimum.reduce(lengths) <= 0 or np.maximum.reduce(lengths) > options.row_max_bytes:
        return False
    if not are_objects(block.buffer, block.starts, lengths):
        return False
    if _are_all_records(block, options):
        return True
    return is_json(block.buffer, len(lengths))


def _chosen(mask: np.ndarray, starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
    """Both where the mask is set, without a copy where it is everywhere."""
    return (starts, lengths) if mask.all() else (starts[mask], lengths[mask])


def _are_all_records(block: LineBlock, options: DecodeOptions) -> bool:
    """True when who takes the rows has read all of the block's lines already: they are parsed once.

    False, too, where that reads no lines, or where lines are blank or have white space around.
    """
    fit = options.fit
    if options.archive is not None:
        reader = options.archive.text
        fit = reader.fit if isinstance(reader, LineReader) else None
    lengths = block.ends - block.starts
    if fit is None or not bool((lengths > 0).all()):
        return False
    lines = Column(buffer=block.buffer, starts=block.starts, lengths=lengths)
    return are_all_rows(block.buffer, lines, fit)


def trimmed(block: LineBlock, starts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Start and length of each line without JSON's white space around it; length 0 for a blank one."""
    octets = np.frombuffer(block.buffer, np.uint8)
    if bool((ends > starts).all() and (octets[starts] > _SPACE).all() and (octets[ends - 1] > _SPACE).all()):
        return starts, ends - starts
    inked = np.flatnonzero((octets != _SPACE) & (octets != 9) & (octets != 10) & (octets != 13))  # noqa: PLR2004  # tab, line feed, carriage return
    first, behind = np.searchsorted(inked, starts), np.searchsorted(inked, ends)
    blank = first == behind
    if not len(inked):
        return starts, np.zeros_like(starts)
    trimmed_starts = np.where(blank, starts, inked[np.minimum(first, len(inked) - 1)])
    trimmed_ends = np.where(blank, starts, inked[behind - 1] + 1)
    return trimmed_starts, trimmed_ends - trimmed_starts


def _faults(buffer: bytes, starts: Numbers, ends: Numbers, rows: Numbers) -> dict[int, tuple[str, str]]:
    found = {}
    for row in rows.tolist():
        problem = fault(buffer[starts[row] : ends[row]])
        if problem is not None:
            found[row] = problem
    return found


def _nulled(buffer: bytes, lengths: Numbers, trimmed_starts: Numbers, trimmed_lengths: Numbers) -> Numbers:
    """`lengths` with NULL_LENGTH where the line is `null`."""
    maybe = (trimmed_lengths == 4).nonzero()[0]  # noqa: PLR2004  # the length of null
    nulls = [row for row in maybe.tolist() if buffer.startswith(b"null", trimmed_starts[row])]
    if nulls:
        lengths[nulls] = NULL_LENGTH
    return lengths


def row_batch(
    block: LineBlock,
    span: slice,
    lengths: Numbers,
    good: np.ndarray | None,
    faults: dict[int, tuple[str, str]],
    position: PositionAt,
) -> RowBatch:
    """The rows of `span` that are `good` (None: all are), over the block's own bytes, and the bad ones."""
    after = position(span.stop, int(block.nexts[span.stop - 1]))
    # Where all are good, which is usual, a part of the arrays does for them.
    rows: Numbers | None = None
    chosen: slice | Numbers = span
    if good is not None and not good[span].all():
        chosen = rows = good[span].nonzero()[0] + span.start
    starts, sizes = block.starts[chosen], lengths[chosen]

    def positions(index: int, /) -> Position:
        if index >= len(starts):
            return after
        row = span.start + index if rows is None else int(rows[index])
        return position(row, int(block.starts[row]))

    return RowBatch(
        values=Column(buffer=block.buffer, starts=starts, lengths=sizes),
        after=after,
        positions=positions,
        bad=() if good is None else bad_rows(block, span, good, faults, position),
    )


def bad_rows(
    block: LineBlock,
    span: slice,
    good: np.ndarray,
    faults: dict[int, tuple[str, str]],
    position: PositionAt,
) -> tuple[BadRow, ...]:
    """The rows of `span` that have faults, reason and sentence each, between the good ones."""
    if not faults:
        return ()
    # A block may be nothing but bad rows, of which each span looks at its own alone.
    within = range(span.start, span.stop)
    likely = sorted(faults) if len(faults) < len(within) else within
    rows = [row for row in likely if row in within and row in faults]
    before = np.concatenate([[0], np.cumsum(good[span])])
    bad = []
    for row in rows:
        begin, behind = int(block.starts[row]), int(block.ends[row])
        reason, message = faults[row]
        bad.append(
            BadRow(
                index=int(before[row - span.start]),
                position=position(row, begin),
                after=position(row + 1, int(block.nexts[row])),
                reason=reason,
                message=message,
                raw=None if reason == "too_large" else block.buffer[begin:behind],
                size=behind - begin,
            )
        )
    return tuple(bad)


def one_bad_row(
    position: Position, after: Position, size: int, reason: str, message: str, raw: bytes | None = None
) -> RowBatch:
    """A batch without rows, for a bad one of `size` bytes that is not held."""
    bad = BadRow(index=0, position=position, after=after, reason=reason, message=message, size=size, raw=raw)
    return replace(no_rows(after), bad=(bad,))


def no_rows(after: Position) -> RowBatch:
    """A batch of nothing, which says how far the object is read."""
    nothing = np.zeros(0, np.int64)
    return RowBatch(
        values=Column(buffer=b"", starts=nothing, lengths=nothing),
        after=after,
        positions=lambda _index: after,
    )
