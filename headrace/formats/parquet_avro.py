"""Parquet rows as Avro data: the Avro schema of an Arrow schema or type, and rows in its encoding."""

import io
import json
import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import list_offsets, map_lists
from headrace.formats.arrow_rows import json_values
from headrace.formats.parquet_schema import INT96_NAME as INT96
from headrace.formats.parquet_schema import MAP_NAME as MAP
from headrace.formats.parquet_schema import checked_entries, int96_microseconds, map_type
from headrace.formats.variants import NAME as VARIANT
from headrace.model.columns import Column, column_of
from headrace.options.choices import JsonFormat

_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_TIMES: Final = {"s": ("millis", "ms"), "ms": ("millis", "ms"), "us": ("micros", "us"), "ns": ("nanos", "ns")}
_UINT64_DIGITS: Final = 20


class AvroRows:
    """Writes rows of one Arrow schema; `schema` is the JSON of their Avro schema.

    Raises NotImplementedError for an Arrow type that has no counterpart.
    """

    def __init__(self, schema: Any, style: JsonFormat) -> None:
        self._style = style
        shape, self._kind = _Mapping().of(pa.struct(list(schema)), "row")
        self._in_connect = _numbers(self._kind, _is_fine_time)
        self.schema: str = json.dumps(shape, separators=(",", ":"))
        self._parsed = fastavro.parse_schema(shape)

    def write(self, batch: Any, prefix: bytes) -> Column:
        """Each row of a RecordBatch, with `prefix` before it. RowFaultError for a map with a null key."""
        # By way of the logical type, so that seconds become milliseconds before they become numbers.
        numbers = self.shaped(batch).cast(_numbers(self._kind))
        with warnings.catch_warnings():
            # Of a key that a map has twice, which Arrow warns of by showing it: the last one counts.
            warnings.simplefilter("ignore", UserWarning)
            rows = numbers.to_pylist(maps_as_pydicts="lossy")
        values: list[bytes | None] = []
        for row in rows:
            out = io.BytesIO()
            out.write(prefix)
            fastavro.schemaless_writer(out, self._parsed, row)
            values.append(out.getvalue())
        return column_of(values)

    def shaped(self, batch: Any) -> Any:
        """The rows of a RecordBatch as a struct array of what the schema says, under its names.

        RowFaultError for a map with a null key.
        """
        return self._adapted(batch.to_struct_array()).cast(self._kind)

    def described(self, batch: Any) -> Any:
        """The same as Connect has it: times that it has no type for are numbers, in their own fractions."""
        found = self.shaped(batch)
        return found if self._in_connect == self._kind else found.cast(self._in_connect)

    def _adapted(self, array: Any) -> Any:
        """INT96 in microseconds, variants as JSON, maps as Arrow's own, others as they are stored.

        Fields get Avro's names by their places: a cast looks for them by name, and makes nulls of the rest.
        """
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            return self._stored(array, kind.extension_name)
        if not _is_adapted(kind):
            return array
        empty = array.is_null()
        if pa.types.is_struct(kind):
            fields = [self._adapted(array.field(index)) for index in range(kind.num_fields)]
            return pa.StructArray.from_arrays(fields, _clean_names(kind), mask=empty)
        if pa.types.is_map(kind):
            return self._map(map_lists(array))
        return pa.ListArray.from_arrays(list_offsets(array), self._adapted(array.flatten()), mask=empty)

    def _stored(self, array: Any, name: str) -> Any:
        if name == INT96:
            return int96_microseconds(array.storage)
        if name == VARIANT:
            return pc.if_else(array.is_valid(), json_values(array, self._style), None)
        return self._map(array.storage) if name == MAP else array.storage

    def _map(self, lists: Any) -> Any:
        entries = self._adapted(checked_entries(lists))
        keys, values = entries.field(0), entries.field(1)
        return pa.MapArray.from_arrays(list_offsets(lists), keys, values, mask=lists.is_null())


def _is_adapted(kind: Any) -> bool:
    """True where types or names are not those of the rows that are written."""
    if isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_struct(kind) and _clean_names(kind) != [field.name for field in kind]:
        return True
    return any(_is_adapted(kind.field(index).type) for index in range(kind.num_fields))


def _stored_type(kind: Any) -> Any:
    """The type of what `AvroRows` makes of an extension type."""
    if kind.extension_name == MAP:
        return map_type(kind.storage_type)
    return {INT96: pa.timestamp("us"), VARIANT: pa.string()}.get(kind.extension_name, kind.storage_type)


def _numbers(kind: Any, is_one: Callable[[Any], bool] = pa.types.is_temporal) -> Any:
    """The same type with days, times and moments as integers, which fastavro writes as they are.

    `is_one` says of which of these types.
    """
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct(
            [pa.field(field.name, _numbers(field.type, is_one), field.nullable) for field in fields]
        )
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _numbers(kind.item_type, is_one))
    if pa.types.is_list(kind):
        return pa.list_(_numbers(kind.value_type, is_one))
    if not is_one(kind):
        return kind
    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()


def _is_fine_time(kind: Any) -> bool:
    """True for times of less than milliseconds, which Connect has no type for."""
    is_moment = pa.types.is_timestamp(kind)
    return bool(pa.types.is_time64(kind) or (is_moment and kind != pa.timestamp("ms", kind.tz)))


