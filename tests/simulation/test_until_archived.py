"""`--until-idle` of a sink, in virtual time."""

from tests.simulation.courses import broken_of


def test_a_run_until_idle_ends_and_not_too_early() -> None:
    """`tests.simulation.until_archived`.

    Mutations tried: without the ends that commits tell of, it has not ended after ten minutes; without the
    count of what slots have given up it ends with nothing archived.
    """
    assert broken_of("until_archived") == {"written_meanwhile": None, "killed_with_closed_objects": None}
