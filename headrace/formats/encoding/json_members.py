"""The members of Headrace's own JSON rows, each for all records at once (docs/layouts.md has the form)."""

from enum import IntEnum
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary, column_of_arrow, escaped, lines_side_by_side
from headrace.formats.converted_records import ConvertedColumn, Form
from headrace.formats.encoding.encoder import Pieces, binary, joined, scattered
from headrace.formats.json_batches import are_all_json, are_objects, fault, is_json
from headrace.model.columns import NULL_LENGTH, Column, Headers, Numbers, column_of, picked

# -- Which values are JSON, for a whole column at once: only where one is not are they looked at one by one --

_BLANK: Final = 0x20
_FEED_OCTET: Final = 0x0A
_FIRST: Final = np.isin(np.arange(256), np.frombuffer(b'{["-0123456789tfn', np.uint8))
# As few rows are looked at one by one at once; more are cut in halves.
_SINGLY: Final = 16
# So many lines are in the processor's cache while they are looked at several times.
_ROWS_AT_ONCE: Final = 1024
# How many times larger than its values a buffer may be for it to be searched as a whole.
_SPARSE: Final = 4


class JsonKind(IntEnum):
    """What a value is: no JSON, JSON that may be in a line, or JSON with line feeds or blanks around."""

    NONE = 0
    PLAIN = 1
    LOOSE = 2


def json_kinds(column: Column) -> npt.NDArray[np.int8]:
    """The JsonKind of each value; a null is NONE."""
    kinds = np.zeros(len(column), np.int8)
    column = _packed(column)
    rows = np.flatnonzero(column.lengths > 0)
    if not len(rows):
        return kinds
    octets = np.frombuffer(column.buffer, np.uint8)
    starts, lengths = column.starts[rows], column.lengths[rows]
    loose = (octets[starts] <= _BLANK) | (octets[starts + lengths - 1] <= _BLANK)
    loose |= _with_line_feeds(octets, starts, lengths)
    for row in rows[loose].tolist():
        if fault(column.get(row) or b"") is None:
            kinds[row] = JsonKind.LOOSE
    likely = rows[~loose & _FIRST[octets[starts]]]
    kinds[_json_rows(picked(column, likely), likely)] = JsonKind.PLAIN
    return kinds


def _packed(column: Column) -> Column:
    """The column side by side, where it is few rows of a large buffer, which would be searched as a whole."""
    if len(column.buffer) <= _SPARSE * int(np.maximum(column.lengths, 0).sum()):
        return column
    return column_of_arrow(arrow_binary(column))


def _with_line_feeds(
    octets: npt.NDArray[np.uint8], starts: Numbers, lengths: Numbers
) -> npt.NDArray[np.bool_]:
    first, behind = int(starts.min()), int((starts + lengths).max())
    feeds = np.flatnonzero(octets[first:behind] == _FEED_OCTET) + first
    if not len(feeds):
        return np.zeros(len(starts), np.bool_)
    return np.searchsorted(feeds, starts + lengths) > np.searchsorted(feeds, starts)


def _json_rows(column: Column, rows: Numbers) -> Numbers:
    """Those of `rows` whose values, which have no line feeds and are not empty, are JSON."""
    if not len(rows) or _is_all_json(column):
        return rows
    if len(rows) <= _SINGLY:
        good = [index for index in range(len(rows)) if fault(column.get(index) or b"") is None]
        return rows[np.array(good, np.int64)]
    middle = len(rows) // 2
    first, last = slice(0, middle), slice(middle, None)
    return np.concatenate(
        [_json_rows(picked(column, first), rows[first]), _json_rows(picked(column, last), rows[last])]
    )


def _is_all_json(column: Column) -> bool:
    lines = lines_side_by_side(column)
    return are_all_json(lines.buffer, lines.starts, lines.lengths)


def json_lines(column: Column) -> Column | None:
    """The same texts as lines of one buffer, where each is JSON that may be in a line and none is null.

    None where one is not, or may not be.
    """
    if not len(column) or int(np.minimum.reduce(column.lengths)) <= 0:
        return None
    # What is no JSON at all is not copied for it.
    if not _FIRST[np.frombuffer(column.buffer, np.uint8)[column.starts[0]]]:
        return None
    lines = lines_side_by_side(column)
    for begin in range(0, len(lines), _ROWS_AT_ONCE):
        if not _are_json_lines(lines.buffer, picked(lines, slice(begin, begin + _ROWS_AT_ONCE))):
            return None
    return lines


def _are_json_lines(buffer: Any, lines: Column) -> bool:
    """True when these neighbours are JSON, with no line feeds in it and no blanks around; none is `null`."""
    begin, end = int(lines.starts[0]), int(lines.starts[-1] + lines.lengths[-1]) + 1
    text = buffer[begin:end]
    octets = np.frombuffer(text, np.uint8)
    if np.count_nonzero(octets == _FEED_OCTET) != len(lines):
        return False
    starts = lines.starts - begin
    if are_objects(text, starts, lines.lengths):
        return is_json(text, len(lines))
    first, last = octets[starts], octets[starts + (lines.lengths - 1)]
    if not _FIRST[first].all() or bool((last <= _BLANK).any()) or bool((first == ord("n")).any()):
        return False
    return are_all_json(text, starts, lines.lengths)


def compacted(column: Column, rows: Numbers) -> Column:
    """The column with the JSON of these rows without white space between its parts; digits stay."""
    texts = [column.get(row) for row in range(len(column))]
    for row in rows.tolist():
        texts[row] = msgspec.json.format(texts[row] or b"", indent=-1)
    return column_of(texts)


