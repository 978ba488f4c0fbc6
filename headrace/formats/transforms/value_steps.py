"""Steps that change what fields hold: masking, and casts to other types, by Java's rules."""

import base64
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa

from headrace.formats.connect import ConnectSchema, Default
from headrace.formats.connect.arrow_types import schema_of_arrow
from headrace.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP
from headrace.formats.connect.values import time_text
from headrace.formats.converted_records import ConvertedRecords, Form
from headrace.formats.converters.typed_columns import PlainColumn, TypedColumn
from headrace.formats.transforms import step_values
from headrace.formats.transforms.step_values import NULL, Refused, RefusedRows, json_column, value_of
from headrace.formats.transforms.struct_objects import (
    StructField,
    StructObjects,
    chosen_column,
    default_array,
    opened,
    refuse_objects,
    typed_column,
    with_column,
)
from headrace.model.columns import column_of
from headrace.options.choices import JsonFormat
from headrace.options.transforms.chain import Cast, CastType, MaskField

_BITS: Final = {CastType.INT8: 8, CastType.INT16: 16, CastType.INT32: 32, CastType.INT64: 64}
_ARROW: Final = {
    CastType.INT8: (pa.int8(), "int"),
    CastType.INT16: (pa.int16(), "int"),
    CastType.INT32: (pa.int32(), "int"),
    CastType.INT64: (pa.int64(), "long"),
    CastType.FLOAT32: (pa.float32(), "float"),
    CastType.FLOAT64: (pa.float64(), "double"),
    CastType.BOOLEAN: (pa.bool_(), "boolean"),
    CastType.STRING: (pa.string(), "string"),
}
_LOGICAL: Final = frozenset({DATE, DECIMAL, TIME, TIMESTAMP})
_LONGS: Final = range(-(2**63), 2**63)
_LONG_BITS: Final = 64
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
# Of Arrow's decimals, whose code ends the process at exponents of many millions.
_DECIMAL_DIGITS: Final = 76
Change = Callable[[Any], Any]


# -- masks ---------------------------------------------------------------------------------------------------


def mask_field(step: MaskField, records: ConvertedRecords, refused: RefusedRows) -> list[ConvertedRecords]:
    """Fields as the empty value of their type, or as the replacement; nulls in them stay."""
    objects = opened(records, step.which, refused, fills_defaults=step.fills_defaults, takes_nulls=False)
    if objects is None:
        return [records]
    for name in sorted(step.fields):
        if isinstance(objects, StructObjects):
            field = objects.get(name)
            if field is not None:
                objects = _masked_struct(objects, field, step.replacement, records, refused)
            continue
        masked = [
            _changed(text, lambda value: masked_json(value, step.replacement), offset, refused)
            for text, offset in zip(objects.members(name), records.records.offsets.tolist(), strict=True)
        ]
        objects.put(name, [text or bytes(NULL) for text in masked])
    return [with_column(records, step.which, objects.column())]


def masked_json(value: Any, replacement: str | None) -> Any:
    """The mask of a JSON value; Refused where there is none."""
    if replacement is None:
        return {bool: False, int: 0, float: 0.0, str: "", list: [], dict: {}}[type(value)]
    match value:
        case str():
            return replacement
        case bool() | list() | dict():
            raise Refused("a field that is neither number nor text cannot have a replacement")
        case int():
            return step_values.integer(_whole(replacement), _LONG_BITS)
        case _:
            return float(_decimal(replacement))


@lru_cache(maxsize=16)
def _decimal(text: str) -> Decimal:
    """What BigDecimal reads: neither NaN nor infinity."""
    try:
        number = Decimal(text) if _NUMBER.fullmatch(text) is not None else None
    except InvalidOperation:
        number = None
    if number is None:
        raise Refused("the replacement is no number, and the field is one")
    return number


def _whole(text: str) -> int:
    number = _decimal(text)
    # Of so many zeros no one of the last 64 bits is set, which alone are kept.
    return 0 if int(number.as_tuple().exponent) >= _LONG_BITS else int(number)


