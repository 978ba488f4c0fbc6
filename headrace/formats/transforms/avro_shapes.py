"""Avro schemas as JSON whose parts stand by themselves, and are put together again as one."""

import json
from functools import lru_cache
from typing import Any, Final

from headrace.formats.avro_schema import PRIMITIVES, SchemaError, parse_schema

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
        return full if _by_names(known[full], is_top=True) == _by_names(given, is_top=True) else given
    known[full] = given
    if "fields" not in shape:
        return given
    below = [
        {**each, "type": _resolved(each["type"], space or None, known, definitions)}
        for each in shape["fields"]
    ]
    return {**given, "fields": below}


def _by_names(shape: Shape, *, is_top: bool = False) -> Shape:
    """The schema with the names of types in the place of what defines them: each is compared by itself."""
    if isinstance(shape, list):
        return [_by_names(each) for each in shape]
    if isinstance(shape, str):
        return shape
    if not is_top and shape["type"] in ("record", "error", "enum", "fixed"):
        return _full_name(shape, None)
    found = {**shape}
    for below in {"type", "items", "values"} & shape.keys():
        found[below] = _by_names(shape[below])
    if "fields" in shape:
        found["fields"] = [{**each, "type": _by_names(each["type"])} for each in shape["fields"]]
    return found


def _full_name(shape: dict[str, Any], namespace: str | None) -> str:
    name: str = shape["name"]
    space = shape.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"
