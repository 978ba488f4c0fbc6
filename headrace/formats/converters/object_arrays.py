"""Arrow arrays of Python objects, a column at a time: what is decoded into objects becomes columns so.

A tree of these has the shape of an Arrow type. Each takes a list of the values at its place.
"""

from collections.abc import Callable, Sequence
from itertools import chain, compress
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

Getter = Callable[[Any], Any]


class TypeNode(Protocol):
    """A node of the type: a scalar, or what holds others."""

    type: Any

    def array(self, values: list[Any]) -> Any:
        """The values there, None for nulls. Raises what Arrow and conversions raise for others."""


class ScalarNode:
    """Values that Arrow takes as they are, or as `convert` makes them."""

    def __init__(self, kind: Any, convert: Getter | None = None) -> None:
        self.type = kind
        self._convert = convert

    def array(self, values: list[Any]) -> Any:
        """See `TypeNode`."""
        convert = self._convert
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        return pa.array(values, self.type)


class StructNode:
    """Objects whose members `fields` get; `may_be_null`: one of them may be None."""

    def __init__(
        self, kind: Any, fields: Sequence[tuple[Getter, TypeNode]], *, may_be_null: bool = True
    ) -> None:
        self.type = kind
        self._fields = fields
        self._may_be_null = may_be_null

    def array(self, values: list[Any]) -> Any:
        """See `TypeNode`."""
        filled = None
        if self._may_be_null:
            flags = [value is not None for value in values]
            if not all(flags):
                filled, values = np.array(flags, np.bool_), list(compress(values, flags))
        below = [node.array(list(map(getter, values))) for getter, node in self._fields]
        if not below:
            found = pa.array([{}] * len(values), self.type)
        else:
            found = pa.StructArray.from_arrays(below, fields=list(self.type))
        return found if filled is None else _spread(found, filled)


class ListNode:
    """Sequences, none of which is None unless `may_be_null`."""

    def __init__(self, kind: Any, item: TypeNode, *, may_be_null: bool = True) -> None:
        self.type = kind
        self._item = item
        self._may_be_null = may_be_null

    def array(self, values: list[Any]) -> Any:
        """See `TypeNode`."""
        values, mask = _without_nulls(values) if self._may_be_null else (values, None)
        items = self._item.array(list(chain.from_iterable(values)))
        return pa.ListArray.from_arrays(_offsets(values), items, type=self.type, mask=mask)


class MapNode:
    """Mappings, or with `pairs` sequences of objects that have a key and a value."""

    def __init__(
        self,
        kind: Any,
        key: TypeNode,
        item: TypeNode,
        *,
        pairs: tuple[Getter, Getter] | None = None,
        may_be_null: bool = True,
    ) -> None:
        self.type = kind
        self._key = key
        self._item = item
        self._pairs = pairs
        self._may_be_null = may_be_null

    def array(self, values: list[Any]) -> Any:
        """See `TypeNode`."""
        values, mask = _without_nulls(values) if self._may_be_null else (values, None)
        if self._pairs is None:
            keys = list(chain.from_iterable(values))
            items = [each[key] for each in values for key in each]
        else:
            entries = list(chain.from_iterable(values))
            keys, items = (list(map(getter, entries)) for getter in self._pairs)
        return pa.MapArray.from_arrays(
            _offsets(values), self._key.array(keys), self._item.array(items), type=self.type, mask=mask
        )


_EMPTY: Final[tuple[Any, ...]] = ()


def _without_nulls(values: list[Any]) -> tuple[list[Any], Any]:
    """The sequences, empty ones in the place of None, and a mask of those; None without any."""
    if all(value is not None for value in values):
        return values, None
    mask = pa.array([value is None for value in values], pa.bool_())
    return [_EMPTY if value is None else value for value in values], mask


def _offsets(values: list[Any]) -> Any:
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=ends[1:])
    return pa.array(ends)


def _spread(found: Any, places: Any) -> Any:
    """The values at the places where `places` is True, nulls elsewhere."""
    numbers = np.cumsum(places) - 1
    return found.take(pa.array(np.maximum(numbers, 0), mask=~places))
