"""One topic that cannot be written, next to others, by the whole service in virtual time."""

import json
import subprocess
import sys

import pytest

from tests.simulation.forbidden_topics import COURSES


@pytest.fixture(scope="module")
def broken() -> dict[str, str | None]:
    """What broke, by course: all in one process, whose start takes longer than a course."""
    command = [sys.executable, "-m", "tests.simulation.forbidden_topics"]  # this project's own
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("course", COURSES)
def test_a_topic_that_cannot_be_written_holds_up_no_other(broken: dict[str, str | None], course: str) -> None:
    """`tests.simulation.forbidden_topics` has the course of this name."""
    assert broken[course] is None