def _masked_struct(
    objects: StructObjects,
    field: StructField,
    replacement: str | None,
    records: ConvertedRecords,
    refused: RefusedRows,
) -> StructObjects:
    kind = field.field.type
    try:
        mask = _mask_of(kind, replacement)
    except Refused as error:
        for row, is_null in enumerate(field.values.is_null().to_pylist()):
            if not is_null:
                refused.add(records.records.offsets[row], str(error))
        return objects
    values = pa.array([None if null else mask for null in field.values.is_null().to_pylist()], kind)
    return objects.with_fields(
        [replace(each, values=values) if each is field else each for each in objects.fields]
    )


def _mask_of(kind: Any, replacement: str | None) -> Any:
    """What stands for every value of a type."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if replacement is not None:
        return _replacement_of(kind, replacement, is_number=is_number)
    for is_kind, mask in _MASKS:
        if is_kind(kind):
            return mask
    if pa.types.is_temporal(kind):
        is_short = pa.types.is_date32(kind) or pa.types.is_time32(kind)
        return pa.scalar(0, pa.int32() if is_short else pa.int64()).cast(kind).as_py()
    raise Refused("there is no mask for a field of bytes or of fields of its own")


_MASKS: Final[tuple[tuple[Callable[[Any], bool], Any], ...]] = (
    (pa.types.is_boolean, False),
    (pa.types.is_decimal, Decimal(0)),
    (pa.types.is_integer, 0),
    (pa.types.is_floating, 0.0),
    (pa.types.is_string, ""),
    (pa.types.is_list, []),
    (pa.types.is_map, []),
)


def _replacement_of(kind: Any, replacement: str, *, is_number: bool) -> Any:
    if pa.types.is_string(kind):
        return replacement
    if not is_number:
        raise Refused("a field that is neither number nor text cannot have a replacement")
    if pa.types.is_integer(kind):
        return step_values.integer(_whole(replacement), kind.bit_width)
    number = _decimal(replacement)
    if pa.types.is_floating(kind):
        return float(number)
    if max(number.adjusted(), -int(number.as_tuple().exponent)) <= _DECIMAL_DIGITS:
        try:
            return pa.scalar(number, kind).as_py()
        except pa.ArrowException:
            pass
    raise Refused("the replacement has more digits than the field's decimals")


# -- casts ---------------------------------------------------------------------------------------------------


def cast(step: Cast, records: ConvertedRecords, refused: RefusedRows) -> list[ConvertedRecords]:
    """Fields, or the whole key or value, as other types; nulls stay."""
    if step.whole is not None:
        return [_cast_whole(step, step.whole, records, refused)]
    objects = opened(records, step.which, refused, fills_defaults=step.fills_defaults, takes_nulls=True)
    if objects is None:
        return [records]
    for name, target in step.fields:
        if isinstance(objects, StructObjects):
            field = objects.get(name)
            if field is not None:
                kind, shape = _ARROW[target]
                values = _cast_array(field.values, target, records, refused)
                try:
                    default = _cast_default(field.connect, target)
                    objects = objects.changed(name, kind, values, shape, default)
                except Refused as error:
                    refuse_objects(records, step.which, f"the default of the field {name}: {error}", refused)
            continue
        texts = _cast_texts(objects.members(name), target, records, refused)
        objects.put(name, [text or bytes(NULL) for text in texts])
    return [with_column(records, step.which, objects.column())]


def _cast_default(connect: ConnectSchema | None, target: CastType) -> Default | None:
    """A schema's default as another type, as it has it after the cast."""
    array = default_array(connect)
    if array is None:
        return None
    return Default(msgspec.json.encode(_change(array.type, target)(step_values.numbered(array)[0])).decode())


def _cast_whole(
    step: Cast, target: CastType, records: ConvertedRecords, refused: RefusedRows
) -> ConvertedRecords:
    column = chosen_column(records, step.which)
    if column.form is Form.TEXT and target is CastType.STRING:
        # Connect's type is the same before and after, and so is how it is shown.
        return records
    if column.form is Form.JSON:
        found = column.texts()
        texts = _cast_texts(list(found.each(0, len(found))), target, records, refused)
        return with_column(
            records, step.which, _as_text(texts) if target is CastType.STRING else json_column(texts)
        )
    values = _cast_array(column.arrow(), target, records, refused)
    style = column.style if isinstance(column, TypedColumn) else JsonFormat.ISO
    given, shape = column.connect, _ARROW[target][1]
    # As in Kafka, whose getOrBuildSchema keeps both: a null that the schema had a place for still has one.
    optional = given is None or given.optional
    connect = None
    if given is not None:
        try:
            default = _cast_default(given, target)
        except Refused as error:
            refuse_objects(records, step.which, f"the default of the {step.which}: {error}", refused)
            return records
        connect = _named(given, replace(schema_of_arrow(values.type), optional=optional, default=default))
    made = typed_column(values, ["null", shape] if optional else shape, style, connect)
    return with_column(records, step.which, made)


