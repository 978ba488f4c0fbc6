"""Restarts in the middle of an inventory, and inventories that cannot be read, in virtual time."""

from tests.simulation.courses import broken_of


def test_nothing_is_lost_and_nothing_comes_twice() -> None:
    """`tests.simulation.inventory_restarts` has the courses."""
    assert broken_of("inventory_restarts") == {
        "killed_in_the_middle": None,
        "of_another_bucket": None,
        "manifest_gone": None,
        "files_gone": None,
    }
