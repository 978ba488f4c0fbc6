"""Keys and values that are JSON: checked for a whole column at once, and copied.

Kafka Connect's own JSON has a schema and a payload in each value; the payload is the value.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headrace.formats.connect import InvalidSchema
from headrace.formats.connect.payloads import PayloadSchema, UnfitValue
from headrace.formats.connect.schema import schema_of_json
from headrace.formats.converted_records import ColumnSchema, ConvertedColumn, Form, InferredValues
from headrace.formats.converters.inferred_column import (
    InferredColumn,
    inferred_column,
    single_values,
    values_within,
)
from headrace.formats.converters.json_inference import TypesConflict, members, merged, written
from headrace.formats.converters.plain_converters import segment
from headrace.formats.converters.typed_columns import RowFaults, Segment, TypedColumn
from headrace.formats.encoding.json_members import (
    JsonKind,
    compacted,
    json_kinds,
    json_lines,
    null_texts,
    nulled,
)
from headrace.formats.parquet_avro import avro_schema
from headrace.model.columns import NULL_LENGTH, Column, KafkaRecords, Numbers, column_of, picked
from headrace.options.choices import JsonFormat

_PAYLOAD: Final = b'"payload"'
_SCHEMAS_KEPT: Final = 1000


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    schema: msgspec.Raw
    payload: msgspec.Raw


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)


class JsonConverter:
    """JSON texts, each of which fits in a line; the JSON `null` is a null.

    `schemas` True: each value is an envelope of schema and payload; None: those are whose `schema` is one of
    Connect's, or null, and others whose members are called so stay as they are; with `opens_all` these are
    opened too, as version 1.0.0 did.
    `keeps_nulls`: in columns by such a schema null fields stay null, as they did in 1.0.0, where they are
    optional and have a default.
    `wants_columns`: members become columns, by that schema, or (`infers`) by one that is found in the values.
    `shows_texts`: what is asked of the values is of their JSON, columns or not. `keeps_texts`: what has a
    schema is shown as its payload; without it as its columns are, as what transforms change is, too.
    """

    def __init__(
        self,
        what: str,
        style: JsonFormat,
        *,
        schemas: bool | None = False,
        opens_all: bool = False,
        keeps_nulls: bool = False,
        wants_columns: bool = False,
        shows_texts: bool = False,
        keeps_texts: bool = True,
        infers: bool = True,
    ) -> None:
        self._what = what
        self._style = style
        self._schemas = schemas
        self._opens_all = opens_all
        self._keeps_nulls = keeps_nulls
        self._wants_columns = wants_columns
        self._shows_texts = shows_texts
        self._keeps_texts = keeps_texts
        self._infers = infers
        self._hints: dict[str, Any] = {}
        self._known: dict[bytes, PayloadSchema] = {}
        self._schema_texts: set[bytes] = set()

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """The rows that are JSON, in segments of one schema; others are faults."""
        schemas: dict[int, bytes] = {}
        if self._schemas is not False:
            column = self._opened(column, schemas, faults)
        column, good = self._checked(column, faults)
        if not self._wants_columns:
            return segment(column, Form.JSON, None if len(good) == len(column) else good)
        loose = good[[row not in schemas for row in good.tolist()]] if schemas else good
        found = self._inferred(column, loose, topic, faults) if self._infers else _plain(column, loose)
        return found + self._declared(column, schemas, faults)

    def _checked(self, column: Column, faults: RowFaults) -> tuple[Column, Numbers]:
        """The column with its nulls and compact texts, and the rows that are JSON."""
        lines = json_lines(column)
        if lines is not None and not faults.found:
            return lines, np.arange(len(lines))
        kinds = json_kinds(column)
        good = (kinds != JsonKind.NONE) | (column.lengths == NULL_LENGTH)
        nulls = null_texts(column, kinds)
        if len(nulls):
            column = nulled(column, nulls)
        loose = np.flatnonzero((kinds == JsonKind.LOOSE) & (column.lengths != NULL_LENGTH))
        if len(loose):
            column = compacted(column, loose)
        for row in np.flatnonzero(~good).tolist():
            faults.add(row, "not_json", f"the {self._what} is no JSON text")
        good[[row for row in faults.found if row < len(good)]] = False
        return column, np.flatnonzero(good)

    def _opened(self, column: Column, schemas: dict[int, bytes], faults: RowFaults) -> Column:
        """The column with payloads in the place of envelopes, whose schemas are put into `schemas`."""
        if self._schemas is None and not _has_payloads(column):
            return column
        texts: list[bytes | None] = []
        # Schemas repeat: most rows only compare theirs with that of the row before.
        schema, lack = b"null", ""
        for row in range(len(column)):
            text = column.get(row)
            texts.append(text)
            if text is None:
                continue
            try:
                envelope = _ENVELOPE.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                if self._schemas:
                    message = (
                        f"the {self._what} is no JSON of schema and payload, as schemas.enable=true asks for"
                    )
                    faults.add(row, "no_schema", message)
                    texts[-1] = None
                continue
            if (found := bytes(envelope.schema)) != schema:
                schema, lack = found, self._schema_lack(found)
            payload = bytes(envelope.payload)
            if lack:
                is_text = self._shows_texts or not self._wants_columns
                is_opened = self._opens_all and (payload == b"null" or is_text)
                texts[-1] = payload if is_opened else self._unopened(row, text, lack, faults)
                continue
            texts[-1] = payload
            if schema != b"null" and texts[-1] != b"null":
                schemas[row] = schema
        return column_of(texts)

    def _unopened(self, row: int, text: bytes, lack: str, faults: RowFaults) -> bytes | None:
        """What is kept of a text whose schema is not one of Connect's: None where it has to have one."""
        if not (self._schemas or self._opens_all):
            return text
        faults.add(row, "schema_unfit", f"the {self._what} cannot be read: {lack}")
        return None

    def _schema_lack(self, text: bytes) -> str:
        """Why what is next to a payload is no schema of Connect's; empty where it is one, or null."""
        if text in self._schema_texts:
            return ""
        try:
            schema_of_json(text)
        except InvalidSchema as error:
            return str(error)
        if len(self._schema_texts) >= _SCHEMAS_KEPT:
            self._schema_texts.clear()
        self._schema_texts.add(text)
        return ""

    def _inferred(self, column: Column, rows: Numbers, topic: str, faults: RowFaults) -> list[Segment]:
        """Segments of values that each have a type of their own, as many in each as a table may have."""
        found: list[Segment] = []
        begin, most = 0, len(rows)
        while begin < len(rows):
            hint = self._hints.get(topic, pa.null())
            some = rows[begin : begin + min(most, rows_of_members(members(hint)))]
            values = None if pa.types.is_null(hint) else values_within(picked(column, some), hint)
            if values is None:
                few = rows_of_any_names(column, rows[begin:])
                if few < len(some) and not pa.types.is_null(hint):
                    most = len(some) // 4
                    continue
                some = rows[begin : begin + few]
                found += self._of_any_names(column, some, topic, faults)
            else:
                self._hints[topic] = _lasting(hint, values)
                found.append(Segment(some, values))
            begin, most = begin + len(some), 4 * len(some)
        return found

    def _of_any_names(self, column: Column, rows: Numbers, topic: str, faults: RowFaults) -> list[Segment]:
        """A segment of few values, of which nothing is known: with a table only where none were before."""
        own, hint, texts = RowFaults(), self._hints.get(topic), picked(column, rows)
        found = inferred_column(texts, pa.null(), own) if hint is None else single_values(texts, own)
        places, values = found
        for place, (reason, message) in own.found.items():
            faults.add(int(rows[place]), reason, message)
        if not len(places):
            return []
        kind = values.array_type or (None if values.upper is None else written(values.upper))
        if kind is not None:
            self._hints[topic] = _with_latest(pa.null() if hint is None else hint, kind)
        return [Segment(rows[places], values)]

    def _declared(self, column: Column, schemas: dict[int, bytes], faults: RowFaults) -> list[Segment]:
        """A segment for each schema that is next to its values."""
        owners: dict[bytes, list[int]] = {}
        for row, text in schemas.items():
            if row not in faults.found:
                owners.setdefault(text, []).append(row)
        return [each for text, rows in owners.items() for each in self._of_schema(column, text, rows, faults)]

    def _of_schema(self, column: Column, text: bytes, rows: list[int], faults: RowFaults) -> list[Segment]:
        good = rows
        try:
            array = self._payloads(column, text, rows)
        except UnfitValue:
            good = [row for row in rows if self._is_of_schema(column, text, row, faults)]
            if not good:
                return []
            array = self._payloads(column, text, good)
        schema = self._schema(text)
        shape = ColumnSchema(
            arrow=schema.arrow,
            avro=avro_schema(schema.arrow),
            version=schema.connect.version,
            connect=schema.connect,
        )
        numbers = np.array(good, np.int64)
        typed = TypedColumn(
            shape,
            array=array,
            texts=picked(column, numbers) if self._keeps_texts else None,
            shows_texts=self._shows_texts,
            style=self._style,
        )
        return [Segment(numbers, typed)]

    def _payloads(self, column: Column, text: bytes, rows: list[int]) -> Any:
        return self._schema(text).array([column.get(row) or b"null" for row in rows])

    def _is_of_schema(self, column: Column, text: bytes, row: int, faults: RowFaults) -> bool:
        try:
            self._payloads(column, text, [row])
        except UnfitValue as error:
            faults.add(row, "schema_unfit", f"the {self._what} cannot be read: {error}")
            return False
        return True

    def _schema(self, text: bytes) -> PayloadSchema:
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= _SCHEMAS_KEPT:
                self._known.clear()
            found = self._known[text] = PayloadSchema.of_text(text, keeps_nulls=self._keeps_nulls)
        return found


