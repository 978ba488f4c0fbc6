"""The rows of a CSV stream, many at a time, without holding one that is longer than allowed (RFC 4180).

Where every quote begins or ends a field, or is next to another, a row ends at each LF after an even
number of quotes. Only where some quote is elsewhere rows are found one by one.
"""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from headrace.formats.lines import LineBlock, LongLine
from headrace.model.rows import Numbers
from headrace.options.row_settings import CsvSettings

_LF, _CR = 10, 13
# Above this an unfinished row is looked at again only when it has doubled.
_HELD_BYTES: Final = 4 * 1024 * 1024


class CsvRows:
    """Cuts the stream whose first byte, byte `offset`, begins a row; make one for each stream."""

    def __init__(self, settings: CsvSettings, *, offset: int, limit: int) -> None:
        self._settings = settings
        self._row = _row_pattern(settings)
        self._begin = offset  # of the unfinished row
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = self._wanted = 0
        self._in_quotes = False  # of a row that is dropped
        self._dropped = False

    def cut(self, chunks: Iterator[bytes]) -> Iterator[LineBlock | LongLine]:
        """The rows, without LF or CRLF; the last LF may be missing."""
        for chunk in chunks:
            yield from self._feed(chunk)
        self._wanted = 0
        yield from self._feed(b"")
        if self._dropped:
            yield self._long(self._held, self._held)
        elif self._held:
            # A row that is not ended by its quotes is one, too: whoever reads its fields says what is wrong.
            data = b"".join(self._parts)
            yield self._block(data, np.array([len(data)]))

    def _feed(self, chunk: bytes) -> Iterator[LineBlock | LongLine]:
        if self._dropped:
            end = self._end_of_dropped(chunk)
            if end is None:
                self._held += len(chunk)
                return
            yield self._long(self._held + end, self._held + end + 1)
            chunk = chunk[end + 1 :]
        self._parts.append(chunk)
        self._held += len(chunk)
        if self._held < self._wanted:
            return
        data = b"".join(self._parts) if len(self._parts) > 1 else chunk
        ends = self._ends(data)
        cut = int(ends[-1]) + 1 if len(ends) else 0
        if cut:
            yield self._block(data[:cut] if cut < len(data) else data, ends)
        self._hold(data[cut:] if cut else data)

    def _hold(self, rest: bytes) -> None:
        self._parts, self._held = ([rest] if rest else []), len(rest)
        self._wanted = 2 * self._held if self._held > _HELD_BYTES else 0
        if self._held > self._limit + 2:
            quote = self._settings.quote
            self._dropped, self._parts, self._wanted = True, [], 0
            self._in_quotes = bool(quote) and rest.count(quote) % 2 == 1

    def _end_of_dropped(self, chunk: bytes) -> int | None:
        at, quote = -1, self._settings.quote
        begin = 0
        while (at := chunk.find(b"\n", at + 1)) >= 0:
            if quote and chunk.count(quote, begin, at) % 2:
                self._in_quotes = not self._in_quotes
            begin = at
            if not self._in_quotes:
                return at
        if quote and chunk.count(quote, begin) % 2:
            self._in_quotes = not self._in_quotes
        return None

    def _long(self, size: int, length: int) -> LongLine:
        line = LongLine(begin=self._begin, after=self._begin + length, size=size)
        self._begin += length
        self._dropped, self._held = False, 0
        return line

    def _block(self, buffer: bytes, ends: Numbers) -> LineBlock:
        octets = np.frombuffer(buffer, np.uint8)
        nexts = np.minimum(ends + 1, len(buffer))
        starts = np.concatenate([[0], nexts[:-1]])
        returns = (octets[np.maximum(ends - 1, 0)] == _CR) & (ends > starts) & (nexts > ends)
        block = LineBlock(buffer=buffer, offset=self._begin, starts=starts, ends=ends - returns, nexts=nexts)
        self._begin += len(buffer)
        return block

    def _ends(self, data: bytes) -> Numbers:
        """Where the LFs are that end rows of `data`."""
        octets = np.frombuffer(data, np.uint8)
        ends: Numbers = np.flatnonzero(octets == _LF)
        quote = self._settings.quote
        if not quote or not len(ends) or quote not in data:
            return ends
        quotes = np.flatnonzero(octets == quote[0])
        if are_regular(octets, quotes, self._settings):
            outside: Numbers = ends[np.searchsorted(quotes, ends) % 2 == 0]
            return outside
        found: list[int] = []
        at = 0
        while row := self._row.match(data, at):
            at = row.end()
            found.append(at - 1)
        return np.array(found, np.int64)


def are_regular(octets: np.ndarray, quotes: Numbers, settings: CsvSettings) -> bool:
    """True when quotes begin fields, end them, or are doubled within them, and nowhere else."""
    delimiter, quote = settings.delimiter[0], settings.quote[0]
    opens, closes = quotes[0::2], quotes[1::2]
    before = np.where(opens > 0, octets[np.maximum(opens - 1, 0)], _LF)
    if not ((before == delimiter) | (before == _LF) | (before == quote)).all():
        return False
    last = len(octets) - 1
    after = np.where(closes < last, octets[np.minimum(closes + 1, last)], _LF)
    second = np.where(closes + 1 < last, octets[np.minimum(closes + 2, last)], _LF)
    return bool(
        ((after == delimiter) | (after == _LF) | (after == quote) | ((after == _CR) & (second == _LF))).all()
    )


def are_plain(rows: bytes, settings: CsvSettings) -> bool:
    """True when every reader of CSV sees the same in these rows: regular quotes, and no CR but before LF.

    Arrow takes `"12"34` for 1234, and a CR for an end of a row.
    """
    octets = np.frombuffer(rows, np.uint8)
    quotes = np.zeros(0, np.int64)
    if settings.quote and settings.quote in rows:
        quotes = np.flatnonzero(octets == settings.quote[0])
        if len(quotes) % 2 or not are_regular(octets, quotes, settings):
            return False
    if b"\r" not in rows:
        return True
    returns = np.flatnonzero(octets == _CR)
    behind = octets[np.minimum(returns + 1, len(octets) - 1)]
    return bool(((behind == _LF) | (np.searchsorted(quotes, returns) % 2 == 1)).all())


def _row_pattern(settings: CsvSettings) -> "re.Pattern[bytes]":
    """A row with the LF that ends it; what is between a closing quote and a delimiter is its fault."""
    delimiter = re.escape(settings.delimiter)
    if not settings.quote:
        return re.compile(rb"[^\n]*\n")
    quote = re.escape(settings.quote)
    quoted = rb"%s(?:[^%s]++|%s%s)*+%s[^%s\n]*+" % (quote, quote, quote, quote, quote, delimiter)
    field = rb"(?:%s|(?!%s)[^%s\n]*+)" % (quoted, quote, delimiter)
    return re.compile(rb"%s(?:%s%s)*+\n" % (field, delimiter, field))
