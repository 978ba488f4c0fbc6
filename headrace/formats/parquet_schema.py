"""A Parquet schema as its footer has it, and what of it is changed so that Arrow reads every column.

Arrow refuses or mistakes some schemas that others write. Each is an annotation, a name or a type of the
footer's schema, not of the pages, so it is changed there, and the columns get their meaning back afterwards:

ENUM            is annotated as text
INT96           becomes twelve bytes (a Julian day and its nanoseconds), of which moments are made here: Arrow
                would lose digits, or years beyond 1677 and 2262
MAP             becomes a list of entries where its keys may be null (Presto, Athena): Arrow ends the process
VARIANT         loses its annotation, and `variant_rows` decodes the group
INTERVAL        keeps only its older annotation: parquet-java's newer one says that all is null
repeated names  get a suffix: a, a_1, a_2

https://github.com/apache/parquet-format/blob/master/LogicalTypes.md
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.arrow import Pieces
from headrace.formats.parquet_thrift import BINARY, I32, STRUCT, Struct
from headrace.options.choices import JsonFormat

# Fields of SchemaElement.
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _LOGICAL = 1, 2, 3, 4, 5, 6, 10
_REQUIRED, _OPTIONAL, _REPEATED = range(3)

# Values of ConvertedType, and fields of the union LogicalType.
_UTF8, _MAP, _MAP_KEY_VALUE, _LIST, _ENUM = range(5)
_INTERVAL: Final = 21
_LOGICAL_TEXT, _LOGICAL_MAP, _LOGICAL_LIST, _LOGICAL_ENUM, _LOGICAL_NULL, _LOGICAL_VARIANT = (
    1,
    2,
    3,
    4,
    11,
    16,
)

INT96_BYTES: Final = 12

# Arrow follows about a hundred levels and says so; this only keeps the walk here from running out of stack.
_DEPTH_MAX: Final = 150

# Where Spark, which did not annotate VARIANT at first, writes its own schema.
SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"


class Physical(IntEnum):
    """How values are stored."""

    BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = range(8)


class Meaning(Enum):
    """What Arrow is not told of a node, and the columns get back."""

    INT96 = "INT96"
    MAP = "MAP"
    VARIANT = "VARIANT"


@dataclass(slots=True, kw_only=True)
class Node:
    """A group or a column. Levels are those of its values, as Dremel counts them."""

    element: Struct
    name: str
    max_def: int
    max_rep: int
    physical: Physical | None = None
    width: int = 0
    names_bytes: int = 0  # of all names from the innermost repeated group down to here
    meaning: Meaning | None = None
    children: list["Node"] = field(default_factory=list)

    def leaves(self) -> Iterator["Node"]:
        """The columns in it, or itself."""
        if self.physical is not None:
            yield self
        for child in self.children:
            yield from child.leaves()

    def nodes(self) -> Iterator["Node"]:
        """It and all below it, in the footer's order."""
        yield self
        for child in self.children:
            yield from child.nodes()


def schema_tree(elements: Sequence[Struct]) -> Node:
    """The root of a footer's elements, changed as the module says. ValueError when they are no tree."""
    left = iter(elements)
    root = _node(left, None, 0)
    if next(left, None) is not None:
        raise ValueError("the schema has elements beyond its tree")
    for node in root.nodes():
        _rename_repeated(node.children)
    return root


def mark_spark_variants(root: Node, described: bytes) -> None:
    """Mark the groups that Spark's own schema calls variants; what it does not describe stays as it is."""
    try:
        _mark(root, json.loads(described))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return  # a note that another program may have changed; without it the groups are groups


def _mark(node: Node, kind: Any) -> None:
    if kind == "variant" and {"metadata", "value"} <= {child.name for child in node.children}:
        node.meaning = Meaning.VARIANT
    if not isinstance(kind, dict):
        return
    match kind["type"]:
        case "struct":
            inner = {each["name"]: each["type"] for each in kind["fields"]}
            for child in node.children:
                _mark(child, inner.get(child.name))
        case "array":
            _mark(node.children[0].children[0], kind["elementType"])
        case "map":
            for child, of in zip(node.children[0].children, ("keyType", "valueType"), strict=True):
                _mark(child, kind[of])


def _node(elements: Iterator[Struct], parent: Node | None, depth: int) -> Node:
    element = next(elements, None)
    if element is None or depth > _DEPTH_MAX:
        raise ValueError(
            "the schema ends within its tree" if element is None else "the schema nests too deep"
        )
    node = _alone(element, parent)
    children = _number(element, _CHILDREN)
    if children is not None:
        node.children = [_node(elements, node, depth + 1) for _ in range(children)]
    _adapt(node)
    return node


