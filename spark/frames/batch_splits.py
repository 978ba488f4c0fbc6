"""The splits of a batch, which of them one task reads, what filters leave out, and what goes to the tasks."""

import dataclasses
import operator
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from itertools import groupby, pairwise
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from headrace.formats import DecodeOptions
from headrace.formats.packed.members import cuts
from headrace.model.errors import FrameRefused, InvalidObject, ObjectCorrupt, ObjectError
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import Split
from headrace.process.threads import of_each
from headrace.s3 import S3Calls
from headrace.s3.reader import S3Source
from spark.frames.column_types import METADATA
from spark.frames.frame_options import FramesSettings, OnSuperseded
from spark.frames.record_rows import object_values

# What a small object costs beside its bytes, in bytes.
_OPEN_COST: Final = 256 * 1024
_LEAST_BYTES: Final = 4 * 1024 * 1024
_PLANNERS: Final = 16


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FramePartition(InputPartition):
    """What one task reads. `is_begun`: an earlier run of the query may have read some of it already.

    `batch` None is of a frame that is read once, after which nothing finds an object's new content.
    `shared` are the objects of which other tasks read splits as well: no task may leave them out by itself.
    """

    splits: tuple[Split, ...]
    batch: int | None
    is_begun: bool
    shared: frozenset[ObjectId] = frozenset()


def splits_of(found: S3Object, route: Route, cuts: Sequence[int] = ()) -> list[Split]:
    """The splits of an object that is cut there; itself where it is not cut."""
    if not cuts:
        return [Split(object=found, route=route)]
    return [Split(object=found, route=route, begin=begin, end=end) for begin, end in pairwise(cuts)]


