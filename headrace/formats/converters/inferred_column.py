"""Values of JSON without a schema: texts, and the kind of each value alone.

An object's kind is made of its own records, one after the other. What is known of many values at once only
spares a look at each: how many were fetched together decides nothing.
"""

import functools
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.converted_records import ColumnSchema, Fit, Form, InferredValues, Rows
from headrace.formats.converters.json_inference import (
    NoKind,
    TypesConflict,
    at_once,
    covers,
    deep_rows,
    members,
    members_added,
    merged,
    merged_most,
    read,
    settled,
    within,
    written,
)
from headrace.formats.converters.members import json_fields
from headrace.formats.converters.typed_columns import RowFaults
from headrace.formats.encoding.encoder import gathered
from headrace.formats.encoding.row_schema import projected
from headrace.formats.parquet_avro import avro_schema
from headrace.model.columns import NULL_LENGTH, Column, Numbers, owned, picked

_P = TypeVar("_P")

# Then all others that may widen an object do at once: each would cost a look at all members so far.
_WIDENED_SINGLY: Final = 16
# JSON with more members has data for names: what it had so far is of no use for what comes.
_MOST_MEMBERS: Final = 1000
_EMPTY_OBJECT: Final = re.compile(rb"\{\s*\}")


class InferredColumn(InferredValues):
    """JSON texts and nulls. `array` has the values, `upper` a kind that holds them; None: not read at once.

    `is_loose`: they may be wider than the values, by what was there before or is next to them.
    """

    form = Form.TYPED

    def __init__(
        self,
        texts: Column,
        *,
        array: Any = None,
        upper: Any = None,
        kinds: Sequence[Any] | None = None,
        known: "_Known | None" = None,
        is_loose: bool = False,
        covered: dict[int, tuple[Any, bool]] | None = None,
    ) -> None:
        self._texts = texts
        self._array = array
        self._upper = upper
        self._kinds = kinds
        self._known = known
        self._is_loose = is_loose
        # For all parts of a batch, which meet objects of the same few kinds.
        self._covered = {} if covered is None else covered

    def __len__(self) -> int:
        return len(self._texts)

    def take(self, rows: Rows) -> "InferredColumn":
        """The values of these row numbers."""
        texts, array, kinds = self._texts, self._array, self._kinds
        if array is not None:
            array = array[rows] if isinstance(rows, slice) else array.take(pa.array(rows))
        if kinds is not None:
            kinds = kinds[rows] if isinstance(rows, slice) else [kinds[row] for row in rows.tolist()]
        return InferredColumn(
            Column(buffer=texts.buffer, starts=texts.starts[rows], lengths=texts.lengths[rows]),
            array=array,
            upper=self._upper,
            kinds=kinds,
            known=None if self._known is None else self._known.take(rows),
            is_loose=array is not None,
            covered=self._covered,
        )

    def alone(self) -> "InferredColumn":
        """The same values, of no wider kind than they have: what others were of is forgotten."""
        found = self.take(slice(None))
        found._narrow()  # noqa: SLF001  # of its own kind
        return found

    def owned(self) -> "InferredColumn":
        """The same values in memory of their own."""
        array = self._array
        if array is not None:
            array = pa.concat_arrays([array, array.slice(0, 0)])
        return InferredColumn(
            owned(self._texts), array=array, upper=self._upper, kinds=self._kinds, is_loose=self._is_loose
        )

    def nulls(self) -> npt.NDArray[np.bool_]:
        """True for each null."""
        return np.equal(self._texts.lengths, NULL_LENGTH)

    def texts(self) -> Column:
        """The JSON of each value."""
        return self._texts

    def arrow(self) -> Any:
        """The values as one type; TypesConflict where they have none."""
        kind = self._upper
        if kind is None:
            kind = functools.reduce(merged, self.kinds(), pa.null())
        return self.arrow_as(written(kind))

    def data(self) -> Column | None:
        """None."""
        return None

    def field(self, path: Sequence[str], *, whole_first: bool = True) -> list[object]:
        """The member at `path` of each value."""
        return json_fields(self._texts.each(0, len(self)), path, whole_first=whole_first)

    def connect_field(self, path: Sequence[str]) -> list[object]:
        """The member at `path` of each value, or the element of a list."""
        return json_fields(self._texts.each(0, len(self)), path, whole_first=False, has_places=True)

    @property
    def array_type(self) -> Any | None:
        """The type of the values together, None where they were not read so."""
        return None if self._array is None else self._array.type

    # -- kinds -----------------------------------------------------------------------------------------------

    @property
    def upper(self) -> Any | None:
        """A kind that holds every value, None where none is known."""
        return self._upper

    def kinds(self) -> Sequence[Any]:
        """The kind of each value alone."""
        if self._kinds is None:
            self._kinds = [read(text)[1] for text in self._texts.each(0, len(self))]
        return self._kinds

    @cached_property
    def schema(self) -> ColumnSchema:  # type: ignore[override]  # made when it is asked for
        """That of an object which begins with the first value."""
        if self._known is not None and len(self):
            return schema_of_kind(self._known.first)
        return schema_of_kind(self._upper if self._upper is not None else self.kinds()[0])

    def learned(self, known: Any) -> tuple["InferredColumn", Any]:
        """The values as they follow others, which were of the kind `known` in all, and what they are then."""
        if self._is_covered(known):
            return self._following(_Known([known], None)), known
        kinds: list[Any] = []
        places, looks = np.zeros(len(self), np.int64), _Looks()
        count: int | None = None
        for row in range(len(self)):
            wider, count = _learned(known, self._kind(row), count)
            if not kinds or wider is not known:
                kinds.append(wider)
                looks.are_due = True
            places[row] = len(kinds) - 1
            known = wider
            if looks.now(row) and self._is_covered(known):
                places[row:] = len(kinds) - 1
                break
        return self._following(_Known(kinds, places)), known

    def _following(self, known: "_Known") -> "InferredColumn":
        return InferredColumn(
            self._texts,
            array=self._array,
            upper=self._upper,
            kinds=self._kinds,
            known=known,
            is_loose=self._is_loose,
            covered=self._covered,
        )

    def has_one_schema(self) -> bool:
        """Whether `schema` holds every value, and an object that begins with any of them has it."""
        known = self._known
        return (
            known is not None
            and known.is_one
            and self._upper is not None
            and covers(known.first, self._upper)
        )

    def fit(self, kind: Any, learning: int) -> Fit:
        """Which of the values come into an object of this kind, the first `learning` of which may widen it.

        Without any the kind is a settled one.
        """
        count = len(self)
        if self._is_covered(kind):
            return Fit(count, kind)
        # Kinds by their ids, held: the id of one that is gone would be another's.
        fitting: dict[int, Any] = {}
        looks, widened = _Looks(), 0
        for row in range(count):
            if widened == _WIDENED_SINGLY and row < learning:
                return self._fit_from(row, kind, learning)
            own = self._kind(row)
            if row == learning > 0:
                kind, fitting = settled(kind), {}
            if fitting.get(id(own)) is not own and not covers(kind, own):
                if row >= learning:
                    return Fit(row, kind)
                try:
                    kind, fitting, widened = merged(kind, own), {}, widened + 1
                except TypesConflict:
                    # Not a bad record: which values were there before it is the clock's choice.
                    return Fit(row, kind)
                looks.are_due = True
            fitting[id(own)] = own
            if looks.now(row) and self._is_covered(kind):
                return Fit(count, kind)
        return Fit(count, kind)

    def _fit_from(self, first: int, kind: Any, learning: int) -> Fit:
        """`fit` where the values before `first` do, with all at once that may widen the object."""
        end = min(len(self), learning)
        kind, more = merged_most(kind, [self._kind(row) for row in range(first, end)])
        if first + more < end or end == len(self):
            return Fit(first + more, kind)
        rest = self.take(slice(end, None)).fit(settled(kind), 0)
        return Fit(end + rest.rows, rest.kind)

    def _kind(self, row: int) -> Any:
        return read(self._texts.get(row))[1] if self._kinds is None else self._kinds[row]

    def _is_covered(self, kind: Any) -> bool:
        """Whether a kind is known to hold every value."""
        if self._upper is None:
            return False
        # Kinds of objects are few, and stay the same ones.
        found = self._covered.get(id(kind))
        if found is None:
            found = self._covered[id(kind)] = (kind, covers(kind, self._upper))
        if not found[1] and self._is_loose:
            self._narrow()
            return self._is_covered(kind)
        return found[1]

    def _narrow(self) -> None:
        """Read these values alone."""
        self._is_loose, self._covered = False, {}
        read_again = at_once(self._texts, pa.null())
        self._array, self._upper = read_again or (None, _of_all(self.kinds()))

    # -- values ----------------------------------------------------------------------------------------------

    def arrow_as(self, kind: Any) -> Any:
        """The values as an array of an Arrow type that holds them."""
        wanted = settled(kind)
        if self._array is not None and not covers(wanted, self._upper) and self._is_loose:
            self._narrow()
        if self._array is not None and covers(wanted, self._upper):
            return projected(self._array, kind)
        return pa.array([_as(read(text)[0], kind) for text in self._texts.each(0, len(self))], kind)

    def has_empty_objects(self) -> bool:
        """Whether there may be an object without members in a value."""
        texts = self._texts
        if len(texts.buffer) > 4 * int(np.maximum(texts.lengths, 0).sum()):
            filled = np.flatnonzero(texts.lengths > 0)
            return (
                _EMPTY_OBJECT.search(
                    gathered(
                        Column(
                            buffer=texts.buffer, starts=texts.starts[filled], lengths=texts.lengths[filled]
                        )
                    )
                )
                is not None
            )
        return _EMPTY_OBJECT.search(texts.buffer) is not None