def _alone(element: Struct, parent: Node | None) -> Node:
    repetition = _number(element, _REPETITION) if parent is not None else _REQUIRED
    name = element[_NAME][1] if _NAME in element else b""
    above = (0, 0, 0) if parent is None else (parent.max_def, parent.max_rep, parent.names_bytes)
    repeated = repetition == _REPEATED
    number = _number(element, _TYPE)
    return Node(
        element=element,
        name=bytes(name).decode("utf-8", "replace"),
        max_def=above[0] + (repetition != _REQUIRED),
        max_rep=above[1] + repeated,
        names_bytes=len(name) if repeated else above[2] + len(name),
        physical=None if number is None or _CHILDREN in element else Physical(number),
        width=_number(element, _LENGTH) or 0,
    )


def _number(element: Struct, number: int) -> int | None:
    kind, value = element.get(number, (I32, None))
    if kind != I32:
        raise ValueError(f"field {number} of a schema element is no number")
    return value if value is None else int(value)


def _logical(element: Struct) -> int | None:
    """Which of LogicalType's fields is set."""
    kind, value = element.get(_LOGICAL, (STRUCT, {}))
    return next(iter(value), None) if kind == STRUCT else None


def _adapt(node: Node) -> None:
    """Change what Arrow would refuse or mistake."""
    element = node.element
    logical, converted = _logical(element), _number(element, _CONVERTED)
    if node.physical is Physical.INT96:
        node.meaning, node.width = Meaning.INT96, INT96_BYTES
        element[_TYPE], element[_LENGTH] = (I32, int(Physical.FIXED_LEN_BYTE_ARRAY)), (I32, INT96_BYTES)
        for number in (_CONVERTED, _LOGICAL):
            element.pop(number, None)
    elif node.physical is not None and (logical == _LOGICAL_ENUM or converted == _ENUM):
        _annotate(element, _UTF8, _LOGICAL_TEXT)
    elif node.physical is not None and logical == _LOGICAL_NULL and converted == _INTERVAL:
        del element[_LOGICAL]
    elif logical == _LOGICAL_VARIANT:
        del element[_LOGICAL]
        if {"metadata", "value"} & {child.name for child in node.children}:
            node.meaning = Meaning.VARIANT
    elif (logical == _LOGICAL_MAP or converted in (_MAP, _MAP_KEY_VALUE)) and _has_optional_keys(node):
        node.meaning = Meaning.MAP
        _annotate(element, _LIST, _LOGICAL_LIST)
        # The annotation of the entries would be a map's once more.
        for number in (_CONVERTED, _LOGICAL):
            node.children[0].element.pop(number, None)


def _annotate(element: Struct, converted: int, logical: int) -> None:
    element[_CONVERTED], element[_LOGICAL] = (I32, converted), (STRUCT, {logical: (STRUCT, {})})


def _has_optional_keys(node: Node) -> bool:
    """A map in every respect but that its keys may be null."""
    if len(node.children) != 1 or _number(node.children[0].element, _REPETITION) != _REPEATED:
        return False
    entry = node.children[0].children
    return len(entry) == 2 and _number(entry[0].element, _REPETITION) == _OPTIONAL  # noqa: PLR2004  # key, value


def _rename_repeated(siblings: list[Node]) -> None:
    """A suffix for each name that was before in the same group."""
    taken = {node.name for node in siblings}
    seen: set[str] = set()
    for node in siblings:
        if node.name in seen:
            number = 1
            while f"{node.name}_{number}" in taken:
                number += 1
            node.name = f"{node.name}_{number}"
            taken.add(node.name)
            node.element[_NAME] = (BINARY, node.name.encode())
        seen.add(node.name)


INT96_NAME: Final = "headrace.int96"
_BYTES: Final = 12
_EPOCH: Final = 2_440_588  # the Julian day of 1970-01-01
_DAY_SECONDS: Final = 86_400
_NANOSECONDS: Final = 1_000_000_000
_DAY_MICROSECONDS: Final = _DAY_SECONDS * 1_000_000
_DAY_NANOSECONDS: Final = _DAY_SECONDS * _NANOSECONDS
_NANOSECOND_DAYS: Final = 2**63 // _DAY_NANOSECONDS

_STORED: Final = np.dtype([("nanoseconds", "<i8"), ("day", "<i4")])
Numbers = npt.NDArray[np.int64]


