"""Where a datum ends, found by walking its schema, and what memory it takes once it is decoded.

Both are for doubtful data: every length is held against what is there, depth and empty items are bounded.
Data take thousands of times their bytes, if the schema is made so. Costs are bytes, about: of the Python
objects that a datum becomes and of its JSON.
"""

import json
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from headrace.formats.avro_schema import WIDTHS, Node, all_nodes, minimal_size
from headrace.model.columns import Numbers

# What a batch of data may take.
COST_BYTES: Final = 32 * 1024 * 1024

_OBJECT_BYTES: Final = {"record": 240, "array": 64, "map": 64, "union": 64, "null": 8, "boolean": 8}
_OTHER_OBJECT_BYTES: Final = 64
# A map's items come as records of two, their keys as texts.
_PAIR_BYTES: Final = 320
_TEXT_BYTES: Final = {"null": 4, "boolean": 5, "int": 11, "long": 20, "float": 24, "double": 24}
_OTHER_TEXT_BYTES: Final = 40
_INFINITE: Final = 1 << 62


def own_text(node: Node) -> int:
    """JSON of a value next to what it holds: its labels, brackets and what its type adds."""
    match node.kind:
        case "record":
            return 2 + sum(len(json.dumps(name, ensure_ascii=False).encode()) + 2 for name, _ in node.fields)
        case "enum":
            return 2 + max((len(symbol) for symbol in node.symbols), default=0)
        case kind:
            return _TEXT_BYTES.get(kind, _OTHER_TEXT_BYTES) + node.scale


def own_cost(node: Node) -> int:
    """The objects and the JSON of a value next to what it holds."""
    return _OBJECT_BYTES.get(node.kind, _OTHER_OBJECT_BYTES) + own_text(node)


def fixed_cost(node: Node, *, text_only: bool = False, known: dict[int, int] | None = None) -> int:
    """The most that a value takes next to items of arrays and maps; a type within itself counts once."""
    known = {} if known is None else known
    if id(node) not in known:
        known[id(node)] = 0
        cost = own_text(node) if text_only else own_cost(node)
        below = [fixed_cost(child, text_only=text_only, known=known) for _, child in node.fields]
        branches = [fixed_cost(each, text_only=text_only, known=known) for each in node.branches]
        known[id(node)] = min(cost + sum(below) + max(branches, default=0), _INFINITE)
    return known[id(node)]


def cost_a_byte(node: Node) -> int:
    """The most that a byte of arrays and maps becomes; at least 1."""
    most = 1
    sizes: dict[int, int] = {}
    costs: dict[int, int] = {}
    for each in all_nodes(node):
        if each.items is not None:
            pair = _PAIR_BYTES if each.kind == "map" else 0
            least = max(1, minimal_size(each.content, sizes) + (each.kind == "map"))
            most = max(most, (fixed_cost(each.content, known=costs) + pair) // least)
    return most


def text_sizes(array: Any, node: Node) -> Numbers:
    """The most JSON that each value of a column becomes, next to the bytes of its texts."""
    sizes = np.full(len(array), fixed_cost(node, text_only=True), np.int64)
    sizes += _item_sizes(array, node)
    return sizes


def _item_sizes(array: Any, node: Node) -> Any:
    """The same of the items of arrays and maps alone; 0 where there are none."""
    if node.nullable is not None:
        return _item_sizes(array, node.nullable)
    if node.kind == "record":
        return sum(
            (_item_sizes(array.field(index), child) for index, (_, child) in enumerate(node.fields)), start=0
        )
    if node.items is None:
        return 0
    counts = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = array.flatten()
    sizes = text_sizes(items.field(1) if node.kind == "map" else items, node.content) + 3
    before = np.concatenate([[0], np.cumsum(sizes)])
    ends = np.cumsum(counts)
    return before[ends] - before[ends - counts]


DEPTH_MAX: Final = 200
_EMPTY_ITEMS_MAX: Final = 100_000
_VARINT_BYTES: Final = 10
_LONGS: Final = frozenset({"int", "long", "enum"})
_TEXTS: Final = frozenset({"bytes", "string"})


class DatumError(ValueError):
    """The bytes are no datum of the schema; `reason` is a word for the metric."""

    def __init__(self, message: str, *, reason: str = "not_avro") -> None:
        super().__init__(message)
        self.reason = reason


class Budget:
    """What a datum may take once it is decoded, spent value by value."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._costs: dict[int, int] = {}
        self.spent = 0

    def spend(self, node: Node) -> None:
        """DatumError, reason `unit_too_large`, where the limit is passed."""
        cost = self._costs.get(id(node))
        if cost is None:
            cost = self._costs[id(node)] = own_cost(node)
        self.spent += cost
        if self.spent > self._limit:
            raise DatumError(
                f"it takes more than decode.unit.max.bytes ({self._limit}) once it is decoded",
                reason="unit_too_large",
            )


def datum_end(data: bytes, at: int, node: Node, depth: int = 0, budget: Budget | None = None) -> int:
    """Offset behind the datum of `node` that begins at `at`; DatumError when there is none."""
    if depth > DEPTH_MAX:
        raise DatumError(f"the datum is nested deeper than {DEPTH_MAX} levels", reason="too_deep")
    if budget is not None:
        budget.spend(node)
    kind = node.kind
    if kind in _LONGS:
        return read_long(data, at)[1]
    if kind in _TEXTS:
        return _text_end(data, at)
    if kind in ("array", "map"):
        return _items_end(data, at, node, depth, budget)
    if kind == "union":
        index, at = read_long(data, at)
        if not 0 <= index < len(node.branches):
            raise DatumError("a union has no such branch")
        return datum_end(data, at, node.branches[index], depth + 1, budget)
    if kind == "record":
        for _, child in node.fields:
            at = datum_end(data, at, child, depth + 1, budget)
        return at
    return _within(data, at + (node.size if kind == "fixed" else WIDTHS[kind]))


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and the offset behind it."""
    value = 0
    for count in range(_VARINT_BYTES):
        if at + count >= len(data):
            raise DatumError("the datum ends within a number")
        octet = data[at + count]
        value |= (octet & 0x7F) << (7 * count)
        if octet < 0x80:  # noqa: PLR2004  # no continuation bit
            return (value >> 1) ^ -(value & 1), at + count + 1
    raise DatumError("a number has more than ten bytes")


def _within(data: bytes, end: int) -> int:
    if end > len(data):
        raise DatumError("the datum is longer than its block")
    return end


def _text_end(data: bytes, at: int) -> int:
    length, at = read_long(data, at)
    if length < 0:
        raise DatumError("a length is negative")
    return _within(data, at + length)


def _items_end(data: bytes, at: int, node: Node, depth: int, budget: Budget | None) -> int:
    is_map = node.kind == "map"
    least = minimal_size(node.content) + is_map
    empty = 0
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return at
        if count < 0:
            count, (_, at) = -count, read_long(data, at)
        if least == 0:
            empty += count
            if empty > _EMPTY_ITEMS_MAX:
                raise DatumError("an array claims too many items without content", reason="too_large")
        elif count * least > len(data) - at:
            raise DatumError("an array or map claims more items than its block has bytes")
        for _ in range(count):
            if is_map:
                at = _text_end(data, at)
            at = datum_end(data, at, node.content, depth + 1, budget)
