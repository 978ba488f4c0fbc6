"""Avro schemas as a tree of nodes, with what matters for decoding known of each; and as JSON, taken apart.

https://avro.apache.org/docs/1.12.0/specification/
"""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

# Logical types by the kinds that may carry them; any other combination is ignored, as the specification says.
_LOGICAL: Final = {
    "decimal": {"bytes", "fixed"},
    "uuid": {"string", "fixed"},
    "date": {"int"},
    "time-millis": {"int"},
    "time-micros": {"long"},
    "timestamp-millis": {"long"},
    "timestamp-micros": {"long"},
    "timestamp-nanos": {"long"},
    "local-timestamp-millis": {"long"},
    "local-timestamp-micros": {"long"},
    "local-timestamp-nanos": {"long"},
}
# Kinds whose data always take the same number of bytes.
WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}

_UUID_BYTES: Final = 16
_FIXED_BYTES_MAX: Final = 2**31 - 1
_SCHEMA_DEPTH_MAX: Final = 100
# Every type costs some kilobytes in the readers that are made for it.
_TYPES_MAX: Final = 20_000
FIELDS_MAX: Final = 20_000
"""Columns are made of as many fields at most, of which a named type has its own wherever it is used."""
TOO_MANY_FIELDS: Final = f"it has more than {FIELDS_MAX:,} fields"


class SchemaError(ValueError):
    """The schema in the file's header is none; `is_torn` where it is no JSON, so that it may be damage."""

    is_torn = False


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One schema. Nodes of named types are shared, so a recursive type is a cycle.

    `kind` is the Avro type, `logical` its logical type where it is a valid one. `fields` are a record's, with
    what stands for absent ones in `defaults` and their other names in `aliases`, `items` an array's or a
    map's values, `branches` a union's, `symbols` an enum's, `size` a fixed's.
    """

    kind: str
    logical: str | None = None
    name: str | None = None
    fields: list[tuple[str, "Node"]] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    items: "Node | None" = None
    branches: list["Node"] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    size: int = 0
    precision: int = 0
    scale: int = 0

    @property
    def content(self) -> "Node":
        """What an array holds, or a map's values."""
        assert self.items is not None
        return self.items

    @property
    def nullable(self) -> "Node | None":
        """The other branch of a union of null and one more, in either order; else None."""
        if self.kind == "union" and len(self.branches) == 2:  # noqa: PLR2004  # null and another
            first, second = self.branches
            if first.kind == "null" and second.kind != "null":
                return second
            if second.kind == "null" and first.kind != "null":
                return first
        return None

    @property
    def filled(self) -> "list[Node]":
        """The branches of a union that are not null's."""
        return [each for each in self.branches if each.kind != "null"]

    @property
    def children(self) -> list["Node"]:
        """The nodes directly below."""
        below = [node for _, node in self.fields] + self.branches
        return below if self.items is None else [*below, self.items]


def parse_schema(text: bytes | str, *, is_bounded: bool = True) -> Node:
    """The tree of a schema's JSON; SchemaError for anything that is none.

    With `is_bounded` also for one that is nested too deep or has too many types, as one from outside may be.
    """
    try:
        # By itself Python takes surrogates within UTF-8, and UTF-16.
        shape = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        wrong = SchemaError(f"the schema is no JSON: {str(error)[:200]}")
        wrong.is_torn = True
        raise wrong from error
    try:
        return _Parser(is_bounded=is_bounded).node(shape, None, 0)
    except KeyError as error:
        raise SchemaError(f"a type of the schema has no {str(error)[:200]}") from error
    except (ValueError, OverflowError, TypeError, AttributeError, RecursionError) as error:
        raise SchemaError(f"the schema is invalid: {str(error)[:200]}") from error


