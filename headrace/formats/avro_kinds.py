"""What fields of Avro rows hold that their JSON does not show: by the schema, or by a row's own branches."""

from collections.abc import Callable
from typing import Any, Final

from headrace.formats.avro_data import KEY, VALUE
from headrace.formats.avro_rows import unwrapped
from headrace.formats.avro_schema import Node
from headrace.formats.records.row_fields import FieldKind, KindOf, Path

_TIMES: Final = {
    "date": FieldKind.DAYS,
    "time-millis": FieldKind.TIME_OF_DAY,
    "time-micros": FieldKind.TIME_OF_DAY,
}


def kind_by_schema(node: Node, path: Path) -> FieldKind:
    """What the field at `path` holds in every row, looked for through lists and maps, not through unions."""
    for name in path:
        below = dict(_content(node).fields).get(name)
        if below is None:
            return FieldKind.OTHER
        node = below
    found, own = _content(node), node.nullable or node
    if found.kind in ("bytes", "fixed") and found.logical is None:
        return FieldKind.BYTES if own is found else FieldKind.LISTED_BYTES
    if found.kind == "record" and own is found:
        return FieldKind.RECORD
    return _TIMES.get(found.logical or "", FieldKind.OTHER)


def is_by_row(node: Node, path: Path) -> bool:
    """Whether each row decides what is at `path`, or a member below it: a union of several types does."""
    for name in path:
        found = _content(node)
        if found.kind == "union":
            return True
        below = dict(found.fields).get(name)
        if below is None:
            return False
        node = below
    found = _content(node)
    return found.kind == "union" or any(_content(each).kind == "union" for _, each in found.fields)


def kinds_of_rows(node: Node) -> Callable[[Any], KindOf]:
    """Return what gives the kinds of one row's fields, for a row as fastavro reads it by `reading_schema`.

    Members of records, of maps by their keys and of lists by their numbers are of the branches that this row
    has. What is looked at is the row, never all that its schema may hold.
    """
    places: dict[int, dict[str, int]] = {}

    def of_row(row: Any) -> KindOf:
        return lambda path: _kind(_found(node, row, path, places))

    return of_row


def _found(node: Node, value: Any, path: Path, places: dict[int, dict[str, int]]) -> Node | None:
    """The type of the value at the path; None where the row has no value there."""
    found: Node | None
    found, value = _branch(node, value)
    for name in path:
        if found is None:
            break
        found, value = _branch(*_member(found, value, name, places))
    return found


def _branch(node: Node | None, value: Any) -> tuple[Node | None, Any]:
    """The branch that the value is of, and the value in it."""
    if node is None or value is None:
        return None, None
    if node.kind != "union":
        return node, value
    if node.nullable is not None:
        return node.nullable, value
    index, held = unwrapped(value)
    return (None, None) if held is None else (node.branches[index], held)


def _member(node: Node, value: Any, name: str, places: dict[int, dict[str, int]]) -> tuple[Node | None, Any]:
    match node.kind:
        case "record":
            known = places.get(id(node))
            if known is None:
                known = places[id(node)] = {field: at for at, (field, _) in enumerate(node.fields)}
            at = known.get(name)
            return (None, None) if at is None else (node.fields[at][1], value[f"f{at}"])
        case "map":
            # The last one of a name counts, as in JSON.
            held = next((pair[VALUE] for pair in reversed(value) if pair[KEY] == name), None)
            return node.content, held
        case "array" if name.isdecimal() and int(name) < len(value):
            return node.content, value[int(name)]
        case _:
            return None, None


def _kind(node: Node | None) -> FieldKind:
    if node is None:
        return FieldKind.OTHER
    if node.kind in ("bytes", "fixed") and node.logical is None:
        return FieldKind.BYTES
    if node.kind in ("record", "map"):
        return FieldKind.RECORD
    if node.kind == "array":
        return FieldKind.LIST
    return _TIMES.get(node.logical or "", FieldKind.OTHER)


def _content(node: Node) -> Node:
    """The node itself, or what is in it where it is optional, a list or a map."""
    while node.nullable is not None or node.items is not None:
        node = node.nullable or node.content
    return node
