"""Which records have values that rows of an object cannot hold, though their schema is one that it has.

Connect itself checks neither the digits of a decimal, nor the length of a fixed, nor the symbols of an enum.
"""

from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.conversion.encoders import new_encoder
from headrace.conversion.side_rows import new_side_encoder, side_output
from headrace.formats.connect import ConnectSchema, InvalidSchema, Type
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.avro_names import DEFAULT_PRECISION, ENUM, FIXED_SIZE, UNION
from headrace.formats.connect.schema import DECIMAL, decimal_precision
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.row_schema import PartSchema, RowSchema
from headrace.model.columns import Numbers
from headrace.options.sink_settings import ConverterKind, OutputFormat, OutputSettings, SideRole

# Of headers: the values of the others always fit the one type that each has.
_LOOSE_HEADERS: Final = frozenset({ConverterKind.SIMPLE, ConverterKind.JSON})
_UNFIT: Final = (pa.ArrowException, ArithmeticError, TypeError, ValueError)


def may_be_unfit(output: OutputSettings, schema: RowSchema) -> bool:
    """False where every value of the schema's types has a row, which spares a look at the values."""
    if schema.headers and output.rows.headers in _LOOSE_HEADERS:
        return True
    parts = [(output.format, schema.key), (output.format, schema.value)]
    if output.sidecars.keys is not None:
        parts.append((output.sidecars.keys.format, schema.side_key))
    return any(part is not None and _is_narrower(form, part) for form, part in parts)


def unfit_rows(output: OutputSettings, schema: RowSchema, records: ConvertedRecords) -> Numbers:
    """The rows, rising, that an object of this schema cannot hold: what fails alone, when it is tried."""
    wanted = np.arange(len(records))
    if output.sidecars.tombstone_template is not None:
        wanted = np.flatnonzero(~records.value.nulls())
    return _unfit(output, schema, records, wanted)


def is_projection_unfit(output: OutputSettings, opened: RowSchema, records: ConvertedRecords) -> bool:
    """Whether an object of the schema `opened` cannot hold all of these records of a later version."""
    parts = (opened.key, opened.value, opened.side_key)
    has_promises = any(
        part is not None and part.schema is not None and part.schema.connect is not None for part in parts
    )
    return has_promises and bool(len(unfit_rows(output, opened, records)))


def unfit_value(output: OutputSettings) -> tuple[str, str]:
    """Reason and sentence of such a record."""
    message = (
        f"output.format={output.format} cannot hold the record: a value is not what its schema says, such as "
        "a decimal of more digits than its precision, a fixed of another length, a symbol that its enum has "
        "not, or a null where none may be"
    )
    return "value_unfit", message


def _unfit(output: OutputSettings, schema: RowSchema, records: ConvertedRecords, rows: Numbers) -> Numbers:
    if not len(rows) or _is_held(output, schema, records.take(rows)):
        return np.zeros(0, np.int64)
    if len(rows) == 1:
        return rows
    middle = len(rows) // 2
    halves = (rows[:middle], rows[middle:])
    return np.concatenate([_unfit(output, schema, records, half) for half in halves])


def _is_held(output: OutputSettings, schema: RowSchema, records: ConvertedRecords) -> bool:
    encoders = [new_encoder(output, schema)]
    if schema.side_key is not None:
        beside = side_output(output, SideRole.KEYS)
        encoders.append(new_side_encoder(beside, SideRole.KEYS, schema, header=output.rows.headers))
    try:
        for encoder in encoders:
            encoder.add(records)
            encoder.finish()
    except _UNFIT:
        return False
    return True


@lru_cache(maxsize=1000)
def _is_narrower(form: OutputFormat, part: PartSchema) -> bool:
    if part.schema is None or part.schema.connect is None or part.schema.arrow is None:
        return False
    try:
        return _narrower(form, part.schema.arrow, part.schema.connect)
    except InvalidSchema:
        return True


def _narrower(form: OutputFormat, kind: Any, schema: ConnectSchema) -> bool:
    """True where the converter's values of `kind` can be more than the rows of this schema hold."""
    match schema.type:
        case Type.STRUCT:
            return schema.name == UNION or any(
                _narrower(form, kind.field(index).type, each.schema)
                for index, each in enumerate(schema.fields)
            )
        case Type.ARRAY:
            return _narrower(form, kind.value_type, schema.item)
        case Type.MAP:
            entry = (kind.key_type, kind.item_type) if pa.types.is_map(kind) else _entry(kind)
            return any(
                _narrower(form, each, part) for each, part in zip(entry, schema.map_parts, strict=True)
            )
        case _:
            return _narrower_scalar(form, kind, schema)


def _entry(kind: Any) -> tuple[Any, Any]:
    return kind.value_type.field(0).type, kind.value_type.field(1).type


def _narrower_scalar(form: OutputFormat, kind: Any, schema: ConnectSchema) -> bool:
    if schema.name == DECIMAL:
        digits = decimal_precision(schema) or DEFAULT_PRECISION
        return form is OutputFormat.PARQUET and kind.precision > digits
    if any(schema.parameter(name) is not None for name in (FIXED_SIZE, ENUM)):
        return True
    is_number = pa.types.is_temporal(kind) and schema.type in {Type.INT32, Type.INT64}
    return not is_number and kind != arrow_type(schema)
