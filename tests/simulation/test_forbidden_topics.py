"""One topic that cannot be written, next to others, by the whole service in virtual time."""

import pytest

from tests.simulation.courses import broken_of
from tests.simulation.forbidden_topics import COURSES


@pytest.mark.parametrize("course", COURSES)
def test_a_topic_that_cannot_be_written_holds_up_no_other(course: str) -> None:
    """`tests.simulation.forbidden_topics` has the course of this name."""
    assert broken_of("forbidden_topics").get(course, "never played") is None
