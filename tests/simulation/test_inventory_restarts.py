"""Restarts in the middle of an inventory, and inventories that cannot be read, in virtual time."""

import subprocess
import sys


def test_nothing_is_lost_and_nothing_comes_twice() -> None:
    """`tests.simulation.inventory_restarts` has the courses."""
    command = [sys.executable, "-m", "tests.simulation.inventory_restarts"]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
