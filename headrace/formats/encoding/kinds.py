"""Types of JSON values that have no schema: which one holds which, and the types that objects have for them.

A kind is an Arrow type in which LARGE marks integers that a double does not hold.
"""

from typing import Any, Final

import pyarrow as pa

LARGE: Final = pa.uint64()
"""Integers of 64 bits with one among them that no double holds; such an integer is never made a double."""
_INTEGERS: Final = frozenset({pa.int64(), LARGE})
_NUMBERS: Final = frozenset({pa.int64(), pa.float64()})


class TypesConflict(ValueError):
    """Two types have no common one; `path` says where."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(".".join(path) or "the value itself")


class NotExact(TypesConflict):
    """One type has integers that the other's doubles do not hold."""


def merged(one: Any, other: Any, path: tuple[str, ...] = ()) -> Any:
    """The least kind that holds both; TypesConflict where there is none.

    Members keep the order in which they came.
    """
    if one is other or one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return pa.struct(_merged_fields(one, other, path))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(merged(one.value_type, other.value_type, (*path, "[]")))
    both = {one, other}
    if both == _INTEGERS:
        return LARGE
    if both == _NUMBERS:
        return pa.float64()
    raise (NotExact if both == {LARGE, pa.float64()} else TypesConflict)(path)


def _merged_fields(one: Any, other: Any, path: tuple[str, ...]) -> list[Any]:
    kinds = {field.name: field.type for field in one}
    for field in other:
        known = kinds.get(field.name)
        kinds[field.name] = field.type if known is None else merged(known, field.type, (*path, field.name))
    return [pa.field(name, kind) for name, kind in kinds.items()]


def covers(kind: Any, other: Any) -> bool:
    """Whether `kind` holds every value of `other` as it is."""
    if kind is other or pa.types.is_null(other):
        return True
    if pa.types.is_struct(other):
        return pa.types.is_struct(kind) and all(
            (index := kind.get_field_index(field.name)) >= 0 and covers(kind.field(index).type, field.type)
            for field in other
        )
    if pa.types.is_list(other):
        return pa.types.is_list(kind) and covers(kind.value_type, other.value_type)
    return bool(kind == other or (other == pa.int64() and kind in {LARGE, pa.float64()}))


def replaced(kind: Any, old: Any, new: Any) -> Any:
    """The kind with `new` wherever it has `old`."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, replaced(field.type, old, new)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(replaced(kind.value_type, old, new))
    return new if kind == old else kind


def settled(kind: Any) -> Any:
    """The kind of an object whose columns no longer change: integers stay such, whatever they are."""
    return replaced(kind, pa.int64(), LARGE)


def written(kind: Any) -> Any:
    """The Arrow type that objects have for the kind."""
    return replaced(kind, LARGE, pa.int64())
