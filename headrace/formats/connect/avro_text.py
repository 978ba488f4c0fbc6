"""An Avro schema as text, exactly as Avro's Java library writes it.

A tree is JSON in which every named type is in full wherever it is used, with its `namespace` (absent
for none); the text has a definition where a name is first, and names after it.
"""

from typing import Any, Final

from headrace.formats.connect.jackson import jackson_text
from headrace.formats.connect.names import is_avro_name
from headrace.formats.connect.schema import InvalidSchema

_NAMED: Final = frozenset({"record", "enum", "fixed", "error"})
# What stands before the other properties, in this order, by the type.
_HEADS: Final = {
    "record": ("type", "name", "namespace", "doc", "fields"),
    "error": ("type", "name", "namespace", "doc", "fields"),
    "enum": ("type", "name", "namespace", "doc", "symbols", "default"),
    "fixed": ("type", "name", "namespace", "doc", "size"),
    "array": ("type", "items"),
    "map": ("type", "values"),
}
_FIELD_HEAD: Final = ("name", "type", "doc", "default", "order")
_TAIL: Final = "aliases"

# A type of Avro as JSON.
Tree = Any


def avro_text(tree: Tree) -> str:
    """The text of a schema."""
    return jackson_text(printed(tree))


def printed(tree: Tree) -> Tree:
    """The same schema with names in the place of repeated definitions and no needless namespaces.

    Raises InvalidSchema for a name that Avro does not allow, or that two types have.
    """
    return _Printer().of(tree, None)


class _Printer:
    def __init__(self) -> None:
        self._names: dict[tuple[str | None, str], Tree] = {}

    def of(self, tree: Tree, space: str | None) -> Tree:
        if isinstance(tree, list):
            return [self.of(each, space) for each in tree]
        if isinstance(tree, str):
            return tree
        kind = tree["type"]
        if kind in _NAMED:
            return self._named(tree, space)
        if kind == "array":
            return {"type": kind, "items": self.of(tree["items"], space), **_properties(tree)}
        if kind == "map":
            return {"type": kind, "values": self.of(tree["values"], space), **_properties(tree)}
        properties = _properties(tree)
        return {"type": kind, **properties} if properties else kind

    def _named(self, tree: Tree, space: str | None) -> Tree:
        own = tree.get("namespace")
        full = (own, tree["name"])
        if self._names.get(full) == tree:
            return tree["name"] if own == space else _dotted(own, tree)
        if full in self._names:
            raise InvalidSchema(f"two different types are named {_dotted(own, tree)}, which Avro cannot hold")
        _checked(tree["name"])
        for part in (own or "").split("."):
            _checked(part or "_")
        self._names[full] = tree
        result = {"type": tree["type"], "name": tree["name"]}
        if own != space:
            result["namespace"] = own or ""
        for name in _HEADS[tree["type"]][3:]:
            if name == "fields":
                result["fields"] = [self._field(each, own) for each in tree["fields"]]
            elif tree.get(name) is not None:
                result[name] = tree[name]
        result |= _properties(tree)
        return result

    def _field(self, field: Tree, space: str | None) -> Tree:
        _checked(field["name"])
        result = {"name": field["name"], "type": self.of(field["type"], space)}
        if field.get("doc") is not None:
            result["doc"] = field["doc"]
        if "default" in field:
            result["default"] = field["default"]
        rest = {name: value for name, value in field.items() if name not in {*_FIELD_HEAD, _TAIL}}
        return result | rest


def _dotted(space: str | None, tree: Tree) -> str:
    return str(tree["name"]) if space is None else f"{space}.{tree['name']}"


def _checked(name: str) -> None:
    if not is_avro_name(name):
        raise InvalidSchema(
            f"{name!r} is no name for Avro, which allows letters, digits and underscores only; "
            "rename it, or set scrub.invalid.names=true where the sink has that option"
        )


def _properties(tree: Tree) -> dict[str, Any]:
    head = (*_HEADS.get(tree["type"], ("type",)), _TAIL)
    found = {name: value for name, value in tree.items() if name not in head}
    return found | ({_TAIL: tree[_TAIL]} if tree.get(_TAIL) else {})


def record(name: str, namespace: str | None, fields: list[Tree], **properties: Any) -> Tree:
    """A record of fields."""
    space = {} if namespace is None else {"namespace": namespace}
    return {"type": "record", "name": name, **space, "fields": fields, **properties}
