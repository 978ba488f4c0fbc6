"""The types of JSON values without a schema: of one value, of many at once, and one for two. Pure.

All members are nullable; integers are long, other numbers double. What is found for many values at once only
spares a look at each: it holds every one of them, and decides nothing. A kind is an Arrow type in which LARGE
marks integers that a double does not hold.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from headrace.formats.arrow import list_offsets, struct_fields
from headrace.formats.encoding.encoder import joined, text_of
from headrace.formats.encoding.json_members import copied
from headrace.model.columns import Column, Numbers

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


def merged_most(kind: Any, others: Sequence[Any]) -> tuple[Any, int]:
    """What `merged` gives with one of the others after the other, and how many it is of: up to a conflict.

    In halves: to add one of a thousand with names of their own is to make all fields before it again.
    """
    try:
        return merged(kind, _of_halves(others)), len(others)
    except TypesConflict:
        if len(others) == 1:
            return kind, 0
    middle = len(others) // 2
    kind, count = merged_most(kind, others[:middle])
    if count == middle:
        kind, more = merged_most(kind, others[middle:])
        count += more
    return kind, count


def _of_halves(kinds: Sequence[Any]) -> Any:
    if len(kinds) == 1:
        return kinds[0]
    return merged(_of_halves(kinds[: len(kinds) // 2]), _of_halves(kinds[len(kinds) // 2 :]))


def _merged_fields(one: Any, other: Any, path: tuple[str, ...]) -> list[Any]:
    # Those that stay the same are not made again: there may be a thousand, and one more with each value.
    fields = list(one)
    for field in other:
        index = one.get_field_index(field.name)
        if index < 0:
            fields.append(pa.field(field.name, field.type))
        elif (kind := merged(fields[index].type, field.type, (*path, field.name))) is not fields[index].type:
            fields[index] = pa.field(field.name, kind)
    return fields


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


def members(kind: Any) -> int:
    """How many members values of the kind have in all, at every depth."""
    if pa.types.is_struct(kind):
        return sum(1 + members(field.type) for field in kind)
    return members(kind.value_type) if pa.types.is_list(kind) else 0


def members_added(kind: Any, other: Any) -> int:
    """How many members more `merged` of both has than `kind`, found in the members of `other` alone."""
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        return sum(
            1 + members(field.type)
            if (index := kind.get_field_index(field.name)) < 0
            else members_added(kind.field(index).type, field.type)
            for field in other
        )
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return members_added(kind.value_type, other.value_type)
    return members(other) if pa.types.is_null(kind) else 0


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


MAX_DEPTH: Final = 100
"""Values of more levels have no columns: what reads types takes a step of the stack for each."""
_WRAPPED: Final = "v"
_LONG: Final = range(-(2**63), 2**63)
_EXACT: Final = range(-(2**53), 2**53 + 1)

# A value's type in words: of an object the pairs of name and shape, of a list the set of its items' shapes
# and their places. It costs less to make and to compare than a type of Arrow.
_Shape = Any
_SCALARS: Final[dict[type, str]] = {type(None): "null", bool: "bool", float: "double", str: "text"}
_KINDS: Final = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "text": pa.string(),
    "long": pa.int64(),
    "large": LARGE,
}


class NoKind(ValueError):
    """A value has no type of its own: `reason` is a word of the metric, the text a sentence about it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


_TOO_LARGE: Final = ("number_too_large", "a number of the JSON is larger than a double holds")
_INEXACT: Final = (
    "an integer of the JSON is beyond 64 bits, or in a list of other numbers, and no double holds all of its "
    "digits; output.format=jsonl keeps them"
)
_NOT_EXACT: Final = ("number_not_exact", _INEXACT)
_TOO_DEEP: Final = (
    "nested_too_deeply",
    f"the JSON has more than {MAX_DEPTH} levels; output.format=jsonl takes it",
)
_MIXED: Final = ("schema_conflict", "a list of the JSON holds values of different types")


