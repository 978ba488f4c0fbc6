"""The members of an archive's rows as columns: JSON's own texts, and arrays of Avro and Parquet."""

import base64
import binascii
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.formats.arrow import arrow_binary, column_of_arrow, lines_side_by_side, octets_at, struct_fields
from headrace.formats.json_batches import json_texts
from headrace.formats.record_columns import Faults, RowUnfit, ToJson, decoded_where, from_base64
from headrace.model.columns import NULL_LENGTH, Column, Headers, Numbers
from headrace.options.choices import Form

NULL: Final = msgspec.Raw(b"null")
# In the place of a member that a row has not: no JSON is as short.
ABSENT: Final = msgspec.Raw(b"")
# The member that says of JSON texts, in structs, which ones are the base64 of bytes.
BYTES_MARK: Final = "\x00bytes"
# The first member of structs that are such a text.
JSON_MARK: Final = "\x00json"
_TEXT: Final = msgspec.json.Decoder(str)
_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_BLANK: Final = 0x20
_ZERO, _NINE = 0x30, 0x39


def decoded_rows(
    rows: Column, decoder: msgspec.json.Decoder[Any], empty: Any, what: str, faults: Faults
) -> list[Any]:
    """One structure for each row; `empty` for a row that is none, which is a fault (`not_an_envelope`)."""
    found = _all_at_once(rows, decoder)
    if found is not None:
        return found
    result, view = [], memoryview(rows.buffer)
    spans = zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True)
    for row, (start, length) in enumerate(spans):
        try:
            text = b"null" if length == NULL_LENGTH else view[start : start + length]
            result.append(decoder.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            faults.add(row, "not_an_envelope", f"the row is not one of {what}")
            result.append(empty)
    return result


def _all_at_once(rows: Column, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    """The rows read as lines of one text, None where they do not be so or one of them does not fit."""
    if not len(rows) or bool((rows.lengths <= 0).any()):
        return None
    ends = rows.starts + rows.lengths
    if bool((rows.starts[1:] <= ends[:-1]).any()):
        return None
    first, last = int(rows.starts[0]), int(ends[-1])
    whole = first == 0 and last == len(rows.buffer)
    lines = rows.buffer if whole else memoryview(rows.buffer)[first:last]
    try:
        found = decoder.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # What stands between the rows is blank, unless there are more lines than rows.
    return found if len(found) == len(rows) else None


# -- Members of lines that are alike, found where they are ---------------------------------------------------

_LARGEST: Final = 2**31 - 1
# How many bytes more than in the first line may follow a member, beyond twice as many.
_SLACK_BYTES: Final = 64

Placed = tuple[dict[str, Column], dict[str, list[msgspec.Raw]]]


def placed_members(lines: Column, order: Sequence[str], raws: Container[str]) -> Placed | None:
    """The texts of each member of lines that have these alone, in this order and with nothing in between.

    None where a line is anything else, or may be. The columns have nulls for `null`; members of `raws` are
    given one by one instead. Lines are UTF-8, begin with `{` and end with `}`; names need no escapes.

    Names are searched with the signs around them, and one may be within a text or an object, so what they cut
    the lines into is then shown to be JSON, each by itself: a line that is put together from names and texts
    of JSON is an object of just these members.
    """
    cut = None if len(lines.buffer) > _LARGEST else _cut(lines, order)
    if cut is None:
        return None
    columns: dict[str, Column] = {}
    texts: dict[str, list[msgspec.Raw]] = {}
    for name, column in cut.items():
        if name not in raws and (plain := _plain(column)) is not None:
            columns[name] = plain
            continue
        side_by_side = lines_side_by_side(column)
        found = json_texts(side_by_side.buffer, side_by_side.starts, side_by_side.lengths)
        if found is None:
            return None
        if name in raws:
            texts[name] = found
        else:
            columns[name] = with_nulls(column)
    return columns, texts


def _plain(column: Column) -> Column | None:
    """The column side by side where all are strings without escapes, or all are whole numbers without a sign.

    None where one is neither, or may not be.
    """
    first = np.frombuffer(column.buffer, np.uint8)[column.starts]
    least, most = int(np.minimum.reduce(first)), int(np.maximum.reduce(first))
    if not (least == most == _QUOTE or _ZERO <= least <= most <= _NINE):
        return None
    found = column_of_arrow(arrow_binary(column))
    octets = np.frombuffer(found.buffer, np.uint8)
    last = octets[found.starts + found.lengths - 1]
    octets = octets[int(found.starts[0]) : int(found.starts[-1] + found.lengths[-1])]
    if most == _QUOTE:
        quotes = np.count_nonzero(octets == _QUOTE)
        is_closed = quotes == 2 * len(found) and bool((last == _QUOTE).all() and (found.lengths > 1).all())
        is_good = is_closed and not (octets == _BACKSLASH).any() and np.minimum.reduce(octets) >= _BLANK
    else:
        is_led_by_zero = bool(((first == _ZERO) & (found.lengths > 1)).any())
        is_good = (
            not is_led_by_zero and _ZERO <= np.minimum.reduce(octets) <= np.maximum.reduce(octets) <= _NINE
        )
    return found if is_good else None


def _cut(lines: Column, order: Sequence[str]) -> dict[str, Column] | None:
    """What is between the names; None where a line has not all of them in this order."""
    last = lines.starts + lines.lengths - 1
    head = b'{"%b":' % order[0].encode()
    if not _is_at(lines, lines.starts, last, head):
        return None
    found: dict[str, Column] = {}
    at = lines.starts + len(head)
    for name, following in zip(order, [*order[1:], None], strict=True):
        end, pattern = last, b""
        if following is not None:
            pattern = b',"%b":' % following.encode()
            place = _first(lines, at, last, pattern)
            if place is None:
                return None
            end = place
        found[name] = Column(buffer=lines.buffer, starts=at, lengths=end - at)
        at = end + len(pattern)
    return found


def _first(lines: Column, at: Numbers, last: Numbers, pattern: bytes) -> Numbers | None:
    """Where the pattern is in each line, from `at` on; None where it is not.

    What is before it is frequently as long in all lines. Where little follows it in the first one, it is
    searched near the ends, and not in what is before.
    """
    begin, end = int(at[0]), int(last[0])
    there = bytes(memoryview(lines.buffer)[begin:end]).find(pattern)
    if there < 0:
        return None
    if _is_at(lines, at + there, last, pattern):
        return at + there
    reach = 2 * (end - begin - there) + _SLACK_BYTES
    if there > reach:
        found = _search(lines, np.maximum(at, last - reach), last, pattern)
        if found is not None:
            return found
    return _search(lines, at, last, pattern)


def _is_at(lines: Column, at: Numbers, last: Numbers, text: bytes) -> bool:
    """True when the text is at each of these places, and ends before the last byte of each line."""
    if not bool((at + len(text) <= last).all()):
        return False
    return octets_at(lines.buffer, at, len(text)) == text * len(lines)


def _search(lines: Column, at: Numbers, last: Numbers, pattern: bytes) -> Numbers | None:
    found = np.asarray(pc.find_substring(_onwards(lines.buffer, at), pattern=pattern))
    place = at + found
    return place if bool((found >= 0).all() and (place + len(pattern) <= last).all()) else None


def _onwards(buffer: bytes | bytearray | memoryview, at: Numbers) -> Any:
    """A binary array of what is from each place to the next one, over the buffer's memory."""
    offsets = np.empty(len(at) + 1, np.int32)
    offsets[:-1], offsets[-1] = at, len(buffer)
    return pa.Array.from_buffers(pa.binary(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])


def joined(texts: Sequence[msgspec.Raw]) -> Column:
    """JSON texts side by side in one new buffer; `null` is a null."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(lengths)
    return with_nulls(Column(buffer=b"".join(texts), starts=ends - lengths, lengths=lengths))


def with_nulls(texts: Column) -> Column:
    """The column with a null where the JSON is `null`."""
    maybe = np.flatnonzero(texts.lengths == 4)  # noqa: PLR2004  # the length of null
    # No other JSON begins with n.
    nulls = maybe[np.frombuffer(texts.buffer, np.uint8)[texts.starts[maybe]] == ord("n")]
    if not len(nulls):
        return texts
    lengths = texts.lengths.copy()
    lengths[nulls] = NULL_LENGTH
    return Column(buffer=texts.buffer, starts=texts.starts, lengths=lengths)


def as_bytes(texts: Column, form: Form, what: str, faults: Faults) -> Column:
    """What each JSON text becomes. `auto` and `string` take the quotes off strings and keep other JSON."""
    if form is Form.JSON or not len(texts):
        return texts
    quoted = _is_quoted(texts)
    plain = _unquoted(texts, quoted, what, faults)
    if form is not Form.BASE64:
        return plain
    for row in np.flatnonzero(~quoted & (texts.lengths != NULL_LENGTH)).tolist():
        faults.add(row, "not_base64", f"the {what} is not base64: it is no text")
        plain.lengths[row] = NULL_LENGTH
    return from_base64(plain, what, faults)


def _is_quoted(texts: Column) -> Any:
    octets = np.frombuffer(texts.buffer, np.uint8)
    quoted = texts.lengths > 1
    quoted[quoted] = octets[texts.starts[quoted]] == _QUOTE
    return quoted


def _unquoted(texts: Column, quoted: Any, what: str, faults: Faults) -> Column:
    """The column with the text of strings in place of their JSON; other rows stay as they are."""
    starts = texts.starts + quoted
    lengths = texts.lengths - 2 * quoted
    extra: list[bytes] = []
    end = len(texts.buffer)
    for row in _escaped(texts, quoted).tolist():
        start, length = int(texts.starts[row]), int(texts.lengths[row])
        try:
            text = _TEXT.decode(memoryview(texts.buffer)[start : start + length]).encode()
        except (msgspec.DecodeError, UnicodeError):
            faults.add(row, "not_utf8", f"the {what} is a text that is no Unicode")
            text = b""
        extra.append(text)
        starts[row], lengths[row] = end, len(text)
        end += len(text)
    buffer = b"".join([texts.buffer, *extra]) if extra else texts.buffer
    return Column(buffer=buffer, starts=starts, lengths=lengths)


def _escaped(texts: Column, quoted: Any) -> Numbers:
    """The rows whose strings have a backslash, and so are not their own text."""
    if not quoted.any() or (isinstance(texts.buffer, bytes) and b"\\" not in texts.buffer):
        return np.zeros(0, np.int64)
    backslashes = np.flatnonzero(np.frombuffer(texts.buffer, np.uint8) == _BACKSLASH)
    if not len(backslashes):
        return np.zeros(0, np.int64)
    before = np.searchsorted(backslashes, texts.starts)
    behind = np.searchsorted(backslashes, texts.starts + np.maximum(texts.lengths, 0))
    return np.flatnonzero(quoted & (behind > before))


def bytes_of(text: msgspec.Raw, form: Form, what: str) -> bytes | None:
    """What one JSON text becomes, as `as_bytes` makes it of many; RowUnfit where it cannot."""
    octets = bytes(text)
    if octets == b"null":
        return None
    if form is Form.JSON:
        return octets
    if octets[:1] != b'"':
        if form is Form.BASE64:
            raise RowUnfit(f"the {what} is not base64: it is no text", reason="not_base64")
        return octets
    try:
        plain = _TEXT.decode(octets).encode()
        return base64.b64decode(plain, validate=True) if form is Form.BASE64 else plain
    except binascii.Error:
        raise RowUnfit(f"the {what} is not base64", reason="not_base64") from None
    except (msgspec.DecodeError, UnicodeError):
        raise RowUnfit(f"the {what} is a text that is no Unicode", reason="not_utf8") from None


_STRINGS: Final = (types.is_string, types.is_large_string, types.is_string_view)
_NUMBERS: Final = (types.is_integer, types.is_floating, types.is_null)
_BINARY: Final = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)


def is_text(kind: Any) -> bool:
    """Whether values of the type are texts."""
    return any(is_string(kind) for is_string in _STRINGS)


def structs_of(rows: Any) -> Any:
    """A RecordBatch or an array of structs as one array of structs."""
    return rows.to_struct_array() if isinstance(rows, pa.RecordBatch) else rows


def envelopes_of(rows: Any, what: str, faults: Faults) -> Any:
    """The rows as one array of structs; a row that is no struct is a fault (`not_an_envelope`)."""
    structs = structs_of(rows)
    if not types.is_struct(structs.type):
        _add_unfit(range(len(structs)), f"the row is not one of {what}", faults)
        return pa.array([{}] * len(structs), pa.struct([]))
    _add_unfit(_rows_where(structs.is_null()), f"the row is not one of {what}", faults)
    return structs


def struct_member(structs: Any, name: str, faults: Faults) -> Any:
    """As `member`, None also for what has no members itself, which is a fault of the rows that have it."""
    array = member(structs, name)
    if array is None or types.is_struct(array.type):
        return array
    return refused(array, name, faults)


def refused(array: Any, what: str, faults: Faults) -> None:
    """Notes what is there as faults (`not_an_envelope`): it is of a type that the envelope does not have."""
    _add_unfit(_rows_where(array.is_valid()), f"the envelope's {what} is of another type", faults)


def _rows_where(mask: Any) -> list[int]:
    rows: list[int] = np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()
    return rows


def _add_unfit(rows: Iterable[int], message: str, faults: Faults) -> None:
    for row in rows:
        faults.add(row, "not_an_envelope", message)


def member(structs: Any, name: str) -> Any:
    """The array of one member with the nulls of the structs, or None where there is no such member."""
    index = structs.type.get_field_index(name)
    return None if index < 0 else pc.struct_field(structs, [index])


def as_column(array: Any, form: Form, to_json: ToJson, what: str, faults: Faults) -> Column:
    """What each value becomes: bytes stay bytes; `auto` and `string` keep texts, of the rest JSON."""
    kind = array.type
    if any(is_binary(kind) for is_binary in _BINARY):
        # Avro and Parquet know bytes from text: base64 is what JSON and csv write them as.
        return json_column(array, to_json) if form is Form.JSON else column_of_arrow(array)
    if form is not Form.JSON and is_text(kind):
        texts = column_of_arrow(array)
        return from_base64(texts, what, faults) if form is Form.BASE64 else texts
    found = json_column(array, to_json)
    nulls = found.lengths == NULL_LENGTH
    # NaN by itself, whose JSON would be a null of Kafka; a variant's null is that of JSON.
    if nulls.any() and not isinstance(kind, pa.BaseExtensionType):
        for row in np.flatnonzero(nulls & np.asarray(array.is_valid())).tolist():
            faults.add(row, "not_a_number", f"the {what} is NaN or infinite, which JSON has no number for")
    column = as_bytes(found, form, what, faults)
    # Of a union with others: their JSON is base64, which the other forms keep or take off.
    is_marked = types.is_struct(kind) and kind.get_field_index(BYTES_MARK) >= 0
    if not is_marked or form not in {Form.AUTO, Form.STRING}:
        return column
    return decoded_where(
        column, np.asarray(member(array, BYTES_MARK).fill_null(fill_value=False)), what, faults
    )


def json_column(array: Any, to_json: ToJson) -> Column:
    """The JSON of each value; a null is a null."""
    return with_nulls(column_of_arrow(to_json(array)))


def int_column(array: Any, what: str, faults: Faults, *, missing: int) -> Numbers | None:
    """The numbers of an array, timestamps as milliseconds since 1970; `missing` for a null, None without one.

    What is no whole number of 64 bits is a fault of its row (`not_an_envelope`).
    """
    if array is None:
        return None
    kind = array.type
    if types.is_timestamp(kind):
        array = array.cast(pa.timestamp("ms", kind.tz), safe=False)
    elif not any(is_number(kind) for is_number in _NUMBERS):
        refused(array, what, faults)
        return np.full(len(array), missing, np.int64)
    try:
        whole = array.cast(pa.int64())
    except pa.ArrowInvalid:
        whole = _whole(array, what, faults)
    return np.asarray(whole.fill_null(missing).to_numpy(zero_copy_only=False), np.int64)


def _whole(array: Any, what: str, faults: Faults) -> Any:
    """The numbers one by one, nulls for those that are broken or too large, which are faults."""
    found: list[int | None] = []
    for row, value in enumerate(array.to_pylist()):
        fits = value is not None and value == value // 1 and -(2**63) <= value < 2**63
        found.append(int(value) if fits else None)
        if value is not None and not fits:
            _add_unfit([row], f"the {what} is no whole number of 64 bits", faults)
    return pa.array(found, pa.int64())


def headers_column(array: Any, form: Form, to_json: ToJson, rows: int, faults: Faults) -> list[Headers]:
    """The headers of each row: of a map, a list of key and value, or a struct whose members are headers.

    A member of a struct that is null was no header of the row.
    """
    if array is None or types.is_null(array.type):
        return [()] * rows
    if _is_struct(array.type):
        return _of_struct(array, form, to_json, faults)
    lists = array if not types.is_map(array.type) else _entries(array)
    flat = lists.flatten() if types.is_list(lists.type) or types.is_large_list(lists.type) else array
    is_pairs = _is_struct(flat.type) and flat.type.num_fields == 2  # noqa: PLR2004  # a name and a value
    if not is_pairs or not is_text(flat.type.field(0).type):
        refused(array, "headers", faults)
        return [()] * rows
    counts = pc.list_value_length(lists).fill_null(0).to_pylist()
    names = pc.struct_field(flat, [0]).to_pylist()
    # A fault of one header is one of its row.
    own = Faults()
    _add_unfit((index for index, name in enumerate(names) if name is None), "a header has no name", own)
    column = as_column(pc.struct_field(flat, [1]), form, to_json, "header", own)
    result, at = [], 0
    for row, count in enumerate(counts):
        result.append(tuple((names[each], column.get(each)) for each in range(at, at + count)))
        own.move(range(at, at + count), row, faults)
        at += count
    return result


def _is_struct(kind: Any) -> bool:
    """Whether values of the type have members, and are not the JSON of what has several types."""
    return bool(types.is_struct(kind)) and kind.get_field_index(JSON_MARK) != 0


def _entries(array: Any) -> Any:
    kind = array.type
    return array.cast(pa.list_(pa.struct([pa.field("k", kind.key_type), pa.field("v", kind.item_type)])))


def _of_struct(array: Any, form: Form, to_json: ToJson, faults: Faults) -> list[Headers]:
    found: list[list[tuple[str, bytes | None]]] = [[] for _ in range(len(array))]
    for field, values in zip(array.type, struct_fields(array), strict=True):
        column = as_column(values, form, to_json, "header", faults)
        for row in range(len(array)):
            if (value := column.get(row)) is not None:
                found[row].append((field.name, value))
    return [tuple(headers) for headers in found]
