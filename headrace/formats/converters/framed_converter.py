"""Keys and values that name their schema in a registry: a segment for each schema.

What is compressed is read a few at a time, and ids that headers have go before what they are of.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from headrace.formats.arrow import column_of_arrow
from headrace.formats.avro_schema import SchemaError
from headrace.formats.connect import InvalidSchema
from headrace.formats.converted_records import ColumnSchema, ConvertedColumn
from headrace.formats.converters.framing import NO_SCHEMA, Framing, SchemaKey, SchemaKeys, glue_inflated_bytes
from headrace.formats.converters.registry_schemas import (
    UNKNOWN_A_SECOND,
    NoSchema,
    RegistrySchemas,
    SchemaText,
)
from headrace.formats.converters.typed_columns import (
    RowFaults,
    RowsUnread,
    Segment,
    TypedColumn,
    schemaless_nulls,
)
from headrace.model.columns import NULL_LENGTH, Column, Headers, KafkaRecords, Numbers, column_of, picked
from headrace.model.text_formatting import printable
from headrace.options.choices import JsonFormat
from headrace.options.schema_settings import GlueSettings, RegistrySettings
from headrace.options.sink_settings import Converters

_WORDS: Final = 600
# What compressed keys and values may come to at once, as many bytes as a slot fetches without compression.
_INFLATED_BYTES: Final = 4 * 1024 * 1024
_KEY_ID: Final = "__key_schema_id"
_VALUE_ID: Final = "__value_schema_id"


def framed(records: KafkaRecords, converters: Converters) -> tuple[Column, Column]:
    """The keys and the values, in which ids of schemas are where their converters look for them."""
    found = records.keys, records.values
    read_by = (converters.key, _KEY_ID), (converters.value, _VALUE_ID)
    wanted = {name for converter, name in read_by if isinstance(converter.registry, RegistrySettings)}
    # Headers of tracing are on each record, and those of schemas on none.
    if (
        records.headers is None
        or not wanted
        or wanted.isdisjoint(map(itemgetter(0), chain.from_iterable(records.headers)))
    ):
        return found
    keys, values = (
        _framed(column, records.headers, name) if name in wanted else column
        for column, (_, name) in zip(found, read_by, strict=True)
    )
    return keys, values


def _framed(column: Column, headers: Sequence[Headers], name: str) -> Column:
    """Data with the id of their schema before them, where Confluent's serializers put it into a header.

    A header has what would be before the data, and goes before what is there, as its deserializers have it;
    of several the last one counts. A null stays null.
    """
    ids = {
        row: value
        for row, each in enumerate(headers)
        for header, value in each
        if header == name and value is not None
    }
    if not ids:
        return column
    data = list(column.each(0, len(column)))
    return column_of([None if each is None else ids.get(row, b"") + each for row, each in enumerate(data)])


def inflated_at_once(records: KafkaRecords, converters: Converters) -> Iterator[KafkaRecords]:
    """The records in their order, as many at once as Glue's compression lets be converted together.

    Compressed keys and values of a run inflate to 4 MiB, or it is one record: compression makes a
    thousandth of what repeats itself, so that the bytes fetched say nothing of it.
    """
    sizes = np.zeros(len(records), np.int64)
    if isinstance(converters.key.registry, GlueSettings):
        sizes += glue_inflated_bytes(records.keys)
    if isinstance(converters.value.registry, GlueSettings):
        sizes += glue_inflated_bytes(records.values)
    begin = held = 0
    for row in np.flatnonzero(sizes).tolist() if int(sizes.sum()) > _INFLATED_BYTES else ():
        if begin < row and held + sizes[row] > _INFLATED_BYTES:
            yield records.take(slice(begin, row))
            begin, held = row, 0
        held += int(sizes[row])
    yield records.take(slice(begin, len(records))) if begin else records


_UNREAD: Final = NoSchema("schema_unknown", "It is not read.")


class SchemaReader(Protocol):
    """Reads values of one schema; `wants_texts`: as their JSON, else as columns."""

    schema: ColumnSchema
    wants_texts: bool

    def read(self, data: Column, rows: Numbers, faults: RowFaults) -> tuple[Numbers, Any]:
        """The numbers of those `rows` whose data (one each, no nulls) are good, and what they hold.

        That is an array of strings, their JSON, or an array of the schema's type; where the data
        themselves are wanted, what gives their JSON (`TypedColumn`'s `shown`).
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
        self._readers: dict[SchemaKey, SchemaReader | NoSchema] = {}
        self._last: dict[str, SchemaKey] = {}

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """A segment for each schema; a null is with that of the value before it in the column, else after it.

        Where the column has no value, it is with the last one that was converted, if that is read.
        RowsUnread at the first row of a schema that is not asked for now.
        """
        frames = self._framing.frames(column, self._what, faults)
        is_null = column.lengths == NULL_LENGTH
        framed = np.flatnonzero(frames.owners != NO_SCHEMA)
        owners = _with_nulls(frames.owners, is_null, self._before(topic, frames.keys))
        segments = []
        for number in dict.fromkeys(owners[owners != NO_SCHEMA].tolist()):
            rows = np.flatnonzero(owners == number)
            key = frames.keys.key(number)
            segments += self._segment(key, frames.data, topic, rows, is_null, faults)
        if len(framed):
            self._last[topic] = frames.keys.key(int(frames.owners[framed[-1]]))
        unowned = np.flatnonzero(is_null & (owners == NO_SCHEMA))
        if len(unowned):
            segments.append(Segment(unowned, schemaless_nulls(len(unowned))))
        return segments

    def _before(self, topic: str, keys: SchemaKeys) -> int:
        """The number of the schema of what was converted before of a topic; NO_SCHEMA where that is not read.

        It may be junk of another partition, and no registry is to be asked about nulls.
        """
        last = self._last.get(topic)
        if last is None or isinstance(self._readers.get(last, _UNREAD), NoSchema):
            return NO_SCHEMA
        return keys.number(last)

    def _segment(
        self, key: SchemaKey, data: Column, topic: str, rows: Numbers, is_null: np.ndarray, faults: RowFaults
    ) -> list[Segment]:
        reader = self._reader(key)
        if reader is None:
            raise unread_rows(int(rows[0]), self._what, topic, key)
        filled = rows[~is_null[rows]]
        if isinstance(reader, NoSchema):
            for row in filled.tolist():
                faults.add(row, reader.reason, f"the {self._what} of topic {topic}: {reader.message}")
            nulls = rows[is_null[rows]]
            return [Segment(nulls, schemaless_nulls(len(nulls)))] if len(nulls) else []
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
        if callable(found):
            return TypedColumn(reader.schema, shown=found, data=copied, style=self._style)
        if nulls.any():
            places = np.where(nulls, 0, np.searchsorted(good, kept))
            found = found.take(pa.array(places, mask=nulls))
        if reader.wants_texts:
            texts = column_of_arrow(found)
            return TypedColumn(reader.schema, texts=texts, data=copied, style=self._style)
        return TypedColumn(reader.schema, array=found, data=copied, style=self._style)

    def _reader(self, key: SchemaKey) -> SchemaReader | NoSchema | None:
        reader = self._readers.get(key)
        if reader is not None and not isinstance(reader, NoSchema):
            return reader
        text = self._schemas.schema(key.id)
        if not isinstance(text, SchemaText):
            return text
        if reader is None:
            reader = self._readers[key] = self._made(key, text)
        return reader

    def _made(self, key: SchemaKey, text: SchemaText) -> SchemaReader | NoSchema:
        try:
            return self._make(key, text)
        except (SchemaError, InvalidSchema) as error:
            # The words may quote the schema, of any length and in characters that no dead letter has.
            why = printable(str(error), limit=_WORDS)
            return NoSchema("schema_unsupported", f"the schema with the id {key} cannot be read: {why}")
        except RecursionError:
            return NoSchema(
                "schema_unsupported", f"the schema with the id {key} cannot be read: it is nested too deep"
            )
        except Unframed as error:
            return NoSchema("not_framed", str(error))
        except NoColumns as error:
            return NoSchema(
                "schema_unsupported",
                f"in the schema with the id {key} {error}, which the output has no columns "
                f"for; change the type, or archive the bytes as they are with {self._what}.converter="
                "org.apache.kafka.connect.converters.ByteArrayConverter",
            )


def unread_rows(row: int, what: str, topic: str, key: SchemaKey) -> RowsUnread:
    """A row, which is the first of its schema, and those after it, whose schemas are asked for later."""
    return RowsUnread(
        f"The {what} of topic {topic} names a schema by the id {key}, which the schema registry is asked for "
        f"soon: it has none for most ids before it, and is asked for {UNKNOWN_A_SECOND} of those a second. "
        f"Where these {what}s are not a registry's, set {what}.converter to what reads them "
        "(org.apache.kafka.connect.converters.ByteArrayConverter archives them as they are).",
        row=row,
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
