"""THIRD-PARTY.md names the packages that are installed, with the versions of the lock file."""

import runpy
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_the_page_is_what_the_lock_file_says() -> None:
    """Made again after each change of the lock: .venv/bin/python docker/third_party.py > THIRD-PARTY.md."""
    made = runpy.run_path(str(TOP / "docker" / "third_party.py"))["rows"]()
    page = (TOP / "THIRD-PARTY.md").read_text().splitlines()

    assert [line for line in page if line.startswith("| ")][2:] == made


def test_every_package_has_a_licence() -> None:
    """Or somebody has to look at it."""
    page = (TOP / "THIRD-PARTY.md").read_text()

    assert "see its metadata" not in page
