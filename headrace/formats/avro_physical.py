"""How Avro data are laid out in memory: reading schemas without names or logical types, and Arrow's types.

Two readers see the same bytes through the same layout, polars column by column and fastavro datum by datum.
What is encoded alike is read alike: enums as their index, maps as arrays of pairs, and what a union's branch
is called never matters, since branches of unions with several are wrapped in records of one field (a record
adds nothing to the encoding).
"""

from typing import Any, Final

import pyarrow as pa

from headrace.formats.avro_schema import Node

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


def has_columns(node: Node) -> bool:
    """True where every datum fits Arrow columns: no unions but with null, and at most records below those.

    The schema must not be recursive.
    """
    if node.kind == "union":
        return node.nullable is not None and has_columns(node.nullable)
    if node.kind == "record":
        # polars reads no column without a width, and Arrow no record without columns.
        return bool(node.fields) and all(has_columns(child) for _, child in node.fields)
    return node.kind != "null" and all(has_columns(child) for child in node.children)


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
