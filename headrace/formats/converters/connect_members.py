"""Members as Kafka Connect's values have them, by what a schema says of what JSON has of them."""

import base64
import binascii
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

import pyarrow as pa

from headrace.formats.avro_schema import Node, parse_schema
from headrace.formats.connect.schema import unscaled_decimal

Reading = Callable[[object], object]
"""Makes a member of what JSON has of it."""

# Kinds of Avro that JSON has in base64, unless their logical type is another.
_OCTETS: Final = frozenset({"bytes", "fixed"})
# More digits than these bytes hold are in no name.
_LONGEST: Final = 400


def _octets(shown: object) -> object:
    """The bytes that JSON has in base64."""
    if not isinstance(shown, str):
        return shown
    try:
        return base64.b64decode(shown, validate=True)
    except binascii.Error:
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
    nodes = _branches(parse_schema(schema))
    for name in path:
        nodes = dict.fromkeys(inner for each in nodes for inner in _below(each, name))
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