def partitioned(
    splits: Sequence[Split], settings: FramesSettings, *, batch: int | None = None, is_begun: bool = False
) -> list[FramePartition]:
    """Partitions of about the same weight, `tasks.max` where there is enough to do; order is kept.

    The same splits give the same partitions. With `on.superseded=skip` those of an object are in one, so that
    one task decides whether the object is there.
    """
    together = [[split] for split in splits]
    if settings.on_superseded is OnSuperseded.SKIP:
        together = [list(each) for _, each in groupby(splits, key=lambda split: split.object.id)]
    weights = [sum(map(_weight, each)) for each in together]
    most = min(max(_LEAST_BYTES, -(-sum(weights) // max(settings.tasks, 1))), settings.split_bytes)
    found: list[tuple[Split, ...]] = []
    current: list[Split] = []
    held = 0
    for each, weight in zip(together, weights, strict=True):
        if current and held + weight > most:
            found.append(tuple(current))
            current, held = [], 0
        current += each
        held += weight
    if current:
        found.append(tuple(current))
    parted = [{split.object.id for split in each if split.is_part} for each in found]
    tasks_of = Counter(one for objects in parted for one in objects)
    return [
        FramePartition(each, batch, is_begun, frozenset(one for one in objects if tasks_of[one] > 1))
        for each, objects in zip(found, parted, strict=True)
    ]


def _weight(split: Split) -> int:
    if split.begin is None or split.end is None:
        return split.object.size + _OPEN_COST
    # Cuts are bytes or row groups: about the same part of the object each, as their splitter made them.
    span = split.end - split.begin
    return min(split.object.size, span if span > _OPEN_COST else split.object.size) + _OPEN_COST


def splits_wanted(found: S3Object, split_bytes: int) -> int:
    """Into how many splits to cut an object, 0 for one that stays whole."""
    return -(-found.size // split_bytes) if found.size > split_bytes else 0


def cuts_of_each(
    settings: FramesSettings, calls: S3Calls, objects: Sequence[S3Object]
) -> list[tuple[int, ...]]:
    """Where each of these objects is split; nowhere when it is small, or its format does not allow it."""
    large = [found for found in objects if splits_wanted(found, settings.split_bytes)]
    cuts_of = partial(_cuts_of, settings, calls)
    made = iter(of_each(cuts_of, large, at_once=_PLANNERS, name="frame-planner"))
    return [next(made) if splits_wanted(found, settings.split_bytes) else () for found in objects]


def _cuts_of(settings: FramesSettings, calls: S3Calls, found: S3Object) -> tuple[int, ...]:
    try:
        return _cuts(settings, calls, found, splits_wanted(found, settings.split_bytes))
    except ObjectError:
        # The task that reads it finds the same, and says so.
        return ()


def cuts_begun(
    settings: FramesSettings, calls: S3Calls, begun: Sequence[tuple[S3Object, tuple[int, ...]]]
) -> list[tuple[int, ...]]:
    """Where a batch has split each object; nowhere when its splits are not rows under these settings.

    Another format may not look at them, and each split would be all rows, or cut elsewhere. Of an object that
    is not there as it was the splits stay: no task gets a row of it.
    """
    split = [one for one in begun if one[1]]
    still = partial(_still, settings, calls)
    made = iter(of_each(lambda one: still(*one), split, at_once=_PLANNERS, name="frame-planner"))
    return [next(made) if cuts else () for _, cuts in begun]


def _still(
    settings: FramesSettings, calls: S3Calls, found: S3Object, begun: tuple[int, ...]
) -> tuple[int, ...]:
    # split.bytes may be another one, and some formats cut at fewer places than asked.
    wanted = {len(begun) - 1, splits_wanted(found, settings.split_bytes)}
    try:
        is_same = any(_cuts(settings, calls, found, count) == begun for count in wanted)
    except (ObjectCorrupt, InvalidObject):
        return ()
    except ObjectError:
        return begun
    return begun if is_same else ()


def _cuts(settings: FramesSettings, calls: S3Calls, found: S3Object, wanted: int) -> tuple[int, ...]:
    given = settings.shared.format
    if not wanted or given.restore is not None:
        return ()
    return cuts(S3Source(calls, found), wanted, options=DecodeOptions(format=given)) or ()


# -- What of the objects a query's filters need ------------------------------------------------------------

ColumnPath = tuple[str, ...]

_COMPARED: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, among: value in among,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES: Final = frozenset({"last_modified", "timestamp"})
KEY_PATH: Final[ColumnPath] = (METADATA, "key")
"""How filters name an object's key."""


def may_hold(condition: Filter, values: Mapping[ColumnPath, Any]) -> bool:
    """False when the filter is true for no row of an object; `values` are those that all its rows have.

    True where they do not say it, and where Spark compares what Python does not: Spark filters rows again.
    """
    asked = condition.child if isinstance(condition, Not) else condition
    is_wanted = asked is condition
    path: Any = getattr(asked, "attribute", None)
    if path not in values:
        return True
    value = values[path]
    if isinstance(asked, IsNull | IsNotNull):
        return (value is None) is (isinstance(asked, IsNull) is is_wanted)
    compare = _COMPARED.get(type(asked))
    if compare is None:
        return True
    if value is None:
        # Neither true nor false for null, so its negation is not true either.
        return False
    given = getattr(asked, "value", None)
    among = given if isinstance(asked, In) else (given,)
    if not isinstance(among, tuple) or not all(_is_alike(value, one) for one in among):
        return True
    return compare(value, given) is is_wanted


def _is_alike(one: Any, other: Any) -> bool:
    """True for values of one type, times with a zone both."""
    is_time = isinstance(other, datetime)
    return type(one) is type(other) and (not is_time or other.tzinfo is not None)


def shown_values(found: S3Object, route: Route, shown: frozenset[str]) -> dict[ColumnPath, Any]:
    """What all rows of an object have, by the columns of filters; `shown` are columns of their own, too."""
    values = object_values(found, route)
    for name in _TIMES:
        if values[name] is not None:
            try:
                values[name] = _EPOCH + timedelta(microseconds=values[name])
            except OverflowError:
                del values[name]
    return {(METADATA, name): value for name, value in values.items()} | {
        (name,): values[name] for name in shown & values.keys()
    }


# -- What goes to the tasks: pickles have fields by their place, and executors may have another version ------

Shapes = dict[str, tuple[str, ...]]
"""The names of the fields of classes, by module and class."""


class Shipped:
    """A dataclass that tasks get, and refuse where a class in it has other fields on their side."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        values = _fields_of(self)
        assert values is not None, "it is a dataclass"
        content = pickle.dumps(tuple(values.values()))
        return received, (type(self), shapes_of(self) | _IN_PARTITIONS, content)


def received(kind: Any, shapes: Shapes, content: bytes) -> Any:
    """What was pickled; FrameRefused where this side has other classes, before any of it is read."""
    for name, fields in shapes.items():
        module, _, class_name = name.partition(":")
        try:
            found = _names_of(getattr(import_module(module), class_name))
        except (ImportError, AttributeError):
            found = None
        if found != fields:
            raise FrameRefused(
                "Spark's driver and this executor have different versions of Headrace "
                f"({class_name} has other fields): have PYSPARK_PYTHON, or spark.pyspark.python, name "
                "environments with the same version."
            )
    return kind(*pickle.loads(content))  # noqa: S301  # as Spark does with all that it sends to tasks


def shapes_of(value: Any) -> Shapes:
    """The classes of this value and of all within it."""
    fields = _fields_of(value)
    if fields is None:
        inner: Iterable[Any] = ()
        if isinstance(value, Mapping):
            inner = value.values()
        elif isinstance(value, tuple | list | frozenset):
            inner = value
        return {name: names for each in inner for name, names in shapes_of(each).items()}
    found = _shape_of(type(value))
    for each in fields.values():
        found |= shapes_of(each)
    return found


def _fields_of(value: Any) -> dict[str, Any] | None:
    names = _names_of(type(value))
    return None if names is None else {name: getattr(value, name) for name in names}


def _names_of(kind: Any) -> tuple[str, ...] | None:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else None


def _shape_of(kind: Any) -> Shapes:
    return {f"{kind.__module__}:{kind.__qualname__}": _names_of(kind) or ()}


_IN_PARTITIONS: Final[Shapes] = {
    name: names
    for kind in (FramePartition, Split, S3Object, ObjectId, Route)
    for name, names in _shape_of(kind).items()
}
