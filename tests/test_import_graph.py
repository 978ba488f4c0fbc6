"""The rooms in levels: a room imports only rooms of lower levels, so there is no circle and no arrow upward.

`docs/architecture.md` tells what each room holds; this is where their order is written down.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.source_tree import nodes

_ROOT: Final = Path(__file__).resolve().parent.parent
_PACKAGES: Final = ("headrace", "ingest", "listeners", "spark")

# The highest first. Whoever needs a room of its own level has found a shared thing that belongs below.
LEVELS: Final = (
    # The Python API, and `python -m ingest`: modules of the two packages that are in no room of theirs.
    ("headrace", "ingest"),
    ("ingest.cli",),
    ("ingest.connect",),
    ("ingest.checks", "ingest.service"),
    ("ingest.http", "spark"),
    ("headrace.conversion", "ingest.sink", "ingest.source", "listeners"),
    ("headrace.kafka", "headrace.s3", "headrace.vendors"),
    ("headrace.aws", "headrace.formats"),
    ("headrace.options",),
    ("headrace.names", "headrace.process"),
    ("headrace.model",),
)

# Of other packages, packages import these: the library knows no service and no Spark, listeners know neither.
_ACROSS: Final = {
    "headrace": frozenset[str](),
    "listeners": frozenset({"headrace"}),
    # A query of Spark finds its objects as the service does: by the source's decisions, and its listeners.
    "spark": frozenset({"headrace", "ingest.source", "listeners"}),
    "ingest": frozenset({"headrace", "listeners", "spark"}),
}


def _room(module: str) -> str:
    """The room of a module: `headrace.kafka` for `headrace.kafka.fencing`, `spark` for `spark.slots.jobs`."""
    rooms = {room for level in LEVELS for room in level}
    inner = ".".join(module.split(".")[:2])
    return inner if inner in rooms else module.partition(".")[0]


def _imported(found: Iterable[ast.AST]) -> Iterator[str]:
    """Every module of ours that a module imports, wherever the import stands."""
    for node in found:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from headrace import model` names a room only with what is imported.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] in _PACKAGES)


def _edges() -> dict[tuple[str, str], Path]:
    """Each pair of rooms of which the first imports the second, with a file that does."""
    edges: dict[tuple[str, str], Path] = {}
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            relative = path.relative_to(_ROOT)
            room = _room(".".join(relative.with_suffix("").parts).removesuffix(".__init__"))
            for name in _imported(nodes(path)):
                if room != (other := _room(name)):
                    edges.setdefault((room, other), relative)
    return edges


def _upward(edges: dict[tuple[str, str], Path], levels: tuple[tuple[str, ...], ...]) -> list[str]:
    """A line for each arrow that does not point to a lower level."""
    level = {room: number for number, rooms in enumerate(levels) for room in rooms}
    return [
        f"{room} imports {other} ({path})"
        for (room, other), path in edges.items()
        if level[room] >= level[other]
    ]


def _across(edges: dict[tuple[str, str], Path]) -> list[str]:
    """A line for each arrow from one package to another that is not one of those it may have."""
    return [
        f"{room} imports {other} ({path})"
        for (room, other), path in edges.items()
        if room != "headrace"  # the one arrow upward: the API loads the service when it is called
        and (package := room.partition(".")[0]) != other.partition(".")[0]
        and not {other, other.partition(".")[0]} & _ACROSS[package]
    ]


def test_rooms_import_only_rooms_below_them() -> None:
    """No circle, no arrow upward."""
    assert _upward(_edges(), LEVELS) == []


def test_packages_import_only_what_they_may() -> None:
    """What stands in a package's name holds: the library is no service, and listeners are no Spark."""
    assert _across(_edges()) == []


def test_every_room_has_one_level() -> None:
    """A new room is put where it belongs; one that is gone leaves the list."""
    listed = [room for rooms in LEVELS for room in rooms]
    rooms = {
        f"{package}.{entry.name}"
        for package in ("headrace", "ingest")
        for entry in (_ROOT / package).iterdir()
        if any(entry.glob("*.py"))
    }

    assert sorted(listed) == sorted(rooms | set(_PACKAGES))


@pytest.mark.parametrize(
    ("room", "other"), [("headrace.model", "headrace.kafka"), ("headrace.kafka", "headrace.s3")]
)
def test_an_arrow_upward_is_found(room: str, other: str) -> None:
    """The test above can fail, for a higher room and for one of the same level."""
    assert _upward({(room, other): Path("x.py")}, LEVELS) == [f"{room} imports {other} (x.py)"]


@pytest.mark.parametrize(
    ("room", "other"), [("listeners", "spark"), ("spark", "ingest.service"), ("headrace.kafka", "listeners")]
)
def test_an_arrow_across_is_found(room: str, other: str) -> None:
    """So can the one of packages."""
    assert _across({(room, other): Path("x.py")}) == [f"{room} imports {other} (x.py)"]
