"""Avro data one by one through fastavro: where each begins and ends, what it holds, what is wrong."""

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import fastavro
import pyarrow as pa

from headrace.formats.avro_container import ContainerError
from headrace.formats.avro_schema import Node, is_guarded
from headrace.formats.avro_skip import COST_BYTES, Budget, DatumError, cost_a_byte, datum_end, fixed_cost

# -- How Avro data are laid out in memory: reading schemas without names or logical types, and Arrow's types -
# Two readers see the same bytes through the same layout, polars column by column and fastavro datum by datum.
# What is encoded alike is read alike: enums as their index, maps as arrays of pairs, and what a union's
# branch is called never matters, since branches of unions with several are wrapped in records of one field (a
# record adds nothing to the encoding).

KEY, VALUE = "k", "v"

_ARROW: Final = {
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "enum": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
}


def has_columns(node: Node, known: set[int] | None = None) -> bool:
    """True where every datum fits Arrow columns: no unions but with null, and at most records below those.

    The schema must not be recursive. `known` are nodes that were met before: the first without ends it all.
    """
    known = set() if known is None else known
    if id(node) in known:
        return True
    known.add(id(node))
    if node.kind == "union":
        return node.nullable is not None and has_columns(node.nullable, known)
    if node.kind == "record":
        # polars reads no column without a width, and Arrow no record without columns.
        return bool(node.fields) and all(has_columns(child, known) for _, child in node.fields)
    return node.kind != "null" and all(has_columns(child, known) for child in node.children)


class ReadingSchema:
    """Makes the schema, in Avro's JSON shape, that data of a node are read with."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._count = 0

    def of(self, node: Node) -> Any:
        """The shape for one node; types that were met before are referred to by their new names."""
        if id(node) in self._names:
            return self._names[id(node)]
        match node.kind:
            case "record" | "fixed":
                return self._named(node)
            case "array":
                return {"type": "array", "items": self.of(node.content)}
            case "map":
                pair = self._wrapped({KEY: "string", VALUE: self.of(node.content)})
                return {"type": "array", "items": pair}
            case "union":
                return self._union(node)
            case kind:
                return "long" if kind in ("enum", "int") else kind

    def _named(self, node: Node) -> dict[str, Any]:
        name = self._names[id(node)] = self._name()
        if node.kind == "fixed":
            return {"type": "fixed", "name": name, "size": node.size}
        fields = [
            {"name": f"f{index}", "type": self.of(child)} for index, (_, child) in enumerate(node.fields)
        ]
        return {"type": "record", "name": name, "fields": fields}

    def _union(self, node: Node) -> list[Any]:
        if node.nullable is not None:
            return [self.of(branch) for branch in node.branches]
        return [
            self._wrapped({VALUE: self.of(branch)}, f"b{index}") for index, branch in enumerate(node.branches)
        ]

    def _wrapped(self, fields: dict[str, Any], prefix: str = "r") -> dict[str, Any]:
        shapes = [{"name": name, "type": shape} for name, shape in fields.items()]
        return {"type": "record", "name": self._name(f"{prefix}_"), "fields": shapes}

    def _name(self, prefix: str = "t") -> str:
        self._count += 1
        return f"{prefix}{self._count}"


def reading_schema(node: Node) -> Any:
    """The schema that data of `node` are read with."""
    return ReadingSchema().of(node)


def arrow_type(node: Node) -> Any:
    """The Arrow type of data read so; only where `has_columns`, or of a union's branches side by side."""
    if node.nullable is not None:
        return arrow_type(node.nullable)
    match node.kind:
        case "record":
            return pa.struct(
                [(f"f{index}", arrow_type(child)) for index, (_, child) in enumerate(node.fields)]
            )
        case "array":
            return pa.list_(arrow_type(node.content))
        case "map":
            return pa.list_(pa.struct([(KEY, pa.string()), (VALUE, arrow_type(node.content))]))
        case "union":
            return pa.struct([(f"f{index}", arrow_type(each)) for index, each in enumerate(node.filled)])
        case kind:
            return _ARROW[kind]


Change = Callable[[Any], Any]


def side_by_side(node: Node) -> Change | None:
    """What makes a value as fastavro reads it with `reading_schema(node)` one of `arrow_type(node)`.

    The field of the branch that a union holds is filled, and no other. None where there is nothing to change.
    The schema must not be recursive.
    """
    inner = node.nullable or node
    match inner.kind:
        case "record":
            change = _record_change([side_by_side(child) for _, child in inner.fields])
        case "array":
            change = _list_change(side_by_side(inner.content))
        case "map":
            change = _map_change(side_by_side(inner.content))
        case "union":
            return _union_change(inner)
        case _:
            return None
    return change if change is None or node.nullable is None else _optional_change(change)


def _optional_change(change: Change) -> Change:
    return lambda value: None if value is None else change(value)


def _record_change(below: list[Change | None]) -> Change | None:
    changes = [(f"f{index}", each) for index, each in enumerate(below) if each is not None]
    if not changes:
        return None
    return lambda value: {**value, **{name: change(value[name]) for name, change in changes}}


