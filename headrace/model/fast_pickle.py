"""Pickles of small frozen dataclasses without what `dataclasses` does for each of them.

A batch and its answer are hundreds of objects of a few classes, and Python's own way asks `fields()` for the
names at every single one, at both ends. Here the names are asked for once, when the class is made.
"""

import copyreg
from collections.abc import Callable
from dataclasses import fields
from itertools import repeat
from operator import attrgetter, call
from typing import Any, TypeVar

T = TypeVar("T")


def fast_pickle(kind: type[T]) -> type[T]:
    """Class decorator for a `@dataclass(frozen=True, slots=True)` with fields, to be written above it.

    A pickle says what it always said: the class, and the values in the order of its fields. One with more or
    fewer of them, from another version, is a ValueError and no half-filled object.
    """
    names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]  # a dataclass: see above
    # The slots' own setters, as a frozen class refuses to be set.
    setters = tuple(getattr(kind, name).__set__ for name in names)
    count = len(names)
    values_of = _values_of(names)

    def reduced(self: T) -> tuple[Any, ...]:
        # What pickle knows how to write shortest: an empty object of the class, then its state.
        return copyreg.__newobj__, (type(self),), values_of(self)  # type: ignore[attr-defined]  # not in its stub

    def filled(self: T, values: tuple[Any, ...]) -> None:
        if len(values) != count:
            raise ValueError(f"{kind.__name__} has {count} fields, and {len(values)} came")
        # A loop without a step of the interpreter for each field: setters give None, so `any` takes them all.
        any(map(call, setters, repeat(self), values))

    made: Any = kind
    made.__reduce__ = reduced
    made.__setstate__ = filled
    return kind


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        # Of one name alone attrgetter gives the bare value.
        (alone,) = map(attrgetter, names)
        return lambda one: (alone(one),)
    return attrgetter(*names)
