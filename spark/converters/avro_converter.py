"""Keys and values in the schema registry's framing: a zero byte, the schema's id, the Avro datum."""

from enum import Enum, auto
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ingest.columns import NULL_LENGTH, Column, Numbers, column_of, picked
from ingest.settings.choices import JsonFormat
from ingest.settings.registry_settings import RegistrySettings
from layouts.arrow import column_of_arrow
from layouts.connect import ConnectSchema, InvalidSchema
from layouts.connect.from_avro import schema_of_avro
from spark.converted_records import ColumnSchema, ConvertedColumn
from spark.converters.avro_reader import AvroReader
from spark.converters.registry_schemas import NoSchema, RegistrySchemas
from spark.converters.segments import RowFaults, Segment
from spark.converters.typed_columns import TypedColumn
from spark.formats.avro_schema import SchemaError, parse_schema

_HEAD_BYTES: Final = 5
_NO_ID: Final = -1
_NULLS: Final = ColumnSchema(arrow=pa.null(), avro='"null"')


class AvroUse(Enum):
    """What the output makes of the values."""

    TEXTS = auto()
    """Their JSON, in Headrace's own form."""
    DATA = auto()
    """Their data, copied; columns where the schema has them."""
    COLUMNS = auto()
    """Columns, which unions of several types and types that refer to themselves do not have."""
    CONNECT = auto()
    """Columns as Kafka Connect has them: a union of several types is a struct with a field for each."""
    CONNECT_TEXTS = auto()
    """The same, to be shown as JSON: what has no columns is as TEXTS."""


_OF_CONNECT: Final = frozenset({AvroUse.CONNECT, AvroUse.CONNECT_TEXTS})
_OF_COLUMNS: Final = frozenset({AvroUse.COLUMNS, AvroUse.CONNECT})


class _Version:
    """One schema of the registry, as far as it can be read."""

    def __init__(self, number: int, text: str, style: JsonFormat, use: AvroUse) -> None:
        node, connect = parse_schema(text), _connect_schema(text)
        has_branches = use in _OF_CONNECT
        self.wants_texts = use is AvroUse.TEXTS
        self.reader = AvroReader(node, style, wants_texts=self.wants_texts, has_branches=has_branches)
        if use is AvroUse.CONNECT_TEXTS and not self.reader.has_columns:
            self.wants_texts = True
            self.reader = AvroReader(node, style, wants_texts=True)
        self.schema = ColumnSchema(arrow=self.reader.type, avro=text, version=number, connect=connect)


def _connect_schema(text: str) -> ConnectSchema | None:
    try:
        return schema_of_avro(text)
    except InvalidSchema:
        return None


