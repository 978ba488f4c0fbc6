"""Arrow columns of one value each as JSON text, a whole column at a time, as the contract shows it."""

import base64
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import Pieces, escaped
from headrace.options.choices import JsonFormat

_QUOTE: Final = '"'
_FROM_SECONDS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


def scalar_pieces(array: Any, style: JsonFormat) -> Pieces | None:
    """The text of a column without nesting; nulls may be anything. None when the type is not a scalar."""
    kind = array.type
    for is_kind, write in _WRITERS:
        if is_kind(kind):
            return write(array, style)
    return None


def _plain(array: Any, _style: JsonFormat) -> Pieces:
    return [pc.cast(array, pa.string())]


def _float(array: Any, _style: JsonFormat) -> Pieces:
    """The shortest digits that give the same number; whole numbers keep a `.0`, non-finite ones are null."""
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    text = pc.cast(array, pa.string())
    # Without a point -0 would come back as an integer, and lose its sign.
    text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    finite = pc.is_finite(array)
    if not pc.all(finite, min_count=0).as_py():
        text = pc.if_else(finite, text, "null")
    return [text]


def _decimal(array: Any, style: JsonFormat) -> Pieces:
    if style is JsonFormat.CONNECT:
        scale = array.type.scale
        unscaled = [None if value is None else unscaled_base64(value, scale) for value in array.to_pylist()]
        return [_QUOTE, pa.array(unscaled, pa.string()), _QUOTE]
    text = pc.cast(array, pa.string())
    # Arrow writes small numbers with an exponent (1E-18); the digits are wanted.
    spelled = pc.match_substring(text, "E")
    if pc.any(spelled, min_count=0).as_py():
        plain = [None if value is None else f"{value:f}" for value in array.to_pylist()]
        text = pc.if_else(spelled, pa.array(plain, pa.string()), text)
    return [text]


def unscaled_base64(value: Any, scale: int) -> str:
    """Connect's decimal: base64 of the unscaled value, big-endian two's complement of the least length."""
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * 10 ** (exponent + scale) * (-1 if sign else 1)
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()


def _string(array: Any, _style: JsonFormat) -> Pieces:
    return [_QUOTE, escaped(array.cast(pa.string())), _QUOTE]


def _bytes(array: Any, _style: JsonFormat) -> Pieces:
    encoded = [None if value is None else base64.b64encode(value) for value in array.to_pylist()]
    return [_QUOTE, pa.array(encoded, pa.binary()).cast(pa.string()), _QUOTE]


def uuid_pieces(storage: Any, _style: JsonFormat = JsonFormat.ISO) -> Pieces:
    """UUIDs of 16 bytes as text with hyphens."""
    texts = []
    for value in storage.to_pylist():
        digits = (value or b"").hex()
        texts.append(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}")
    return [_QUOTE, pa.array(texts, pa.string()), _QUOTE]


def _timestamp(array: Any, style: JsonFormat) -> Pieces:
    unit, zone = array.type.unit, array.type.tz
    numbers = array.cast(pa.int64())
    if style is JsonFormat.CONNECT:
        return [_milliseconds(numbers, unit)]
    # Arrow keeps instants in UTC; without the zone's name it writes them so.
    return _moment(numbers.cast(pa.timestamp(unit)), '"' if zone is None else 'Z"')


def _moment(array: Any, suffix: str) -> Pieces:
    text = pc.replace_substring(pc.cast(array, pa.string()), " ", "T", max_replacements=1)
    return _within_calendar(array, text, suffix)


def _within_calendar(array: Any, text: Any, suffix: str) -> Pieces:
    """ISO 8601 text; what lies beyond the calendar, or the day, stays the number that it is."""
    beyond = pc.match_substring(text, "<")  # <value out of range: ..>
    if pc.any(beyond, min_count=0).as_py():
        whole = pc.binary_join_element_wise(_QUOTE, text, suffix, "")
        width = pa.int32() if array.type.bit_width == 32 else pa.int64()  # noqa: PLR2004  # bits
        return [pc.if_else(beyond, pc.cast(array.cast(width), pa.string()), whole)]
    return [_QUOTE, text, suffix]


def _date(array: Any, style: JsonFormat) -> Pieces:
    days = array.cast(pa.date32())
    if style is JsonFormat.CONNECT:
        return [pc.cast(days.cast(pa.int32()), pa.string())]
    return _within_calendar(days, pc.cast(days, pa.string()), _QUOTE)


def _time(array: Any, style: JsonFormat) -> Pieces:
    if style is JsonFormat.CONNECT:
        number = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
        return [_milliseconds(array.cast(number).cast(pa.int64()), array.type.unit)]
    return _within_calendar(array, pc.cast(array, pa.string()), _QUOTE)


def _milliseconds(numbers: Any, unit: str) -> Any:
    """Counts of a unit as text of whole milliseconds, rounded down as Java does."""
    times, by = _FROM_SECONDS[unit]
    counts = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    texts = pc.cast(pa.array(counts * times if by == 1 else counts // by), pa.string())
    return pc.if_else(numbers.is_valid(), texts, None)


def _duration(array: Any, _style: JsonFormat) -> Pieces:
    return [pc.cast(array.cast(pa.int64()), pa.string())]


def _is_bytes(kind: Any) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


_WRITERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, JsonFormat], Pieces]], ...]] = (
    (_is_text, _string),
    (pa.types.is_integer, _plain),
    (pa.types.is_boolean, _plain),
    (pa.types.is_floating, _float),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
    (pa.types.is_decimal, _decimal),
    (_is_bytes, _bytes),
    (pa.types.is_time, _time),
    (pa.types.is_duration, _duration),
)
