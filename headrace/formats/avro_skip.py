"""Where a datum ends, found by walking its schema: what a decoder says of one that it could not read.

Written for doubtful data: every length is held against what is there, depth and empty items are bounded.
"""

from typing import Final

from headrace.formats.avro_cost import own_cost
from headrace.formats.avro_schema import WIDTHS, Node, minimal_size

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
