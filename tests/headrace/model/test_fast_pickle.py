"""What travels between driver and tasks comes out of its pickle as it went in, and is quick at it."""

import copy
import dataclasses
import pickle
import pickletools
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.fast_pickle import fast_pickle
from headrace.model.ledger_entry import ControlKey, LedgerEntry, State
from headrace.model.objects import ObjectId, Route
from headrace.model.positions import BytePosition
from headrace.model.slot_protocol import Batch, Checkpoint, Committed, Finished
from tests.support.examples import examples


def _reachable(hint: Any, seen: set[type]) -> Iterator[type]:
    """The dataclasses that a value of this type may hold, at any depth."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if hint in seen:
            return
        seen.add(hint)
        yield hint
        hints = typing.get_type_hints(hint)
        for field in dataclasses.fields(hint):
            yield from _reachable(hints[field.name], seen)
    for inner in typing.get_args(hint):
        yield from _reachable(inner, seen)


TRAVEL = list(_reachable(Batch | Committed | Finished, set()))


def _is_lean(kind: type) -> bool:
    return isinstance(kind.__dict__.get("__reduce__"), types.FunctionType) and "__setstate__" in kind.__dict__


@pytest.mark.parametrize("kind", TRAVEL)
def test_all_that_travels_in_hundreds_is_lean(kind: type) -> None:
    """One that is forgotten costs three times as much, at both ends."""
    assert _is_lean(kind)


def test_all_that_travels_is_found() -> None:
    """The table above is not empty for want of looking."""
    assert {
        "Batch",
        "Split",
        "S3Object",
        "ObjectId",
        "Route",
        "BytePosition",
        "ElementPosition",
        "BlockPosition",
        "RowPosition",
        "JoinedPosition",
        "MemberPosition",
        "ArchivePlace",
        "SideObject",
        "PlacedTombstones",
        "RowPlace",
    } | {"Committed", "Checkpoint", "SplitKey", "ControlKey", "LedgerEntry", "Finished", "Failure"} == {
        kind.__name__ for kind in TRAVEL
    }


@pytest.mark.parametrize("kind", TRAVEL)
@settings(
    max_examples=examples(15), suppress_health_check=list(HealthCheck)
)  # whole batches take a while to draw
@given(data=st.data())
def test_round_trip(kind: type, data: st.DataObject) -> None:
    """Equal, of the same class, field by field; in every protocol, and for `copy` too."""
    one: Any = data.draw(_any(kind))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(one, protocol))  # noqa: S301 - our own bytes
        assert type(again) is kind
        assert again == one
    assert copy.copy(one) == copy.deepcopy(one) == one


def _any(kind: type) -> st.SearchStrategy[Any]:
    # Named one by one, as those with defaults would else always have them.
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: _value(hint) for name, hint in hints.items()})


def _value(hint: Any) -> st.SearchStrategy[Any]:
    return st.floats(allow_nan=False) if hint is float else st.from_type(hint)


def test_what_came_out_is_still_frozen_and_hashable() -> None:
    """The setters that fill it are not for anybody else."""
    again = pickle.loads(pickle.dumps(ObjectId("b", "k", "e")))  # noqa: S301 - our own bytes
    assert {again: 1}[ObjectId("b", "k", "e")] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        again.key = "other"


@pytest.mark.parametrize("values", [(), ("t", None, None), ("t", *[None] * 8)])
def test_another_versions_fields_are_refused(values: tuple[Any, ...]) -> None:
    """Nothing half-filled comes out, whose missing fields would only be missed later."""
    empty: Any = Route.__new__(Route)
    with pytest.raises(ValueError, match=f"Route has 8 fields, and {len(values)} came"):
        empty.__setstate__(values)


def test_a_pickle_names_nothing_but_the_classes() -> None:
    """No helper of ours is called on the way out: the same few names as ever."""
    entry = LedgerEntry(state=State.DONE, position=BytePosition(1))
    raw = pickle.dumps(Checkpoint(key=ControlKey("slots"), entry=entry), pickle.HIGHEST_PROTOCOL)
    names = {
        str(argument) for code, argument, _ in pickletools.genops(raw) if code.name == "SHORT_BINUNICODE"
    }
    ours = {
        name for name in names if name.startswith("headrace") or name[:1].isupper() or "fast_pickle" in name
    }
    # Python before 3.11.4 finds an enum's member by its name, later ones by its value.
    assert ours - {"DONE"} == {
        "headrace.model.slot_protocol", "Checkpoint", "headrace.model.ledger_entry", "ControlKey",
        "LedgerEntry", "State", "headrace.model.positions", "BytePosition",
    }  # fmt: skip
    assert "copyreg" not in names
    assert [code.name for code, _, _ in pickletools.genops(raw)].count("NEWOBJ") == 4


def test_a_class_of_one_field() -> None:
    """Its value is not taken for a row of values."""

    @fast_pickle
    @dataclasses.dataclass(frozen=True, slots=True)
    class _One:
        pair: tuple[int, int]

    assert copy.copy(_One((1, 2))) == _One((1, 2))
