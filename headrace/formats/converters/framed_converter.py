"""Keys and values that name their schema in a registry: read by it, with a segment for each schema."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from headrace.formats.arrow import column_of_arrow
from headrace.formats.avro_schema import SchemaError
from headrace.formats.connect import InvalidSchema
from headrace.formats.converted_records import ColumnSchema, ConvertedColumn
from headrace.formats.converters.framing import NO_SCHEMA, Framing, SchemaKey
from headrace.formats.converters.registry_schemas import NoSchema, RegistrySchemas, SchemaText
from headrace.formats.converters.segments import RowFaults, Segment
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.model.columns import NULL_LENGTH, Column, Numbers, column_of, picked
from headrace.options.choices import JsonFormat

_NULLS: Final = ColumnSchema(arrow=pa.null(), avro='"null"')


class SchemaReader(Protocol):
    """Reads values of one schema; `wants_texts`: as their JSON, else as columns."""

    schema: ColumnSchema
    wants_texts: bool

    def read(self, data: Column, rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        """The numbers of those `rows` whose data (one each, no nulls) are good, and what they hold.

        That is an array of strings, their JSON, or an array of the schema's type; None where the data
        themselves are wanted.
        """


class NoColumns(ValueError):
    """A schema that can be read has no columns, which the output needs; the message says why."""


class Unframed(ValueError):
    """Values do not say what of the schema they are; the message says how."""


class FramedConverter:
    """Values by the schemas of a registry, for keys or values (`what`).

    `make` gives the reader of a schema; SchemaError, InvalidSchema, NoColumns or Unframed where there is
    none.
    `copies`: readers leave the data as they are, to be copied.
    """

    def __init__(
        self,
        framing: Framing,
        schemas: RegistrySchemas,
        make: Callable[[SchemaKey, SchemaText], SchemaReader],
        *,
        what: str,
        style: JsonFormat,
        copies: bool = False,
    ) -> None:
        self._framing = framing
        self._schemas = schemas
        self._make = make
        self._what = what
        self._style = style
        self._copies = copies
        self._readers: dict[int, SchemaReader | NoSchema] = {}
        self._last: dict[str, int] = {}

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """A segment for each schema; nulls are with the schema of the record before them."""
        frames = self._framing.frames(column, self._what, faults)
        is_null = column.lengths == NULL_LENGTH
        framed = np.flatnonzero(frames.owners != NO_SCHEMA)
        owners = _with_nulls(frames.owners, is_null, self._last.get(topic, NO_SCHEMA))
        if len(framed):
            self._last[topic] = int(frames.owners[framed[-1]])
        segments = []
        for number in dict.fromkeys(owners[owners != NO_SCHEMA].tolist()):
            rows = np.flatnonzero(owners == number)
            segments += self._segment(number, frames.data, topic, rows, is_null, faults)
        unowned = np.flatnonzero(is_null & (owners == NO_SCHEMA))
        if len(unowned):
            segments.append(Segment(unowned, _nulls(len(unowned))))
        return segments

    def _segment(
        self, number: int, data: Column, topic: str, rows: Numbers, is_null: np.ndarray, faults: RowFaults
    ) -> list[Segment]:
        reader = self._reader(number)
        filled = rows[~is_null[rows]]
        if isinstance(reader, NoSchema):
            for row in filled.tolist():
                faults.add(row, reader.reason, f"the {self._what} of topic {topic}: {reader.message}")
            nulls = rows[is_null[rows]]
            return [Segment(nulls, _nulls(len(nulls)))] if len(nulls) else []
        good, found = reader.read(picked(data, filled), filled, faults)
        kept = np.sort(np.concatenate([good, rows[is_null[rows]]]))
        if not len(kept):
            return []
        return [Segment(kept, self._typed(reader, found, good, kept, picked(data, kept)))]

    def _typed(
        self, reader: SchemaReader, found: Any, good: Numbers, kept: Numbers, data: Column
    ) -> ConvertedColumn:
        """The values of the rows `kept`: what was `found` of the rows `good`, and nulls."""
        nulls = data.lengths == NULL_LENGTH
        copied = data if self._copies else None
        if found is None:  # only the data themselves are wanted
            texts = Column(buffer=data.buffer, starts=data.starts, lengths=np.where(nulls, NULL_LENGTH, 0))
            return TypedColumn(reader.schema, texts=texts, data=copied, style=self._style)
        if nulls.any():
            places = np.where(nulls, 0, np.searchsorted(good, kept))
            found = found.take(pa.array(places, mask=nulls))
        if reader.wants_texts:
            texts = column_of_arrow(found)
            return TypedColumn(reader.schema, texts=texts, data=copied, style=self._style)
        return TypedColumn(reader.schema, array=found, data=copied, style=self._style)

    def _reader(self, number: int) -> SchemaReader | NoSchema:
        reader = self._readers.get(number)
        if reader is not None and not isinstance(reader, NoSchema):
            return reader
        key = self._framing.key(number)
        text = self._schemas.schema(key.id)
        if isinstance(text, NoSchema):
            return text
        if reader is None:
            reader = self._readers[number] = self._made(key, text)
        return reader

    def _made(self, key: SchemaKey, text: SchemaText) -> SchemaReader | NoSchema:
        try:
            return self._make(key, text)
        except (SchemaError, InvalidSchema) as error:
            return NoSchema("schema_unsupported", f"the schema with the id {key} cannot be read: {error}")
        except Unframed as error:
            return NoSchema("not_framed", str(error))
        except NoColumns as error:
            return NoSchema(
                "schema_unsupported",
                f"in the schema with the id {key} {error}, which the output has no columns "
                f"for; change the type, or archive the bytes as they are with {self._what}.converter="
                "org.apache.kafka.connect.converters.ByteArrayConverter",
            )


def _with_nulls(ids: Numbers, is_null: np.ndarray, last: int) -> Numbers:
    """The ids, in which a null has the id of the nearest value before it, else after it, else `last`."""
    if not is_null.any():
        return ids
    framed = np.flatnonzero(ids != NO_SCHEMA)
    if not len(framed):
        return np.where(is_null, last, ids)
    before = np.maximum(np.searchsorted(framed, np.arange(len(ids)), side="right") - 1, 0)
    return np.where(is_null, ids[framed[before]], ids)


def _nulls(count: int) -> TypedColumn:
    """Nulls of no schema."""
    return TypedColumn(_NULLS, array=pa.nulls(count), texts=column_of([None] * count))
