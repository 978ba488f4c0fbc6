"""One topic that may not be written, next to others, by the whole service in virtual time."""

import subprocess
import sys


def test_a_forbidden_topic_holds_up_no_other() -> None:
    """`tests.simulation.forbidden_topics`."""
    command = [sys.executable, "-m", "tests.simulation.forbidden_topics"]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