# A hint of so few members costs little where values have none of them.
_FEW_MEMBERS: Final = 32
_MOST_MEMBERS: Final = 1_000


def _lasting(hint: Any, values: InferredColumn) -> Any:
    """The hint, which all of the values were within; their own type, where it has far more members.

    Members that values rarely have are in it: each that is not has all of a table read one by one.
    """
    is_large = members(hint) > max(_FEW_MEMBERS, 4 * members(values.array_type))
    return values.array_type if is_large and len(values) >= _FIRST_ROWS else hint


def _with_latest(hint: Any, latest: Any) -> Any:
    """A hint for values as before and for the latest; for these alone, where it would be too large."""
    try:
        both = written(merged(hint, latest))
    except TypesConflict:
        return latest
    return latest if members(both) > _MOST_MEMBERS else both


def _plain(column: Column, rows: Numbers) -> list[Segment]:
    """The rows as JSON texts; nulls are with them."""
    return segment(column, Form.JSON, None if len(rows) == len(column) else rows)


def _has_payloads(column: Column) -> bool:
    """False where no value can be an envelope."""
    filled = np.flatnonzero(column.lengths > 0)
    if not len(filled):
        return False
    first = int(column.starts[filled].min())
    behind = int((column.starts[filled] + column.lengths[filled]).max())
    return _PAYLOAD in bytes(memoryview(column.buffer)[first:behind])


