"""A lead that cannot be taken up, by the whole service in virtual time."""

from tests.simulation.courses import broken_of


def test_a_lead_that_cannot_be_taken_up_is_reported() -> None:
    """`tests.simulation.refused_takeovers`."""
    assert broken_of("refused_takeovers") == {
        "the_first_start_of_a_process": None,
        "a_standby": None,
        "until_idle": None,
    }
