"""Rows of the kind `columns`: JSON and Arrow batches as the columns of a schema, and what does not fit them.

Batches of JSON are read by Arrow at once. A batch with a row that Arrow does not take for this schema is
read row by row, so that one value that does not fit costs its own batch, and each row keeps what fits.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.model.columns import Column
from spark.frames.arrow_casts import cast, cast_each, has_more, json_texts, without_lost
from spark.frames.column_types import (
    MEMBERS,
    RESERVED,
    Unfit,
    finished,
    fitted,
    merged,
    spelled_otherwise,
    type_of_json,
    unrounded,
)
from spark.frames.frame_options import Evolution

_BRACE: Final = ord("{")
_NO_OBJECT: Final = "the row is not a JSON object, so it has no columns"


class NewColumns(Exception):
    """Rows have columns that the schema does not have; the types are Arrow's."""

    def __init__(self, columns: list[tuple[str, Any]]) -> None:
        super().__init__(", ".join(name for name, _ in columns))
        self.columns = columns


@dataclass(frozen=True, slots=True)
class BadColumnRow:
    """A row that has no columns, or one whose value fits its column nowhere."""

    row: int
    message: str


@dataclass(frozen=True, slots=True)
class Columns:
    """The data columns of some rows, `rescued` the JSON of what did not fit; `bad` rows are left out.

    `count` rows are there, whether the data has columns or not. `kept` are these, in the order they came;
    None: all.
    """

    count: int
    arrays: list[Any]
    rescued: Any | None
    bad: tuple[BadColumnRow, ...] = ()
    kept: Any | None = None


