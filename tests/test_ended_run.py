"""A run of tests that is told to end."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.until import until_sync

_TEST: Final = """
import time
from pathlib import Path

import pytest

@pytest.fixture
def part():
    yield Path("started").touch()
    Path("stopped").touch()

def test_that_lasts(part):
    time.sleep(600)
"""


def test_fixtures_are_torn_down(tmp_path: Path) -> None:
    """As after Ctrl-C: what they have started would run on, and fill the machine."""
    (tmp_path / "test_lasting.py").write_text(_TEST)
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [
            *("env", f"PYTHONPATH={root}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable),
            *("-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull),
            *("--rootdir", str(tmp_path), "test_lasting.py"),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            until_sync((tmp_path / "started").exists, seconds=60, what="the test runs")
            run.send_signal(signal.SIGTERM)
            out, _ = run.communicate(timeout=60)
        finally:
            run.kill()

    assert (tmp_path / "stopped").exists(), out
    assert run.returncode == 2
