"""Avro schemas as text, exactly as Avro's Java library writes them, with Connect's names and records.

A tree is JSON in which every named type is in full wherever it is used, with its `namespace` (absent for
none); the text has a definition where a name is first, and names after it. Avro allows letters, digits and
underscores in names: what Connect puts there otherwise is what Confluent's AvroData makes of it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote_plus

from headrace.formats.connect.jackson import jackson_text
from headrace.formats.connect.schema import ConnectSchema, InvalidSchema, Type, plain, struct

_VALID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INVALID: Final = re.compile(r"[^A-Za-z0-9_]")
# What java.net.URLEncoder leaves as it is and Python's quoting does not.
_UNQUOTED: Final = "*"


def is_avro_name(name: str) -> bool:
    """True for a name without points that Avro allows."""
    return _VALID.match(name) is not None


def scrubbed(name: str) -> str:
    """The name with what Avro does not allow replaced, as `scrub.invalid.names` does it."""
    if not name or is_avro_name(name):
        return name
    encoded = quote_plus(name, safe=_UNQUOTED).replace("~", "%7E")
    if encoded[0].isdigit():
        encoded = f"x{encoded}"
    return _INVALID.sub("_", encoded)


def split_name(name: str, *, scrub: bool = False) -> tuple[str | None, str]:
    """Namespace, None where there is none, and name without it."""
    labels = [scrubbed(label) if scrub else label for label in name.split(".")]
    return ".".join(labels[:-1]) or None, labels[-1]


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
        for label in (own or "").split("."):
            _checked(label or "_")
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


NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
# Marks a default that came from the field of an Avro record.
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
FIXED_SIZE: Final = "connect.fixed.size"
INTERNAL_TYPE: Final = "connect.internal.type"
DEFAULT_PRECISION: Final = 64


AIVEN_AVRO: Final = "io.aiven.avro.output.schema"
AIVEN_PARQUET: Final = "io.aiven.parquet.output.schema"

_TEXT: Final = plain(Type.STRING)
_LONG: Final = plain(Type.INT64)

CONFLUENT_HEADERS: Final = struct(
    ("headers", ConnectSchema(type=Type.ARRAY, items=struct(("key", _TEXT), ("value", _TEXT)))),
    name="RecordHeaders",
)
"""Headers next to the values, in Confluent's Parquet and JSON. Avro has the array alone."""

LENSES_METADATA: Final = struct(
    ("timestamp", _LONG), ("topic", _TEXT), ("partition", plain(Type.INT32)), ("offset", _LONG), optional=True
)


def confluent_key(key: ConnectSchema) -> ConnectSchema:
    """Keys next to the values, in Confluent's Parquet."""
    return struct(("key", key), name="RecordKey")


def lenses_envelope(
    key: ConnectSchema | None,
    value: ConnectSchema | None,
    headers: Sequence[tuple[str, ConnectSchema]] = (),
    *,
    has_metadata: bool = True,
) -> ConnectSchema:
    """Lenses' envelope; a part without a schema has no field. `headers` are sorted by name by the caller.

    The structs of key and value lose their names, versions and documentation; those inside of them do not.
    """
    fields = [(name, _unnamed(each)) for name, each in (("key", key), ("value", value)) if each is not None]
    if headers:
        fields.append(("headers", struct(*((name, each.as_optional()) for name, each in headers))))
    if has_metadata:
        fields.append(("metadata", LENSES_METADATA))
    return struct(*fields)


def _unnamed(schema: ConnectSchema) -> ConnectSchema:
    if schema.type is not Type.STRUCT:
        return schema.as_optional()
    return replace(schema, optional=True, name=None, version=None, doc=None, parameters=(), default=None)


def aiven_record(fields: Sequence[tuple[str, Tree]], namespace: str = AIVEN_AVRO) -> Tree:
    """Aiven's envelope of Avro and Parquet around the trees of its fields, none of which has a default."""
    return record("connector_records", namespace, [{"name": name, "type": tree} for name, tree in fields])