class _Parser:
    def __init__(self, *, is_bounded: bool) -> None:
        self._named: dict[str, Node] = {}
        self._types = 0
        self._is_bounded = is_bounded

    def node(self, shape: Any, namespace: str | None, depth: int) -> Node:
        if self._is_bounded and depth > _SCHEMA_DEPTH_MAX:
            raise SchemaError("it is nested too deep")
        self._types += 1
        if self._is_bounded and self._types > _TYPES_MAX:
            raise SchemaError(f"it has more than {_TYPES_MAX:,} types")
        if isinstance(shape, list):
            return Node(kind="union", branches=[self.node(each, namespace, depth + 1) for each in shape])
        if isinstance(shape, str):
            return self._reference(shape, namespace)
        kind = shape["type"]
        if isinstance(kind, dict | list):
            return self.node(kind, namespace, depth + 1)
        if kind in ("array", "map"):
            items = shape["items" if kind == "array" else "values"]
            return Node(kind=kind, items=self.node(items, namespace, depth + 1))
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(shape, namespace, depth)
        node = self._reference(kind, namespace)
        # A named type brings its own logical type; it is shared and must not take another.
        return node if node.name else _with_logical(node, shape)

    def _reference(self, name: str, namespace: str | None) -> Node:
        if name in PRIMITIVES:
            return Node(kind=name)
        for full in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if full in self._named:
                return self._named[full]
        raise SchemaError(f"the type {name[:100]!r} is not defined")

    def _definition(self, shape: dict[str, Any], namespace: str | None, depth: int) -> Node:
        name = shape["name"]
        namespace = name.rpartition(".")[0] if "." in name else shape.get("namespace", namespace)
        full = _name(name if "." in name or not namespace else f"{namespace}.{name}")
        kind = "record" if shape["type"] == "error" else shape["type"]
        if full in self._named:
            raise SchemaError(f"the type {full[:100]!r} is defined twice")
        node = self._named[full] = Node(kind=kind, name=full)
        if kind == "record":
            for each in shape["fields"]:
                field_name = _name(str(each["name"]))
                node.fields.append((field_name, self.node(each["type"], namespace, depth + 1)))
                if "default" in each:
                    node.defaults[field_name] = each["default"]
                if isinstance(each.get("aliases"), list):
                    node.aliases[field_name] = [_name(str(alias)) for alias in each["aliases"]]
        elif kind == "enum":
            node.symbols = [_name(str(symbol)) for symbol in shape["symbols"]]
        else:
            node.size = int(shape["size"])
            if not 0 <= node.size <= _FIXED_BYTES_MAX:
                raise SchemaError(f"a fixed has a size of {str(node.size)[:100]}, which is not 0 to 2^31-1")
            return _with_logical(node, shape)
        return node


def _name(text: str) -> str:
    """The name or symbol as it is; SchemaError for one that no UTF-8 has, which escapes in JSON may spell."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SchemaError(f"the name {text[:100]!a} has half of a surrogate pair") from None
    return text


def _with_logical(node: Node, shape: dict[str, Any]) -> Node:
    logical = shape.get("logicalType")
    if not isinstance(logical, str) or node.kind not in _LOGICAL.get(logical, ()):
        return node
    if logical == "decimal":
        precision, scale = shape.get("precision"), shape.get("scale", 0)
        if (
            type(precision) is not int
            or type(scale) is not int
            or not 0 <= scale <= precision
            or not precision
        ):
            return node
        node.precision, node.scale = precision, scale
    if logical == "uuid" and node.kind == "fixed" and node.size != _UUID_BYTES:
        return node
    node.logical = logical
    return node


def readable_schema(text: str) -> str:
    """The text of a schema in which the type of each type is a name; the same text where they all are.

    `parse_schema` reads `{"type": {"type": "string"}}`, and few other readers of a file do.
    """
    shape = json.loads(text)
    found = _by_names(shape)
    return text if found == shape else json.dumps(found)


def _by_names(shape: Any) -> Any:
    if isinstance(shape, list):
        return [_by_names(each) for each in shape]
    if isinstance(shape, str):
        return shape
    kind = shape["type"]
    if isinstance(kind, dict | list):
        return _by_names(kind)
    if kind in ("array", "map"):
        below = "items" if kind == "array" else "values"
        return {**shape, below: _by_names(shape[below])}
    if kind in ("record", "error"):
        return {**shape, "fields": [{**each, "type": _by_names(each["type"])} for each in shape["fields"]]}
    return shape


def avro_record(text: bytes) -> str:
    """The full name of the record that a schema of Avro is of, empty where it is of none."""
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if not isinstance(schema, dict) or not isinstance(schema.get("name"), str):
        return ""
    return f"{schema.get('namespace', '')}.{schema['name']}".lstrip(".")


def is_recursive(root: Node) -> bool:
    """True when a type holds itself, so that data can be nested without a bound."""
    open_nodes: set[int] = set()
    closed: set[int] = set()

    def meets_itself(node: Node) -> bool:
        if id(node) in open_nodes:
            return True
        if id(node) in closed:
            return False
        open_nodes.add(id(node))
        found = any(meets_itself(child) for child in node.children)
        open_nodes.discard(id(node))
        closed.add(id(node))
        return found

    return meets_itself(root)


def minimal_size(node: Node, known: dict[int, int] | None = None) -> int:
    """The fewest bytes that a datum takes, at least 0; `known` holds those of nodes met before."""
    if node.kind in WIDTHS:
        return WIDTHS[node.kind]
    if node.kind == "fixed":
        return node.size
    if node.kind != "record":
        return 1
    known = {} if known is None else known
    if id(node) not in known:
        known[id(node)] = 0  # what a record holds of itself adds nothing to the least
        known[id(node)] = sum(minimal_size(child, known) for _, child in node.fields)
    return known[id(node)]


def field_count(node: Node, known: dict[int, int] | None = None) -> int:
    """How many fields there are with those of named types wherever they are used; at most FIELDS_MAX + 1.

    The schema must not be recursive.
    """
    known = {} if known is None else known
    if id(node) not in known:
        below = sum(field_count(child, known) for child in node.children)
        known[id(node)] = min(below + (node.kind not in ("union", "null")), FIELDS_MAX + 1)
    return known[id(node)]


def fixed_bytes(node: Node, *, items: bool, known: dict[int, int] | None = None) -> int:
    """What the fixed of one value take, of named types wherever they are used.

    That is with an item of each array and map, or without `items`. The schema must not be recursive.
    """
    known = {} if known is None else known
    if id(node) not in known:
        below = node.children if items or node.items is None else []
        known[id(node)] = node.size + sum(fixed_bytes(child, items=items, known=known) for child in below)
    return known[id(node)]


def all_nodes(root: Node) -> list[Node]:
    """Every node of the schema, once."""
    found: dict[int, Node] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += node.children
    return list(found.values())


def is_guarded(root: Node) -> bool:
    """True where a few bytes can claim unbounded depth or number, so that each datum is walked first."""
    known: dict[int, int] = {}
    return is_recursive(root) or any(
        node.kind == "array" and minimal_size(node.content, known) == 0 for node in all_nodes(root)
    )


Shape = Any

_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


@lru_cache(maxsize=256)
def record_shape(avro: str) -> dict[str, Any] | None:
    """The one record of a schema, each type of its fields with all that it refers to; None without one."""
    shape = json.loads(avro)
    branches = shape if isinstance(shape, list) else [shape]
    records = [each for each in branches if isinstance(each, dict) and each.get("type") == "record"]
    if len(records) != 1:
        return None
    definitions: dict[str, Shape] = {}
    (record,) = records
    _resolved(shape, None, definitions, {})
    namespace = _full_name(record, None).rpartition(".")[0] or None
    fields = [
        {**each, "type": _resolved(each["type"], namespace, {}, definitions)} for each in record["fields"]
    ]
    return {**record, "fields": fields}


def avro_text(shape: Shape) -> str | None:
    """The schema's text, each named type defined once; None where it is no schema by itself."""
    try:
        text = json.dumps(_resolved(shape, None, {}, {}), separators=(",", ":"))
        parse_schema(text)
    except (SchemaError, RecursionError):
        return None
    names = [each["name"] for each in shape.get("fields", ())] if isinstance(shape, dict) else []
    return text if all(name.replace("_", "a").isalnum() and name.isascii() for name in names) else None


