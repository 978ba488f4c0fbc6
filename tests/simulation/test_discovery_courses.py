"""What is announced, listed, replaced and left out, by the whole service in virtual time."""

from typing import Final

import pytest

from tests.simulation.courses import broken_of

_COURSES: Final = (
    "existing_left_alone",
    "existing_beneath_a_broken_upload",
    "announced_thrice",
    "several_in_one_message",
    "empty_objects",
    "overwritten",
    "every_version",
    "a_then_b_then_a",
    "deleted_and_uploaded_again",
    "missing_until_it_is_there",
    "headers_left_out",
    "messages_of_nothing",
    "messages_of_others",
    "keys_that_come_while_it_lists",
    "globs",
    "read_when_it_rests",
    "keys_of_which_none_is_read",
    "keys_that_the_template_does_not_take",
    "replayed_as_often_as_asked",
)


@pytest.mark.parametrize("course", _COURSES)
def test_it_comes_once_or_is_left_out(course: str) -> None:
    """`tests.simulation.discovery_courses` has the course of this name."""
    assert broken_of("discovery_courses").get(course, "never played") is None


def test_every_course_is_one_of_these() -> None:
    """None of them is passed over."""
    assert tuple(broken_of("discovery_courses")) == _COURSES