class ColumnReader:
    """Makes columns of one schema. `fields` are those of the data: no partition column, nothing rescued.

    `ignored` are members of rows in whose place a partition column is.
    `has_rescue`: what does not fit goes into `_rescued_data`; without it a value that does not fit makes
    its row a bad one, and columns of which the schema knows nothing are left out where it was given by the
    user.
    """

    def __init__(
        self,
        fields: list[Any],
        *,
        ignored: frozenset[str],
        has_rescue: bool,
        is_inferred: bool,
        evolution: Evolution,
        is_text: bool,
    ) -> None:
        self._fields = fields
        self._names = {field.name for field in fields} | ignored
        self._lower_names = {name.lower() for name in self._names | RESERVED}
        self._has_rescue = has_rescue
        self._refuses_new = is_inferred and evolution is not Evolution.RESCUE
        self._sees_new = has_rescue or self._refuses_new
        self._is_text = is_text
        self._parse = self._parse_options("infer" if self._sees_new else "ignore")
        # Within lists and structs NaN would not be seen.
        is_flat = not any(pa.types.is_nested(field.type) for field in fields)
        self._strict = self._parse_options("error") if is_flat else None
        self._taken: tuple[Column, list[Any]] | None = None

    @property
    def wanted(self) -> frozenset[str] | None:
        """The columns that rows need to be read with; None for all, where one more would be seen."""
        return None if self._sees_new else frozenset(field.name for field in self._fields)

    # -- rows of JSON
    # ------------------------------------------------------------------------------------------

    def of_json(self, values: Column) -> Columns:
        """The columns of these rows; NewColumns where the schema refuses what it does not have."""
        if len(values):
            arrays = self._of_taken(values) or self._at_once(values, self._parse)
            if arrays is not None:
                return self._filled(Columns(len(values), arrays, None))
        return self._filled(self._row_by_row(values))

    def fit(self, lines: Column) -> bool:
        """As a LineReader has it: True when the lines are JSON, and `of_json` has their columns already.

        Arrow takes two kinds of text that are not JSON: NaN and Infinity, which show where all members are
        columns, and any depth, of which columns without members have none.
        """
        if self._strict is None:
            return False
        arrays = self._at_once(lines, self._strict)
        if arrays is None or not all(map(_is_finite, arrays)):
            # Such lines seldom come alone: others are not read twice for them.
            self._strict = None
            return False
        self._taken = lines, arrays
        return True

    def _of_taken(self, values: Column) -> list[Any] | None:
        """The columns of these rows where `fit` has read them."""
        if self._taken is None:
            return None
        lines, arrays = self._taken
        first = int(np.searchsorted(lines.starts, values.starts[0]))
        part = slice(first, first + len(values))
        if values.buffer is lines.buffer and (
            np.array_equal(lines.starts[part], values.starts)
            and np.array_equal(lines.lengths[part], values.lengths)
        ):
            return [array.slice(first, len(values)) for array in arrays]
        # Rows are not as they lie in the object, so they are read in vain.
        self._strict = self._taken = None
        return None

    def _parse_options(self, about_others: str) -> Any | None:
        """What Arrow needs to know; None where it has no way to read a column's type from JSON."""
        read = []
        for field in self._fields:
            kind = _read_as(field.type)
            if kind is None:
                return None
            read.append(pa.field(field.name, kind))
        if self._is_text:
            return None
        return pj.ParseOptions(
            explicit_schema=pa.schema(read),
            newlines_in_values=False,
            unexpected_field_behavior=about_others,
        )

    def _at_once(self, values: Column, options: Any | None) -> list[Any] | None:  # noqa: PLR0911  # each a reason to look closer
        """The columns as Arrow reads them; None where rows have to be looked at one by one."""
        octets = np.frombuffer(values.buffer, np.uint8)
        # Arrow 26 ends the process at a row that is `null`, so what is no object is kept from it.
        if options is None or bool((values.lengths <= 0).any()):
            return None
        if not bool((octets[values.starts] == _BRACE).all()):
            return None
        content = _lines(values)
        reading = pj.ReadOptions(use_threads=False, block_size=len(content) + 1)
        try:
            table = pj.read_json(pa.BufferReader(content), read_options=reading, parse_options=options)
        except pa.ArrowException:
            return None
        if table.num_rows != len(values):
            return None
        if self._sees_new and any(name not in self._names for name in table.column_names):
            return None
        arrays = []
        for field in self._fields:
            array = _combined(table.column(field.name))
            if not array.type.equals(field.type):
                if pa.types.is_nested(field.type):
                    # A struct has members that the column does not have.
                    return None
                try:
                    array = array.cast(field.type)
                except pa.ArrowException:
                    return None
            arrays.append(array)
        return unrounded(arrays, content)

    def _row_by_row(self, values: Column) -> Columns:
        columns: list[list[Any]] = [[] for _ in self._fields]
        rescued: list[str | None] = []
        bad: list[BadColumnRow] = []
        kept: list[int] = []
        new: dict[str, Any] = {}
        for row, raw in enumerate(values.each(0, len(values))):
            members = _members(raw)
            if isinstance(members, str):
                bad.append(BadColumnRow(row, members))
                continue
            found, misfits = self._row(members)
            unknown = {name: bytes(value) for name, value in members.items() if name not in self._names}
            if self._refuses_new:
                for name in filter(self._is_new, unknown):
                    new[name] = merged(new.get(name, pa.null()), type_of_json(unknown[name]))
            if misfits and not self._has_rescue:
                name = next(iter(misfits))
                bad.append(BadColumnRow(row, f"the value of the column {name!r} is not one of its type"))
                continue
            for column, value in zip(columns, found, strict=True):
                column.append(value)
            rescued.append(_rescue_text({**misfits, **unknown}) if self._has_rescue else None)
            kept.append(row)
        if new:
            raise _new_columns(new)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._fields, strict=True)]
        return Columns(
            len(kept),
            arrays,
            pa.array(rescued, pa.string()) if any(rescued) else None,
            tuple(bad),
            np.array(kept, np.int64) if bad else None,
        )

    def _is_new(self, name: str) -> bool:
        """Whether there can be a column of this name: another spelling of one that is there is rescued."""
        return name.lower() not in self._lower_names

    def _row(self, members: dict[str, msgspec.Raw]) -> tuple[list[Any], dict[str, bytes]]:
        """The values of a row, null for what does not fit, and the JSON of that."""
        found: list[Any] = []
        misfits: dict[str, bytes] = {}
        for field in self._fields:
            raw = members.get(field.name)
            if raw is None:
                found.append(None)
                continue
            try:
                value = fitted(bytes(raw), field.type, is_text=self._is_text, is_pruned=not self._sees_new)
                found.append(value)
            except (Unfit, RecursionError):
                found.append(None)
                misfits[field.name] = bytes(raw)
        return found, misfits

    # -- rows of Arrow
    # -----------------------------------------------------------------------------------------

    def of_arrow(self, batch: Any) -> Columns:
        """The same for a batch of Arrow, of Parquet: by column, and by row where a value does not fit."""
        unknown = [name for name in batch.schema.names if name not in self._names]
        new = [name for name in unknown if self._is_new(name)]
        if new and self._refuses_new:
            raise _new_columns({name: batch.schema.field(name).type for name in new})
        rescues: list[tuple[str, Any]] = []
        arrays = []
        for field in self._fields:
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                arrays.append(pa.nulls(batch.num_rows, field.type))
                continue
            array = batch.column(index)
            if self._has_rescue and has_more(array.type, field.type):
                array, lost = without_lost(array, field.type)
                rescues.append((field.name, lost))
            made = cast(array, field.type)
            if made is None:
                made, misfits = cast_each(array, field.type)
                rescues.append((field.name, misfits))
            arrays.append(made)
        if not self._has_rescue:
            bad = _misfitting(rescues, batch.num_rows)
            if bad:
                kept = np.delete(np.arange(batch.num_rows), [each.row for each in bad])
                return self._filled(
                    Columns(len(kept), [array.take(pa.array(kept)) for array in arrays], None, bad, kept)
                )
            return self._filled(Columns(batch.num_rows, arrays, None))
        rescues += [(name, batch.column(batch.schema.get_field_index(name))) for name in unknown]
        return self._filled(Columns(batch.num_rows, arrays, _rescue_texts(rescues, batch.num_rows)))

    def _filled(self, columns: Columns) -> Columns:
        """The same without rows that have null where the schema has NOT NULL: Spark takes none there."""
        lacking: dict[int, str] = {}
        for field, array in zip(self._fields, columns.arrays, strict=True):
            if not field.nullable and array.null_count:
                message = f"the column {field.name!r} is NOT NULL, and the row has no value for it"
                rows = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist()
                lacking = dict.fromkeys(rows, message) | lacking
        if not lacking:
            return columns
        rows_before = np.arange(columns.count) if columns.kept is None else columns.kept
        left = np.delete(np.arange(columns.count), sorted(lacking))
        bad = [BadColumnRow(int(rows_before[row]), message) for row, message in lacking.items()]
        taken = pa.array(left)
        return Columns(
            len(left),
            [array.take(taken) for array in columns.arrays],
            None if columns.rescued is None else columns.rescued.take(taken),
            tuple(sorted((*columns.bad, *bad), key=lambda each: each.row)),
            rows_before[left],
        )