class _Mapping:
    """From Arrow types to Avro's, with the Arrow type whose Python values fastavro writes."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def of(self, kind: Any, name: str) -> tuple[Any, Any]:
        if isinstance(kind, pa.BaseExtensionType):
            kind = _stored_type(kind)
        if pa.types.is_dictionary(kind):
            return self.of(kind.value_type, name)
        if pa.types.is_struct(kind):
            return self._record(kind, name)
        if pa.types.is_map(kind):
            return self._map(kind, name)
        if any(
            check(kind) for check in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        ):
            shape, inner = self._optional(kind.value_type, name)
            return {"type": "array", "items": shape}, pa.list_(inner)
        return _scalar(kind)

    def _optional(self, kind: Any, name: str) -> tuple[Any, Any]:
        """Everything in Parquet may be null once it is nested; null itself is alone."""
        shape, inner = self.of(kind, name)
        return (shape if shape == "null" else ["null", shape]), inner

    def _record(self, kind: Any, name: str) -> tuple[Any, Any]:
        fields, inner = [], []
        record = self._unique(name)
        for index, clean in enumerate(_clean_names(kind)):
            field = kind.field(index)
            shape, arrow = self._optional(field.type, f"{record}_{field.name}")
            fields.append({"name": clean, "type": shape, "default": None})
            inner.append(pa.field(clean, arrow))
        return {"type": "record", "name": record, "fields": fields}, pa.struct(inner)

    def _map(self, kind: Any, name: str) -> tuple[Any, Any]:
        shape, inner = self._optional(kind.item_type, name)
        if pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type):
            return {"type": "map", "values": shape}, pa.map_(pa.string(), inner)
        key, key_inner = self.of(kind.key_type, f"{name}_key")
        pair = {
            "type": "record",
            "name": self._unique(f"{name}_entry"),
            "fields": [{"name": "key", "type": key}, {"name": "value", "type": shape}],
        }
        pairs = pa.struct([pa.field("key", key_inner, nullable=False), pa.field("value", inner)])
        return {"type": "array", "items": pair}, pa.list_(pairs)

    def _unique(self, name: str) -> str:
        clean = _clean(name)
        while clean in self._names:
            clean += "_"
        self._names.add(clean)
        return clean


def _clean_names(kind: Any) -> list[str]:
    """Names for the fields of a struct, as Avro allows them, each once."""
    names: dict[str, None] = {}
    for index in range(kind.num_fields):
        clean = _clean(kind.field(index).name)
        while clean in names:
            clean += "_"
        names[clean] = None
    return list(names)


def _clean(name: str) -> str:
    clean = _NOT_A_NAME.sub("_", name) or "_"
    return f"_{clean}" if clean[0].isdigit() else clean


def _scalar(kind: Any) -> tuple[Any, Any]:
    for check, shape, arrow in _SCALARS:
        if check(kind):
            return shape, arrow
    if pa.types.is_decimal(kind):
        decimal = {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
        return decimal, kind
    if pa.types.is_timestamp(kind):
        logical, unit = _TIMES[kind.unit]
        prefix = "" if kind.tz is not None else "local-"
        return {"type": "long", "logicalType": f"{prefix}timestamp-{logical}"}, pa.timestamp(unit, kind.tz)
    if pa.types.is_time32(kind):
        return {"type": "int", "logicalType": "time-millis"}, pa.time32("ms")
    if pa.types.is_time64(kind):
        # Avro has no name for nanoseconds of a day: the number alone.
        named = {"type": "long", "logicalType": "time-micros"}
        return (named if kind.unit == "us" else "long"), kind
    raise NotImplementedError(f"there is no Avro type for the Arrow type {kind}")


_SCALARS: Final = (
    # A cast of nulls within another type to nulls is wrong, or ends the process (apache/arrow#43838).
    (pa.types.is_null, "null", pa.bool_()),
    (pa.types.is_boolean, "boolean", pa.bool_()),
    (
        pa.types.is_uint64,
        {"type": "bytes", "logicalType": "decimal", "precision": _UINT64_DIGITS, "scale": 0},
        pa.decimal128(_UINT64_DIGITS, 0),
    ),
    (pa.types.is_int64, "long", pa.int64()),
    (pa.types.is_uint32, "long", pa.int64()),
    (pa.types.is_integer, "int", pa.int32()),
    (pa.types.is_float64, "double", pa.float64()),
    (pa.types.is_floating, "float", pa.float32()),
    (pa.types.is_string, "string", pa.string()),
    (pa.types.is_large_string, "string", pa.string()),
    (pa.types.is_string_view, "string", pa.string()),
    (pa.types.is_date, {"type": "int", "logicalType": "date"}, pa.date32()),
    (pa.types.is_duration, "long", pa.int64()),
    (pa.types.is_binary, "bytes", pa.binary()),
    (pa.types.is_large_binary, "bytes", pa.binary()),
    (pa.types.is_fixed_size_binary, "bytes", pa.binary()),
)


@lru_cache(maxsize=256)
def avro_schema(kind: Any) -> str:
    """The Avro schema as JSON text; names that Avro does not allow are changed, places stay."""
    row = json.loads(AvroRows(pa.schema([pa.field("value", kind)]), JsonFormat.ISO).schema)
    shape = row["fields"][0]["type"]
    return json.dumps(shape if shape == "null" else shape[1], separators=(",", ":"))