# A table of values has a cell in each row for every member that any of them has: so many, or one row.
_MOST_CELLS: Final = 250_000
_FIRST_ROWS: Final = 250


def rows_of_members(count: int) -> int:
    """How many values may become one table, when they have so many members in all."""
    return max(_MOST_CELLS // max(count, 1), 1)


def rows_of_any_names(column: Column, rows: Numbers) -> int:
    """How many of the first of these values may become one table, if no name in them were there twice."""
    names = 0
    for count, row in enumerate(rows.tolist()):
        names += (column.get(row) or b"").count(b":")
        if count and names * (count + 1) > _MOST_CELLS:
            return count
    return len(rows)


class TopicMembers:
    """Cuts what is fetched by the members of values of its topic: each may have its own (ids as names)."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}

    def cut(self, fetched: Iterable[KafkaRecords]) -> Iterator[KafkaRecords]:
        """The records in their order, each time as many as those before allow; few of a topic that is new."""
        for records in fetched:
            begin = 0
            while len(records) - begin > (rows := self._most.get(records.topic, _FIRST_ROWS)):
                yield records.take(slice(begin, begin + rows))
                begin += rows
            yield records.take(slice(begin, len(records))) if begin else records

    def note(self, topic: str, values: Iterable[ConvertedColumn], *, read: int, kept: int) -> None:
        """So many records were read at once, of which these are what is written.

        Few of them, or what is left of many that were refused, say nothing of how few members there are.
        Others may be as many as make a table that is full, whether all have the same names or names of their
        own: with these it has columns as it has rows, and what comes next is the root of the factor more.
        """
        inferred = [each for each in values if isinstance(each, InferredValues)]
        columns = {id(each) if each.upper is None else id(each.upper): each for each in inferred}
        found = sum(map(_members_of, columns.values()))
        most = self._most.get(topic, _FIRST_ROWS)
        rows = max(math.isqrt(_MOST_CELLS * read // max(found, 1)), 1)
        if read >= most and kept >= read // 4:
            self._most[topic] = rows
        elif found * most > _MOST_CELLS:
            self._most[topic] = min(rows, most)


def _members_of(values: InferredValues) -> int:
    """Those of all values, or more where these have no type together."""
    if values.upper is not None:
        return members(values.upper)
    return sum(map(members, {id(kind): kind for kind in values.kinds()}.values()))
