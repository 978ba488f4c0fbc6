"""CSV taken apart: the rows of a stream, many at a time, and their fields as JSON.

As RFC 4180 has it. Where every quote begins or ends a field, or is next to another, a row ends at each LF
after an even number of quotes, and fields are found column by column. Only where some quote is elsewhere rows
and fields are found one by one.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from headrace.formats.arrow import Pieces, joined, scalar_pieces
from headrace.formats.lines import BOM, LineBlock, LongLine
from headrace.model.columns import Numbers
from headrace.options.choices import CsvType, JsonFormat
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
        self._chunks: list[bytes] = []
        self._held = self._wanted = 0
        self._dropped: _RowEnd | None = None  # of a row that is not held

    def cut(self, chunks: Iterator[bytes]) -> Iterator[LineBlock | LongLine]:
        """The rows, without LF or CRLF; the last LF may be missing."""
        for chunk in chunks:
            yield from self._feed(chunk)
        self._wanted = 0
        yield from self._feed(b"")
        if self._dropped is not None:
            yield self._long(self._held, self._held)
        elif self._held:
            # A row that is not ended by its quotes is one, too: whoever reads its fields says what is wrong.
            data = b"".join(self._chunks)
            yield self._block(data, np.array([len(data)]))

    def _feed(self, chunk: bytes) -> Iterator[LineBlock | LongLine]:
        if self._dropped is not None:
            end = self._dropped.find(chunk)
            if end is None:
                self._held += len(chunk)
                return
            yield self._long(self._held + end, self._held + end + 1)
            chunk = chunk[end + 1 :]
        self._chunks.append(chunk)
        self._held += len(chunk)
        if self._held < self._wanted:
            return
        data = b"".join(self._chunks) if len(self._chunks) > 1 else chunk
        ends = self._ends(data)
        cut = int(ends[-1]) + 1 if len(ends) else 0
        if cut:
            yield self._block(data[:cut] if cut < len(data) else data, ends)
        self._hold(data[cut:] if cut else data)

    def _hold(self, rest: bytes) -> None:
        self._chunks, self._held = ([rest] if rest else []), len(rest)
        self._wanted = min(2 * self._held, self._limit + 3) if self._held > _HELD_BYTES else 0
        if self._held > self._limit + 2:
            self._dropped, self._chunks, self._wanted = _RowEnd(self._settings), [], 0
            self._dropped.find(rest)

    def _long(self, size: int, length: int) -> LongLine:
        line = LongLine(begin=self._begin, after=self._begin + length, size=size)
        self._begin += length
        self._dropped, self._held = None, 0
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

    Arrow takes `"12"34` for 1234, a CR for an end of a row, and a byte order mark of the first row for none.
    """
    if rows.startswith(BOM):
        return False
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
    """A row with the LF that ends it."""
    field = _field_pattern(settings)
    return re.compile(rb"%s(?>(?:%s%s)*)\n" % (field, re.escape(settings.delimiter), field))


def _field_pattern(settings: CsvSettings) -> bytes:
    """A field; what is between a closing quote and a delimiter is its fault."""
    delimiter, quote = re.escape(settings.delimiter), re.escape(settings.quote)
    if not quote:
        return rb"[^%s\n]*+" % delimiter
    quoted = rb"%s(?>(?:[^%s]++|%s%s)*)%s[^%s\n]*+" % (quote, quote, quote, quote, quote, delimiter)
    return rb"(?:%s|(?!%s)[^%s\n]*+)" % (quoted, quote, delimiter)


class _At(Enum):
    """Where in a row its bytes so far have ended."""

    BEGIN = auto()  # of a field
    QUOTED = auto()
    QUOTE = auto()  # after one that ends a quoted field, or is the first of two
    TEXT = auto()


