"""A ledger whose end brokers have lost, in virtual time."""

from tests.simulation.courses import broken_of


def test_a_copy_of_lost_records_is_thrown_away() -> None:
    """`tests.simulation.lost_ledger`.

    Mutation tried: assigned without the epoch, what another machine has read is read again.
    """
    assert broken_of("lost_ledger") == {"lost_while_away": None}


def test_a_lost_ledger_begins_with_what_is_marked() -> None:
    """`tests.simulation.lost_ledger marked`: the documented way out, which `mark` itself refused.

    Mutations tried: without the acceptance of `submit`, the lead over the new ledger is refused; claimed
    by the takeover, it is begun without what a killed `mark` had not marked.
    """
    assert broken_of("lost_ledger marked") == {"lost_and_marked": None}
