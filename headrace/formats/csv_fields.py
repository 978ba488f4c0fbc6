"""The fields of CSV rows, column by column where that is certain, else row by row, and their JSON."""

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from headrace.formats.arrow import Pieces, joined
from headrace.formats.arrow_scalars import scalar_pieces
from headrace.formats.csv_rows import are_plain
from headrace.formats.lines import LineBlock
from headrace.model.rows import Numbers
from headrace.options.choices import CsvType, JsonFormat
from headrace.options.row_settings import CsvSettings

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