class _RowEnd:
    """Finds the LF that ends a row whose bytes come in chunks, as `_row_pattern` does; make one for each."""

    def __init__(self, settings: CsvSettings) -> None:
        self._quote = settings.quote
        field, delimiter = _field_pattern(settings), re.escape(settings.delimiter)
        self._fields = re.compile(rb"(?>(?:%s%s)*)" % (field, delimiter))
        quote = re.escape(settings.quote)
        self._quoted = re.compile(rb"(?>(?:[^%s]++|%s%s)*)" % (quote, quote, quote) if quote else b"")
        self._after_text = re.compile(rb"[%s\n]" % delimiter if self._quote else rb"\n")
        self._at = _At.BEGIN

    def find(self, chunk: bytes) -> int | None:
        """Where the LF is in the row's next bytes; None where the row continues after them."""
        at = 0
        while at < len(chunk):
            match self._at:
                case _At.BEGIN:
                    # Whole fields first, and then the one that is not.
                    found = self._fields.match(chunk, at)
                    at = at if found is None else found.end()
                    if at < len(chunk):
                        at = self._quoted_or_text(chunk, at)
                case _At.QUOTED:
                    found = self._quoted.match(chunk, at)
                    at = at if found is None else found.end()
                    if at < len(chunk):
                        at, self._at = at + 1, _At.QUOTE
                case _At.QUOTE:
                    at = self._quoted_or_text(chunk, at)
                case _At.TEXT:
                    found = self._after_text.search(chunk, at)
                    if found is None:
                        return None
                    if found[0] == b"\n":
                        return found.start()
                    at, self._at = found.end(), _At.BEGIN
        return None

    def _quoted_or_text(self, chunk: bytes, at: int) -> int:
        """Where to continue: after a quote within quotes, else at text."""
        is_quoted = bool(self._quote) and chunk.startswith(self._quote, at)
        self._at = _At.QUOTED if is_quoted else _At.TEXT
        return at + is_quoted


Fault = tuple[str, str]

_LONG_MAX: Final = 2**63 - 1
# What JSON takes as it stands.
_LONG: Final = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")

# The limits of rows are counted elsewhere.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFields:
    """Rows that were read: one string array a column, which rows of the block they are, what others lack."""

    columns: list[Any]
    rows: Numbers
    faults: dict[int, Fault]


class FieldReader:
    """Reads the fields of rows that have `width` of them each; make one for each object."""

    def __init__(self, settings: CsvSettings, width: int) -> None:
        self._settings = settings
        self._width = width
        self._quote = settings.quote.decode() or None
        names = [str(index) for index in range(width)]
        self._read_options = pacsv.ReadOptions(column_names=names, use_threads=False, block_size=2**31 - 1)
        self._parse_options = pacsv.ParseOptions(
            delimiter=settings.delimiter.decode(),
            quote_char=self._quote or False,
            newlines_in_values=self._quote is not None,
            ignore_empty_lines=width > 1,
        )
        self._convert_options = pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=settings.has_nulls,
            quoted_strings_can_be_null=False,
        )

    def read(self, block: LineBlock, rows: Numbers) -> CsvFields:
        """The fields of neighbouring rows of the block (blank ones between them apart)."""
        begin, end = int(block.starts[rows[0]]), int(block.nexts[rows[-1]])
        data = block.buffer if end - begin == len(block.buffer) else block.buffer[begin:end]
        if not are_plain(data, self._settings):
            return self._one_by_one(block, rows)
        if self._settings.has_nulls and not data.endswith(b"\n"):
            # At the end of its input Arrow takes an empty field for quoted where the one before it was.
            data += b"\n"
        try:
            table = pacsv.read_csv(
                pa.BufferReader(pa.py_buffer(data)),
                read_options=self._read_options,
                parse_options=self._parse_options,
                convert_options=self._convert_options,
            )
        except pa.ArrowInvalid:
            return self._one_by_one(block, rows)
        if len(table) != len(rows):
            return self._one_by_one(block, rows)
        return CsvFields(columns=[column.combine_chunks() for column in table.columns], rows=rows, faults={})

    def _one_by_one(self, block: LineBlock, rows: Numbers) -> CsvFields:
        faults: dict[int, Fault] = {}
        good, found = [], []
        for row in rows.tolist():
            fields = self.fields(block.buffer[block.starts[row] : block.ends[row]])
            if isinstance(fields, tuple):
                faults[row] = fields
            else:
                good.append(row)
                found.append(fields)
        columns = [pa.array([fields[index] for fields in found], pa.string()) for index in range(self._width)]
        return CsvFields(columns=columns, rows=np.array(good, np.int64), faults=faults)

    def fields(self, row: bytes) -> Sequence[str | None] | Fault:
        """The fields of one row, or why it has none."""
        fields = row_fields(row, self._settings)
        if isinstance(fields, tuple):
            return fields
        if len(fields) == self._width:
            return _nulled(row, fields, self._settings) if self._settings.has_nulls else fields
        return "wrong_fields", f"the row has {len(fields)} fields instead of {self._width}"


def _nulled(row: bytes, fields: list[str], settings: CsvSettings) -> list[str | None]:
    """The fields of a row with null for those that are not even quoted: csv.reader does not tell."""
    found: list[str | None] = []
    quote, at = settings.quote, 0
    for field in fields:
        is_quoted = bool(quote) and row.startswith(quote, at)
        stored = field.encode()
        size = len(stored) + (2 + stored.count(quote) if is_quoted else 0)
        found.append(None if not size else field)
        at += size + 1
    return found


