"""`--until-idle` of a sink, in virtual time."""

import subprocess
import sys


def test_a_run_until_idle_ends_and_not_too_early() -> None:
    """`tests.simulation.until_archived`.

    Mutations tried: without the ends that commits tell of, it has not ended after ten minutes; without the
    count of what slots have given up it ends with nothing archived.
    """
    command = [sys.executable, "-m", "tests.simulation.until_archived"]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
