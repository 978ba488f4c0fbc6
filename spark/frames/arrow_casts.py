"""Arrays of Arrow as a column of a schema has them, each value or none of it; pure.

What a value is in a column does not depend on its format: Parquet is read as the JSON of its rows would be.
Arrow's own casts round, cut, and write texts otherwise.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import list_offsets, map_lists
from headrace.formats.arrow_rows import json_values
from headrace.options.choices import JsonFormat
from spark.frames.column_types import is_number

_EXACT: Final = {32: 2**24, 64: 2**53}
"""Up to here each integer is one of the floating type with so many bits."""


def cast(array: Any, kind: Any) -> Any | None:
    """The array in this type, None where a value is not one of it."""
    if array.type.equals(kind):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if not _may_be(array.type, kind):
        return None
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array.type, pa.BaseExtensionType):
        return cast(_unwrapped(array, kind), kind)
    try:
        return _cast_nested(array, kind) if pa.types.is_nested(kind) else _cast_plain(array, kind)
    except pa.ArrowException:
        return None


def cast_each(array: Any, kind: Any) -> tuple[Any, Any]:
    """The array in this type with null for what is not one of it, and what that was."""
    values: list[Any] = []
    misfits = np.zeros(len(array), bool)
    for row in range(len(array)):
        one = cast(array.slice(row, 1), kind)
        misfits[row] = one is None
        values.append(pa.nulls(1, kind) if one is None else one)
    return pa.concat_arrays(values) if values else pa.nulls(0, kind), _only(array, misfits)


def without_lost(array: Any, kind: Any) -> tuple[Any, Any]:
    """The array with null for structs with more members than the column has, and these."""
    loses = _loses(array, kind)
    return _only(array, ~loses), _only(array, loses)


def _only(array: Any, mask: Any) -> Any:
    """The array with null for what the mask leaves out; Arrow's `if_else` does not know all types."""
    return array.take(pa.array(np.arange(len(array)), mask=~mask))


def json_texts(array: Any) -> list[str | None]:
    """The JSON of each value; None for nulls. Python has no objects for many a time of Parquet."""
    texts = json_values(array, JsonFormat.ISO).to_pylist()
    is_there = array.is_valid().to_numpy(zero_copy_only=False)
    return [text if is_one else None for text, is_one in zip(texts, is_there, strict=True)]