def _list_change(change: Change | None) -> Change | None:
    return None if change is None else lambda value: [change(each) for each in value]


def _map_change(change: Change | None) -> Change | None:
    if change is None:
        return None
    return lambda value: [{KEY: each[KEY], VALUE: change(each[VALUE])} for each in value]


def _union_change(node: Node) -> Change:
    places: list[tuple[str, Change | None] | None] = []
    count = 0
    for each in node.branches:
        if each.kind == "null":
            places.append(None)
            continue
        places.append((f"f{count}", side_by_side(each)))
        count += 1

    def changed(value: Any) -> dict[str, Any] | None:
        # fastavro names the record of a branch only where there are several.
        name, wrapped = value if isinstance(value, tuple) else ("b0_", value)
        place = places[int(name[1 : name.index("_")])]
        if place is None:
            return None
        field, change = place
        held = wrapped[VALUE]
        return {field: held if change is None else change(held)}

    return changed


# -- Avro data one by one through fastavro: where each begins and ends, what it holds, what is wrong ---------

# What fastavro raises for bytes that are no datum.
_FAULTS: Final = (EOFError, IndexError, ValueError, OverflowError, TypeError, KeyError, struct.error)


@dataclass(frozen=True, slots=True)
class Datum:
    """One datum at [begin, end) of its block, and about what it takes; `fault` says why it has no value."""

    begin: int
    end: int
    value: Any
    fault: str | None = None
    cost: int = 0


class DatumReader:
    """Reads the data of blocks of one schema; make one for each object.

    `limit` is what a datum may take once it is decoded, or gives it for the bytes that are left. With
    `is_strict` each datum is walked before it is read: fastavro takes a union's branch -1 for the last one.
    """

    def __init__(self, node: Node, *, limit: int | Callable[[int], int], is_strict: bool = False) -> None:
        self._node = node
        self._limit = limit
        self._fixed_cost = fixed_cost(node)
        self._cost_a_byte = cost_a_byte(node)
        # As many bytes as cannot become more than a batch may take: what ends within them needs no walk.
        self._window = max(0, COST_BYTES - self._fixed_cost) // self._cost_a_byte
        self._is_walked = is_strict or is_guarded(node) or not self._window
        self._schema = fastavro.parse_schema(reading_schema(node))

    def read(self, content: bytes, count: int) -> Iterator[Datum]:
        """The `count` data of a block's content, one after the other.

        A datum that can be cut out but not read is given with its fault. ContainerError where no further
        datum can be found, or where bytes are left over; DatumError (reason `too_deep`, `too_large` or
        `unit_too_large`) where decoding would be unbounded.
        """
        at = 0
        for datum in self._walked(content, count) if self._is_walked else self._windowed(content, count):
            yield datum
            at = datum.end
        if at != len(content):
            raise ContainerError("a block holds more bytes than data")

    def _walked(self, content: bytes, count: int) -> Iterator[Datum]:
        stream = io.BytesIO(content)
        at = 0
        for _ in range(count):
            end, cost = self._walk(content, at)
            stream.seek(at)
            yield self._datum(stream, at, end, cost)
            at = end

    def _windowed(self, content: bytes, count: int) -> Iterator[Datum]:
        """The reader sees a part of the content; what does not end within it is walked first."""
        stream, base, behind = io.BytesIO(), 0, 0
        at = 0
        for _ in range(count):
            if behind < len(content) and behind - at <= self._window // 2:
                base, behind = at, min(at + self._window, len(content))
                stream = io.BytesIO(content[base:behind])
            stream.seek(at - base)
            try:
                value = self._value(stream)
                end = base + stream.tell()
            except _FAULTS:
                end = behind
            else:
                if end < behind or behind == len(content):
                    yield Datum(at, end, value, cost=self._fixed_cost + (end - at) * self._cost_a_byte)
                    at = end
                    continue
            end, cost = self._walk(content, at)
            yield self._datum(io.BytesIO(content[at:end]), at, end, cost)
            at = end

    def _value(self, stream: io.BytesIO) -> Any:
        return fastavro.schemaless_reader(
            stream, self._schema, None, return_record_name=True, return_record_name_override=True
        )

    def _datum(self, stream: io.BytesIO, at: int, end: int, cost: int) -> Datum:
        try:
            return Datum(at, end, self._value(stream), cost=cost)
        except _FAULTS as error:
            is_text = isinstance(error, UnicodeDecodeError)
            return Datum(at, end, None, "a text is not UTF-8" if is_text else "it does not decode", cost)

    def _walk(self, content: bytes, at: int) -> tuple[int, int]:
        """Where the datum ends, and what it takes once it is decoded."""
        budget = Budget(self._limit if isinstance(self._limit, int) else self._limit(len(content) - at))
        try:
            end = datum_end(content, at, self._node, budget=budget)
        except DatumError as error:
            if error.reason != "not_avro":
                raise
            raise ContainerError(f"a block holds no further datum: {error}") from error
        return end, budget.spent + end - at