def inferred_column(texts: Column, hint: Any, faults: RowFaults) -> tuple[Numbers, InferredColumn]:
    """The values that have a kind, and their rows; others are faults.

    `hint` is a type that values had before, or null: with a good one they are read faster.
    """
    if all(map(_is_shallow, (texts.get(row) for row in deep_rows(texts).tolist()))):
        found = at_once(texts, hint)
        if found is not None:
            is_loose = not pa.types.is_null(hint)
            values = InferredColumn(texts, array=found[0], upper=found[1], is_loose=is_loose)
            return np.arange(len(texts)), values
    return single_values(texts, faults)


def values_within(texts: Column, known: Any) -> InferredColumn | None:
    """The values, none of which has a member that the type `known` has not; None where one has."""
    if len(deep_rows(texts)):
        return None
    found = within(texts, known)
    return None if found is None else InferredColumn(texts, array=found[0], upper=found[1], is_loose=True)


def single_values(texts: Column, faults: RowFaults) -> tuple[Numbers, InferredColumn]:
    """The same without a table: values with names of their own take no column of it each."""
    rows: list[int] = []
    kinds: list[Any] = []
    for row, text in enumerate(texts.each(0, len(texts))):
        try:
            kinds.append(read(text)[1])
        except NoKind as problem:
            faults.add(row, problem.reason, str(problem))
        else:
            rows.append(row)
    good = np.array(rows, np.int64)
    return good, InferredColumn(picked(texts, good), kinds=kinds, upper=_of_all(kinds))