def read(text: bytes | None) -> tuple[Any, Any]:
    """A JSON value and its kind; NoKind where it has none."""
    try:
        value = msgspec.json.decode(text or b"null")
        return value, _kind(_shape(value, 0))
    except NotExact:
        raise NoKind(*_NOT_EXACT) from None
    except TypesConflict:
        raise NoKind(*_MIXED) from None
    except (msgspec.DecodeError, OverflowError):
        raise NoKind(*_TOO_LARGE) from None
    except RecursionError:
        raise NoKind(*_TOO_DEEP) from None


def _shape(value: Any, depth: int) -> _Shape:
    kind = type(value)
    if kind is dict:
        if depth >= MAX_DEPTH:
            raise NoKind(*_TOO_DEEP)
        return tuple([(name, _shape(each, depth + 1)) for name, each in value.items()])
    if kind is int:
        if value in _EXACT:
            return "long"
        is_exact = int(float(value)) == value
        if value in _LONG:
            return "long" if is_exact else "large"
        if not is_exact:
            raise NoKind(*_NOT_EXACT)
        return "double"
    if kind is list:
        if depth >= MAX_DEPTH:
            raise NoKind(*_TOO_DEEP)
        found: dict[_Shape, int] = {}
        for each in value:
            found.setdefault(_shape(each, depth + 1), len(found))
        return frozenset(found.items())
    return _SCALARS[kind]


@lru_cache(maxsize=10_000)
def _kind(shape: _Shape) -> Any:
    if isinstance(shape, str):
        return _KINDS[shape]
    if isinstance(shape, frozenset):
        item: Any = pa.null()
        for each, _ in sorted(shape, key=lambda placed: placed[1]):
            item = merged(item, _kind(each), ("[]",))
        return pa.list_(item)
    return pa.struct([(name, _kind(each)) for name, each in shape])


def deep_rows(column: Column) -> Numbers:
    """The rows that may have more than MAX_DEPTH levels: those with so many brackets."""
    # One bit tells `[` from `{`.
    opens = np.flatnonzero((np.frombuffer(column.buffer, np.uint8) | 0x20) == ord("{"))
    if len(opens) <= MAX_DEPTH:
        return np.zeros(0, np.int64)
    ends = column.starts + np.maximum(column.lengths, 0)
    return np.flatnonzero(np.searchsorted(opens, ends) - np.searchsorted(opens, column.starts) > MAX_DEPTH)


def at_once(column: Column, known: Any) -> tuple[Any, Any] | None:
    """An array of the values and a kind that holds each; None where they have to be looked at one by one.

    `known` is a type that was found before: with it texts that look like moments are read in one go.
    """
    lines = _lines(column)
    array = None if pa.types.is_null(known) else _array(lines, known, len(column))
    array = _array(lines, pa.null(), len(column)) if array is None else _without_absent(array, lines)
    if array is None:
        return None
    kind = _kind_of(array)
    return None if kind is None else (array, kind)


def within(column: Column, known: Any) -> tuple[Any, Any] | None:
    """The same for values without any member that `known` has not; None for others, which become no table.

    So its cells are known before: values that each have names of their own would make a column of each name.
    """
    lines = _lines(column)
    try:
        array = _read(lines, _readable(known), "error").combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowIndexError):
        return None
    if len(array) != len(column) or not _is_null_where(array, known):
        return None
    array = _without_absent(_as_found(array, known), lines)
    kind = _kind_of(array)
    return None if kind is None else (array, kind)


def _lines(column: Column) -> bytes:
    return text_of(joined([b'{"%s":' % _WRAPPED.encode(), copied(column), b"}\n"], len(column)))


def _is_null_where(array: Any, known: Any) -> bool:
    """Whether there are only nulls in lists of which nothing else is known; they were read as texts."""
    if pa.types.is_struct(known):
        return all(map(_is_null_where, struct_fields(array), [field.type for field in known]))
    if not pa.types.is_list(known):
        return True
    items = array.flatten()
    if pa.types.is_null(known.value_type):
        return bool(items.null_count == len(items))
    return _is_null_where(items, known.value_type)


