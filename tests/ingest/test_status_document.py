"""docs/status.md names every field of `/status`, and no other."""

import re
from dataclasses import fields
from pathlib import Path

from ingest.service.snapshot import Snapshot

DOCUMENT = Path(__file__).parents[2] / "docs" / "status.md"


def test_every_field_of_the_snapshot_is_documented() -> None:
    """Others build on this shape."""
    rows = [line.split("|")[1] for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert documented == {field.name for field in fields(Snapshot)}