def null_texts(column: Column, kinds: npt.NDArray[np.int8]) -> Numbers:
    """The rows whose JSON is `null`."""
    octets = np.frombuffer(column.buffer, np.uint8)
    # No other JSON that begins with n is there.
    plain = np.flatnonzero((kinds == JsonKind.PLAIN) & (column.lengths == 4))  # noqa: PLR2004  # the length of null
    nulls = plain[octets[column.starts[plain]] == ord("n")]
    loose = [
        row
        for row in np.flatnonzero(kinds == JsonKind.LOOSE).tolist()
        if (column.get(row) or b"").strip() == b"null"
    ]
    return np.concatenate([nulls, np.array(loose, np.int64)])


def nulled(column: Column, rows: Numbers) -> Column:
    """The column with nulls in these rows."""
    lengths = column.lengths.copy()
    lengths[rows] = NULL_LENGTH
    return Column(buffer=column.buffer, starts=column.starts, lengths=lengths)


# -- The members of Headrace's own JSON rows, each for all records at once (docs/layouts.md has the form) ----

NULL: Final = b"null"
_QUOTE: Final = b'"'


def text_member(name: bytes, column: ConvertedColumn) -> Pieces:
    """`name` with each value as a text, or `<name>_base64` where it is no UTF-8."""
    texts = column.texts()
    if bool((texts.lengths == NULL_LENGTH).all()):
        return [_label(name), NULL]
    strings = as_strings(texts)
    if strings is not None and not strings.null_count:
        return [_label(name) + _QUOTE, binary(escaped(strings)), _QUOTE]
    nulls = np.flatnonzero(texts.lengths == NULL_LENGTH)
    rows = np.flatnonzero(texts.lengths != NULL_LENGTH)
    valid = np.ones(len(rows), np.bool_) if strings is not None else utf8_rows(picked(texts, rows))
    return _mixed(name, texts, nulls, rows[valid], rows[~valid], is_text=True)


def value_member(name: bytes, column: ConvertedColumn) -> Pieces:
    """`name` with each value as JSON that is copied; bytes that are not in `<name>_base64`."""
    texts = column.texts()
    if column.form is Form.TEXT:
        return [_label(name), *quoted(texts)]
    if column.form is not Form.BYTES:
        return [_label(name), copied(texts)]
    if json_lines(texts) is not None:
        return [_label(name), arrow_binary(texts)]
    kinds = json_kinds(texts)
    plain = kinds == JsonKind.PLAIN
    plain[null_texts(texts, kinds)] = False
    if bool(plain.all()):
        return [_label(name), arrow_binary(texts)]
    is_null = texts.lengths == NULL_LENGTH
    others = np.flatnonzero(~plain & ~is_null)
    return _mixed(name, texts, np.flatnonzero(is_null), np.flatnonzero(plain), others, is_text=False)


def _label(name: bytes) -> bytes:
    return b'"' + name + b'":'


def _mixed(
    name: bytes, column: Column, nulls: Numbers, plain: Numbers, others: Numbers, *, is_text: bool
) -> Pieces:
    """Members of rows that differ in what they are: nulls, those that are copied, those in base64."""
    of_rows: list[tuple[Numbers, Any]] = []
    if len(nulls):
        of_rows.append((nulls, pa.array([_label(name) + NULL] * len(nulls), pa.binary())))
    if len(plain):
        values = arrow_binary(picked(column, plain))
        if is_text:
            values = joined([_QUOTE, binary(escaped(values.cast(pa.string()))), _QUOTE], len(plain))
        of_rows.append((plain, joined([_label(name), values], len(plain))))
    if len(others):
        encoded = base64_texts(picked(column, others))
        of_rows.append((others, joined([_label(name + b"_base64") + _QUOTE, encoded, _QUOTE], len(others))))
    return [scattered(len(column), of_rows)]


def base64_texts(column: Column) -> Any:
    """The base64 of each value, which is no null, as a binary array."""
    import polars as pl

    return pl.Series(pl.from_arrow(arrow_binary(column))).bin.encode("base64").to_arrow().cast(pa.binary())


def copied(texts: Column) -> Any:
    """JSON texts as they are, `null` for a null."""
    array = arrow_binary(texts)
    return pc.fill_null(array, NULL) if array.null_count else array


def quoted(texts: Column) -> Pieces:
    """Each text, which is UTF-8, as a JSON string; `null` for a null."""
    strings = arrow_binary(texts).cast(pa.string())
    if not strings.null_count:
        return [_QUOTE, binary(escaped(strings)), _QUOTE]
    whole = joined([_QUOTE, binary(escaped(strings)), _QUOTE], len(texts))
    return [pc.fill_null(whole, NULL)]


def as_strings(column: Column) -> Any | None:
    """The values as a string array with nulls; None where one is no UTF-8."""
    try:
        return arrow_binary(column).cast(pa.string())
    except pa.ArrowInvalid:
        return None


def utf8_rows(column: Column) -> npt.NDArray[np.bool_]:
    """True for each value that is UTF-8; a null is."""
    return np.fromiter(
        (_is_utf8(column.get(row) or b"") for row in range(len(column))), np.bool_, len(column)
    )


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def header_lists(headers: list[Headers]) -> Any:
    """The JSON list of each record's headers. Equal ones, which are frequent, are written once."""
    known: dict[Headers, bytes] = {}
    texts = []
    for each in headers:
        text = known.get(each)
        if text is None:
            text = known[each] = b"[" + b",".join(_header(name, value) for name, value in each) + b"]"
        texts.append(text)
    return pa.array(texts, pa.binary())


def _header(name: str, value: bytes | None) -> bytes:
    entry: dict[str, str | bytes | None] = {"key": name}
    if value is None or _is_utf8(value):
        entry["value"] = None if value is None else value.decode()
    else:
        entry["value_base64"] = value  # msgspec writes bytes as base64
    return msgspec.json.encode(entry)