def _of_all(kinds: Sequence[Any]) -> Any | None:
    """The kind that holds all of these, None where there is none."""
    found: Any = pa.null()
    try:
        for kind in {id(kind): kind for kind in kinds}.values():
            found = merged(found, kind)
    except TypesConflict:
        return None
    return found


def _is_shallow(text: bytes | None) -> bool:
    try:
        read(text)
    except NoKind:
        return False
    return True


class _Known:
    """What values and those before them are of in all: a kind for each row, or one for all of them."""

    def __init__(self, kinds: Sequence[Any], places: Numbers | None) -> None:
        self._kinds = kinds
        self._places = places

    @property
    def first(self) -> Any:
        return self._kinds[0 if self._places is None else int(self._places[0])]

    @property
    def is_one(self) -> bool:
        return self._places is None or bool((self._places == self._places[:1]).all())

    def take(self, rows: Rows) -> "_Known":
        return self if self._places is None else _Known(self._kinds, self._places[rows])


def unheld_values(
    values: InferredValues, problem: Callable[[Any], _P | None], *, may_hide: bool = True
) -> list[tuple[int, _P]]:
    """The places of values, and what the problem with their own kind is; nulls have none.

    `may_hide`: a member without members may be a problem that a neighbour's members hide.
    """
    upper = values.upper
    is_open = may_hide and values.has_empty_objects()
    if upper is not None and not is_open and problem(upper) is None:
        return []
    known: dict[int, _P | None] = {}
    found, kinds = [], values.kinds()
    for place in np.flatnonzero(~values.nulls()).tolist():
        kind = kinds[place]
        if id(kind) not in known:
            known[id(kind)] = problem(kind)
        if (one := known[id(kind)]) is not None:
            found.append((place, one))
    return found


def schema_of_kind(kind: Any) -> ColumnSchema:
    """The schema of objects whose values are of this kind in all."""
    arrow = written(kind)
    return ColumnSchema(arrow=arrow, avro=avro_schema(arrow), kind=kind)


def _learned(known: Any, kind: Any, count: int | None) -> tuple[Any, int | None]:
    """What is known once a value of this kind was there, and its members, which were so many if counted.

    What fits nothing before it begins again.
    """
    if covers(known, kind):
        return known, count
    more = (members(known) if count is None else count) + members_added(known, kind)
    if more <= _MOST_MEMBERS:
        try:
            return merged(known, kind), more
        except TypesConflict:
            pass
    return kind, members(kind)


class _Looks:
    """When to ask whether a kind that becomes wider holds all values, which costs a look at all members.

    It spares the values that are left. Where it did not, the next is later by one row more each time: values
    of a few kinds are through at once, and those with a new member each cost no look at all of them each.
    """

    def __init__(self) -> None:
        self.are_due = False
        """The kind is another one since the last look."""
        self._next = self._looks = 0

    def now(self, row: int) -> bool:
        if not self.are_due or row < self._next:
            return False
        self._looks += 1
        self._next, self.are_due = row + self._looks, False
        return True


def _as(value: Any, kind: Any) -> Any:
    """The value as Arrow takes it for this type: integers of any size where it is double."""
    if isinstance(value, dict):
        return {name: _as(each, kind.field(name).type) for name, each in value.items()}
    if isinstance(value, list):
        return [_as(each, kind.value_type) for each in value]
    return float(value) if type(value) is int and pa.types.is_floating(kind) else value
