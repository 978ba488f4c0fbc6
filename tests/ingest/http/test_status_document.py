"""docs/status.md names every field of `/status`, and no other."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from ingest.http.snapshot import (
    ArchivedObject,
    EventToCommit,
    QuarantinedObject,
    ReadingObject,
    RecentObject,
    SinkPartition,
    SinkStatus,
    Snapshot,
)
from ingest.source.catalogue import ExclusionReason
from ingest.source.catalogue.deduplication import MISSING, OUTDATED
from ingest.source.notification import EventKind
from tests.support.source_tree import nodes

ROOT: Final = Path(__file__).parents[3]
DOCUMENT: Final = ROOT / "docs" / "status.md"


def names(shape: Any) -> set[str]:
    """The fields of a dataclass."""
    return {field.name for field in fields(shape)}


def rows() -> dict[str, str]:
    """What the table says of each field, by name."""
    found = [line.split("|") for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    return {name: row[2] for row in found for name in re.findall(r"`(\w+)`", row[1])}


def test_every_field_of_the_snapshot_is_documented() -> None:
    """Others build on this shape."""
    assert set(rows()) == names(Snapshot)


@pytest.mark.parametrize(
    ("field", "shape"),
    [
        ("reading", ReadingObject),
        ("recent", RecentObject),
        ("quarantined", QuarantinedObject),
        ("event_to_commit", EventToCommit),
        ("sink", SinkStatus),
        ("sink", SinkPartition),
        ("sink", ArchivedObject),
    ],
)
def test_and_every_field_of_what_is_inside(field: str, shape: type) -> None:
    """In words or by name."""
    said = set(re.findall(r"\w+", rows()[field]))

    assert {"time" if name == "at_ms" else name for name in names(shape)} <= said


def first_arguments(*functions: str) -> Iterator[str]:
    """The texts that calls of these functions have first, constants of the module among them."""
    for path in sorted((ROOT / "ingest").rglob("*.py")):
        texts: dict[str, Any] = {}
        for node in nodes(path):
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value)):
                    texts[name] = value
        for node in nodes(path):
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
                    found = texts.get(first.id) if isinstance(first, ast.Name) else None
                    found = first.value if isinstance(first, ast.Constant) else found
                    if name in functions and isinstance(found, str):
                        yield found


def cells(heading: str, column: int) -> str:
    """A column of the table below a heading of the page."""
    text = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return "\n".join(line.split("|")[column] for line in text.splitlines() if line.startswith("| "))


def test_every_key_of_problems_is_documented() -> None:
    """An alert names the key, and the page what to do about it."""
    keys = set(first_arguments("trouble", "ComponentProblem"))
    shown = cells("`problems`", 2)

    assert {key for key in keys if f"`{key}`" not in shown} == set()
    assert {"lead", "post_action", "topics", "recovery"} <= keys, "the calls are found"


def test_every_reason_of_what_is_left_out_is_documented() -> None:
    """Those that are counted as ignored."""
    of_events = {MISSING, OUTDATED, EventKind.REMOVED.value, EventKind.OTHER.value}
    reasons = {*first_arguments("ignore", "ignored"), *of_events, *map(str, ExclusionReason)}
    shown = cells("Why objects are left out", 2)

    assert {reason for reason in reasons if f"`{reason}`" not in shown} == set()
    assert {"test_event", "forbidden", "moved"} <= reasons, "the calls are found"
