"""Avro data as JSON text, from Arrow columns or from Python values, to the same text either way."""

import base64
import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import Pieces, gathered, joined, scalar_pieces, string_octets, uuid_pieces
from headrace.formats.avro_data import KEY, VALUE, arrow_type, has_columns
from headrace.formats.avro_schema import Node
from headrace.options.choices import JsonFormat

# -- Avro decimals, unscaled integers in big-endian two's complement of any length, as JSON text -------------

# What a decimal128 holds: bytes of its integer, digits behind the point.
_WIDTH = 16
_SCALE_MAX = 38
# 39,457 digits, which take some milliseconds; more take the square of that.
_DIGITS_BYTES: Final = 16 * 1024
_GROUP_DIGITS: Final = 4_000
_GROUP: Final = 10**_GROUP_DIGITS


class ValueFault(ValueError):
    """A value that the schema's type cannot hold, such as an enum's index beyond its symbols."""


def decimal_pieces(array: Any, scale: int, style: JsonFormat) -> Pieces:
    """Text of binary values as decimals of `scale`; nulls stay nulls. `connect` keeps the least bytes.

    ValueFault for one of more than 16 KiB of which the digits are wanted.
    """
    array = array.cast(pa.binary())
    if style is JsonFormat.ISO and scale <= _SCALE_MAX:
        numbers = decimal128(array, scale)
        if numbers is not None:
            return scalar_pieces(numbers, style) or []
    spell = _connect if style is JsonFormat.CONNECT else _plain
    texts = [None if value is None else spell(value, scale) for value in array.to_pylist()]
    return [pa.array(texts, pa.string())]


def _plain(value: bytes, scale: int) -> str:
    if len(value) > _DIGITS_BYTES:
        raise ValueFault("a decimal has too many digits")
    unscaled = int.from_bytes(value, "big", signed=True)
    digits = _digits(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _digits(number: int) -> str:
    """All digits, which Python gives of 4,300 at most at once, as it takes the square of their number."""
    groups: list[str] = []
    while number >= _GROUP:
        number, rest = divmod(number, _GROUP)
        groups.append(str(rest).zfill(_GROUP_DIGITS))
    return "".join([str(number), *reversed(groups)])


def _connect(value: bytes, _scale: int) -> str:
    unscaled = int.from_bytes(value, "big", signed=True)
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return f'"{base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()}"'


def decimal128(array: Any, scale: int) -> Any | None:
    """The values as decimal128, byte by byte from the right for all rows at once; None for wider values."""
    rows = len(array)
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + rows + 1]
    lengths = np.diff(offsets)
    if not rows or lengths.max() > _WIDTH:
        return None
    octets = string_octets(array)
    ends = offsets[1:] - offsets[0]
    # A value without bytes is zero; at its place is the first byte of the next one.
    has_sign = lengths > 0
    signs = np.zeros(rows, np.uint8)
    signs[has_sign] = octets[(ends - lengths)[has_sign]] & 0x80
    numbers = np.where((signs > 0)[:, None], np.uint8(0xFF), np.uint8(0)).repeat(_WIDTH, axis=1)
    for place in range(int(lengths.max())):
        there = np.flatnonzero(lengths > place)
        numbers[there, place] = octets[ends[there] - 1 - place]
    return pa.Array.from_buffers(
        pa.decimal128(_SCALE_MAX, scale),
        rows,
        [_validity(array), pa.py_buffer(np.ascontiguousarray(numbers))],
    )


def _validity(array: Any) -> Any:
    if not array.null_count:
        return None
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


# -- Avro data as JSON text, from Arrow columns or from Python values, to the same text either way -----------

_TEMPORAL: Final = {
    "date": (pa.int32(), pa.date32()),
    "time-millis": (pa.int32(), pa.time32("ms")),
    "time-micros": (pa.int64(), pa.time64("us")),
    "timestamp-millis": (pa.int64(), pa.timestamp("ms", "UTC")),
    "timestamp-micros": (pa.int64(), pa.timestamp("us", "UTC")),
    "timestamp-nanos": (pa.int64(), pa.timestamp("ns", "UTC")),
    "local-timestamp-millis": (pa.int64(), pa.timestamp("ms")),
    "local-timestamp-micros": (pa.int64(), pa.timestamp("us")),
    "local-timestamp-nanos": (pa.int64(), pa.timestamp("ns")),
}


def column_texts(array: Any, node: Node, style: JsonFormat) -> Any:
    """A string array with the JSON of each value of a column laid out as `arrow_type(node)`."""
    return joined(_pieces(array, node, style), len(array))


def value_texts(values: list[Any], node: Node, style: JsonFormat) -> Any:
    """The same for Python values as fastavro reads them with `reading_schema(node)`."""
    if not values:
        return pa.array([], pa.string())
    if node.kind == "null":
        return pa.array(["null"] * len(values), pa.string())
    if _is_flat(node):
        return column_texts(pa.array(values, arrow_type(node)), node, style)
    match node.kind:
        case "union":
            return _union_texts(values, node, style)
        case "record":
            pieces: Pieces = ["{"]
            for index, (name, child) in enumerate(node.fields):
                pieces.append(_label(index, name))
                pieces.append(value_texts([value[f"f{index}"] for value in values], child, style))
            return joined([*pieces, "}"], len(values))
        case _:
            return _item_texts(values, node, style)


