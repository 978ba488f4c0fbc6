"""docs/status.md names every field of `/status`, and no other."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

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

DOCUMENT = Path(__file__).parents[3] / "docs" / "status.md"


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