def _named(given: ConnectSchema, found: ConnectSchema) -> ConnectSchema:
    """The schema with all that Kafka keeps of the one before; without the name of times and decimals."""
    if given.name in _LOGICAL:
        return found
    return replace(found, name=given.name, version=given.version, doc=given.doc, parameters=given.parameters)


def _as_text(texts: list[bytes | None]) -> PlainColumn:
    found = [None if text is None else msgspec.json.decode(text, type=str).encode() for text in texts]
    return PlainColumn(column_of(found), Form.TEXT)


def _cast_texts(
    texts: list[bytes | None], target: CastType, records: ConvertedRecords, refused: RefusedRows
) -> list[bytes | None]:
    return [
        _changed(text, lambda value: cast_json(value, target), offset, refused)
        for text, offset in zip(texts, records.records.offsets.tolist(), strict=True)
    ]


def cast_json(value: Any, target: CastType) -> Any:
    """A JSON value as another type; Refused where that cannot be."""
    if isinstance(value, list | dict) or (type(value) is int and value not in _LONGS):
        raise Refused("a list, an object, or a number beyond 64 bits cannot be cast")
    # JsonConverter reads decimals first, which have no negative zero.
    found = cast_value(value + 0.0 if isinstance(value, float) else value, target)
    if target is CastType.FLOAT32 and isinstance(found, float):
        return msgspec.Raw(_json_float(step_values.text(found, is_single=True)))
    return found


def _json_float(text: str) -> bytes:
    return b"null" if text[-1] in "Ny" else text.encode()


def cast_value(value: Any, target: CastType, *, is_single: bool = False) -> Any:
    """A number, flag or text as another type, as Java's classes do it."""
    if target in _BITS:
        return step_values.integer(value, _BITS[target])
    if target in {CastType.FLOAT32, CastType.FLOAT64}:
        return step_values.floating(value, is_single=target is CastType.FLOAT32)
    if target is CastType.BOOLEAN:
        return step_values.boolean(value)
    return step_values.text(value, is_single=is_single)


def _cast_array(array: Any, target: CastType, records: ConvertedRecords, refused: RefusedRows) -> Any:
    """The values of an Arrow array as another type."""
    kind = array.type
    change = _change(kind, target)
    found: list[Any] = []
    for row, value in enumerate(step_values.numbered(array)):
        try:
            found.append(None if value is None else change(value))
        except Refused as error:
            refused.add(records.records.offsets[row], str(error))
            found.append(None)
    return pa.array(found, _ARROW[target][0])


def _change(kind: Any, target: CastType) -> Change:
    if pa.types.is_nested(kind):
        return _refuse_nested
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _base64 if target is CastType.STRING else _refuse_bytes
    if target is CastType.STRING:
        if pa.types.is_date32(kind):
            return lambda days: time_text(days * step_values.DAY_MS)
        if pa.types.is_time32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "ms"):
            return time_text
    is_single = pa.types.is_float32(kind)
    return lambda value: cast_value(value, target, is_single=is_single)


def _refuse_nested(_value: Any) -> Any:
    raise Refused("a list, a map or a field of fields cannot be cast")


def _refuse_bytes(_value: Any) -> Any:
    raise Refused("bytes can be cast to string only")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _changed(text: bytes | None, change: Change, offset: int, refused: RefusedRows) -> bytes | None:
    """The JSON of a changed value; None for a null, JSON's too, and for one that is refused."""
    if text is None:
        return None
    try:
        value = value_of(text)
        return None if value is None else msgspec.json.encode(change(value))
    except Refused as error:
        refused.add(offset, str(error))
        return None
