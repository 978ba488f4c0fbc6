"""One topic that cannot be written, next to others, by the whole service in virtual time."""

import subprocess
import sys

import pytest

from tests.simulation.forbidden_topics import COURSES


@pytest.mark.parametrize("course", COURSES)
def test_a_topic_that_cannot_be_written_holds_up_no_other(course: str) -> None:
    """`tests.simulation.forbidden_topics`."""
    command = [sys.executable, "-m", "tests.simulation.forbidden_topics", course]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
