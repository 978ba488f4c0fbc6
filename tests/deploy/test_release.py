"""A release names itself the same everywhere: package, changelog, manifests, and the pages that show one."""

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
CHANGELOG: Final = (ROOT / "CHANGELOG.md").read_text()


def test_the_changelog_begins_with_what_is_unreleased_then_with_this_version() -> None:
    """Dated, so that Unreleased takes what comes next."""
    titles = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)

    assert titles[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d{{2}}-\d{{2}}", titles[1]), titles[1]


@pytest.mark.parametrize(
    "manifest", sorted((ROOT / "deploy").rglob("kustomization.yaml")), ids=lambda path: path.parent.name
)
def test_manifests_run_this_version(manifest: Path) -> None:
    """An image of another one is somebody else's choice."""
    assert re.findall(r"newTag: (\S+)", manifest.read_text()) == [VERSION]


def test_the_chart_runs_this_version() -> None:
    """Its appVersion is the tag of the image unless somebody gives another one."""
    chart = (ROOT / "deploy" / "helm" / "headrace" / "Chart.yaml").read_text()

    assert re.findall(r'^(?:appV|v)ersion: "?([^"\n]+)"?$', chart, re.MULTILINE) == [VERSION, VERSION]


def test_the_upgrade_notes_have_this_version() -> None:
    """What it asks of an operator, if only that it asks nothing."""
    assert f"## To {VERSION}\n" in (ROOT / "docs" / "upgrading.md").read_text()