def has_more(given: Any, kind: Any) -> bool:
    """Whether structs of one type of Arrow's have members that those of a column do not have."""
    if pa.types.is_struct(kind) and pa.types.is_struct(given):
        known = {field.name: field.type for field in kind}
        return any(field.name not in known or has_more(field.type, known[field.name]) for field in given)
    if pa.types.is_list(kind) and _is_list(given):
        return has_more(given.value_type, kind.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(given):
        return has_more(given.item_type, kind.item_type)
    return False


def _cast_plain(array: Any, kind: Any) -> Any | None:
    types = pa.types
    if types.is_string(kind):
        return _text(array)
    if types.is_decimal(kind) and not types.is_decimal(array.type):
        # By its digits: Arrow goes by those that an integer's type may have, and rounds doubles.
        return array.cast(pa.string()).cast(kind)
    if types.is_timestamp(kind):
        return _moments(array, kind)
    if not types.is_floating(kind):
        return array.cast(kind)
    # What Arrow makes of decimals is not the nearest one.
    found = (array.cast(pa.string()) if types.is_decimal(array.type) else array).cast(kind)
    return found if _is_near(array, found) else None


def _cast_nested(array: Any, kind: Any) -> Any | None:
    nulls = array.is_null()
    if pa.types.is_struct(kind):
        members = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        found = []
        for field in kind:
            member = members.get(field.name)
            made = pa.nulls(len(array), field.type) if member is None else cast(member, field.type)
            if made is None:
                return None
            found.append(made)
        return pa.StructArray.from_arrays(found, fields=list(kind), mask=nulls)
    is_map = pa.types.is_map(kind)
    lists = map_lists(array) if is_map else array
    values = lists.flatten()
    if not is_map:
        items = cast(values, kind.value_type)
        if items is None:
            return None
        return pa.ListArray.from_arrays(list_offsets(lists), items, type=kind, mask=nulls)
    keys, items = cast(values.field(0), kind.key_type), cast(values.field(1), kind.item_type)
    if keys is None or items is None:
        return None
    return pa.MapArray.from_arrays(list_offsets(lists), keys, items, type=kind, mask=nulls)


def _is_uuid(kind: Any) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def _unwrapped(array: Any, kind: Any) -> Any:
    """What Parquet's UUID or JSON is in a column: the UUID's text, or its bytes in a column of these."""
    return _json_text(array) if _is_uuid(array.type) and not pa.types.is_binary(kind) else array.storage


def _text(array: Any) -> Any:
    """Texts as they are, bytes as what they spell, and everything else as its JSON, a time without quotes."""
    kind = array.type
    if not (pa.types.is_nested(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return array.cast(pa.string())
    return _json_text(array)


def _json_text(array: Any) -> Any:
    kind = array.type
    texts = json_values(array, JsonFormat.ISO)
    texts = pc.if_else(pc.starts_with(texts, '"'), pc.utf8_slice_codeunits(texts, 1, -1), texts)
    if pa.types.is_floating(kind):
        # JSON has no word for NaN.
        texts = pc.if_else(pc.is_finite(array), texts, array.cast(pa.string()))
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))


def _moments(array: Any, kind: Any) -> Any:
    """Times; a text without a zone is one in UTC where the column has a zone."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        if kind.tz is None or not pa.types.is_string(array.type):
            raise
        return array.cast(pa.timestamp("us")).cast(kind)


def _is_near(array: Any, found: Any) -> bool:
    """Whether doubles or floats are what was given: none is infinite for it, and no integer another one."""
    is_decimal = pa.types.is_decimal(array.type)
    if not (is_decimal or pa.types.is_floating(array.type)):
        # Arrow looks at integers itself.
        return True
    given_finite = array.is_valid() if is_decimal else pc.is_finite(array)
    if pc.any(pc.and_(given_finite, pc.is_inf(found))).as_py():
        return False
    if not is_decimal or array.type.scale > 0:
        return True
    is_large = pc.greater_equal(pc.abs(found), float(_EXACT[found.type.bit_width]))
    pairs = zip(array.filter(is_large).to_pylist(), found.filter(is_large).to_pylist(), strict=True)
    return all(int(digits) == int(near) for digits, near in pairs)


def _loses(array: Any, kind: Any) -> Any:
    """For each value, whether it has members with values that a column of this type does not have."""
    found = np.zeros(len(array), bool)
    if not has_more(array.type, kind):
        return found
    if pa.types.is_struct(kind):
        known = {field.name: field.type for field in kind}
        for field, member in zip(array.type, array.flatten(), strict=True):
            if field.name in known:
                found |= _loses(member, known[field.name])
            else:
                found |= member.is_valid().to_numpy(zero_copy_only=False)
        return found
    is_map = pa.types.is_map(kind)
    lists = map_lists(array) if is_map else array
    values = lists.flatten()
    within = _loses(values.field(1), kind.item_type) if is_map else _loses(values, kind.value_type)
    before = np.concatenate(([0], np.cumsum(within)))
    ends = np.asarray(list_offsets(lists))
    return before[ends[1:]] > before[ends[:-1]]


def _may_be(given: Any, kind: Any) -> bool:  # noqa: C901, PLR0911  # one case a kind of type
    """Whether values of one type of Arrow's may be those of a column, as those of JSON are.

    A text takes every value, and a time may be a text; no number is a time, a boolean or a text's.
    """
    types = pa.types
    if given.equals(kind) or types.is_null(given):
        return True
    if types.is_dictionary(given):
        return _may_be(given.value_type, kind)
    if isinstance(given, pa.BaseExtensionType):
        return _may_be(pa.string() if _is_uuid(given) else given.storage_type, kind)
    is_text = types.is_string(given) or types.is_large_string(given) or types.is_string_view(given)
    if types.is_struct(kind):
        known = {field.name: field.type for field in given} if types.is_struct(given) else None
        return known is not None and all(
            _may_be(known[field.name], field.type) for field in kind if field.name in known
        )
    if types.is_list(kind):
        return _is_list(given) and _may_be(given.value_type, kind.value_type)
    if types.is_map(kind):
        return (
            types.is_map(given)
            and _may_be(given.key_type, kind.key_type)
            and _may_be(given.item_type, kind.item_type)
        )
    if types.is_boolean(kind):
        return False
    if types.is_decimal(kind):
        return bool(is_text) or is_number(given)
    if is_number(kind):
        return is_number(given)
    if types.is_timestamp(kind):
        is_time = types.is_timestamp(given) and (kind.tz is not None or given.tz is None)
        return bool(is_time or is_text or types.is_date(given))
    if types.is_date(kind):
        return bool(is_text or types.is_date(given))
    if types.is_time(kind):
        return bool(types.is_time(given))
    return not types.is_duration(kind) or bool(types.is_duration(given))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