def row_fields(row: bytes, settings: CsvSettings) -> list[str] | Fault:
    """The fields of a row by themselves, or why it is not a row."""
    try:
        text = row.decode()
    except UnicodeDecodeError as error:
        return "not_utf8", f"the row is not UTF-8: {error.reason} at byte {error.start}"
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=settings.delimiter.decode(),
        quotechar=settings.quote.decode() or None,
        quoting=csv.QUOTE_MINIMAL if settings.quote else csv.QUOTE_NONE,
        strict=True,
    )
    try:
        found = list(reader)
    except csv.Error as error:
        return "not_csv", f"the row is no CSV: {error}"
    if len(found) > 1 or text.endswith("\r"):
        return "not_csv", "the row is no CSV: it has a CR outside quotes"
    return found[0] if found else [""]


class FieldWriter:
    """Writes rows as JSON: objects under `names`, or arrays; make one for each object."""

    def __init__(self, names: tuple[str, ...] | None, settings: CsvSettings, width: int) -> None:
        kinds = dict(settings.types)
        self._kinds = [kinds.get(names[index]) if names is not None else None for index in range(width)]
        self._names = names
        self._labels = [
            f"{',' if index else ''}"
            + ("" if names is None else f"{json.dumps(names[index], ensure_ascii=False)}:")
            for index in range(width)
        ]

    @property
    def label_bytes(self) -> int:
        """What the JSON of a row takes next to its fields' texts."""
        return sum(len(label.encode()) + 2 for label in self._labels) + 2

    def write(self, fields: CsvFields) -> tuple[Any, CsvFields]:
        """The JSON of each row, and the fields with the faults of values that are none of their type."""
        faults = dict(fields.faults)
        pieces: Pieces = ["[" if self._names is None else "{"]
        for index, (column, kind) in enumerate(zip(fields.columns, self._kinds, strict=True)):
            pieces.append(self._labels[index])
            if kind is None or kind is CsvType.STRING:
                pieces += _with_nulls(scalar_pieces(column, JsonFormat.ISO) or [], column)
                continue
            texts, wrong = typed_texts(column.fill_null(""), kind)
            pieces.append(texts)
            name = "" if self._names is None else self._names[index]
            for row in wrong:
                faults.setdefault(
                    int(fields.rows[row]),
                    ("wrong_type", f"the value of the column {name[:100]!r} is no {kind}"),
                )
        pieces.append("]" if self._names is None else "}")
        texts = joined(pieces, len(fields.rows))
        good = np.array([row not in faults for row in fields.rows.tolist()], bool)
        if len(faults) == len(fields.faults):
            return texts, fields
        return texts.filter(pa.array(good)), CsvFields(columns=[], rows=fields.rows[good], faults=faults)


def _with_nulls(pieces: Pieces, column: Any) -> Pieces:
    """The pieces of a column with `null` where it has one."""
    if not column.null_count:
        return pieces
    return [pc.if_else(column.is_valid(), joined(pieces, len(column)), "null")]


def typed_texts(column: Any, kind: CsvType) -> tuple[Any, list[int]]:
    """JSON of each value as the type, `null` for an empty one, and the rows whose value is none."""
    pattern = {CsvType.LONG: _LONG, CsvType.BOOLEAN: "^(true|false)$"}.get(kind, _NUMBER)
    if pc.all(pc.match_substring_regex(column, pattern)).as_py() is not False:
        return column, []
    texts, wrong = [], []
    for row, value in enumerate(column.to_pylist()):
        text = _typed(value.strip(), kind)
        if text is None:
            wrong.append(row)
        texts.append(text or "null")
    return pa.array(texts, pa.string()), wrong


def _typed(value: str, kind: CsvType) -> str | None:
    """One value as JSON; None when it is not of the type."""
    if not value:
        return "null"
    match kind:
        case CsvType.BOOLEAN:
            return value.lower() if value.lower() in ("true", "false") else None
        case CsvType.LONG:
            number = int(value) if _INTEGER.fullmatch(value) else None
            return None if number is None or not -_LONG_MAX - 1 <= number <= _LONG_MAX else str(number)
        case CsvType.DOUBLE if value.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            return "null"
        case _:
            return _number(value)


def _number(value: str) -> str | None:
    """A number as JSON takes it, digit for digit."""
    if re.fullmatch(_NUMBER, value):
        return value
    if not _DECIMAL.fullmatch(value):
        return None
    sign, digits = ("-" if value[0] == "-" else ""), value.lstrip("+-")
    head, mark, exponent = re.match(r"([0-9.]+)([eE]?)(.*)", digits).groups()  # type: ignore[union-attr]  # it was matched as a number before
    whole, _, fraction = head.partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{'.' if fraction else ''}{fraction}{mark}{exponent}"
