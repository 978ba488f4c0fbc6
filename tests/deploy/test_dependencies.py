"""What an installation brings: all that the product imports, and nothing that it does not."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

from tests.support.source_tree import nodes_that_run

_TOP: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = ("headrace", "ingest", "listeners", "spark")
# What no line imports (protoc runs as a module), and what comes with a declared package that cannot do
# without it.
_WITHOUT_IMPORT: Final = frozenset({"googleapis-common-protos", "grpcio-tools"})
_BROUGHT: Final = {
    "botocore": "aiobotocore",
    "urllib3": "aiobotocore",
    "py4j": "pyspark",
    "grpcio": "pyspark",
}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _names(requirements: list[str]) -> set[str]:
    return {_plain(re.split(r"[\[<>=!~; ]", one, maxsplit=1)[0]) for one in requirements}


def _imported() -> dict[str, str]:
    """Each package that is imported at any place, and one place."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        for path in sorted((_TOP / package).rglob("*.py")):
            for node in nodes_that_run(path):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    names = [node.module]
                for name in names:
                    found.setdefault(name.partition(".")[0], str(path.relative_to(_TOP)))
    known = {*sys.stdlib_module_names, *_PACKAGES}
    return {name: place for name, place in found.items() if name not in known}


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    """A library that only another one happens to bring is gone with it."""
    project = tomllib.loads((_TOP / "pyproject.toml").read_text())["project"]
    needed = _names(project["dependencies"])
    optional = _names([one for extra in project["optional-dependencies"].values() for one in extra])
    of_package = packages_distributions()
    places = _imported()
    imported = {
        name: {_BROUGHT.get(_plain(one), _plain(one)) for one in of_package.get(name, [name])}
        for name in places
    }

    undeclared = {name: places[name] for name, ones in imported.items() if not ones & (needed | optional)}
    assert undeclared == {}
    assert needed - set().union(*imported.values()) - _WITHOUT_IMPORT == set()