def _new_columns(types: dict[str, Any]) -> NewColumns:
    """The refusal of these columns, of each in the first of its spellings."""
    others = spelled_otherwise(types, ())
    return NewColumns([(name, finished(kind)) for name, kind in types.items() if name not in others])


def _members(raw: bytes | None) -> dict[str, msgspec.Raw] | str:
    """The members of a row, as they were written; else why it has none."""
    try:
        return _NO_OBJECT if raw is None else MEMBERS.decode(raw)
    except msgspec.DecodeError:
        return _NO_OBJECT
    except RecursionError:
        return "the row is nested too deep to be read, about a thousand levels"


def _rescue_text(values: dict[str, bytes]) -> str | None:
    """A JSON object of these members."""
    if not values:
        return None
    members = b",".join(msgspec.json.encode(name) + b":" + raw for name, raw in values.items())
    return (b"{" + members + b"}").decode()


def _rescue_texts(rescues: list[tuple[str, Any]], count: int) -> Any | None:
    """For each row the JSON of what these columns have in it; None where no row has anything."""
    if not rescues or all(column.null_count == len(column) for _, column in rescues):
        return None
    texts: list[str | None] = []
    lists = [(name, json_texts(column)) for name, column in rescues]
    for row in range(count):
        members = {name: text.encode() for name, values in lists if (text := values[row]) is not None}
        texts.append(_rescue_text(members))
    return pa.array(texts, pa.string())


def _misfitting(rescues: list[tuple[str, Any]], count: int) -> tuple[BadColumnRow, ...]:
    bad: dict[int, str] = {}
    for name, column in rescues:
        for row in np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist():
            bad.setdefault(row, f"the value of the column {name!r} is not one of its type")
    assert all(row < count for row in bad)
    return tuple(BadColumnRow(row, message) for row, message in sorted(bad.items()))


def _read_as(kind: Any) -> Any | None:
    """The type as which Arrow reads a column of JSON before it is cast; None where there is none."""
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        # Its parser takes texts with a zone for times without one.
        return pa.string()
    if pa.types.is_struct(kind):
        fields = [(field.name, _read_as(field.type)) for field in kind]
        return None if any(each is None or each != kind.field(name).type for name, each in fields) else kind
    if pa.types.is_list(kind):
        return kind if _read_as(kind.value_type) == kind.value_type else None
    if pa.types.is_map(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind):
        return None
    if pa.types.is_temporal(kind) and not pa.types.is_timestamp(kind):
        # It would take numbers for times.
        return None
    return kind


def _lines(values: Column) -> bytes | memoryview:
    """The rows with a line feed at least between them: as they lie in the buffer, where they lie so."""
    starts, ends = values.starts, values.starts + values.lengths
    view = memoryview(values.buffer)
    octets = np.frombuffer(values.buffer, np.uint8)
    gaps = starts[1:] - ends[:-1]
    if bool((gaps == 1).all()) and bool((octets[ends[:-1]] == ord("\n")).all()):
        return view[int(starts[0]) : int(ends[-1])]
    return b"\n".join(
        bytes(view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )


def _is_finite(array: Any) -> bool:
    """True when no value is NaN or infinite."""
    if not pa.types.is_floating(array.type):
        return True
    return pc.all(pc.is_finite(array)).as_py() is not False


def _combined(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def data_fields(schema: Any, partition_names: frozenset[str]) -> list[Any]:
    """The fields of the data: all but what comes of the key, of what did not fit and of the object."""
    return [field for field in schema if field.name not in RESERVED | partition_names]