class AvroConverter:
    """Avro by the schemas of a registry, for keys or values (`what`)."""

    def __init__(self, registry: RegistrySettings, what: str, style: JsonFormat, use: AvroUse) -> None:
        self._schemas = RegistrySchemas(registry)
        self._what = what
        self._style = style
        self._use = use
        self._versions: dict[int, _Version | NoSchema] = {}
        self._last: dict[str, int] = {}

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """A segment for each schema; nulls are with the schema of the record before them."""
        ids = self._ids(column, faults)
        is_null = column.lengths == NULL_LENGTH
        framed = np.flatnonzero(ids != _NO_ID)
        owners = _with_nulls(ids, is_null, self._last.get(topic, _NO_ID))
        if len(framed):
            self._last[topic] = int(ids[framed[-1]])
        segments = []
        for number in dict.fromkeys(owners[owners != _NO_ID].tolist()):
            rows = np.flatnonzero(owners == number)
            segments += self._segment(number, column, topic, rows, is_null, faults)
        unowned = np.flatnonzero(is_null & (owners == _NO_ID))
        if len(unowned):
            segments.append(Segment(unowned, _nulls(len(unowned))))
        return segments

    def _ids(self, column: Column, faults: RowFaults) -> Numbers:
        """The schema's id of each value, _NO_ID for nulls and for what has none, which is a fault."""
        ids = np.full(len(column), _NO_ID, np.int64)
        octets = np.frombuffer(column.buffer, np.uint8)
        long = np.flatnonzero(column.lengths >= _HEAD_BYTES)
        starts = column.starts[long]
        framed, starts = long[octets[starts] == 0], starts[octets[starts] == 0]
        heads = octets[starts[:, None] + np.arange(1, _HEAD_BYTES)].astype(np.int64)
        ids[framed] = heads @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
        for row in np.flatnonzero((ids == _NO_ID) & (column.lengths != NULL_LENGTH)).tolist():
            message = f"the {self._what} does not begin with a zero byte and the id of a schema"
            faults.add(row, "not_framed", message)
        return ids

    def _segment(
        self,
        number: int,
        column: Column,
        topic: str,
        rows: Numbers,
        is_null: np.ndarray,
        faults: RowFaults,
    ) -> list[Segment]:
        version = self._version(number)
        filled = rows[~is_null[rows]]
        if isinstance(version, NoSchema):
            for row in filled.tolist():
                faults.add(row, version.reason, f"the {self._what} of topic {topic}: {version.message}")
            nulls = rows[is_null[rows]]
            return [Segment(nulls, _nulls(len(nulls)))] if len(nulls) else []
        data = Column(
            buffer=column.buffer,
            starts=column.starts + _HEAD_BYTES,
            lengths=np.where(is_null, NULL_LENGTH, column.lengths - _HEAD_BYTES),
        )
        good, found = version.reader.read(picked(data, filled), filled, faults)
        kept = np.sort(np.concatenate([good, rows[is_null[rows]]]))
        if not len(kept):
            return []
        return [Segment(kept, self._typed(version, found, good, kept, picked(data, kept)))]

    def _typed(
        self, version: _Version, found: Any, good: Numbers, kept: Numbers, data: Column
    ) -> ConvertedColumn:
        """The values of the rows `kept`: what was `found` of the rows `good`, and nulls."""
        nulls = data.lengths == NULL_LENGTH
        if found is None:  # only the data themselves are wanted
            texts = Column(buffer=data.buffer, starts=data.starts, lengths=np.where(nulls, NULL_LENGTH, 0))
            return TypedColumn(version.schema, texts=texts, data=data, style=self._style)
        if nulls.any():
            places = np.where(nulls, 0, np.searchsorted(good, kept))
            found = found.take(pa.array(places, mask=nulls))
        if version.wants_texts:
            return TypedColumn(version.schema, texts=column_of_arrow(found), data=data, style=self._style)
        return TypedColumn(version.schema, array=found, data=data, style=self._style)

    def _version(self, number: int) -> _Version | NoSchema:
        version = self._versions.get(number)
        if isinstance(version, _Version):
            return version
        text = self._schemas.text(number)
        if isinstance(text, NoSchema):
            return text
        if version is None:
            version = self._versions[number] = self._made(number, text)
        return version

    def _made(self, number: int, text: str) -> _Version | NoSchema:
        try:
            version = _Version(number, text, self._style, self._use)
        except SchemaError as error:
            return NoSchema("schema_unsupported", f"the schema with the id {number} cannot be read: {error}")
        if self._use in _OF_COLUMNS and not version.reader.has_columns:
            return NoSchema(
                "schema_unsupported",
                f"in the schema with the id {number} {version.reader.lack}, which the output has no columns "
                f"for; change the type, or archive the bytes as they are with {self._what}.converter="
                "org.apache.kafka.connect.converters.ByteArrayConverter",
            )
        return version


def _with_nulls(ids: Numbers, is_null: np.ndarray, last: int) -> Numbers:
    """The ids, in which a null has the id of the nearest value before it, else behind it, else `last`."""
    if not is_null.any():
        return ids
    framed = np.flatnonzero(ids != _NO_ID)
    if not len(framed):
        return np.where(is_null, last, ids)
    before = np.maximum(np.searchsorted(framed, np.arange(len(ids)), side="right") - 1, 0)
    return np.where(is_null, ids[framed[before]], ids)


def _nulls(count: int) -> TypedColumn:
    """Nulls of no schema."""
    return TypedColumn(_NULLS, array=pa.nulls(count), texts=column_of([None] * count))
