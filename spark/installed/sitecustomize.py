"""Python's own hook, run at the start of a process: it looks for modules in none of Spark's archives.

Spark puts its `pyspark.zip`, `py4j-*.zip` and a jar before everything else. What is imported from an archive
is compiled in every process: a second of CPU for each that a query starts in the driver, one after the other,
and Spark gives up one that has not connected after ten seconds.
"""

import re
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Final

FOLDER: Final = str(Path(__file__).parent)
"""Where the hook is: on `PYTHONPATH` it is found."""

_HOOK: Final = "sitecustomize"
_ARCHIVE: Final = re.compile(r"/(pyspark|py4j-[^/]*)\.zip$|\.jar$")


def without_archives(path: list[str]) -> list[str]:
    """The places of `path` where modules are looked for, without Spark's own archives of what is installed.

    They stay where their Spark is not the one that PySpark is installed with.
    """
    installed = [place for place in path if not _ARCHIVE.search(place)]
    spec = PathFinder.find_spec("pyspark", installed)
    if spec is None or spec.origin is None:
        return path
    home = Path(spec.origin).resolve().parent
    return [
        place for place in path if not _ARCHIVE.search(place) or home not in Path(place).resolve().parents
    ]


def import_what_is_installed() -> None:
    """Look for modules in none of these archives any more."""
    kept = without_archives(sys.path)
    for place in set(sys.path).difference(kept):
        # Each task has the names in all that are known here read again: 0.04 s.
        sys.path_importer_cache.pop(place, None)
    sys.path[:] = kept


def run_hook_of_others() -> None:
    """Run the hook that Python would have found without this folder, if there is one: Debian's, say."""
    sys.path[:] = [place for place in sys.path if place != FOLDER]
    spec = PathFinder.find_spec(_HOOK, sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules[_HOOK] = module_from_spec(spec)
        spec.loader.exec_module(module)


if __name__ == _HOOK:
    import_what_is_installed()
    run_hook_of_others()