class Int96Type(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A moment as Parquet stores it."""

    def __init__(self) -> None:
        super().__init__(pa.binary(_BYTES), INT96_NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: Any, _serialized: bytes) -> "Int96Type":
        return cls()


pa.register_extension_type(Int96Type())


def int96_pieces(storage: Any, style: JsonFormat) -> Pieces:
    """Nine digits of a second, or Connect's milliseconds; beyond the calendar the count of nanoseconds."""
    days, nanoseconds = _days_and_nanoseconds(storage)
    if style is JsonFormat.CONNECT:
        milliseconds = days * (_DAY_SECONDS * 1000) + nanoseconds // 1_000_000
        return [pc.cast(pa.array(milliseconds), pa.string())]
    seconds = pa.array(days * _DAY_SECONDS + nanoseconds // _NANOSECONDS).cast(pa.timestamp("s"))
    text = pc.replace_substring(pc.cast(seconds, pa.string()), " ", "T", max_replacements=1)
    digits = pc.utf8_lpad(pc.cast(pa.array(nanoseconds % _NANOSECONDS), pa.string()), 9, "0")
    beyond = pc.match_substring(text, "<")  # <value out of range: ..>
    if not pc.any(beyond, min_count=0).as_py():
        return ['"', text, ".", digits, '"']
    whole = pc.binary_join_element_wise('"', text, ".", digits, '"', "")
    counts = zip(days.tolist(), nanoseconds.tolist(), beyond.to_pylist(), strict=True)
    numbers = [
        str(day * _DAY_NANOSECONDS + of_day) if is_beyond else None for day, of_day, is_beyond in counts
    ]
    return [pc.if_else(beyond, pa.array(numbers, pa.string()), whole)]


def int96_microseconds(storage: Any) -> Any:
    """A timestamp array, rounded down."""
    days, nanoseconds = _days_and_nanoseconds(storage)
    counts = days * _DAY_MICROSECONDS + nanoseconds // 1000
    return pa.array(counts, mask=_empty(storage)).cast(pa.timestamp("us"))


def int96_moments(storage: Any) -> Any:
    """A timestamp array in UTC: of nanoseconds where some count, as far as Arrow has them (1677 to 2262)."""
    days, nanoseconds = _days_and_nanoseconds(storage)
    is_near = np.abs(days) < _NANOSECOND_DAYS
    if not (nanoseconds % 1000).any() or not is_near.all():
        return int96_microseconds(storage).cast(pa.timestamp("us", "UTC"))
    counts = days * _DAY_NANOSECONDS + nanoseconds
    return pa.array(counts, mask=_empty(storage)).cast(pa.timestamp("ns", "UTC"))


def _days_and_nanoseconds(storage: Any) -> tuple[Numbers, Numbers]:
    """Days since 1970 and nanoseconds of the day, 0 for nulls."""
    content = storage.buffers()[1]
    stored = np.zeros(len(storage), _STORED)
    if content is not None and len(storage):
        stored = np.frombuffer(content, _STORED, len(storage), storage.offset * _BYTES)
    empty = _empty(storage)
    nanoseconds = np.where(empty, 0, stored["nanoseconds"])
    days = np.where(empty, 0, stored["day"].astype(np.int64) - _EPOCH)
    # Spark counts microseconds in 64 bits, and writes a day that has wrapped around for its years beyond
    # 287,000. What is no clock's count of a day carries over.
    counts = days * _DAY_MICROSECONDS + nanoseconds // 1000
    days, microseconds = np.divmod(counts, _DAY_MICROSECONDS)
    return days, microseconds * 1000 + nanoseconds % 1000


def _empty(storage: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(storage.is_null().to_numpy(zero_copy_only=False), bool)


class RowFaultError(ValueError):
    """A value cannot be shown; `str()` says why without its content, `reason` is a bad record's word."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


MAP_NAME: Final = "headrace.map"


class MapType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A list of entries of two fields, key and value."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage, MAP_NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, _serialized: bytes) -> "MapType":
        return cls(storage)


pa.register_extension_type(MapType(pa.list_(pa.struct([]))))


def map_type(storage: Any) -> Any:
    """Arrow's own type for such maps."""
    entry = storage.value_type
    return pa.map_(entry.field(0).type, entry.field(1).type)


def checked_entries(lists: Any) -> Any:
    """The entries of all maps; RowFaultError when a key is null, which a map has no place for."""
    entries = lists.flatten()
    if entries.field(0).null_count:
        raise RowFaultError("a map of the row has a key that is null", reason="not_parquet")
    return entries
