"""The splits of a batch, which of them one task reads, and what goes to the tasks."""

import dataclasses
import pickle
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import InputPartition

from headrace.formats import DecodeOptions
from headrace.formats.packed.members import cuts
from headrace.model.errors import FrameRefused, ObjectError
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import Split
from headrace.s3 import S3Calls
from headrace.s3.reader import S3Source
from spark.frames.frame_options import FramesSettings

# What a small object costs beside its bytes, in bytes.
_OPEN_COST: Final = 256 * 1024
_LEAST_BYTES: Final = 4 * 1024 * 1024


class FramePartition(InputPartition):
    """What one task reads. `is_begun`: an earlier run of the query may have read some of it already."""

    def __init__(self, splits: tuple[Split, ...], *, batch: int, is_begun: bool) -> None:
        self.splits = splits
        self.batch = batch
        self.is_begun = is_begun


def splits_of(found: S3Object, route: Route, cuts: Sequence[int] = ()) -> list[Split]:
    """The splits of an object that is cut there; itself where it is not cut."""
    if not cuts:
        return [Split(object=found, route=route)]
    return [Split(object=found, route=route, begin=begin, end=end) for begin, end in pairwise(cuts)]


def partitioned(
    splits: Iterable[Split], *, tasks: int, split_bytes: int, batch: int = 0, is_begun: bool = False
) -> list[FramePartition]:
    """Partitions of about the same weight, `tasks` of them where there is enough to do; order is kept.

    The same splits give the same partitions.
    """
    weighed = [(split, _weight(split)) for split in splits]
    total = sum(weight for _, weight in weighed)
    most = min(max(_LEAST_BYTES, -(-total // max(tasks, 1))), split_bytes)
    partitions: list[FramePartition] = []
    current: list[Split] = []
    held = 0
    for split, weight in weighed:
        if current and held + weight > most:
            partitions.append(FramePartition(tuple(current), batch=batch, is_begun=is_begun))
            current, held = [], 0
        current.append(split)
        held += weight
    if current:
        partitions.append(FramePartition(tuple(current), batch=batch, is_begun=is_begun))
    return partitions


def _weight(split: Split) -> int:
    if split.begin is None or split.end is None:
        return split.object.size + _OPEN_COST
    # Cuts are bytes or row groups: about the same part of the object each, as their splitter made them.
    span = split.end - split.begin
    return min(split.object.size, span if span > _OPEN_COST else split.object.size) + _OPEN_COST


def pieces_wanted(found: S3Object, split_bytes: int) -> int:
    """Into how many splits to cut an object, 0 for one that stays whole."""
    return -(-found.size // split_bytes) if found.size > split_bytes else 0


def cuts_of(settings: FramesSettings, calls: S3Calls, found: S3Object) -> tuple[int, ...]:
    """Where an object is split; nowhere when it is small, or its format does not allow it."""
    wanted = pieces_wanted(found, settings.split_bytes)
    given = settings.shared.format
    if not wanted or given.restore is not None:
        return ()
    try:
        return cuts(S3Source(calls, found), wanted, options=DecodeOptions(format=given)) or ()
    except ObjectError:
        # The task that reads it finds the same, and says so.
        return ()


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
    name: names for kind in (Split, S3Object, ObjectId, Route) for name, names in _shape_of(kind).items()
}
