"""The rooms in levels: a room imports only rooms of lower levels, so there is no circle and no arrow upward.

`docs/architecture.md` tells what each room holds; this is where their order is written down.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parent.parent
_PACKAGES: Final = ("archive", "headrace", "ingest", "listeners", "layouts", "spark")
# Packages whose modules and subpackages are rooms of their own; the others are one room each.
_HOUSES: Final = frozenset({"ingest", "spark"})

# The highest first. Whoever needs a room of its own level has found a shared thing that belongs below.
LEVELS: Final = (
    ("headrace", "ingest.__main__"),
    ("ingest.cli",),
    ("ingest.worker",),
    ("ingest.service", "ingest.setup"),
    (
        "ingest.commands",
        "ingest.metrics",
        "ingest.page",
        "ingest.process_metrics",
        "ingest.rest",
        "ingest.traces",
    ),
    ("ingest.probes", "spark.dump_classes", "spark.frames"),
    (
        "archive",
        "ingest.athena",
        "ingest.checks",
        "ingest.object_selection",
        "ingest.planner",
        "listeners",
        "spark.slots",
    ),
    ("ingest.catalogue", "spark.sink", "spark.source"),
    ("spark.transforms",),
    ("spark.converters", "spark.task"),
    (
        "ingest.notification",
        "spark.consumer",
        "spark.formats",
        "spark.producer",
        "spark.reader",
        "spark.session",
    ),
    (
        "ingest.kafka",
        "ingest.key_routes",
        "spark.compression",
        "spark.librdkafka",
        "spark.converted_records",
        "spark.header_values",
        "spark.records",
        "spark.s3",
    ),
    (
        "ingest.aws_credentials",
        "ingest.content",
        "ingest.error_policy",
        "ingest.options_hash",
        "spark.byte_source",
        "spark.class_archive",
        "spark.code_archive",
        "spark.daemon",
        "spark.jvm",
        "spark.master",
        "spark.versions",
        "spark.kafka_records",
        "spark.rows",
        "spark.socket_protocol",
    ),
    ("ingest.aws_errors", "ingest.exits", "ingest.http", "ingest.logs", "ingest.settings", "spark.memory"),
    ("layouts",),
    ("ingest.kcql", "ingest.log_levels", "ingest.model", "ingest.template"),
    (
        "ingest.clock",
        "ingest.columns",
        "ingest.errors",
        "ingest.marked_error",
        "ingest.repeats",
        "ingest.sanitize",
        "ingest.service_models",
        "ingest.text_formatting",
        "ingest.threads",
    ),
)


def _room(module: str) -> str:
    """The room of a module: `ingest.kafka` for `ingest.kafka.fencing`, `listeners` for `listeners.sqs`."""
    house, _, rest = module.partition(".")
    return f"{house}.{rest.partition('.')[0]}" if house in _HOUSES and rest else house


def _imported(tree: ast.Module) -> Iterator[str]:
    """Every module of ours that a module imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from ingest import logs` names a room only with what is imported.
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
            for name in _imported(ast.parse(path.read_text())):
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


def test_rooms_import_only_rooms_below_them() -> None:
    """No circle, no arrow upward."""
    assert _upward(_edges(), LEVELS) == []


def test_every_room_has_one_level() -> None:
    """A new room is put where it belongs; one that is gone leaves the list."""
    listed = [room for rooms in LEVELS for room in rooms]
    entries = {
        f"{house}.{entry.stem}"
        for house in _HOUSES
        for entry in (_ROOT / house).iterdir()
        if entry.stem != "__init__" and (entry.suffix == ".py" or any(entry.glob("*.py")))
    }

    assert sorted(listed) == sorted(entries | set(_PACKAGES) - _HOUSES)


@pytest.mark.parametrize(
    ("room", "other"), [("ingest.model", "ingest.kafka"), ("ingest.kafka", "ingest.key_routes")]
)
def test_an_arrow_upward_is_found(room: str, other: str) -> None:
    """The test above can fail, for a higher room and for one of the same level."""
    assert _upward({(room, other): Path("x.py")}, LEVELS) == [f"{room} imports {other} (x.py)"]
