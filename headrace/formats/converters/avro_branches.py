"""Unions of several types: their data with a field for each branch, as `arrow_type` lays them out."""

from collections.abc import Callable
from typing import Any

from headrace.formats.avro_data import KEY, VALUE
from headrace.formats.avro_schema import Node

Change = Callable[[Any], Any]


def side_by_side(node: Node) -> Change | None:
    """What makes a value as fastavro reads it with `reading_schema(node)` one of `arrow_type(node)`.

    The field of the branch that a union holds is filled, and no other. None where there is nothing to change.
    The schema must not be recursive.
    """
    inner = node.nullable or node
    match inner.kind:
        case "record":
            change = _record([side_by_side(child) for _, child in inner.fields])
        case "array":
            change = _list(side_by_side(inner.content))
        case "map":
            change = _map(side_by_side(inner.content))
        case "union":
            return _union(inner)
        case _:
            return None
    return change if change is None or node.nullable is None else _optional(change)


def _optional(change: Change) -> Change:
    return lambda value: None if value is None else change(value)


def _record(below: list[Change | None]) -> Change | None:
    changes = [(f"f{index}", each) for index, each in enumerate(below) if each is not None]
    if not changes:
        return None
    return lambda value: {**value, **{name: change(value[name]) for name, change in changes}}


def _list(change: Change | None) -> Change | None:
    return None if change is None else lambda value: [change(each) for each in value]


def _map(change: Change | None) -> Change | None:
    if change is None:
        return None
    return lambda value: [{KEY: each[KEY], VALUE: change(each[VALUE])} for each in value]


def _union(node: Node) -> Change:
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
