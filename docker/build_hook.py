"""Hatchling's hook: wheel and sdist say of which commit they are, for `headrace_build_info`."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "ingest/COMMIT"


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # of whichever builder
    """Adds the file PLACE when the commit is known: HEADRACE_COMMIT, or what git says of the tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; an editable installation runs from the tree, which may change."""
        given = os.environ.get("HEADRACE_COMMIT")  # noqa: TID251 - a build has no other way in
        commit = given or _asked(Path(self.root))
        # What was unpacked from an sdist has it already.
        if version == "editable" or not commit or (Path(self.root) / PLACE).exists():
            return
        with tempfile.NamedTemporaryFile("w", suffix=".commit", delete=False) as file:
            file.write(f"{commit}\n")
        self._file = Path(file.name)
        build_data["force_include"][file.name] = PLACE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  # hatchling's interface
        """Called after each build."""
        if (file := getattr(self, "_file", None)) is not None:
            file.unlink()


def _asked(root: Path) -> str:
    """The commit of the tree, `-dirty` behind it when something was changed; empty outside a checkout."""
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],
            cwd=root, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return ""
    return done.stdout.strip()
