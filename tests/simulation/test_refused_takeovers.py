"""A lead that cannot be taken up, by the whole service in virtual time."""

import subprocess
import sys


def test_a_lead_that_cannot_be_taken_up_is_reported() -> None:
    """`tests.simulation.refused_takeovers`."""
    command = [sys.executable, "-m", "tests.simulation.refused_takeovers"]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