def _array(lines: bytes, known: Any, count: int) -> Any | None:
    """One array, or None where the values have no common type or Arrow's reader does not take them."""
    wanted = _without_nulls(known)
    try:
        found = _read(lines, wanted)
        kind = found.type
        if not _is_whole(kind, wanted):
            wanted = _without_nulls(_readable(kind))
            found = _read(lines, wanted)
    except pa.ArrowInvalid:
        return None
    if not _is_whole(found.type, wanted) or len(found) != count:
        return None
    return _as_found(found.combine_chunks(), kind)


def _without_absent(array: Any, lines: bytes) -> Any:
    """The array without members that no value has, and that only the known type brought."""
    if not pa.types.is_struct(array.type):
        return array
    names, below = [], []
    for field, member in zip(array.type, struct_fields(array), strict=True):
        if member.null_count == len(member) and not _may_have(lines, field.name):
            continue
        names.append(field.name)
        below.append(_without_absent(member, lines))
    if not names:
        return array
    return pa.StructArray.from_arrays(below, names=names, mask=array.is_null())


def _may_have(lines: bytes, name: str) -> bool:
    """Whether a member of this name may be there: it is written as it is, or with escapes."""
    return msgspec.json.encode(name) in lines or b"\\" in lines


def _kind_of(array: Any) -> Any | None:
    """The kind of the values; None where a number may have lost digits, or its sign, on the way."""
    kind = array.type
    if pa.types.is_struct(kind):
        fields = []
        for field, member in zip(kind, struct_fields(array), strict=True):
            below = _kind_of(member)
            if below is None:
                return None
            fields.append(pa.field(field.name, below))
        return pa.struct(fields)
    if pa.types.is_list(kind):
        item = _kind_of(array.flatten())
        return None if item is None else pa.list_(item)
    if pa.types.is_floating(kind):
        numbers = array.fill_null(1.0).to_numpy(zero_copy_only=False)
        # A double of that size may have been an integer with more digits; a zero with a sign, the integer -0.
        is_plain = (np.abs(numbers) < _EXACT.stop - 1) & ((numbers != 0) | ~np.signbit(numbers))
        return kind if is_plain.all() else None
    if pa.types.is_int64(kind):
        numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
        if len(numbers) and (int(numbers.max()) >= _EXACT.stop or int(numbers.min()) < _EXACT.start):
            return LARGE
    return kind


def _is_whole(kind: Any, wanted: Any) -> bool:
    """True where the values of a type that was found are right.

    Unless the type is given, Arrow's reader takes texts for moments, and loses nulls that begin a list.
    """
    return _without_nulls(_readable(kind)) == wanted or not (_has_lists(kind) or _readable(kind) != kind)


def _has_lists(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_lists(field.type) for field in kind)
    return bool(pa.types.is_list(kind))


def _read(lines: bytes, kind: Any, others: str = "infer") -> Any:
    schema = None if kind is None else pa.schema([(_WRAPPED, kind)])
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )
    return table.column(_WRAPPED)


def _readable(kind: Any) -> Any:
    """The type to read values with: texts that look like moments are texts, lists of nulls lists of texts."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        item = kind.value_type
        return pa.list_(pa.string() if pa.types.is_null(item) else _readable(item))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _readable(field.type)) for field in kind])
    return kind


def _as_found(array: Any, kind: Any) -> Any:
    """The array with lists of nulls where only such were found."""
    if pa.types.is_list(kind):
        items = array.flatten()
        below = (
            pa.nulls(len(items)) if pa.types.is_null(kind.value_type) else _as_found(items, kind.value_type)
        )
        return pa.ListArray.from_arrays(list_offsets(array), below, mask=array.is_null())
    if pa.types.is_struct(kind) and kind.num_fields:
        names = [field.name for field in kind]
        found = dict(zip((field.name for field in array.type), struct_fields(array), strict=True))
        below = [_as_found(found[field.name], field.type) for field in kind]
        return pa.StructArray.from_arrays(below, names=names, mask=array.is_null())
    return array


def _without_nulls(kind: Any) -> Any | None:
    """The type without the parts of which nothing is known; None where that is all."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind):
        item = _without_nulls(kind.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_struct(kind):
        below = [(field.name, _without_nulls(field.type)) for field in kind]
        return pa.struct([(name, inner) for name, inner in below if inner is not None])
    return kind
