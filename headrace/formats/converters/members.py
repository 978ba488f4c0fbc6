"""Members of values by their paths: found in JSON texts without making the rest, and as Connect has them."""

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
import pyarrow as pa

from headrace.formats.avro_schema import Node, SchemaError, parse_schema
from headrace.formats.connect.schema import unscaled_decimal
from headrace.formats.converted_records import MISSING
from headrace.formats.record_columns import is_plain_name


def json_fields(
    texts: Iterable[bytes | None],
    path: Sequence[str],
    *,
    whole_first: bool = True,
    has_places: bool = False,
) -> list[object]:
    """The member at `path` of each JSON text, MISSING where there is none; for an empty path the value.

    With `whole_first` a member whose name is the whole path, dots and all, comes first; with `has_places` a
    number in the path is a place in a list, too.
    """
    whole = ".".join(path) if whole_first and len(path) > 1 else None
    has_places = has_places and any(map(str.isdecimal, path))
    if has_places or not all(map(is_plain_name, path)):
        return [_walked_to(text, path, whole, has_places=has_places) for text in texts]
    decoder = _decoder(tuple(path), whole)
    return [_found(decoder, text, len(path), whole) for text in texts]


def _found(decoder: msgspec.json.Decoder[Any], text: bytes | None, depth: int, whole: str | None) -> object:
    if text is None:
        return MISSING if depth else None
    try:
        found = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # What the path begins with may be no object, and the member of the whole name still there.
        return MISSING if whole is None else _found(_decoder((whole,), None), text, 1, None)
    if whole is not None and found.whole is not MISSING:
        return found.whole
    for _ in range(depth):
        if found is MISSING:
            return MISSING
        found = found.found
    return found


@lru_cache(maxsize=256)
def _decoder(path: tuple[str, ...], whole: str | None) -> msgspec.json.Decoder[Any]:
    """A decoder of structures that have the members of the path, and the one named `whole`, and no others."""
    kind: Any = Any
    for depth, name in reversed(tuple(enumerate(path))):
        members: list[tuple[str, Any, Any]] = [("found", kind, MISSING)]
        names = {"found": name}
        if depth == 0 and whole is not None:
            members.append(("whole", Any, MISSING))
            names["whole"] = whole
        kind = msgspec.defstruct("Member", members, rename=names, gc=False)
    return msgspec.json.Decoder(kind, float_hook=_number)


def _walked_to(text: bytes | None, path: Sequence[str], whole: str | None, *, has_places: bool) -> object:
    """As `_found`, for places in lists, and names that no structure can have: all of the text is made."""
    if text is None:
        return MISSING
    try:
        found = _ANYTHING.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MISSING
    if whole is not None and isinstance(found, dict) and whole in found:
        return found[whole]
    for name in path:
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif has_places and isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return MISSING
    return found


def _number(text: str) -> float | Decimal:
    """A double; a decimal where that would be another number, such as one with 18 digits, or infinite."""
    found = float(text)
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return found
    return found if exact == Decimal(repr(found)) else exact


_ANYTHING: Final = msgspec.json.Decoder(float_hook=_number)


# -- As Kafka Connect's values have them, by what a schema says of what JSON has -----------------------------

Reading = Callable[[object], object]
"""Makes a member of what JSON has of it."""

# Kinds of Avro that JSON has in base64, unless their logical type is another.
_TIMES_OF_DAY: Final = frozenset({"time-millis", "time-micros"})
_OCTETS: Final = frozenset({"bytes", "fixed"})
# More digits than these bytes hold are in no name.
_LONGEST: Final = 400


def _octets(shown: object) -> object:
    """The bytes that JSON has in base64."""
    if not isinstance(shown, str):
        return shown
    try:
        return base64.b64decode(shown, validate=True)
    except ValueError:  # of text beyond ASCII, and of other text that is not base64
        return shown


def _digits(scale: int, shown: object) -> object:
    """The text of a decimal that JSON has as a number, which lost its last zeros, or in base64."""
    if isinstance(shown, str):
        octets = _octets(shown)
        if not isinstance(octets, bytes) or len(octets) > _LONGEST:
            return shown
        return f"{unscaled_decimal(octets, scale):.{scale}f}"
    return f"{Decimal(str(shown)):.{scale}f}" if isinstance(shown, int | float | Decimal) else shown


def _reading(*, is_octets: bool, scale: int | None) -> Reading | None:
    """How members are read of which a schema says this; None: they are what JSON has."""
    if is_octets:
        return _octets
    return None if scale is None else partial(_digits, max(scale, 0))


def reading_of_arrow(kind: Any) -> Reading | None:
    """How members of an Arrow type are read; None: they are what JSON has."""
    return _reading(
        is_octets=pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind),
        scale=kind.scale if pa.types.is_decimal(kind) else None,
    )


@lru_cache(maxsize=256)
def reading_of_avro(schema: str, path: tuple[str, ...]) -> Reading | None:
    """How members at the path are read that a schema made JSON of; None where branches of unions differ."""
    nodes = _nodes_at(schema, path)
    looks = {
        (
            each.kind in _OCTETS and each.logical is None,
            each.scale if each.logical == "decimal" else None,
        )
        for each in nodes
    }
    if len(looks) != 1:
        return None
    ((is_octets, scale),) = looks
    return _reading(is_octets=is_octets, scale=scale)


@lru_cache(maxsize=256)
def are_times_of_day(schema: str, path: tuple[str, ...]) -> bool:
    """Whether what a schema has at the path are times of no day, those of microseconds among them."""
    nodes = _nodes_at(schema, path)
    return bool(nodes) and all(each.logical in _TIMES_OF_DAY for each in nodes)


def _nodes_at(schema: str, path: tuple[str, ...]) -> dict[Node, None]:
    """What a schema has at the path; nothing where JsonConverter's is deeper or wider than those of files."""
    try:
        nodes = _branches(parse_schema(schema))
    except SchemaError:
        return {}
    for name in path:
        nodes = dict.fromkeys(inner for each in nodes for inner in _below(each, name))
    return nodes


def _branches(node: Node) -> dict[Node, None]:
    """What JSON has values of: of a union its branches, each of them once."""
    return dict.fromkeys(node.filled if node.kind == "union" else [node])


def _below(node: Node, name: str) -> Iterator[Node]:
    """What is below a node by one name of a path."""
    if node.kind == "record":
        inner = dict(node.fields).get(name)
    else:
        is_there = node.kind == "map" or (node.kind == "array" and name.isdecimal())
        inner = node.items if is_there else None
    if inner is not None:
        yield from _branches(inner)
