"""What the tables of CONTRIBUTING and the architecture's page name is in the listing."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT

_ROOMS: Final = ("headrace", "ingest", "listeners", "spark")
_NAMED: Final = {path.name for room in _ROOMS for path in (ROOT / room).rglob("*.py")}
_SPAN: Final = re.compile(r"`([^`\n]+)`")


def _missing(text: str) -> list[str]:
    """The paths in code spans of a page's tables that are not there."""
    found = []
    for line in text.splitlines():
        for span in _SPAN.findall(line) if line.startswith("| ") else ():
            if re.fullmatch(rf"(?:{'|'.join(_ROOMS)})/[\w/.]*", span):
                if not (ROOT / span).exists():
                    found.append(span)
            elif re.fullmatch(r"\w+\.py", span) and span not in _NAMED:
                found.append(span)
    return found


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_what_the_tables_name_is_there(page: str) -> None:
    """A module that is moved or folded takes its row along."""
    text = (ROOT / page).read_text()
    assert _missing(text) == []


def test_a_table_that_names_a_constant_names_its_package() -> None:
    """`SPLITTERS` in `headrace/formats/`: the folder's modules have it."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([A-Z_]{3,})` in `((?:headrace|ingest|listeners|spark)/[\w/.]*)`", text)
    assert named
    for constant, place in named:
        where = ROOT / place
        modules = [where] if where.is_file() else sorted(where.glob("*.py"))
        assert any(re.search(rf"^{constant}\b", module.read_text(), re.MULTILINE) for module in modules), (
            constant
        )


def test_a_row_that_names_what_is_gone_is_found(tmp_path: Path) -> None:
    """Both forms: a path, and a module's name after its neighbour's path."""
    page = tmp_path / "page.md"
    page.write_text("| Where? | `headrace/gone.py`, `gone_too.py` |\n")
    assert _missing(page.read_text()) == ["headrace/gone.py", "gone_too.py"]


def test_did_you_mean_is_made_in_one_place() -> None:
    """Nothing else compares names or writes the words."""
    found = {
        str(path.relative_to(ROOT))
        for room in _ROOMS
        for path in (ROOT / room).rglob("*.py")
        if re.search(r"import difflib|from difflib|did you mean \{", path.read_text())
    }
    row = next(line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if "Did you mean" in line)
    assert found == set(_SPAN.findall(row))
