"""The members of Headrace's own JSON rows, each for all records at once (docs/layouts.md has the form)."""

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import arrow_binary
from headrace.formats.arrow_text import escaped
from headrace.formats.converted_records import ConvertedColumn, Form
from headrace.formats.encoding.json_kinds import JsonKind, json_kinds, null_texts
from headrace.formats.encoding.row_texts import Pieces, binary, joined, scattered
from headrace.model.columns import NULL_LENGTH, Column, Numbers, picked
from headrace.model.kafka_records import Headers

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
    parts: list[tuple[Numbers, Any]] = []
    if len(nulls):
        parts.append((nulls, pa.array([_label(name) + NULL] * len(nulls), pa.binary())))
    if len(plain):
        values = arrow_binary(picked(column, plain))
        if is_text:
            values = joined([_QUOTE, binary(escaped(values.cast(pa.string()))), _QUOTE], len(plain))
        parts.append((plain, joined([_label(name), values], len(plain))))
    if len(others):
        encoded = base64_texts(picked(column, others))
        parts.append((others, joined([_label(name + b"_base64") + _QUOTE, encoded, _QUOTE], len(others))))
    return [scattered(len(column), parts)]


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