def _resolved(
    shape: Shape, namespace: str | None, known: dict[str, Shape], definitions: dict[str, Shape]
) -> Shape:
    """The schema with a definition at the first place of each named type, and its name at all others.

    `known` are the types that are defined up to here, as they were given, and `definitions` those that are
    to be had elsewhere. Names are complete: they do not depend on the place.
    """
    if isinstance(shape, list):
        return [_resolved(each, namespace, known, definitions) for each in shape]
    if isinstance(shape, str):
        return _of_name(shape, namespace, known, definitions)
    kind = shape["type"]
    if kind in ("array", "map"):
        below = "items" if kind == "array" else "values"
        return {**shape, below: _resolved(shape[below], namespace, known, definitions)}
    if not isinstance(kind, str) or kind not in _NAMED:
        return {**shape, "type": _resolved(kind, namespace, known, definitions)}
    return _of_definition(shape, namespace, known, definitions)


def _of_name(
    name: str, namespace: str | None, known: dict[str, Shape], definitions: dict[str, Shape]
) -> Shape:
    if name in PRIMITIVES:
        return name
    for full in (name if "." in name or not namespace else f"{namespace}.{name}", name):
        if full in known:
            return full
        if full in definitions:
            return _of_definition(definitions[full], None, known, definitions)
    return name


def _of_definition(
    shape: dict[str, Any], namespace: str | None, known: dict[str, Shape], definitions: dict[str, Shape]
) -> Shape:
    full = _full_name(shape, namespace)
    space, _, name = full.rpartition(".")
    given = {**shape, "name": name, **({"namespace": space} if space else {})}
    if full in known:
        # Of two that are different no schema can be made: parsing it says so.
        return full if _with_names(known[full], is_top=True) == _with_names(given, is_top=True) else given
    known[full] = given
    if "fields" not in shape:
        return given
    below = [
        {**each, "type": _resolved(each["type"], space or None, known, definitions)}
        for each in shape["fields"]
    ]
    return {**given, "fields": below}


def _with_names(shape: Shape, *, is_top: bool = False) -> Shape:
    """The schema with the names of types in the place of what defines them: each is compared by itself."""
    if isinstance(shape, list):
        return [_with_names(each) for each in shape]
    if isinstance(shape, str):
        return shape
    if not is_top and shape["type"] in ("record", "error", "enum", "fixed"):
        return _full_name(shape, None)
    found = {**shape}
    for below in {"type", "items", "values"} & shape.keys():
        found[below] = _with_names(shape[below])
    if "fields" in shape:
        found["fields"] = [{**each, "type": _with_names(each["type"])} for each in shape["fields"]]
    return found


def _full_name(shape: dict[str, Any], namespace: str | None) -> str:
    name: str = shape["name"]
    space = shape.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"
