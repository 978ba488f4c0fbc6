"""What Headrace imports is in its lock, and THIRD-PARTY.md names what the lock has, with its versions."""

import ast
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.support.source_tree import nodes_that_run

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


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement)[0]).lower()


def _locked() -> set[str]:
    lines = (TOP / "requirements.lock").read_text().splitlines()
    return {_name(line) for line in lines if re.match(r"[A-Za-z0-9]", line)}


def _imported() -> Iterator[tuple[str, Path]]:
    """The packages that the product's modules import, wherever in them."""
    files = [
        path for room in ("headrace", "ingest", "listeners", "spark") for path in (TOP / room).rglob("*.py")
    ]
    for path in files:
        for node in nodes_that_run(path):
            if isinstance(node, ast.Import):
                yield from ((one.name.partition(".")[0], path) for one in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                yield node.module.partition(".")[0], path


def test_the_lock_has_what_the_project_names() -> None:
    """The image is made of the lock alone: what is not in it fails in the image, and nowhere else."""
    wanted = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"]

    assert {_name(one) for one in wanted} - _locked() == set()


def test_the_lock_has_what_is_imported() -> None:
    """Here all packages of development are installed, so that a missing one would not be missed."""
    ours = {path.name for path in TOP.iterdir() if path.is_dir()} | {"pyspark_headrace"}
    known = packages_distributions()
    locked = _locked() | {"pandas"}  # the extra connect has it
    missing = {
        f"{path.relative_to(TOP)} imports {name}"
        for name, path in _imported()
        if name not in sys.stdlib_module_names
        and name not in ours
        and not locked & {_name(one) for one in known.get(name, [name])}
    }

    assert missing == set()