def _is_flat(node: Node) -> bool:
    """True where a column is made in one go: a scalar, or null and a scalar, or a list of them."""
    inner = node.nullable or node
    if inner.kind in ("array", "map"):
        inner = inner.content.nullable or inner.content
    return inner.kind not in ("record", "array", "map", "union") and has_columns(node)


def _union_texts(values: list[Any], node: Node, style: JsonFormat) -> Any:
    """Each branch's values as a column of their own, put back in their places."""
    if node.nullable is not None:
        present = [index for index, value in enumerate(values) if value is not None]
        branches = {0: present}
        nodes = {0: node.nullable}
        parts = {0: [values[index] for index in present]}
    else:
        nodes = dict(enumerate(node.branches))
        branches, parts = {}, {}
        for index, value in enumerate(values):
            branch, own = _unwrapped(value)
            branches.setdefault(branch, []).append(index)
            parts.setdefault(branch, []).append(own)
    order = np.zeros(len(values), np.int64)
    texts = [pa.array(["null"], pa.string())]
    behind = 1
    for branch, indices in branches.items():
        texts.append(value_texts(parts[branch], nodes[branch], style))
        order[indices] = np.arange(behind, behind + len(indices))
        behind += len(indices)
    return pa.concat_arrays(texts).take(pa.array(order))


def _unwrapped(value: Any) -> tuple[int, Any]:
    """The branch and the value of a union that has more than null and one other."""
    # fastavro names the record of a branch only where there are several.
    name, wrapped = value if isinstance(value, tuple) else ("b0_", value)
    return int(name[1 : name.index("_")]), wrapped[VALUE]


def nulls_of(values: list[Any], node: Node) -> list[bool]:
    """Which of the values, as fastavro reads them with `reading_schema(node)`, are null."""
    if node.kind == "union" and node.nullable is None:
        return [value is None or _unwrapped(value)[1] is None for value in values]
    return [value is None for value in values]


def bytes_of_union(values: list[Any], node: Node) -> list[bool] | None:
    """Which of a union's values are bytes, whose JSON is base64; None for others than such a union."""
    if node.kind != "union" or node.nullable is not None:
        return None
    kinds = [each.kind in ("bytes", "fixed") and each.logical is None for each in node.branches]
    if not any(kinds):
        return None
    return [value is not None and kinds[_unwrapped(value)[0]] for value in values]


def _item_texts(values: list[Any], node: Node, style: JsonFormat) -> Any:
    lengths = pa.array([len(value) for value in values], pa.int32())
    items = [item for value in values for item in value]
    if node.kind == "array":
        return joined(["[", gathered(value_texts(items, node.content, style), lengths), "]"], len(values))
    keys = scalar_pieces(pa.array([item[KEY] for item in items], pa.string()), style) or []
    texts = value_texts([item[VALUE] for item in items], node.content, style)
    pairs = joined([*keys, ":", texts], len(items))
    return joined(["{", gathered(pairs, lengths), "}"], len(values))


def _label(index: int, name: str) -> str:
    return f"{',' if index else ''}{json.dumps(name, ensure_ascii=False)}:"


def _pieces(array: Any, node: Node, style: JsonFormat) -> Pieces:
    """As `headrace.formats.arrow_rows` does it, with what the Avro schema knows of names and types."""
    if node.nullable is None:
        return _filled_pieces(array, node, style)
    if array.null_count == len(array) and len(array):
        return ["null"]
    pieces = _filled_pieces(array, node.nullable, style)
    if not array.null_count:
        return pieces
    return [pc.if_else(array.is_valid(), joined(pieces, len(array)), "null")]


def _filled_pieces(array: Any, node: Node, style: JsonFormat) -> Pieces:
    match node.kind:
        case "record":
            pieces: Pieces = ["{"]
            for index, (name, child) in enumerate(node.fields):
                pieces += [_label(index, name), *_pieces(array.field(index), child, style)]
            return [*pieces, "}"]
        case "array":
            elements = array.flatten()
            texts = joined(_pieces(elements, node.content, style), len(elements))
            return ["[", gathered(texts, pc.list_value_length(array)), "]"]
        case "map":
            entries = array.flatten()
            keys = scalar_pieces(entries.field(0), style) or []
            pairs = joined([*keys, ":", *_pieces(entries.field(1), node.content, style)], len(entries))
            return ["{", gathered(pairs, pc.list_value_length(array)), "}"]
        case "enum":
            return _symbols(array, node, style)
        case _:
            return _scalar(array, node, style)


def _symbols(array: Any, node: Node, style: JsonFormat) -> Pieces:
    indices = array.fill_null(0)
    bounds = pc.min_max(indices)
    if len(indices) and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < len(node.symbols):
        raise ValueFault("an enum has no such symbol")
    if not node.symbols:
        return ["null"]
    return scalar_pieces(pa.array(node.symbols, pa.string()).take(indices), style) or []


def _scalar(array: Any, node: Node, style: JsonFormat) -> Pieces:
    if node.logical == "decimal":
        return decimal_pieces(array, node.scale, style)
    if node.logical == "uuid" and node.kind == "fixed":
        return uuid_pieces(array)
    if node.logical in _TEMPORAL:
        width, kind = _TEMPORAL[node.logical]
        try:
            array = array.cast(width).cast(kind)
        except pa.ArrowInvalid as error:
            raise ValueFault(f"a value is no {node.logical}") from error
    return scalar_pieces(array, style) or []
