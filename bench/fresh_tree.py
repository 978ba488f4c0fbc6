"""What a person waits for in a fresh tree: `make setup`, the first `make demo`, and one more.

    python -m bench.first_minutes --only setup demo

The files that git knows, as they are now, are copied into a folder, without .venv and .cache; what
uv and pip keep of earlier downloads is left as it is. The parts run on free ports.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.stage import StageError

_TOP: Final = Path(__file__).resolve().parents[1]
# As localstack/steps.py says of a step that is over.
_STEP: Final = re.compile(r"^(\w+): +(.+): ([0-9.]+) s$", re.MULTILINE)
_LEAST_SECONDS: Final = 1.0


@contextmanager
def fresh_tree() -> Iterator[Path]:
    """A copy of this tree as a clone would have it; removed at the end."""
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=_TOP, text=True).split("\0")
    with TemporaryDirectory(prefix="headrace-tree-") as folder:
        for name in filter(None, names):
            if (_TOP / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(_TOP / name, Path(folder) / name)
        yield Path(folder)


def time_make(tree: Path, target: str) -> tuple[float, float, dict[str, float]]:
    """Seconds, CPU seconds of `make TARGET` there, and the seconds of its longer steps. StageError."""
    log = tree / f"{target}.log"
    # The tree has an environment of its own.
    argv = ["env", "-u", "PYTHONPATH", "-u", "VIRTUAL_ENV", "make", target]
    began = time.monotonic()
    with log.open("wb") as said:
        process = subprocess.Popen(argv, cwd=tree, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    if process.returncode:
        raise StageError(f"make {target} ended with {process.returncode}:\n{text[-2000:]}")
    steps = {f"{part}: {what}": float(seconds) for part, what, seconds in _STEP.findall(text)}
    long = {name: seconds for name, seconds in steps.items() if seconds >= _LEAST_SECONDS}
    return took, usage.ru_utime + usage.ru_stime, long
