"""A Parquet schema as its footer has it, and what of it is changed so that Arrow reads every column.

Arrow refuses or mistakes some schemas that others write. Each is an annotation, a name or a type of the
footer's schema, not of the pages, so it is changed there, and the columns get their meaning back afterwards:

ENUM            is annotated as text
INT96           becomes twelve bytes, of which `parquet_int96` makes moments without losing digits or years
MAP             becomes a list of entries where its keys may be null (Presto, Athena)
VARIANT         loses its annotation, and `variant_rows` decodes the group
repeated names  get a suffix: a, a_1, a_2

https://github.com/apache/parquet-format/blob/master/LogicalTypes.md
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final

from headrace.formats.parquet_thrift import BINARY, I32, STRUCT, Struct

# Fields of SchemaElement.
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _LOGICAL = 1, 2, 3, 4, 5, 6, 10
_REQUIRED, _OPTIONAL, _REPEATED = range(3)

# Values of ConvertedType, and fields of the union LogicalType.
_UTF8, _MAP, _MAP_KEY_VALUE, _LIST, _ENUM = range(5)
_LOGICAL_TEXT, _LOGICAL_MAP, _LOGICAL_LIST, _LOGICAL_ENUM, _LOGICAL_VARIANT = 1, 2, 3, 4, 16

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
