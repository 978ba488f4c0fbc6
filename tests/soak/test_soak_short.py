"""A soak of two minutes: that the account of the long one counts, and comes out exact."""

from pathlib import Path

import pytest

from tests.soak.soak import run

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_short_soak_is_exact(tmp_path: Path) -> None:
    """Rows in are rows in the topic, dead letters, and rows of quarantined objects after their position."""
    assert run(2, objects_per_second=5, seed=7, folder=tmp_path)
