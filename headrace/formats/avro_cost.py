"""What data take in memory once they are decoded: thousands of times their bytes, if the schema is made so.

Costs are bytes, about: of the Python objects that a datum becomes and of its JSON.
"""

import json
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from headrace.formats.avro_schema import Node, all_nodes, minimal_size
from headrace.model.rows import Numbers

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
    for each in all_nodes(node):
        if each.items is not None:
            pair = _PAIR_BYTES if each.kind == "map" else 0
            least = max(1, minimal_size(each.content) + (each.kind == "map"))
            most = max(most, (fixed_cost(each.content) + pair) // least)
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
